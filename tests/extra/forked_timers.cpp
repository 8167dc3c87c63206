// A timer with a thread of its own, and children of the process. A child has no such thread. It may
// be made at any moment, by any thread: while the timer starts, works or ends, by a function, by
// its destructor, by a visitor. In the child nothing hangs and nothing is called.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/with_mailbox.hpp"
#include "tvec/extra/timer_thread.hpp"

using namespace std::chrono_literals;
using tvec::send_error, tvec::timer_thread;

TestSuite(forked_timers, .timeout = 300);

namespace {

// Waits until the thread has called what was scheduled for now.
void let_pass(timer_thread<>& timers) {
    std::promise<void> called;
    if (timers.schedule(0ms, [&] { called.set_value(); })) called.get_future().wait();
}

// Ends a child that hangs. Its parent then sees a signal, and no status.
void do_not_hang() {
    sigset_t ring;
    sigemptyset(&ring);
    sigaddset(&ring, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &ring, nullptr);
    alarm(30);
}

// What parent and children tell each other.
struct shared_notes {
    std::atomic<int> called_by_child{0}, called_by_parent{0};
    std::atomic<pid_t> child{0};
    const pid_t parent = getpid();

    void call() { ++(getpid() == parent ? called_by_parent : called_by_child); }
};

class notes {
public:
    notes()
        : memory_(mmap(nullptr, sizeof(shared_notes), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
        REQUIRE(memory_ != MAP_FAILED);
        new (memory_) shared_notes;
    }
    ~notes() { munmap(memory_, sizeof(shared_notes)); }
    notes(const notes&) = delete;
    notes& operator=(const notes&) = delete;

    shared_notes* operator->() const { return static_cast<shared_notes*>(memory_); }

private:
    void* const memory_;
};

// Waits for the end of the child that another thread makes.
int status_of_the_child(const notes& n) {
    while (n->child == 0) std::this_thread::yield();
    int status = -1;
    return waitpid(n->child, &status, 0) == n->child ? status : -1;
}

// Makes a child, which does what is given and goes on from here as its parent does.
template <class F> void fork_here(const notes& n, F in_the_child) {
    const pid_t child = fork();
    if (child != 0) {
        n->child = child;
        return;
    }
    do_not_hang();
    in_the_child();
}

constexpr int status_of_exit = 7;

// The acts of a child that one of the functions has made. Each ends the child with that status:
// when the last thread of a process ends, the process calls exit.
using child_of_a_function = void (*)(timer_thread<>& timers);

void returns(timer_thread<>&) {
    std::atexit([] { _exit(status_of_exit); });
}

constexpr child_of_a_function children_of_a_function[] = {
    returns,
    [](timer_thread<>&) { _exit(status_of_exit); },
    [](timer_thread<>&) {
        std::atexit([] { _exit(status_of_exit); });
        std::exit(0);  // NOLINT(concurrency-mt-unsafe)
    },
    [](timer_thread<>& timers) {
        if (timers.schedule(0ms, [] {}).error != send_error::stopped) _exit(1);
        if (timers.stop() != 0) _exit(2);
        returns(timers);
    },
    [](timer_thread<>& timers) {
        std::destroy_at(&timers);
        new (&timers) timer_thread<>;
        returns(timers);
    },
};

}  // namespace

Test(forked_timers, a_childs_calls_are_refused_and_never_hang) {
    const auto token = std::make_shared<int>();
    timer_thread timers;
    const auto late = timers.schedule(1h, [token] {});
    let_pass(timers);
    const pid_t child = support::start_child([&]() -> const char* {
        do_not_hang();
        if (timers.schedule(0ms, [] {}).error != send_error::stopped) return "took a function";
        if (timers.cancel(late.handle) || timers.cancel_and_wait(late.handle)) return "cancelled";
        if (timers.reschedule(late.handle, 1ms)) return "rescheduled";
        if (timers.stop() != 0) return "showed a function";
        std::destroy_at(&timers);
        new (&timers) timer_thread<>;
        let_pass(timers);
        return timers.stop() == 0 ? nullptr : "a new one does not work";
    });
    CHECK(support::ended_well(child));
    CHECK(timers.cancel(late.handle));
}

Test(forked_timers, an_unstarted_timer_starts_in_the_child) {
    timer_thread timers;
    CHECK(support::ended_well(support::start_child([&]() -> const char* {
        do_not_hang();
        let_pass(timers);
        return timers.stop() == 0 ? nullptr : "something is left";
    })));
    let_pass(timers);
}

Test(forked_timers, a_child_forked_at_any_moment_never_hangs) {
    const std::uint64_t rounds = support::scaled(300);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        const notes n;
        timer_thread timers;
        std::atomic<bool> begun = false;
        std::thread life([&] {
            begun = true;
            for (int i = 0; i < 8; ++i) {
                const auto late = timers.schedule(1h, [&n] { n->call(); });
                timers.schedule(0ms, [] {});
                if (i % 2 == 0) timers.cancel_and_wait(late.handle);
            }
            timers.stop();
        });
        while (!begun) std::this_thread::yield();
        const auto wait = std::chrono::microseconds(round * 7919 % 2'000);
        const auto until = std::chrono::steady_clock::now() + wait;
        while (std::chrono::steady_clock::now() < until) continue;
        const pid_t child = support::start_child([&]() -> const char* {
            do_not_hang();
            const bool is_unused_by_parent = bool(timers.schedule(0ms, [] {}));
            timers.cancel({});
            const std::size_t shown = timers.stop([](auto& u) { u.run(); });
            if (shown > is_unused_by_parent) return "showed a function of its parent";
            std::destroy_at(&timers);
            new (&timers) timer_thread<>;
            return n->called_by_child == 0 ? nullptr : "called a function of its parent";
        });
        life.join();
        REQUIRE(support::ended_well(child));
    }
}

// --- children that a thread makes which calls functions -----------------------------------------

Test(forked_timers, a_child_forked_in_a_function_ends_there) {
    for (const child_of_a_function act : children_of_a_function) {
        const notes n;
        timer_thread timers;
        std::promise<void> all_are_due;
        CHECK(timers.schedule(0ms, [&, due = all_are_due.get_future().share()] { due.wait(); }));
        CHECK(timers.schedule(0ms, [&] { fork_here(n, [&] { act(timers); }); }));
        for (int i = 0; i < 20; ++i) CHECK(timers.schedule(i * 1ms, [&n] { n->call(); }));
        all_are_due.set_value();
        const int status = status_of_the_child(n);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), status_of_exit);
        while (n->called_by_parent != 20) std::this_thread::yield();
        let_pass(timers);
        CHECK_EQ(timers.stop(), 0);
        CHECK_EQ(n->called_by_child.load(), 0);
    }
}

