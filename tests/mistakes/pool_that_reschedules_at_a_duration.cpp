// says: a time_point of its clock
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void move(tvec::timeout_pool<>& pool, tvec::timeout_handle h) { pool.reschedule_at(h, 5ms); }
