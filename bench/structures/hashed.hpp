// A hashed wheel with rounds, after the idea of Netty's HashedWheelTimer, with the lists in the
// objects: 512 slots of one tick. A tick visits every timer in its slot, and fires those that have
// no rounds left to wait.
#pragma once

#include <array>
#include <cstdint>

#include "../workloads/test_bed.hpp"

namespace bench {

struct hashed_adapter {
    static constexpr const char* name = "hashed";
    static constexpr description is{.what =
                                        "a hashed wheel: 512 slots, each timer counts its rounds",
                                    .order = "newest first",
                                    .allocation = "none",
                                    .cancel = "unlinks"};

    struct node {
        node* next = nullptr;
        node** back = nullptr;  // null: not pending
        std::uint64_t rounds = 0;
        void (*fire)(node&, std::uint64_t now) = note;
    };

    std::uint64_t now() const { return now_; }

    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) {
        cancel(n);
        const std::uint64_t expires = at > now_ ? at : now_ + 1;
        n.rounds = (expires - now_ - 1) / slots;
        link(n, heads_[expires % slots]);
    }

    [[gnu::always_inline]] void cancel(node& n) {
        if (n.back == nullptr) return;
        if (&n == visited_next_) visited_next_ = n.next;
        if (n.next != nullptr) n.next->back = n.back;
        *n.back = n.next;
        n.back = nullptr;
    }

    [[gnu::always_inline]] void advance(std::uint64_t until) {
        while (now_ < until)
            if (node* const first = heads_[++now_ % slots]) visit_all(first);
    }

    // Twenty nanoseconds for each visit.
    static constexpr double expected_seconds(double timers, const effort& e) {
        return 20e-9 * e.ticks * timers / slots;
    }

private:
    static constexpr std::uint64_t slots = 512;

    static void note(node& n, std::uint64_t now) { seen.note(n, now); }

    [[gnu::always_inline]] static void link(node& n, node*& head) {
        n.next = head;
        n.back = &head;
        if (head != nullptr) head->back = &n.next;
        head = &n;
    }

    // Callbacks arm timers in front of those that are still to be visited.
    [[gnu::noinline]] void visit_all(node* first) {
        visited_next_ = first;
        while (visited_next_ != nullptr) {
            node& n = *visited_next_;
            visited_next_ = n.next;
            if (n.rounds-- != 0) continue;
            cancel(n);
            n.fire(n, now_);
        }
    }

    std::uint64_t now_ = start;
    node* visited_next_ = nullptr;
    std::array<node*, slots> heads_{};
};

}  // namespace bench
