// Conversion from a wheel's clock to the setting of a kernel's alarm.
#include "tvec/drivers/detail/alarm_clock.hpp"
#include "support/check.hpp"

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using tvec::detail::nanoseconds_from;

namespace {

template <class Duration> using point = std::chrono::time_point<tvec::manual_clock, Duration>;
using fine = point<nanoseconds>;
using coarse = point<std::chrono::duration<std::int64_t>>;
using finer = point<std::chrono::duration<std::int64_t, std::pico>>;

}  // namespace

Test(alarm_clock, what_is_left_rounds_up_and_is_never_negative) {
    CHECK(nanoseconds_from(fine(5ns), fine(7ns)) == 2ns);
    CHECK(nanoseconds_from(fine(7ns), fine(5ns)) == 0ns);
    CHECK(nanoseconds_from(fine(-7ns), fine(5ns)) == 12ns);
    CHECK(nanoseconds_from(coarse(5s), coarse(7s)) == 2s);
    CHECK(nanoseconds_from(finer(finer::duration(1)), finer(finer::duration(1002))) == 2ns);
}

Test(alarm_clock, what_is_left_saturates) {
    CHECK(nanoseconds_from(fine::min(), fine::max()) == nanoseconds::max());
    CHECK(nanoseconds_from(fine(0ns), fine::max()) == nanoseconds::max());
    CHECK(nanoseconds_from(fine::max(), fine::min()) == 0ns);
    CHECK(nanoseconds_from(coarse(0s), coarse::max()) == nanoseconds::max());
    CHECK(nanoseconds_from(coarse::min(), coarse::max()) == nanoseconds::max());
}

Test(alarm_clock, the_kernels_own_clocks_are_set_for_a_point_in_time_and_others_for_what_is_left) {
    using tvec::manual_clock;
    const auto tomorrow = std::chrono::steady_clock::time_point(24h);
    CHECK(tvec::detail::alarm_clock_of<std::chrono::steady_clock>.same_epoch);
    CHECK(tvec::detail::alarm_clock_of<tvec::boottime_clock>.same_epoch);
    CHECK(!tvec::detail::alarm_clock_of<manual_clock>.same_epoch);
    CHECK(tvec::detail::alarm_time<std::chrono::steady_clock>(tomorrow, true) == 24h);
    manual_clock::set(manual_clock::time_point(3s));
    CHECK(tvec::detail::alarm_time<manual_clock>(manual_clock::time_point(5s), false) == 2s);
}
