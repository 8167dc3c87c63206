// The plan: the operations on each object, drawn once, the same for every structure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace bench {

// Orders that arrive evenly over time, each with the same timeout. Nearly all are filled, and their
// timers cancelled, long before that; one in 256 is not.
class order_book {
public:
    static constexpr std::uint32_t arrivals = 6'000;  // ticks
    static constexpr std::uint32_t longest_life = 1'000;
    static constexpr std::uint32_t ticks = arrivals + longest_life;
    static constexpr std::uint32_t timeout = 5'000;

    explicit order_book(const std::vector<std::uint32_t>& order) : order_(order), ends_(ticks + 1) {
        std::mt19937_64 random(order.size() + 1);
        std::vector<std::uint32_t> when(order.size());
        for (std::size_t i = 0; i < when.size(); ++i) {
            when[i] = arrival(i) + 1 + static_cast<std::uint32_t>(random() % longest_life);
            if (random() % 256 == 0) when[i] = never_filled;
        }
        sort_by_tick(when);
    }

    std::span<const std::uint32_t> arriving(std::uint32_t tick) const {
        const std::size_t first = tick < arrivals ? first_of(tick) : order_.size();
        const std::size_t last = tick < arrivals ? first_of(tick + 1) : order_.size();
        return std::span(order_).subspan(first, last - first);
    }
    std::span<const std::uint32_t> filled(std::uint32_t tick) const {
        return std::span(fills_).subspan(ends_[tick], ends_[tick + 1] - ends_[tick]);
    }

private:
    static constexpr std::uint32_t never_filled = ~0u;

    std::size_t first_of(std::uint32_t tick) const { return tick * order_.size() / arrivals; }
    std::uint32_t arrival(std::size_t i) const {
        return static_cast<std::uint32_t>(((i + 1) * arrivals - 1) / order_.size());
    }

    void sort_by_tick(const std::vector<std::uint32_t>& when) {
        std::vector<std::uint32_t> by_tick;
        for (std::uint32_t i = 0; i < when.size(); ++i)
            if (when[i] < ticks) by_tick.push_back(i);
        std::stable_sort(by_tick.begin(), by_tick.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return when[a] < when[b]; });
        for (const std::uint32_t i : by_tick) {
            fills_.push_back(order_[i]);
            ++ends_[when[i] + 1];
        }
        std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    }

    const std::vector<std::uint32_t>& order_;
    std::vector<std::uint32_t> fills_;  // objects, in order of time
    std::vector<std::size_t> ends_;     // where in fills_ the tick before ends
};

class plan {
public:
    explicit plan(std::size_t n) : plan(n, std::mt19937_64(n)) {}
    plan(const plan&) = delete;
    plan& operator=(const plan&) = delete;

    std::size_t size() const { return order.size(); }

    static constexpr std::uint32_t longest = 60'000;  // a keepalive's timeout, too
    static constexpr std::uint32_t request = 5'000;   // the timeout of a request

    const std::vector<std::uint32_t> order;        // of arming
    const std::vector<std::uint32_t> other_order;  // of what is done to the armed ones
    const std::vector<std::uint32_t> delays;       // by place in the order
    const std::vector<std::uint32_t> due;          // the ticks on which there is something to fire
    const order_book orders;

private:
    using generator = std::mt19937_64;
    using numbers = std::vector<std::uint32_t>;

    plan(std::size_t n, generator random)
        : order(shuffled(n, random)), other_order(shuffled(n, random)), delays(drawn(n, random)),
          due(distinct(delays)), orders(order) {}

    static numbers shuffled(std::size_t n, generator& random) {
        numbers all(n);
        std::iota(all.begin(), all.end(), 0u);
        std::shuffle(all.begin(), all.end(), random);
        return all;
    }
    static numbers drawn(std::size_t n, generator& random) {
        numbers all(n);
        for (std::uint32_t& d : all) d = 1 + static_cast<std::uint32_t>(random() % longest);
        return all;
    }
    static numbers distinct(numbers all) {
        std::sort(all.begin(), all.end());
        all.erase(std::unique(all.begin(), all.end()), all.end());
        return all;
    }
};

}  // namespace bench
