// An array of deadlines that is looked through in each call, as the loop of a game does it. Each
// object has one place in the array. Blocks without a due timer are passed by the vector unit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../workloads/test_bed.hpp"

namespace bench {

struct array_scan_adapter {
    static constexpr const char* name = "array_scan";
    static constexpr description is{.what = "an array of 32-bit deadlines; each call looks at all",
                                    .order = "by place in the array, over all ticks of the call",
                                    .allocation = "two arrays",
                                    .cancel = "a store into the array"};

    struct node {
        std::size_t place = nowhere;
        void (*fire)(node&, std::uint64_t now) = note;
    };

    std::uint64_t now() const { return now_; }

    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) {
        const auto deadline = static_cast<ticks>(at - start);
        if (n.place == nowhere)
            enter(n, deadline);
        else
            deadlines_[n.place] = deadline;
    }
    [[gnu::always_inline]] void cancel(node& n) {
        if (n.place != nowhere) deadlines_[n.place] = idle;
    }

    void adopt(node&) {}
    void release(node& n) {
        if (n.place == nowhere) return;
        owners_[n.place] = owners_.back();
        owners_[n.place]->place = n.place;
        deadlines_[n.place] = deadlines_.back();
        owners_.pop_back();
        deadlines_.pop_back();
        n.place = nowhere;
    }

    [[gnu::always_inline]] void advance(std::uint64_t until) {
        now_ = until;
        scan(static_cast<ticks>(until - start));
    }

    // A fifth of a nanosecond for each deadline.
    static constexpr double expected_seconds(double timers, const effort& e) {
        return 0.2e-9 * e.calls * timers;
    }

private:
    using ticks = std::uint32_t;  // since the start

    static constexpr ticks idle = ~ticks{0};
    static constexpr std::size_t nowhere = ~std::size_t{0};
    static constexpr std::size_t block = 64;

    static void note(node& n, std::uint64_t now) { seen.note(n, now); }

    [[gnu::noinline]] void scan(ticks now) {
        const std::size_t all = deadlines_.size();
        std::size_t i = 0;
        for (; i + block <= all; i += block)
            if (any_due(&deadlines_[i], now)) fire_due(i, i + block, now);
        fire_due(i, all, now);
    }

    static bool any_due(const ticks* deadlines, ticks now) {
        unsigned due = 0;
        for (std::size_t i = 0; i < block; ++i) due |= deadlines[i] <= now;
        return due != 0;
    }

    [[gnu::noinline]] void enter(node& n, ticks deadline) {
        n.place = owners_.size();
        owners_.push_back(&n);
        deadlines_.push_back(deadline);
    }

    // Callbacks may arm and cancel any timer.
    void fire_due(std::size_t i, std::size_t end, ticks now) {
        for (; i < end; ++i) {
            const ticks deadline = deadlines_[i];
            if (deadline > now) continue;
            deadlines_[i] = idle;
            node& n = *owners_[i];
            n.fire(n, start + deadline);
        }
    }

    std::uint64_t now_ = start;
    std::vector<ticks> deadlines_;
    std::vector<node*> owners_;
};

}  // namespace bench
