// Conversion from a wheel's clock to the setting of a kernel's alarm.
#include "support/check.hpp"
#include "tvec/drivers/detail/only_earlier.hpp"

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using tvec::detail::nanoseconds_from;

namespace {

template <class Duration> using point = std::chrono::time_point<tvec::manual_clock, Duration>;
using fine = point<nanoseconds>;
using coarse = point<std::chrono::duration<std::int64_t>>;
using finer = point<std::chrono::duration<std::int64_t, std::pico>>;

}  // namespace

Test(alarm_clock, remaining_time_rounds_up_and_is_never_negative) {
    CHECK(nanoseconds_from(fine(5ns), fine(7ns)) == 2ns);
    CHECK(nanoseconds_from(fine(7ns), fine(5ns)) == 0ns);
    CHECK(nanoseconds_from(fine(-7ns), fine(5ns)) == 12ns);
    CHECK(nanoseconds_from(coarse(5s), coarse(7s)) == 2s);
    CHECK(nanoseconds_from(finer(finer::duration(1)), finer(finer::duration(1002))) == 2ns);
}

Test(alarm_clock, the_time_remaining_saturates) {
    CHECK(nanoseconds_from(fine::min(), fine::max()) == nanoseconds::max());
    CHECK(nanoseconds_from(fine(0ns), fine::max()) == nanoseconds::max());
    CHECK(nanoseconds_from(fine::max(), fine::min()) == 0ns);
    CHECK(nanoseconds_from(coarse(0s), coarse::max()) == nanoseconds::max());
    CHECK(nanoseconds_from(coarse::min(), coarse::max()) == nanoseconds::max());
}

Test(alarm_clock, kernel_clocks_get_absolute_times_and_others_relative) {
    using tvec::manual_clock;
    const auto tomorrow = std::chrono::steady_clock::time_point(24h);
    CHECK(tvec::detail::alarm_clock_of<std::chrono::steady_clock>.same_epoch);
    CHECK(tvec::detail::alarm_clock_of<tvec::boottime_clock>.same_epoch);
    CHECK(tvec::detail::alarm_clock_of<std::chrono::system_clock>.same_epoch);
    CHECK(!tvec::detail::alarm_clock_of<manual_clock>.same_epoch);
    CHECK(tvec::detail::alarm_time<std::chrono::steady_clock>(tomorrow, true) == 24h);
    manual_clock::set(manual_clock::time_point(3s));
    CHECK(tvec::detail::alarm_time<manual_clock>(manual_clock::time_point(5s), false) == 2s);
}

Test(alarm_clock, remaining_time_until_the_end_is_unlimited) {
    tvec::manual_clock::set(fine(3s));
    const auto now = [] { return tvec::manual_clock::now(); };
    CHECK(tvec::detail::alarm_time(fine::max(), false, now) == nanoseconds::max());
}

Test(alarm_clock, relative_alarms_are_not_set_again_needlessly) {
    using std::chrono::steady_clock;
    const auto wakeup = steady_clock::now() + 1h;
    auto set_for = nanoseconds::max();
    int sets = 0;
    const auto rearm = [&](auto at, auto now) {
        const auto set = [&](nanoseconds) { return ++sets, tvec::detail::kernel_result{}; };
        return tvec::detail::only_earlier(set_for, at, false, now, set).yes;
    };
    for (int i = 0; i < 10'000; ++i) CHECK(rearm(wakeup, [] { return steady_clock::now(); }));
    CHECK_EQ(sets, 1);
    CHECK(rearm(wakeup, [] { return steady_clock::now() + 1s; }));  // a step forward
    CHECK_EQ(sets, 2);
    CHECK(rearm(wakeup, [] { return steady_clock::now() - 1s; }));  // and back
    CHECK_EQ(sets, 2);
}
