// A timer with a thread of its own: what happens to its functions, wherever they are called from,
// whatever they do, and however the timer ends. The thread is real, so these tests wait for it.
#include "tvec/extra/timer_thread.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/with_mailbox.hpp"

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using tvec::mailbox_handle, tvec::send_error, tvec::timer_thread;

TestSuite(timer_thread, .timeout = 60);

namespace {

// Waits until the thread has called what was scheduled for now.
void let_pass(timer_thread<>& timers) {
    std::promise<void> called;
    REQUIRE(timers.schedule(0ms, [&] { called.set_value(); }));
    called.get_future().wait();
}

// Counts the entries of a folder of /proc/self whose links end so.
std::ptrdiff_t count_in(const char* folder, const std::string& ending = "") {
    std::ptrdiff_t n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        std::error_code gone;
        n +=
            ending.empty() || std::filesystem::read_symlink(entry, gone).string().ends_with(ending);
    }
    return n;
}

// Spins until `t`: a sleep would end too late.
void spin_until(steady_clock::time_point t) {
    while (steady_clock::now() < t) continue;
}

}  // namespace

Test(timer_thread, each_function_runs_once_on_the_thread) {
    timer_thread timers;
    constexpr int functions = 200;
    std::atomic<int> early = 0, elsewhere = 0, called = 0;
    std::promise<void> all;
    std::optional<std::thread::id> thread;
    for (int i = 0; i < functions; ++i) {
        const auto due = steady_clock::now() + std::chrono::microseconds(100 * (functions - i));
        CHECK(timers.schedule_at(due, [&, due] {
            early += steady_clock::now() < due;
            if (!thread) thread = std::this_thread::get_id();
            elsewhere += *thread != std::this_thread::get_id();
            if (++called == functions) all.set_value();
        }));
    }
    all.get_future().wait();
    CHECK_EQ(early.load(), 0);
    CHECK_EQ(elsewhere.load(), 0);
    CHECK(*thread != std::this_thread::get_id());
    CHECK_EQ(timers.stop(), 0);
    CHECK_EQ(called.load(), functions);
}

Test(timer_thread, a_function_is_told_its_handle) {
    timer_thread timers;
    std::promise<mailbox_handle> told;
    mailbox_handle given;
    std::thread([&] {
        given = timers.schedule(1ms, [&](mailbox_handle h) { told.set_value(h); }).handle;
    }).join();
    CHECK(told.get_future().get() == given);
}

Test(timer_thread, an_unused_timer_thread_can_be_stopped) {
    timer_thread timers;
    CHECK(!timers.cancel({}));
    CHECK(!timers.cancel_and_wait({}));
    CHECK(!timers.reschedule({}, 1ms));
    CHECK_EQ(timers.stop(), 0);
    CHECK(timers.stopped());
    CHECK_EQ(timers.schedule(1ms, [] {}).error, send_error::stopped);
}

Test(timer_thread, an_empty_function_is_refused) {
    timer_thread timers;
    CHECK_EQ(timers.schedule(1ms, std::function<void()>()).error, send_error::no_function);
    timer_thread with_executor({}, [](auto f) { f(); });
    CHECK_EQ(with_executor.schedule(1ms, std::function<void()>()).error, send_error::no_function);
}

Test(timer_thread, a_cancelled_function_is_destroyed_uncalled) {
    timer_thread timers;
    const auto token = std::make_shared<int>();
    const auto late = timers.schedule(1h, [token] {});
    CHECK(timers.cancel_and_wait(late.handle));
    CHECK_EQ(token.use_count(), 1);
    CHECK(!timers.cancel(late.handle));
}

Test(timer_thread, reschedules) {
    timer_thread timers;
    std::promise<void> called;
    const auto late = timers.schedule(1h, [&] { called.set_value(); });
    CHECK(timers.reschedule(late.handle, 1ms));
    called.get_future().wait();
    CHECK(!timers.reschedule(late.handle, 1ms));
}

