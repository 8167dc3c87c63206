// A slot is emptied by a deadline, however often the loop calls. At tick t the slot whose lap
// begins at E holds at most (E - t) x rate timers. The rate is a chunk per tick, or an even share
// if more than a chunk per tick was linked to the slot. A late call does the missed work. Work is
// counted in visits, never in time.
#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/meter.hpp"
#include "support/private_members.hpp"
#include "tvec/inspect/inspect.hpp"

using support::chunk;
using support::jiffies;
using support::meter;
using support::moves;
using support::probe;
using support::visits;
using tvec::timer_wheel;
namespace geometry = tvec::detail::geometry;

TestSuite(emptying, .timeout = 120);

namespace {

using geometry::overflow;

constexpr jiffies reach_of(unsigned level) {
    return geometry::width_of(level) * geometry::ring_of(level);
}

// A tick at which a slot of every level, and of the overflow, has to be empty: the first one of lap
// 5. Timers from beyond are due in lap 5 or later. `armed_at` is a tick of lap 2.
constexpr jiffies entry = 5 * geometry::width_of(overflow);
constexpr jiffies armed_at(unsigned level) {
    return level == overflow ? 2 * geometry::width_of(overflow) + 1 : entry - reach_of(level - 1);
}

// `n` timers in the slot of `level` that has to be empty at `entry`, due on its last tick.
struct crowded_slot {
    crowded_slot(unsigned of_level, std::size_t n)
        : level(of_level), due(entry + geometry::width_of(level) - 1), wheel(armed_at(level)),
          timers(n) {
        for (tvec::timer& t : timers) wheel.arm_at(t, due);
    }
    void expect_all_fire_when_due() {
        while (const auto wakeup = wheel.next_wakeup()) {
            const auto fired = wheel.advance(*wakeup).fired;
            CHECK(fired == 0 || (fired == timers.size() && wheel.now() == due));
        }
        CHECK_EQ(wheel.count().fired, timers.size());
    }

    unsigned level;
    jiffies due;
    timer_wheel wheel;
    std::vector<tvec::timer> timers;
};

constexpr std::array<unsigned, 5> upper_levels{1, 2, 3, 4, overflow};

}  // namespace

// --- the deadline -------------------------------------------------------------------------------

// A loop that calls on every tick moves an eighth of a chunk per tick, or enough to spread the work
// over three eighths of the lap. The wheel checks a slot only on every 64th arm. Later arms may
// therefore delay its start, and it catches up.
Test(emptying, an_awake_loop_empties_gently_over_many_ticks) {
    for (const std::size_t n : {1'000, 3'000}) {
        crowded_slot s(1, n);
        const jiffies width = geometry::width_of(1), begin = entry - width * 3 / 8;
        const std::size_t gentle = n * 8 / (3 * width) + 1;
        meter m(s.wheel);
        REQUIRE_EQ(m.call(begin - 1), 0);
        unsigned hurried = 0;
        for (jiffies t = begin; t <= entry; ++t) hurried += m.call(t) > gentle;
        CHECK_EQ(moves(s.wheel), n);
        CHECK_LE(m.worst(), chunk);
        CHECK_LE(hurried, 1);
    }
}

Test(emptying, ticks_before_emptying_begins_are_idle) {
    crowded_slot s(1, 10 * chunk);
    s.wheel.advance(entry - 256);
    CHECK_LE(entry - 10 * 8 + 1, support::of_wheel::of(s.wheel, support::of_wheel::quiet{}));
    CHECK_LE(support::of_wheel::of(s.wheel, support::of_wheel::quiet{}), entry - 9 * 8);
}

Test(emptying, ticks_are_idle_again_after_emptying) {
    crowded_slot s(1, 10 * chunk);
    s.wheel.advance(entry);
    CHECK_EQ(support::of_wheel::of(s.wheel, support::of_wheel::quiet{}), s.due);
}

