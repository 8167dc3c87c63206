// Boost.Intrusive's red-black tree, keyed by deadline: the structure of nginx, and of the
// kernel's hrtimers until Linux 7.0. It does not allocate. A hint finds the place of the latest
// deadline with one comparison.
#pragma once

#include <cstdint>

#include <boost/intrusive/set.hpp>

#include "../workloads/test_bed.hpp"

namespace bench {

using tree_hook =
    boost::intrusive::set_base_hook<boost::intrusive::link_mode<boost::intrusive::safe_link>,
                                    boost::intrusive::optimize_size<true>>;
template <class Node> struct deadline_of {
    using type = std::uint64_t;
    std::uint64_t operator()(const Node& n) const { return n.expires; }
};
template <class Node>
using deadline_tree =
    boost::intrusive::multiset<Node, boost::intrusive::key_of_value<deadline_of<Node>>,
                               boost::intrusive::constant_time_size<false>>;

struct rbtree_adapter {
    static constexpr const char* name = "rbtree";
    static constexpr description is{.what = "a red-black tree",
                                    .order = "oldest first",
                                    .allocation = "none",
                                    .cancel = "takes out of the tree"};

    struct node : tree_hook {
        std::uint64_t expires;
        void (*fire)(node&, std::uint64_t now) = note;
    };

    std::uint64_t now() const { return now_; }

    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) {
        cancel(n);
        insert(n, at);
    }
    [[gnu::always_inline]] void cancel(node& n) {
        if (n.is_linked()) erase(n);
    }

    [[gnu::always_inline]] void advance(std::uint64_t until) {
        while (!queue_.empty() && queue_.begin()->expires <= until) fire(*queue_.begin());
        now_ = until;
    }

    [[gnu::always_inline]] std::uint64_t next_wakeup() {
        return queue_.empty() ? ~0ull : queue_.begin()->expires;
    }

private:
    static void note(node& n, std::uint64_t now) { seen.note(n, now); }

    [[gnu::noinline]] void insert(node& n, std::uint64_t at) {
        n.expires = at;
        queue_.insert(queue_.end(), n);
    }
    [[gnu::noinline]] void erase(node& n) { queue_.erase(queue_.iterator_to(n)); }
    [[gnu::noinline]] void fire(node& n) {
        now_ = n.expires;
        queue_.erase(queue_.begin());
        n.fire(n, now_);
    }

    std::uint64_t now_ = start;
    deadline_tree<node> queue_;
};

}  // namespace bench
