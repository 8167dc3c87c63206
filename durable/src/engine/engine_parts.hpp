// The parts of the engine, and the state that they share.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "deliveries.hpp"
#include "end_sender.hpp"
#include "ownership.hpp"
#include "shard.hpp"
#include "tvec/durable/detail/engine.hpp"
#include "window.hpp"

namespace tvec::durable::detail {

// Ids in one claim or sweep. One command must not keep a server busy for long: renewals of leases
// wait behind it.
inline constexpr std::size_t together = 500;

// State that all parts use, and the parts by which they call each other.
struct engine_state {
    engine_state(timer_wheel& w, wheel_clock c, store& from, options o);

    shard& of(const std::string& id) { return *shards[storage.shard_of(id)]; }
    std::size_t room() const noexcept;
    time_point now() const { return std::chrono::floor<duration>(storage.now()); }
    void arm(timer& t, std::chrono::microseconds delay) {
        wheel.arm_at(t, clock.tick_after(std::max(delay, std::chrono::microseconds::zero())));
    }

    // Returns a function that does nothing once the engine is gone.
    template <class F> auto guarded(F f) {
        return [alive = std::weak_ptr<const char>(alive), f = std::move(f)](auto&&... a) mutable {
            if (!alive.expired()) f(std::forward<decltype(a)>(a)...);
        };
    }

    // Calls a function of the user's, and counts its exception.
    template <class F, class... Answer> void contain(const F& f, Answer&&... a) {
        if (!f) return;
        try {
            f(std::forward<Answer>(a)...);
        } catch (...) {
            ++count.thrown;
            if (settings.on_exception) settings.on_exception(std::current_exception());
        }
    }

    timer_wheel& wheel;
    wheel_clock clock;
    store& storage;
    options settings;
    durable::counters count;
    lateness_histogram late;
    std::vector<std::unique_ptr<shard>> shards;
    bool stopping = false;
    std::size_t held_bytes = 0;  // of bodies that were claimed and not delivered
    std::size_t trials = 0;      // suspects that are claimed or being claimed for their turn
    std::shared_ptr<const char> alive = std::make_shared<const char>('x');
    ownership* owners = nullptr;
    window* near = nullptr;
    deliveries* deliverer = nullptr;
    end_sender* ends = nullptr;
};

struct engine_parts {
    engine_parts(timer_wheel& w, wheel_clock c, store& from, engine::handler h, options o);
    engine_parts(const engine_parts&) = delete;
    engine_parts& operator=(const engine_parts&) = delete;
    ~engine_parts() { all.shards.clear(); }  // their timers leave the queues of the deliverer

    engine_state all;
    ownership owners{all};
    window near{all};
    deliveries deliverer;
    end_sender ends{all};
};

}  // namespace tvec::durable::detail
