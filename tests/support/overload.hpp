// Connections that time out a second after they were armed, one after the other, and are armed
// anew. Each callback takes some time by a clock that is set.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <random>
#include <vector>

#include "tvec/tvec.hpp"

namespace support {

using namespace std::chrono_literals;

template <class Timers> struct clients {
    using clock = tvec::manual_clock;

    clients(Timers& wheel, std::size_t n, std::chrono::nanoseconds work)
        : wheel(wheel), work(work), all(n) {
        for (std::size_t i = 0; i < n; ++i) all[i].arm(*this, 1s + i * 1'000'000'000ns / n);
    }

    struct client {
        void arm(clients& c, std::chrono::nanoseconds delay) {
            of = &c;
            due = clock::now() + delay;
            c.wheel.arm_after(idle, delay);
        }
        void on_idle() {
            const auto late = clock::now() - due;
            if (late < 0s) ++of->early;
            of->latest = std::max(of->latest, late);
            clock::advance(of->work);
            of->wheel.begin_turn();
            arm(*of, 1s);
        }

        clients* of = nullptr;
        clock::time_point due;
        tvec::timer idle{tvec::call<&client::idle, &client::on_idle>};
    };

    Timers& wheel;
    std::chrono::nanoseconds work;
    std::vector<client> all;
    std::chrono::nanoseconds latest{};  // lateness
    std::size_t early = 0;
};

// Runs turns for 10 s, and then for a minute. Returns by how much the latest timer was late in it.
template <class Timers, class Turn>
std::chrono::nanoseconds lateness(clients<Timers>& c, Turn turn) {
    const auto begin = tvec::manual_clock::now();
    while (tvec::manual_clock::now() < begin + 10s) turn();
    c.latest = {};
    while (tvec::manual_clock::now() < begin + 70s) turn();
    return c.latest;
}

// A loop that handles messages for `turn`, in each turn, and then the timers of a wheel.
inline std::chrono::nanoseconds plain_lateness(std::size_t n, std::chrono::nanoseconds turn,
                                               std::chrono::nanoseconds work) {
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>> wheel;
    clients c(wheel, n, work);
    return lateness(c, [&] {
        tvec::manual_clock::advance(turn);
        wheel.run(256);
    });
}

// How much later a timer may be in a loop that hears first, or is a host. A turn makes 256 visits,
// and goes on for a tenth of a second at most, beside which messages come.
inline std::chrono::nanoseconds one_turn(std::size_t n, std::chrono::nanoseconds turn,
                                         std::chrono::nanoseconds work) {
    return turn + std::min<std::chrono::nanoseconds>(work * n, 256 * work + 100ms);
}

// Calls each(timers a second, turn, work of a callback).
template <class F> void each_overload(F each) {
    for (const std::chrono::nanoseconds turn : {20ms, 60ms, 90ms, 120ms, 300ms, 900ms})
        for (const std::size_t n : {400, 1000, 4000})
            for (const std::chrono::nanoseconds work : {0us, 10us, 1000us}) each(n, turn, work);
}

// Clients that speak again when some twentieths of their limit have passed, whatever the loop does.
// What they say lies in sockets until the loop polls and handles it.
template <class Timers> struct talkers {
    using clock = tvec::manual_clock;

    talkers(Timers& wheel, std::chrono::nanoseconds limit, int twentieths)
        : wheel(wheel), limit(limit), period(limit * twentieths / 20), all(50) {
        for (std::size_t i = 0; i < all.size(); ++i) {
            all[i].of = this;
            all[i].speaks = clock::now() + i * period / all.size();
            wheel.arm_after(all[i].idle, limit);
        }
    }

    struct client {
        void on_idle() { ++of->closed; }

        talkers* of = nullptr;
        clock::time_point speaks;
        tvec::timer idle{tvec::call<&client::idle, &client::on_idle>};
    };

    // Finds what has come.
    void poll() {
        ready.clear();
        for (client& c : all)
            if (c.speaks <= clock::now()) ready.push_back(&c);
    }
    // Handles it, which takes `work` in all. Returns how many messages that were.
    std::size_t handle(std::chrono::nanoseconds work) {
        for (client* const c : ready) {
            while (c->speaks <= clock::now()) c->speaks += period;
            wheel.arm_after(c->idle, limit);
            clock::advance(work / ready.size());
        }
        if (ready.empty()) clock::advance(1ms);
        return ready.size();
    }

    Timers& wheel;
    std::chrono::nanoseconds limit, period;
    std::vector<client> all;
    std::vector<client*> ready;
    int closed = 0;
};

// Calls each(limit, twentieths, next_work): a twentieth to a fifth of the limit in each turn, in
// one of two, or in one of five.
template <class F> void each_slow_loop(F each) {
    std::mt19937 random(1);
    for (const std::chrono::nanoseconds limit : {300ms, 500ms, 1000ms, 5000ms})
        for (const int twentieths : {18, 19})
            for (const unsigned slow : {1u, 2u, 5u})
                each(limit, twentieths, [&]() -> std::chrono::nanoseconds {
                    const bool is_slow = random() % slow == 0;
                    const auto hundredths = static_cast<int>(random() % 16) + 5;
                    return is_slow ? limit * hundredths / 100 : 0ns;
                });
}

}  // namespace support
