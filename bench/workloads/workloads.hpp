// All workloads, written once for all structures. A scenario sets up once and measures one or
// several figures in turn. The others yield distributions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "test_bed.hpp"

namespace bench {

enum figure {
    arming,
    remembering,
    cancelling,
    arming_cancelled,
    rearming,
    asking,
    pushing_back,
    idling,
    jumping,
    expiring,
    expiring_when_due,
    serving,
    arming_in_memory_order,
    destroying,
    requesting,
    requesting_from_pool,
    connection_arming,
    connection_pushing_back,
    connection_expiring,
    all_figures
};

// NaN: this structure or this scenario does not provide it.
using figures = std::array<measured, all_figures>;

// --- scenarios: nanoseconds per operation --------------------------------------------------------

// Arms unlinked timers, cancels all in another order, and arms them again for later. A cancelled
// timer may still be linked, and arming it again is a push-back: that has a row of its own. Memory
// counts the node, its allocations, and its share of the structure itself, with all timers armed.
template <class A> void live(field<A>& f, figures& out) {
    out[arming] = f.time([&] { f.arm_all(); });
    out[remembering].value =
        sizeof(typename A::node) + f.allocated() / static_cast<double>(f.size());
    out[cancelling] = f.time([&] { f.cancel_all(); });
    const std::uint64_t later = f.wheel().now() + plan::longest + 1;
    out[arming_cancelled] = f.time([&] { f.arm_all_for(later); });
}

// Time per query of the next wake-up, with a timer near. The answer changes every 16 queries. A
// structure without this query passes the same ticks.
template <class A> double ask(field<A>& f) {
    constexpr unsigned ticks = 200, questions = 16;
    std::uint64_t sum = 0;
    double spent = 0;
    for (unsigned i = 0; i < ticks; ++i) {
        f.tick();
        if constexpr (tells_wakeup<A>) {
            const stopwatch watch;
            for (unsigned k = 0; k < questions; ++k) {
                sum += f.wheel().next_wakeup();
                asm volatile("" : "+r"(sum) : : "memory");
            }
            spent += watch.nanoseconds();
        }
    }
    return spent > 0 ? spent / (ticks * questions) : std::numeric_limits<double>::quiet_NaN();
}

// Moves every timer to another delay, half of them earlier.
template <class A> void rearm(field<A>& f, figures& out) {
    f.arm_all();
    out[rearming] = f.time([&] { f.rearm_all(); });
    out[asking].value = ask(f);
}

// Pushes each timer back to the same timeout from now, with a tick for every `per_tick` of them.
template <class A>
measured push_back_all(field<A>& f, const std::vector<std::uint32_t>& order, std::size_t per_tick) {
    return f.time([&] {
        std::size_t left = per_tick;
        std::uint64_t now = f.wheel().now();
        f.each(
            order,
            [&](observed<A>& w, auto& n, std::size_t)
                BENCH_INLINED { w.arm(n, now + plan::longest); },
            [&](observed<A>& w) BENCH_INLINED {
                if (--left != 0) return;
                left = per_tick;
                w.advance(++now);
            });
    });
}

// A server's keepalives: each timer is pushed back to the same timeout from now, while time passes.
template <class A> void push_back(field<A>& f, figures& out) {
    f.arm_all_for(f.wheel().now() + plan::longest);
    const std::size_t per_tick = std::max<std::size_t>(f.size() / 100, 100);
    out[pushing_back] = push_back_all(f, f.what().order, per_tick);
}

// Arms unlinked timers in the order of memory, then cancels and destroys them together in random
// order.
template <class A> void live_shortly(field<A>& f, figures& out) {
    out[arming_in_memory_order] = f.time([&] { f.arm_all_in_memory_order(); });
    out[destroying] = f.time([&] { f.destroy_all(); });
    f.tick();  // some structures give up a timer in the loop's next turn
    f.make_all();
}

// All timers are far away: time per tick in which none is due, and for one jump over a million. The
// next call has to fetch the memory that this one leaves behind, as in a loop that does other work
// in between.
template <class A> void wait(field<A>& f, figures& out) {
    constexpr unsigned ticks = 20'000;
    f.arm_all_for(f.far_away);
    const batch all;
    for (unsigned i = 0; i < ticks; ++i) {
        f.tick();
        asm volatile("" : : : "memory");
    }
    out[idling] = all.each_of(ticks);
    const batch jump;
    f.wheel().advance(f.wheel().now() + 1'000'000);
    out[jumping] = jump.each_of(1);
}

// All timers expire, tick by tick.
template <class A> void expire(field<A>& f, figures& out) {
    f.arm_all();
    out[expiring] = f.time([&] {
        for (unsigned i = 0; i < plan::longest; ++i) f.tick();
    });
}

// All timers expire in a loop that sleeps from each due tick to the next.
template <class A> void expire_awake_when_due(field<A>& f, figures& out) {
    f.arm_all();
    const std::uint64_t now = f.wheel().now();
    out[expiring_when_due] = f.time([&] {
        for (const std::uint32_t tick : f.what().due) f.wheel().advance(now + tick);
    });
}

// --- connections ---------------------------------------------------------------------------------

// An order of the connections and a delay of each, drawn anew in each run: nothing has learned
// them.
struct drawn_connections {
    drawn_connections(std::size_t n, std::uint64_t drawing) : order(n), delays(n) {
        std::mt19937_64 random(n + 977 * drawing);
        std::iota(order.begin(), order.end(), 0u);
        std::shuffle(order.begin(), order.end(), random);
        for (std::uint64_t& d : delays) d = 1 + random() % plan::longest;
        other_order = order;
        std::shuffle(other_order.begin(), other_order.end(), random);
    }

