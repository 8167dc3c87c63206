/// \file
/// The shape of the wheel: its levels, its slots, and the slot for each deadline.
///
///     level   slots   slot width   lap          laps   reach of a delay     at 1 ms ticks
///     root    256     1            2^8          2      < 2^9                0.5 s
///     1        64     2^8          2^14         4      < 2^16               66 s
///     2        64     2^14         2^20         2      < 2^21               35 min
///     3        64     2^20         2^26         2      < 2^27               37 h
///     4        64     2^26         2^32         2      < 2^33               99 days
///
/// These are the digits of the kernel's `tvec_base`: 8 + 6 + 6 + 6 + 6 bits. Every level has the
/// slots of two laps, the one being run and the next one: its reach is twice its lap. Level 1 has
/// the slots of four laps, which keeps the usual timeouts of a minute out of level 2. Longer delays
/// wait in the slots of the overflow, see overflow_slot_for.
///
/// A slot is a cache line of eight chains.
///
/// TVEC_SMALL_WHEEL, the build option `small_wheel`, makes wheels of 11 KB instead of 81. An upper
/// level has 32 slots in a lap, and every slot is one chain (docs/limits.md):
///
///     level   slots   slot width   lap          laps   reach of a delay     at 1 ms ticks
///     root    256     1            2^8          2      < 2^9                0.5 s
///     1        32     2^8          2^13         4      < 2^15               33 s
///     2        32     2^13         2^18         2      < 2^19               9 min
///     3        32     2^18         2^23         2      < 2^24               5 h
///     4        32     2^23         2^28         2      < 2^29               6 days
///
/// TVEC_TINY_WHEEL, `-Dsmall_wheel=tiny`, makes wheels for devices (docs/c.md#small-devices):
/// of 2.3 KB with pointers of 32 bits. A level has the 64 slots of an occupancy word, which wastes
/// none. A slot holds at most 2^19 timers: the proofs need that it can leave the overflow in a lap.
///
///     level   slots   slot width   lap          laps   reach of a delay     at 1 ms ticks
///     root     32     1            2^5          2      < 2^6                64 ms
///     1        32     2^5          2^10         2      < 2^11               2 s
///     2        32     2^10         2^15         2      < 2^16               66 s
///
/// Everything here is constexpr, without pointers and without a wheel.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <array>
#include <bit>
#include <cassert>
#include <cstdint>

#include "tvec/core/detail/jiffies.hpp"
#include "tvec/core/detail/shape.hpp"

