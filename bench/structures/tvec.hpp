#pragma once

#include <cstdint>

#include "../workloads/test_bed.hpp"
#include "tvec/core/timer_wheel.hpp"

namespace bench {

struct tvec_adapter {
    static constexpr const char* name = "tvec";
    static constexpr description is{.what = "tvec's `timer_wheel`, without a clock",
                                    .order = "of the calls, not of arming",
                                    .allocation = "none",
                                    .cancel = "a store; unlinked at its visit"};

    struct node {
        static void fire(tvec::timer_wheel& wheel, tvec::timer& t) {
            seen.note(reinterpret_cast<node&>(t), wheel.now());
        }
        tvec::timer t{fire};
    };

    std::uint64_t now() const { return wheel.now(); }
    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) { wheel.arm_at(n.t, at); }
    [[gnu::always_inline]] void cancel(node& n) { n.t.cancel(); }
    [[gnu::always_inline]] void advance(std::uint64_t until) { wheel.advance(until); }
    [[gnu::always_inline]] std::uint64_t next_wakeup() {
        return wheel.next_wakeup().value_or(tvec::never);
    }

    tvec::timer_wheel wheel{start};
};

}  // namespace bench