Test(emptying, a_throwing_drain_does_not_delay_emptying) {
    crowded_slot s(1, 10 * chunk);
    cr_assert_throw(s.wheel.drain([](tvec::timer&) { throw std::runtime_error("enough"); }),
                    std::runtime_error);
    CHECK_LE(support::of_wheel::of(s.wheel, support::of_wheel::quiet{}), entry - 9 * 8);
}

namespace {

// Returns the next wake-up seen in the callback of a timer that fires at `tick`, beside ten chunks.
jiffies told_at(jiffies tick) {
    crowded_slot s(2, 10 * chunk);
    jiffies told = 0;
    probe p([&](timer_wheel& w) { told = *w.next_wakeup(); });
    s.wheel.arm_at(p.t, tick);
    s.wheel.advance(tick);
    return told;
}

}  // namespace

Test(emptying, a_callback_sees_when_emptying_must_begin) {
    CHECK_EQ(told_at(entry - 100), entry - 9);
}

Test(emptying, late_emptying_continues_after_the_callbacks_tick) {
    CHECK_EQ(told_at(entry - 3), entry - 2);
}

Test(emptying, a_sleeper_wakes_once_for_each_chunk) {
    for (const unsigned level : upper_levels)
        for (const std::size_t n : {std::size_t{1}, chunk, chunk + 1, 10 * chunk - 5, 10 * chunk}) {
            crowded_slot s(level, n);
            meter m(s.wheel);
            for (std::size_t left = n; left != 0; left = n - moves(s.wheel)) {
                const jiffies ticks = (left - 1) / chunk;  // ticks of one chunk each
                REQUIRE_EQ(s.wheel.next_wakeup(), entry - ticks);
                m.call(entry - ticks);
                REQUIRE_EQ(check(s.wheel), "");
            }
            REQUIRE_EQ(s.wheel.now(), entry);
            REQUIRE_EQ(m.calls(), (n - 1) / chunk + 1);
            REQUIRE_LE(m.worst(), chunk);
            s.expect_all_fire_when_due();
        }
}

Test(emptying, each_chunk_starts_emptying_a_tick_earlier) {
    for (const unsigned level : upper_levels) {
        crowded_slot s(level, 0);
        s.timers.resize(5 * chunk);
        for (std::size_t i = 0; i < s.timers.size(); ++i) {
            s.wheel.arm_at(s.timers[i], s.due);
            REQUIRE_EQ(s.wheel.next_wakeup(), entry - i / chunk);
        }
    }
}

Test(emptying, late_emptying_does_only_the_missed_work) {
    constexpr std::size_t n = 100 * chunk;
    for (const unsigned level : upper_levels)
        for (jiffies left = 0; left < 99; left += support::only_memory() ? 28 : 7)
            for (const jiffies begun : {jiffies{100}, jiffies{99}, left + 1}) {
                if (begun <= left) continue;
                crowded_slot s(level, n);
                s.wheel.advance(entry - begun);
                s.wheel.advance(entry - left);
                REQUIRE_EQ(visits(s.wheel), n - left * chunk);
                REQUIRE_EQ(check(s.wheel), "");
                if (left != 0) REQUIRE_EQ(s.wheel.next_wakeup(), entry - left + 1);
            }
}

Test(emptying, emptying_keeps_the_share_it_began_with) {
    constexpr std::size_t n = 40'000, rate = 157;
    crowded_slot s(1, n);
    s.wheel.advance(entry - 100);  // late
    CHECK_EQ(visits(s.wheel), n - 100 * rate);
    meter m(s.wheel);
    for (jiffies left = 100; left-- > 0;) REQUIRE_EQ(m.call(entry - left), rate);
}

