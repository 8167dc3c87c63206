// After a stall a loop hears what has come before it times out anybody, for a bounded time. A
// silent peer has a second chance, once.
#include "tvec/clock/stall_watch.hpp"

#include <stdexcept>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/overload.hpp"
#include "support/probe.hpp"
#include "tvec/extra/turn_clock.hpp"

using namespace std::chrono_literals;
using support::probe;
using tvec::manual_clock;

namespace {

template <class Clock>
using timers_on = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, Clock>>;
using timers = timers_on<manual_clock>;

// A loop whose kernel holds this many messages. Each becomes available when the one before has been
// handled.
template <class Timers> struct loop_on {
    std::size_t hear() {
        manual_clock::advance(each);
        if (held == 0) return 0;
        --held;
        ++heard;
        return 1;
    }
    // Runs a turn that begins after `away`, and then turns for as long as timers wait.
    void turn(std::chrono::milliseconds away) {
        manual_clock::advance(away);
        do one_turn();
        while (!is_caught_up);
    }
    void one_turn() {
        wheel.begin_turn();
        watch.listen([this] { return hear(); });
        const auto done = watch.run(budget);
        is_caught_up = done.caught_up || budget != tvec::timer_wheel::unlimited;
        ++turns;
    }

    Timers wheel;
    tvec::stall_watch<Timers> watch{wheel, 300ms};
    std::chrono::milliseconds each{0};  // the time to handle one
    std::size_t budget = tvec::timer_wheel::unlimited;
    probe beat;
    unsigned held = 0;
    unsigned heard = 0;
    unsigned turns = 0;
    bool is_caught_up = false;
};
using loop = loop_on<timers>;

// A turn that handles one message for so long.
void busy_turn(loop& l, std::chrono::nanoseconds turn) {
    l.watch.listen([turn] {
        manual_clock::advance(turn);
        return 1;
    });
    l.watch.run(256);
}

}  // namespace

Test(stall_watch, a_turn_in_time_hears_once) {
    loop l;
    probe p;
    l.wheel.arm_after(p.t, 50ms);
    l.held = 5;
    l.turn(150ms);  // due for 100 ms, which is tolerated
    CHECK_EQ(l.heard, 1);
    CHECK_EQ(l.turns, 1);
    CHECK(!l.watch.just_back());
    CHECK_EQ(p.fired(), 1);
}

Test(stall_watch, peers_are_heard_before_timers_after_stalls) {
    loop l;
    tvec::callback_timer last([&l](auto&, auto&) { CHECK_EQ(l.held, 0); });
    l.wheel.arm_after(last, 50ms);
    l.held = 5;
    l.turn(151ms);
    CHECK_EQ(l.heard, 5);
    CHECK(!last.pending());
    CHECK_EQ(l.watch.stalls(), 1);
}

// The kernel may post nothing before the loop asks for it once more.
Test(stall_watch, one_silent_turn_does_not_end_listening) {
    loop l;
    probe p;
    l.wheel.arm_after(p.t, 1ms);
    manual_clock::advance(1s);
    l.one_turn();
    CHECK_EQ(p.fired(), 0);
    CHECK(l.watch.just_back());
    CHECK(l.wheel.next_wakeup() <= manual_clock::now());  // no driver sleeps meanwhile
    l.held = 3;
    l.turn(0ms);
    CHECK_EQ(l.heard, 3);
    CHECK_EQ(p.fired(), 1);
}

// The kernel's thread of an SQPOLL ring runs later than the loop after a stop of both.
Test(stall_watch, settling_gives_threads_of_the_kernel_time) {
    loop l;
    l.watch = tvec::stall_watch(l.wheel, 300ms, 10ms);
    tvec::callback_timer last([&l](auto&, auto&) { CHECK_EQ(l.heard, 3); });
    l.wheel.arm_after(last, 1ms);
    manual_clock::advance(1s);
    for (int ms = 0; ms < 10; ++ms) {
        l.held = ms == 9 ? 3 : 0;
        l.one_turn();
        CHECK(last.pending());
        manual_clock::advance(1ms);
    }
    l.turn(0ms);
    CHECK(!last.pending());
}

