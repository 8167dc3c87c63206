// says: a duration: 1500ms, not 1.5s
// lines: 6
#include "tvec/tvec.hpp"

void move(tvec::timeout_pool<>& pool, tvec::timeout_handle h) { pool.reschedule(h, 100); }
