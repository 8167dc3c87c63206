#pragma once

#include <cstdint>

#include "../workloads/test_bed.hpp"
#include "classic_wheel.hpp"

namespace bench {

struct classic_adapter {
    static constexpr const char* name = "classic";
    static constexpr description is{.what =
                                        "the kernel's wheel until Linux 4.7: lists that cascade",
                                    .order = "oldest first; a cascade appends",
                                    .allocation = "none",
                                    .cancel = "unlinks"};

    struct node {
        static void fire(classic_timer& t) {
            seen.note(reinterpret_cast<node&>(t), running->now());
        }
        classic_timer t{fire};
    };

    std::uint64_t now() const { return wheel.now(); }
    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) { wheel.arm_at(n.t, at); }
    [[gnu::always_inline]] void cancel(node& n) { wheel.cancel(n.t); }
    [[gnu::always_inline]] void advance(std::uint64_t until) { wheel.advance(until); }
    [[gnu::always_inline]] std::uint64_t next_wakeup() { return wheel.next_expiry(); }

    classic_adapter() { running = &wheel; }
    classic_wheel wheel{start + 1};
    static inline classic_wheel* running = nullptr;  // the kernel's callbacks read a global clock
};

}  // namespace bench
