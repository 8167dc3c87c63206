// next_wakeup() is never in the past and never later than the first expiry; it is now() while
// something due is left over. A lone timer costs at most one wake-up per level. No timer: none.
#include <algorithm>
#include <optional>
#include <random>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

namespace geometry = tvec::detail::geometry;

TestSuite(waking, .timeout = 120);

namespace {

// Advances from wake-up to wake-up until nothing is pending. Returns how many there were.
int wakeups(timer_wheel& wheel) {
    int n = 0;
    for (; wheel.next_wakeup(); ++n) {
        const auto expiry = wheel.next_expiry();
        REQUIRE(!expiry || *wheel.next_wakeup() <= *expiry);
        REQUIRE_LE(wheel.now() + 1, *wheel.next_wakeup());  // no spin
        wheel.advance(*wheel.next_wakeup());
        REQUIRE_LE(n, 100'000);
    }
    return n;
}

}  // namespace

Test(waking, an_empty_wheel_has_no_wakeup) {
    timer_wheel wheel;
    CHECK(!wheel.next_wakeup());
    CHECK(!wheel.next_expiry());
    probe last;
    timer_wheel end(tvec::never - 10);
    end.arm_at(last.t, tvec::never - 1);
    CHECK_EQ(end.next_wakeup(), tvec::never - 1);
}

// The wake-up that fires it is one of them. Beyond 2^33 ticks there is one more for each halving of
// the laps.
Test(waking, a_lone_timer_wakes_once_per_level) {
    for (const jiffies start : support::starts())
        for (jiffies delay = 1; delay < jiffies{1} << 40; delay += 1 + delay / 9) {
            timer_wheel wheel(start);
            probe p;
            wheel.arm_after(p.t, delay);
            REQUIRE_LE(wakeups(wheel), support::most_visits(delay));
            REQUIRE(p.fired_only_at(start + delay));
        }
}

Test(waking, a_cancel_or_push_back_costs_one_wakeup) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) {
            timer_wheel wheel(start);
            probe cancelled, pushed;
            wheel.arm_after(cancelled.t, delay);
            cancelled.t.cancel();
            REQUIRE_LE(wakeups(wheel), 1);
            wheel.arm_after(pushed.t, delay);
            wheel.arm_after(pushed.t, delay + 1'000);
            REQUIRE_LE(wakeups(wheel), 1 + support::most_visits(delay + 1'000));
            REQUIRE_EQ(pushed.fired(), 1);
        }
}

Test(waking, next_expiry_is_the_earliest_pending_timer) {
    std::mt19937_64 random(8);
    timer_wheel wheel(300);
    auto all = support::probes(100);
    for (int round = 0; round < 2'000; ++round) {
        auto& p = *all[random() % all.size()];
        if (random() % 3 == 0)
            p.t.cancel();
        else
            wheel.arm_after(p.t, random() >> (30 + random() % 33));
        if (round % 7 == 0) wheel.advance(wheel.now() + random() % 500);
        std::optional<jiffies> first;
        for (const auto& q : all)
            if (q->t.pending())  // what is armed for the past comes next
                first = std::min(first.value_or(tvec::never),
                                 std::max(q->t.expires(), wheel.now() + 1));
        REQUIRE(wheel.next_expiry() == first);
        REQUIRE(!first || *wheel.next_wakeup() <= *first);
    }
}

Test(waking, the_next_expiry_is_exact_on_every_level) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) {
            timer_wheel wheel(start);
            probe p, later;
            wheel.arm_after(p.t, delay);
            wheel.arm_after(later.t, delay + 1);
            REQUIRE_EQ(wheel.next_expiry(), start + delay);
            wheel.advance(start + delay - 1, 1);  // what has a level left to sink is left over
            REQUIRE_EQ(wheel.next_expiry(), start + delay);
        }
}

Test(waking, the_nearer_of_two_levels_decides_the_wakeup) {
    for (jiffies start = 0; start < 512; start += 13) {
        timer_wheel wheel(start);
        probe far, near;
        wheel.arm_after(far.t, 270);
        wheel.advance(start + 128);
        wheel.arm_after(near.t, 10);
        CHECK_EQ(wheel.next_expiry(), start + 138);
        CHECK_LE(*wheel.next_wakeup(), start + 138);
        near.t.cancel();
        wheel.arm_after(near.t, 250);
        CHECK_EQ(wheel.next_expiry(), start + 270);
        wakeups(wheel);
        CHECK(far.fired_only_at(start + 270));
        CHECK(near.fired_only_at(start + 378));
    }
}

