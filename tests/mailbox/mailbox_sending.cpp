// Functions that are sent to a mailbox: when it calls them, in which order, how often, and which it
// refuses. One thread is enough for that. support/stepped.hpp and stress.cpp have more.
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/check.hpp"
#include "support/with_mailbox.hpp"

using namespace std::chrono_literals;
using support::with_mailbox, support::held;
using tvec::mailbox_handle, tvec::send_error, tvec::sent;

TestSuite(mailbox_sending, .timeout = 60);

Test(mailbox_sending, a_sent_delay_counts_from_the_call) {
    with_mailbox on;
    int fired = 0;
    tvec::manual_clock::advance(500us);
    CHECK(on.sender.schedule(10ms, [&] { ++fired; }));
    tvec::manual_clock::advance(3ms);  // the owner is late to see it
    on.mailbox.run();
    CHECK_EQ(on.turn(7ms - 1ns), 0);  // 10 ms and 500 us since the grid's origin: tick 11
    CHECK_EQ(on.turn(1ns), 0);
    CHECK_EQ(on.turn(500us), 1);
    CHECK_EQ(fired, 1);
}

Test(mailbox_sending, a_function_is_called_exactly_at_its_deadline) {
    with_mailbox on;
    int fired = 0;
    const auto due = tvec::manual_clock::now() + 5ms;
    CHECK(on.sender.schedule_at(due, [&] { ++fired; }));
    CHECK_EQ(on.turn(5ms - 1ns), 0);
    CHECK_EQ(on.turn(1ns), 1);
}

Test(mailbox_sending, past_deadlines_fire_on_the_next_tick) {
    with_mailbox on;
    int fired = 0;
    on.turn(20ms);
    CHECK(on.sender.schedule(-5ms, [&] { ++fired; }));
    CHECK(on.sender.schedule_at(tvec::manual_clock::time_point::min(), [&] { ++fired; }));
    on.mailbox.run();
    CHECK_EQ(fired, 0);
    CHECK_EQ(on.turn(1ms), 2);
}

Test(mailbox_sending, the_longest_delay_never_fires) {
    with_mailbox on;
    CHECK(on.sender.schedule(std::chrono::hours::max(), [] {}));
    CHECK_EQ(on.turn(24h * 365), 0);
    CHECK_EQ(on.mailbox.pending(), 1);
}

Test(mailbox_sending, run_calls_posted_functions_in_order) {
    with_mailbox on;
    std::vector<int> called;
    for (int i = 0; i < 50; ++i) CHECK(on.sender.post([&, i] { called.push_back(i); }));
    CHECK_EQ(called.size(), 0);
    CHECK_EQ(on.mailbox.run(20), 20);
    CHECK_EQ(called.size(), 20);
    for (int i = 50; i < 60; ++i) CHECK(on.sender.post([&, i] { called.push_back(i); }));
    CHECK_EQ(on.mailbox.run(), 40);
    for (int i = 0; i < 60; ++i) CHECK_EQ(called[static_cast<unsigned>(i)], i);
    CHECK_EQ(on.mailbox.run(), 0);
    CHECK_EQ(on.mailbox.count().posted, 60);
}

Test(mailbox_sending, a_function_may_ask_for_its_name) {
    with_mailbox on;
    mailbox_handle told;
    const sent a = on.sender.post([&](mailbox_handle h) { told = h; });
    on.turn();
    CHECK(told == a.handle);
    const sent b = on.sender.schedule(1ms, [&](mailbox_handle h) { told = h; });
    on.turn(1ms);
    CHECK(told == b.handle);
    CHECK(a.handle != b.handle);
}

