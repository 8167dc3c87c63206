// tsc_clock: its calibration on made-up counters, and the clock itself beside steady_clock.
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <string_view>
#include <thread>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/probe.hpp"
#include "support/readable.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/extra/tsc_clock.hpp"
#include "tvec/extra/turn_clock.hpp"

using namespace std::chrono_literals;
using tvec::tsc_clock;
using tvec::detail::counter_calibration;
using tvec::detail::counter_sample;

TestSuite(counters, .timeout = 60);

namespace {

constexpr std::int64_t ms = 1'000'000, drift = std::chrono::nanoseconds(tsc_clock::drift).count();

// A machine with a counter and a kernel's clock, and a thread that reads both.
struct machine {
    double time = 5e9, count = 1e12;
    double ghz = 2.5, slew = 1;     // the counter's rate, and the kernel's by real time
    bool always_disturbed = false;  // an interrupt in each sample
    bool counter_steps = false;     // also back, in a line
    std::mt19937 random{7};
    counter_calibration calibration;
    std::int64_t last = 0;
    unsigned by_counter = 0, by_kernel = 0;

    void pass(double ns) {
        time += ns * slew;
        count += ns * ghz;
    }
    std::int64_t now() const { return static_cast<std::int64_t>(time); }
    std::uint64_t counter() const { return static_cast<std::uint64_t>(count); }

    // Takes as long as two readings of the kernel's clock, unevenly spread.
    counter_sample sample() {
        const double width = always_disturbed ? 9'000 : 20 + random() % 480, part = random() % 100;
        counter_sample s{now(), 0, 0};
        pass(width * part / 100);
        s.count = counter();
        pass(width * (1 - part / 100));
        s.after = now();
        return s;
    }
    std::int64_t read() {
        const auto& line = calibration.line;
        const bool holds = line.holds(counter());
        ++(holds ? by_counter : by_kernel);
        const std::int64_t t = holds ? line.at(counter()) : calibration.step(sample());
        CHECK(t >= last || counter_steps);  // never back
        return last = t;
    }
    std::int64_t error() { return read() - now(); }
    void warm_up() {
        for (int i = 0; i < 50; ++i, pass(1e5)) read();
    }
    // Reads on for `ns`, and checks the drift.
    void expect_together(double ns, std::int64_t most = drift, double step = 10'007) {
        for (double passed = 0; passed < ns; passed += step, pass(step))
            CHECK(std::abs(error()) <= most);
    }
};

}  // namespace

Test(counters, drift_is_bounded_at_any_counter_rate) {
    for (const double ghz : {0.024, 0.1, 1., 2.5, 5.}) {
        machine m{.ghz = ghz};
        m.warm_up();
        m.by_counter = m.by_kernel = 0;
        m.expect_together(1e9);
        CHECK(m.by_counter > 50 * m.by_kernel);
    }
}

Test(counters, drift_is_bounded_while_ntp_slews) {
    machine m;
    m.warm_up();
    for (int i = 0; i < 300; ++i) {
        m.slew = m.random() % 2 == 0 ? 1 : 1 + (m.random() % 1000 - 500.) * 1e-6;
        m.expect_together(1.3e6);
    }
}