Test(waking, a_timer_a_turn_away_hides_no_others) {
    for (const jiffies start : support::starts())
        for (unsigned level = 1; level < tvec::detail::geometry::levels; ++level) {
            const jiffies width = tvec::detail::geometry::width_of(level);
            const jiffies turn = width * tvec::detail::geometry::ring_of(level);
            for (const jiffies phase : {jiffies{0}, jiffies{1}, width / 2, width - 1}) {
                timer_wheel wheel(start / width * width + phase);
                const jiffies now = wheel.now();
                probe far, near;
                wheel.arm_at(far.t, now + turn - 1);
                REQUIRE_LE(now + 2, *wheel.next_wakeup());
                wheel.arm_at(near.t, now + width + 1);
                REQUIRE_LE(*wheel.next_wakeup(), now + width + 1);
                wakeups(wheel);
                REQUIRE(near.fired_only_at(now + width + 1));
                REQUIRE(far.fired_only_at(now + turn - 1));
            }
        }
}

Test(waking, the_wakeup_is_now_while_work_remains) {
    timer_wheel wheel;
    probe a, b;
    wheel.arm_after(a.t, 10);
    wheel.arm_after(b.t, 10);
    wheel.advance(500, 1);
    CHECK_EQ(wheel.next_wakeup(), jiffies{10});
    CHECK_EQ(wheel.now(), 10);
    wheel.advance(500, 1);
    CHECK(!wheel.next_wakeup());
}

Test(waking, arming_after_a_spurious_wakeup_still_wakes) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, 100);
    p.t.cancel();
    wheel.advance(*wheel.next_wakeup());
    CHECK(!wheel.next_wakeup());
    wheel.arm_after(p.t, 40);
    CHECK_EQ(wheel.next_wakeup(), wheel.now() + 40);
}

Test(waking, a_timer_pulled_in_moves_the_wakeup_earlier) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, 1'000'000);
    wheel.arm_after(p.t, 30);
    CHECK_EQ(wheel.next_wakeup(), jiffies{30});
    wheel.arm_at(p.t, 0);
    CHECK_EQ(wheel.next_wakeup(), jiffies{1});
}

Test(waking, a_destroyed_timer_causes_one_spurious_wakeup) {
    timer_wheel wheel;
    {
        probe p;
        wheel.arm_after(p.t, 100'000);
    }
    CHECK_LE(wakeups(wheel), 1);
}

// Visits of a level look through the levels up to it, beside a busy timer there.
Test(waking, timers_destroyed_on_every_tick_cost_few_wakeups) {
    constexpr unsigned all = geometry::ring_of(geometry::root) - 1;
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        for (unsigned delay = 1; delay <= all; ++delay) {
            tvec::timer t;
            wheel.arm_after(t, delay);
        }
        const unsigned passed = 1 + tvec::detail::levels::most_passed_over(geometry::root);
        REQUIRE_LE(static_cast<unsigned>(wakeups(wheel)), 1 + all / (passed + 1));
    }
}

Test(waking, destroyed_far_timers_cost_one_spurious_wakeup_each) {
    for (const auto& [busy, gone] : {std::pair{10u, 18u}, {10u, 22u}, {18u, 24u}, {18u, 30u}}) {
        timer_wheel wheel;
        for (auto far = support::probes(10); const auto& p : far)
            wheel.arm_at(p->t, static_cast<jiffies>(&p - far.data() + 1) << gone);
        probe p;
        std::uint64_t spurious = 0;
        while (wheel.now() < jiffies{12} << gone) {
            if (!p.t.pending()) wheel.arm_after(p.t, jiffies{1} << busy);
            const auto before = wheel.count();
            wheel.advance(wheel.next_wakeup().value());
            const auto& after = wheel.count();
            spurious += before.fired == after.fired && before.moved == after.moved;
        }
        CHECK_LE(spurious, 10u);
    }
}

namespace {

// Advances to `tick` from wake-up to wake-up. Returns how many there were.
std::uint64_t wakeups_until(timer_wheel& wheel, jiffies tick) {
    std::uint64_t n = 0;
    for (; wheel.next_wakeup().value_or(tvec::never) <= tick; ++n)
        wheel.advance(*wheel.next_wakeup());
    wheel.advance(tick);
    return n;
}

}  // namespace

Test(waking, repeated_push_backs_cost_one_wakeup_per_visit) {
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        probe p;
        wheel.arm_after(p.t, 10);
        std::uint64_t n = 0;
        for (int i = 0; i < 2'000; ++i) {
            const jiffies visit = *wheel.next_wakeup();
            wheel.advance(visit - 1);
            wheel.arm_at(p.t, p.t.expires() + 1);
            n += wakeups_until(wheel, visit);
        }
        CHECK_EQ(n, 2'000);
        CHECK_EQ(p.fired(), 0);
    }
}

