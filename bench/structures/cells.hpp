// What one may trade: two rings, of 512 slots of a tick and 256 slots of 256 ticks. A slot is a
// stack of cache lines from a pool, with the addresses of seven timers each, so that arming writes
// to no other timer and a visit fetches seven at a time. Pushing back and cancelling are a store. A
// slot of the upper ring is moved down at once when its lap begins: a cascade.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "../workloads/test_bed.hpp"

namespace bench {

class cells {
public:
    struct node {
        std::uint64_t deadline = 0;
        node** cell = nullptr;  // null: in no slot
        void (*fire)(node&, std::uint64_t now) = note;
    };

    std::uint64_t now() const { return now_; }

    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) {
        if (at <= now_) at = now_ + 1;
        const bool stays = n.cell != nullptr && at >= (n.deadline & ~idle);
        if (!stays) release(n);
        n.deadline = at;
        if (!stays) place(n);
    }
    [[gnu::always_inline]] void cancel(node& n) { n.deadline |= idle; }

    void adopt(node&) {}
    [[gnu::always_inline]] void release(node& n) {
        if (n.cell != nullptr) *n.cell = nullptr;
        n.cell = nullptr;
    }

    [[gnu::always_inline]] void advance(std::uint64_t until) {
        for (; next_ <= until; next_ = find_next()) {
            now_ = next_;
            if (now_ % width == 0) visit(root + now_ / width % upper);
            visit(now_ % root);
        }
        now_ = until;
    }

    [[gnu::always_inline]] std::uint64_t next_wakeup() const { return next_; }

private:
    static constexpr std::uint64_t idle = std::uint64_t{1} << 63, never = ~std::uint64_t{0};
    static constexpr std::uint64_t root = 512, upper = 256, width = 256;
    static constexpr std::size_t per_line = 7;

    struct alignas(64) line {
        line* below;
        std::array<node*, per_line> timers;
    };
    struct stack {
        line* top = nullptr;
        std::size_t free = 0;  // cells of the top line
    };

    static void note(node& n, std::uint64_t now) { seen.note(n, now); }

    // A deadline beyond the rings goes to the last slot, and on from there.
    void place(node& n) {
        const std::uint64_t laps = n.deadline / width - now_ / width;
        const std::uint64_t slot =
            n.deadline - now_ < root
                ? n.deadline % root
                : root + (now_ / width + (laps < upper ? laps : upper - 1)) % upper;
        stack& s = slots_[slot];
        if (s.free == 0) [[unlikely]]
            add_line(slot);
        n.cell = &s.top->timers[--s.free];
        *n.cell = &n;
    }

    void add_line(std::uint64_t slot) {
        stack& s = slots_[slot];
        if (s.top == nullptr) {
            occupied_[slot / 64] |= std::uint64_t{1} << slot % 64;
            const std::uint64_t entry =
                slot < root ? now_ + (slot - now_) % root
                            : (now_ / width + (slot - now_ / width) % upper) * width;
            if (entry < next_) next_ = entry;
        }
        if (pool_ == nullptr) grow();
        line* const l = pool_;
        pool_ = l->below;
        l->below = s.top;
        s = {l, per_line};
    }
    void grow() {
        constexpr std::size_t many = 2'048;
        slabs_.push_back(std::make_unique<line[]>(many));
        for (std::size_t i = many; i-- > 0; pool_ = &slabs_.back()[i])
            slabs_.back()[i].below = pool_;
    }

    // Nothing is placed in the slot that is visited. Callbacks may arm, cancel and release.
    void visit(std::uint64_t slot) {
        stack s = slots_[slot];
        if (s.top == nullptr) return;
        for (line* l = s.top; l != nullptr; s.free = 0) {
            fetch(l->below);
            for (std::size_t i = s.free; i < per_line; ++i) {
                node* const n = l->timers[i];
                if (n == nullptr) continue;
                n->cell = nullptr;
                handle(*n);
            }
            line* const below = l->below;
            l->below = pool_;
            pool_ = l;
            l = below;
        }
        slots_[slot] = {};
        occupied_[slot / 64] &= ~(std::uint64_t{1} << slot % 64);
    }
    static void fetch(const line* l) {
        if (l == nullptr) return;
        __builtin_prefetch(l->below, 1);
        for (const node* n : l->timers) __builtin_prefetch(n, 1);
    }
    void handle(node& n) {
        if (n.deadline <= now_)
            n.fire(n, now_);
        else if ((n.deadline & idle) == 0)
            place(n);
    }

    // Distance from `i` to the first occupied slot of a ring.
    template <std::uint64_t First, std::uint64_t Ring> std::uint64_t ahead(std::uint64_t i) const {
        for (std::uint64_t k = 0; k <= Ring; k += 64 - (i + k) % 64) {
            const std::uint64_t at = (i + k) % Ring;
            if (const std::uint64_t w = occupied_[(First + at) / 64] >> at % 64)
                return k + static_cast<std::uint64_t>(std::countr_zero(w));
        }
        return never;
    }
    std::uint64_t find_next() const {
        const std::uint64_t r = ahead<0, root>((now_ + 1) % root);
        const std::uint64_t u = ahead<root, upper>((now_ / width + 1) % upper);
        const std::uint64_t by_root = r < root ? now_ + 1 + r : never;
        const std::uint64_t by_upper = u < upper ? (now_ / width + 1 + u) * width : never;
        return by_root < by_upper ? by_root : by_upper;
    }

    std::uint64_t now_ = start, next_ = never;
    line* pool_ = nullptr;
    std::vector<std::unique_ptr<line[]>> slabs_;
    std::array<std::uint64_t, (root + upper) / 64> occupied_{};
    std::array<stack, root + upper> slots_{};
};

struct cells_adapter : cells {
    static constexpr const char* name = "cells";
    static constexpr description is{
        .what = "two rings, of 512 and 256 x 256 ticks; a slot is a stack of lines of addresses",
        .order = "newest first, those of a lap before apart",
        .allocation = "a pool of lines",
        .cancel = "a store; the entry stays until its visit"};
};

}  // namespace bench