    std::vector<std::uint32_t> order, other_order;
    std::vector<std::uint64_t> delays;  // by connection
};

// What a user's own program measures: each operation once for each connection, of those that have
// just been made, and each delay where the connection has it. The rows above run the same orders
// again and again, and read delays in the order in which they are used.
template <class A> void connect(field<A>& f, figures& out) {
    const drawn_connections drawn(f.size(), f.drawing());
    const std::uint32_t* const order = drawn.order.data();
    const std::uint64_t* const delays = drawn.delays.data();
    const auto arm_all_after = [&](std::uint64_t first) {
        f.each(drawn.order, [=](A& w, auto& n, std::size_t i)
                                BENCH_INLINED { w.arm(n, first + delays[order[i]]); });
    };
    out[connection_arming] = f.time([&] { arm_all_after(f.wheel().now()); });
    const std::size_t per_tick = std::max<std::size_t>(f.size() / 100, 1);
    out[connection_pushing_back] = push_back_all(f, drawn.other_order, per_tick);
    const std::uint64_t first = f.wheel().now() + plan::longest;
    f.time([&] { arm_all_after(first); });
    f.wheel().advance(first);
    out[connection_expiring] = f.time([&] {
        for (unsigned i = 0; i < plan::longest; ++i) f.tick();
    });
}

// --- a server ------------------------------------------------------------------------------------

// Two timers per connection: an idle timeout, which most events push back, and a request's timeout.
// Push-backs are 90 % of the events. 9 % arm or cancel a request's timer, 1 % close a connection
// and open it again. Idle timeouts are spread over their length at first. They fire if no event
// comes.
template <class A> class server {
public:
    explicit server(field<A>& f) : field_(f), connections_(f.size() / 2) {
        const std::uint64_t now = f.wheel().now();
        for (std::size_t i = 0; i < connections_; ++i)
            f.wheel().arm(idle(i), now + f.what().delays[i]);
    }

    [[gnu::always_inline]] void event() {
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
    auto& idle(std::size_t i) { return field_.at(i); }
    auto& request(std::size_t i) { return field_.at(connections_ + i); }

    field<A>& field_;
    std::size_t connections_;
    std::minstd_rand random_{7};
};

// Time per event, including the ticks that pass.
template <class A> void serve(field<A>& f, figures& out) {
    server<A> s(f);
    const std::size_t per_tick = std::max<std::size_t>(f.size() / 100, 100);
    out[serving] = f.time([&] {
        for (std::size_t left = f.size(); left > 0;) {
            const std::size_t now = std::min(left, per_tick);
            for (std::size_t k = 0; k < now; ++k) s.event();
            left -= now;
            f.tick();
        }
    });
}

// --- a server's day ------------------------------------------------------------------------------

// Rate of messages over the day: lowest at both ends, nine times as high in the middle.
struct day {
    std::uint64_t seconds;
    std::uint64_t messages;

    std::uint64_t messages_before(std::uint64_t second) const {
        const double x = static_cast<double>(second) / static_cast<double>(seconds);
        constexpr double turn = 2 * std::numbers::pi;
        const double share = x - 0.8 * std::sin(turn * x) / turn;
        return static_cast<std::uint64_t>(share * static_cast<double>(messages) + 0.5);
    }
};

// Two timers per connection, as above. A message pushes its connection's idle timeout back. It also
// begins a request and arms its timer, or ends one and cancels its timer. After one message in 200
// the connection closes and another takes its place. A tick is a millisecond and a turn of the
// loop. Yields the CPU time of the whole day, in nanoseconds.
template <class A> class daily_server {
public:
    daily_server(field<A>& f, const day& d) : field_(f), day_(d), connections_(f.size() / 2) {
        for (std::size_t i = 0; i < connections_; ++i)
            f.wheel().arm(idle(i), f.wheel().now() + f.what().delays[i]);
    }

    double serve() {
        const long_stopwatch watch;
        for (std::uint64_t s = 0; s < day_.seconds; ++s)
            serve_second(day_.messages_before(s + 1) - day_.messages_before(s));
        return watch.nanoseconds();
    }

private:
    void serve_second(std::uint64_t messages) {
        std::uint64_t come = 0;
        for (std::uint64_t tick = 1; tick <= 1'000; ++tick) {
            for (; come < messages * tick / 1'000; ++come) message();
            field_.tick();
        }
    }

    [[gnu::always_inline]] void message() {
        A& wheel = field_.wheel();
        const std::uint64_t now = wheel.now();
        const std::uint64_t drawn = random_();
        const std::size_t i = drawn / 200 % connections_;
        wheel.arm(idle(i), now + plan::longest);
        if (drawn % 2 == 0)
            wheel.arm(request(i), now + plan::request);
        else
            wheel.cancel(request(i));
        if (drawn % 200 == 1) replace(i);
    }

    void replace(std::size_t i) {
        A& wheel = field_.wheel();
        wheel.cancel(idle(i));
        wheel.cancel(request(i));
        wheel.arm(idle(i), wheel.now() + plan::longest);
    }

    auto& idle(std::size_t i) { return field_.at(i); }
    auto& request(std::size_t i) { return field_.at(connections_ + i); }

    field<A>& field_;
    const day& day_;
    std::size_t connections_;
    std::minstd_rand random_{11};
};

template <class A> double serve_day(field<A>& f, const day& d) {
    return daily_server<A>(f, d).serve();
}

// --- single ticks --------------------------------------------------------------------------------

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

// As many events as timers, over 20 000 ticks: past the first cascade at 16 384.
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

// --- single operations ---------------------------------------------------------------------------

struct single_operations {
    durations arm, cancel, advance;
};

// Orders with a timeout. Nearly all are filled, and their timers cancelled.
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

}  // namespace bench
