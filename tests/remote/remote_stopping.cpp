// The end of a remote: remaining functions are given back once, senders are refused from then on,
// and wheel, remote and senders may be destroyed in any order.
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/remoted.hpp"

using namespace std::chrono_literals;
using support::remoted, support::held;
using tvec::remote_handle, tvec::send_error;
using remote_type = support::remoted::remote_type;

TestSuite(remote_stopping, .timeout = 60);

Test(remote_stopping, stop_shows_once_what_is_pending_and_what_is_on_its_way) {
    remoted on;
    const auto token = std::make_shared<int>();
    std::set<remote_handle> left;
    const auto origin = tvec::manual_clock::now();
    for (int i = 1; i <= 10; ++i) {
        left.insert(on.sender.schedule(std::chrono::milliseconds(i), [token] {}).handle);
        if (i == 5) on.mailbox.run();
    }
    const remote_handle posted = on.sender.post([token] {}).handle;
    left.insert(posted);
    on.sender.cancel(on.sender.schedule(1h, [token] {}).handle);
    CHECK_EQ(on.mailbox.stop([&](remote_type::unprocessed& u) {
        CHECK_EQ(left.erase(u.handle()), 1);
        CHECK_EQ(u.deadline().has_value(), u.handle() != posted);
        if (u.deadline()) CHECK(*u.deadline() > origin && *u.deadline() <= origin + 11ms);
    }),
             11);
    CHECK_EQ(left.size(), 0);
    CHECK_EQ(held(token), 0);
    CHECK_EQ(on.mailbox.stop(), 0);
    CHECK_EQ(on.turn(1s), 0);
    CHECK_EQ(on.mailbox.count().cancelled, 12);
    CHECK_EQ(on.mailbox.pending(), 0);
    CHECK_EQ(check(on.timers.wheel()), "");
}

Test(remote_stopping, from_then_on_all_is_refused) {
    remoted on;
    const remote_handle h = on.sender.schedule(1ms, [] {}).handle;
    CHECK(!on.sender.stopped());
    on.mailbox.stop();
    CHECK(on.mailbox.stopped());
    CHECK(on.sender.stopped());
    CHECK_EQ(on.sender.post([] {}).error, send_error::stopped);
    CHECK_EQ(on.sender.schedule(1ms, [] {}).error, send_error::stopped);
    CHECK_EQ(on.sender.cancel_then(h, [](bool) {}).error, send_error::stopped);
    CHECK(!on.sender.cancel(h));
    CHECK(!on.sender.cancel_and_wait(h));
    CHECK(!on.sender.reschedule(h, 1ms));
    CHECK_EQ(on.mailbox.run(), 0);
    on.mailbox.rearm();
    CHECK_EQ(on.rings, 0);
}

Test(remote_stopping, the_visitor_may_run_it) {
    remoted on;
    int called = 0;
    on.sender.schedule(1h, [&] { ++called; });
    on.sender.post([&] {
        ++called;
        CHECK_EQ(on.sender.post([] {}).error, send_error::stopped);
    });
    on.mailbox.stop([](remote_type::unprocessed& u) {
        CHECK(u.run());
        CHECK(!u.run());
    });
    CHECK_EQ(called, 2);
}

Test(remote_stopping, what_the_visitor_cancels_is_not_shown) {
    remoted on;
    std::vector<remote_handle> all;
    for (int i = 0; i < 4; ++i) all.push_back(on.sender.schedule(1h, [] {}).handle);
    on.mailbox.run();
    CHECK_EQ(on.mailbox.stop([&](remote_type::unprocessed&) {
        for (const remote_handle h : all) on.sender.cancel(h);
    }),
             1);
}

Test(remote_stopping, if_the_visitor_throws_the_rest_is_kept_for_the_next_stop) {
    remoted on;
    const auto token = std::make_shared<int>();
    for (int i = 0; i < 5; ++i) on.sender.schedule(1h, [token] {});
    on.mailbox.run();
    int shown = 0;
    try {
        on.mailbox.stop([&](remote_type::unprocessed&) {
            if (++shown == 2) throw 1;
        });
    } catch (int) {
        CHECK_EQ(held(token), 3);
        CHECK_EQ(on.timers.count_pending(), 3);
    }
    CHECK_EQ(on.mailbox.stop(), 3);
    CHECK_EQ(held(token), 0);
}

Test(remote_stopping, a_function_may_stop_it_and_is_not_shown_itself) {
    for (const bool posted : {false, true}) {
        remoted on;
        std::size_t shown = 99;
        const auto stop = [&](remote_handle self) {
            shown =
                on.mailbox.stop([&](remote_type::unprocessed& u) { CHECK(u.handle() != self); });
        };
        if (posted)
            on.sender.post(stop);
        else
            on.sender.schedule(1ms, stop);
        on.sender.post([] {});
        on.sender.schedule(1h, [] {});
        on.turn(1ms);
        CHECK_EQ(shown, posted ? 2 : 1);
        on.turn(1ms);
    }
}

Test(remote_stopping, one_of_its_functions_that_destroys_it_ends_the_program) {
    const std::string said = support::last_words([] {
        support::manual_wheel timers;
        std::optional<remote_type> mailbox(std::in_place, timers, 8, [] {});
        mailbox->sender().post([&] { mailbox.reset(); });
        mailbox->run();
    });
    CHECK(said.find("a tvec::remote is destroyed by one of its own functions") !=
          std::string::npos);
}

