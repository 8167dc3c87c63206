// std::multimap from deadline to object. Re-arming moves the map's node (extract), so only the
// first arm allocates. A hint finds the place of the latest deadline with one comparison.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "../workloads/test_bed.hpp"

namespace bench {

struct multimap_adapter {
    static constexpr const char* name = "multimap";
    static constexpr description is{.what = "a red-black tree",
                                    .order = "oldest first",
                                    .allocation = "one for each first arm",
                                    .cancel = "takes out of the tree"};

    struct node;
    using queue = std::multimap<std::uint64_t, node*>;
    struct node {
        queue::iterator place;
        void (*fire)(node&, std::uint64_t now) = nullptr;  // null: not pending
    };

    std::uint64_t now() const { return now_; }

    void arm(node& n, std::uint64_t at) {
        if (n.fire != nullptr) {
            auto moved = queue_.extract(n.place);
            moved.key() = at;
            n.place = queue_.insert(queue_.end(), std::move(moved));
        } else {
            n.place = queue_.emplace_hint(queue_.end(), at, &n);
            n.fire = note;
        }
    }

    void cancel(node& n) {
        if (n.fire == nullptr) return;
        queue_.erase(n.place);
        n.fire = nullptr;
    }

    void advance(std::uint64_t until) {
        while (!queue_.empty() && queue_.begin()->first <= until) {
            node& n = *queue_.begin()->second;
            now_ = queue_.begin()->first;
            queue_.erase(queue_.begin());
            std::exchange(n.fire, nullptr)(n, now_);
        }
        now_ = until;
    }

    std::uint64_t next_wakeup() { return queue_.empty() ? ~0ull : queue_.begin()->first; }

private:
    static void note(node& n, std::uint64_t now) { seen.note(n, now); }

    std::uint64_t now_ = start;
    queue queue_;
};

}  // namespace bench
