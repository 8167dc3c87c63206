// The timer wheel of Erlang/OTP, written anew after the comment in its erts/emulator/beam/time.c.
// A wheel for what is due soon has 2^14 slots of a tick. A wheel for later has as many slots of
// 2^13 ticks. A slot of the later wheel is emptied 2^13 to 2^14 ticks
// ahead. A call yields when it has moved 2000 timers, and the next one goes on. Only what is due
// is not put off. OTP keeps timers beyond a revolution of the later wheel in a tree: not modelled.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>

#include "../workloads/test_bed.hpp"

namespace bench {

struct soon_later_adapter {
    static constexpr const char* name = "soon_later";
    static constexpr description is{
        .what = "Erlang/OTP's two wheels: the later one is emptied 8 to 16 s ahead, and yields",
        .order = "oldest first; a move appends",
        .allocation = "none",
        .cancel = "unlinks"};

    struct node {
        node* next = nullptr;  // null: not pending
        node* previous = nullptr;
        std::uint64_t expires = 0;
        void (*fire)(node&, std::uint64_t now) = note;
        std::uint32_t slot = 0;
    };

    std::uint64_t now() const { return now_; }

    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) {
        cancel(n);
        n.expires = std::max(at, now_ + 1);
        assert(n.expires - now_ < std::uint64_t{slots - 1} * width);
        insert(n);
    }
    [[gnu::always_inline]] void cancel(node& n) {
        if (n.next == nullptr) return;
        if (wakeup_of(n) == next_) next_ = unknown;
        remove(n);
    }

    [[gnu::always_inline]] void advance(std::uint64_t until) {
        std::uint64_t budget = 2'000;
        while (now_ < until) {
            const bool has_yielded = !empty_ahead(budget);
            if (has_yielded && now_ + 1 == later_) {
                budget = ~std::uint64_t{0};
                continue;
            }
            run_until(std::min(until, has_yielded ? later_ - 1 : later_ - width));
        }
        empty_ahead(budget);
        next_ = unknown;
    }

    // The moves of the later wheel are wake-ups, too.
    [[gnu::always_inline]] std::uint64_t next_wakeup() {
        if (next_ == unknown) next_ = find_wakeup();
        return next_;
    }

private:
    static constexpr std::uint32_t slots = 1u << 14, width = 1u << 13, range = 512;
    static constexpr std::uint64_t unknown = 0;

    static void note(node& n, std::uint64_t now) { seen.note(n, now); }

    static std::uint32_t soon_slot(std::uint64_t tick) {
        return static_cast<std::uint32_t>(tick % slots);
    }
    static std::uint32_t later_slot(std::uint64_t tick) {
        return slots + static_cast<std::uint32_t>(tick / width % slots);
    }
    static std::uint64_t wakeup_of(const node& n) {
        return n.slot < slots ? n.expires : n.expires / width * width - width;
    }

    [[gnu::always_inline]] void insert(node& n) {
        n.slot = n.expires < now_ + slots ? soon_slot(n.expires) : later_slot(n.expires);
        ++in_range_[n.slot / range];
        node*& head = heads_[n.slot];
        if (head == nullptr) {
            head = n.next = n.previous = &n;
        } else {
            n.next = head;
            n.previous = head->previous;
            head->previous = n.previous->next = &n;
        }
        if (next_ != unknown) next_ = std::min(next_, wakeup_of(n));
    }
    [[gnu::always_inline]] void remove(node& n) {
        --in_range_[n.slot / range];
        node*& head = heads_[n.slot];
        if (n.next == &n) {
            head = nullptr;
        } else {
            if (head == &n) head = n.next;
            n.next->previous = n.previous;
            n.previous->next = n.next;
        }
        n.next = nullptr;
    }

    // Moves the slots of the later wheel that come within `width`. Returns false if it yields.
    [[gnu::always_inline]] bool empty_ahead(std::uint64_t& budget) {
        return later_ > now_ + width || move_ahead(budget);
    }
    [[gnu::noinline]] bool move_ahead(std::uint64_t& budget) {
        for (; later_ <= now_ + width; later_ += width)
            while (node* const n = heads_[later_slot(later_)]) {
                if (budget == 0) return false;
                --budget;
                remove(*n);
                insert(*n);
            }
        return true;
    }

    [[gnu::always_inline]] void run_until(std::uint64_t end) {
        while (now_ < end) {
            now_ = first_soon(end);
            if (heads_[soon_slot(now_)] != nullptr) fire_slot(heads_[soon_slot(now_)]);
        }
    }
    [[gnu::noinline]] void fire_slot(node*& head) {
        while (node* const n = head) {
            remove(*n);
            n->fire(*n, now_);
        }
    }

    // The first tick with a timer in the soon wheel; `end` if there is none before.
    std::uint64_t first_soon(std::uint64_t end) const {
        std::uint64_t tick = now_ + 1;
        while (tick < end && heads_[soon_slot(tick)] == nullptr)
            tick += in_range_[soon_slot(tick) / range] != 0 ? 1 : range - tick % range;
        return std::min(tick, end);
    }

    [[gnu::noinline]] std::uint64_t find_wakeup() const {
        if (later_ <= now_ + width) return now_ + 1;  // has yielded
        const std::uint64_t soon = first_soon(now_ + slots);
        if (soon < later_ - width) return soon;
        std::uint64_t slot = later_ / width;
        const std::uint64_t end = slot + slots;
        while (slot < end && in_range_[later_slot(slot * width) / range] == 0)
            slot += range - slot % range;
        while (slot < end && heads_[later_slot(slot * width)] == nullptr) ++slot;
        const std::uint64_t later = slot < end ? slot * width - width : ~std::uint64_t{0};
        return soon < now_ + slots ? std::min(soon, later) : later;
    }

    std::uint64_t now_ = start;
    std::uint64_t later_ = (start + slots) / width * width;  // the next slot to be emptied
    std::uint64_t next_ = unknown;
    std::array<node*, 2 * slots> heads_{};
    std::array<std::uint32_t, 2 * slots / range> in_range_{};
};

}  // namespace bench
