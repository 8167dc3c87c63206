// Beside the slots of the root that it runs, a call of `advance` moves at most a chunk of each
// level for each tick since the last call, or a slot's even share per tick if that is more. A loop
// that sleeps until next_wakeup() moves a chunk of each level at a time. No adversary's arms can
// change that. Empty time is skipped. Cost is counted in visits, never in time.
//
// Literal numbers were measured. Changing them changes a promise.
#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <vector>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/meter.hpp"
#include "support/probe.hpp"
#include "tvec/inspect/inspect.hpp"

using support::chunk;
using support::jiffies;
using support::meter;
using support::moves;
using support::visits;
using tvec::timer_wheel;
namespace geometry = tvec::detail::geometry;

TestSuite(spikes, .timeout = 300);

namespace {

// Level 1 of a small wheel reaches half as far: half the timers within half the time are as dense.
constexpr jiffies parts = 256 / geometry::ring_of(1);
const std::size_t million = support::scaled(1'000'000 / parts);
constexpr jiffies soon = 32'768 / parts + 232, later = 60'000 / parts;  // delays on level 1
constexpr jiffies lap = geometry::width_of(geometry::overflow);         // of the wheel

// Timers with random deadlines between two delays.
struct crowd {
    crowd(std::size_t n, jiffies shortest, jiffies longest, jiffies start = 0)
        : wheel(start), timers(n) {
        std::mt19937_64 random(7);
        for (tvec::timer& t : timers)
            wheel.arm_after(t, shortest + random() % (longest - shortest));
    }
    void push_all_back(jiffies delay) {
        for (tvec::timer& t : timers) wheel.arm_after(t, delay);
    }
    void expect_all_fired() const { CHECK_EQ(wheel.count().fired, timers.size()); }

    timer_wheel wheel;
    std::vector<tvec::timer> timers;
};

// The delays that belong to each level alone, and a few laps of the overflow's.
struct span {
    unsigned level;
    jiffies shortest, longest;
};
constexpr jiffies delay_beyond(unsigned level) {
    return geometry::ring_of(level) * geometry::width_of(level);
}
constexpr std::array<span, 5> spans{{{1, delay_beyond(0), delay_beyond(1)},
                                     {2, delay_beyond(1), delay_beyond(2)},
                                     {3, delay_beyond(2), delay_beyond(3)},
                                     {4, delay_beyond(3), 2 * lap},
                                     {5, 2 * lap, 9 * lap}}};

}  // namespace

// --- empty time ----------------------------------------------------------------------------------

Test(spikes, empty_time_is_visited_by_nobody) {
    timer_wheel wheel;
    CHECK(wheel.advance(jiffies{1} << 40).caught_up);
    CHECK_EQ(visits(wheel), 0);
    CHECK(!wheel.next_wakeup());
}