Test(mailbox_sending, move_only_functions_are_destroyed_without_delay) {
    with_mailbox on;
    const auto token = std::make_shared<int>();
    CHECK(on.sender.post([t = std::make_unique<std::shared_ptr<int>>(token)] {}));
    const sent late = on.sender.schedule(1h, [token] {});
    CHECK_EQ(held(token), 2);
    on.turn();
    CHECK_EQ(held(token), 1);
    CHECK(on.sender.cancel(late.handle));
    CHECK_EQ(held(token), 1);  // on the owner's thread
    on.turn();
    CHECK_EQ(held(token), 0);
}

// --- refused ------------------------------------------------------------------------------------

Test(mailbox_sending, a_full_mailbox_refuses_until_there_is_room) {
    with_mailbox on(3);
    CHECK_EQ(on.mailbox.capacity(), 3);
    CHECK_EQ(on.mailbox.memory(), 3 * 128 + sizeof(tvec::detail::mailbox_core));
    const auto token = std::make_shared<int>();
    const sent a = on.sender.schedule(1ms, [token] {});
    CHECK(on.sender.schedule(1h, [token] {}));
    CHECK(on.sender.post([token] {}));
    const auto moved = [mine = token] {};
    const sent refused = on.sender.post(moved);
    CHECK_EQ(refused.error, send_error::full);
    CHECK(!refused.handle);
    CHECK_EQ(held(token), 4);  // those three and `moved`
    CHECK_EQ(on.sender.cancel_then(a.handle, [](bool) {}).error, send_error::full);
    CHECK(on.sender.reschedule(a.handle, 2ms));  // was not cancelled; and this needs no room
    on.turn();
    CHECK(on.sender.post([token] {}));
    CHECK_EQ(on.sender.post([token] {}).error, send_error::full);
    on.turn(2ms);
    CHECK(on.sender.post([token] {}));
    CHECK(on.sender.post([token] {}));
}

Test(mailbox_sending, an_empty_function_is_refused) {
    with_mailbox on;
    CHECK_EQ(on.sender.post(std::function<void()>()).error, send_error::no_function);
    CHECK_EQ(on.sender.post(static_cast<void (*)()>(nullptr)).error, send_error::no_function);
    CHECK_EQ(on.sender.schedule(1ms, std::function<void()>()).error, send_error::no_function);
    CHECK_EQ(on.turn(1ms), 0);
}

Test(mailbox_sending, a_function_whose_copy_throws_is_not_sent) {
    struct throws {
        throws() = default;
        throws(const throws&) { throw std::runtime_error("copy"); }
        void operator()() const {}
    };
    with_mailbox on(1);
    const throws f;
    for (int i = 0; i < 3; ++i) {
        bool thrown = false;
        try {
            on.sender.post(f);
        } catch (const std::runtime_error&) {
            thrown = true;
        }
        CHECK(thrown);
    }
    CHECK_EQ(on.mailbox.run(), 0);
    CHECK(on.sender.post([] {}));
}

// --- cancel -------------------------------------------------------------------------------------

Test(mailbox_sending, cancel_tells_whether_the_function_was_pending) {
    with_mailbox on;
    int fired = 0;
    const auto scheduled = [&] { return on.sender.schedule(1ms, [&] { ++fired; }).handle; };
    const mailbox_handle on_its_way = scheduled();
    CHECK(on.sender.cancel(on_its_way));
    CHECK(!on.sender.cancel(on_its_way));
    const mailbox_handle armed = scheduled();
    on.mailbox.run();
    CHECK_EQ(on.mailbox.pending(), 1);
    CHECK(on.sender.cancel(armed));
    const mailbox_handle too_late = scheduled();
    CHECK_EQ(on.turn(1ms), 1);
    CHECK(!on.sender.cancel(too_late));
    CHECK(!on.sender.cancel(mailbox_handle()));
    CHECK_EQ(fired, 1);
    CHECK_EQ(on.mailbox.count().cancelled, 2);
    CHECK_EQ(on.mailbox.count().fired, 1);
    CHECK_EQ(on.mailbox.pending(), 0);
}

