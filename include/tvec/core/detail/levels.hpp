/// \file
/// The slots of all levels, and the bits of those that may hold a timer.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

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
    explicit levels(wheel_tag tag) noexcept : tag_(tag) {
        for (chain& c : chains_) c.reset(sentinel_);
    }
    levels(const levels&) = delete;
    levels& operator=(const levels&) = delete;

    bool occupied(unsigned s) const noexcept {
        assert(s < geometry::total_slots && "the wheel has such a slot");
        return words_[s / word_bits] & bit_of(s);
    }
    void set_occupied(unsigned s) noexcept {
        assert(s < geometry::beyond && "only slots that are visited have a bit");
        words_[s / word_bits] |= bit_of(s);
        words_used_ |= bit_of(s / word_bits);
    }

    slot operator[](unsigned s) noexcept {
        assert(s < geometry::total_slots && "the wheel has such a slot");
        return {&chains_[s * width], counts_[s], sentinel_};
    }
    /// Returns whether slot `s` is empty. If so, clears its bit and its count.
    bool settle_if_empty(unsigned s) noexcept {
        assert(s < geometry::beyond && "only slots that are visited have a bit");
        if (counts_[s] != 0 && !(*this)[s].empty()) return false;
        const unsigned w = s / word_bits;
        words_[w] &= ~bit_of(s);
        if (words_[w] == 0) words_used_ &= ~bit_of(w);
        counts_[s] = 0;
        return true;
    }

    /// Returns an upper bound of the timers in slot `s`: unlinking does not count.
    link_count at_most(unsigned s) const noexcept { return counts_[s]; }
    /// Links `node` to slot `s`.
    void push(unsigned s, link& node) noexcept {
        assert(s != geometry::beyond && "nothing hangs in the slot that stays empty");
        assert(counts_[s] != std::numeric_limits<link_count>::max() &&
               "bound_count keeps counts from wrapping");
        chains_[s * width + counts_[s]++ % width].push(node, tag_);
    }
    /// Keeps the count of slot `s` from wrapping, however often timers are linked and unlinked
    /// there. To be called from time to time. The count stays an upper bound, and the next link
    /// goes to the same chain.
    void bound_count(unsigned s) noexcept {
        if (counts_[s] > most_counted) counts_[s] -= most_counted / 2 + 1;
    }

    /// Returns how many slots ahead of the slot of `tick` the next slot of `level` is that holds a
    /// timer; 0 if none does. From 1 to the whole ring: the slot of `tick` itself comes last, a
    /// whole ring ahead. Clears stale bits on the way, and gives up after some: the slot may be
    /// empty then. Requires that `level` is not the overflow.
    /// Inlined: the shape of the root is constant where its slots are searched.
    [[gnu::always_inline]] unsigned next_occupied(unsigned level, jiffies tick) noexcept {
        assert(level < geometry::levels && "the overflow has no ring of slots");
        const unsigned ahead = next_marked(level, tick);
        assert(ahead <= geometry::ring_of(level) && "the slot of `tick` is a whole ring ahead");
        const unsigned s = geometry::slot_at(level, tick + ahead * geometry::width_of(level));
        if (ahead == 0 || !settle_if_empty(s)) [[likely]]
            return ahead;
        return pass_over_empty(level, tick);
    }

    /// Returns the first slot of the overflow to be emptied after `tick`, or `beyond`. Clears stale
    /// bits on the way, and gives up after some: the slot may be empty then.
    unsigned next_occupied_of_overflow(jiffies tick) noexcept {
        assert(tick < never && "a wheel stops before `never`");
        constexpr unsigned level = geometry::overflow, first = geometry::first_slot_of(level);
        const jiffies next_lap = geometry::entry_of(level, tick) + geometry::width_of(level);
        const unsigned running = geometry::slot_before(level, next_lap);
        unsigned left = 1 + most_passed_over(level);
        while (const std::uint64_t bits = words_[first / word_bits]) {
            const auto lowest = first + static_cast<unsigned>(std::countr_zero(bits));
            const unsigned s = occupied(running) ? running : lowest;
            if (left-- == 0 || !settle_if_empty(s)) return s;
        }
        return geometry::beyond;
    }

    /// Returns how many more slots of `level` a search passes over once it has found an empty one.
    /// Bounds what a call costs after many timers were destroyed. A slot that is left is visited in
    /// vain. Above the root that is seldom, and a tick may search all levels.
    static constexpr unsigned most_passed_over(unsigned level) noexcept {
        return geometry::chunk / (level == geometry::root ? 4 : 32);
    }

    /// Calls visit(slot, const link&) for each link in any slot.
    template <class F> void for_each(F visit) const {
        for (unsigned s = 0; s < geometry::total_slots; ++s)
            for_each_in(s, [&](const link& l) { visit(s, l); });
    }
    /// Calls visit(const link&) for each link in slot `s`.
    template <class F> void for_each_in(unsigned s, F visit) const {
        any_in(s, [&](const link& l) {
            visit(l);
            return false;
        });
    }
    /// Returns whether is(slot) holds for any slot that may hold a link, that of `never` included.
    /// Stops at the first such slot.
    template <class F> bool any_marked(F is) const {
        for (unsigned s = marked_from(0); s != geometry::total_slots; s = marked_from(s + 1))
            if (is(s)) return true;
        return false;
    }
    /// Returns the first such slot from `s` on, or `slots` if there is none.
    unsigned marked_from(unsigned s) const noexcept {
        std::uint64_t passed = bit_of(s) - 1;
        for (unsigned w = s / word_bits; w < geometry::words; ++w, passed = 0)
            if (const std::uint64_t bits = words_[w] & ~passed; bits != 0)
                return w * word_bits + static_cast<unsigned>(std::countr_zero(bits));
        return s <= geometry::never_slot ? geometry::never_slot : geometry::total_slots;
    }
    /// Returns whether is(const link&) holds for any link in any slot. Looks into occupied slots
    /// only, and stops at the first such link.
    template <class F> bool any_of(F is) const {
        return any_marked([&](unsigned s) { return any_in(s, is); });
    }
    /// The position of a walk. Its marker is linked behind the link that was shown: links may come
    /// and go, but none must be popped. The marker is not counted.
    struct position {
        link& marker;
        unsigned slot;      ///< `slots` at the end of the walk
        position* outer{};  ///< of the walk whose visitor walks
    };
    /// Begins a walk.
    void enter(position& p) noexcept { p.outer = std::exchange(innermost_, &p); }
    /// Ends the walk that was begun last. Its marker must be unlinked.
    void leave(position& p) noexcept {
        assert(innermost_ == &p && !p.marker.linked() && "walks end in reverse order");
        innermost_ = p.outer;
    }
    /// Returns whether `l` is the marker of a walk: no timer of the program.
    bool is_marker(const link& l) const noexcept {
        const position* p = innermost_;
        while (p != nullptr && &p->marker != &l) p = p->outer;
        return p != nullptr;
    }
    /// Unlinks all markers: the walks have come to their end.
    void unlink_markers() noexcept {
        for (position* p = innermost_; p != nullptr; p = p->outer) {
            if (p->marker.linked()) p->marker.unlink();
            p->slot = geometry::total_slots;
        }
    }
    /// Unlinks each link in any slot, and calls take(link&) for it. `take` must link nothing here.
    /// Clears all bits and counts.
    template <class F> void pop_all(F take) noexcept {
        any_marked([&](unsigned s) {
            (*this)[s].pop_each(~std::size_t{0}, tag_, [&](link& l) { take(l); });
            return false;
        });
        words_used_ = 0;
        words_.fill(0);
        counts_.fill(0);
    }

    const chain& chain_of(unsigned s, unsigned k) const noexcept {
        assert(s < geometry::total_slots && k < geometry::chains_per_slot &&
               "the slot has such a chain");
        return chains_[s * width + k];
    }
    wheel_tag tag() const noexcept { return tag_; }

    /// See timer_wheel::on_earlier_wakeup. Here because there is room before the chains.
    void set_listener(void (*tell)(void*) noexcept, void* whom) noexcept {
        tell_ = tell;
        whom_ = whom;
    }
    void tell_listener() const noexcept {
        if (tell_ != nullptr) tell_(whom_);
    }
    const link& sentinel() const noexcept { return sentinel_; }

