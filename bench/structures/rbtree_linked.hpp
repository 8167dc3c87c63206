// A red-black tree that keeps the place of a timer that moves little, after Linux 7.1's hrtimers:
// neighbours are linked, too. A deadline that stays between those of the neighbours is stored, and
// the tree is left alone. The kernel finds the neighbours on its way down the tree, this one by
// steps of Boost.Intrusive's iterators.
#pragma once

#include <cstdint>

#include "rbtree.hpp"

namespace bench {

struct rbtree_linked_adapter {
    static constexpr const char* name = "rbtree_linked";
    static constexpr description is{
        .what =
            "a red-black tree with linked neighbours: a timer that stays between them is not moved",
        .order = "unspecified",
        .allocation = "none",
        .cancel = "takes out of the tree"};

    struct node : tree_hook {
        std::uint64_t expires;
        node* previous;
        node* next;
        void (*fire)(node&, std::uint64_t now) = note;
    };

    std::uint64_t now() const { return now_; }

    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) {
        if (n.is_linked()) {
            if (stays_in_order(n, at)) {
                n.expires = at;
                return;
            }
            remove(n);
        }
        insert(n, at);
    }
    [[gnu::always_inline]] void cancel(node& n) {
        if (n.is_linked()) remove(n);
    }

    [[gnu::always_inline]] void advance(std::uint64_t until) {
        while (ends_.next != &ends_ && ends_.next->expires <= until) fire(*ends_.next);
        now_ = until;
    }

    [[gnu::always_inline]] std::uint64_t next_wakeup() const {
        return ends_.next == &ends_ ? ~std::uint64_t{0} : ends_.next->expires;
    }

    rbtree_linked_adapter() { ends_.previous = ends_.next = &ends_; }

private:
    static void note(node& n, std::uint64_t now) { seen.note(n, now); }

    [[gnu::always_inline]] bool stays_in_order(const node& n, std::uint64_t at) const {
        return (n.previous == &ends_ || n.previous->expires <= at) &&
               (n.next == &ends_ || at <= n.next->expires);
    }
    [[gnu::noinline]] void insert(node& n, std::uint64_t at) {
        n.expires = at;
        auto place = queue_.insert(queue_.end(), n);
        n.previous = place == queue_.begin() ? &ends_ : &*--decltype(place)(place);
        n.next = n.previous->next;
        n.previous->next = n.next->previous = &n;
    }
    [[gnu::noinline]] void remove(node& n) {
        n.previous->next = n.next;
        n.next->previous = n.previous;
        queue_.erase(queue_.iterator_to(n));
    }
    [[gnu::noinline]] void fire(node& n) {
        now_ = n.expires;
        remove(n);
        n.fire(n, now_);
    }

    std::uint64_t now_ = start;
    node ends_;  // of the list
    deadline_tree<node> queue_;
};

}  // namespace bench