Test(timer_thread, a_refused_function_stays_as_it_was) {
    timer_thread timers({.max_pending = 2});
    const auto token = std::make_shared<int>();
    const auto first = timers.schedule(1h, [] {});
    CHECK(timers.schedule(1h, [] {}));
    auto third = [mine = token] {};
    CHECK_EQ(timers.schedule(1h, std::move(third)).error, send_error::full);
    CHECK_EQ(token.use_count(), 2);
    CHECK(timers.cancel_and_wait(first.handle));
    // A refused function is as it was. NOLINTNEXTLINE(bugprone-use-after-move)
    while (!timers.schedule(1h, std::move(third))) std::this_thread::yield();
    CHECK_EQ(timers.stop(), 2);
}

Test(timer_thread, an_executors_refused_function_stays_as_it_was) {
    timer_thread timers({.max_pending = 0}, [](auto f) { f(); });
    const auto token = std::make_shared<int>();
    auto refused = [mine = token] {};
    CHECK_EQ(timers.schedule(1h, std::move(refused)).error, send_error::full);
    CHECK_EQ(token.use_count(), 2);
}

Test(timer_thread, pending_functions_are_counted) {
    timer_thread timers;
    CHECK_EQ(timers.pending(), 0);
    for (int i = 0; i < 3; ++i) CHECK(timers.schedule(1h, [] {}));
    let_pass(timers);
    while (timers.pending() != 3) std::this_thread::yield();  // it publishes a little later
    CHECK_EQ(timers.stop(), 3);
    CHECK_EQ(timers.pending(), 0);
}

// --- executors ----------------------------------------------------------------------------------

Test(timer_thread, an_executor_gets_the_functions) {
    std::mutex mutex;
    std::vector<std::function<void()>> given;
    timer_thread<std::function<void(std::function<void()>)>> timers({}, [&](auto f) {
        const std::lock_guard lock(mutex);
        given.push_back(std::move(f));
    });
    std::vector<int> called;
    CHECK(timers.schedule(0ms, [&] { called.push_back(1); }));
    CHECK(timers.schedule(10ms, [&] { called.push_back(2); }));
    for (std::size_t have = 0; have < 2; std::this_thread::yield()) {
        const std::lock_guard lock(mutex);
        have = given.size();
    }
    CHECK(called.empty());
    timers.stop();
    for (const auto& f : given) f();
    CHECK(called == (std::vector<int>{1, 2}));
}

Test(timer_thread, an_executor_gets_move_only_functions) {
    std::promise<int> called;
    std::future<int> seven = called.get_future();
    timer_thread timers({}, [](auto f) { f(); });
    CHECK(timers.schedule(0ms, [c = std::move(called)]() mutable { c.set_value(7); }));
    CHECK_EQ(seven.get(), 7);
}

Test(timer_thread, a_refusing_executor_stops_no_timer) {
    std::promise<void> heard;
    timer_thread timers({.on_exception = [&](const std::exception_ptr&) { heard.set_value(); }},
                        [](const auto&) { throw std::runtime_error("rejected"); });
    const auto token = std::make_shared<int>();
    CHECK(timers.schedule(0ms, [token] {}));
    heard.get_future().wait();
    timers.stop();
    CHECK_EQ(timers.failed(), 1);
    CHECK_EQ(token.use_count(), 1);
}

Test(timer_thread, a_slow_executor_makes_the_thread_refuse) {
    std::promise<void> slow;
    timer_thread timers({.max_pending = 4},
                        [&, end = slow.get_future().share()](auto) { end.wait(); });
    CHECK(timers.schedule(0ms, [] {}));
    while (timers.schedule(1ms, [] {})) continue;  // the thread looks at none of them
    CHECK_EQ(timers.schedule(1ms, [] {}).error, send_error::full);
    slow.set_value();
    timers.stop();
}

// --- functions that misbehave -------------------------------------------------------------------

Test(timer_thread, a_throwing_function_stops_no_timer) {
    std::atomic<int> heard = 0;
    timer_thread timers({.on_exception = [&](const std::exception_ptr& thrown) {
        try {
            std::rethrow_exception(thrown);
        } catch (const std::runtime_error&) {
            ++heard;
        }
    }});
    for (int i = 0; i < 3; ++i) CHECK(timers.schedule(0ms, [] { throw std::runtime_error("x"); }));
    while (timers.failed() != 3) std::this_thread::yield();
    let_pass(timers);
    CHECK_EQ(heard.load(), 3);
    CHECK_EQ(timers.failed(), 3);
}

