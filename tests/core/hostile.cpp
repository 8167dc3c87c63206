// Hostile use: deadlines that all meet on one tick, in one slot or at one wrap, and callbacks that
// re-arm without end, throw, destroy or drain everything. The visits of a call are bounded, and
// every timer still fires once and on its tick.
// An exception of a callback leaves advance, the wheel stays valid, the rest stays due.
// No callback starves the loop.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using support::visits;
using tvec::timer_wheel;
namespace geometry = tvec::detail::geometry;

TestSuite(hostile, .timeout = 120);

namespace {

constexpr std::size_t unlimited = timer_wheel::unlimited;
constexpr std::size_t nobody = ~std::size_t{0};

struct thrown_by_callback {};

// --- one call ---

// One call of `advance`, which may throw. Returns whether it has caught up. Otherwise it has spent
// its whole budget, or an exception has ended it.
bool bounded(timer_wheel& wheel, jiffies until, std::size_t budget) {
    const auto before = visits(wheel);
    bool caught_up = false, threw = false;
    try {
        caught_up = wheel.advance(until, budget).caught_up;
    } catch (const thrown_by_callback&) {
        threw = true;
    }
    const auto used = visits(wheel) - before;
    REQUIRE_LE(used, budget);
    REQUIRE(caught_up || threw || used == budget);
    const bool left = threw ? wheel.next_expiry() == wheel.now() : !caught_up;
    REQUIRE(!left || wheel.next_wakeup() == wheel.now());
    return caught_up;
}

bool bounded_and_checked(timer_wheel& wheel, jiffies until, std::size_t budget) {
    const bool caught_up = bounded(wheel, until, budget);
    REQUIRE_EQ(check(wheel), "");
    return caught_up;
}

// --- the same calls on several wheels ---

struct scene {
    jiffies start;
    std::vector<jiffies> due;  // of each timer; all are armed at the start
    jiffies end;
};

using order = std::vector<std::size_t>;

std::uint64_t most_visits(const scene& s) {
    std::uint64_t most = 0;
    for (const jiffies due : s.due) most += support::most_visits(due - s.start);
    return most;
}

// Timers that record their order. One of them may throw.
struct actors {
    void add(timer_wheel& wheel, jiffies due, bool throws = false) {
        all.push_back(std::make_unique<probe>());
        all.back()->then = [this, i = all.size() - 1, throws](timer_wheel&) {
            fired.push_back(i);
            if (throws) throw thrown_by_callback{};
        };
        wheel.arm_at(all.back()->t, due);
    }
    void add_all(timer_wheel& wheel, const scene& s, std::size_t thrower = nobody) {
        for (std::size_t i = 0; i < s.due.size(); ++i) add(wheel, s.due[i], i == thrower);
    }
    void expect_each_fired_once_at(const std::vector<jiffies>& due) const {
        for (std::size_t i = 0; i < due.size(); ++i) REQUIRE(all[i]->fired_only_at(due[i]));
    }
    std::vector<std::unique_ptr<probe>> all;
    order fired;
};

// Jumps to the end of the scene, in as many calls as that takes.
order play(const scene& s, std::size_t budget, std::size_t thrower = nobody) {
    timer_wheel wheel(s.start);
    actors c;
    c.add_all(wheel, s, thrower);
    const auto most = most_visits(s);
    while (!bounded_and_checked(wheel, s.end, budget)) REQUIRE_LE(visits(wheel), most);
    REQUIRE_LE(visits(wheel), most);
    c.expect_each_fired_once_at(s.due);
    return c.fired;
}

scene together(jiffies start, std::size_t n, jiffies delay) {
    return {start, std::vector<jiffies>(n, start + delay), start + delay};
}

// All timers in one slot of `level`, which is reached after two more slots have passed.
scene in_one_slot(jiffies start, std::size_t n, unsigned level, jiffies spread) {
    std::mt19937_64 random(level);
    const jiffies width = geometry::width_of(level);
    const jiffies entry = geometry::entry_of(level, start + 3 * width);
    scene s{start, std::vector<jiffies>(n), entry + width};
    for (jiffies& due : s.due) due = entry + random() % std::min(spread, width);
    return s;
}

// Around a tick at which laps end; `before` is how far ahead of it the wheel starts.
scene around(jiffies wrap, jiffies before, std::size_t each) {
    constexpr std::array<jiffies, 7> offsets{0, 1, 255, 256, 1 << 14, 1 << 20, 1 << 26};
    scene s{wrap - before, {}, wrap + offsets.back()};
    for (std::size_t i = 0; i < each; ++i)
        for (const jiffies offset : offsets) s.due.push_back(wrap + offset);
    return s;
}

const std::size_t twenty_thousand = support::scaled(20'000);

constexpr std::array<jiffies, 9> just_before{
    1, 2, 255, 300, 600, (1 << 15) + 5, (1 << 21) + 7, (1 << 27) + 9, (jiffies{1} << 33) + 11};

}  // namespace

// --- deadlines that meet ------------------------------------------------------------------------

Test(hostile, a_crowded_tick_keeps_its_order_under_budgets) {
    const scene crowded = together(0, twenty_thousand, 700);
    CHECK(play(crowded, 100) == play(crowded, unlimited));
    constexpr std::array<jiffies, 6> delays{3, 700, 40'000, 1 << 22, 1 << 28, jiffies{1} << 34};
    for (const jiffies start : support::starts())
        for (const jiffies delay : delays) {
            const scene s = together(start, 300, delay);
            CHECK(play(s, 100) == play(s, unlimited));
        }
}

namespace {

// Arms timers for one tick from ever nearer, and runs that tick with a budget.
order closing_in(jiffies tick, std::size_t each, std::size_t budget) {
    std::vector<jiffies> distances = support::edges();
    std::sort(distances.begin(), distances.end(), std::greater<>());
    timer_wheel wheel(tick - distances.front());
    actors c;
    for (const jiffies distance : distances) {
        wheel.advance(tick - distance);
        for (std::size_t i = 0; i < each; ++i) c.add(wheel, tick);
    }
    while (!bounded_and_checked(wheel, tick, budget)) {
    }
    c.expect_each_fired_once_at(std::vector<jiffies>(each * distances.size(), tick));
    return c.fired;
}

}  // namespace

Test(hostile, timers_from_near_and_far_share_a_tick) {
    for (const jiffies tick : {jiffies{1} << 35, (jiffies{1} << 35) + 777}) {
        const std::size_t each = support::scaled(350, 50);
        const order at_once = closing_in(tick, each, unlimited);
        CHECK_GE(at_once.size(), 60 * each);
        CHECK(closing_in(tick, each, 100) == at_once);
    }
}

Test(hostile, crowded_slots_keep_their_order_under_budgets) {
    for (unsigned level = 1; level < geometry::levels; ++level) {
        const scene s = in_one_slot(300, twenty_thousand, level, tvec::never);
        CHECK(play(s, 250) == play(s, unlimited));
        for (const jiffies start : support::starts()) {
            const scene small = in_one_slot(start, 200, level, tvec::never);
            CHECK(play(small, 20) == play(small, unlimited));
        }
    }
}

namespace {

// Upper bound on the moves of one tick on the way to `end`. Fires are not counted.
std::uint64_t worst_tick(timer_wheel& wheel, jiffies end) {
    std::uint64_t worst = 0, before = visits(wheel);
    while (wheel.now() < end) {
        const auto fired = wheel.advance(wheel.now() + 1).fired;
        const auto after = visits(wheel);
        worst = std::max(worst, after - std::exchange(before, after) - fired);
    }
    return worst;
}

// A burst empties a slot ahead of time: 16 of its timers, or the share per remaining tick that
// empties it by the beginning of its lap. The share is largest when the lap before it begins, so
// none is left for the tick at which the slot is entered. There is one burst per level and tick.
std::uint64_t largest_bursts(unsigned level, std::size_t n) {
    std::uint64_t sum = 0;
    for (unsigned l = 1; l <= level; ++l)
        sum += std::max<std::uint64_t>(16, n / geometry::width_of(l) + 1);
    return sum;
}

}  // namespace

Test(hostile, a_crowded_slot_spreads_over_the_preceding_ticks) {
    const std::size_t n = twenty_thousand;
    for (unsigned level = 1; level < geometry::levels; ++level)
        for (const jiffies spread : {jiffies{1}, support::scaled(1 << 18)}) {
            const scene s = in_one_slot(300, n, level, spread);
            timer_wheel wheel(s.start);
            actors c;
            c.add_all(wheel, s);
            const jiffies entry = s.end - geometry::width_of(level);
            wheel.advance(entry - geometry::width_of(level) - 1);  // nothing to do until then
            REQUIRE_EQ(visits(wheel), 0);
            const jiffies last = *std::max_element(s.due.begin(), s.due.end());
            CHECK_LE(worst_tick(wheel, last), largest_bursts(level, n));
            c.expect_each_fired_once_at(s.due);
            CHECK_LE(visits(wheel), most_visits(s));
        }
}

Test(hostile, wrapping_levels_keep_their_order_under_budgets) {
    for (const jiffies wrap : {jiffies{1} << 26, jiffies{3} << 26, jiffies{1} << 32,
                               (jiffies{1} << 32) + (jiffies{1} << 26), jiffies{1} << 34})
        for (const jiffies before : just_before) {
            if (before > wrap) continue;
            const scene s = around(wrap, before, 12);
            const order at_once = play(s, unlimited);
            for (const std::size_t budget : {1, 5, 12, 13, 100}) CHECK(play(s, budget) == at_once);
        }
}

Test(hostile, a_small_budget_crosses_wraps_exactly) {
    for (const jiffies wrap : {jiffies{1} << 26, jiffies{1} << 32, jiffies{1} << 34})
        for (const jiffies before : {jiffies{1}, jiffies{600}, jiffies{(1 << 15) + 5}}) {
            const scene s = around(wrap, before, 40);
            timer_wheel wheel(s.start);
            actors c;
            c.add_all(wheel, s);
            for (jiffies t = s.start + 1; t <= wrap + 600; ++t)
                while (!bounded(wheel, t, 3)) {
                }
            while (!bounded_and_checked(wheel, s.end, 3)) {
            }
            c.expect_each_fired_once_at(s.due);
        }
}

// --- callbacks that never have enough -----------------------------------------------------------

namespace {

// Timers that arm each other for now as long as the wheel is before `last`.
struct storm {
    storm(timer_wheel& wheel, std::size_t n, jiffies last) : all(support::probes(n)), due(n) {
        for (std::size_t i = 0; i < n; ++i) {
            arm(wheel, i);
            all[i]->then = [this, i, n, last](timer_wheel& w) {
                CHECK_EQ(due[i], w.now());
                due[i] = 0;
                fired.push_back(i);
                if (w.now() < last) arm(w, (i * 7 + 1) % n);
            };
        }
    }
    void arm(timer_wheel& wheel, std::size_t i) {
        wheel.arm_after(all[i]->t, 0);
        due[i] = wheel.now() + 1;
    }
    std::vector<std::unique_ptr<probe>> all;
    std::vector<jiffies> due;  // 0: not pending
    order fired;
};

order rage(jiffies start, std::size_t n, std::size_t budget) {
    timer_wheel wheel(start);
    storm s(wheel, n, start + 4);
    for (std::uint64_t calls = 1; !bounded(wheel, start + 10, budget); ++calls) {
        REQUIRE_LE(calls, 4 * n / budget + 1);  // each timer once on each of four ticks
        if (calls % 200 == 0) REQUIRE_EQ(check(wheel), "");
    }
    CHECK_EQ(std::count(s.due.begin(), s.due.end(), jiffies{0}), n);
    CHECK_EQ(check(wheel), "");
    return s.fired;
}

}  // namespace

Test(hostile, a_budget_interrupts_an_endless_zero_delay_storm) {
    const std::size_t fires = support::scaled(100'000);
    for (const jiffies start : {jiffies{0}, (jiffies{1} << 32) - 2}) {
        const order at_once = rage(start, fires, unlimited);
        CHECK_GE(at_once.size(), fires);
        CHECK(rage(start, fires, 100) == at_once);
    }
}

Test(hostile, time_passes_although_a_crowd_keeps_rearming) {
    constexpr std::size_t n = 1'000, budget = 300;
    const std::size_t ticks = support::scaled(1'000);
    for (const jiffies delay : {0, 1}) {
        timer_wheel wheel;
        auto all = support::probes(n);
        for (auto& p : all) {
            p->then = [&p, delay](timer_wheel& w) { w.arm_after(p->t, delay); };
            wheel.arm_after(p->t, delay);
        }
        std::size_t calls = 1;
        for (; !bounded(wheel, ticks, budget); ++calls) {
            REQUIRE_EQ(wheel.count().fired, calls * budget);
            REQUIRE_EQ(wheel.now(), 1 + wheel.count().fired / n);
            if (calls % 50 == 0) REQUIRE_EQ(check(wheel), "");
        }
        CHECK_EQ(calls, n * ticks / budget + 1);
        CHECK_EQ(wheel.now(), ticks);
        for (const auto& p : all) CHECK_EQ(p->fired(), ticks);
    }
}

Test(hostile, timers_arming_each_other_cannot_stop_time) {
    timer_wheel wheel((jiffies{1} << 26) - 500);
    const jiffies start = wheel.now();
    probe a, b;
    a.then = [&](timer_wheel& w) { w.arm_after(b.t, 0); };
    b.then = [&](timer_wheel& w) { w.arm_after(a.t, 0); };
    wheel.arm_after(a.t, 0);
    for (jiffies calls = 1; !bounded_and_checked(wheel, start + 1'000, 1); ++calls)
        REQUIRE_EQ(wheel.now(), start + 1 + calls);
    CHECK_EQ(a.fired() + b.fired(), 1'000);
}

Test(hostile, rearming_all_lets_one_timer_fire_per_tick) {
    timer_wheel wheel;
    auto all = support::probes(1'000);
    for (auto& p : all) {
        wheel.arm_after(p->t, 0);
        p->then = [&](timer_wheel& w) {
            for (auto& other : all) w.arm_at(other->t, w.now());
        };
    }
    jiffies calls = 0;
    for (; !bounded(wheel, 1'000, 7); ++calls) REQUIRE_EQ(wheel.now(), 7 * (calls + 1) + 1);
    CHECK_EQ(calls, 1'000 / 7);
    CHECK_EQ(support::count_fired(all), 1'000);
    CHECK_EQ(check(wheel), "");
}

// --- a lap behind -------------------------------------------------------------------------------

namespace {

// Timers over the ticks of a stall. Each arms itself again some times, counted from now(), from its
// own deadline, or from the tick that the call is to reach.
struct stalled {
    enum base : unsigned char { from_now, from_deadline, from_target };
    static constexpr int again = 8;

    stalled(jiffies start, jiffies ticks, base from, jiffies delay)
        : wheel(start), all(support::probes(500)) {
        std::mt19937_64 random(ticks);
        for (auto& p : all) {
            wheel.arm_after(p->t, 1 + random() % ticks);
            p->then = [&p, from, delay, due = p->t.expires(),
                       left = again](timer_wheel& w) mutable {
                REQUIRE_EQ(w.now(), due);
                if (left-- == 0) return;
                const std::array<jiffies, 3> bases{w.now(), due, w.now() + w.behind()};
                w.arm_at(p->t, due = bases[from] + delay);
            };
        }
    }
    timer_wheel wheel;
    std::vector<std::unique_ptr<probe>> all;
};

// Upper bound on the calls of `advance` until the wheel has caught up. Each comes nearer.
std::size_t calls_to(timer_wheel& wheel, jiffies until, std::size_t budget) {
    for (std::size_t calls = 1;; ++calls) {
        const jiffies before = wheel.behind();
        const bool caught_up = wheel.advance(until, budget).caught_up;
        REQUIRE(calls == 1 || wheel.behind() <= before);
        if (caught_up) return calls;
    }
}

}  // namespace

Test(hostile, timers_rearmed_a_lap_behind_catch_up) {
    for (const jiffies lap : {jiffies{1} << 8, jiffies{1} << 14, jiffies{1} << 20})
        for (jiffies ticks = lap - 2; ticks <= lap + 1; ++ticks)
            for (const auto from :
                 {stalled::from_now, stalled::from_deadline, stalled::from_target})
                for (const jiffies delay : {1, 10})
                    for (const std::size_t budget : {1, 7, 256, 1'000'000}) {
                        stalled s(300, ticks, from, delay);
                        jiffies until = 300 + ticks;
                        REQUIRE_LE(calls_to(s.wheel, until, budget),
                                   s.all.size() * (s.again + 5) / budget + 1);
                        while (s.wheel.any_pending()) calls_to(s.wheel, until += delay, budget);
                        REQUIRE_EQ(s.wheel.count().fired, s.all.size() * (s.again + 1));
                        REQUIRE_EQ(check(s.wheel), "");
                    }
}

Test(hostile, a_stall_fires_as_single_ticks_would) {
    for (const jiffies ticks : {254, 257, 16'382, 16'385}) {
        stalled jump(300, ticks, stalled::from_now, 10), steps(300, ticks, stalled::from_now, 10);
        jump.wheel.advance(300 + ticks);
        for (jiffies t = 301; t <= 300 + ticks; ++t) steps.wheel.advance(t);
        for (std::size_t i = 0; i < jump.all.size(); ++i)
            REQUIRE(jump.all[i]->ticks == steps.all[i]->ticks);
    }
}

// --- callbacks that throw -----------------------------------------------------------------------

namespace {

bool advance_is_thrown_out_of(timer_wheel& wheel, jiffies until) {
    try {
        wheel.advance(until);
    } catch (const thrown_by_callback&) {
        return true;
    }
    return false;
}

}  // namespace

Test(hostile, a_throw_anywhere_leaves_the_rest_due) {
    for (std::size_t thrower = 0; thrower < 12; ++thrower) {
        timer_wheel wheel(250);
        auto all = support::probes(12);
        for (auto& p : all) wheel.arm_after(p->t, 600);
        all[thrower]->then = [](timer_wheel&) { throw thrown_by_callback{}; };

        REQUIRE(advance_is_thrown_out_of(wheel, 2'000));
        CHECK_EQ(wheel.now(), 850);
        CHECK_EQ(wheel.behind(), 1'150);
        CHECK_EQ(check(wheel), "");
        CHECK(!all[thrower]->t.pending());
        const bool left = support::count_fired(all) < all.size();
        CHECK(!left || wheel.next_wakeup() == jiffies{850});

        CHECK(wheel.advance(2'000).caught_up);
        for (auto& p : all) CHECK(p->fired_only_at(850));
        CHECK_EQ(wheel.now(), 2'000);
    }
}

Test(hostile, a_timer_rearmed_before_a_throw_stays_armed) {
    timer_wheel wheel;
    probe p([&](timer_wheel& w) {
        w.arm_after(p.t, 30);
        throw thrown_by_callback{};
    });
    wheel.arm_after(p.t, 10);
    CHECK(advance_is_thrown_out_of(wheel, 20));
    p.then = nullptr;
    wheel.advance(100);
    CHECK(p.ticks == (std::vector<jiffies>{10, 40}));
}

Test(hostile, a_throw_while_destroying_siblings_is_safe) {
    timer_wheel wheel;
    auto all = support::probes(10);
    for (auto& p : all) {
        wheel.arm_after(p->t, 10);
        p->then = [&](timer_wheel&) {
            for (auto& other : all)
                if (other->fired() == 0) other.reset();
            throw thrown_by_callback{};
        };
    }
    CHECK(advance_is_thrown_out_of(wheel, 10));
    CHECK(wheel.advance(10).caught_up);
    CHECK_EQ(wheel.count().fired, 1);
    CHECK_EQ(check(wheel), "");
}

Test(hostile, a_throw_at_a_budgets_end_reorders_nothing) {
    for (const jiffies delay : {jiffies{50}, jiffies{600}})
        for (std::size_t n = 1; n <= support::scaled(40, 12); ++n) {
            const scene s = together(250, n, delay);
            const order calm = play(s, unlimited);
            const std::size_t moves = geometry::level_of(delay) * n;
            for (std::size_t place = 0; place < n; ++place)
                for (const std::size_t budget : {moves + place, moves + place + 1, unlimited})
                    if (budget != 0) CHECK(play(s, budget, calm[place]) == calm);
        }
}

Test(hostile, a_throw_amid_a_cascade_reorders_nothing) {
    for (const jiffies wrap : {jiffies{1} << 26, jiffies{1} << 34})
        for (const jiffies before : just_before) {
            if (before > wrap) continue;
            const scene s = around(wrap, before, 3);
            const order calm = play(s, unlimited);
            for (std::size_t thrower = 0; thrower < s.due.size(); ++thrower)
                for (const std::size_t budget : {std::size_t{4}, unlimited})
                    CHECK(play(s, budget, thrower) == calm);
        }
}

// --- nothing left -------------------------------------------------------------------------------

namespace {

// Runs the scene with a budget of one, stops after this many visits and does `act`. Repeats it with
// one visit more, until the scene has no further visit.
template <class F> void pause_at_each_visit(const scene& s, F act) {
    for (std::size_t pause = 1;; ++pause) {
        timer_wheel wheel(s.start);
        actors c;
        c.add_all(wheel, s);
        bool caught_up = false;
        for (std::size_t i = 0; i < pause && !caught_up; ++i) caught_up = bounded(wheel, s.end, 1);
        if (caught_up) break;
        act(wheel, c);
        REQUIRE_LE(pause, most_visits(s));
    }
}

// Timers on every level and beyond. The `killer`th fire destroys all timers, itself included, so
// the rest of the callback must not use the owner.
struct doomed {
    struct member {
        explicit member(doomed& d) : home(d) {}
        void on_fire() { home.on_fire(); }
        doomed& home;
        tvec::timer t{tvec::call<&member::t, &member::on_fire>};
    };

    doomed(timer_wheel& wheel, jiffies tick, std::size_t due_with_it, std::size_t kills)
        : killer(kills) {
        for (std::size_t i = 0; i < due_with_it; ++i) arm(wheel, tick);
        for (const jiffies edge : support::edges()) arm(wheel, tick + edge);
        arm(wheel, tvec::never);
        for (const jiffies edge : support::edges()) {
            arm(wheel, tick + edge);
            all.back()->t.cancel();
        }
    }
    void arm(timer_wheel& wheel, jiffies at) {
        all.push_back(std::make_unique<member>(*this));
        wheel.arm_at(all.back()->t, at);
    }
    void on_fire() {
        if (++fired == killer) all.clear();
    }

    std::size_t killer, fired = 0;
    std::vector<std::unique_ptr<member>> all;
};

void expect_nothing_more(timer_wheel& wheel) {
    CHECK_EQ(check(wheel), "");
    CHECK_EQ(wheel.count_pending(), 0);
    const auto before = visits(wheel);
    // One at once if a budget has left work over, and one that was announced.
    if (wheel.next_wakeup() == wheel.now()) wheel.advance(wheel.now());
    REQUIRE_EQ(check(wheel), "");
    if (const auto foretold = wheel.next_wakeup()) {
        CHECK_LE(wheel.now() + 1, *foretold);
        wheel.advance(*foretold);
    }
    CHECK(!wheel.next_wakeup());
    CHECK_EQ(check(wheel), "");
    CHECK(wheel.advance(tvec::never).caught_up);
    CHECK_EQ(visits(wheel), before);
}

}  // namespace

Test(hostile, timers_may_be_destroyed_wherever_a_budget_ends) {
    for (const jiffies before : just_before)
        pause_at_each_visit(around(jiffies{1} << 34, before, 3), [](timer_wheel& wheel, actors& c) {
            c.all.clear();
            expect_nothing_more(wheel);
        });
}

Test(hostile, timers_may_be_drained_wherever_a_budget_ends) {
    for (const jiffies before : just_before) {
        const scene s = around(jiffies{1} << 34, before, 3);
        pause_at_each_visit(s, [&](timer_wheel& wheel, actors& c) {
            const jiffies next = wheel.now() + 1;
            std::vector<jiffies> due = s.due;
            for (std::size_t i = 0; i < due.size(); ++i)
                if (c.all[i]->t.pending()) due[i] = std::max(due[i], next);
            const std::size_t pending = wheel.count_pending();
            CHECK_EQ(wheel.drain([&](tvec::timer& t) { wheel.arm_at(t, t.expires()); }), pending);
            while (!bounded_and_checked(wheel, s.end + 1, 5)) {
            }
            c.expect_each_fired_once_at(due);
        });
    }
}

Test(hostile, a_callback_destroying_all_timers_empties_the_wheel) {
    for (const jiffies start : support::starts())
        for (std::size_t place = 1; place <= 12; ++place)
            for (const std::size_t budget : {std::size_t{1}, unlimited}) {
                timer_wheel wheel(start);
                doomed d(wheel, start + 600, 12, place);
                while (!d.all.empty()) bounded_and_checked(wheel, start + 600, budget);
                CHECK_EQ(wheel.now(), start + 600);
                CHECK(wheel.advance(start + 601).caught_up);
                expect_nothing_more(wheel);
                CHECK_EQ(d.fired, place);
            }
}

Test(hostile, a_callback_may_drain_and_rearm_all_timers) {
    scene s = together(0, 12, 600);
    for (const jiffies edge : support::edges()) s.due.push_back(600 + edge);
    for (std::size_t place = 1; place <= 12; ++place) {
        timer_wheel wheel;
        actors c;
        c.add_all(wheel, s);
        for (auto& p : c.all)
            p->then = [&, armed = p.get()](timer_wheel& w) {
                if (support::count_fired(c.all) != place) return;
                w.arm_at(armed->t, w.now());
                w.drain([&](tvec::timer& t) { CHECK(!w.arm_at(t, w.now())); });
                CHECK_EQ(check(w), "");
            };
        while (!bounded_and_checked(wheel, 601, 10)) {
        }
        std::size_t twice = 0, early = 0;
        for (const auto& p : c.all) {
            twice += p->ticks == std::vector<jiffies>{600, 601};
            early += p->fired_only_at(600);
            CHECK(p->ticks.back() == 601 || p->fired_only_at(600));
        }
        CHECK_EQ(twice, 1);  // the one that drained had armed itself
        CHECK_EQ(early, place - 1);
        CHECK(!wheel.next_wakeup());
    }
}

Test(hostile, callbacks_draining_and_rearming_all_cannot_stop_time) {
    timer_wheel wheel;
    auto all = support::probes(100);
    for (auto& p : all) {
        wheel.arm_after(p->t, 0);
        p->then = [&](timer_wheel& w) {
            w.drain([](tvec::timer&) {});
            for (auto& other : all) w.arm_after(other->t, 0);
        };
    }
    for (jiffies calls = 1; !bounded_and_checked(wheel, 1'000, 3); ++calls)
        REQUIRE_EQ(wheel.now(), 3 * calls + 1);
    CHECK_EQ(support::count_fired(all), 1'000);
    CHECK_EQ(wheel.count_pending(), 100);
}

// --- churn without time passing -----------------------------------------------------------------

Test(hostile, timers_destroyed_while_pending_cost_no_visits) {
    constexpr std::array<jiffies, 6> delays{100,     1'000,   1 << 16,
                                            1 << 22, 1 << 28, jiffies{1} << 34};
    for (const jiffies delay : delays) {
        timer_wheel wheel(77);
        const scene s = together(77, 100, delay);
        auto all = support::probes(s.due.size());
        const std::size_t between = support::scaled(10'000);
        for (std::size_t i = 0; i < 100 * between; ++i) {
            tvec::timer gone;
            wheel.arm_after(gone, delay);
            if (i % between == between / 2) wheel.arm_after(all[i / between]->t, delay);
            if (i % (10 * between) == 0) REQUIRE_EQ(check(wheel), "");
        }
        while (!bounded_and_checked(wheel, s.end, 50)) {
        }
        for (const auto& p : all) CHECK(p->fired_only_at(s.end));
        CHECK_LE(visits(wheel), most_visits(s));
    }
}

namespace {

// Hops from wake-up to wake-up until there is none. Returns the number of hops.
std::size_t run_dry(timer_wheel& wheel) {
    std::size_t hops = 0;
    for (; wheel.next_wakeup(); ++hops) bounded_and_checked(wheel, *wheel.next_wakeup(), 1);
    return hops;
}

// Deadlines on every level, in an order that goes up and down.
jiffies up_and_down(std::size_t i) {
    constexpr std::array<jiffies, 6> delays{1 << 28, 90, 1 << 22, 700, jiffies{1} << 34, 1 << 16};
    return delays[i % delays.size()] + i % 13;
}

}  // namespace

Test(hostile, a_timer_cancelled_repeatedly_costs_one_visit) {
    timer_wheel wheel(77);
    probe p;
    for (std::size_t i = support::scaled(1'000'000); i > 0; --i) {
        CHECK(!wheel.arm_after(p.t, up_and_down(i)));
        CHECK(p.t.cancel());
    }
    CHECK_EQ(check(wheel), "");
    CHECK_LE(run_dry(wheel), geometry::levels + 1);
    CHECK_EQ(p.fired(), 0);
    CHECK_LE(visits(wheel), 1);
}

Test(hostile, a_timer_moved_repeatedly_costs_no_extra_visits) {
    for (std::size_t last = 0; last < 6; ++last)
        for (const jiffies start : {jiffies{77}, (jiffies{1} << 32) - 300}) {
            timer_wheel wheel(start);
            probe p;
            for (std::size_t i = 0; i <= support::scaled(200'000) + last; ++i)
                CHECK_EQ(wheel.arm_after(p.t, up_and_down(i)), i != 0);
            const jiffies due = p.t.expires();
            CHECK_EQ(check(wheel), "");
            CHECK_LE(run_dry(wheel), 2 * geometry::levels + 2);
            CHECK(p.fired_only_at(due));
            // Where it was last pulled in to, and on the way down from where it was pushed to.
            CHECK_LE(visits(wheel), 1 + support::most_visits(due - start));
        }
}

Test(hostile, pulling_in_stepwise_costs_no_extra_visits) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) {
            timer_wheel wheel(start);
            probe p;
            wheel.arm_after(p.t, delay + 40);
            for (int i = 0; i < 40; ++i) wheel.arm_at(p.t, p.t.expires() - 1);
            run_dry(wheel);
            CHECK(p.fired_only_at(start + delay));
            CHECK_LE(visits(wheel), support::most_visits(delay));
        }
}
