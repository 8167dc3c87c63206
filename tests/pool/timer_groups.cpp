// Groups: cancelling, counting, pausing all timers of an object, also from their own callbacks, and
// as a plain list of deadlines would do it.
#include <algorithm>
#include <array>
#include <csignal>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/pooled.hpp"
#include "tvec/extra/timer_group.hpp"

using namespace std::chrono_literals;
using support::pooled;
using tvec::grouped_timer, tvec::jiffies, tvec::timer_group, tvec::timeout_handle;

TestSuite(timer_groups, .timeout = 60);

namespace {

std::chrono::milliseconds ms(std::uint64_t n) { return std::chrono::milliseconds(n); }

// An object with a group and two timers, which do what a test says.
struct player {
    void on_first() { first_calls(); }
    void on_second() { ++seconds; }

    std::function<void()> first_calls = [this] { ++firsts; };
    int firsts = 0;
    int seconds = 0;
    timer_group timers;
    grouped_timer first{timers, tvec::call<&player::first, &player::on_first>};
    grouped_timer second{timers, tvec::call<&player::second, &player::on_second>};
};

}  // namespace

Test(timer_groups, membership_costs_sixteen_bytes_and_firing_nothing) {
    if (sizeof(void*) != 8) return;
    CHECK_EQ(sizeof(grouped_timer), sizeof(tvec::timer) + 16);
    struct most {
        void operator()() const {}
        std::array<char, 32> captured;
    };
    timer_group group;
    pooled on;
    CHECK(on.pool.schedule(1ms, group.add(most{})));
    CHECK_EQ(on.pool.capacity(), 64);  // in a node of the usual size
}

namespace {

struct many {
    void on_buff(grouped_timer& t) { last = &t - buffs.data(); }
    std::ptrdiff_t last = -1;
    timer_group timers;
    std::array<grouped_timer, 3> buffs{tvec::call_each<&many::buffs, &many::on_buff>(timers)};
};

}  // namespace

Test(timer_groups, a_timer_in_an_array_finds_its_object) {
    pooled on;
    many m;
    for (std::size_t i : {2U, 0U, 1U}) {
        on.timers.arm_after(m.buffs[i], 5ms);
        CHECK_EQ(m.timers.count(), 1);
        on.pass(6ms);
        CHECK_EQ(m.last, static_cast<std::ptrdiff_t>(i));
    }
}

Test(timer_groups, an_armed_timer_may_change_its_group) {
    pooled on;
    timer_group first, second;
    int calls = 0;
    struct event {
        void on_fire() { ++*count; }
        int* count;
        grouped_timer t{tvec::call<&event::t, &event::on_fire>};
    } e{&calls};
    on.timers.arm_after(e.t, 5ms);
    e.t.join(first);
    e.t.join(first);
    CHECK_EQ(first.count(), 1);
    CHECK_EQ(first.pause(on.timers), 1);
    e.t.join(second);
    CHECK_EQ(first.count(), 0);
    on.pass(100ms);
    CHECK_EQ(calls, 0);
    CHECK_EQ(second.resume(on.timers), 1);
    on.pass(6ms);
    CHECK_EQ(calls, 1);
}

Test(timer_groups, a_group_counts_and_cancels_all_members) {
    pooled on;
    pooled::pool_type other(on.timers);
    player p;
    const auto token = std::make_shared<int>();
    CHECK_EQ(p.timers.count(), 0);
    on.timers.arm_after(p.first, 5ms);
    CHECK(on.pool.schedule(5ms, p.timers.add([token] {})));
    CHECK(other.schedule_every(1ms, p.timers.add([token](const tvec::timeout_call&) {})));
    CHECK(on.pool.schedule(5ms, [token] {}));  // no member
    CHECK_EQ(p.timers.count(), 3);
    CHECK_EQ(p.timers.cancel_all(), 3);
    CHECK_EQ(support::held(token), 1);
    CHECK(!p.first.pending());
    CHECK_EQ(on.pass(10ms), 1);
    CHECK_EQ(p.timers.cancel_all(), 0);
    on.timers.arm_after(p.first, 5ms);  // it is still a member
    CHECK_EQ(p.timers.count(), 1);
}

