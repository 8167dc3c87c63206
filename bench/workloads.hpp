// What is measured, written once for all structures. Each function does a round of N operations
// and returns nanoseconds per operation, unless its name says otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "adapters.hpp"
#include "objects.hpp"

namespace bench {

using clock = std::chrono::steady_clock;

inline double nanoseconds_since(clock::time_point begin) {
    return std::chrono::duration<double, std::nano>(clock::now() - begin).count();
}

// A wheel, its objects, and the plan they follow.
template <class Adapter> class field {
public:
    field(const plan& p, bool huge_pages) : plan_(p), herd_(p.order.size(), huge_pages) {}

    std::size_t size() const { return plan_.order.size(); }

    // A new wheel, and objects that hang nowhere.
    void reset() {
        herd_.remake();
        wheel_ = std::make_unique<Adapter>();
        seen = {};
    }

    Adapter& wheel() { return *wheel_; }
    auto& node(std::size_t i) { return herd_[plan_.order[i]]; }
    std::uint32_t delay(std::size_t i) const { return plan_.delays[i]; }

    // act(wheel, node, i) for each object. The loops keep everything but the object in registers.
    template <class F> void each(const std::vector<std::uint32_t>& order, F act) {
        Adapter& w = *wheel_;
        auto* const objects = herd_.first();
        std::size_t i = 0;
        for (const std::uint32_t k : order) act(w, objects[k].node, i++);
    }
    const std::vector<std::uint32_t>& order() const { return plan_.order; }
    const std::vector<std::uint32_t>& other_order() const { return plan_.other_order; }

    void arm_all() {
        const std::uint64_t now = wheel().now();
        const std::uint32_t* const delays = plan_.delays.data();
        each(order(), [=](Adapter& w, auto& n, std::size_t i) { w.arm(n, now + delays[i]); });
    }
    void cancel_all() {
        each(other_order(), [](Adapter& w, auto& n, std::size_t) { w.cancel(n); });
    }
    void arm_all_for(std::uint64_t at) {
        each(other_order(), [at](Adapter& w, auto& n, std::size_t) { w.arm(n, at); });
    }
    void rearm_all() {
        const std::uint64_t now = wheel().now();
        const std::uint32_t* const delays = plan_.delays.data();
        each(other_order(), [=](Adapter& w, auto& n, std::size_t i) { w.arm(n, now + delays[i]); });
    }
    // All of them, to the same timeout from a time that goes by.
    void push_back_all() {
        const std::size_t per_tick = std::max<std::size_t>(size() / 100, 100);
        std::size_t left = per_tick;
        std::uint64_t now = wheel().now();
        each(order(), [&](Adapter& w, auto& n, std::size_t) {
            w.arm(n, now + plan::longest);
            if (--left != 0) return;
            left = per_tick;
            w.advance(++now);
        });
    }

    // Nanoseconds of `work`, per object.
    template <class F> double time(F work) {
        const auto begin = clock::now();
        work();
        return nanoseconds_since(begin) / static_cast<double>(size());
    }

private:
    const plan& plan_;
    herd<typename Adapter::node> herd_;
    std::unique_ptr<Adapter> wheel_;
};

// Timers that hang nowhere: a cancelled one may still be linked, and arming it is a push-back.
template <class Adapter> double arm_unlinked(field<Adapter>& f) {
    f.reset();
    return f.time([&] { f.arm_all(); });
}

template <class Adapter> double arm_cancelled_later(field<Adapter>& f) {
    f.reset();
    f.arm_all();
    f.cancel_all();
    return f.time([&] { f.arm_all_for(f.wheel().now() + plan::longest + 1); });
}

template <class Adapter> double cancel(field<Adapter>& f) {
    f.reset();
    f.arm_all();
    return f.time([&] { f.cancel_all(); });
}

// Every timer to another delay, half of them earlier.
template <class Adapter> double rearm_random(field<Adapter>& f) {
    f.reset();
    f.arm_all();
    return f.time([&] { f.rearm_all(); });
}

// A server's keepalive: each timer pushed back to the same timeout from now, while time goes by.
template <class Adapter> double push_back(field<Adapter>& f) {
    f.reset();
    f.arm_all_for(f.wheel().now() + plan::longest);
    return f.time([&] { f.push_back_all(); });
}

// All of them expire, tick by tick; per timer.
template <class Adapter> double expire(field<Adapter>& f) {
    f.reset();
    f.arm_all();
    return f.time([&] {
        for (unsigned i = 0; i < plan::longest; ++i) f.wheel().advance(f.wheel().now() + 1);
    });
}

// The same, with what each tick took.
template <class Adapter> std::vector<float> expire_by_tick(field<Adapter>& f) {
    f.reset();
    f.arm_all();
    std::vector<float> ticks(plan::longest);
    auto before = clock::now();
    for (float& t : ticks) {
        f.wheel().advance(f.wheel().now() + 1);
        const auto after = clock::now();
        t = std::chrono::duration<float, std::nano>(after - before).count();
        before = after;
    }
    return ticks;
}

// 90 % push-backs of a connection's timer, 9 % a request's timer armed or cancelled, 1 % a
// connection that closes and is opened again; a tick now and then. Two timers per connection.
template <class Adapter> double mixed_server(field<Adapter>& f) {
    f.reset();
    const std::size_t connections = f.size() / 2;
    const auto request = [&](std::size_t i) -> auto& { return f.node(connections + i); };
    f.arm_all_for(f.wheel().now() + plan::longest);
    std::minstd_rand random(7);
    return f.time([&] {
        const std::size_t per_tick = std::max<std::size_t>(f.size() / 100, 100);
        std::size_t left = per_tick;
        for (std::size_t n = 0; n < f.size(); ++n) {
            const std::uint64_t now = f.wheel().now();
            const std::size_t i = random() % connections;
            const std::uint64_t what = random() % 100;
            if (what == 0) {
                f.wheel().cancel(f.node(i));
                f.wheel().cancel(request(i));
                f.wheel().arm(f.node(i), now + plan::longest);
            } else if (what < 6) {
                f.wheel().arm(request(i), now + 5'000);
            } else if (what < 10) {
                f.wheel().cancel(request(i));
            } else {
                f.wheel().arm(f.node(i), now + plan::longest);
            }
            if (--left != 0) continue;
            left = per_tick;
            f.wheel().advance(now + 1);
        }
    });
}

// Per tick in which nothing is due, with all timers far away.
template <class Adapter> double idle_tick(field<Adapter>& f) {
    constexpr unsigned ticks = 100'000;
    f.reset();
    f.arm_all_for(f.wheel().now() + 10'000'000);
    const auto begin = clock::now();
    for (unsigned i = 0; i < ticks; ++i) f.wheel().advance(f.wheel().now() + 1);
    return nanoseconds_since(begin) / ticks;
}

// Per question when to wake up, with a timer near; a new answer every 16 questions.
template <class Adapter> double next_wakeup(field<Adapter>& f) {
    constexpr unsigned questions = 16'000;
    f.reset();
    f.arm_all();
    std::uint64_t sum = 0;
    double spent = 0;
    for (unsigned i = 0; i < questions; i += 16) {
        f.wheel().advance(f.wheel().now() + 1);
        const auto begin = clock::now();
        for (unsigned k = 0; k < 16; ++k) {
            sum += f.wheel().next_wakeup();
            asm volatile("" : "+r"(sum) : : "memory");
        }
        spent += nanoseconds_since(begin);
    }
    return spent / questions;
}

// Nanoseconds for one jump over a million ticks in which nothing is due.
template <class Adapter> double jump(field<Adapter>& f) {
    f.reset();
    f.arm_all_for(f.wheel().now() + 10'000'000);
    const auto begin = clock::now();
    f.wheel().advance(f.wheel().now() + 1'000'000);
    return nanoseconds_since(begin);
}

}  // namespace bench
