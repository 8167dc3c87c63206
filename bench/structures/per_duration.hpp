// A list for each duration, as Envoy has them, and libevent for its common timeouts. Timers of one
// duration come due in the order in which they were armed, so each list is sorted. An arm looks for
// its list, and a tick looks at the head of each. Only for programs with few durations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "../workloads/test_bed.hpp"

namespace bench {

struct per_duration_adapter {
    static constexpr const char* name = "per_duration";
    static constexpr description is{.what = "a list for each duration; for few durations only",
                                    .order = "by duration, then oldest first",
                                    .allocation = "one for each new duration",
                                    .cancel = "unlinks"};

    struct link {
        link* next = nullptr;  // null: not pending
        link* previous = nullptr;
    };
    struct node : link {
        std::uint64_t expires = 0;
        void (*fire)(node&, std::uint64_t now) = note;
    };

    std::uint64_t now() const { return now_; }

    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) {
        cancel(n);
        n.expires = at;
        link& head = list_of(at - now_).head;
        link& last = *head.previous;
        n.next = &head;
        n.previous = &last;
        last.next = head.previous = &n;
    }

    [[gnu::always_inline]] void cancel(node& n) {
        if (n.next == nullptr) return;
        n.next->previous = n.previous;
        n.previous->next = n.next;
        n.next = nullptr;
    }

    [[gnu::always_inline]] void advance(std::uint64_t until) {
        for (node* n = earliest(); n != nullptr && n->expires <= until; n = earliest()) fire(*n);
        now_ = until;
    }

    [[gnu::always_inline]] std::uint64_t next_wakeup() const {
        const node* const n = earliest();
        return n == nullptr ? ~std::uint64_t{0} : n->expires;
    }

    static constexpr double expected_seconds(double, const effort& e) {
        return e.few_delays ? 0 : std::numeric_limits<double>::infinity();
    }

private:
    struct list {
        explicit list(std::uint64_t d) : duration(d) { head.next = head.previous = &head; }
        bool is_empty() const { return head.next == &head; }
        node* first() const { return static_cast<node*>(head.next); }

        std::uint64_t duration;
        link head;
    };

    static void note(node& n, std::uint64_t now) { seen.note(n, now); }

    [[gnu::always_inline]] list& list_of(std::uint64_t duration) {
        for (const auto& l : lists_)
            if (l->duration == duration) return *l;
        return add_list(duration);
    }
    [[gnu::noinline]] list& add_list(std::uint64_t duration) {
        return *lists_.emplace_back(std::make_unique<list>(duration));
    }
    [[gnu::noinline]] void fire(node& n) {
        now_ = n.expires;
        cancel(n);
        n.fire(n, now_);
    }

    [[gnu::always_inline]] node* earliest() const {
        node* first = nullptr;
        for (const auto& l : lists_)
            if (!l->is_empty() && (first == nullptr || l->first()->expires < first->expires))
                first = l->first();
        return first;
    }

    std::uint64_t now_ = start;
    std::vector<std::unique_ptr<list>> lists_;
};

}  // namespace bench
