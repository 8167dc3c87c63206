// legal: it is moved
#include <memory>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void add(tvec::timeout_pool<>& pool) {
    pool.schedule(1ms, [u = std::make_unique<int>(1)] {});
}
