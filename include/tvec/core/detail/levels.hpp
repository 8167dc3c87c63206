/// \file
/// The slots of all levels, and the bits of those that may hold a timer.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "tvec/core/detail/geometry.hpp"
#include "tvec/core/detail/slot.hpp"

namespace tvec {

class snapshot;

}  // namespace tvec

namespace tvec::detail {

/// Rings of slots, one per level, and an occupancy bit per slot.
///
/// Linking a timer sets the bit. A visit that finds the slot empty clears it. Unlinking needs no
/// wheel and leaves the bit: a set bit may be stale, a clear one never is. A slot that counts a
/// timer has its bit set: linking another timer does not look at the bit. The slot for `never` has
/// no bit, because it is not visited.
class levels {
public:
    explicit levels(owner_tag owner) noexcept : owner_(owner) {
        for (chain& c : chains_) c.reset(sentinel_);
    }
    levels(const levels&) = delete;
    levels& operator=(const levels&) = delete;

    bool occupied(unsigned s) const noexcept {
        assert(is_slot(s) && "a slot has the number of its first row");
        return words_[s / word_bits] & bit_of(s);
    }
    void set_occupied(unsigned s) noexcept {
        assert(is_slot(s) && s < geometry::beyond && "only slots that are visited have a bit");
        words_[s / word_bits] |= bit_of(s);
        words_used_ |= bit_of(s / word_bits);
    }

    slot operator[](unsigned s) noexcept {
        assert(is_slot(s) && "a slot has the number of its first row");
        return {&chains_[s * row], geometry::chains_of(s), counts_[s], sentinel_};
    }
    /// Returns whether slot `s` is empty. If so, clears its bit and its count.
    bool settle_if_empty(unsigned s) noexcept {
        assert(s < geometry::beyond && "only slots that are visited have a bit");
        if (!(*this)[s].empty()) return false;
        const unsigned w = s / word_bits;
        words_[w] &= ~bit_of(s);
        if (words_[w] == 0) words_used_ &= ~bit_of(w);
        counts_[s] = 0;
        return true;
    }

    /// Sorts slot `s`: `pop` then returns links in the order of before(link&, link&).
    template <class F> void sort(unsigned s, F before) noexcept { (*this)[s].sort(owner_, before); }

    /// Returns an upper bound of the timers in slot `s`: unlinking does not count.
    link_count at_most(unsigned s) const noexcept { return counts_[s]; }
    /// Links `node` to slot `s`. Requires that `last_chain` is the number of its last chain.
    void push(unsigned s, unsigned last_chain, link& node) noexcept {
        assert(s != geometry::beyond && "nothing hangs in the slot that stays empty");
        assert(last_chain == geometry::chains_of(s) - 1 && "a slot fills each of its chains");
        assert(counts_[s] != static_cast<link_count>(-1) &&
               "bound_count keeps counts from wrapping");
        chains_[s * row + (counts_[s]++ & last_chain)].push(node, owner_);
    }
    /// Keeps the count of slot `s` from wrapping, however often timers are linked and unlinked
    /// there. To be called from time to time. The count stays an upper bound, and the next link
    /// goes to the same chain.
    void bound_count(unsigned s) noexcept {
        if (counts_[s] > most_counted) counts_[s] -= most_counted / 2 + 1;
    }

    /// Returns how many slots ahead of the slot of `tick` the next slot of `level` is that holds a
    /// timer; 0 if none does. From 1 to the whole ring: the slot of `tick` itself comes last, a
    /// full turn ahead. Clears stale bits on the way. Requires that `level` is not the overflow.
    unsigned next_occupied(unsigned level, jiffies tick) noexcept {
        assert(level < geometry::levels && "the overflow has no ring of slots");
        for (;;) {
            const unsigned ahead = next_marked(level, tick);
            assert(ahead <= geometry::ring_of(level) && "the slot of `tick` is a full turn ahead");
            const unsigned s = geometry::slot_at(level, tick + (jiffies{ahead} << shift(level)));
            if (ahead == 0 || !settle_if_empty(s)) return ahead;
        }
    }

    /// Returns the first slot of the overflow to be emptied after `tick`, or `beyond`. Clears stale
    /// bits on the way.
    unsigned next_occupied_of_overflow(jiffies tick) noexcept {
        assert(tick < never && "a wheel stops before `never`");
        constexpr unsigned level = geometry::overflow, first = geometry::first_slot_of(level);
        const jiffies next_lap = geometry::entry_of(level, tick) + geometry::width_of(level);
        const unsigned running = geometry::overflow_slot_before(next_lap);
        while (const std::uint64_t bits = words_[first / word_bits]) {
            const auto lowest = first + static_cast<unsigned>(std::countr_zero(bits));
            const unsigned s = occupied(running) ? running : lowest;
            if (!settle_if_empty(s)) return s;
        }
        return geometry::beyond;
    }

