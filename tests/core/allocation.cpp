// Arm, cancel, re-arm and advance allocate nothing and cannot fail. In this program operator
// new ends the process while the core runs.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stop_token>
#include <vector>

#include <unistd.h>

#include "support/check.hpp"
#include "support/coroutines.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/extra/stoppable_sleep.hpp"
#include "tvec/mailbox/mailbox.hpp"

using namespace std::chrono_literals;

namespace {

bool core_is_running = false;

void* allocate(std::size_t size) {
    if (core_is_running) std::abort();
    if (void* const p = std::malloc(size)) return p;
    throw std::bad_alloc();
}

struct inside_the_core {
    inside_the_core() { core_is_running = true; }
    ~inside_the_core() { core_is_running = false; }
};

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

TestSuite(allocation, .timeout = 60);

Test(allocation, the_test_notices_an_allocation, .signal = SIGABRT) {
    const inside_the_core running;
    ::operator delete(::operator new(4));  // a new expression could be optimized away
}

Test(allocation, the_core_allocates_nothing) {
    static tvec::timer_wheel wheel(255);
    static int fired = 0;
    struct beat {
        void on_fire(tvec::timer_wheel& w) {
            ++fired;
            w.arm_after(t, static_cast<tvec::jiffies>(fired) * 37 % 70'000);
        }
        tvec::timer t{tvec::call<&beat::t, &beat::on_fire>};
    };
    static beat beats[500];

    const inside_the_core running;
    for (beat& b : beats) wheel.arm_after(b.t, static_cast<tvec::jiffies>(&b - beats) * 5'000);
    for (int i = 0; i < 200'000; ++i) wheel.advance(wheel.now() + 1 + i % 7, i % 5 ? ~0u : 2u);
    for (int i = 0; i < 500; i += 2) beats[i].t.cancel();
    wheel.arm_within(beats[0].t, 100, 200);
    wheel.arm_next(beats[1].t, 7);
    wheel.next_wakeup();
    wheel.next_expiry();
    wheel.advance(wheel.now() + (tvec::jiffies{1} << 34), 100'000);
    wheel.drain([](tvec::timer& t) { t.cancel(); });
    core_is_running = false;
    CHECK_GE(fired, 1'000);
}

namespace {

std::size_t resident_bytes() {
    std::FILE* const from = std::fopen("/proc/self/statm", "r");
    std::size_t pages = 0;
    REQUIRE(from && std::fscanf(from, "%*u %zu", &pages) == 1);
    std::fclose(from);
    return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

// Nodes that stay until their deadlines would take at least 16 bytes of each: 64 MB. The bound is a
// quarter of that, for whatever else a process does.
Test(allocation, four_million_cancelled_timers_take_no_memory) {
    tvec::timer_wheel wheel;
    std::vector<tvec::timer> timers(1'000'000);
    const auto round = [&] {
        tvec::jiffies far = 300'000;
        for (tvec::timer& t : timers) wheel.arm_after(t, far += 7);
        for (tvec::timer& t : timers) t.cancel();
        wheel.advance(wheel.now() + 1'000);
    };
    round();
    const std::size_t before = resident_bytes();
    for (int i = 0; i < 4; ++i) {
        const inside_the_core running;
        round();
    }
    CHECK_LE(resident_bytes(), before + 16'000'000);
}

Test(allocation, the_clock_layer_allocates_nothing) {
    tvec::clocked_wheel timers;
    tvec::timer t;
    const inside_the_core running;
    timers.arm_after(t, 1h);
    timers.arm_within(t, 1s, 2s);
    timers.arm_next(t, 10ms);
    timers.next_wakeup();
    timers.run();
}

namespace {

support::task<> sleeps_and_waits(support::manual_timers& on, support::signal& of, int& n, int& w) {
    for (;; ++n) {
        co_await tvec::sleep_for(on, 3ms);
        while (true) {
            if (const auto got = co_await tvec::with_timeout(on, of, 2ms)) break;
            ++w;
        }
        co_await tvec::with_timeout(on, tvec::sleep_until(on, on.after(9ms)), 1ms);
    }
}

}  // namespace

Test(allocation, sleeps_and_timed_waits_allocate_nothing) {
    support::manual_timers timers;
    support::signal s;
    int naps = 0, waits = 0;
    support::task<> t = sleeps_and_waits(timers, s, naps, waits);
    const inside_the_core running;
    t.start();
    for (int i = 0; i < 50; ++i) {
        support::pass(timers, 10ms);
        s.complete(1);
    }
    core_is_running = false;
    CHECK_GE(naps, 20);
    CHECK_GE(waits, 20);
}

Test(allocation, a_mailbox_allocates_nothing_once_it_is_made) {
    tvec::clocked_wheel timers;
    int rings = 0, called = 0;
    tvec::mailbox mailbox(timers, 100, [&] { ++rings; });
    const auto sender = mailbox.sender();
    const inside_the_core running;
    for (int i = 0; i < 1'000; ++i) {
        const auto copy = sender;
        mailbox.rearm();
        const auto late = copy.schedule(1h, [&] { ++called; });
        copy.reschedule(late.handle, 2h);
        if (i % 2) mailbox.run();
        copy.post([&] { ++called; });
        copy.cancel_then(late.handle, [&](bool) { ++called; });
        mailbox.run();
        timers.run();
    }
    core_is_running = false;
    CHECK_EQ(rings, 1'000);
    CHECK_EQ(called, 2'000);
}

namespace {

support::task<> beats_and_sleeps(support::manual_timers& on, tvec::sleeper& nap,
                                 std::stop_token token, int& beats) {
    for (;;) {
        co_await tvec::sleep_for(on, 2ms);
        ++beats;
        nap.reset(tvec::sleep_for(on, 3ms));
        co_await nap;
        const bool stopped = co_await tvec::sleep_for(on, 1h, token);
        if (stopped) co_return;
    }
}

}  // namespace

Test(allocation, reset_and_stopped_sleeps_allocate_nothing) {
    support::manual_timers timers;
    std::stop_source stop;
    int beats = 0;
    tvec::sleeper nap = tvec::sleep_for(timers, 3ms);
    support::task<> t = beats_and_sleeps(timers, nap, stop.get_token(), beats);
    const inside_the_core running;
    t.start();
    support::pass(timers, 20ms);
    stop.request_stop();
    support::pass(timers, 1ms);
    core_is_running = false;
    CHECK(t.done());
    CHECK_EQ(beats, 1);
}

Test(allocation, arming_is_noexcept_and_timers_have_32_bytes) {
    static_assert(sizeof(void*) != 8 || sizeof(tvec::timer) == 32);
    using tvec::timer, tvec::timer_wheel;
    static_assert(noexcept(std::declval<timer_wheel&>().arm_at(std::declval<timer&>(), 1)));
    static_assert(noexcept(std::declval<timer_wheel&>().arm_after(std::declval<timer&>(), 1)));
    static_assert(noexcept(std::declval<timer_wheel&>().arm_within(std::declval<timer&>(), 1, 2)));
    static_assert(noexcept(std::declval<timer_wheel&>().arm_next(std::declval<timer&>(), 1)));
    static_assert(noexcept(std::declval<timer&>().cancel()));
    static_assert(noexcept(std::declval<timer_wheel&>().next_wakeup()));
    static_assert(std::is_nothrow_move_constructible_v<timer>);
    static_assert(std::is_nothrow_move_assignable_v<timer>);
    static_assert(std::is_nothrow_destructible_v<timer>);
    static_assert(!std::is_copy_constructible_v<timer>);
    static_assert(!std::is_move_constructible_v<timer_wheel>);
}
