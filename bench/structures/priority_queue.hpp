// std::priority_queue with lazy deletion: cancelling and re-arming leave the old entry in the heap.
// Its generation marks it as stale. The heap is rebuilt when most entries are stale.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "../workloads/test_bed.hpp"

namespace bench {

struct priority_queue_adapter {
    static constexpr const char* name = "pqueue";
    static constexpr description is{.what = "a binary heap whose entries may be stale",
                                    .order = "unspecified",
                                    .allocation = "an array of entries",
                                    .cancel = "a store; the entry stays until it surfaces"};
    static constexpr bool leaves_entries = true;

    struct node {
        std::uint64_t generation = 0;  // 0: not pending
        void (*fire)(node&, std::uint64_t now) = note;
    };

    std::uint64_t now() const { return now_; }

    void arm(node& n, std::uint64_t at) {
        if (n.generation == 0) ++live_;
        n.generation = ++last_generation_;
        queue_.push({at, n.generation, &n});
        compact();
    }

    void cancel(node& n) {
        if (n.generation == 0) return;
        n.generation = 0;
        --live_;
        compact();
    }

    void advance(std::uint64_t until) {
        while (!queue_.empty() && queue_.top().expires <= until) {
            const entry e = queue_.top();
            queue_.pop();
            if (e.is_stale()) continue;
            now_ = e.expires;
            e.owner->generation = 0;
            --live_;
            e.owner->fire(*e.owner, now_);
        }
        now_ = until;
    }

    std::uint64_t next_wakeup() {
        while (!queue_.empty() && queue_.top().is_stale()) queue_.pop();
        return queue_.empty() ? ~0ull : queue_.top().expires;
    }

private:
    static void note(node& n, std::uint64_t now) { seen.note(n, now); }

    struct entry {
        std::uint64_t expires;
        std::uint64_t generation;
        node* owner;
        bool is_stale() const { return owner->generation != generation; }
        bool operator>(const entry& other) const { return expires > other.expires; }
    };
    struct heap : std::priority_queue<entry, std::vector<entry>, std::greater<>> {
        void drop_stale() {
            std::erase_if(c, [](const entry& e) { return e.is_stale(); });
            std::make_heap(c.begin(), c.end(), comp);
        }
    };

    void compact() {
        if (queue_.size() > 2 * live_ + 1'000) queue_.drop_stale();
    }

    std::uint64_t now_ = start;
    std::uint64_t last_generation_ = 0;
    std::size_t live_ = 0;
    heap queue_;
};

}  // namespace bench
