/// \file
/// A slot: four chains or eight, filled in turn and emptied in turn.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tvec/core/detail/chain.hpp"
#include "tvec/core/detail/geometry.hpp"

namespace tvec::detail {

/// The links to a slot since it was last empty, less the pops. See levels.hpp for where it ends.
#ifndef TVEC_TINY_GEOMETRY
using link_count = std::uint32_t;
#else
using link_count = std::uint8_t;
#endif

/// The timers that the wheel visits together: a view of chains that lie side by side.
///
/// Walking one list costs a whole memory latency per timer, because the address of the next one
/// is known only when the line has arrived. Lists walked in turn keep as many misses in flight.
///
/// The k-th link went to chain k mod n, so popping chain --k mod n meets a timer each time, in the
/// reverse order of arrival, unless one has unlinked itself. The count is thus an upper bound: a
/// slot is empty when all its chains are, and if the count is 0 it is. It is kept elsewhere
/// (levels.hpp), as are the chains.
class slot {
public:
    static constexpr unsigned most_chains = 2 * geometry::chains_per_row;

    /// `chains` is a power of two.
    slot(chain* first, unsigned chains, link_count& links, link& sentinel) noexcept
        : chains_(first), last_(chains - 1), links_(links), sentinel_(sentinel) {
        assert(std::has_single_bit(chains) && "links are counted off to a power of two of chains");
        assert(chains <= most_chains && "a slot has at most eight chains");
        assert(sentinel.ends_chain() && "the chains of a slot end in its sentinel");
    }

    bool empty() const noexcept {
        for (unsigned k = 0; k <= last_; ++k)
            if (chains_[k].first() != &sentinel_) return false;
        return true;
    }

    /// The next link in turn, unlinked; null when the slot is empty.
    link* pop() noexcept {
        for (unsigned misses = 0; misses <= last_ && links_ != 0; ++misses) {
            chain& c = chains_[--links_ & last_];
            if (c.first() != &sentinel_) return &c.pop();
        }
        assert(empty() && "the count is an upper bound of the links");
        links_ = 0;
        return nullptr;
    }

    /// Unlinks up to `most` links and calls take(link&) for each, which must link nothing here.
    /// The next link of each chain is loaded meanwhile, and the back pointers are set once, at the
    /// end. Returns how many links there were. If there were fewer than `most`, the slot is empty.
    template <class F> std::size_t pop_each(std::size_t most, owner_tag owner, F take) noexcept {
        std::array<link*, most_chains> next;
        for (unsigned k = 0; k <= last_; ++k) {
            link::expect_link_at(chains_[k].first_pointer());
            next[k] = chains_[k].first();
        }
        std::size_t left = most;
        [[maybe_unused]] const link_count links_before = links_;
        link_count links = links_;
        for (unsigned misses = 0; left != 0 && links != 0 && misses <= last_;) {
            link*& first = next[--links & last_];
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
        for (unsigned k = 0; k <= last_; ++k) chains_[k].restart_at(*next[k], owner);
        assert(links_ == links_before && "`take` links nothing to this slot");
        links_ = links;
        assert((left == 0 || empty()) && "the count is an upper bound of the links");
        return most - left;
    }

    /// From now on `pop` gives first what is before(link&, link&) the others, and equals as it
    /// would have done. All hangs in one chain then, so that what unlinks itself does not change
    /// the order; and the count is that of a slot whose other chains have lost theirs. Nothing is
    /// to be linked here until the slot is empty. For less than 2^29 links.
    template <class F> void sort(owner_tag owner, F before) noexcept {
        link* const end = &sentinel_;
        std::array<link*, 32> runs;  // of 2^k links each, or none
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
        chains_[0].restart_at(*all, owner);
        for (link* l = all; l != end; l = l->next) l->next->hang(l->next, owner);
        assert(n <= static_cast<link_count>(-1) / (last_ + 1) && "a sorted slot can be counted");
        links_ = static_cast<link_count>(n * (last_ + 1));
    }

private:
    /// One sorted list of two, linked by `next` alone up to `end`. Of equals, those of `a` first.
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

    chain* chains_;
    unsigned last_;
    link_count& links_;
    link& sentinel_;
};

}  // namespace tvec::detail