// The wheel's tick stands meanwhile, also for loops that advance it themselves.
Test(stall_watch, timers_wait_in_loops_advancing_the_wheel_themselves) {
    loop l;
    probe p;
    l.wheel.arm_after(p.t, 1ms);
    manual_clock::advance(1s);
    l.watch.listen([] { return 7; });
    CHECK_EQ(l.watch.heard(), l.wheel.wheel().now());
    CHECK_EQ(l.wheel.wheel().advance(l.watch.heard()).fired, 0);
    l.watch.listen([] { return 0; });
    CHECK_EQ(l.watch.heard(), 1'000);
    CHECK_EQ(l.wheel.wheel().advance(l.watch.heard()).fired, 1);
}

Test(stall_watch, endless_talk_delays_timers_half_a_second) {
    loop l;
    probe p;
    l.wheel.arm_after(p.t, 1ms);
    l.held = 1'000'000;
    l.each = 1ms;
    l.turn(1s);
    CHECK_EQ(p.fired(), 1);
    CHECK_LE(l.heard, 502);
    CHECK_GE(l.heard, 500);
}

// Each of whose messages is a stall of its own.
Test(stall_watch, blocking_handlers_delay_timers_by_one_turn) {
    loop l;
    probe p;
    l.wheel.arm_after(p.t, 1ms);
    l.held = 1'000'000;
    l.each = 2s;
    l.turn(1s);
    CHECK_EQ(p.fired(), 1);
    CHECK_LE(l.turns, 3);
}

Test(stall_watch, an_idle_loop_is_not_stalled) {
    loop l;
    probe p;
    l.turn(1h);
    l.wheel.arm_after(p.t, 200ms);
    l.turn(200ms);
    CHECK_EQ(l.turns, 2);
    CHECK_EQ(l.watch.stalls(), 0);
}

// The turn that ends a stall goes on for a tenth of a second. Others that are in time do not.
Test(stall_watch, work_left_by_a_budget_is_no_stall) {
    loop l;
    std::vector<std::unique_ptr<probe>> due = support::probes(300);
    for (const auto& p : due) {
        p->then = [](auto&) { manual_clock::advance(1ms); };
        l.wheel.arm_after(p->t, 10ms);
    }
    l.budget = 2;
    l.turn(1s);
    l.turn(0ms);
    CHECK_EQ(l.watch.stalls(), 1);
    CHECK_EQ(support::count_fired(due), 100);
    for (int i = 0; i < 5; ++i) l.turn(0ms);
    CHECK_EQ(support::count_fired(due), 110);
    for (int i = 0; i < 20; ++i) l.turn(50ms);
    CHECK_EQ(l.watch.stalls(), 1);
}

Test(stall_watch, a_timer_due_amid_messages_waits) {
    loop l;
    tvec::callback_timer judge([&l](auto&, auto&) { CHECK_EQ(l.held, 0); });
    l.wheel.arm_after(judge, 50ms);
    l.held = 5;
    l.each = 1s;  // in the message, or because the process was stopped there
    l.turn(10ms);
    CHECK(judge.pending());
    CHECK_EQ(l.watch.stalls(), 0);
    l.each = 0ms;
    l.turn(0ms);
    CHECK(!judge.pending());
    CHECK_EQ(l.watch.stalls(), 1);
}

Test(stall_watch, a_callback_that_blocks_is_a_stall) {
    loop l;
    probe p;
    tvec::callback_timer blocks([](auto&, auto&) { manual_clock::advance(2s); });
    l.wheel.arm_after(blocks, 10ms);
    l.wheel.arm_after(p.t, 20ms);
    l.turn(10ms);
    CHECK_EQ(l.watch.stalls(), 0);
    l.turn(0ms);
    CHECK_EQ(l.watch.stalls(), 1);
    CHECK_EQ(p.fired(), 1);
}

Test(stall_watch, peers_heard_after_a_stall_are_kept) {
    loop l;
    probe idle;
    l.wheel.arm_after(idle.t, 1s);
    manual_clock::advance(1500ms);
    l.watch.listen([&] {
        l.wheel.arm_after(idle.t, 1s);
        return 1;
    });
    l.watch.run();
    l.turn(0ms);
    CHECK_EQ(idle.fired(), 0);
    CHECK(idle.t.pending());
}

Test(stall_watch, a_handlers_exception_ends_no_listening) {
    loop l;
    probe p;
    l.wheel.arm_after(p.t, 1ms);
    manual_clock::advance(1s);
    bool thrown = false;
    try {
        l.watch.listen([]() -> int { throw std::runtime_error("a handler's"); });
    } catch (const std::runtime_error&) {
        thrown = true;
    }
    CHECK(thrown);
    CHECK_EQ(l.watch.run().fired, 0);
    l.turn(0ms);
    CHECK_EQ(p.fired(), 1);
}

// A turn's calls share its reading. The bound must not wait for that to go on.
Test(stall_watch, the_bound_holds_on_a_turn_clock) {
    loop_on<timers_on<tvec::turn_clock<manual_clock>>> l;
    probe p;
    l.wheel.arm_after(p.t, 1ms);
    l.held = 1'000'000;
    l.each = 1ms;
    l.turn(1s);
    CHECK_EQ(p.fired(), 1);
    CHECK_LE(l.heard, 502);
}

Test(stall_watch, a_backward_clock_step_ends_the_listening) {
    manual_clock::set(manual_clock::time_point(10h));
    loop l;
    probe p;
    l.wheel.arm_after(p.t, 1ms);
    l.held = 1'000'000;
    manual_clock::advance(1s);
    l.one_turn();
    manual_clock::set(manual_clock::time_point(10h + 500ms));
    l.one_turn();
    CHECK_EQ(p.fired(), 1);
}

// --- overload ------------------------------------------------------------------------------------

Test(stall_watch, overload_makes_timers_at_most_a_turn_later) {
    support::each_overload([](std::size_t n, auto turn, auto work) {
        loop l;
        support::clients c(l.wheel, n, work);
        const auto latest = support::lateness(c, [&] { busy_turn(l, turn); });
        const auto plain = support::plain_lateness(n, turn, work);
        CHECK_LE(latest, plain + support::one_turn(n, turn, work));
        CHECK_EQ(c.early, 0);
    });
}

// 256 visits a turn of 900 ms would be 284 timers a second.
Test(stall_watch, timers_fire_as_fast_as_overload_brings_them) {
    support::each_overload([](std::size_t n, auto turn, auto work) {
        if (work == 1ms) return;  // which leaves no time for messages
        loop l;
        support::clients c(l.wheel, n, work);
        const auto latest = support::lateness(c, [&] { busy_turn(l, turn); });
        CHECK_LE(latest, 2 * turn + 100ms);
    });
}

Test(stall_watch, slow_turns_close_no_client_that_talks) {
    for (const bool sleep_is_within : {false, true})  // as where one call sleeps and handles
        support::each_slow_loop([=](auto limit, int parts, auto next_work) {
            timers wheel;
            tvec::stall_watch watch(wheel);
            support::talkers all(wheel, limit, parts);
            for (int i = 0; i < 2000; ++i) {
                if (!sleep_is_within) all.poll();
                watch.listen([&] {
                    if (sleep_is_within) all.poll();
                    return all.handle(next_work());
                });
                watch.run(256);
            }
            CHECK_EQ(all.closed, 0);
        });
}

Test(stall_watch, long_turns_delay_timers_under_twice_their_length) {
    loop l;
    support::clients c(l.wheel, 1000, 10us);
    int turns = 0;
    const auto latest = support::lateness(c, [&] { busy_turn(l, ++turns % 5 == 0 ? 200ms : 5ms); });
    CHECK_LE(latest, 2 * 210ms);
}

Test(stall_watch, a_stall_of_a_slow_loop_is_noticed) {
    loop l;
    probe p;
    const auto slow_turn = [&l] {
        l.wheel.arm_unless_pending(l.beat.t, l.wheel.after(1ms));
        busy_turn(l, 60ms);
    };
    for (int i = 0; i < 20; ++i) slow_turn();
    CHECK_EQ(l.watch.stalls(), 0);
    l.wheel.arm_after(p.t, 10ms);
    manual_clock::advance(1s);
    slow_turn();
    CHECK_EQ(l.watch.stalls(), 1);
    CHECK_EQ(p.fired(), 0);
}

Test(stall_watch, slow_callbacks_that_exceed_budgets_are_no_stall) {
    loop l;
    support::clients c(l.wheel, 800, 1ms);  // 256 of them take longer than the tolerance
    support::lateness(c, [&] { busy_turn(l, 10ms); });
    CHECK_LE(l.watch.stalls(), 3);
}

// A pass of 250 ms among 16 short ones, with a fiftieth of the processor for timers.
Test(stall_watch, a_hold_leaves_no_backlog_that_grows) {
    loop l;
    support::clients c(l.wheel, 4000, 10us);
    int turns = 0;
    const auto latest =
        support::lateness(c, [&] { busy_turn(l, ++turns % 17 == 0 ? 250ms : 1ms); });
    CHECK_LE(latest, 700ms);
}

Test(stall_watch, a_callback_blocking_amid_work_is_a_stall) {
    loop l;
    bool is_first = true;
    auto due = support::probes(400);
    for (const auto& p : due) {
        p->then = [&](auto&) {
            if (std::exchange(is_first, false)) manual_clock::advance(1s);
        };
        l.wheel.arm_after(p->t, 10ms);
    }
    probe later;
    l.wheel.arm_after(later.t, 20ms);
    l.budget = 256;
    l.turn(10ms);
    CHECK_EQ(support::count_fired(due), 256);
    l.turn(0ms);
    CHECK_EQ(l.watch.stalls(), 1);
    CHECK_EQ(later.fired(), 0);
}

Test(stall_watch, turns_of_equal_length_are_no_stalls) {
    for (const auto turn : {110ms, 150ms, 260ms, 900ms}) {
        loop l;
        std::uint64_t seed = 1;
        for (int i = 0; i < 300; ++i) {
            probe p;
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const auto delay = std::chrono::milliseconds(seed >> 54) + 1ms;
            const auto end = manual_clock::now() + delay;
            l.wheel.arm_after(p.t, delay);
            while (p.fired() == 0) busy_turn(l, turn);
            if (i > 20) CHECK_LE((manual_clock::now() - end) / 1ms, 2 * turn / 1ms + 1);
        }
        CHECK_LE(l.watch.stalls(), 3);
    }
}

Test(stall_watch, a_spinning_turn_clock_ends_the_hold) {
    loop_on<timers_on<tvec::turn_clock<manual_clock>>> l;
    probe p;
    l.one_turn();  // the thread's turn goes on, because nobody asks before a sleep
    l.wheel.arm_after(p.t, 1ms);
    manual_clock::advance(1s);
    for (int i = 0; i < 2000 && p.fired() == 0; ++i) {
        manual_clock::advance(1ms);
        l.watch.listen([] { return 1; });
        l.watch.run();
    }
    CHECK_EQ(p.fired(), 1);
}

Test(stall_watch, a_backward_clock_step_ends_the_grace) {
    manual_clock::set(manual_clock::time_point(10h));
    loop l;
    probe p;
    l.wheel.arm_after(p.t, 1ms);
    l.turn(1s);
    CHECK(l.watch.just_back());
    manual_clock::set(manual_clock::time_point(9h));
    l.turn(0ms);
    l.turn(300ms);
    CHECK(!l.watch.just_back());
}

Test(stall_watch, a_run_within_a_callback_ends) {
    loop l;
    probe p([&](auto&) { CHECK(!l.watch.run(256).caught_up); });
    l.wheel.arm_after(p.t, 1ms);
    l.turn(50ms);
    CHECK_EQ(p.fired(), 1);
    l.wheel.arm_after(p.t, 1ms);
    manual_clock::advance(50ms);
    l.watch.listen([] { return 0; });
    CHECK(!l.watch.run(0).caught_up);
}

// --- second chances ------------------------------------------------------------------------------

Test(stall_watch, nobody_is_judged_until_the_grace_is_over) {
    loop l;
    probe p;
    CHECK(!l.watch.just_back());
    l.wheel.arm_after(p.t, 1ms);
    l.turn(1s);
    CHECK(l.watch.just_back());
    l.turn(299ms);
    CHECK(l.watch.just_back());
    l.turn(1ms);
    CHECK(!l.watch.just_back());
}

Test(stall_watch, the_grace_begins_when_all_has_been_heard) {
    loop l;
    probe p;
    l.wheel.arm_after(p.t, 1ms);
    l.held = 9;
    l.each = 40ms;
    l.turn(1s);
    l.turn(259ms);  // and 40 to find that nothing is left
    CHECK(l.watch.just_back());
}

Test(stall_watch, a_second_chance_is_given_once_per_silence) {
    loop l;
    probe p;
    tvec::second_chance chance;
    CHECK(!chance.take(l.watch));  // no stall to excuse it
    l.wheel.arm_after(p.t, 1ms);
    l.turn(1s);
    CHECK(chance.take(l.watch));
    CHECK(!chance.take(l.watch));
    chance.renew();
    CHECK(chance.take(l.watch));
}
