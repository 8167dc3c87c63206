// share_by_lock: threads that take turns under a lock may use one wheel. ThreadSanitizer watches.
#include <array>
#include <atomic>
#include <csignal>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/extra/scaled_wheel.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(sharing, .timeout = 120);

namespace {

template <class F> void in_another_thread(F f) { std::thread(f).join(); }

// What a thread did: timers that it has armed anew, cancelled and taken.
struct books {
    std::uint64_t armed = 0, cancelled = 0, taken = 0;
};

// A wheel, its lock, and timers that any thread arms, cancels and takes.
struct shared {
    shared() { wheel.share_by_lock(); }

    void step(books& b, std::mt19937& random) {
        tvec::timer& t = timers[random() % timers.size()];
        std::size_t n = 0;
        std::array<tvec::timer*, 8> late{};
        {
            const std::lock_guard under(lock);
            switch (random() % 4) {
            case 0:
                b.cancelled += random() % 2 == 0 ? t.cancel() : t.unlink();
                break;
            case 1:
                wheel.collect(wheel.now() + random() % 3, late.size(), [&](tvec::timer& due) {
                    CHECK_LE(due.expires(), wheel.now());
                    late[n++] = &due;
                });
                break;
            default:
                b.armed += !wheel.arm_after(t, 1 + random() % 400);
            }
        }
        for (std::size_t i = 0; i < n; ++i) dispatched[place_of(*late[i])] = 1;  // without the lock
        b.taken += n;
    }

    std::size_t place_of(const tvec::timer& t) const {
        return static_cast<std::size_t>(&t - timers.data());
    }

    std::mutex lock;
    timer_wheel wheel;
    std::array<tvec::timer, 256> timers;
    std::array<std::atomic<int>, 256> dispatched{};
};

}  // namespace

Test(sharing, threads_that_take_turns_lose_no_timer) {
    const auto s = std::make_unique<shared>();
    std::array<books, 4> all;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < all.size(); ++i)
        threads.emplace_back([&s, &b = all[i], i] {
            std::mt19937 random(i);
            for (int n = 0; n < 5'000; ++n) s->step(b, random);
        });
    for (std::thread& t : threads) t.join();
    books sum;
    for (const books& b : all) {
        sum.armed += b.armed;
        sum.cancelled += b.cancelled;
        sum.taken += b.taken;
    }
    CHECK_GE(sum.taken, 1);
    CHECK_EQ(sum.armed, sum.cancelled + sum.taken + s->wheel.count_pending());
    CHECK_EQ(check(s->wheel), "");
}

Test(sharing, any_thread_may_use_a_shared_wheel) {
    timer_wheel wheel;
    wheel.share_by_lock();
    CHECK(wheel.shared_by_lock());
    probe p;
    wheel.advance(1);
    in_another_thread([&] { wheel.arm_after(p.t, 10); });
    in_another_thread([&] { wheel.advance(11); });
    CHECK(p.fired_only_at(11));
}

Test(sharing, a_wheel_in_use_may_become_shared) {
    timer_wheel wheel;
    wheel.advance(1);
    CHECK(!wheel.shared_by_lock());
    wheel.share_by_lock();
    in_another_thread([&] { wheel.advance(2); });
    wheel.advance(3);
    CHECK_EQ(wheel.now(), 3);
}

Test(sharing, a_scaled_wheel_is_shared_with_its_timers) {
    using namespace std::chrono_literals;
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>> timers;
    timers.wheel().share_by_lock();
    tvec::scaled_wheel idle(timers, 10ms);
    probe p;
    idle.wheel().advance(0);
    in_another_thread([&] { idle.arm_after(p.t, 5ms); });
    CHECK(p.t.pending());
}

#ifndef NDEBUG  // all other assertions stay

Test(sharing, an_unshared_wheel_has_one_owner, .signal = SIGABRT) {
    timer_wheel shared, wheel;
    shared.share_by_lock();
    wheel.advance(1);
    in_another_thread([&] { wheel.advance(2); });
}

Test(sharing, a_timer_overwritten_in_shared_wheels_is_named, .signal = SIGABRT) {
    timer_wheel wheel;
    wheel.share_by_lock();
    std::array<tvec::timer, 2> t;
    for (tvec::timer& one : t) wheel.arm_at(one, 10);
    for (tvec::timer& one : t) std::construct_at(&one);
    wheel.advance(10);
}

#endif
