// A std::priority_queue as people use it: it can neither move nor erase an entry, so each arm
// pushes another, and only the entry with the timer's latest generation counts. The others stay
// until they surface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

#include "../workloads/test_bed.hpp"

namespace bench {

class priority_queue {
public:
    struct node {
        std::uint32_t id = 0, generation = 0;
    };

    std::uint64_t now() const { return now_; }

    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) {
        queue_.push({at, n.id, ++n.generation});
    }
    [[gnu::always_inline]] void cancel(node& n) { ++n.generation; }

    // An id is used again, and the generation goes on: old entries stay invalid.
    void adopt(node& n) {
        if (free_.empty()) {
            free_.push_back(static_cast<std::uint32_t>(timers_.size()));
            timers_.push_back({});
        }
        n.id = free_.back();
        free_.pop_back();
        timer& t = timers_[n.id];
        n.generation = t.generation;
        t.owner = &n;
    }
    void release(node& n) {
        timers_[n.id] = {nullptr, n.generation + 1};
        free_.push_back(n.id);
    }

    [[gnu::always_inline]] void advance(std::uint64_t until) {
        while (!queue_.empty() && queue_.top().at <= until) surface(queue_.top());
        now_ = until;
    }

    // A lower bound: the entry may be an old one.
    [[gnu::always_inline]] std::uint64_t next_wakeup() const {
        return queue_.empty() ? ~std::uint64_t{0} : queue_.top().at;
    }

private:
    struct entry {
        std::uint64_t at;
        std::uint32_t id, generation;
        friend bool operator<(const entry& a, const entry& b) { return a.at > b.at; }
    };
    struct timer {
        node* owner = nullptr;
        std::uint32_t generation = 0;  // of its next owner, if it has none
    };

    [[gnu::noinline]] void surface(const entry e) {
        queue_.pop();
        node* const n = timers_[e.id].owner;
        if (n == nullptr || n->generation != e.generation) return;
        ++n->generation;
        now_ = e.at;
        seen.note(*n, now_);
    }

    std::uint64_t now_ = start;
    std::priority_queue<entry> queue_;
    std::vector<timer> timers_;  // by id
    std::vector<std::uint32_t> free_;
};

struct priority_queue_adapter : priority_queue {
    static constexpr const char* name = "priority_queue";
    static constexpr description is{
        .what = "`std::priority_queue`: an entry for each arm, valid by its generation",
        .order = "unspecified",
        .allocation = "an array of entries, and one of generations",
        .cancel = "a new generation; the entry stays until it surfaces"};
};

}  // namespace bench
