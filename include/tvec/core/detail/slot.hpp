/// \file
/// A slot: its chains, filled in turn and emptied in turn.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "tvec/core/detail/chain.hpp"
#include "tvec/core/detail/geometry.hpp"
#include "tvec/core/detail/shape.hpp"

namespace tvec::detail {

/// The timers that the wheel visits together: a view of its chains.
///
/// Walking one list costs a whole memory latency per timer, because the address of the next timer
/// is known only when the cache line has arrived. Several lists walked in turn keep as many misses
/// in flight.
///
/// The k-th link goes to chain k mod n. Popping chain --k mod n finds a timer each time, in the
/// reverse order of arrival, unless a timer was unlinked. The count is an upper bound: a slot is
/// empty when all its chains are. A slot with the count 0 is empty. levels.hpp holds the count and
/// the chains.
class slot {
public:
    slot(chain* first, link_count& links, link& sentinel) noexcept
        : chains_(first), links_(links), sentinel_(sentinel) {
        assert(sentinel.ends_chain() && "the chains of a slot end in its sentinel");
    }

    bool empty() const noexcept {
        for (unsigned k = 0; k < width; ++k)
            if (chains_[k].first() != &sentinel_) return false;
        return true;
    }

    /// Unlinks the next link in turn and returns it; null when the slot is empty.
    link* pop() noexcept {
        for (unsigned misses = 0; misses < width && links_ != 0; ++misses) {
            chain& c = chains_[--links_ % width];
            if (c.first() != &sentinel_) return &c.pop();
        }
        assert(empty() && "the count is an upper bound of the links");
        links_ = 0;
        return nullptr;
    }

    /// Unlinks up to `most` links and calls take(link&) for each. `take` must link nothing here.
    /// Prefetches the next link of each chain meanwhile. Sets the back pointers once, at the end.
    /// Returns the number of links. If there were fewer than `most`, the slot is empty. A few links
    /// are not worth a look at all chains: no chain has to wait for another.
    template <class F> std::size_t pop_each(std::size_t most, wheel_tag tag, F take) noexcept {
        if (links_ <= few) {
            std::size_t popped = 0;
            for (link* l = nullptr; popped != most && (l = pop()) != nullptr; ++popped) take(*l);
            return popped;
        }
        std::array<link*, width> next;
        for (unsigned k = 0; k < width; ++k) {
            link::expect_link_at(chains_[k].first_pointer());
            next[k] = chains_[k].first();
        }
        std::size_t left = most;
        [[maybe_unused]] const link_count links_before = links_;
        link_count links = links_;
        for (unsigned misses = 0; left != 0 && links != 0 && misses < width;) {
            link*& first = next[--links % width];
            link& l = *first;
            ++misses;
            if (&l == &sentinel_) continue;
            misses = 0;
            link::expect_link_at(l.next);
            first = l.next;
            __builtin_prefetch(first, 1);
            l.forget();
            take(l);
            --left;
        }
        for (unsigned k = 0; k < width; ++k) chains_[k].restart_at(*next[k], tag);
        assert(links_ == links_before && "`take` links nothing to this slot");
        links_ = links;
        assert((left == 0 || empty()) && "the count is an upper bound of the links");
        return most - left;
    }

    /// Sorts the slot: `pop` then returns links in the order of before(link&, link&), and equal
    /// ones in the order as before. All links move to chain 0, and unlinking one keeps the others
    /// sorted. The count is that of a slot with all other chains empty. No link must be added until
    /// the slot is empty. Requires fewer than 2^29 links.
    template <class F> void sort(wheel_tag tag, F before) noexcept {
        link* const end = &sentinel_;
        std::array<link*, 32> runs;  // sorted runs of 2^k links, or empty
        runs.fill(end);
        link_count n = 0;
        for (link* l = pop(); l != nullptr; l = pop(), ++n) {
            l->next = end;
            unsigned k = 0;
            for (; runs[k] != end; ++k) l = merge(std::exchange(runs[k], end), l, end, before);
            assert(k < runs.size() - 1 && "a run for each bit of the count");
            runs[k] = l;
        }
        link* all = end;
        for (link* earlier : runs) all = merge(earlier, all, end, before);
        chains_[0].restart_at(*all, tag);
        for (link* l = all; l != end; l = l->next) l->next->hang(l->next, tag);
        assert(n <= std::numeric_limits<link_count>::max() / width &&
               "a sorted slot can be counted");
        links_ = narrow_to<link_count>(n * width);
    }

private:
    /// Merges two sorted lists, linked by `next` alone up to `end`. Equal links of `a` come first.
    template <class F> static link* merge(link* a, link* b, link* end, F& before) noexcept {
        link* first = end;
        link** last = &first;
        while (a != end && b != end) {
            link*& next = before(*b, *a) ? b : a;
            *last = next;
            last = &next->next;
            next = next->next;
        }
        *last = a != end ? a : b;
        return first;
    }

    static constexpr unsigned width = geometry::chains_per_slot;
    static constexpr link_count few = width;
    static_assert(std::has_single_bit(width), "bound_count leaves the next chain as it is");

    chain* chains_;
    link_count& links_;
    link& sentinel_;
};

}  // namespace tvec::detail
