// says: a timeout's function is called with nothing, or with a const timeout_call&
// lines: 4
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void add(tvec::timeout_pool<>& pool) {
    pool.schedule(1ms, [](int) {});
}
