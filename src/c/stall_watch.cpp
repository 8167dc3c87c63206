#include <algorithm>
#include <cassert>
#include <chrono>
#include <new>

#include "casts.hpp"
#include "clock.hpp"
#include "own.hpp"
#include "tvec/clock/detail/stall_rule.hpp"
#include "tvec/tvec.h"

namespace {

struct watch_of_c {
    tvec::detail::stall_rule rule;  // first: its first member is the number of stalls
    tvec_wheel* wheel;
    const tvec_clock* clock;
};

const watch_of_c& own(const tvec_stall_watch* watch) {
    return tvec::c::own<watch_of_c>(const_cast<tvec_stall_watch*>(watch));
}

}  // namespace

void tvec_stall_watch_init(tvec_stall_watch* watch, tvec_wheel* wheel, const tvec_clock* clock,
                           int64_t grace) {
    assert(watch && wheel && clock && "no pointer is null");
    const std::chrono::nanoseconds now(tvec_clock_read(clock));
    new (watch) watch_of_c{{now, std::chrono::nanoseconds(grace)}, wheel, clock};
}

void tvec_stall_watch_listen(tvec_stall_watch* watch) {
    auto& w = tvec::c::own<watch_of_c>(watch);
    const int64_t now = tvec_clock_read(w.clock);
    const int64_t due = std::min(tvec::c::next_wakeup(w.wheel, *w.clock), now);
    w.rule.begin(std::chrono::nanoseconds(now), std::chrono::nanoseconds(due));
}

tvec_progress tvec_stall_watch_run(tvec_stall_watch* watch, size_t heard, size_t budget) {
    auto& w = tvec::c::own<watch_of_c>(watch);
    w.rule.end(heard);
    if (w.rule.listening()) return {0, false};
    const auto done =
        w.rule.fire(tvec::c::as_cpp(w.wheel), tvec_clock_floor(w.clock, w.rule.last().count()),
                    budget, [&w] { return std::chrono::nanoseconds(tvec_clock_read(w.clock)); });
    return {done.fired, done.caught_up};
}

bool tvec_stall_watch_just_back(const tvec_stall_watch* watch) {
    return own(watch).rule.just_back();
}