Test(emptying, emptying_ends_before_the_slots_lap_begins) {
    constexpr std::size_t n = 1'000;
    for (const unsigned level : upper_levels)
        for (const jiffies after : {jiffies{0}, jiffies{1}, jiffies{200}}) {
            crowded_slot s(level, n);
            s.wheel.advance(entry + after);
            CHECK_LE(n, visits(s.wheel));
            CHECK_EQ(check(s.wheel), "");
            s.expect_all_fire_when_due();
        }
}

// --- a loop that is awake -----------------------------------------------------------------------

namespace {

// Upper bound on what a loop that calls on every tick finds in a slot, this many ticks before its
// deadline.
std::size_t gently_left(unsigned level, std::size_t n, jiffies ticks) {
    if (n <= chunk / 8 && level != overflow) return 0;  // they left together, earlier in the lap
    const jiffies width = geometry::width_of(level);
    // Over the last three eighths of the lap, but at least an eighth of a chunk and at most the
    // required rate per tick.
    const jiffies gentle = std::max<jiffies>(chunk / 8, (n - 1) * 8 / (width * 3) + 1);
    const jiffies rate = std::max<jiffies>(chunk, (n - 1) / width + 1);
    return std::min<std::size_t>(n, ticks * std::min(gentle, rate));
}

}  // namespace