    /// Calls visit(slot, const link&) for each link in any slot.
    template <class F> void for_each(F visit) const {
        for (unsigned s = 0; s < geometry::slots; ++s) {
            const bool is_second_row = geometry::chains_of(s) != row && s % 2 != 0;
            for_each_in(s, geometry::chains_per_row,
                        [&](const link& l) { visit(s - is_second_row, l); });
        }
    }
    /// Calls visit(const link&) for each link in slot `s`.
    template <class F> void for_each_in(unsigned s, F visit) const {
        for_each_in(s, geometry::chains_of(s), visit);
    }
    /// Returns whether is(slot) holds for any slot that may hold a link, that of `never` included.
    /// Stops at the first such slot.
    template <class F> bool any_marked(F is) const {
        for (unsigned w = 0; w < geometry::words; ++w)
            for (std::uint64_t bits = words_[w]; bits != 0; bits &= bits - 1)
                if (is(w * word_bits + static_cast<unsigned>(std::countr_zero(bits)))) return true;
        return is(geometry::never_slot);
    }
    /// Returns whether is(link&) holds for any link in any slot. Looks into occupied slots only,
    /// and stops at the first such link. `is` may unlink the link it is given, and link it again.
    template <class F> bool any_of(F is) const {
        return any_marked([&](unsigned s) { return any_in(s, geometry::chains_of(s), is); });
    }
    /// Unlinks each link in any slot, and calls take(link&) for it. `take` must link nothing here.
    /// Clears all bits and counts.
    template <class F> void pop_all(F take) noexcept {
        any_marked([&](unsigned s) {
            (*this)[s].pop_each(~std::size_t{0}, owner_, [&](link& l) { take(l); });
            return false;
        });
        words_used_ = 0;
        words_.fill(0);
        counts_.fill(0);
    }

    const chain& chain_of(unsigned s, unsigned k) const noexcept {
        assert(s < geometry::slots && k < geometry::chains_of(s) && "the slot has such a chain");
        return chains_[s * row + k];
    }
    owner_tag owner() const noexcept { return owner_; }

private:
    friend class inspector;
    friend class ::tvec::snapshot;

    static constexpr std::size_t row = geometry::chains_per_row;
    static constexpr unsigned word_bits = geometry::word_bits;
    static constexpr link_count most_counted = static_cast<link_count>(~link_count{0}) / 2;
    static constexpr unsigned shift(unsigned level) noexcept { return geometry::shift_of(level); }
    static std::uint64_t bit_of(unsigned s) noexcept { return std::uint64_t{1} << s % word_bits; }
    static bool is_slot(unsigned s) noexcept {
        return s < geometry::slots && (geometry::chains_of(s) == row || s % 2 == 0);
    }

    template <class F> bool any_in(unsigned s, unsigned chains, F is) const {
        const chain* const first = &chain_of(s, 0);
        for (unsigned k = 0; k < chains; ++k) {
            link::expect_link_at(first[k].first_pointer());
            for (link* l = first[k].first(); l != &sentinel_;) {
                link& shown = *l;
                link::expect_link_at(shown.next);
                l = l->next;
                if (is(shown)) return true;
            }
        }
        return false;
    }
    template <class F> void for_each_in(unsigned s, unsigned chains, F visit) const {
        any_in(s, chains, [&](const link& l) {
            visit(l);
            return false;
        });
    }

    /// Does what `next_occupied` does, without a look at the slots: the bit may be stale.
    unsigned next_marked(unsigned level, jiffies tick) const noexcept {
        const unsigned words = geometry::words_of(level), rows = geometry::rows_of(level);
        const unsigned ring = geometry::ring_of(level) * rows;
        const unsigned first = geometry::first_slot_of(level) / word_bits;
        const std::uint64_t all = (std::uint64_t{1} << words) - 1;
        const std::uint64_t used = words_used_ >> first & all;
        if (used == 0) return 0;
        const unsigned from = (static_cast<unsigned>(tick >> shift(level)) + 1) * rows % ring;
        unsigned word = from / word_bits;
        std::uint64_t bits = words_[first + word] & ~std::uint64_t{0} << from % word_bits;
        if (bits == 0) {  // the next used word; this one comes last
            const unsigned after = word + 1;
            const std::uint64_t turned = (used >> after | used << (words - after)) & all;
            word = (after + static_cast<unsigned>(std::countr_zero(turned))) % words;
            bits = words_[first + word];
        }
        assert(bits != 0 && "a word that is marked as used has a bit");
        const unsigned found = word * word_bits + static_cast<unsigned>(std::countr_zero(bits));
        return (found - from + ring) % ring / rows + 1;
    }

    owner_tag owner_;
    link sentinel_ = new_sentinel;
    std::uint64_t words_used_ = 0;  ///< a bit for each word that is not 0
    std::array<std::uint64_t, geometry::words> words_{};
    std::array<link_count, geometry::slots> counts_{};
    alignas(64) std::array<chain, geometry::slots * row> chains_;
};

static_assert(geometry::words <= geometry::word_bits);

}  // namespace tvec::detail
