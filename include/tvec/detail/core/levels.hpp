/// \file
/// The slots of all levels, and which of them may hold something.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "tvec/detail/core/slot.hpp"
#include "tvec/geometry.hpp"

namespace tvec::detail {

/// Rings of slots, one per level, and an occupancy bit per slot.
///
/// A bit is set when a timer is linked, and cleared when a visit finds the slot empty: unlinking
/// needs no wheel and so leaves the bit. A set bit may be stale, a clear one never is. A slot whose
/// count is not 0 has its bit set, so that linking there need not look at the bit.
/// The overflow slots have no bit.
class levels {
public:
    explicit levels(owner_tag owner) noexcept : owner_(owner) {
        for (slot& s : slots_) s.reset(sentinel_);
    }
    levels(const levels&) = delete;
    levels& operator=(const levels&) = delete;

    bool occupied(unsigned s) const noexcept { return words_[s / word_bits] & bit_of(s); }
    void set_occupied(unsigned s) noexcept { words_[s / word_bits] |= bit_of(s); }

    bool empty(unsigned s) const noexcept { return slots_[s].empty(sentinel_); }
    /// Whether slot `s` is empty. If it is, its bit and its count say so from now on.
    bool settle_if_empty(unsigned s) noexcept {
        if (!empty(s)) return false;
        words_[s / word_bits] &= ~bit_of(s);
        counts_[s] = 0;
        return true;
    }
    /// At least how many timers hang in slot `s`; fewer if some have unlinked themselves.
    std::uint64_t at_most(unsigned s) const noexcept { return counts_[s]; }
    void push(unsigned s, link& node) noexcept { slots_[s].push(node, owner_, counts_[s]); }
    link* pop(unsigned s) noexcept { return slots_[s].pop(sentinel_, counts_[s]); }
    void take(unsigned to, unsigned from) noexcept {
        slots_[to].take(slots_[from], sentinel_, owner_);
        counts_[to] = std::exchange(counts_[from], 0);
    }

    /// How many slots of `level` ahead of the one of `tick` the next is that holds a timer, or 0
    /// if none does. From 1 to the whole ring: the slot of `tick` itself comes last, a full turn
    /// away. Clears the bits that it finds stale.
    unsigned next_occupied(unsigned level, jiffies tick) noexcept {
        for (;;) {
            const unsigned ahead = next_marked(level, tick);
            const unsigned s = geometry::slot_at(level, tick + (jiffies{ahead} << shift(level)));
            if (ahead == 0 || !settle_if_empty(s)) return ahead;
        }
    }

    /// Calls visit(const link&) for all that hangs in slot `s`.
    template <class F> void for_each_in(unsigned s, F visit) const {
        for (unsigned i = 0; i < slot::chains; ++i)
            for (const link* l = slots_[s][i].first(); l != &sentinel_; l = l->next) visit(*l);
    }

    const slot& operator[](unsigned s) const noexcept { return slots_[s]; }
    const link& sentinel() const noexcept { return sentinel_; }
    owner_tag owner() const noexcept { return owner_; }

private:
    static constexpr unsigned word_bits = geometry::word_bits;
    static constexpr unsigned shift(unsigned level) noexcept { return geometry::shift_of(level); }
    static std::uint64_t bit_of(unsigned s) noexcept { return std::uint64_t{1} << s % word_bits; }

    /// As `next_occupied`, but takes the bits at their word.
    unsigned next_marked(unsigned level, jiffies tick) const noexcept {
        const unsigned ring = geometry::ring_of(level);
        const unsigned words = geometry::words_of(level);
        const std::uint64_t* const first = &words_[geometry::first_slot_of(level) / word_bits];
        const unsigned from = static_cast<unsigned>((tick >> shift(level)) + 1) % ring;
        std::uint64_t bits = first[from / word_bits] & ~std::uint64_t{0} << from % word_bits;
        for (unsigned i = 0; i <= words; ++i) {
            const unsigned word = (from / word_bits + i) % words;
            if (i != 0) bits = first[word];
            if (bits == 0) continue;
            const unsigned found = word * word_bits + static_cast<unsigned>(std::countr_zero(bits));
            return (found - from) % ring + 1;
        }
        return 0;
    }

    owner_tag owner_;
    link sentinel_;
    std::array<std::uint64_t, geometry::words> words_{};
    std::array<std::uint64_t, geometry::slots> counts_{};
    alignas(64) std::array<slot, geometry::slots> slots_;
};

}  // namespace tvec::detail
