/// \file
/// The shape of the wheel: how many levels, how many slots, and where a timer goes.
///
///     level   slots   slot width   lap          reach of a delay     at 1 ms ticks
///     root    256     1            2^8          < 2^9                0.5 s
///     1        64     2^8          2^14         < 2^15               33 s
///     2        64     2^14         2^20         < 2^21               35 min
///     3        64     2^20         2^26         < 2^27               37 h
///     4        64     2^26         2^32         < 2^33               99 days
///     (longer delays wait in an overflow slot and are placed again a lap of 2^32 ticks ahead)
///
/// These are the digits of the kernel's `tvec_base`: 8 + 6 + 6 + 6 + 6 bits. Every level owns the
/// slots of two laps, the one being run and the one to come, so its reach is twice its lap.
///
/// Everything here is constexpr and knows neither pointers nor a wheel.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace tvec {

/// A point in time, or a span of it, on a wheel's own clock: a count of ticks. 63 bits are used.
using jiffies = std::uint64_t;

/// The tick that does not come: `advance` stops before it, and longer delays saturate at it.
inline constexpr jiffies never = (jiffies{1} << 63) - 1;

namespace detail {

/// The tick that comes `delay` after `from`, saturating at `never`. Requires from <= never.
constexpr jiffies later(jiffies from, jiffies delay) noexcept {
    return delay < never - from ? from + delay : never;
}

}  // namespace detail

namespace geometry {

#ifndef TVEC_TINY_GEOMETRY
inline constexpr unsigned root_bits = 8;   ///< log2 of the slots of a lap of the root
inline constexpr unsigned level_bits = 6;  ///< the same of every upper level
inline constexpr unsigned levels = 5;      ///< the root and four upper levels
#else  // test programs visit every state of wheels this small: "root_bits, level_bits, levels"
inline constexpr unsigned tiny[] = {TVEC_TINY_GEOMETRY};
inline constexpr unsigned root_bits = tiny[0];
inline constexpr unsigned level_bits = tiny[1];
inline constexpr unsigned levels = tiny[2];
#endif
inline constexpr unsigned root = 0;             ///< the lowest level
inline constexpr unsigned overflow = levels;    ///< the "level" of what is beyond level 4
inline constexpr unsigned laps = 2;             ///< per level: the one being run, the one to come
inline constexpr unsigned chains_per_slot = 4;  ///< walked in lock step, so that misses overlap
inline constexpr unsigned word_bits = 64;       ///< slots per occupancy word

/// log2 of the ticks that a slot of `level` spans; of the whole wheel's lap for `overflow`.
constexpr unsigned shift_of(unsigned level) noexcept {
    return level == root ? 0 : root_bits + (level - 1) * level_bits;
}

/// The ticks that a slot of `level` spans.
constexpr jiffies width_of(unsigned level) noexcept { return jiffies{1} << shift_of(level); }

/// The slots of `level`, both laps together. A power of two.
constexpr unsigned ring_of(unsigned level) noexcept {
    return laps << (level == root ? root_bits : level_bits);
}

/// The occupancy words of `level`. Each level starts on a word of its own.
constexpr unsigned words_of(unsigned level) noexcept {
    return (ring_of(level) + word_bits - 1) / word_bits;
}

/// The wheel's slots stand in one array, level after level. This is the first one of `level`.
constexpr unsigned first_slot_of(unsigned level) noexcept {
    return level == root ? 0 : (words_of(root) + (level - 1) * words_of(root + 1)) * word_bits;
}

inline constexpr unsigned beyond = first_slot_of(overflow);   ///< no slot: says "to overflow_slot"
inline constexpr unsigned overflow_slot = beyond + 1;         ///< what is beyond level 4
inline constexpr unsigned overflow_rest = overflow_slot + 1;  ///< what a visit has yet to place
inline constexpr unsigned slots = overflow_rest + 1;          ///< of all levels
inline constexpr unsigned words = overflow_rest / word_bits + 1;  ///< of all levels

/// The slot of `level` that `tick` belongs to.
constexpr unsigned slot_at(unsigned level, jiffies tick) noexcept {
    const auto position = static_cast<unsigned>(tick >> shift_of(level));
    return first_slot_of(level) + (position & (ring_of(level) - 1));
}

/// The first tick of the slot of `level` that `tick` belongs to: when the wheel visits it.
constexpr jiffies entry_of(unsigned level, jiffies tick) noexcept {
    return tick >> shift_of(level) << shift_of(level);
}

/// When a wheel at `now` comes to slot `s` of `level`. The slot of `now` itself is visited now only
/// if `now` is its first tick, while that is not done; else it belongs to the turn after.
constexpr jiffies visit_of(unsigned level, unsigned s, jiffies now) noexcept {
    const jiffies entry = entry_of(level, now);
    const unsigned ring = ring_of(level);
    const unsigned ahead = (s - slot_at(level, now) + ring) % ring;
    const bool next_turn = ahead == 0 && entry < now;
    return entry + (next_turn ? ring : ahead) * width_of(level);
}

/// The highest bit of `delta`; 0 for 0. The xor is a subtraction that compilers see through.
constexpr unsigned log2_of(jiffies delta) noexcept {
    return static_cast<unsigned>(std::countl_zero(delta | 1)) ^ (word_bits - 1);
}

/// The lowest level that reaches `delta` ticks ahead, or `overflow`.
///
/// A delay that goes to an upper level is at least two of its slots long. So nothing is ever
/// placed in the slot being run or in the one after it, which is being emptied ahead of time.
constexpr unsigned level_of(jiffies delta) noexcept {
    const unsigned log2 = log2_of(delta);
    unsigned level = root;
    while (level < overflow && log2 > shift_of(level + 1)) ++level;
    return level;
}

namespace detail {

/// `level_of` and `slot_at` as a table by log2 of the delay: placing has no branch on the level.
struct placement {
    std::array<std::uint32_t, word_bits> first, mask, shift;
};

constexpr placement make_placements() noexcept {
    placement rows{};
    for (unsigned log2 = 0; log2 < word_bits; ++log2) {
        const unsigned level = level_of(jiffies{1} << log2);
        const unsigned mask = level == overflow ? 0 : ring_of(level) - 1;
        rows.first[log2] = first_slot_of(level);
        rows.mask[log2] = mask;
        rows.shift[log2] = shift_of(level);
    }
    return rows;
}

inline constexpr auto placements = make_placements();

}  // namespace detail

/// The slot for a timer that expires `at`, seen from `now`. Requires now <= at.
constexpr unsigned slot_for(jiffies at, jiffies now) noexcept {
    const auto& to = detail::placements;
    const unsigned row = log2_of(at - now);
    return (static_cast<unsigned>(at >> to.shift[row]) & to.mask[row]) + to.first[row];
}

/// When the overflow slot has to be visited for a timer that expires `at`: a lap ahead of it.
constexpr jiffies overflow_visit_of(jiffies at) noexcept {
    return entry_of(overflow, at) - width_of(overflow);
}

}  // namespace geometry
}  // namespace tvec
