// Push-backs on a wheel with a clock, ready to be repeated like those of exercises.hpp. They
// measure the cost of a clock reading, of one reading for many push-backs, of timeouts that scale,
// and of real clocks beside the bare wheel.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "plan.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/clock/scaled_wheel.hpp"
#include "tvec/clock/tsc_clock.hpp"
#include "tvec/clock/turn_clock.hpp"

namespace bench {

class clocked_exercise {
public:
    explicit clocked_exercise(const plan& p) : order_(p.other_order), timers_(p.size()) {}

    struct named {
        std::string_view name;
        void (clocked_exercise::*prepare)();
        void (clocked_exercise::*run)(std::size_t n);
    };
    static const std::array<named, 7> all;

private:
    static constexpr std::chrono::milliseconds timeout{plan::longest};
    static constexpr std::size_t batch = 32;  // one loop turn's events

    void arm_all() {
        for (tvec::timer& t : timers_) wheel_.arm_after(t, timeout);
    }

    void read_the_clock(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            auto now = decltype(wheel_)::clock::now();
            asm volatile("" : : "g"(&now) : "memory");
        }
    }

    void push_back_from_now(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) wheel_.arm_after(timers_[order_[i]], timeout);
    }

    void push_back_in_batches(std::size_t n) {
        for (std::size_t i = 0; i < n;) {
            const auto deadline = wheel_.after(timeout);
            for (const std::size_t end = std::min(i + batch, n); i < end; ++i)
                wheel_.arm_at(timers_[order_[i]], deadline);
        }
    }

    void push_back_each(std::size_t n) {
        std::array<tvec::timer*, batch> some{};
        for (std::size_t i = 0; i < n;) {
            const std::size_t size = std::min(batch, n - i);
            for (std::size_t k = 0; k < size; ++k) some[k] = &timers_[order_[i++]];
            wheel_.arm_each_at(std::span(some).first(size), wheel_.after(timeout));
        }
    }

    void push_back_by_ticks(std::size_t n) {
        const tvec::jiffies tick = wheel_.ticks().ceil(wheel_.after(timeout));
        for (std::size_t i = 0; i < n; ++i) wheel_.wheel().arm_at(timers_[order_[i]], tick);
    }

    void arm_scaled() {
        for (tvec::timer& t : timers_) scaled_.arm_after(t, timeout / 2);
    }

    void push_back_scaled(std::size_t n) {
        for (std::size_t i = 0; i < n;) {
            const auto earliest = wheel_.after(timeout / 2);
            for (const std::size_t end = std::min(i + batch, n); i < end; ++i)
                scaled_.arm_at(timers_[order_[i]], earliest);
        }
    }

    void set_factors(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) scaled_.set_factor(i % 2 == 0 ? 0.9 : 0.8);
    }

    const std::vector<std::uint32_t>& order_;
    std::vector<tvec::timer> timers_;
    tvec::clocked_wheel<> wheel_;
    tvec::scaled_wheel<tvec::clocked_wheel<>> scaled_{wheel_, timeout / 2};
};

inline constexpr std::array<clocked_exercise::named, 7> clocked_exercise::all{{
    {"clock", &clocked_exercise::arm_all, &clocked_exercise::read_the_clock},
    {"arm_after", &clocked_exercise::arm_all, &clocked_exercise::push_back_from_now},
    {"batches of 32", &clocked_exercise::arm_all, &clocked_exercise::push_back_in_batches},
    {"each of 32", &clocked_exercise::arm_all, &clocked_exercise::push_back_each},
    {"in ticks", &clocked_exercise::arm_all, &clocked_exercise::push_back_by_ticks},
    {"scaled of 32", &clocked_exercise::arm_scaled, &clocked_exercise::push_back_scaled},
    {"set_factor", &clocked_exercise::arm_scaled, &clocked_exercise::set_factors},
}};

// What a turn of a loop costs on a real clock, with a tick of a microsecond.
template <class Clock> class turn_exercise {
public:
    explicit turn_exercise(const plan& p) : order_(p.other_order), timers_(p.size()) {
        wheel_.begin_turn();
        arm_all();
    }

    void unlink_all() {
        wheel_.wheel().drain([](tvec::timer&) {});
    }
    void arm_all() {
        for (const std::uint32_t i : order_) wheel_.arm_after(timers_[i], delay);
    }
    void run_with_nothing_due() {
        for (std::size_t i = 0; i < timers_.size(); ++i) wheel_.run();
    }

private:
    static constexpr std::chrono::seconds delay{60};

    const std::vector<std::uint32_t>& order_;
    std::vector<tvec::timer> timers_;
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::microseconds, Clock>> wheel_;
};

// The bare wheel, whose ticks the caller knows.
template <> class turn_exercise<void> {
public:
    explicit turn_exercise(const plan& p) : order_(p.other_order), timers_(p.size()) { arm_all(); }

    void unlink_all() {
        wheel_.drain([](tvec::timer&) {});
    }
    void arm_all() {
        for (const std::uint32_t i : order_) wheel_.arm_after(timers_[i], delay);
    }
    void run_with_nothing_due() {
        for (std::size_t i = 0; i < timers_.size(); ++i) wheel_.advance(wheel_.now() + 1);
    }

private:
    static constexpr tvec::jiffies delay = 60'000'000;

    const std::vector<std::uint32_t>& order_;
    std::vector<tvec::timer> timers_;
    tvec::timer_wheel wheel_;
};

}  // namespace bench