Test(mailbox_sending, a_cancel_unseen_by_the_owner_counts) {
    with_mailbox on;
    const sent late = on.sender.schedule(1ms, [] {});
    on.turn();
    CHECK(on.sender.cancel(late.handle));
    tvec::manual_clock::advance(1ms);
    on.timers.run();  // before the mailbox
    CHECK_EQ(on.mailbox.count().fired, 0);
    CHECK_EQ(on.mailbox.count().overtaken, 1);
    on.mailbox.run();
    CHECK_EQ(on.mailbox.count().cancelled, 1);
}

Test(mailbox_sending, a_function_being_called_cannot_be_cancelled) {
    with_mailbox on;
    int calls = 0;
    on.sender.post([&](mailbox_handle h) {
        ++calls;
        CHECK(!on.sender.cancel(h));
        CHECK(!on.sender.cancel_and_wait(h));
        CHECK(!on.sender.reschedule(h, 1ms));
    });
    CHECK_EQ(on.turn(), 0);
    CHECK_EQ(on.turn(1ms), 0);
    CHECK_EQ(calls, 1);
}

Test(mailbox_sending, cancel_then_answers_on_the_owners_thread) {
    with_mailbox on;
    const auto token = std::make_shared<int>();
    std::vector<bool> answers;
    const auto ask = [&](mailbox_handle h) {
        CHECK(on.sender.cancel_then(h, [&](bool was_pending) {
            CHECK_EQ(held(token), 0);
            answers.push_back(was_pending);
        }));
    };
    const mailbox_handle a = on.sender.schedule(1h, [token] {}).handle;
    on.turn();
    ask(a);
    CHECK(!on.sender.cancel(a));  // it counts from the call
    CHECK_EQ(answers.size(), 0);
    on.turn();
    ask(a);
    ask(on.sender.post([] {}).handle);
    on.turn();
    CHECK(answers == (std::vector<bool>{true, false, true}));
}

Test(mailbox_sending, an_old_handle_reaches_no_later_function) {
    with_mailbox on(1);
    const mailbox_handle old = on.sender.post([] {}).handle;
    on.turn();
    for (int i = 0; i < 1'000; ++i) {
        int called = 0;
        const mailbox_handle h = on.sender.post([&] { ++called; }).handle;
        CHECK(h != old);
        CHECK(!on.sender.cancel(old));
        CHECK(!on.sender.reschedule(old, 1h));
        on.turn();
        CHECK_EQ(called, 1);
    }
}

Test(mailbox_sending, a_handle_of_a_larger_mailbox_is_refused) {
    with_mailbox small(1), large(2);
    large.sender.schedule(1h, [] {});
    const mailbox_handle h = large.sender.schedule(1h, [] {}).handle;
    CHECK(!small.sender.cancel(h));
    CHECK(!small.sender.reschedule(h, 1h));
    CHECK(large.sender.cancel(h));
}

// --- reschedule ---------------------------------------------------------------------------------

Test(mailbox_sending, rescheduling_moves_the_deadline_both_ways) {
    for (const bool seen : {false, true}) {
        with_mailbox on;
        const mailbox_handle h = on.sender.schedule(10ms, [] {}).handle;
        if (seen) on.mailbox.run();
        CHECK(on.sender.reschedule(h, 20ms));
        CHECK_EQ(on.turn(20ms - 1ns), 0);
        CHECK(on.sender.reschedule_at(h, tvec::manual_clock::now() + 1h));
        on.mailbox.run();
        CHECK(on.sender.reschedule(h, 5ms));
        CHECK_EQ(on.turn(5ms - 1ns), 0);
        CHECK_EQ(on.turn(1ms), 1);
        CHECK(!on.sender.reschedule(h, 1ms));
    }
}

