// Timers that write down when they fire.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tvec/core/timer_wheel.hpp"

namespace support {

using tvec::jiffies;

// Records the tick of each fire, then does what the test has asked for.
struct probe {
    probe() = default;
    explicit probe(std::function<void(tvec::timer_wheel&)> action) : then(std::move(action)) {}

    void on_fire(tvec::timer_wheel& wheel) {
        ticks.push_back(wheel.now());
        if (then) then(wheel);
    }

    std::size_t fired() const { return ticks.size(); }
    bool fired_only_at(jiffies tick) const { return ticks == std::vector<jiffies>{tick}; }

    std::vector<jiffies> ticks;
    std::function<void(tvec::timer_wheel&)> then;
    tvec::timer t{tvec::call<&probe::t, &probe::on_fire>};
};

// Many of them, at addresses that do not change.
inline std::vector<std::unique_ptr<probe>> probes(std::size_t n) {
    std::vector<std::unique_ptr<probe>> all(n);
    for (auto& p : all) p = std::make_unique<probe>();
    return all;
}

inline std::size_t count_fired(const std::vector<std::unique_ptr<probe>>& all) {
    std::size_t fired = 0;
    for (const auto& p : all) fired += p->fired();
    return fired;
}

// Timers of one tick, and the order in which they fire.
struct row {
    row(tvec::timer_wheel& wheel, std::size_t n, jiffies at) : all(probes(n)) {
        for (std::size_t i = 0; i < n; ++i) {
            all[i]->then = [this, i](tvec::timer_wheel&) { order.push_back(i); };
            wheel.arm_at(all[i]->t, at);
        }
    }
    std::vector<std::unique_ptr<probe>> all;
    std::vector<std::size_t> order;
};

inline std::uint64_t visits(const tvec::timer_wheel& wheel) {
    return wheel.count().fired + wheel.count().moved + wheel.count().dropped;
}

// Returns the most visits of a lone timer armed so far ahead: one for each level that it sinks
// through, and one where it fires. Beyond the levels there is one more for each halving of the laps
// left.
inline std::uint64_t most_visits(jiffies delay) {
    namespace geometry = tvec::detail::geometry;
    const unsigned level = geometry::level_of(delay);
    if (level < geometry::overflow) return 1 + level;
    return 1 + level + geometry::log2_of(delay >> geometry::shift_of(geometry::overflow));
}

}  // namespace support
