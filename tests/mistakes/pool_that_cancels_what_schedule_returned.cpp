// says: the handle in what `schedule` returned
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void cancel(tvec::timeout_pool<>& pool) {
    const auto reply = pool.schedule(1ms, [] {});
    pool.cancel(reply);
}