namespace {

// A function whose destructor makes a child when the other functions are due.
struct parent_in_the_end {
    parent_in_the_end(const notes& n, std::chrono::steady_clock::time_point t) : home(&n), due(t) {}
    parent_in_the_end(parent_in_the_end&& other) noexcept
        : home(std::exchange(other.home, nullptr)), due(other.due) {}
    ~parent_in_the_end() {
        if (!home) return;
        std::this_thread::sleep_until(due + 2ms);
        fork_here(*home, [] { std::atexit([] { _exit(status_of_exit); }); });
    }
    void operator()() const {}

    const notes* home;
    std::chrono::steady_clock::time_point due;
};

}  // namespace

Test(forked_timers, a_destructors_child_calls_no_function) {
    for (const bool cancelled : {true, false}) {
        const notes n;
        timer_thread timers;
        const auto due = std::chrono::steady_clock::now() + 20ms;
        for (int i = 0; i < 20; ++i) CHECK(timers.schedule_at(due, [&n] { n->call(); }));
        const auto last = timers.schedule(cancelled ? 1h : 0h, parent_in_the_end(n, due));
        if (cancelled) CHECK(timers.cancel(last.handle));
        const int status = status_of_the_child(n);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), status_of_exit);
        while (n->called_by_parent != 20) std::this_thread::yield();
        CHECK_EQ(timers.stop(), 0);
        CHECK_EQ(n->called_by_child.load(), 0);
    }
}

Test(forked_timers, a_visitors_child_is_shown_nothing_more) {
    const notes n;
    std::size_t shown = 0;
    timer_thread timers;
    for (int i = 0; i < 5; ++i) CHECK(timers.schedule(1h, [&n] { n->call(); }));
    const std::size_t left = timers.stop([&](auto& u) {
        u.run();
        if (shown++ == 1) fork_here(n, [] {});
    });
    if (getpid() != n->parent) {
        std::destroy_at(&timers);
        _exit(shown == 2 && n->called_by_child == 0 ? 0 : 1);
    }
    CHECK_EQ(left, 5);
    CHECK_EQ(n->called_by_parent.load(), 5);
    CHECK_EQ(status_of_the_child(n), 0);
}