Test(timer_thread, a_function_may_schedule_cancel_and_wait) {
    timer_thread timers;
    std::promise<bool> called;
    CHECK(timers.schedule(0ms, [&](mailbox_handle self) {
        const auto other = timers.schedule(1h, [] {});
        const bool cancelled = timers.cancel_and_wait(other.handle);
        const bool again = timers.cancel_and_wait(self);
        timers.schedule(0ms, [&, good = cancelled && !again] { called.set_value(good); });
    }));
    CHECK(called.get_future().get());
}

Test(timer_thread, a_function_that_stops_is_never_shown) {
    timer_thread timers;
    std::promise<std::size_t> shown;
    for (int i = 0; i < 3; ++i) CHECK(timers.schedule(1h, [] {}));
    CHECK(timers.schedule(1ms, [&](mailbox_handle self) {
        shown.set_value(timers.stop([&](auto& u) { CHECK(u.handle() != self); }));
    }));
    CHECK_EQ(shown.get_future().get(), 3);
    CHECK(timers.stopped());
    CHECK_EQ(timers.schedule(0ms, [] {}).error, send_error::stopped);
    CHECK_EQ(timers.stop(), 0);
}

Test(timer_thread, a_functions_destructor_may_stop_the_timer) {
    struct application {
        application(timer_thread<>& t, std::atomic<int>& n) : timers(t), destroyed(n) {}
        application(const application&) = delete;
        ~application() {
            if (++destroyed == 1) timers.stop();
        }
        timer_thread<>& timers;
        std::atomic<int>& destroyed;
    };
    for (const bool cancelled : {true, false}) {
        std::atomic<int> destroyed = 0;
        timer_thread timers;
        CHECK(timers.schedule(1h, [] {}));
        const auto last = timers.schedule(
            cancelled ? 1h : 0h, [app = std::make_shared<application>(timers, destroyed)] {});
        if (cancelled) CHECK(timers.cancel(last.handle));
        while (!timers.stopped()) std::this_thread::yield();
        CHECK_EQ(timers.stop(), 0);
        CHECK_EQ(destroyed.load(), 1);
    }
}

Test(timer_thread, a_function_that_destroys_its_owner_is_fatal) {
    const std::string said = support::last_words([] {
        std::optional<timer_thread<>> timers(std::in_place);
        timers->schedule(0ms, [&] { timers.reset(); });
        for (;;) pause();
    });
    CHECK(said.find("a tvec::timer_thread is destroyed by one of its own functions") !=
          std::string::npos);
}

// --- the end ------------------------------------------------------------------------------------

Test(timer_thread, stop_shows_each_uncalled_function_once) {
    timer_thread timers;
    std::vector<int> run;
    const auto first = timers.schedule(1h, [&] { run.push_back(1); });
    CHECK(timers.schedule(2h, [&] { run.push_back(2); }));
    CHECK(timers.cancel(timers.schedule(3h, [&] { run.push_back(3); }).handle));
    CHECK_EQ(timers.stop([&](auto& u) {
        CHECK(u.deadline() > steady_clock::now() + 59min);
        if (u.handle() == first.handle) CHECK(u.run());
    }),
             2);
    CHECK(run == std::vector<int>{1});
    CHECK_EQ(timers.stop(), 0);
    CHECK(!timers.cancel(first.handle));
}

Test(timer_thread, stop_waits_for_the_running_function) {
    timer_thread timers;
    std::promise<void> begun;
    bool over = false;
    CHECK(timers.schedule(0ms, [&] {
        begun.set_value();
        std::this_thread::sleep_for(5ms);
        over = true;
    }));
    begun.get_future().wait();
    CHECK_EQ(timers.stop(), 0);
    CHECK(over);
}

