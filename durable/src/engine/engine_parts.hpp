// The parts of the engine, and the state that they share.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "deliveries.hpp"
#include "end_sender.hpp"
#include "limits.hpp"
#include "ownership.hpp"
#include "planner.hpp"
#include "shard.hpp"
#include "tvec/durable/detail/engine.hpp"
#include "window.hpp"

namespace tvec::durable::detail {

// The state that all parts use, and the parts by which they call each other.
struct engine_state {
    engine_state(timer_wheel& w, wheel_clock c, store& from, options o);
    engine_state(const engine_state&) = delete;
    engine_state& operator=(const engine_state&) = delete;

    // Arms `t` to fire after `delay`, or at the next tick if that has passed.
    void arm(timer& t, std::chrono::microseconds delay);
    shard& shard_of(const std::string& id);
    // Returns how many timers the window holds of a shard.
    std::size_t window_share() const noexcept;
    time_point now() const { return std::chrono::floor<duration>(storage.now()); }

    // Wraps a function, which becomes a no-op once the engine is destroyed.
    template <class F> auto guarded(F f) {
        return [alive = std::weak_ptr<const char>(alive), f = std::move(f)](auto&&... a) mutable {
            if (!alive.expired()) f(std::forward<decltype(a)>(a)...);
        };
    }

    // Calls a function of the user, if there is one. Counts, reports and returns an exception.
    template <class F, class... Argument> std::exception_ptr contain(const F& f, Argument&&... a) {
        if (!f) return nullptr;
        try {
            f(std::forward<Argument>(a)...);
            return nullptr;
        } catch (...) {
            ++count.thrown;
            if (settings.on_exception) settings.on_exception(std::current_exception());
            return std::current_exception();
        }
    }

    timer_wheel& wheel;
    const wheel_clock clock;
    store& storage;
    const options settings;
    counters count{};
    lateness_histogram late{};
    std::vector<std::unique_ptr<shard>> shards{};
    bool is_stopping = false;
    std::size_t held_bytes = 0;  // bodies that are claimed and not delivered
    std::size_t trials = 0;      // suspects that are claimed or being claimed for their turn
    std::shared_ptr<const char> alive = std::make_shared<const char>('x');
    ownership* owners = nullptr;
    near_timer* delivering = nullptr;  // its handler runs; nullptr once it is destroyed
    window* near = nullptr;
    deliveries* deliverer = nullptr;
    end_sender* ends = nullptr;
    planner* plans = nullptr;
    limits* limiter = nullptr;
};

struct engine_parts {
    engine_parts(timer_wheel& w, wheel_clock c, store& from, engine::handler h, options o);
    engine_parts(const engine_parts&) = delete;
    engine_parts& operator=(const engine_parts&) = delete;
    ~engine_parts() { all.shards.clear(); }  // near timers leave the queues of the deliverer

    engine_state all;
    ownership owners{all};
    window near{all};
    deliveries deliverer;
    end_sender ends{all};
    planner plans{all};
    limits limiter{all};
};

}  // namespace tvec::durable::detail
