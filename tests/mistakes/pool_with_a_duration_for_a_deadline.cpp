// says: a time_point of its clock, then a function
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void add(tvec::timeout_pool<>& pool) {
    pool.schedule_at(1ms, [] {});
}
