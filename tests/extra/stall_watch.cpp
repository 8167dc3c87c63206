// After a stall the server reads arrived messages before it times out a client. A silent client has
// a second chance, once.
#include "../../servers/stalls.hpp"

#include <vector>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "tvec/clock/clocked_wheel.hpp"

using namespace std::chrono_literals;
using support::probe;
using tvec::manual_clock;

namespace {

using timers = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, manual_clock>>;

// A loop whose ring holds this many requests. Each becomes available when the one before has been
// handled.
struct loop {
    void submit_and_poll() { ++polls; }
    std::size_t hear() {
        manual_clock::advance(each);
        if (held == 0) return 0;
        --held;
        ++heard;
        return 1;
    }
    // Runs a turn that begins after `away`.
    void turn(std::chrono::milliseconds away) {
        manual_clock::advance(away);
        watch.listen(*this, [this] { return hear(); });
        wheel.wheel().advance(watch.heard(), 2);
    }

    timers wheel;
    example::stall_watch<timers> watch{wheel, 300ms};
    std::chrono::milliseconds each{0};  // the time to handle one
    unsigned held = 0;
    unsigned heard = 0;
    unsigned polls = 0;
};

}  // namespace

Test(stalls, a_turn_in_time_hears_once) {
    loop l;
    probe p;
    l.wheel.arm_after(p.t, 50ms);
    l.held = 5;
    l.turn(150ms);  // due for 100 ms, which is tolerated
    CHECK_EQ(l.heard, 1);
    CHECK_EQ(l.polls, 0);
    CHECK(!l.watch.just_back());
    CHECK_EQ(p.fired(), 1);
}

Test(stalls, after_a_stall_all_is_heard_before_a_timer_runs) {
    loop l;
    tvec::callback_timer last([&l](auto&, auto&) { CHECK_EQ(l.held, 0); });
    l.wheel.arm_after(last, 50ms);
    l.held = 5;
    l.turn(151ms);
    CHECK_EQ(l.heard, 5);
    CHECK(!last.pending());
    CHECK_EQ(l.watch.stalls(), 1);
}

Test(stalls, what_is_polled_for_is_heard_although_nothing_was_there_at_first) {
    loop l;
    probe p;
    l.wheel.arm_after(p.t, 1ms);
    bool first = true;
    unsigned heard = 0;
    manual_clock::advance(1s);
    l.watch.listen(l, [&] { return std::exchange(first, false) || heard == 3 ? 0 : ++heard; });
    CHECK_EQ(heard, 3);
}

Test(stalls, who_never_ceases_to_talk_does_not_hold_up_the_timers) {
    loop l;
    probe p;
    l.wheel.arm_after(p.t, 1ms);
    l.held = 1'000'000;
    l.each = 1ms;
    l.turn(1s);
    CHECK_EQ(p.fired(), 1);
    CHECK_LE(l.heard, 502);
}

Test(stalls, a_loop_with_nothing_to_do_is_not_away) {
    loop l;
    probe p;
    l.turn(1h);
    l.wheel.arm_after(p.t, 200ms);
    l.turn(200ms);
    CHECK_EQ(l.polls, 0);
}

Test(stalls, what_a_budget_has_left_over_is_no_stall) {
    loop l;
    std::vector<std::unique_ptr<probe>> due = support::probes(100);
    for (const auto& p : due) l.wheel.arm_after(p->t, 10ms);
    l.turn(1s);  // two of them a turn
    CHECK_EQ(l.watch.stalls(), 1);
    for (int i = 0; i < 20; ++i) l.turn(50ms);
    CHECK_EQ(l.watch.stalls(), 1);
}

Test(stalls, what_becomes_due_while_a_message_is_handled_waits_until_the_next_are_heard) {
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

Test(stalls, a_callback_that_blocks_is_a_stall) {
    loop l;
    probe p;
    tvec::callback_timer blocks([](auto&, auto&) { manual_clock::advance(2s); });
    l.wheel.arm_after(blocks, 10ms);
    l.wheel.arm_after(p.t, 20ms);
    l.turn(10ms);
    CHECK_EQ(l.watch.stalls(), 0);
    l.turn(0ms);
    CHECK_EQ(l.watch.stalls(), 1);
}

Test(stalls, nobody_is_judged_until_the_grace_is_over) {
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

Test(stalls, the_grace_begins_when_all_has_been_heard) {
    loop l;
    probe p;
    l.wheel.arm_after(p.t, 1ms);
    l.held = 9;
    l.each = 40ms;
    l.turn(1s);
    l.turn(260ms);  // and 40 to read
    CHECK(l.watch.just_back());
}

Test(stalls, a_second_chance_is_given_once_in_a_silence) {
    loop l;
    probe p;
    example::second_chance chance;
    CHECK(!chance.take(l.watch));  // no stall to excuse it
    l.wheel.arm_after(p.t, 1ms);
    l.turn(1s);
    CHECK(chance.take(l.watch));
    CHECK(!chance.take(l.watch));
    chance.renew();
    CHECK(chance.take(l.watch));
}