Test(mailbox_sending, a_push_back_counts_before_the_owner_sees_it) {
    with_mailbox on;
    const mailbox_handle h = on.sender.schedule(1ms, [] {}).handle;
    on.turn();
    tvec::manual_clock::advance(500us);
    CHECK(on.sender.reschedule(h, 10ms));
    tvec::manual_clock::advance(500us);
    on.timers.run();  // its first deadline
    CHECK_EQ(on.mailbox.count().fired, 0);
    on.turn();
    CHECK_EQ(on.turn(9ms), 0);
    CHECK_EQ(on.turn(1ms), 1);
}

Test(mailbox_sending, a_posted_function_may_still_be_rescheduled) {
    with_mailbox on;
    int called = 0;
    const mailbox_handle h = on.sender.post([&] { ++called; }).handle;
    CHECK(on.sender.reschedule(h, 3ms));
    CHECK_EQ(on.turn(), 0);
    CHECK_EQ(called, 0);
    CHECK_EQ(on.turn(3ms), 1);
    CHECK_EQ(called, 1);
}

Test(mailbox_sending, changes_between_two_runs_cost_one_visit) {
    with_mailbox on;
    const mailbox_handle h = on.sender.schedule(1ms, [] {}).handle;
    for (int i = 0; i < 100; ++i) CHECK(on.sender.reschedule(h, std::chrono::milliseconds(2 + i)));
    CHECK(on.sender.cancel(h));
    CHECK_EQ(on.mailbox.run(), 1);
}

// --- the owner ----------------------------------------------------------------------------------

Test(mailbox_sending, functions_posted_during_run_wait_until_the_next_run) {
    with_mailbox on;
    int calls = 0;
    const std::function<void()> again = [&] {
        ++calls;
        on.sender.post(std::ref(again));
        CHECK_EQ(on.mailbox.run(), 0);
    };
    on.sender.post(std::ref(again));
    for (int i = 1; i <= 5; ++i) {
        CHECK_EQ(on.mailbox.run(), 1);
        CHECK_EQ(calls, i);
    }
}

Test(mailbox_sending, an_exception_leaves_the_rest_for_later) {
    with_mailbox on;
    int called = 0;
    on.sender.post([] { throw 7; });
    on.sender.post([&] { ++called; });
    on.sender.schedule(1ms, [] { throw 8; });
    const auto thrown_by = [](auto act) {
        try {
            act();
        } catch (int i) {
            return i;
        }
        return 0;
    };
    CHECK_EQ(thrown_by([&] { on.mailbox.run(); }), 7);
    CHECK_EQ(thrown_by([&] { on.mailbox.run(); }), 0);
    CHECK_EQ(called, 1);
    tvec::manual_clock::advance(1ms);
    CHECK_EQ(thrown_by([&] { on.timers.run(); }), 8);
    CHECK_EQ(on.mailbox.count().posted, 2);
    CHECK_EQ(on.mailbox.stop(), 0);
}

Test(mailbox_sending, an_awake_owner_is_not_rung_for) {
    with_mailbox on;
    for (int i = 0; i < 10; ++i) on.sender.post([] {});
    on.turn();
    for (int i = 0; i < 10; ++i) on.sender.post([] {});
    CHECK_EQ(on.rings, 0);
}

Test(mailbox_sending, a_sleeping_owner_is_rung_only_once) {
    with_mailbox on;
    const mailbox_handle a = on.sender.schedule(1h, [] {}).handle;
    const mailbox_handle b = on.sender.schedule(1h, [] {}).handle;
    const auto sleeps_until = [&](auto act) {
        on.turn();
        on.rings = 0;
        on.mailbox.rearm();
        on.mailbox.rearm();
        CHECK_EQ(on.rings, 0);
        act();
        CHECK_EQ(on.rings, 1);
        for (int i = 0; i < 10; ++i) on.sender.post([] {});
        CHECK_EQ(on.rings, 1);
    };
    sleeps_until([&] { on.sender.post([] {}); });
    sleeps_until([&] { on.sender.schedule(1ms, [] {}); });
    sleeps_until([&] { on.sender.reschedule(a, 2h); });
    sleeps_until([&] { on.sender.cancel(a); });
    sleeps_until([&] { on.sender.cancel_then(b, [](bool) {}); });
    on.mailbox.run();
    on.sender.post([] {});
    CHECK_EQ(on.rings, 1);  // run has said that it is awake
}