Test(spikes, a_keepalive_is_visited_once_per_timeout) {
    timer_wheel wheel;
    support::probe p;
    wheel.arm_after(p.t, 100);
    for (jiffies t = 1; t <= 10'000; ++t) {
        wheel.advance(t);
        wheel.arm_after(p.t, 100);
    }
    CHECK_EQ(p.fired(), 0);
    CHECK_LE(visits(wheel), 10'000 / 99 + 1);
}

// --- on every tick ------------------------------------------------------------------------------

Test(spikes, evenly_spread_timers_move_47_a_tick_at_most) {
    crowd c(million, 1, later);
    meter m(c.wheel);
    m.call_every(1, later);
    c.expect_all_fired();
    CHECK_LE(m.worst(), 47);
}

Test(spikes, an_awake_loop_moves_two_chunks_at_most) {
    crowd c(200'000, 100'000, 300'000);
    meter m(c.wheel);
    m.call_every(1, 300'000);
    c.expect_all_fired();
    CHECK_LE(m.worst(), 2 * chunk);
}

// Slots above the root are emptied ahead, at a rate. A slot of the root is visited on its tick.
Test(spikes, a_tick_visits_its_whole_root_slot) {
    constexpr jiffies due = delay_beyond(0) + 44;  // in the second lap of the root
    for (const std::size_t budget : {timer_wheel::unlimited, std::size_t{256}})
        for (const bool is_cancelled : {false, true}) {
            crowd c(10'000, due, due + 1);
            c.wheel.advance(due - 1);
            for (tvec::timer& t : c.timers)
                if (is_cancelled)
                    t.cancel();
                else
                    c.wheel.arm_after(t, 10'000);
            for (std::size_t left = c.timers.size(); left != 0;) {
                const auto before = visits(c.wheel);
                const auto call = c.wheel.advance(due, budget);
                REQUIRE_EQ(visits(c.wheel) - before, std::min(budget, left));
                left -= std::min(budget, left);
                REQUIRE(call.fired == 0 && call.caught_up == (left == 0));
            }
        }
}

// --- asleep -------------------------------------------------------------------------------------

Test(spikes, a_sleeping_loop_moves_a_chunk_per_call) {
    crowd c(million, soon, later);
    meter m(c.wheel);
    m.sleep_until(tvec::never);
    c.expect_all_fired();
    CHECK_EQ(m.worst(), chunk);
    CHECK_EQ(m.idle(), 0);
}

Test(spikes, a_periodic_timer_makes_no_call_move_more) {
    const bool is_whole = million == 1'000'000 / parts;  // fewer need less than a chunk per tick
    for (const jiffies period : {100, 10, 2}) {
        crowd c(million, soon, later);
        tvec::callback_timer beat{[&](timer_wheel& w, tvec::timer& t) { w.arm_next(t, period); }};
        c.wheel.arm_after(beat, period);
        meter m(c.wheel);
        m.sleep_until(later);
        CHECK_EQ(c.wheel.count().fired, million + later / period);
        CHECK_LE(m.worst(), chunk);
        CHECK(m.worst() == chunk || !is_whole);
        CHECK_EQ(m.idle(), 0);
    }
}

Test(spikes, a_sleeping_loop_moves_one_chunk_per_level) {
    for (const span& s : spans) {
        crowd c(support::scaled(100'000), s.shortest, s.longest, 12'345);
        meter m(c.wheel);
        m.sleep_until(tvec::never);
        c.expect_all_fired();
        CHECK_LE(m.worst(), s.level * chunk);
        CHECK_EQ(m.idle(), 0);
    }
}

// --- at gaps ------------------------------------------------------------------------------------

Test(spikes, a_gap_costs_a_chunk_per_tick) {
    for (const jiffies gap : {2, 5, 10, 100}) {
        crowd c(million, soon, later);
        meter m(c.wheel);
        m.call_every(gap, later);
        c.expect_all_fired();
        CHECK_LE(m.worst(), gap * chunk);
    }
}

// A million keepalives armed at once are all in one slot, and then in the next.
Test(spikes, fuller_slots_cost_an_even_share_per_tick) {
    const std::size_t share = million / 256 + 1;
    for (const jiffies gap : {1, 5, 100}) {
        crowd c(million, later, later + 1);
        meter m(c.wheel);
        for (jiffies t = gap; t <= 5 * later / 2; t += gap) {
            m.call(t);
            if (t == later / 2 || t == later || t == 3 * later / 2) c.push_all_back(later);
        }
        c.expect_all_fired();
        CHECK_LE(m.worst(), gap * share);
        CHECK_EQ(moves(c.wheel), 4 * million);  // through four slots
    }
}

namespace {

// Timers in one slot of level 3, in a loop that spins on ticks so fine that a turn has many. None
// of them is due before the slot's lap is half over.
struct spinning {
    static constexpr jiffies width = geometry::width_of(3), entry = 5 * width;
    explicit spinning(std::size_t n) : timers(n) {
        std::mt19937_64 random(1);
        for (tvec::timer& t : timers) wheel.arm_at(t, entry + width / 2 + random() % (width / 10));
    }
    timer_wheel wheel;
    std::vector<tvec::timer> timers;
};

struct turn {
    jiffies ticks;
    std::size_t most_moves;  // of a call
};

}  // namespace

// docs/ticks.md quotes it.
Test(spikes, a_spinning_loop_moves_a_chunk_per_tick) {
    const std::size_t n = support::scaled(100'000);
    for (const turn& t : std::array<turn, 7>{{{1, 8},
                                              {8, chunk},
                                              {10, 640},
                                              {96, 6'144},
                                              {100, 6'400},
                                              {1'000, 56'320},
                                              {10'000, 99'936}}}) {
        spinning s(n);
        meter m(s.wheel);
        m.call_every(t.ticks, s.entry + t.ticks);
        CHECK_LE(n, visits(s.wheel));
        CHECK_LE(m.worst(), t.ticks * chunk);
        if (parts == 1 && n == 100'000) CHECK_EQ(m.worst(), t.most_moves);
    }
}

// The clock of such a loop runs ahead for a turn for each chunk of the slot, and one before them.
Test(spikes, a_loop_stopping_at_wakeups_moves_single_chunks) {
    const std::size_t n = support::scaled(100'000);
    for (const jiffies turn : {10, 1'000, 10'000}) {
        spinning s(n);
        meter m(s.wheel);
        std::uint64_t turns_behind = 0;
        for (jiffies clock = turn; s.wheel.now() < s.entry + 1; clock += turn) {
            m.call(std::min(clock, s.wheel.next_wakeup().value_or(clock)));
            turns_behind += s.wheel.now() < clock;
        }
        CHECK_EQ(m.worst(), chunk);
        CHECK_LE(turns_behind, (n + chunk - 1) / chunk + 1);
    }
}

namespace {

// One crowd wakes at every wake-up, the other jumps. Both reach the same tick. The jump costs no
// more, because timers that move later sink through no more levels.
void jump_beside(crowd& on_time, crowd& jumping, jiffies jump, unsigned levels) {
    const jiffies until = jumping.wheel.now() + jump;
    meter hops(on_time.wheel), one(jumping.wheel);
    hops.sleep_until(until);
    hops.call(until);
    one.call(until);
    REQUIRE_LE(one.worst(), jump * levels * chunk);
    REQUIRE_LE(visits(jumping.wheel), visits(on_time.wheel));
    REQUIRE_EQ(jumping.wheel.count().fired, on_time.wheel.count().fired);
}

}  // namespace

Test(spikes, a_stall_costs_what_its_ticks_would_have) {
    constexpr jiffies wrap = delay_beyond(1) / 2;
    for (const jiffies stall : {jiffies{310}, wrap / 2}) {
        crowd on_time(million, soon, later), late(million, soon, later);
        on_time.wheel.advance(wrap + 10 - stall);
        late.wheel.advance(wrap + 10 - stall);
        jump_beside(on_time, late, stall, 1);
        CHECK_EQ(visits(late.wheel), visits(on_time.wheel));
        CHECK_EQ(check(late.wheel), "");
    }
}

Test(spikes, a_stall_of_an_awake_loop_costs_little) {
    crowd c(million, soon, later);
    meter m(c.wheel);
    m.call_every(1, delay_beyond(1) / 2 - 300);
    m.call(delay_beyond(1) / 2 + 10);
    CHECK_LE(m.worst(), parts == 1 ? 904 : 955);
}

Test(spikes, a_stall_costs_a_third_of_its_bound) {
    constexpr jiffies stall = 310;
    for (jiffies before = 50; before <= stall; before += 50) {  // the wrap of level 1
        crowd c(million, 1, later);
        meter m(c.wheel);
        m.call_every(1, delay_beyond(1) / 2 - before);
        m.call(delay_beyond(1) / 2 - before + stall);
        CHECK_LE(m.worst(), stall * chunk / 3);
    }
}

Test(spikes, a_jump_costs_what_its_ticks_would_have) {
    for (jiffies jump = 1; jump < 4 * lap; jump += 1 + jump / 2) {
        crowd on_time(0, 0, 1), jumping(0, 0, 1);
        std::mt19937_64 random(jump);
        on_time.timers.resize(support::scaled(10'000));
        jumping.timers.resize(on_time.timers.size());
        for (std::size_t i = 0; i < jumping.timers.size(); ++i) {
            const jiffies delay = 1 + (random() >> (29 + random() % 34));
            on_time.wheel.arm_after(on_time.timers[i], delay);
            jumping.wheel.arm_after(jumping.timers[i], delay);
        }
        for (int i = 0; i < 10; ++i) jump_beside(on_time, jumping, jump, 5);
        CHECK_EQ(check(jumping.wheel), "");
    }
}

// --- a budget on every tick ---------------------------------------------------------------------

Test(spikes, a_sufficient_budget_catches_up_in_every_lap) {
    struct loop {
        std::size_t budget, timers;
        jiffies most_behind;  // ticks
    };
    for (const loop& l :
         {loop{256, million, 0}, {16, 150'000 / parts, 40}, {1, 10'000 / parts, 120}}) {
        crowd free(l.timers, soon, later), bound(l.timers, soon, later);
        jiffies caught_up_at = 0, most_behind = 0;
        for (jiffies t = 1; t <= later + 1'000; ++t) {
            free.wheel.advance(t);
            const auto before = visits(bound.wheel);
            const bool caught_up = bound.wheel.advance(t, l.budget).caught_up;
            REQUIRE(caught_up || visits(bound.wheel) - before == l.budget);
            REQUIRE_LE(visits(bound.wheel), visits(free.wheel));  // it delays work, and adds none
            if (caught_up) caught_up_at = t;
            REQUIRE_LE(t - caught_up_at, 256);
            most_behind = std::max(most_behind, bound.wheel.behind());
            if (t % 10'000 == 0) REQUIRE_EQ(check(bound.wheel), "");
        }
        bound.expect_all_fired();
        CHECK_LE(most_behind, l.most_behind);
    }
}

// A slot of level 1 has to be empty before its lap begins, and time stands until it is.
Test(spikes, an_insufficient_budget_makes_all_timers_late) {
    constexpr std::size_t n = 100'000, budget = 256, rest = n - geometry::width_of(1) * budget;
    crowd c(n, soon, soon + 1);
    for (tvec::timer& t : c.timers) t.cancel();  // they stay in the slot
    jiffies clock = 0, due = 10, latest = 0;
    tvec::callback_timer beat{[&](timer_wheel& w, tvec::timer& t) {
        latest = std::max(latest, clock - due);
        w.arm_at(t, due += 10);
    }};
    c.wheel.arm_at(beat, due);
    while (++clock <= 2 * soon) c.wheel.advance(clock, budget);
    CHECK_EQ(c.wheel.count().fired, (clock - 1) / 10);
    CHECK_LE(latest, rest / budget + 2);
    CHECK_LE(rest / budget * 8 / 10, latest);
}

// --- adversaries --------------------------------------------------------------------------------

namespace {

// A wheel on the last tick of a slot of a level, and all timers in the first reachable slot of that
// level. On level 1 that slot has to be empty 257 ticks later, so n / 256 moves per tick are the
// lower bound.
struct last_moment {
    last_moment(unsigned at_level, std::size_t n)
        : width(geometry::width_of(at_level)), now(1'000 * width - 1), wheel(now), timers(n) {
        for (tvec::timer& t : timers) wheel.arm_at(t, now + nearest(at_level));
    }
    static jiffies nearest(unsigned level) {
        return geometry::width_of(level - 1) * geometry::ring_of(level - 1);
    }

    jiffies width, now;
    timer_wheel wheel;
    std::vector<tvec::timer> timers;
};

}  // namespace

Test(spikes, a_slot_filled_last_minute_is_spread_evenly) {
    for (const unsigned level : {1u, 2u, 3u, 4u})
        for (const auto& then : std::array<std::function<void(timer_wheel&, tvec::timer&)>, 3>{
                 [](timer_wheel&, tvec::timer&) {},
                 [](timer_wheel&w, tvec::timer&t) { w.arm_after(t, 9 * lap); },
                 [](timer_wheel&, tvec::timer&t) { t.cancel(); }}) {
            last_moment a(level, level == 1 ? million : 100'000);
            for (tvec::timer& t : a.timers) then(a.wheel, t);
            meter m(a.wheel);
            m.call_every(1, a.now + 300);
            m.sleep_until(a.now + 4 * a.width);
            CHECK_LE(a.timers.size(), visits(a.wheel));
            // From above all timers come to one slot of level 1, which has 256 ticks as well.
            CHECK_LE(m.worst(), (a.timers.size() - 1) / 256 + 1);
        }
}

Test(spikes, timers_armed_before_a_wrap_are_spread_evenly) {
    const jiffies start = lap - 512 - 1;
    timer_wheel wheel(start);
    std::vector<tvec::timer> timers(million);
    for (tvec::timer& t : timers) wheel.arm_after(t, 512);
    for (tvec::timer& t : timers) wheel.arm_after(t, jiffies{1} << 40);
    meter m(wheel);
    m.call_every(1, start + 1'200);
    CHECK_EQ(moves(wheel), million);
    CHECK_LE(m.worst(), million / 256 + 1);
}

// --- beyond the levels --------------------------------------------------------------------------

Test(spikes, timers_leave_the_overflow_by_chunks) {
    crowd c(million, 2 * lap, 2 * lap + lap / 4, lap + 5);
    meter around_a_wrap(c.wheel), asleep(c.wheel);
    around_a_wrap.call(2 * lap - 50);
    around_a_wrap.call_every(1, 2 * lap + 50);
    CHECK_EQ(moves(c.wheel), 0);
    CHECK_EQ(c.wheel.next_wakeup(), 3 * lap - (million - 1) / chunk);
    asleep.sleep_until(3 * lap);
    CHECK_LE(million, moves(c.wheel));
    CHECK_LE(asleep.worst(), 2 * chunk);  // the nearest are on level 1 already
    CHECK_EQ(asleep.idle(), 0);
    CHECK_EQ(check(c.wheel), "");
}

Test(spikes, idle_timers_leave_the_overflow_by_chunks) {
    crowd c(million, 2 * lap, 3 * lap);
    for (tvec::timer& t : c.timers) t.cancel();
    meter m(c.wheel);
    m.sleep_until(tvec::never);
    CHECK_EQ(c.wheel.count().dropped, million);
    CHECK_EQ(visits(c.wheel), million);
    CHECK_EQ(m.worst(), chunk);
}