Test(timer_groups, a_timeout_leaves_after_its_last_call) {
    pooled on;
    timer_group group;
    on.pool.schedule(1ms, group.add([] {}));
    const auto every = on.pool.schedule_every(1ms, group.add([] {})).handle;
    on.pass(1ms);
    CHECK_EQ(group.count(), 1);
    on.pool.cancel(every);
    CHECK_EQ(group.count(), 0);
}

Test(timer_groups, a_refused_function_is_unchanged_and_no_member) {
    pooled on(0);
    timer_group group;
    struct delivery {
        void operator()() const {}
        std::unique_ptr<int> what;
    };
    delivery f{std::make_unique<int>(7)};
    CHECK_EQ(on.pool.schedule(1ms, group.add(std::move(f))).error, tvec::schedule_error::too_many);
    CHECK(f.what != nullptr);
    void (*const none)() = nullptr;
    CHECK_EQ(on.pool.schedule(1ms, group.add(none)).error, tvec::schedule_error::no_function);
    CHECK_EQ(group.count(), 0);
}

Test(timer_groups, destroying_a_group_cancels_its_members) {
    pooled on;
    auto group = std::make_unique<timer_group>();
    grouped_timer t(*group);
    const auto token = std::make_shared<int>();
    const auto h = on.pool.schedule(1ms, group->add([token] {})).handle;
    on.timers.arm_after(t, 1ms);
    group.reset();
    CHECK(!t.pending());
    CHECK_EQ(support::held(token), 0);
    CHECK_EQ(on.pool.state(h), tvec::timeout_state::cancelled);
    on.timers.arm_after(t, 1ms);
    CHECK_EQ(on.pass(1ms), 1);
}

Test(timer_groups, members_pools_and_groups_die_in_any_order) {
    timer_group group;
    {
        pooled on;
        grouped_timer t(group);
        on.timers.arm_after(t, 1ms);
        on.pool.schedule(1ms, group.add([] {}));
        CHECK_EQ(group.count(), 2);
    }
    CHECK_EQ(group.count(), 0);
    CHECK_EQ(group.cancel_all(), 0);
}

Test(timer_groups, objects_in_a_growing_vector_keep_their_group) {
    struct unit {
        void on_rest() { ++rests; }
        int rests = 0;
        timer_group timers;
        grouped_timer rest{timers, tvec::call<&unit::rest, &unit::on_rest>};
    };
    pooled on;
    std::vector<unit> all;
    for (int i = 0; i < 40; ++i) {
        on.timers.arm_after(all.emplace_back().rest, 10ms);
        on.pool.schedule(10ms, all.back().timers.add([] {}));
    }
    for (unit& u : all) CHECK_EQ(u.timers.count(), 2);
    all[3] = unit{};  // cancels
    all[4] = std::move(all[5]);
    CHECK_EQ(all[4].timers.count(), 2);
    CHECK_EQ(all[5].timers.count(), 0);
    CHECK_EQ(on.pass(10ms), 76);
    CHECK_EQ(all[4].rests, 1);
    CHECK_EQ(all[3].rests + all[5].rests, 0);
}

// --- pause --------------------------------------------------------------------------------------

Test(timer_groups, a_pause_preserves_the_remaining_time) {
    pooled on;
    player p;
    int fired = 0;
    on.timers.arm_after(p.first, 10ms);
    const auto h = on.pool.schedule(20ms, p.timers.add([&] { ++fired; })).handle;
    on.pass(4ms);
    CHECK_EQ(p.timers.pause(on.timers), 2);
    CHECK_EQ(p.timers.count(), 2);
    CHECK_EQ(on.pool.state(h), tvec::timeout_state::pending);
    on.pass(1h);
    CHECK_EQ(p.firsts + fired, 0);
    CHECK_EQ(p.timers.resume(on.timers), 2);
    on.pass(5ms);
    CHECK_EQ(p.firsts, 0);
    on.pass(1ms);
    CHECK_EQ(p.firsts, 1);
    on.pass(9ms);
    CHECK_EQ(fired, 0);
    on.pass(1ms);
    CHECK_EQ(fired, 1);
}