Test(emptying, an_awake_loop_spreads_emptying_over_final_ticks) {
    for (const unsigned level : upper_levels)
        for (const std::size_t n : {1, 8, 9, 64, 635, 4'096, 12'000, 30'000}) {
            crowded_slot s(level, n);
            const jiffies ticks = std::min<jiffies>(geometry::width_of(level), n / 8 + 2);
            s.wheel.advance(entry - ticks - 1);
            for (jiffies left = ticks + 1; left-- > 0;) {
                s.wheel.advance(entry - left);
                const std::size_t there = n - visits(s.wheel), gently = gently_left(level, n, left);
                // It may begin up to a chunk late, because counts are checked once per chunk of
                // arms.
                REQUIRE_LE(there, gently == 0 ? 0 : gently + chunk - 1);
                REQUIRE_LE(gently, there);
                REQUIRE(there == gently || gently + chunk > n);
            }
            REQUIRE_EQ(check(s.wheel), "");
        }
}

Test(emptying, most_ticks_of_an_awake_loop_empty_nothing) {
    for (const std::size_t n : {1, 64, 635, 4'096, 6'000}) {
        crowded_slot s(1, n);
        meter m(s.wheel);
        m.call(entry - 257);
        m.call_every(1, entry);
        CHECK_EQ(moves(s.wheel), n);
        CHECK_LE(m.calls() - m.idle(), 1 + 256 * 3 / 8);
        CHECK_LE(m.worst(), chunk);
    }
}

Test(emptying, a_loop_that_slept_catches_up_by_chunks) {
    constexpr std::size_t n = 40 * chunk;
    for (const unsigned level : {2u, 3u, 4u, overflow}) {
        crowded_slot s(level, n);
        std::size_t left = n;
        for (jiffies ticks = 150; ticks-- > 40;) {
            s.wheel.advance(entry - ticks);
            left -= std::min(left - gently_left(level, n, ticks), chunk);
            REQUIRE_EQ(n - visits(s.wheel), left);
        }
        CHECK_EQ(left, gently_left(level, n, 40));
    }
}

// --- few timers ---------------------------------------------------------------------------------

Test(emptying, few_timers_need_no_wakeup_of_their_own) {
    for (unsigned level = 1; level != overflow; ++level)
        for (const std::size_t n : {std::size_t{1}, chunk / 8}) {
            crowded_slot s(level, n);
            probe another;
            s.wheel.arm_at(another.t, entry - 1);
            meter m(s.wheel);
            m.sleep_until(entry - 1);
            CHECK_EQ(moves(s.wheel) - n, level - 1);  // `another` sinks, too
            CHECK_LE(entry + 1, *s.wheel.next_wakeup());
            CHECK_EQ(check(s.wheel), "");
            m.sleep_until(s.due);
            CHECK_EQ(s.wheel.count().fired, n + 1);
        }
}

Test(emptying, of_few_timers_begins_with_the_lap_before) {
    for (unsigned level = 1; level != overflow; ++level) {
        const jiffies before = entry - geometry::width_of(level);
        crowded_slot few(level, chunk / 8), more(level, chunk / 8 + 1);
        for (crowded_slot* s : {&few, &more}) s->wheel.advance(before - 1);
        CHECK_EQ(moves(few.wheel), 0);
        for (crowded_slot* s : {&few, &more}) s->wheel.advance(before);
        CHECK_EQ(moves(few.wheel), chunk / 8);
        CHECK_EQ(moves(more.wheel), 0);
    }
}

// The first tick of a lap of the wheel still links timers to the slot that is emptied in it.
Test(emptying, of_few_timers_leaves_the_overflow_alone) {
    crowded_slot s(overflow, 1);
    const jiffies lap = entry - geometry::width_of(overflow), slot = geometry::width_of(4);
    s.wheel.advance(lap - slot);
    probe another;  // in the next slot of level 4 as the lap begins
    s.wheel.arm_at(another.t, lap + slot + 5);
    s.due += geometry::width_of(overflow);
    s.wheel.arm_at(s.timers[0], s.due);
    s.wheel.advance(lap);
    CHECK_EQ(check(s.wheel), "");
    s.wheel.advance(s.due);
    CHECK_EQ(s.wheel.count().fired, 2);
}

Test(emptying, of_few_timers_keeps_to_a_budget) {
    for (unsigned level = 1; level != overflow; ++level) {
        crowded_slot s(level, 5);
        for (std::size_t done = 0; done != 6; ++done) {
            CHECK_EQ(moves(s.wheel), done == 0 ? 0 : done - 1);
            CHECK(s.wheel.advance(entry - 10 + done, done == 0 ? 0 : 1).caught_up);
            CHECK_EQ(check(s.wheel), "");
        }
        CHECK_EQ(moves(s.wheel), 5);
        s.expect_all_fire_when_due();
    }
}

// --- idle time ----------------------------------------------------------------------------------

Test(emptying, move_ahead_leaves_no_moves_to_busy_calls) {
    crowded_slot s(1, 10 * chunk);
    s.wheel.advance(entry - 200);
    for (std::size_t moved = 0; moved != 10 * chunk; moved += chunk) {
        CHECK_EQ(moves(s.wheel), moved);
        CHECK_EQ(s.wheel.move_ahead(chunk), chunk);
        CHECK_EQ(check(s.wheel), "");
    }
    CHECK_EQ(s.wheel.move_ahead(chunk), 0);
    CHECK_EQ(s.wheel.now(), entry - 200);
    CHECK_EQ(s.wheel.next_wakeup(), s.due);
    s.expect_all_fire_when_due();
}

Test(emptying, move_ahead_waits_for_the_lap_before) {
    crowded_slot s(1, chunk);
    s.wheel.advance(entry - 257);
    CHECK_EQ(s.wheel.move_ahead(chunk), 0);
    s.wheel.advance(entry - 256);
    CHECK_EQ(s.wheel.move_ahead(chunk), chunk);
    s.expect_all_fire_when_due();
}

Test(emptying, move_ahead_comes_behind_what_is_due) {
    crowded_slot s(1, 10 * chunk);
    CHECK(!s.wheel.advance(entry - 1, 1).caught_up);
    CHECK_EQ(s.wheel.move_ahead(chunk), 0);
    CHECK_EQ(s.wheel.next_wakeup(), entry - 1);
}

Test(emptying, move_ahead_is_refused_in_a_callback) {
    crowded_slot s(1, chunk);
    std::size_t moved = 1;
    probe p([&](timer_wheel& w) { moved = w.move_ahead(chunk); });
    s.wheel.arm_at(p.t, entry - 200);
    s.wheel.advance(entry - 200);
    CHECK_EQ(moved, 0);
    CHECK_EQ(s.wheel.count().moved, 0);
}

Test(emptying, move_ahead_keeps_the_rate_of_the_rest) {
    constexpr std::size_t n = 40'000, rate = 157;
    crowded_slot s(1, n);
    s.wheel.advance(entry - 200);
    const std::uint64_t before = moves(s.wheel);
    CHECK_EQ(s.wheel.move_ahead(n / 2), n / 2);
    const std::size_t left = n - n / 2 - before;
    CHECK_EQ(s.wheel.next_wakeup(), entry - (left - 1) / rate);
    meter m(s.wheel);
    m.sleep_until(entry);
    CHECK_LE(m.worst(), rate);
    CHECK_EQ(m.calls(), (left - 1) / rate + 1);
    s.expect_all_fire_when_due();
}

Test(emptying, move_ahead_drops_what_was_cancelled) {
    crowded_slot s(1, chunk);
    s.wheel.advance(entry - 200);
    for (tvec::timer& t : s.timers) t.cancel();
    CHECK_EQ(s.wheel.move_ahead(timer_wheel::unlimited), chunk);
    CHECK_EQ(s.wheel.count().dropped, chunk);
    CHECK(!s.wheel.next_wakeup());
}

// --- several levels -----------------------------------------------------------------------------

Test(emptying, emptying_one_level_does_not_hurry_another) {
    for (unsigned level = 2; level <= overflow; ++level) {
        crowded_slot far(level, 20 * chunk);
        // In the slot of level 1 that has to be empty a few ticks before the other slot must begin.
        const jiffies lap = geometry::width_of(1);
        far.wheel.advance(entry - lap - 512);
        std::vector<tvec::timer> near(20 * chunk);
        for (tvec::timer& t : near) far.wheel.arm_at(t, entry - 1);
        meter m(far.wheel);
        m.sleep_until(entry - lap);
        CHECK_EQ(m.worst(), chunk);
        CHECK_EQ(moves(far.wheel), near.size());
    }
}

Test(emptying, emptying_takes_a_chunk_from_each_level) {
    constexpr std::size_t n = 10 * chunk;
    timer_wheel wheel(armed_at(overflow));
    std::vector<tvec::timer> timers(5 * n);
    for (unsigned level = overflow; level > geometry::root; --level) {
        wheel.advance(armed_at(level));
        for (std::size_t i = 0; i < n; ++i)
            wheel.arm_at(timers[level * n - 1 - i], entry + geometry::width_of(level) - 1);
    }
    REQUIRE_EQ(visits(wheel), 0);
    meter m(wheel);
    for (jiffies left = 10; left-- > 0;) {
        CHECK_EQ(wheel.next_wakeup(), entry - left);
        CHECK_EQ(m.call(entry - left), 5 * chunk);
        CHECK_EQ(check(wheel), "");
    }
    m.sleep_until(tvec::never);
    CHECK_LE(m.worst(), 5 * chunk);
    CHECK_EQ(wheel.count().fired, timers.size());
}

// --- a budget -----------------------------------------------------------------------------------

Test(emptying, emptying_cut_by_a_budget_stays_due) {
    for (const unsigned level : upper_levels) {
        crowded_slot s(level, 10 * chunk);
        for (std::size_t done = 10; done < chunk; done += 10) {
            const auto [fired, caught_up] = s.wheel.advance(entry - 9, 10);
            CHECK_EQ(fired, 0);
            CHECK(!caught_up);
            CHECK_EQ(visits(s.wheel), done);
            CHECK_EQ(s.wheel.now(), entry - 9);
            CHECK_EQ(s.wheel.behind(), 0);
            CHECK_EQ(s.wheel.next_wakeup(), entry - 9);
            CHECK_EQ(check(s.wheel), "");
        }
        CHECK(s.wheel.advance(entry - 9, chunk % 10).caught_up);
        CHECK_EQ(visits(s.wheel), chunk);
        CHECK_EQ(s.wheel.next_wakeup(), entry - 8);
    }
}

Test(emptying, emptying_cut_before_its_deadline_is_caught_up) {
    for (const unsigned level : upper_levels)
        for (const std::size_t budget : {0, 1, 10}) {
            crowded_slot s(level, 10 * chunk);
            CHECK(s.wheel.advance(entry - 30, budget).caught_up);
            CHECK_EQ(visits(s.wheel), budget);
            CHECK_EQ(s.wheel.next_wakeup(), entry - 9);
            CHECK_EQ(check(s.wheel), "");
        }
}

Test(emptying, a_budget_may_cut_emptying_between_levels) {
    timer_wheel wheel(armed_at(2));
    std::vector<tvec::timer> high(2 * chunk), low(2 * chunk);
    for (tvec::timer& t : high) wheel.arm_at(t, entry + geometry::width_of(2) - 1);
    wheel.advance(armed_at(1));
    for (tvec::timer& t : low) wheel.arm_at(t, entry + 255);
    CHECK(!wheel.advance(entry - 1, chunk).caught_up);
    CHECK_EQ(visits(wheel), chunk);
    CHECK_EQ(wheel.next_wakeup(), entry - 1);
    CHECK(wheel.advance(entry - 1, 2 * chunk).caught_up);
    CHECK_EQ(check(wheel), "");
    CHECK_LE(2 * chunk, visits(wheel));
}

Test(emptying, emptying_put_off_is_finished_before_the_lap) {
    constexpr std::size_t n = 1'000;
    for (const std::size_t budget : {1, 16, 63, 64, 256}) {
        crowded_slot s(1, n);
        std::size_t there = n;
        for (jiffies left = 16; left-- > 0;) {
            const bool caught_up = s.wheel.advance(entry - left, budget).caught_up;
            const std::size_t moved = there - (n - visits(s.wheel));
            there -= moved;
            REQUIRE_LE(moved, budget);
            REQUIRE_EQ(caught_up, there <= left * chunk);
            REQUIRE(caught_up || moved == budget);
        }
        if (budget >= chunk) CHECK_EQ(there, 0);
        for (; there != 0; there -= std::min(there, budget)) {
            REQUIRE_EQ(s.wheel.now(), entry);  // the lap does not begin before the slot is empty
            CHECK_EQ(s.wheel.advance(entry + 5, budget).caught_up, there <= budget);
        }
        CHECK(s.wheel.advance(entry + 5, budget).caught_up);
        CHECK_EQ(s.wheel.now(), entry + 5);
        CHECK_EQ(visits(s.wheel), n);
    }
}

// --- due timers first ---------------------------------------------------------------------------

namespace {

// Timers due on each of the `ticks` before `entry`, which record what has been moved by then.
struct due_meanwhile {
    due_meanwhile(timer_wheel& wheel, jiffies ticks) : all(support::probes(ticks)) {
        for (jiffies i = 0; i < ticks; ++i) {
            all[i]->then = [this](timer_wheel& w) { moved.push_back(moves(w)); };
            wheel.arm_at(all[i]->t, entry - 1 - i);
        }
    }
    std::vector<std::unique_ptr<probe>> all;
    std::vector<std::uint64_t> moved;
};

}  // namespace

Test(emptying, due_timers_fire_before_emptying_after_a_stall) {
    constexpr std::size_t n = 150 * chunk;
    for (const unsigned level : upper_levels)
        for (const jiffies left : {jiffies{100}, jiffies{1}}) {
            crowded_slot s(level, n);
            s.wheel.advance(entry - 200);
            const std::uint64_t before = moves(s.wheel);
            CHECK_LE(before, chunk);
            due_meanwhile d(s.wheel, 190);
            s.wheel.advance(entry - left);
            CHECK(d.moved == std::vector<std::uint64_t>(190 - left + 1, before));
            CHECK_EQ(moves(s.wheel), n - left * chunk);
        }
}

Test(emptying, due_timers_use_a_budget_before_emptying_does) {
    constexpr std::size_t n = 150 * chunk;
    crowded_slot s(1, n);
    s.wheel.advance(entry - 200);
    due_meanwhile d(s.wheel, 190);
    const auto first = s.wheel.advance(entry - 1, 190);
    CHECK_EQ(first.fired, 190);
    CHECK(!first.caught_up);
    CHECK_EQ(moves(s.wheel), 0);
}

// The ticks before the lap begins come first. The slot comes second, because the timers due in its
// lap are linked there.
Test(emptying, emptying_after_a_stall_precedes_the_new_lap) {
    constexpr std::size_t n = 150 * chunk;
    for (const unsigned level : upper_levels) {
        crowded_slot s(level, n);
        s.wheel.advance(entry - 200);
        const std::uint64_t at_first = moves(s.wheel);
        CHECK_LE(at_first, chunk);
        due_meanwhile before(s.wheel, 190);
        probe at_entry, after;
        std::vector<std::uint64_t> moved;
        for (probe* p : {&at_entry, &after})
            p->then = [&](timer_wheel& w) { moved.push_back(moves(w)); };
        s.wheel.arm_at(at_entry.t, entry);
        s.wheel.arm_at(after.t, entry + 3);
        s.wheel.advance(entry + 5);
        CHECK(before.moved == std::vector<std::uint64_t>(190, at_first));
        CHECK(moved == std::vector<std::uint64_t>(2, n));
        CHECK(at_entry.fired_only_at(entry) && after.fired_only_at(entry + 3));
    }
}

// --- cancelled timers ---------------------------------------------------------------------------

Test(emptying, cancelled_timers_are_dropped_in_chunks) {
    for (const unsigned level : upper_levels) {
        crowded_slot s(level, 10 * chunk);
        for (tvec::timer& t : s.timers) t.cancel();
        meter m(s.wheel);
        m.sleep_until(tvec::never);
        CHECK_EQ(m.worst(), chunk);
        CHECK_EQ(m.calls(), 10);
        CHECK_EQ(s.wheel.count().dropped, s.timers.size());
        CHECK_EQ(visits(s.wheel), s.timers.size());
    }
}

Test(emptying, emptying_moves_pushed_back_timers_by_chunks) {
    for (const unsigned level : upper_levels) {
        crowded_slot s(level, 10 * chunk);
        const jiffies later = s.due + 3 * geometry::width_of(overflow);
        for (tvec::timer& t : s.timers) s.wheel.arm_at(t, later);
        meter m(s.wheel);
        m.sleep_until(entry);
        CHECK_EQ(m.worst(), chunk);
        CHECK_EQ(m.calls(), 10);
        CHECK_EQ(s.wheel.count().moved, s.timers.size());
        s.due = later;
        s.expect_all_fire_when_due();
    }
}

// Counts are upper bounds: a slot whose timers were destroyed is emptied too early, but not twice.
Test(emptying, emptying_stops_at_an_empty_slot) {
    for (const unsigned level : upper_levels)
        for (const std::size_t left : {std::size_t{0}, std::size_t{1}, chunk, 3 * chunk}) {
            crowded_slot s(level, 5'000);
            s.timers.erase(s.timers.begin() + static_cast<long>(left), s.timers.end());
            meter m(s.wheel);
            m.sleep_until(entry);
            CHECK_EQ(visits(s.wheel), left);
            CHECK_LE(m.worst(), chunk);
            CHECK_LE(m.calls(), left / chunk + 1);
            CHECK_LE(m.idle(), left == 0);
            s.expect_all_fire_when_due();
        }
}

namespace {

// Upper bound on the moves of one call by a sleeping loop: `n` timers are in a slot to which
// `links` were linked.
std::uint64_t most_of(crowded_slot& s, std::size_t links) {
    const std::size_t n = s.timers.size();
    for (std::size_t i = n; i < links; ++i) {
        tvec::timer gone;
        s.wheel.arm_at(gone, s.due);
    }
    const std::uint64_t before = moves(s.wheel);
    meter m(s.wheel);
    m.sleep_until(entry);
    REQUIRE_EQ(moves(s.wheel) - before, n);
    return m.worst();
}

}  // namespace

Test(emptying, the_rate_follows_every_link_to_the_slot) {
    constexpr std::size_t n = 16'000, width = 256;
    for (const std::size_t links : {n, chunk * width}) {
        crowded_slot s(1, n);
        CHECK_LE(most_of(s, links), chunk);
    }
    for (const std::size_t links : {chunk * width + 1, 100 * width, 1'000 * width}) {
        crowded_slot s(1, n);
        CHECK_LE(most_of(s, links), (links - 1) / width + 1);
    }
}

Test(emptying, a_slot_found_empty_counts_links_anew) {
    constexpr std::size_t n = 16'000, width = 256;
    timer_wheel wheel(entry - 512);
    const jiffies turn = width * geometry::ring_of(1);  // after which the slot comes round again
    for (int i = 0; i < 1'000 * static_cast<int>(width); ++i) {
        tvec::timer gone;
        wheel.arm_at(gone, entry);
    }
    wheel.advance(entry + turn - 512);
    std::vector<tvec::timer> timers(n);
    for (tvec::timer& t : timers) wheel.arm_at(t, entry + turn);
    meter m(wheel);
    m.sleep_until(entry + turn);
    CHECK_EQ(moves(wheel), n);
    CHECK_LE(m.worst(), chunk);
}

Test(emptying, a_slot_counts_no_push_backs_or_cancels) {
    crowded_slot s(1, 16'000);
    for (int i = 0; i < 10; ++i)
        for (tvec::timer& t : s.timers) {
            if (i % 2 == 0) t.cancel();
            s.wheel.arm_at(t, s.due);
        }
    CHECK_LE(most_of(s, 0), chunk);
}

Test(emptying, a_slot_that_millions_left_causes_no_spinning) {
    for (const unsigned level : upper_levels) {
        crowded_slot s(level, 100);
        for (std::size_t i = support::scaled(1'000'000); i > 0; --i) {
            tvec::timer gone;
            s.wheel.arm_at(gone, s.due);
        }
        meter m(s.wheel);
        m.sleep_until(entry);
        CHECK_EQ(visits(s.wheel), 100);
        CHECK_LE(m.calls(), 3);
        CHECK_EQ(check(s.wheel), "");
        s.expect_all_fire_when_due();
    }
}

Test(emptying, a_saturated_count_of_links_forgets_no_timer) {
    for (const unsigned level : upper_levels) {
        crowded_slot s(level, 1'000);
        support::set_counts(s.wheel, 1'000, ~tvec::detail::link_count{0} - 100);
        for (int i = 0; i < 200; ++i) {
            tvec::timer gone;
            s.wheel.arm_at(gone, s.due);
        }
        REQUIRE_EQ(check(s.wheel), "");
        s.expect_all_fire_when_due();
    }
}

Test(emptying, the_count_for_never_does_not_overflow) {
    tvec::timer_wheel wheel;
    std::vector<tvec::timer> never(1'000);
    for (tvec::timer& t : never) wheel.arm_at(t, tvec::never);
    support::set_counts(wheel, 1'000, ~tvec::detail::link_count{0} - 100);
    for (int i = 0; i < 200; ++i) {
        tvec::timer gone;
        wheel.arm_at(gone, tvec::never);
    }
    REQUIRE_EQ(check(wheel), "");
    for (const tvec::timer& t : never) CHECK(t.pending());
}