Test(counters, rate_is_bounded) {
    machine m;
    m.warm_up();
    for (int i = 0; i < 100'000; ++i) {
        const std::int64_t kernel = m.now(), own = m.read();
        m.pass(10'000);
        const std::int64_t passed = m.now() - kernel, shown = m.read() - own;
        CHECK(shown >= passed * 7 / 8 - 1'000);
        CHECK(shown <= passed + 2 * drift);
    }
}

Test(counters, a_clock_ahead_runs_slower_until_both_meet) {
    for (const std::int64_t ahead : {std::int64_t{1'500}, 10 * ms}) {
        counter_calibration c;
        for (std::int64_t t = 4 * ms; t <= 8 * ms; t += ms)
            c.step({t, static_cast<std::uint64_t>(3 * t), t});
        c.shown = 9 * ms + ahead;
        const std::uint64_t at_once = 27 * ms;
        CHECK_EQ(c.step({9 * ms, at_once, 9 * ms}), 9 * ms + ahead);
        const std::int64_t shown = c.line.at(at_once + 3 * ms) - c.shown;
        CHECK(std::abs(shown - std::max(ms - ahead, ms * 7 / 8)) <= 1);
    }
}

Test(counters, rare_readings_get_the_kernels_time) {
    machine m;
    m.warm_up();
    for (const double gap : {2e6, 1e9, 1e12, 1e15}) m.expect_together(20 * gap, 500, gap);
}

Test(counters, a_suspend_is_made_up_for) {
    // Meanwhile the kernel's clock stands still, and the counter goes on, stops, or begins anew.
    for (const double asleep : {3e5, 1e7, 3.6e12})
        for (const double at : {0., 1e3, 3e14}) {
            machine m;
            m.warm_up();
            m.count = at != 0 ? at : m.count + asleep * m.ghz;
            m.expect_together(9e6, ms + drift);
            m.expect_together(1e8);
            m.by_counter = 0;
            m.expect_together(1e7);
            CHECK(m.by_counter > 0);
        }
}

Test(counters, a_counter_with_changing_rate_is_not_trusted) {
    machine m;
    m.warm_up();
    m.ghz = 3.5;  // on another host
    m.expect_together(9e6, ms);
    m.expect_together(1e8);
    for (int i = 0; i < 100; ++i) {
        m.ghz *= i % 2 == 0 ? 1.5 : 1 / 1.5;
        m.expect_together(9e5, ms);
    }
}

Test(counters, constantly_interrupted_threads_read_the_kernels_clock) {
    machine m;
    m.warm_up();
    m.always_disturbed = true;
    m.pass(2e6);
    m.by_counter = 0;
    m.expect_together(1e7, 9'000);
    CHECK_EQ(m.by_counter, 0u);
}

Test(counters, a_counter_that_stands_still_is_never_used) {
    machine m{.ghz = 0};
    m.expect_together(1e8, 500, 2e6);
    CHECK_EQ(m.by_counter, 0u);
}

Test(counters, a_counter_is_unused_while_it_goes_back) {
    for (const double ghz : {-1e-5, -1e-3, -1., -5.}) {
        machine m{.ghz = ghz};
        m.expect_together(1e8, 500, 2e6);
        CHECK_EQ(m.by_counter, 0u);
        m.ghz = 2.5;
        m.expect_together(1e8, ms);
    }
}

// Two counters that nobody has set to the same, and a thread that changes its processor. The kernel
// does not use these: the clock may go back, but stays within a line.
Test(counters, counter_steps_cost_a_millisecond_at_most) {
    for (const double apart : {2.5, 2.5e3, 2.5e6, 2.5e9}) {  // from a nanosecond to a second
        machine m{.counter_steps = true};
        m.warm_up();
        for (int i = 0; i < 500; ++i) {
            m.count += i % 2 == 0 ? apart : -apart;
            m.expect_together(static_cast<double>(m.random() % 3'000'000), ms + drift, 1'007);
        }
        m.expect_together(9e6, ms + drift);
        m.expect_together(1e8);
    }
}

Test(counters, readings_never_go_back) {
    const auto read_on = [] {
        auto last = tsc_clock::now();
        for (const auto end = last + 100ms; last < end;) {
            const auto t = tsc_clock::now();
            CHECK(t >= last);
            last = t;
        }
    };
    std::thread other(read_on);
    read_on();
    other.join();
}

#if !defined(_WIN32) && !defined(__EMSCRIPTEN__)
Test(counters, a_child_forked_during_calibration_can_read) {
    static constexpr auto calibrate = [] {
        tvec::detail::line_of_tsc.counts = 0;
        tsc_clock::now();
    };
    std::atomic<bool> is_over{false};
    const auto calibrate_on = [](void* over) -> void* {
        while (!*static_cast<std::atomic<bool>*>(over)) calibrate();
        return nullptr;
    };
    pthread_t other;  // a child would leak what a std::thread allocates
    REQUIRE(pthread_create(&other, nullptr, calibrate_on, &is_over) == 0);
    for (int i = 0; i < 200; ++i)
        CHECK(support::ended_well(support::start_child([] {
            alarm(30);
            calibrate();
            return static_cast<const char*>(nullptr);
        })));
    is_over = true;
    pthread_join(other, nullptr);
}
#endif

Test(counters, a_reading_lies_between_readings_of_steady_clock) {
    int far = 0;
    for (int i = 0; i < 100'000; ++i) {
        const auto before = std::chrono::steady_clock::now();
        const auto t = tsc_clock::now();
        far += t < before - tsc_clock::drift ||
               t > std::chrono::steady_clock::now() + tsc_clock::drift;
    }
    CHECK_EQ(far, 0);
}

Test(counters, a_refusal_names_its_reason) {
    const char* const why = tsc_clock::refusal();
    CHECK(why == nullptr || std::string_view(why).starts_with("the ") ||
          std::string_view(why).starts_with("no "));
    CHECK(why == tsc_clock::refusal());
}

Test(counters, a_loop_sleeps_on_steady_clocks_alarm) {
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::microseconds, tvec::turn_clock<tsc_clock>>>
        timers;
    tvec::timerfd_alarm alarm(timers);
    support::probe p;
    timers.arm_after(p.t, 5ms);
    const auto due = timers.deadline(p.t);
    for (int turns = 0; p.fired() == 0; ++turns) {
        alarm.rearm();
        CHECK(support::wait_readable(alarm.fd(), 10s));
        alarm.acknowledge();
        timers.run();
        CHECK(turns < 100);
    }
    CHECK(tsc_clock::now() >= due);
}