Test(timer_groups, no_member_fires_early_after_a_pause) {
    using tvec::manual_clock;
    std::mt19937_64 random(5);
    manual_clock::set({});
    pooled on;
    for (int round = 0; round < 200; ++round) {
        manual_clock::advance(std::chrono::nanoseconds(random() % 3'000'000));
        on.timers.run();
        player p;
        const std::chrono::nanoseconds delay(random() % 9'000'000);
        std::chrono::nanoseconds lived{0};
        const auto live = [&](std::uint64_t most) {
            const std::chrono::nanoseconds d(random() % most);
            manual_clock::advance(d);
            lived += d;
            on.timers.run();
        };
        on.timers.arm_after(p.first, delay);
        live(5'000'000);
        p.timers.pause(on.timers);
        manual_clock::advance(std::chrono::nanoseconds(random() % 5'000'000));
        p.timers.resume(on.timers);
        while (p.firsts == 0 && p.first.pending()) live(300'000);
        CHECK_EQ(p.firsts, 1);
        CHECK(lived >= delay);
        CHECK(lived <= std::max<std::chrono::nanoseconds>(delay, 5ms) + 3300us);
    }
}

// Ticks of 1/60 s begin between two nanoseconds. Everything happens where one begins.
Test(timer_groups, no_member_fires_early_with_odd_ticks) {
    using tvec::manual_clock;
    using frame = std::chrono::duration<std::int64_t, std::ratio<1, 60>>;
    std::mt19937_64 random(8);
    manual_clock::set({});
    tvec::clocked_wheel<tvec::tick_clock<frame, manual_clock>> timers;
    const auto pass = [&] {  // returns how long it took
        const auto before = manual_clock::now();
        const jiffies tick = timers.ticks().floor(before) + 1 + random() % 4;
        manual_clock::set(timers.ticks().start_of(tick));
        timers.run();
        return manual_clock::now() - before;
    };
    for (int round = 0; round < 1'000; ++round) {
        player p;
        const auto delay = timers.ticks().start_of(5 + random() % 4) - timers.ticks().origin();
        timers.arm_after(p.first, delay);
        auto lived = pass();
        p.timers.pause(timers);
        pass();
        p.timers.resume(timers);
        while (p.first.pending()) lived += pass();
        CHECK(lived >= delay);
    }
}

Test(timer_groups, a_paused_member_causes_one_wakeup_at_most) {
    for (const auto second : {10ms, 20ms, 700ms, 100'000ms}) {
        pooled on;
        player p;
        on.timers.arm_after(p.first, 10ms);
        on.timers.arm_after(p.second, second);
        p.timers.pause(on.timers);
        int wakes = 0;
        for (auto at = on.timers.wheel().next_wakeup(); at && *at < jiffies{1} << 60; ++wakes) {
            on.timers.wheel().advance(*at);
            at = on.timers.wheel().next_wakeup();
        }
        CHECK_LE(wakes, 2);
    }
}

Test(timer_groups, a_periodic_timeout_misses_nothing_during_a_pause) {
    pooled on;
    timer_group group;
    std::vector<jiffies> at;
    on.pool.schedule_every(10ms, group.add([&](const tvec::timeout_call& c) {
        CHECK_EQ(c.missed, 0);
        at.push_back(on.timers.wheel().now());
    }),
                           tvec::missed_periods::burst);
    on.pass(14ms);
    group.pause(on.timers);
    on.pass(986ms);
    group.resume(on.timers);
    for (int i = 0; i < 30; ++i) on.pass(1ms);
    CHECK(at == (std::vector<jiffies>{10, 1006, 1016, 1026}));
}

Test(timer_groups, a_pause_keeps_the_extra_first_calls_deadline) {
    pooled on;
    timer_group group;
    std::vector<jiffies> at;
    on.pass(3s);
    on.pool.schedule_every(on.timers.now() - 3s, 10s, group.add([&](const tvec::timeout_call& c) {
        CHECK_EQ(c.missed, 0);
        at.push_back(on.timers.wheel().now());
    }));
    CHECK_EQ(group.pause(on.timers), 1);
    group.for_each([](const timer_group::member& m) { CHECK(m.paused && m.expires == 1); });
    on.pass(1s);
    CHECK_EQ(group.resume(on.timers), 1);
    for (int i = 0; i < 20'000; ++i) on.pass(1ms);
    CHECK(at == (std::vector<jiffies>{4'001, 11'000, 21'000}));  // not paused: 3'001, 10'000, ...
}

Test(timer_groups, a_paused_member_is_not_run_early) {
    pooled on;
    timer_group group;
    int once = 0, each = 0;
    jiffies due = 0;
    on.pool.schedule(100ms, group.add([&](const tvec::timeout_call& c) {
        ++once;
        due = c.due;
    }));
    on.pool.schedule_every(100ms, group.add([&] { ++each; }));
    on.pass(40ms);
    CHECK_EQ(group.pause(on.timers), 2);
    for (const bool early : {true, false, true}) {
        on.pool.run_early(early);
        on.pass(10ms);
        group.for_each([](const timer_group::member& m) {
            CHECK(m.paused);
            CHECK_EQ(m.expires, 60);
        });
    }
    on.pool.schedule(100ms, group.add([&] { ++once; }));
    CHECK_EQ(group.pause(on.timers), 1);  // before the next tick, on which it would fire
    on.pass(10ms);
    CHECK_EQ(once + each, 0);
    on.pool.run_early(false);
    CHECK_EQ(group.resume(on.timers), 3);
    on.pass(60ms);
    CHECK_EQ(once, 1);
    CHECK_EQ(each, 1);
    CHECK_EQ(due, 140);
}

Test(timer_groups, arm_next_does_not_end_a_pause) {
    pooled on;
    player p;
    on.timers.arm_after(p.first, 10ms);
    on.pass(4ms);
    p.timers.pause(on.timers);
    on.pass(1ms);
    on.timers.arm_next(p.first, 10ms);
    CHECK_EQ(on.pass(1h), 0);
    CHECK_EQ(p.timers.resume(on.timers), 1);
    CHECK_EQ(on.pass(15ms), 0);
    CHECK_EQ(on.pass(1ms), 1);
}

Test(timer_groups, a_pause_leaves_timers_for_never_alone) {
    tvec::timer_wheel wheel;
    timer_group group;
    grouped_timer never(group), longest(group);
    wheel.arm_at(never, tvec::never);
    wheel.arm_at(longest, timer_group::paused_from - 1);
    CHECK_EQ(group.pause(wheel), 1);
    wheel.advance(1'000);
    CHECK_EQ(group.resume(wheel), 1);
    CHECK_EQ(longest.expires(), timer_group::paused_from + 998);  // of which a tick was lost
    CHECK_EQ(never.expires(), tvec::never);
}

Test(timer_groups, due_members_fire_right_after_the_pause) {
    pooled on;
    player p;
    on.timers.arm_after(p.first, 1ms);
    on.timers.arm_after(p.second, 1ms);
    tvec::manual_clock::advance(5ms);
    on.timers.run(1);  // one of the two is left over
    CHECK_EQ(p.firsts + p.seconds, 1);
    CHECK_EQ(p.timers.pause(on.timers), 1);
    CHECK_EQ(on.pass(1s), 0);
    CHECK_EQ(p.timers.resume(on.timers), 1);
    CHECK_EQ(on.pass(1ms), 1);
}

// --- callbacks ----------------------------------------------------------------------------------

Test(timer_groups, a_callback_may_cancel_its_own_group) {
    pooled on;
    player p;
    int fired = 0;
    p.first_calls = [&] { CHECK_EQ(p.timers.cancel_all(), 2); };
    on.timers.arm_after(p.first, 1ms);
    on.timers.arm_after(p.second, 1ms);
    on.timers.arm_after(p.second, 2ms);
    on.pool.schedule_every(2ms, p.timers.add([&] { ++fired; }));
    on.pass(10ms);
    CHECK_EQ(p.seconds + fired, 0);

    const auto token = std::make_shared<int>();
    on.pool.schedule(1ms, p.timers.add([&, token] {
        CHECK_EQ(p.timers.cancel_all(), 0);  // it is not pending itself
        CHECK_EQ(support::held(token), 1);
    }));
    CHECK_EQ(on.pass(10ms), 1);
    on.pool.schedule_every(1ms, p.timers.add([&, token] {
        CHECK_EQ(p.timers.cancel_all(), 1);  // its next period
        CHECK_EQ(support::held(token), 1);   // until it has returned
    }));
    CHECK_EQ(on.pass(1ms), 1);
    CHECK_EQ(support::held(token), 0);
    CHECK_EQ(on.pass(10ms), 0);
}

Test(timer_groups, a_callback_may_pause_its_own_group) {
    pooled on;
    player p;
    p.first_calls = [&] {
        ++p.firsts;
        p.timers.pause(on.timers);
    };
    on.timers.arm_after(p.first, 1ms);
    on.timers.arm_after(p.second, 3ms);
    CHECK_EQ(on.pass(1ms), 1);
    CHECK_EQ(on.pass(1s), 0);
    CHECK_EQ(p.timers.resume(on.timers), 1);
    CHECK_EQ(on.pass(2ms), 1);

    int fired = 0;
    on.pool.schedule_every(2ms, p.timers.add([&] {
        ++fired;
        CHECK_EQ(p.timers.pause(on.timers), 1);  // its next period
    }));
    on.pass(2ms);
    on.pass(1s);
    CHECK_EQ(fired, 1);
    p.timers.resume(on.timers);
    on.pass(1ms);
    CHECK_EQ(fired, 1);
    on.pass(1ms);
    CHECK_EQ(fired, 2);
}

Test(timer_groups, a_callback_arms_its_period_before_it_pauses) {
    pooled on;
    player p;
    p.first_calls = [&] {
        ++p.firsts;
        on.timers.arm_next(p.first, 10ms);
        CHECK_EQ(p.timers.pause(on.timers), 1);
    };
    on.timers.arm_after(p.first, 10ms);
    on.pass(10ms);
    on.pass(1s);
    CHECK_EQ(p.firsts, 1);
    p.timers.resume(on.timers);
    on.pass(9ms);
    CHECK_EQ(p.firsts, 1);
    on.pass(1ms);
    CHECK_EQ(p.firsts, 2);
}

Test(timer_groups, a_callback_arms_its_period_before_it_cancels) {
    pooled on;
    player p;
    p.first_calls = [&] {
        ++p.firsts;
        on.timers.arm_next(p.first, 10ms);
        CHECK_EQ(p.timers.cancel_all(), 1);
    };
    on.timers.arm_after(p.first, 10ms);
    on.pass(10ms);
    on.pass(1s);
    CHECK_EQ(p.firsts, 1);
}

Test(timer_groups, a_callback_that_arms_itself_afterwards_goes_on) {
    pooled on;
    player p;
    for (const bool pauses : {true, false}) {
        p.first_calls = [&] {
            ++p.firsts;
            CHECK_EQ(pauses ? p.timers.pause(on.timers) : p.timers.cancel_all(), 0);
            on.timers.arm_next(p.first, 10ms);
        };
        p.firsts = 0;
        on.timers.arm_after(p.first, 10ms);
        for (int i = 0; i < 10; ++i) on.pass(10ms);
        CHECK_EQ(p.firsts, 10);
        p.first.cancel();
    }
}

Test(timer_groups, poison_armed_by_deadlines_ends_with_its_cure) {
    pooled on;
    player p;
    for (const bool by_deadlines : {true, false}) {
        p.first_calls = [&] {  // poison, and the second timer cures it
            if (by_deadlines)
                on.timers.arm_at(p.first, on.timers.deadline(p.first) + 500ms);
            else
                p.firsts += static_cast<int>(on.timers.arm_next(p.first, 500ms));
            ++p.firsts;
        };
        tvec::callback_timer cure([&] { p.first.cancel(); });
        p.firsts = 0;
        on.timers.arm_after(p.first, 500ms);
        on.timers.arm_after(cure, 1200ms);
        on.pass(3s);
        CHECK_EQ(p.firsts, by_deadlines ? 2 : 6);
    }
}

Test(timer_groups, a_callback_may_arm_a_paused_member) {
    pooled on;
    player p;
    p.first_calls = [&] {
        p.timers.pause(on.timers);
        on.timers.arm_after(p.second, 2ms);
    };
    on.timers.arm_after(p.first, 1ms);
    on.timers.arm_after(p.second, 50ms);
    on.pass(1ms);
    on.pass(2ms);
    CHECK_EQ(p.seconds, 1);
    CHECK_EQ(p.timers.resume(on.timers), 0);
}

Test(timer_groups, a_callback_may_destroy_its_own_group) {
    pooled on;
    auto p = std::make_unique<player>();
    const auto token = std::make_shared<int>();
    p->first_calls = [&] { p.reset(); };
    on.timers.arm_after(p->first, 1ms);
    on.pool.schedule(1ms, p->timers.add([token] {}));
    on.pool.schedule(2ms, p->timers.add([token] {}));
    on.timers.arm_after(p->second, 1ms);
    on.pass(5ms);
    CHECK(!p);
    CHECK_EQ(support::held(token), 0);

    for (const bool is_periodic : {false, true}) {
        auto group = std::make_unique<timer_group>();
        const auto end = [&group, token] {
            group.reset();
            CHECK_GE(support::held(token), 1);  // it is destroyed after it has returned
        };
        is_periodic ? on.pool.schedule_every(1ms, group->add(end))
                    : on.pool.schedule(1ms, group->add(end));
        on.pool.schedule(1ms, group->add([token] {}));
        on.pass(1ms);
        CHECK_EQ(on.pass(5ms), 0);
        CHECK_EQ(on.pool.pending(), 0);
    }
    CHECK_EQ(support::held(token), 0);
}

Test(timer_groups, a_groups_visitor_may_do_anything) {
    pooled on;
    auto p = std::make_unique<player>();
    on.timers.arm_after(p->first, 10ms);
    const auto h = on.pool.schedule(20ms, p->timers.add([] {})).handle;
    on.timers.arm_after(p->second, 30ms);
    on.pass(5ms);
    p->second.cancel();
    int timers = 0, timeouts = 0;
    const auto look = [&](bool paused, jiffies first, jiffies other) {
        timers = timeouts = 0;
        p->timers.for_each([&](const timer_group::member& m) {
            CHECK_EQ(m.paused, paused);
            CHECK_EQ(m.expires, m.timer ? first : other);
            CHECK(m.timer ? m.timer == &p->first : m.handle == h);
            ++(m.timer ? timers : timeouts);
        });
        CHECK_EQ(timers * 10 + timeouts, 11);
    };
    look(false, 10, 20);
    p->timers.pause(on.timers);
    look(true, 5, 15);
    p->timers.resume(on.timers);
    int shown = 0;
    CHECK(!p->timers.for_each([&](const timer_group::member&) { return ++shown < 1; }));
    CHECK_EQ(shown, 1);
    CHECK(p->timers.for_each([&](const timer_group::member&) {  // none that it adds
        on.pool.schedule(1ms, p->timers.add([] {}));
        on.timers.arm_after(p->second, 1ms);
    }));
    CHECK_GE(p->timers.count(), 5);
    p->timers.for_each([&](const timer_group::member&) {  // walks in a walk, in which all end
        p->timers.for_each([&](const timer_group::member&) { p->timers.cancel_all(); });
    });
    CHECK_EQ(p->timers.count(), 0);
    on.timers.arm_after(p->first, 1ms);
    on.timers.arm_after(p->second, 1ms);
    auto& group = p->timers;
    CHECK(group.for_each([&](const timer_group::member&) { p.reset(); }));
}

Test(timer_groups, destroying_a_function_may_destroy_its_group) {
    pooled on;
    auto group = std::make_unique<timer_group>();
    struct ends_group {
        explicit ends_group(std::unique_ptr<timer_group>& g) : group(&g) {}
        ends_group(ends_group&& other) noexcept : group(std::exchange(other.group, nullptr)) {}
        ~ends_group() {
            if (group) group->reset();
        }
        void operator()() const {}
        std::unique_ptr<timer_group>* group;
    };
    for (int i = 0; i < 5; ++i) on.pool.schedule(1ms, group->add(ends_group(group)));
    group->cancel_all();
    CHECK(!group);
    CHECK_EQ(on.pool.pending(), 0);
}

// --- beside a plain list ------------------------------------------------------------------------

namespace {

// The expected behaviour of a member, in the plainest form.
struct expected {
    bool pending = false, paused = false;
    jiffies due = 0;     // while paused, what is left
    jiffies period = 0;  // of a timeout
    jiffies alarm = 0;   // when it fires: at its deadline, or early; if extra and paused, the rest
    bool extra = false;  // the next call comes before the first deadline
};

class beside_a_list {
public:
    explicit beside_a_list(std::uint64_t seed) : random_(seed) {
        for (std::size_t i = 0; i < objects; ++i) renew(i);
        std::fill(wanted_.begin(), wanted_.end(), expected{});
    }

    void step() {
        const std::size_t i = random_() % members, kind = random_() % 16;
        if (kind < 5)
            i < objects ? arm(i) : schedule(i);
        else if (kind < 6)
            cancel(i);
        else if (kind < 7)
            i < objects ? random_() % 2 == 0 ? renew(i) : move_member(i) : cancel(i);
        else if (kind < 12)
            pass(random_() % 4 == 0 ? random_() % 600 : random_() % 40);
        else if (kind < 13)
            pause();
        else if (kind < 14)
            resume();
        else if (random_() % 4 == 0)
            end_all();
        else if (random_() % 2 == 0)
            run_early(random_() % 2 == 0);
        else
            move_group();
        CHECK_EQ(group_.count(), count());
    }

private:
    static constexpr std::size_t objects = 12, members = 24;

    struct object {
        void on_fire() { home->fired_.emplace_back(home->on_.timers.wheel().now(), number); }
        beside_a_list* home;
        std::size_t number;
        grouped_timer t;
    };

    jiffies now() const { return on_.timers.wheel().now(); }
    jiffies delay() { return random_() % (random_() % 8 == 0 ? 20'000 : 60); }
    std::size_t count() const {
        std::size_t n = 0;
        for (std::size_t i = 0; i < members; ++i) n += is_inside(i) && wanted_[i].pending;
        return n;
    }

    void arm(std::size_t i) {
        const jiffies d = delay();
        on_.timers.arm_after(all_[i]->t, ms(d));
        const jiffies due = now() + std::max<jiffies>(d, 1);
        wanted_[i] = {true, false, due, 0, due};
    }
    void schedule(std::size_t i) {
        cancel(i);
        const jiffies d = delay() + 1, period = random_() % 3 == 0 ? d : 0;
        const auto f = [this, i] { fired_.emplace_back(on_.timers.wheel().now(), i); };
        if (period != 0 && random_() % 2 == 0) {  // begun in the past
            const jiffies since = 1 + delay(), soonest = now() + 1;
            handles_[i] =
                on_.pool.schedule_every(on_.timers.now() + 1ms - ms(since), ms(d), group_.add(f))
                    .handle;
            wanted_[i] = {true, false, soonest + d - since % d, d, soonest, true};
            return;
        }
        handles_[i] = (period ? on_.pool.schedule_every(ms(d), group_.add(f))
                              : on_.pool.schedule(ms(d), group_.add(f)))
                          .handle;
        wanted_[i] = {true, false, now() + d, period, early_ ? now() + 1 : now() + d};
    }
    void cancel(std::size_t i) {
        const bool was = i < objects ? all_[i]->t.cancel() : on_.pool.cancel(handles_[i]);
        CHECK_EQ(was, wanted_[i].pending);
        wanted_[i].pending = false;
    }
    bool is_inside(std::size_t i) const { return i >= objects || is_inside_[i]; }
    void renew(std::size_t i) {
        constexpr auto fire = tvec::call<&object::t, &object::on_fire>;
        is_inside_[i] = random_() % 4 != 0;
        all_[i] = std::make_unique<object>(
            object{this, i, is_inside_[i] ? grouped_timer(group_, fire) : grouped_timer(fire)});
        wanted_[i].pending = false;
    }
    void move_member(std::size_t i) {
        if (is_inside_[i] && random_() % 2 == 0)
            all_[i]->t.leave();
        else
            all_[i]->t.join(is_inside_[i] ? others_ : group_);
        is_inside_[i] = !is_inside_[i];
    }
    void pause() {
        std::size_t stopped = 0;
        for (std::size_t i = 0; i < members; ++i) {
            expected& e = wanted_[i];
            if (!e.pending || e.paused || !is_inside(i)) continue;
            e.paused = true;
            e.due -= now();
            e.alarm -= now();
            ++stopped;
        }
        CHECK_EQ(group_.pause(on_.timers), stopped);
    }
    void resume() {
        std::size_t started = 0;
        for (std::size_t i = 0; i < members; ++i) {
            expected& e = wanted_[i];
            if (!e.pending || !e.paused || !is_inside(i)) continue;
            e.paused = false;
            e.due = now() + std::max<jiffies>(e.due, 1);
            e.alarm = i >= objects && early_ ? now() + 1 : e.extra ? now() + e.alarm : e.due;
            ++started;
        }
        CHECK_EQ(group_.resume(on_.timers), started);
    }
    // Paused timeouts stay paused.
    void run_early(bool early) {
        early_ = early;
        on_.pool.run_early(early);
        for (std::size_t i = objects; i < members; ++i) {
            expected& e = wanted_[i];
            if (!e.pending || e.paused || (e.extra && !early)) continue;
            e.alarm = early ? std::min(e.alarm, now() + 1) : e.due;
        }
    }
    void end_all() {
        const std::size_t all = count();
        if (random_() % 2 == 0)
            CHECK_EQ(group_.cancel_all(), all);
        else
            disband();
        for (std::size_t i = 0; i < members; ++i)
            if (is_inside(i)) wanted_[i].pending = false;
    }
    void disband() {
        group_ = timer_group{};
        for (std::size_t i = 0; i < objects; ++i)
            if (is_inside_[i]) all_[i]->t.join(group_);
    }
    void move_group() {
        timer_group elsewhere(std::move(group_));
        CHECK_EQ(group_.count(), 0);
        CHECK_EQ(elsewhere.count(), count());
        group_ = std::move(elsewhere);
    }

    void pass(jiffies ticks) {
        std::vector<std::pair<jiffies, std::size_t>> due;
        for (jiffies tick = now() + 1; tick <= now() + ticks; ++tick)
            for (std::size_t i = 0; i < members; ++i)
                if (expected& e = wanted_[i]; e.pending && !e.paused && e.alarm == tick) {
                    due.emplace_back(tick, i);
                    if (!e.extra) e.due += e.period;
                    e.extra = false;
                    e.alarm = e.due;
                    e.pending = e.period != 0;
                }
        fired_.clear();
        for (jiffies left = ticks; left > 0; --left) on_.pass(1ms);  // so that no period is missed
        std::sort(fired_.begin(), fired_.end());
        std::sort(due.begin(), due.end());
        CHECK(fired_ == due);
    }

    std::mt19937_64 random_;
    pooled on_;
    timer_group group_, others_;
    bool early_ = false;
    std::array<bool, objects> is_inside_{};
    std::array<std::unique_ptr<object>, objects> all_;
    std::array<timeout_handle, members> handles_{};
    std::array<expected, members> wanted_{};
    std::vector<std::pair<jiffies, std::size_t>> fired_;
};

}  // namespace

Test(timer_groups, groups_do_what_deadline_lists_would_do) {
    for (std::uint64_t seed = 1; seed <= support::scaled(40, 4); ++seed) {
        tvec::manual_clock::set({});
        beside_a_list both(seed);
        for (int i = 0; i < 1'500; ++i) both.step();
    }
}

#ifndef NDEBUG  // these are assertions

namespace {

// A member of each kind, on one of two wheels.
struct on_two_wheels {
    on_two_wheels() {
        on.timers.arm_after(member, 5ms);
        (void)on.pool.schedule(5ms, timeouts.add([] {}));
    }
    pooled on;
    support::manual_wheel another;
    timer_group timers, timeouts;
    grouped_timer member{timers};
};

}  // namespace

Test(timer_groups, a_timer_is_not_paused_on_another_wheel, .signal = SIGABRT) {
    on_two_wheels two;
    two.timers.pause(two.another);
}

Test(timer_groups, a_timeout_is_not_paused_on_another_wheel, .signal = SIGABRT) {
    on_two_wheels two;
    two.timeouts.pause(two.another);
}

Test(timer_groups, a_timer_does_not_resume_on_another_wheel, .signal = SIGABRT) {
    on_two_wheels two;
    two.timers.pause(two.on.timers);
    two.timers.resume(two.another);
}

Test(timer_groups, a_timeout_does_not_resume_on_another_wheel, .signal = SIGABRT) {
    on_two_wheels two;
    two.timeouts.pause(two.on.timers);
    two.timeouts.resume(two.another);
}

#endif

Test(timer_groups, members_that_are_not_pending_may_be_anywhere) {
    pooled on;
    support::manual_wheel another;
    timer_group group;
    grouped_timer here{group}, fired{group}, cancelled{group};
    another.arm_after(fired, 1ms);
    another.arm_after(cancelled, 9ms);
    cancelled.cancel();
    on.timers.arm_after(here, 3ms);
    tvec::manual_clock::advance(2ms);
    another.run();
    CHECK_EQ(group.pause(on.timers), 1);
    CHECK_EQ(group.resume(on.timers), 1);
}
