// Single operations on a tvec wheel, ready to be repeated: `instructions` counts them. Constructing
// an exercise with a number of timers sets it up. It then runs for any number of them up to all.
// The timers are visited in the same random order each time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "plan.hpp"
#include "tvec/core/timer_wheel.hpp"

namespace bench {

class exercise {
public:
    explicit exercise(const plan& p)
        : order_(p.order), other_order_(p.other_order), delays_(p.delays), timers_(p.size()) {}

    // Each works on the first `n` timers of an order, after its setup.
    struct named {
        std::string_view name;
        void (exercise::*prepare)();
        void (exercise::*run)(std::size_t n);
    };
    static const std::array<named, 8> all;

private:
    void nothing() {}

    void arm_all() { arm(timers_.size()); }
    void arm(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) wheel_.arm_at(timers_[order_[i]], delays_[i]);
    }

    void arm_and_cancel_all() {
        arm_all();
        cancel(timers_.size());
    }
    void cancel(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) timers_[other_order_[i]].cancel();
    }

    void push_back(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i)
            wheel_.arm_at(timers_[other_order_[i]], plan::longest + 1);
    }

    void rearm(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) wheel_.arm_at(timers_[other_order_[i]], delays_[i]);
    }

    void arm_one_per_tick() {
        for (std::size_t i = 0; i < timers_.size(); ++i) wheel_.arm_at(timers_[order_[i]], i + 1);
    }
    void arm_all_far_away() {
        for (tvec::timer& t : timers_) wheel_.arm_at(t, 10'000'000);
    }
    void tick(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) wheel_.advance(wheel_.now() + 1);
    }

    void ask(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            auto wakeup = wheel_.next_wakeup();
            asm volatile("" : : "g"(&wakeup) : "memory");
        }
    }

    const std::vector<std::uint32_t>& order_;
    const std::vector<std::uint32_t>& other_order_;
    const std::vector<std::uint32_t>& delays_;
    std::vector<tvec::timer> timers_;
    tvec::timer_wheel wheel_;
};

// `expire` has one timer on each tick: it includes the tick and the timer's cascades.
inline constexpr std::array<exercise::named, 8> exercise::all{{
    {"arm", &exercise::nothing, &exercise::arm},
    {"arm-cancelled", &exercise::arm_and_cancel_all, &exercise::push_back},
    {"cancel", &exercise::arm_all, &exercise::cancel},
    {"push-back", &exercise::arm_all, &exercise::push_back},
    {"re-arm", &exercise::arm_all, &exercise::rearm},
    {"expire", &exercise::arm_one_per_tick, &exercise::tick},
    {"idle-tick", &exercise::arm_all_far_away, &exercise::tick},
    {"next-wakeup", &exercise::arm_all, &exercise::ask},
}};

}  // namespace bench
