// legal: a timeout may be nobody's
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void add(tvec::timeout_pool<>& pool) {
    pool.schedule(1ms, [] {});
    pool.cancel({});
}
