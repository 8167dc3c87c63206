// The end of a mailbox: remaining functions are given back once, senders are refused from then on,
// and wheel, mailbox and senders may be destroyed in any order.
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/with_mailbox.hpp"

using namespace std::chrono_literals;
using support::with_mailbox, support::held;
using tvec::mailbox_handle, tvec::send_error;
using mailbox_type = support::with_mailbox::mailbox_type;

TestSuite(mailbox_stopping, .timeout = 60);

Test(mailbox_stopping, stop_shows_each_unprocessed_function_once) {
    with_mailbox on;
    const auto token = std::make_shared<int>();
    std::set<mailbox_handle> left;
    const auto origin = tvec::manual_clock::now();
    for (int i = 1; i <= 10; ++i) {
        left.insert(on.sender.schedule(std::chrono::milliseconds(i), [token] {}).handle);
        if (i == 5) on.mailbox.run();
    }
    const mailbox_handle posted = on.sender.post([token] {}).handle;
    left.insert(posted);
    on.sender.cancel(on.sender.schedule(1h, [token] {}).handle);
    CHECK_EQ(on.mailbox.stop([&](mailbox_type::unprocessed& u) {
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

Test(mailbox_stopping, a_stopped_mailbox_refuses_everything) {
    with_mailbox on;
    const mailbox_handle h = on.sender.schedule(1ms, [] {}).handle;
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

Test(mailbox_stopping, an_owner_about_to_sleep_may_stop) {
    with_mailbox on;
    on.mailbox.rearm();
    CHECK_EQ(on.mailbox.stop(), 0);
    CHECK_EQ(on.sender.post([] {}).error, send_error::stopped);
    CHECK_EQ(on.rings, 0);
}

Test(mailbox_stopping, the_visitor_may_run_the_function) {
    with_mailbox on;
    int called = 0;
    on.sender.schedule(1h, [&] { ++called; });
    on.sender.post([&] {
        ++called;
        CHECK_EQ(on.sender.post([] {}).error, send_error::stopped);
    });
    on.mailbox.stop([](mailbox_type::unprocessed& u) {
        CHECK(u.run());
        CHECK(!u.run());
    });
    CHECK_EQ(called, 2);
}

Test(mailbox_stopping, functions_that_the_visitor_cancels_are_skipped) {
    with_mailbox on;
    std::vector<mailbox_handle> all;
    for (int i = 0; i < 4; ++i) all.push_back(on.sender.schedule(1h, [] {}).handle);
    on.mailbox.run();
    CHECK_EQ(on.mailbox.stop([&](mailbox_type::unprocessed&) {
        for (const mailbox_handle h : all) on.sender.cancel(h);
    }),
             1);
}

Test(mailbox_stopping, a_throwing_visitor_leaves_functions_for_another_stop) {
    with_mailbox on;
    const auto token = std::make_shared<int>();
    for (int i = 0; i < 5; ++i) on.sender.schedule(1h, [token] {});
    on.mailbox.run();
    int shown = 0;
    try {
        on.mailbox.stop([&](mailbox_type::unprocessed&) {
            if (++shown == 2) throw 1;
        });
    } catch (int) {
        CHECK_EQ(held(token), 3);
        CHECK_EQ(on.timers.count_pending(), 3);
    }
    CHECK_EQ(on.mailbox.stop(), 3);
    CHECK_EQ(held(token), 0);
}

Test(mailbox_stopping, a_function_that_stops_is_not_shown) {
    for (const bool posted : {false, true}) {
        with_mailbox on;
        std::size_t shown = 99;
        const auto stop = [&](mailbox_handle self) {
            shown =
                on.mailbox.stop([&](mailbox_type::unprocessed& u) { CHECK(u.handle() != self); });
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

Test(mailbox_stopping, a_function_that_destroys_its_owner_is_fatal) {
    const std::string said = support::last_words([] {
        support::manual_wheel timers;
        std::optional<mailbox_type> mailbox(std::in_place, timers, 8, [] {});
        mailbox->sender().post([&] { mailbox.reset(); });
        mailbox->run();
    });
    CHECK(said.find("a tvec::mailbox is destroyed by one of its own functions") !=
          std::string::npos);
}

Test(mailbox_stopping, a_visitor_that_destroys_the_mailbox_is_fatal) {
    const std::string said = support::last_words([] {
        support::manual_wheel timers;
        std::optional<mailbox_type> mailbox(std::in_place, timers, 8, [] {});
        mailbox->sender().post([] {});
        mailbox->stop([&](mailbox_type::unprocessed&) { mailbox.reset(); });
    });
    CHECK(said.find("by the visitor of its stop()") != std::string::npos);
}

// --- functions whose destructors call the mailbox ------------------------------------------------

namespace {

// A function that speaks when it is destroyed. A second destructor only counts.
struct parting {
    parting(const std::function<void()>& s, int& n) : say(&s), times(&n) {}
    parting(parting&& other) noexcept
        : say(std::exchange(other.say, nullptr)), times(other.times) {}
    ~parting() {
        if (say && ++*times == 1) (*say)();
    }
    void operator()() const {}

    const std::function<void()>* say;
    int* times;
};

// Ways in which a function ends, each from the sending on.
using end_of_a_function = void (*)(with_mailbox& on, mailbox_handle& self, parting f);

constexpr end_of_a_function ends_of_a_function[] = {
    [](with_mailbox& on, mailbox_handle& self, parting f) {  // cancelled on its way
        self = on.sender.schedule(1h, std::move(f)).handle;
        on.sender.cancel(self);
        on.turn();
    },
    [](with_mailbox& on, mailbox_handle& self, parting f) {  // cancelled on the wheel
        self = on.sender.schedule(1h, std::move(f)).handle;
        on.turn();
        on.sender.cancel(self);
        on.turn();
    },
    [](with_mailbox& on, mailbox_handle& self, parting f) {  // cancelled, and found by `stop`
        self = on.sender.schedule(1h, std::move(f)).handle;
        on.turn();
        on.sender.cancel(self);
        on.mailbox.stop();
    },
    [](with_mailbox& on, mailbox_handle& self, parting f) {  // called by `run`
        self = on.sender.post(std::move(f)).handle;
        on.turn();
    },
    [](with_mailbox& on, mailbox_handle& self, parting f) {  // called by the wheel
        self = on.sender.schedule(1ms, std::move(f)).handle;
        on.turn(1ms);
        on.turn(1ms);
    },
    [](with_mailbox& on, mailbox_handle& self, parting f) {  // shown by `stop`
        self = on.sender.schedule(1h, std::move(f)).handle;
        on.mailbox.stop();
    },
    [](with_mailbox& on, mailbox_handle& self, parting f) {  // run by the visitor of `stop`
        self = on.sender.post(std::move(f)).handle;
        on.mailbox.stop([](mailbox_type::unprocessed& u) { u.run(); });
    },
    [](with_mailbox& on, mailbox_handle& self, parting f) {  // shown to a visitor that throws
        self = on.sender.schedule(1h, std::move(f)).handle;
        try {
            on.mailbox.stop([self](mailbox_type::unprocessed& u) {
                if (u.handle() == self) throw 1;
            });
        } catch (int) {
        }
    },
    [](with_mailbox& on, mailbox_handle& self,
       parting f) {  // refused by the owner that stops meanwhile
        struct stopper : parting {
            stopper(with_mailbox& o, parting&& p) : parting(std::move(p)), home(o) {}
            stopper(stopper&& other) noexcept : parting(std::move(other)), home(other.home) {
                home.mailbox.stop();
            }
            with_mailbox& home;
        };
        const auto made = on.sender.post(stopper(on, std::move(f)));
        CHECK_EQ(made.error, send_error::stopped);
        self = made.handle;
    }};

using call_of_a_destructor = void (*)(with_mailbox& on, mailbox_handle self);

constexpr call_of_a_destructor calls_of_a_destructor[] = {
    [](with_mailbox& on, mailbox_handle) { on.mailbox.stop(); },
    [](with_mailbox& on, mailbox_handle) {
        on.mailbox.stop([](mailbox_type::unprocessed& u) { u.run(); });
    },
    [](with_mailbox& on, mailbox_handle self) { CHECK(!on.sender.cancel(self)); },
    [](with_mailbox& on, mailbox_handle self) { CHECK(!on.sender.cancel_and_wait(self)); },
    [](with_mailbox& on, mailbox_handle self) { CHECK(!on.sender.reschedule(self, 1ms)); },
    [](with_mailbox& on, mailbox_handle self) { on.sender.cancel_then(self, [](bool) {}); },
    [](with_mailbox& on, mailbox_handle) { on.sender.post([] {}); },
    [](with_mailbox& on, mailbox_handle) { on.sender.schedule(1ms, [] {}); },
    [](with_mailbox& on, mailbox_handle) { on.mailbox.rearm(); },
    [](with_mailbox& on, mailbox_handle) { on.turn(1ms); },
};

}  // namespace

Test(mailbox_stopping, a_functions_destructor_may_call_anything) {
    for (const end_of_a_function end : ends_of_a_function)
        for (const call_of_a_destructor call : calls_of_a_destructor) {
            with_mailbox on;
            mailbox_handle self;
            int destroyed = 0, others = 0;
            const auto token = std::make_shared<int>();
            on.sender.schedule(1h, [token] {});  // stands before it in `stop`
            const std::function<void()> say = [&] { call(on, self); };
            end(on, self, parting(say, destroyed));
            on.sender.schedule(1h, [token] {});
            CHECK_EQ(destroyed, 1);
            on.mailbox.stop([&](mailbox_type::unprocessed&) { ++others; });
            CHECK_EQ(destroyed, 1);
            CHECK_EQ(held(token), 0);
            CHECK_EQ(on.mailbox.pending(), 0);
            CHECK_EQ(check(on.timers.wheel()), "");
        }
}

// --- orders of destruction ----------------------------------------------------------------------

Test(mailbox_stopping, senders_may_outlive_mailbox_and_wheel) {
    const auto token = std::make_shared<int>();
    std::optional<with_mailbox> on(std::in_place);
    const auto sender = on->sender;
    const mailbox_handle h = sender.schedule(1h, [token] {}).handle;
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
Test(mailbox_stopping, nothing_that_senders_keep_hangs_in_the_wheel) {
    with_mailbox on;
    on.sender.schedule(1h, [] {});
    on.sender.cancel(on.sender.schedule(2h, [] {}).handle);
    const mailbox_handle h = on.sender.schedule(3h, [] {}).handle;
    on.turn();
    on.sender.cancel(h);
    on.turn();
    on.mailbox.stop();
    const tvec::census left = tvec::take_census(on.timers.wheel());
    CHECK_EQ(left.pending, 0);
    CHECK_EQ(left.idle, 0);
}

Test(mailbox_stopping, the_wheel_may_end_first) {
    std::optional<support::manual_wheel> timers(std::in_place);
    const auto token = std::make_shared<int>();
    mailbox_type mailbox(*timers, 8, [] {});
    const auto sender = mailbox.sender();
    const mailbox_handle h = sender.schedule(1h, [token] {}).handle;
    mailbox.run();
    timers.reset();
    CHECK(sender.cancel(h));
    CHECK_EQ(mailbox.stop(), 0);
    CHECK_EQ(held(token), 0);
}

Test(mailbox_stopping, stop_accounts_for_all_that_threads_sent) {
    for (int round = 0; round < 20; ++round) {
        const auto token = std::make_shared<int>();
        std::optional<with_mailbox> on(std::in_place, std::size_t{1'000});
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

Test(mailbox_stopping, a_mailbox_without_an_owner_refuses_when_full) {
    std::optional<with_mailbox> on;
    std::thread owner([&] {
        on.emplace(std::size_t{10});
        on->sender.schedule(1h, [] {});
        on->turn();
        on->mailbox.rearm();
    });
    owner.join();
    const auto sender = on->sender;
    std::vector<mailbox_handle> all;
    for (;;) {
        const auto made = sender.post([] {});
        if (!made) {
            CHECK_EQ(made.error, send_error::full);
            break;
        }
        all.push_back(made.handle);
    }
    CHECK_EQ(all.size(), 9);
    for (const mailbox_handle h : all) CHECK(sender.cancel(h));
    CHECK_EQ(sender.post([] {}).error, send_error::full);  // no thread frees the slots
}

Test(mailbox_stopping, a_destroyed_mailbox_answers_waiting_cancels) {
    std::optional<with_mailbox> on(std::in_place);
    const auto token = std::make_shared<int>();
    const mailbox_handle h = on->sender.schedule(1h, [token] {}).handle;
    on->turn();
    std::thread waiter([&, s = on->sender] {
        CHECK(s.cancel_and_wait(h));
        CHECK_EQ(held(token), 0);
    });
    while (on->sender.reschedule(h, 1h)) std::this_thread::yield();  // until it is cancelled
    on.reset();
    waiter.join();
}

Test(mailbox_stopping, cancel_and_wait_outlasts_a_running_function) {
    with_mailbox on;
    bool over = false;
    std::optional<std::thread> waiter;
    on.sender.post([&](mailbox_handle h) {
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

// --- the owner ----------------------------------------------------------------------------------

namespace {

// The owner would wait for itself.
void require_owner(with_mailbox& on) {
    CHECK(on.sender.cancel_and_wait(on.sender.schedule(1h, [] {}).handle));
    CHECK(on.sender.cancel_and_wait(on.sender.post([] {}).handle));
}

// Calls that make a thread the owner.
using beginning_of_an_owner = void (*)(with_mailbox& on);

constexpr beginning_of_an_owner beginnings_of_an_owner[] = {
    [](with_mailbox& on) { on.mailbox.run(); },
    [](with_mailbox& on) { on.mailbox.rearm(); },
    [](with_mailbox& on) { on.mailbox.stop(); },
};

}  // namespace

Test(mailbox_stopping, the_owner_never_waits_for_a_cancel) {
    with_mailbox on;
    require_owner(on);
    on.turn();
    require_owner(on);
}

Test(mailbox_stopping, a_thread_that_runs_the_mailbox_owns_it) {
    for (const beginning_of_an_owner begin : beginnings_of_an_owner) {
        with_mailbox on;
        std::thread([&] {
            begin(on);
            if (!on.mailbox.stopped()) require_owner(on);
        }).join();
        begin(on);
        if (!on.mailbox.stopped()) require_owner(on);
    }
}

Test(mailbox_stopping, a_function_run_by_stop_never_waits) {
    for (const bool run_by_another : {false, true}) {
        with_mailbox on;
        mailbox_handle self;
        int called = 0;
        const auto f = [&] {
            ++called;
            CHECK(!on.sender.cancel_and_wait(self));
        };
        self = on.sender.schedule(1h, f).handle;
        if (run_by_another) std::thread([&] { on.mailbox.run(); }).join();
        on.mailbox.stop([](mailbox_type::unprocessed& u) { u.run(); });
        CHECK_EQ(called, 1);
    }
}

Test(mailbox_stopping, another_thread_may_finish_an_interrupted_stop) {
    with_mailbox on;
    mailbox_handle self;
    int called = 0;
    on.sender.schedule(1h, [] {});
    self = on.sender
               .schedule(1h,
                         [&] {
                             ++called;
                             CHECK(!on.sender.cancel_and_wait(self));
                         })
               .handle;
    on.turn();
    try {
        on.mailbox.stop([](mailbox_type::unprocessed&) { throw 1; });
    } catch (int) {
    }
    std::thread([&] {
        CHECK_EQ(on.mailbox.stop([](mailbox_type::unprocessed& u) { u.run(); }), 1);
    }).join();
    CHECK_EQ(called, 1);
}

#ifndef NDEBUG  // these are assertions

Test(mailbox_stopping, a_wheel_that_another_thread_runs_is_reported, .signal = SIGABRT) {
    with_mailbox on;
    on.sender.schedule(1ms, [] {});
    on.mailbox.run();
    std::thread([&, then = tvec::manual_clock::now() + 2ms] {
        tvec::manual_clock::set(then);  // each thread has a clock of its own
        on.timers.run();
    }).join();
}

Test(mailbox_stopping, a_second_thread_during_a_call_is_reported, .signal = SIGABRT) {
    with_mailbox on;
    on.sender.post([&] { std::thread([&] { on.mailbox.rearm(); }).join(); });
    on.mailbox.run();
}

#endif
