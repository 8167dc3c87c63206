#include "clock.hpp"

#include <time.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

using tvec::c::point;
using tvec::c::ticks_of;

namespace {

#ifdef __linux__
static_assert(TVEC_CLOCK_MONOTONIC == CLOCK_MONOTONIC && TVEC_CLOCK_BOOTTIME == CLOCK_BOOTTIME);
constexpr bool has_boottime = true;
#else
constexpr bool has_boottime = false;
#endif

/// Returns the number of the clock on this system.
clockid_t number_of(const tvec_clock& clock) noexcept {
    return has_boottime ? static_cast<clockid_t>(clock.id) : CLOCK_MONOTONIC;
}

}  // namespace

int tvec_clock_init(tvec_clock* clock, int id, int64_t tick) {
    const bool is_known = id == TVEC_CLOCK_MONOTONIC || (has_boottime && id == TVEC_CLOCK_BOOTTIME);
    if (!is_known || tick <= 0) return -EINVAL;
    *clock = {id, 0, tick};
    clock->origin = tvec_clock_read(clock);
    return 0;
}

int64_t tvec_clock_read(const tvec_clock* clock) {
    timespec t{};
    [[maybe_unused]] const int result = clock_gettime(number_of(*clock), &t);
    assert(result == 0 && "tvec_clock_init has returned 0");
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

uint64_t tvec_clock_now(const tvec_clock* clock) {
    return tvec_clock_floor(clock, tvec_clock_read(clock));
}

uint64_t tvec_clock_floor(const tvec_clock* clock, int64_t time) {
    return ticks_of(*clock).floor(point(time));
}

uint64_t tvec_clock_ceil(const tvec_clock* clock, int64_t deadline) {
    return ticks_of(*clock).ceil(point(deadline));
}

uint64_t tvec_clock_after(const tvec_clock* clock, int64_t delay) {
    const std::chrono::nanoseconds at_least_none(std::max<int64_t>(delay, 0));
    return ticks_of(*clock).ceil(tvec::detail::add(point(tvec_clock_read(clock)), at_least_none));
}

uint64_t tvec_clock_ticks(const tvec_clock* clock, int64_t duration) {
    return ticks_of(*clock).ticks_to_cover(std::chrono::nanoseconds(duration));
}

int64_t tvec_clock_start_of(const tvec_clock* clock, uint64_t tick) {
    return ticks_of(*clock).start_of(tick).time_since_epoch().count();
}

int tvec_wait_ms(tvec_wheel* wheel, const tvec_clock* clock) {
    return tvec::detail::whole_milliseconds(tvec::c::time_to_wakeup(wheel, *clock));
}