Test(mailbox_sending, mail_sent_before_rearm_rings_at_once) {
    with_mailbox on;
    on.sender.post([] {});
    on.sender.post([] {});
    on.mailbox.rearm();
    CHECK_EQ(on.rings, 1);
    on.mailbox.run(1);
    on.mailbox.rearm();  // one is left over
    CHECK_EQ(on.rings, 2);
    on.mailbox.run();
    on.mailbox.rearm();
    CHECK_EQ(on.rings, 2);
}

Test(mailbox_sending, a_sender_may_ring_in_its_own_way) {
    with_mailbox on;
    int own_rings = 0;
    const auto bell = [&] { ++own_rings; };
    auto ringing = bell;
    const auto through = on.sender.through(ringing);
    on.mailbox.rearm();
    through.post([] {});
    on.sender.post([] {});
    CHECK_EQ(own_rings, 1);
    CHECK_EQ(on.rings, 0);
}

Test(mailbox_sending, pending_counts_as_the_wheel_does) {
    with_mailbox on;
    std::vector<mailbox_handle> all;
    for (int i = 0; i < 10; ++i)
        all.push_back(on.sender.schedule(std::chrono::milliseconds(1 + i), [] {}).handle);
    CHECK_EQ(on.mailbox.pending(), 0);
    on.turn(2ms);
    CHECK_EQ(on.mailbox.pending(), 8);
    CHECK_EQ(on.timers.count_pending(), 8);
    on.sender.cancel(all[9]);
    on.sender.reschedule(all[8], 1h);
    on.turn();
    CHECK_EQ(on.mailbox.pending(), 7);
    CHECK_EQ(on.timers.count_pending(), 7);
}

Test(mailbox_sending, drained_functions_may_be_rescheduled_or_cancelled) {
    with_mailbox on;
    int fired = 0;
    std::vector<mailbox_handle> all;
    for (int i = 0; i < 5; ++i) all.push_back(on.sender.schedule(1ms, [&] { ++fired; }).handle);
    on.mailbox.run();
    CHECK_EQ(on.timers.wheel().drain([](tvec::timer&) {}), 5);
    CHECK_EQ(on.turn(1h), 0);
    CHECK_EQ(on.mailbox.pending(), 5);
    CHECK(on.sender.reschedule(all[0], 1ms));
    CHECK(on.sender.reschedule(all[1], 1h));
    CHECK(on.sender.cancel(all[2]));
    on.turn();
    CHECK_EQ(on.mailbox.pending(), 4);
    on.turn(2ms);
    CHECK_EQ(fired, 1);
    CHECK_EQ(on.mailbox.pending(), 3);
    CHECK_EQ(on.timers.count_pending(), 1);
    CHECK_EQ(on.mailbox.stop(), 3);
    CHECK_EQ(on.mailbox.pending(), 0);
}

// The ring of such a bell may wait in a queue that the waiting thread would submit.
Test(mailbox_sending, a_waiting_cancel_rings_the_shared_doorbell_too) {
    support::manual_wheel timers;
    std::atomic<int> rings = 0, queued = 0;
    tvec::mailbox mailbox(timers, 4, [&] { ++rings; });
    const auto own_bell = [&] { ++queued; };
    const auto through = mailbox.sender().through(own_bell);
    const auto h = through.schedule(1h, [] {}).handle;
    mailbox.run();
    mailbox.rearm();
    std::thread other([&] { CHECK(through.cancel_and_wait(h)); });
    while (rings == 0) std::this_thread::yield();
    mailbox.run();
    other.join();
    CHECK_EQ(queued.load(), 1);
}
