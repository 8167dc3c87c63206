// Ticks, delays and periods may be signed. A negative one counts as 0, as with a clock: what is
// armed for it fires on the next tick.
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "tvec/coroutines/sleep.hpp"

using support::jiffies;
using support::probe;
using tvec::tick_count, tvec::timer_wheel;

TestSuite(signed_ticks, .timeout = 60);

namespace {

// Calls attempt(n) for negative numbers of every signed type, none of them a constant.
template <class F> void for_each_negative(F attempt) {
    const auto attempt_all = [&](auto... limits) {
        (attempt(limits), ...);
        (attempt(static_cast<decltype(limits)>(-5)), ...);
    };
    attempt_all(std::numeric_limits<signed char>::min(), std::numeric_limits<short>::min(),
                std::numeric_limits<int>::min(), std::numeric_limits<std::int64_t>::min());
}

// Returns whether all timers that `arm` arms, on a wheel at tick 1000, fire on the next tick.
template <class F> bool fires_next(F arm) {
    bool next = true;
    for_each_negative([&](auto negative) {
        timer_wheel wheel(1000);
        probe p;
        arm(wheel, p.t, negative);
        next = next && wheel.next_wakeup() == jiffies{1001};
        wheel.advance(1001);
        next = next && p.fired_only_at(1001);
    });
    return next;
}

}  // namespace

Test(signed_ticks, negative_ticks_mean_the_next_tick) {
    CHECK(fires_next([](auto& w, auto& t, auto n) { w.arm_at(t, n); }));
    CHECK(fires_next([](auto& w, auto& t, auto n) { w.arm_after(t, n); }));
    CHECK(fires_next([](auto& w, auto& t, auto n) { w.arm_if_earlier(t, n); }));
    CHECK(fires_next([](auto& w, auto& t, auto n) { w.arm_within(t, n, n); }));
    CHECK(fires_next([](auto& w, auto& t, auto n) {
        w.arm_after(t, 70);
        w.arm_if_pending(t, n);
    }));
}

Test(signed_ticks, a_window_from_the_past_begins_now) {
    timer_wheel wheel(1000);
    probe p;
    wheel.arm_within(p.t, -5, 1003);
    CHECK_EQ(p.t.expires(), 1002);
}

Test(signed_ticks, a_negative_period_counts_as_one_tick) {
    for_each_negative([](auto negative) {
        timer_wheel wheel(1000);
        probe p;
        wheel.arm_at(p.t, 1000);
        CHECK_EQ(wheel.arm_next(p.t, negative), 0);
        CHECK_EQ(p.t.expires(), 1001);
    });
}

Test(signed_ticks, a_negative_tick_is_a_backward_clock_step) {
    for_each_negative([](auto negative) {
        timer_wheel wheel(1000);
        probe p;
        wheel.arm_after(p.t, 5);
        CHECK(wheel.advance(negative).caught_up);
        CHECK_EQ(wheel.now(), 1000);
        CHECK_EQ(wheel.count().clock_backward, 1);
        CHECK_EQ(p.fired(), 0);
    });
}

Test(signed_ticks, a_wheel_does_not_begin_before_0) {
    for_each_negative([](auto negative) { CHECK_EQ(timer_wheel(negative).now(), 0); });
}

Test(signed_ticks, sleeps_for_negative_ticks_last_one_tick) {
    CHECK(fires_next([](auto& w, auto& t, auto n) {
        tvec::sleeper until = sleep_until(w, n), after = sleep_for(w, n);
        until.await_suspend(std::noop_coroutine());
        after.await_suspend(std::noop_coroutine());
        CHECK_EQ(w.next_wakeup(), jiffies{1001});
        w.arm_after(t, n);
    }));
}

Test(signed_ticks, ticks_that_are_not_negative_are_unchanged) {
    static_assert(tick_count(0) == 0 && tick_count(1) == 1 && tick_count(true) == 1);
    static_assert(tick_count(5) == 5 && tick_count(~jiffies{}) == ~jiffies{});
    static_assert(tick_count(std::int64_t{1} << 62) == jiffies{1} << 62);
    static_assert(tick_count(static_cast<unsigned char>(255)) == 255);
    static_assert(tick_count(~0u) == ~0u);
}

namespace {

struct of_a_server {
    static const int delay = 7;  // nowhere defined, so nobody may refer to it
};

}  // namespace

Test(signed_ticks, a_constant_that_is_only_declared_will_do) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, of_a_server::delay);
    CHECK_EQ(p.t.expires(), 7);
}

Test(signed_ticks, only_integers_convert_to_tick_counts) {
    enum plain { two = 2 };
    enum class scoped { two = 2 };
    using atomic = const std::atomic<jiffies>&;
    using constant = std::integral_constant<int, -2>;
    static_assert(std::convertible_to<plain, tick_count> && std::convertible_to<bool, tick_count>);
    static_assert(std::convertible_to<atomic, tick_count> && tick_count(constant()) == 0);
    static_assert(!std::convertible_to<scoped, tick_count>);
    static_assert(!std::convertible_to<double, tick_count>);
    static_assert(!std::convertible_to<std::chrono::seconds, tick_count>);
    static_assert(!std::convertible_to<timer_wheel&, tick_count>);
    static_assert(sizeof(tick_count) == sizeof(jiffies));
    static_assert(std::is_trivially_copyable_v<tick_count>);  // passed as a jiffies is
}
