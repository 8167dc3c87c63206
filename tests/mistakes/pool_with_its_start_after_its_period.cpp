// says: a start, a duration
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void add(tvec::timeout_pool<>& pool) {
    pool.schedule_every(100ms, std::chrono::steady_clock::now(), [] {});
}
