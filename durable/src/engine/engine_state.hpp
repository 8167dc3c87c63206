// The state that all parts of the engine share. It knows none of them.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"
#include "shard.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/durable/detail/wheel_clock.hpp"
#include "tvec/durable/metrics.hpp"

namespace tvec::durable::detail {

// A part has references to this state and to parts below it. It informs parts above by the values
// that it returns, and by events. scripts/checks/include-arrows has the order of the parts.
struct engine_state {
    engine_state(events& to, timer_wheel& w, wheel_clock c, store& from, options o)
        : up(to), wheel(w), clock(std::move(c)), storage(from), settings(checked(std::move(o))) {
        assert(from.traits().shards > 0 && "a store has at least one shard");
        for (unsigned n = 0; n < from.traits().shards; ++n)
            shards.push_back(std::make_unique<shard>(up, load, n));
    }
    engine_state(const engine_state&) = delete;
    engine_state& operator=(const engine_state&) = delete;

    // Arms `t` to fire after `delay`, or at the next tick if that has passed.
    void arm(timer& t, std::chrono::microseconds delay) {
        wheel.arm_at(t, clock.tick_after(std::max(delay, std::chrono::microseconds::zero())));
    }
    shard& shard_of(const std::string& id) {
        const unsigned n = storage.shard_of(id);
        assert(n < shards.size() && "the shard of an id is one of the store");
        return *shards[n];
    }
    // Returns how many timers the window holds of a shard.
    std::size_t window_share() const noexcept {
        return std::max<std::size_t>(settings.window / shards.size(), 2);
    }
    time_point now() const {
        const auto t = std::chrono::floor<duration>(storage.now());
        latest = std::max(latest, t);
        return t;
    }

    // Wraps a function, which becomes a no-op once the engine is destroyed.
    template <class F> auto guarded(F f) {
        return [alive = std::weak_ptr<const char>(alive), f = std::move(f)](auto&&... a) mutable {
            if (!alive.expired()) f(std::forward<decltype(a)>(a)...);
        };
    }

    // Wraps a function that takes what the owner of a shard has asked for. Drops an answer that
    // comes after the shard was lost, and answers to one who is not the owner any more.
    template <class F> auto of_owner(shard& s, F f) {
        return guarded([this, &s, resets = s.resets, f = std::move(f)](standing how, auto&& got) {
            if (resets != s.resets) return;
            if (how == standing::fenced) return up.on_fenced(s);
            f(how, got);
        });
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

    events& up;
    timer_wheel& wheel;
    const wheel_clock clock;
    store& storage;
    const options settings;
    counters count{};
    near_load load{};
    std::vector<std::unique_ptr<shard>> shards{};
    bool is_stopping = false;
    mutable time_point latest{};  // that a part has seen since the window has looked at the clock
    std::shared_ptr<const char> alive = std::make_shared<const char>('x');
};

}  // namespace tvec::durable::detail
