// The same interface over each structure. An adapter charges nobody for what it does not have.
#pragma once

#include <cstdint>
#include <memory>

#include "classic.hpp"
#include "tvec/timer_wheel.hpp"

namespace bench {

// What a run has seen: all structures must see the same.
struct tally {
    std::uint64_t fired = 0;
    std::uint64_t checksum = 0;
    std::uint64_t off_time = 0;

    void note(std::uint64_t expires, std::uint64_t now) {
        ++fired;
        checksum += expires * 0x9e3779b97f4a7c15;
        off_time += expires != now;
    }
    friend bool operator==(const tally&, const tally&) = default;
};

inline tally seen;

constexpr std::uint64_t start = 12'345;

struct tvec_adapter {
    static constexpr const char* name = "tvec";

    struct node {
        static void fire(tvec::timer_wheel& wheel, tvec::timer& t) {
            seen.note(t.expires(), wheel.now());
        }
        tvec::timer t{fire};
    };

    std::uint64_t now() const { return wheel.now(); }
    void arm(node& n, std::uint64_t at) { wheel.arm_at(n.t, at); }
    void cancel(node& n) { n.t.cancel(); }
    void advance(std::uint64_t until) { wheel.advance(until); }
    std::uint64_t next_wakeup() { return wheel.next_wakeup().value_or(0); }

    tvec::timer_wheel wheel{start};
};

struct classic_adapter {
    static constexpr const char* name = "classic";

    struct node {
        static void fire(classic_timer& t) { seen.note(t.expires(), running->now()); }
        classic_timer t{fire};
    };

    classic_adapter() { running = &wheel; }
    std::uint64_t now() const { return wheel.now(); }
    void arm(node& n, std::uint64_t at) { wheel.arm_at(n.t, at); }
    void cancel(node& n) { wheel.cancel(n.t); }
    void advance(std::uint64_t until) { wheel.advance(until); }
    std::uint64_t next_wakeup() { return wheel.next_expiry(); }

    classic_wheel wheel{start + 1};
    static inline classic_wheel* running = nullptr;  // the kernel's callbacks read a global clock
};

}  // namespace bench
