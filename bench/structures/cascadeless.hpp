// The timer wheel of Linux since 4.8, written anew after its algorithm: levels of 64 slots, each
// eight times as coarse as the one below. A timer stays in the slot that it was armed into, and its
// deadline is rounded up to the width of that slot. A bitmap of slots finds the next one.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "../workloads/test_bed.hpp"

namespace bench {

struct cascadeless_adapter {
    static constexpr const char* name = "cascadeless";
    static constexpr description is{
        .what = "the kernel's wheel since Linux 4.8: levels of coarser slots, no cascade",
        .order = "newest first within a slot",
        .allocation = "none",
        .cancel = "unlinks"};

    struct node {
        node* next = nullptr;
        node** back = nullptr;  // null: not pending
        void (*fire)(node&, std::uint64_t now) = note;
        unsigned slot = 0;
    };

    std::uint64_t now() const { return clock_ - 1; }

    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) {
        const place p = place_of(at);
        if (n.back != nullptr) {
            if (n.slot == p.slot) return;
            unlink(n);
        }
        link(n, p);
    }

    [[gnu::always_inline]] void cancel(node& n) {
        if (n.back != nullptr) unlink(n);
    }

    [[gnu::always_inline]] void advance(std::uint64_t until) {
        while (next_visit() <= until) visit(next_);
        clock_ = until + 1;
    }

    [[gnu::always_inline]] std::uint64_t next_wakeup() { return next_visit(); }

    // The lateness of a timer that is armed for `delay` ticks from now is at most this.
    static constexpr std::uint64_t most_late(std::uint64_t delay) {
        return width(level_of(delay - 1)) - 1;
    }

private:
    static constexpr unsigned slots = 64, levels = 10;  // a level more than the kernel has

    static void note(node& n, std::uint64_t now) { seen.note(n, now); }

    static constexpr std::uint64_t width(unsigned level) { return std::uint64_t{1} << 3 * level; }

    // A level reaches 63 of its slots far: of the 64th a part may be over.
    [[gnu::always_inline]] static constexpr unsigned level_of(std::uint64_t delta) {
        unsigned level = 0;
        while (level + 1 < levels && delta >= (slots - 1) * width(level)) ++level;
        return level;
    }

    struct place {
        unsigned slot;
        std::uint64_t visit;
    };
    [[gnu::always_inline]] place place_of(std::uint64_t at) const {
        const std::uint64_t expires = at < clock_ ? clock_ : at;
        const unsigned level = level_of(expires - clock_);
        const std::uint64_t rounded = (expires + width(level) - 1) >> 3 * level;
        return {level * slots + static_cast<unsigned>(rounded % slots), rounded << 3 * level};
    }

    [[gnu::always_inline]] void link(node& n, const place& p) {
        node*& head = heads_[p.slot];
        n.slot = p.slot;
        n.next = head;
        n.back = &head;
        if (head != nullptr) head->back = &n.next;
        head = &n;
        occupied_[p.slot / slots] |= std::uint64_t{1} << p.slot % slots;
        next_ = std::min(next_, p.visit);
    }

    [[gnu::always_inline]] void unlink(node& n) {
        if (n.next != nullptr) n.next->back = n.back;
        *n.back = n.next;
        n.back = nullptr;
        if (heads_[n.slot] != nullptr) return;
        occupied_[n.slot / slots] &= ~(std::uint64_t{1} << n.slot % slots);
        is_stale_ = true;
    }

    [[gnu::noinline]] void visit(std::uint64_t tick) {
        clock_ = tick + 1;
        is_stale_ = true;
        for (unsigned l = 0; l < levels && tick % width(l) == 0; ++l) run(l, tick);
    }

    void run(unsigned level, std::uint64_t tick) {
        const unsigned slot = level * slots + static_cast<unsigned>((tick >> 3 * level) % slots);
        node* work = heads_[slot];
        if (work == nullptr) return;
        heads_[slot] = nullptr;
        occupied_[level] &= ~(std::uint64_t{1} << slot % slots);
        work->back = &work;
        while (work != nullptr) {
            node& n = *work;
            work = n.next;
            if (work != nullptr) work->back = &work;
            n.back = nullptr;
            n.fire(n, tick);
        }
    }

    // The tick at which the first occupied slot of a level is visited.
    std::uint64_t visit_of(unsigned level) const {
        const std::uint64_t first = (clock_ + width(level) - 1) >> 3 * level;
        const std::uint64_t ahead = std::rotr(occupied_[level], static_cast<int>(first % slots));
        if (ahead == 0) return ~std::uint64_t{0};
        return (first + static_cast<unsigned>(std::countr_zero(ahead))) << 3 * level;
    }

    [[gnu::always_inline]] std::uint64_t next_visit() {
        if (is_stale_) find_next();
        return next_;
    }
    [[gnu::noinline]] void find_next() {
        is_stale_ = false;
        next_ = ~std::uint64_t{0};
        for (unsigned l = 0; l < levels; ++l) next_ = std::min(next_, visit_of(l));
    }

    std::uint64_t clock_ = start + 1;  // the next tick to be run
    std::uint64_t next_ = ~std::uint64_t{0};
    bool is_stale_ = false;  // next_ has to be looked for again
    std::array<std::uint64_t, levels> occupied_{};
    std::array<node*, levels * slots> heads_{};
};

}  // namespace bench