Test(timer_thread, visitors_may_stop_and_wait_for_cancels) {
    timer_thread timers;
    std::vector<mailbox_handle> all;
    all.reserve(3);
    for (int i = 0; i < 3; ++i) all.push_back(timers.schedule(1h, [] {}).handle);
    CHECK_EQ(timers.stop([&](auto& u) {
        CHECK_EQ(timers.schedule(0ms, [] {}).error, send_error::stopped);
        CHECK(!timers.cancel_and_wait(u.handle()));
        CHECK_EQ(timers.stop(), all.size() - 1);
    }),
             1);
}

// A function would wait for itself.
Test(timer_thread, a_second_stops_function_never_waits_for_itself) {
    const auto throws = [](auto&) { throw std::runtime_error("x"); };
    for (const bool first_is_a_function : {false, true}) {
        timer_thread timers;
        mailbox_handle self;
        int called = 0;
        CHECK(timers.schedule(2h, [] {}));  // the first that `stop` shows
        self = timers
                   .schedule(1h,
                             [&] {
                                 ++called;
                                 CHECK(!timers.cancel_and_wait(self));
                             })
                   .handle;
        std::promise<void> over;
        const auto stop = [&] {
            try {
                timers.stop(throws);
            } catch (const std::runtime_error&) {
                over.set_value();
            }
        };
        if (first_is_a_function)
            CHECK(timers.schedule(0ms, stop));
        else
            stop();
        over.get_future().wait();
        std::thread([&] { CHECK_EQ(timers.stop([](auto& u) { u.run(); }), 1); }).join();
        CHECK_EQ(called, 1);
    }
}

Test(timer_thread, concurrent_stops_show_each_function_once) {
    for (int round = 0; round < 50; ++round) {
        timer_thread timers;
        std::atomic<std::size_t> shown = 0, called = 0, sent = 0;
        const auto send = [&](auto f) {
            const send_error error = timers.schedule(0ms, f).error;
            sent += error == send_error::none;
            return error;
        };
        std::vector<std::thread> threads;
        threads.reserve(4);
        for (int i = 0; i < 2; ++i)
            threads.emplace_back([&] {
                while (send([&] { ++called; }) != send_error::stopped) continue;
            });
        while (called < 100) std::this_thread::yield();
        for (int i = 0; i < 2; ++i) threads.emplace_back([&] { shown += timers.stop(); });
        send([&] {
            ++called;
            shown += timers.stop();
        });
        for (std::thread& t : threads) t.join();
        CHECK_EQ(shown + called, sent.load());
    }
}

namespace {

struct lives {
    std::atomic<int> begun{0}, ended{0};
};

// A function whose destructor calls the timer. The hundredth stops it.
struct last_caller {
    last_caller(timer_thread<>& t, lives& n) : timers(&t), count(n) { ++count.begun; }
    last_caller(last_caller&& other) noexcept
        : timers(std::exchange(other.timers, nullptr)), count(other.count) {}
    ~last_caller() {
        if (!timers) return;
        timers->cancel_and_wait(timers->schedule(1h, [] {}).handle);
        if (++count.ended == 100) timers->stop();
    }
    void operator()(mailbox_handle self) { CHECK(!timers->cancel_and_wait(self)); }

    timer_thread<>* timers;
    lives& count;
};

}  // namespace

Test(timer_thread, destructors_may_use_the_timer_on_all_threads) {
    for (int round = 0; round < 50; ++round) {
        lives count;
        std::optional<timer_thread<>> timers(std::in_place, tvec::timer_thread_options{1000});
        std::vector<std::thread> threads;
        threads.reserve(3);
        for (int t = 0; t < 3; ++t)
            threads.emplace_back([&, t] {
                for (int i = t; !timers->stopped(); ++i) {
                    const auto delay = i % 2 == 0 ? 0ms : 3'600'000ms;
                    const auto made = timers->schedule(delay, last_caller(*timers, count));
                    if (i % 4 == 1) timers->cancel(made.handle);
                    if (i % 4 == 3) timers->cancel_and_wait(made.handle);
                }
            });
        for (std::thread& t : threads) t.join();
        timers.reset();
        CHECK_EQ(count.ended.load(), count.begun.load());
    }
}

