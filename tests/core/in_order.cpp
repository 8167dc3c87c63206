// advance_in_order: the timers of a tick fire in the requested order, for example of arming, also
// after others were cancelled, destroyed or armed again.
#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "support/check.hpp"
#include "support/starts.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/inspect/inspect.hpp"

using tvec::jiffies;
using tvec::timer_wheel;

TestSuite(in_order, .timeout = 60);

namespace {

// Timers with the number of their last arm.
class line {
public:
    struct member {
        explicit member(line& l) : home(l) {}
        void on_fire(timer_wheel& wheel) {
            home.fired.push_back(number);
            if (then) then(wheel);
        }

        line& home;
        std::uint64_t number = 0;
        std::function<void(timer_wheel&)> then;
        tvec::timer t{tvec::call<&member::t, &member::on_fire>};
    };

    explicit line(std::size_t n) {
        while (all.size() < n) all.push_back(std::make_unique<member>(*this));
    }

    void arm(timer_wheel& wheel, std::size_t i, jiffies tick) {
        all[i]->number = ++arms;
        wheel.arm_at(all[i]->t, tick);
    }

    static bool before(tvec::timer& a, tvec::timer& b) {
        return tvec::owner_of<&member::t>(a).number < tvec::owner_of<&member::t>(b).number;
    }

    bool has_fired_in_order() const { return std::is_sorted(fired.begin(), fired.end()); }

    std::uint64_t arms = 0;
    std::vector<std::uint64_t> fired;
    std::vector<std::unique_ptr<member>> all;
};

bool advance_in_order_throws(timer_wheel& wheel, jiffies until) {
    try {
        wheel.advance_in_order(until, line::before);
    } catch (const std::runtime_error&) {
        return true;
    }
    return false;
}

}  // namespace

Test(in_order, the_order_of_arming_is_that_of_firing) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) {
            timer_wheel wheel(start);
            line l(13);
            for (std::size_t i = 0; i < 13; ++i) l.arm(wheel, i * 5 % 13, start + delay);
            l.arm(wheel, 4, start + delay);  // once more: it is the last now
            REQUIRE_EQ(wheel.advance_in_order(start + delay + 1, line::before).fired, 13);
            REQUIRE(l.has_fired_in_order());
            REQUIRE_EQ(l.fired.back(), 14);
            REQUIRE_EQ(check(wheel), "");
        }
}

Test(in_order, any_number_on_a_tick_is_sorted) {
    std::mt19937 random(3);
    for (std::size_t n = 1; n < 140; ++n) {
        timer_wheel wheel;
        line l(n);
        std::vector<std::size_t> order(n);
        for (std::size_t i = 0; i < n; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t i : order) l.arm(wheel, i, 300);
        for (std::size_t i = 0; i < n; ++i) l.all[i]->number = i;
        REQUIRE_EQ(wheel.advance_in_order(300, line::before).fired, n);
        REQUIRE(l.has_fired_in_order());
    }
}

