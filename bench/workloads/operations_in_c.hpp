// The operations of exercises.hpp that the C interface has inline, or nearly so, written in C
// (in_c.c). They cost the same as in C++, within a twentieth.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "../programs/in_c.h"
#include "plan.hpp"

namespace bench {

class exercise_in_c {
public:
    explicit exercise_in_c(const plan& p)
        : order_(p.order), other_order_(p.other_order), delays_(p.delays),
          timers_(p.size(), TVEC_TIMER_INIT(do_nothing)) {
        tvec_wheel_init(&wheel_, 0);
    }

    struct named {
        std::string_view name;
        void (exercise_in_c::*prepare)();
        void (exercise_in_c::*run)(std::size_t n);
    };
    static const std::array<named, 3> all;

private:
    static void do_nothing(tvec_wheel*, tvec_timer*) {}
    void nothing() {}

    void arm_all() { arm(timers_.size()); }
    void arm(std::size_t n) { c_arm(&wheel_, timers_.data(), order_.data(), delays_.data(), n); }
    void arm_later(std::size_t n) {
        c_arm_later(&wheel_, timers_.data(), other_order_.data(), plan::longest + 1, n);
    }
    void cancel(std::size_t n) { c_cancel(timers_.data(), other_order_.data(), n); }

    const std::vector<std::uint32_t>& order_;
    const std::vector<std::uint32_t>& other_order_;
    const std::vector<std::uint32_t>& delays_;
    std::vector<tvec_timer> timers_;
    tvec_wheel wheel_;
};

inline constexpr std::array<exercise_in_c::named, 3> exercise_in_c::all{{
    {"c-arm", &exercise_in_c::nothing, &exercise_in_c::arm},
    {"c-arm-later", &exercise_in_c::arm_all, &exercise_in_c::arm_later},
    {"c-cancel", &exercise_in_c::arm_all, &exercise_in_c::cancel},
}};

}  // namespace bench