Test(timer_thread, the_destructor_destroys_pending_functions) {
    const auto token = std::make_shared<int>();
    {
        timer_thread timers;
        for (int i = 0; i < 10; ++i) CHECK(timers.schedule(1h, [token] {}));
        let_pass(timers);
        CHECK(timers.schedule(1h, [token] {}));
    }
    CHECK_EQ(token.use_count(), 1);
}

namespace {

// What a thread does to a timer whose function has just been called, or just not. Returns how many
// functions it has cancelled, or was shown.
using end_of_a_timer = std::size_t (*)(std::optional<timer_thread<>>&, mailbox_handle);

constexpr end_of_a_timer ends_of_a_timer[] = {
    [](auto& timers, auto h) -> std::size_t { return timers->cancel(h); },
    [](auto& timers, auto h) -> std::size_t { return timers->cancel(h) + timers->cancel(h); },
    [](auto& timers, auto h) -> std::size_t { return timers->cancel_and_wait(h); },
    [](auto& timers, auto) { return timers->stop() + timers->stop(); },
    [](auto& timers, auto h) { return timers->cancel(h) + timers->stop(); },
    [](auto& timers, auto) -> std::size_t { return timers.reset(), 0; },
};

}  // namespace

// The function of every other round stops the timer itself.
Test(timer_thread, ends_near_a_call_neither_hang_nor_leak) {
    const auto threads_before = count_in("/proc/self/task");
    const std::uint64_t rounds = support::scaled(600, 24);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        const auto token = std::make_shared<int>();
        std::atomic<std::size_t> called = 0;
        std::optional<timer_thread<>> timers(std::in_place, tvec::timer_thread_options{4, 20us});
        const auto due = steady_clock::now() + std::chrono::microseconds(round * 7919 % 200);
        const auto late = timers->schedule(10s, [] {});
        const auto made = timers->schedule_at(due, [&called, token, round, self = &*timers] {
            ++called;
            if (round % 2 != 0) CHECK(self->stop() <= 1);
        });
        spin_until(due + std::chrono::microseconds(round * 104'729 % 100));
        const auto act = ends_of_a_timer[round / 2 % std::size(ends_of_a_timer)];
        const bool destroys = act == *std::rbegin(ends_of_a_timer);
        std::size_t ended = act(timers, made.handle);
        if (!destroys) {
            ended += timers->cancel(made.handle);
            timers.reset();
        }
        CHECK_EQ(token.use_count(), 1);
        CHECK(called <= 1);
        CHECK(late);
        if (round / 2 % std::size(ends_of_a_timer) < 3) CHECK_EQ(called + ended, 1);
    }
    while (count_in("/proc/self/task") > threads_before) std::this_thread::yield();
}

Test(timer_thread, concurrent_first_schedules_start_one_thread) {
    constexpr int threads = 8, each = 1000;
    const auto threads_before = count_in("/proc/self/task");
    const auto alarms_before = count_in("/proc/self/fd", "[timerfd]");
    timer_thread timers;
    std::atomic<int> ready = 0, called = 0;
    std::vector<std::thread> senders;
    for (int i = 0; i < threads; ++i)
        senders.emplace_back([&] {
            ++ready;
            while (ready != threads) continue;
            for (int k = 0; k < each; ++k)
                CHECK(timers.schedule(std::chrono::microseconds(k * 7), [&] { ++called; }));
        });
    for (std::thread& t : senders) t.join();
    while (called != threads * each) std::this_thread::yield();
    CHECK_EQ(count_in("/proc/self/fd", "[timerfd]"), alarms_before + 1);
    while (count_in("/proc/self/task") != threads_before + 1) std::this_thread::yield();
    CHECK_EQ(timers.stop(), 0);
}

Test(timer_thread, the_thread_blocks_all_signals) {
    timer_thread timers;
    std::promise<bool> blocked;
    CHECK(timers.schedule(0ms, [&] {
        sigset_t mask;
        pthread_sigmask(SIG_BLOCK, nullptr, &mask);
        blocked.set_value(sigismember(&mask, SIGTERM) == 1);
    }));
    CHECK(blocked.get_future().get());
    sigset_t mine;
    pthread_sigmask(SIG_BLOCK, nullptr, &mine);
    CHECK_EQ(sigismember(&mine, SIGTERM), 0);
}