Test(remote_stopping, a_visitor_that_destroys_it_ends_the_program) {
    const std::string said = support::last_words([] {
        support::manual_wheel timers;
        std::optional<remote_type> mailbox(std::in_place, timers, 8, [] {});
        mailbox->sender().post([] {});
        mailbox->stop([&](remote_type::unprocessed&) { mailbox.reset(); });
    });
    CHECK(said.find("by the visitor of its stop()") != std::string::npos);
}

// --- orders of destruction ----------------------------------------------------------------------

Test(remote_stopping, senders_may_outlive_it_and_the_wheel) {
    const auto token = std::make_shared<int>();
    std::optional<remoted> on(std::in_place);
    const auto sender = on->sender;
    const remote_handle h = sender.schedule(1h, [token] {}).handle;
    on->turn();
    sender.schedule(1h, [token] {});
    on.reset();
    CHECK_EQ(held(token), 0);
    CHECK(sender.stopped());
    CHECK(!sender.cancel(h));
    CHECK_EQ(sender.post([] {}).error, send_error::stopped);
    const auto copy = sender;
    CHECK_EQ(copy.post([] {}).error, send_error::stopped);
}

// Otherwise the last sender would write to it, on its own thread.
Test(remote_stopping, nothing_that_senders_keep_hangs_in_the_wheel) {
    remoted on;
    on.sender.schedule(1h, [] {});
    on.sender.cancel(on.sender.schedule(2h, [] {}).handle);
    const remote_handle h = on.sender.schedule(3h, [] {}).handle;
    on.turn();
    on.sender.cancel(h);
    on.turn();
    on.mailbox.stop();
    const tvec::census left = tvec::take_census(on.timers.wheel());
    CHECK_EQ(left.pending, 0);
    CHECK_EQ(left.idle, 0);
}

Test(remote_stopping, the_wheel_may_end_first) {
    std::optional<support::manual_wheel> timers(std::in_place);
    const auto token = std::make_shared<int>();
    remote_type mailbox(*timers, 8, [] {});
    const auto sender = mailbox.sender();
    const remote_handle h = sender.schedule(1h, [token] {}).handle;
    mailbox.run();
    timers.reset();
    CHECK(sender.cancel(h));
    CHECK_EQ(mailbox.stop(), 0);
    CHECK_EQ(held(token), 0);
}

Test(remote_stopping, threads_that_send_on_are_refused_and_what_they_sent_is_given_back) {
    for (int round = 0; round < 20; ++round) {
        const auto token = std::make_shared<int>();
        std::optional<remoted> on(std::in_place, std::size_t{1'000});
        std::uint64_t taken = 0;
        std::thread producer([&, s = on->sender] {
            for (;;) {
                const auto made = s.post([token] {});
                if (made.error == send_error::stopped) return;
                taken += static_cast<bool>(made);
                if (!made) std::this_thread::yield();  // full
            }
        });
        std::size_t seen = 0;
        for (; seen < 100; std::this_thread::yield()) seen += on->mailbox.run(10);
        const std::size_t shown = on->mailbox.stop();
        on.reset();
        producer.join();
        CHECK_EQ(seen + shown, taken);
        CHECK_EQ(held(token), 0);
    }
}

// --- an owner that has ended without `stop` ----------------------------------------------------

Test(remote_stopping, without_an_owner_the_mailbox_fills_and_refuses_and_cancel_answers) {
    std::optional<remoted> on;
    std::thread owner([&] {
        on.emplace(std::size_t{10});
        on->sender.schedule(1h, [] {});
        on->turn();
        on->mailbox.rearm();
    });
    owner.join();
    const auto sender = on->sender;
    std::vector<remote_handle> all;
    for (;;) {
        const auto made = sender.post([] {});
        if (!made) {
            CHECK_EQ(made.error, send_error::full);
            break;
        }
        all.push_back(made.handle);
    }
    CHECK_EQ(all.size(), 9);
    for (const remote_handle h : all) CHECK(sender.cancel(h));
    CHECK_EQ(sender.post([] {}).error, send_error::full);  // no thread frees the slots
}

Test(remote_stopping, who_waits_for_a_cancel_is_answered_when_the_remote_is_destroyed) {
    std::optional<remoted> on(std::in_place);
    const auto token = std::make_shared<int>();
    const remote_handle h = on->sender.schedule(1h, [token] {}).handle;
    on->turn();
    std::thread waiter([&, s = on->sender] {
        CHECK(s.cancel_and_wait(h));
        CHECK_EQ(held(token), 0);
    });
    while (on->sender.reschedule(h, 1h)) std::this_thread::yield();  // until it is cancelled
    on.reset();
    waiter.join();
}

Test(remote_stopping, who_waits_for_a_cancel_waits_until_the_function_has_returned) {
    remoted on;
    bool over = false;
    std::optional<std::thread> waiter;
    on.sender.post([&](remote_handle h) {
        waiter.emplace([&, h, s = on.sender] {
            CHECK(!s.cancel_and_wait(h));
            CHECK(over);
        });
        std::this_thread::sleep_for(5ms);
        over = true;
    });
    on.turn();
    waiter->join();
}

Test(remote_stopping, the_owner_itself_does_not_wait) {
    remoted on;
    on.turn();
    CHECK(on.sender.cancel_and_wait(on.sender.schedule(1h, [] {}).handle));
    CHECK(on.sender.cancel_and_wait(on.sender.post([] {}).handle));
}