namespace tvec::detail::geometry {

inline constexpr unsigned root_bits = shape[0];     ///< log2 of the slots of a lap of the root
inline constexpr unsigned level_bits = shape[1];    ///< the same of an upper level
inline constexpr unsigned levels = shape[2];        ///< the root and four upper levels
inline constexpr unsigned level_1_laps = shape[3];  ///< laps that level 1 has slots for
inline constexpr unsigned chunk = shape[4];         ///< timers moved ahead of time, for each tick
inline constexpr unsigned chains_per_slot = shape[5];  ///< a cache line of them, or one
inline constexpr unsigned root = 0;                    ///< the lowest level
inline constexpr unsigned overflow = levels;           ///< the "level" of deadlines beyond level 4
inline constexpr unsigned word_bits = 64;              ///< slots per occupancy word

/// Returns log2 of the ticks that a slot of `level` spans. The overflow counts in laps of the whole
/// wheel.
constexpr unsigned shift_of(unsigned level) noexcept {
    assert(level <= overflow && "a level is the root, an upper level or the overflow");
    return level == root ? 0 : root_bits + (level - 1) * level_bits;
}

/// Returns how many ticks a slot of `level` spans.
constexpr jiffies width_of(unsigned level) noexcept { return jiffies{1} << shift_of(level); }

/// Returns the number of slots of `level` in all its laps: the one being run, and the next ones. A
/// power of two, except for the overflow, which has a slot for each bit of a tick above a lap of
/// the wheel.
constexpr unsigned ring_of(unsigned level) noexcept {
    assert(level <= overflow && "a level is the root, an upper level or the overflow");
    if (level == overflow) return 63 - shift_of(overflow);
    return (level == 1 ? level_1_laps : 2) << (level == root ? root_bits : level_bits);
}

/// Returns the number of occupancy words for a number of slots.
constexpr unsigned words_for(unsigned slot_count) noexcept {
    return (slot_count + word_bits - 1) / word_bits;
}

namespace tables {

constexpr std::array<unsigned, levels + 1> make_first_slots() noexcept {
    std::array<unsigned, levels + 1> first{};
    for (unsigned level = root; level < overflow; ++level)
        first[level + 1] = first[level] + words_for(ring_of(level)) * word_bits;
    return first;
}

inline constexpr auto first_slots = make_first_slots();

}  // namespace tables

/// Returns the first slot of `level`. Each level starts on an occupancy word of its own.
constexpr unsigned first_slot_of(unsigned level) noexcept { return tables::first_slots[level]; }

inline constexpr unsigned beyond = first_slot_of(overflow) + ring_of(overflow);  ///< always empty
inline constexpr unsigned never_slot = beyond + 1;       ///< for timers that are armed for `never`
inline constexpr unsigned total_slots = never_slot + 1;  ///< of all levels
inline constexpr unsigned words = words_for(total_slots);  ///< of all levels

/// Returns the level that slot `s` belongs to.
constexpr unsigned level_with(unsigned s) noexcept {
    assert(s < total_slots && "a slot belongs to a level");
    unsigned level = root;
    while (level < overflow && s >= first_slot_of(level + 1)) ++level;
    return level;
}

/// Returns the slot of `level` that `tick` belongs to. Requires that `level` is not the overflow.
constexpr unsigned slot_at(unsigned level, jiffies tick) noexcept {
    assert(level != overflow && "the overflow has no ring of slots");
    const auto position = static_cast<unsigned>(tick >> shift_of(level));
    return first_slot_of(level) + (position & (ring_of(level) - 1));
}

/// Returns the first tick of the slot of `level` that `tick` belongs to: the tick of its visit.
constexpr jiffies entry_of(unsigned level, jiffies tick) noexcept {
    return tick >> shift_of(level) << shift_of(level);
}

/// Returns the number of the highest bit of `delta`; 0 for 0. The xor is a subtraction that
/// compilers optimize.
constexpr unsigned log2_of(jiffies delta) noexcept {
    return static_cast<unsigned>(std::countl_zero(delta | 1)) ^ (word_bits - 1);
}

/// Returns the lowest level that reaches `delta` ticks ahead, or `overflow`.
///
/// A delay that goes to an upper level is at least two of its slots long. Therefore no timer is
/// ever placed in the slot being run, or in the next one, which is emptied ahead.
constexpr unsigned level_of(jiffies delta) noexcept {
    const unsigned log2 = log2_of(delta);
    unsigned level = root;
    while (level < overflow && log2 >= shift_of(level) + log2_of(ring_of(level))) ++level;
    return level;
}

namespace tables {

/// `level_of` and `slot_at` as a table by log2 of the delay. Placing has no branch on the level. A
/// tiny wheel is for devices, and has it in bytes.
#ifdef TVEC_TINY_WHEEL
using number = std::uint8_t;
#else
using number = std::uint32_t;
#endif
struct placement {
    std::array<number, word_bits> first, mask, shift, level;
};

constexpr placement make_placements() noexcept {
    placement by_log2{};
    for (unsigned log2 = 0; log2 < word_bits; ++log2) {
        const unsigned level = level_of(jiffies{1} << log2);
        const bool is_beyond = level == overflow;
        by_log2.first[log2] = narrow_to<number>(is_beyond ? beyond : first_slot_of(level));
        by_log2.mask[log2] = narrow_to<number>(is_beyond ? 0 : ring_of(level) - 1);
        by_log2.shift[log2] = narrow_to<number>(shift_of(level));
        by_log2.level[log2] = narrow_to<number>(level);
    }
    return by_log2;
}

inline constexpr auto placements = make_placements();
static_assert(total_slots - 1 <= static_cast<number>(-1) && word_bits <= static_cast<number>(-1));

}  // namespace tables

/// Returns the slot for a timer that expires `at`, seen from `now`. Returns `beyond` if no level
/// reaches that far. Requires now <= at.
constexpr unsigned slot_for(jiffies at, jiffies now) noexcept {
    assert(now <= at && "a deadline that has passed has no slot");
    const auto& to = tables::placements;
    const unsigned log2 = log2_of(at - now);
    return (static_cast<unsigned>(at >> to.shift[log2]) & to.mask[log2]) + to.first[log2];
}

/// Returns the level of that slot, or `overflow`.
constexpr unsigned level_for(jiffies at, jiffies now) noexcept {
    assert(now <= at && "a deadline that has passed has no slot");
    return tables::placements.level[log2_of(at - now)];
}

// --- the overflow -------------------------------------------------------------------------------
//
// The overflow counts time in laps of the whole wheel. A timer has to be on level 4 when the lap
// begins in which it expires. It leaves the overflow in the lap before, its *last* one. It waits
// in the slot of the highest bit in which its last lap differs from the running one. When that bit
// of the running lap becomes 1, and all bits below it 0, the timer is placed again: on level 4, or
// in a lower slot. A timer moves at most once for each bit. Each lap has one slot to be emptied,
// that of the lowest 1. No timer is linked to that slot in this lap.

/// Returns the lap of the whole wheel that `now` is in. The first tick of a lap counts as the end
/// of the lap before, because the slot of that lap may not be empty yet.
constexpr jiffies lap_at(jiffies now) noexcept { return (now - (now != 0)) >> shift_of(overflow); }

/// Returns the slot of the overflow for a timer that expires `at`. Requires that `at` is at least
/// two laps of the wheel after `now`.
constexpr unsigned overflow_slot_for(jiffies at, jiffies now) noexcept {
    const jiffies last = (at >> shift_of(overflow)) - 1;
    assert(last > lap_at(now) && "the levels reach the next lap");
    return first_slot_of(overflow) + log2_of(last ^ lap_at(now));
}

/// Returns the slot of `level` that has to be empty when tick `entry` is done. Requires that
/// `entry` is the first tick of a slot.
constexpr unsigned slot_before(unsigned level, jiffies entry) noexcept {
    assert(entry == entry_of(level, entry) && "a slot is entered at the first tick of a lap");
    if (level != overflow) return slot_at(level, entry);
    const jiffies none = jiffies{1} << ring_of(overflow);  // 0 has no lowest 1
    return first_slot_of(overflow) + static_cast<unsigned>(std::countr_zero(lap_at(entry) | none));
}

/// Returns when a wheel at `now` visits slot `s` of `level`. The slot of `now` itself is visited
/// now while its first tick is being run. Otherwise it is visited a whole ring later.
constexpr jiffies visit_of(unsigned level, unsigned s, jiffies now) noexcept {
    assert(now < never && "a wheel stops before `never`");
    assert(s < beyond && level_with(s) == level && "a slot is visited on its own level");
    const jiffies entry = entry_of(level, now), width = width_of(level);
    if (entry == now && s == slot_before(level, now)) return now;
    if (level != overflow) {
        const unsigned ahead = (s - slot_at(level, now)) & (ring_of(level) - 1);
        return entry + (ahead == 0 ? ring_of(level) : ahead) * width;
    }
    if (s == slot_before(overflow, entry + width)) return entry + width;
    const unsigned bit = s - first_slot_of(overflow);
    const jiffies lap = entry / width;
    return ((((lap >> bit) | 1) << bit) + 1) * width;
}

}  // namespace tvec::detail::geometry
