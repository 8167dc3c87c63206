// says: a start, a duration
// lines: 6
#include "tvec/tvec.hpp"

void add(tvec::timeout_pool<>& pool) {
    pool.schedule_every(std::chrono::steady_clock::now(), 100, [] {});
}