Test(waking, push_backs_between_visits_share_one_extra_wakeup) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) {
            timer_wheel wheel(start);
            probe p;
            wheel.arm_after(p.t, delay);
            for (jiffies i = 1; i <= 1'000; ++i) wheel.arm_after(p.t, delay + i);
            const auto n = wakeups_until(wheel, start + delay + 1'000);
            REQUIRE(p.fired_only_at(start + delay + 1'000));
            REQUIRE_LE(n, support::most_visits(delay) + 1 + support::most_visits(1'000));
        }
}

Test(waking, a_keepalive_costs_one_wakeup_per_timeout) {
    for (const jiffies start : support::starts())
        for (const jiffies length : {2U, 50U, geometry::ring_of(geometry::root) * 3 / 5}) {
            timer_wheel wheel(start);
            probe p;
            std::uint64_t n = 0;
            const jiffies ticks = support::scaled(30'000);
            for (jiffies i = 0; i < ticks; ++i) {  // heard of at every tick
                wheel.arm_after(p.t, length);
                n += wakeups_until(wheel, start + i + 1);
            }
            CHECK_EQ(p.fired(), 0);
            CHECK_LE(n, ticks / (length - 1) + 1);
        }
}

// Kept as a loop keeps it that asks for the wake-up after each advance, and is told of earlier
// ones.
Test(waking, a_listener_hears_of_earlier_wakeups_only) {
    struct alarm {
        void set() { at = wheel.next_wakeup().value_or(tvec::never); }
        timer_wheel& wheel;
        jiffies at = tvec::never;
        int told = 0;
    };
    std::mt19937_64 random(7);
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        alarm a{wheel};
        const auto tell = [](void* whom) noexcept {
            ++static_cast<alarm*>(whom)->told;
            static_cast<alarm*>(whom)->set();
        };
        wheel.on_earlier_wakeup(tell, &a);
        auto all = support::probes(200);
        for (const auto& p : all) p->then = [&](auto&) { wheel.arm_after(p->t, random() % 5); };
        for (int step = 0; step < 1'000; ++step) {
            const jiffies before = wheel.next_wakeup().value_or(tvec::never);
            const int told = a.told;
            switch (auto& p = *all[random() % all.size()]; random() % 8) {
            case 0:
                p.t.cancel();
                break;
            case 1:
                p.t.unlink();
                break;
            case 2:
                wheel.drain([&](tvec::timer& t) { wheel.arm_after(t, random() % 3000); });
                break;
            case 3:
                wheel.advance(wheel.now() + random() % 700, random() % 50);
                a.set();
                break;
            case 4:
                wheel.for_each_pending([&](tvec::timer& t) {
                    if (random() % 50 == 0) wheel.arm_after(t, random() % 3000);
                });
                break;
            default:
                wheel.arm_after(p.t, random() % (jiffies{1} << random() % 34));
                const bool is_earlier = wheel.next_wakeup().value_or(tvec::never) < before;
                REQUIRE_EQ(a.told - told, is_earlier ? 1 : 0);
            }
            REQUIRE_LE(a.at, wheel.next_wakeup().value_or(tvec::never));
        }
        wheel.on_earlier_wakeup(nullptr, nullptr);
        a.at = 0;
        probe p;
        wheel.arm_after(p.t, 1);
        REQUIRE_EQ(a.at, 0);
    }
}

Test(waking, a_push_back_tells_a_listener_nothing) {
    timer_wheel wheel;
    int told = 0;
    wheel.on_earlier_wakeup([](void* count) noexcept { ++*static_cast<int*>(count); }, &told);
    probe p;
    for (jiffies delay = 1; delay < 100'000; ++delay) wheel.arm_after(p.t, delay);
    CHECK_EQ(told, 1);
}

// Timers of two levels that are put back share a slot, which has to be emptied a tick earlier.
Test(waking, a_throwing_drain_tells_of_an_earlier_wakeup) {
    constexpr auto reach = geometry::ring_of(1) * geometry::width_of(1);
    timer_wheel wheel;
    auto all = support::probes(std::size_t{2} * geometry::chunk);
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (i == geometry::chunk) wheel.advance(reach - 3 * geometry::width_of(1));
        wheel.arm_at(all[i]->t, reach + i);
    }
    CHECK_EQ(wheel.next_wakeup(), reach);
    int told = 0;
    wheel.on_earlier_wakeup([](void* count) noexcept { ++*static_cast<int*>(count); }, &told);
    try {
        wheel.drain([](tvec::timer&) { throw 1; });
        cr_assert_fail("the exception of a visitor is lost");
    } catch (int) {
    }
    CHECK_EQ(wheel.next_wakeup(), reach - 1);
    CHECK_EQ(told, 1);
}
