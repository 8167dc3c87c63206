// What is measured, written once for all structures.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "field.hpp"

namespace bench {

// --- nanoseconds per operation -------------------------------------------------------------------

// Timers that hang nowhere: a cancelled one may still be linked, and arming it is a push-back.
template <class A> double arm_unlinked(field<A>& f) {
    return f.time([&] { f.arm_all(); });
}

template <class A> double arm_cancelled_later(field<A>& f) {
    f.arm_all();
    f.cancel_all();
    return f.time([&] { f.arm_all_for(f.wheel().now() + plan::longest + 1); });
}

template <class A> double cancel(field<A>& f) {
    f.arm_all();
    return f.time([&] { f.cancel_all(); });
}

// Every timer to another delay, half of them earlier.
template <class A> double rearm_random(field<A>& f) {
    f.arm_all();
    return f.time([&] { f.rearm_all(); });
}

// A server's keepalive: each timer pushed back to the same timeout from now, while time goes by.
template <class A> double push_back(field<A>& f) {
    f.arm_all_for(f.wheel().now() + plan::longest);
    const std::size_t per_tick = std::max<std::size_t>(f.size() / 100, 100);
    return f.time([&] {
        std::size_t left = per_tick;
        std::uint64_t now = f.wheel().now();
        f.each(f.what().order, [&](A& w, auto& n, std::size_t) {
            w.arm(n, now + plan::longest);
            if (--left != 0) return;
            left = per_tick;
            w.advance(++now);
        });
    });
}

// All of them expire, tick by tick.
template <class A> double expire(field<A>& f) {
    f.arm_all();
    return f.time([&] {
        for (unsigned i = 0; i < plan::longest; ++i) f.tick();
    });
}

// The same by a loop that sleeps from each tick that is due to the next.
template <class A> double expire_awake_when_due(field<A>& f) {
    f.arm_all();
    const std::uint64_t now = f.wheel().now();
    return f.time([&] {
        for (const std::uint32_t tick : f.what().due) f.wheel().advance(now + tick);
    });
}

// Per tick in which nothing is due, with all timers far away.
template <class A> double idle_tick(field<A>& f) {
    constexpr unsigned ticks = 100'000;
    f.arm_all_for(f.far_away);
    const stopwatch watch;
    for (unsigned i = 0; i < ticks; ++i) f.tick();
    return watch.nanoseconds() / ticks;
}

// One jump over a million ticks in which nothing is due.
template <class A> double jump(field<A>& f) {
    f.arm_all_for(f.far_away);
    const stopwatch watch;
    f.wheel().advance(f.wheel().now() + 1'000'000);
    return watch.nanoseconds();
}

// Per question when to wake up, with a timer near; a new answer every 16 questions.
template <class A> double next_wakeup(field<A>& f) {
    constexpr unsigned questions = 16'000;
    f.arm_all();
    std::uint64_t sum = 0;
    double spent = 0;
    for (unsigned i = 0; i < questions; i += 16) {
        f.tick();
        const stopwatch watch;
        for (unsigned k = 0; k < 16; ++k) {
            sum += f.wheel().next_wakeup();
            asm volatile("" : "+r"(sum) : : "memory");
        }
        spent += watch.nanoseconds();
    }
    return spent / questions;
}

// --- a server ------------------------------------------------------------------------------------

// Two timers per connection: an idle timeout, which most events push back, and a request's.
// 90 % push-backs, 9 % a request's timer armed or cancelled, 1 % a connection that closes and is
// opened again. Idle timeouts are spread over their length at first, and fire if nothing comes.
template <class A> class server {
public:
    explicit server(field<A>& f) : field_(f), connections_(f.size() / 2) {
        const std::uint64_t now = f.wheel().now();
        for (std::size_t i = 0; i < connections_; ++i)
            f.wheel().arm(idle(i), now + f.what().delays[i]);
    }

    void event() {
        A& wheel = field_.wheel();
        const std::uint64_t now = wheel.now();
        const std::uint64_t drawn = random_();
        const std::size_t i = drawn / 100 % connections_;
        const std::uint64_t what = drawn % 100;
        if (what == 0) {
            wheel.cancel(idle(i));
            wheel.cancel(request(i));
            wheel.arm(idle(i), now + plan::longest);
        } else if (what < 6) {
            wheel.arm(request(i), now + plan::request);
        } else if (what < 10) {
            wheel.cancel(request(i));
        } else {
            wheel.arm(idle(i), now + plan::longest);
        }
    }

private:
    auto& idle(std::size_t i) { return field_.nth(i); }
    auto& request(std::size_t i) { return field_.nth(connections_ + i); }

    field<A>& field_;
    std::size_t connections_;
    std::minstd_rand random_{7};
};

// Per event, with the ticks that go by meanwhile.
template <class A> double mixed_server(field<A>& f) {
    server<A> s(f);
    const std::size_t per_tick = std::max<std::size_t>(f.size() / 100, 100);
    return f.time([&] {
        for (std::size_t left = f.size(); left > 0;) {
            const std::size_t now = std::min(left, per_tick);
            for (std::size_t k = 0; k < now; ++k) s.event();
            left -= now;
            f.tick();
        }
    });
}

// --- what each tick takes ------------------------------------------------------------------------

using durations = std::vector<float>;  // nanoseconds

template <class F> void time_each(durations& ticks, F work) {
    for (float& t : ticks) {
        const stopwatch watch;
        work();
        t = static_cast<float>(watch.nanoseconds());
    }
}

template <class A> durations ticks_while_expiring(field<A>& f) {
    f.arm_all();
    durations ticks(plan::longest);
    time_each(ticks, [&] { f.tick(); });
    return ticks;
}

// As many events as there are timers, over 20 000 ticks: past the first cascade of 16 384.
template <class A> durations ticks_of_server(field<A>& f) {
    server<A> s(f);
    durations ticks(20'000);
    const std::size_t per_tick = std::max<std::size_t>(f.size() / ticks.size(), 1);
    for (float& t : ticks) {
        for (std::size_t k = 0; k < per_tick; ++k) s.event();
        const stopwatch watch;
        f.tick();
        t = static_cast<float>(watch.nanoseconds());
    }
    return ticks;
}

// --- what single operations take -----------------------------------------------------------------

struct single_operations {
    durations arm, cancel, advance;
};

template <class F> float time_one(F work) {
    const stopwatch watch;
    work();
    return static_cast<float>(watch.nanoseconds());
}

// Orders with a timeout, nearly all of them filled and so cancelled.
template <class A> single_operations order_timeouts(field<A>& f) {
    single_operations spent;
    spent.arm.reserve(f.size());
    spent.cancel.reserve(f.size());
    spent.advance.reserve(order_book::ticks);
    const order_book& orders = f.what().orders;
    A& wheel = f.wheel();
    for (std::uint32_t t = 0; t < order_book::ticks; ++t) {
        const std::uint64_t timeout = wheel.now() + order_book::timeout;
        for (const std::uint32_t i : orders.filled(t))
            spent.cancel.push_back(time_one([&] { wheel.cancel(f.at(i)); }));
        for (const std::uint32_t i : orders.arriving(t))
            spent.arm.push_back(time_one([&] { wheel.arm(f.at(i), timeout); }));
        spent.advance.push_back(time_one([&] { f.tick(); }));
    }
    return spent;
}

// --- what a timer takes --------------------------------------------------------------------------

inline double allocated() {
    const struct mallinfo2 m = mallinfo2();
    return static_cast<double>(m.uordblks) + static_cast<double>(m.hblkhd);
}

// Bytes per timer, all of them armed: its node, what was allocated for it, and its share of the
// structure itself.
template <class A> double memory(const stage& s) {
    const double before = allocated();
    field<A> f(s);
    f.arm_all();
    return sizeof(typename A::node) + (allocated() - before) / static_cast<double>(f.size());
}

}  // namespace bench