// They arrive by cascades from several levels, by push-backs, and directly.
Test(in_order, timers_arriving_by_any_way_are_sorted) {
    timer_wheel wheel;
    line l(60);
    const jiffies due = 70'000;
    for (std::size_t i = 0; i < 60; ++i) {
        if (i % 3 == 0) wheel.arm_at(l.all[i]->t, due / 2);
        l.arm(wheel, i, due);
        wheel.advance_in_order(i * 1'166, line::before);
    }
    for (std::size_t i = 0; i < 60; i += 7) l.arm(wheel, i, due);
    CHECK_EQ(wheel.advance_in_order(due, line::before).fired, 60);
    CHECK(l.has_fired_in_order());
}

Test(in_order, all_of_a_tick_fires_before_the_next) {
    timer_wheel wheel;
    line l(20);
    for (std::size_t i = 0; i < 20; ++i) l.arm(wheel, i, 30 - i % 2);
    wheel.advance_in_order(100, line::before);
    CHECK(l.fired == (std::vector<std::uint64_t>{2, 4, 6, 8, 10, 12, 14, 16, 18, 20,
                                                 1, 3, 5, 7, 9,  11, 13, 15, 17, 19}));
}

Test(in_order, an_interrupted_tick_stays_in_order) {
    timer_wheel wheel;
    line l(40);
    for (std::size_t i = 0; i < 40; ++i) l.arm(wheel, i * 7 % 40, 60);
    l.all[8 * 7 % 40]->then = [](timer_wheel&) { throw std::runtime_error("callback"); };
    CHECK_EQ(wheel.advance_in_order(60, line::before, 5).fired, 5);
    CHECK(advance_in_order_throws(wheel, 60));
    CHECK_EQ(l.fired.size(), 9);
    CHECK_EQ(wheel.advance(60, 11).fired, 11);
    CHECK_EQ(check(wheel), "");
    while (!wheel.advance_in_order(60, line::before, 3).caught_up) {
    }
    CHECK_EQ(l.fired.size(), 40);
    CHECK(l.has_fired_in_order());
}

Test(in_order, a_tick_begun_without_order_is_sorted_later) {
    timer_wheel wheel;
    line l(40);
    for (std::size_t i = 0; i < 40; ++i) l.arm(wheel, i * 7 % 40, 60);
    wheel.advance(60, 5);
    l.fired.clear();
    CHECK_EQ(wheel.advance_in_order(60, line::before).fired, 35);
    CHECK(l.has_fired_in_order());
}

Test(in_order, timers_removed_within_a_tick_reorder_nothing) {
    timer_wheel wheel;
    line l(40);
    for (std::size_t i = 0; i < 40; ++i) l.arm(wheel, i, 60);
    l.all[0]->then = [&](timer_wheel&) {
        for (std::size_t i = 3; i < 40; i += 3) l.all[i]->t.cancel();
        for (std::size_t i = 4; i < 40; i += 5) l.all[i]->t.unlink();
        for (std::size_t i = 7; i < 40; i += 7) l.all[i].reset();
    };
    l.all[1]->then = [&](timer_wheel& w) { CHECK_EQ(check(w), ""); };
    wheel.advance_in_order(60, line::before);
    CHECK_GE(l.fired.size(), 10);
    CHECK(l.has_fired_in_order());
    CHECK_EQ(check(wheel), "");
    CHECK(!wheel.any_pending());
}

Test(in_order, timers_armed_by_callbacks_fire_next_tick) {
    timer_wheel wheel;
    line l(10);
    for (std::size_t i = 0; i < 10; ++i) l.arm(wheel, i, 60);
    for (std::size_t i = 0; i < 10; ++i)
        l.all[i]->then = [&, i](timer_wheel& w) {
            if (l.arms < 20) l.arm(w, i, w.now());
        };
    CHECK_EQ(wheel.advance_in_order(70, line::before).fired, 20);
    CHECK(l.has_fired_in_order());
}

Test(in_order, a_throwing_drain_keeps_the_rest_sorted) {
    timer_wheel wheel;
    line l(40);
    for (std::size_t i = 0; i < 40; ++i) l.arm(wheel, i, 60);
    wheel.advance_in_order(60, line::before, 5);
    try {
        wheel.drain([](tvec::timer&) { throw std::runtime_error("visitor"); });
    } catch (const std::runtime_error&) {
    }
    std::size_t unlinked = 0;  // leaves holes in several chains
    for (std::size_t i = 0; i < 40; i += 3) unlinked += l.all[i]->t.unlink();
    CHECK_EQ(wheel.advance_in_order(60, line::before).fired, 34 - unlinked);
    CHECK(l.has_fired_in_order());
}

// The rest of the tick fires in the same call. Timers that unlink themselves leave holes in its
// chains.
Test(in_order, a_throwing_drain_in_callbacks_keeps_order) {
    timer_wheel wheel;
    line l(32);
    for (std::size_t i = 0; i < 32; ++i) l.arm(wheel, i, 300);
    l.all[3]->then = [&](timer_wheel& w) {
        try {
            w.drain([](tvec::timer&) { throw std::runtime_error("visitor"); });
        } catch (const std::runtime_error&) {
        }
        for (std::size_t i = 6; i < 32; i += 3) l.all[i]->t.unlink();
        CHECK_EQ(check(w), "");
    };
    CHECK_EQ(wheel.advance_in_order(300, line::before).fired, 22);
    CHECK(l.has_fired_in_order());
    CHECK_EQ(check(wheel), "");
}

Test(in_order, equal_timers_keep_their_order) {
    const auto order = [](auto advance) {
        timer_wheel wheel;
        line l(50);
        for (std::size_t i = 0; i < 50; ++i) l.arm(wheel, i, 300);
        advance(wheel);
        return l.fired;
    };
    const auto sorted = order([](timer_wheel& w) {
        w.advance_in_order(300, [](const tvec::timer&, const tvec::timer&) { return false; });
    });
    CHECK(sorted == order([](timer_wheel& w) { w.advance(300); }));
}

Test(in_order, a_clocked_wheel_fires_in_order_too) {
    using namespace std::chrono_literals;
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>> timers;
    line l(9);
    for (std::size_t i = 0; i < 9; ++i) l.arm(timers.wheel(), i, 5);
    tvec::manual_clock::advance(5ms);
    CHECK_EQ(timers.run_in_order(line::before, 4).fired, 4);
    CHECK_EQ(timers.run_in_order(line::before).fired, 5);
    CHECK(l.has_fired_in_order());
}