private:
    friend class inspector;
    friend class ::tvec::snapshot;

    static constexpr std::size_t width = geometry::chains_per_slot;
    static constexpr unsigned word_bits = geometry::word_bits;
    static constexpr link_count most_counted = std::numeric_limits<link_count>::max() / 2;
    static std::uint64_t bit_of(unsigned s) noexcept { return std::uint64_t{1} << s % word_bits; }

    template <class F> bool any_in(unsigned s, F is) const {
        for (unsigned k = 0; k < width; ++k) {
            const chain& c = chain_of(s, k);
            link::expect_link_at(c.first_pointer());
            for (const link* l = c.first(); l != &sentinel_; l = l->next) {
                link::expect_link_at(l->next);
                if (is(*l)) return true;
            }
        }
        return false;
    }

    /// Does what `next_occupied` does, without a look at the slots: the bit may be stale.
    unsigned next_marked(unsigned level, jiffies tick) const noexcept {
        const unsigned ring = geometry::ring_of(level);
        const unsigned words = geometry::words_for(ring);
        const unsigned first = geometry::first_slot_of(level) / word_bits;
        const std::uint64_t used = words_used_ >> first & ((std::uint64_t{1} << words) - 1);
        if (used == 0) return 0;
        // Masks and no remainders, which are divisions where `level` is not a constant.
        const unsigned from =
            (static_cast<unsigned>(tick >> geometry::shift_of(level)) + 1) & (ring - 1);
        unsigned word = from / word_bits;
        std::uint64_t bits = words_[first + word] & ~std::uint64_t{0} << from % word_bits;
        if (bits == 0) {  // the next used word; this one comes last
            const unsigned after = word + 1;
            const std::uint64_t turned = (used | used << words) >> after;
            word = (after + static_cast<unsigned>(std::countr_zero(turned))) & (words - 1);
            bits = words_[first + word];
        }
        assert(bits != 0 && "a word that is marked as used has a bit");
        const unsigned found = word * word_bits + static_cast<unsigned>(std::countr_zero(bits));
        return ((found - from) & (ring - 1)) + 1;
    }

    /// Goes on with a search that has found an empty slot: passes over some more.
    [[gnu::noinline]] unsigned pass_over_empty(unsigned level, jiffies tick) noexcept {
        for (unsigned left = most_passed_over(level);;) {
            const unsigned ahead = next_marked(level, tick);
            if (ahead == 0 || left == 0) return ahead;
            const unsigned s = geometry::slot_at(level, tick + ahead * geometry::width_of(level));
            const unsigned passed = settle_from(s, left);
            if (passed == 0) return ahead;
            left -= passed;
        }
    }

    /// Clears the bits and counts of up to `most` marked slots from `s` to the end of its word,
    /// up to the first that is not empty. Returns of how many.
    unsigned settle_from(unsigned s, unsigned most) noexcept {
        const unsigned w = s / word_bits;
        const std::uint64_t before = bit_of(s) - 1;
        std::uint64_t marked = words_[w] & ~before;
        unsigned passed = 0;
        for (; marked != 0 && passed != most; ++passed, marked &= marked - 1) {
            s = w * word_bits + static_cast<unsigned>(std::countr_zero(marked));
            if (!(*this)[s].empty()) break;
            counts_[s] = 0;
        }
        words_[w] = marked | (words_[w] & before);
        if (words_[w] == 0) words_used_ &= ~bit_of(w);
        return passed;
    }

    wheel_tag tag_;
    link sentinel_ = new_sentinel;
    std::uint64_t words_used_ = 0;  ///< a bit for each word that is not 0
    std::array<std::uint64_t, geometry::words> words_{};
    std::array<link_count, geometry::total_slots> counts_{};
    position* innermost_ = nullptr;  ///< of the walks that are under way
    void (*tell_)(void*) noexcept = nullptr;
    void* whom_ = nullptr;
    alignas(64) std::array<chain, geometry::total_slots * width> chains_;
};

static_assert(geometry::words <= geometry::word_bits);

}  // namespace tvec::detail
