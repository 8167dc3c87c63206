// says: a duration: 1500ms, not 1.5s; then a function
// lines: 6
#include "tvec/tvec.hpp"

void add(tvec::timeout_pool<>& pool) {
    pool.schedule(100, [] {});
}
