/// \file
/// A wheel seen from outside: whether it is sound, its timers counted by level and slot, and both
/// as text.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tvec/core/detail/export.hpp"
#include "tvec/core/timer_wheel.hpp"

namespace tvec {

/// Checks every structural invariant of the wheel. Returns the first broken one, with its numbers;
/// an empty string if all hold. Reads every timer: O(slots + timers). May be called at any time,
/// also from a callback. A wheel that fails has been written to from outside: by a second thread,
/// or through a timer that was freed or copied byte by byte.
TVEC_API std::string check(const timer_wheel& wheel);

/// The result of `take_census`: plain data of about 25 KB, independent of the wheel.
struct census {
    /// The timers linked in a slot.
    struct slot {
        std::uint64_t pending = 0;  ///< timers that are going to fire
        std::uint64_t idle = 0;     ///< cancelled timers that were not visited since
        /// Returns the number of all of them.
        std::uint64_t linked() const noexcept { return pending + idle; }
    };

    /// The timers linked in a level, or in the overflow.
    struct level {
        std::uint64_t pending = 0;  ///< in all its slots
        std::uint64_t idle = 0;     ///< in all its slots
        std::uint64_t longest = 0;  ///< in its fullest slot, idle timers included
        unsigned slots_used = 0;    ///< slots that hold a timer
    };

    jiffies now = 0;                      ///< the wheel's time
    std::uint64_t pending = 0;            ///< in all levels
    std::uint64_t idle = 0;               ///< in all levels
    std::optional<jiffies> first_expiry;  ///< of the pending timers, except those for `never`
    std::optional<jiffies> last_expiry;   ///< of the same timers

    /// The number of the overflow in `levels`. The root is 0, the levels above it are 1 to 4.
    static constexpr unsigned overflow = detail::geometry::overflow;

    /// The root, levels 1 to 4, and the overflow together with the timers armed for `never`.
    std::array<level, overflow + 1> levels{};

    /// The slots of all levels, in the order of the wheel: `at` finds one.
    std::array<slot, detail::geometry::total_slots> slot_counts{};

    /// Returns the number of slots of level `n`, or of the overflow.
    static constexpr unsigned slots_of(unsigned n) noexcept { return detail::geometry::ring_of(n); }

    /// Returns how many ticks a slot of level `n` spans.
    static constexpr jiffies width_of(unsigned n) noexcept { return detail::geometry::width_of(n); }

    /// Returns slot `i` of level `n`, or of the overflow. Requires i < slots_of(n).
    const slot& at(unsigned n, unsigned i) const noexcept {
        assert(n <= overflow && i < slots_of(n) && "the level has such a slot");
        return slot_counts[detail::geometry::first_slot_of(n) + i];
    }

    /// Returns the visit of slot `i` of level `n`, or of the overflow. Requires i < slots_of(n).
    jiffies visit_of(unsigned n, unsigned i) const noexcept {
        assert(n <= overflow && i < slots_of(n) && "the level has such a slot");
        return detail::geometry::visit_of(n, detail::geometry::first_slot_of(n) + i, now);
    }

    /// Returns the slot of the timers armed for `never`.
    const slot& at_never() const noexcept { return slot_counts[detail::geometry::never_slot]; }
};

/// Counts the timers linked in `wheel`. Reads every timer: O(slots + timers). May be called at any
/// time, also from a callback.
TVEC_API census take_census(const timer_wheel& wheel) noexcept;

/// Returns a census as text for programs such as scripts/wheel_view. A line consists of words
/// between single spaces. The first word names the line. Readers skip lines with names they do not
/// know:
///
///     tvec-census 1                    the version: it changes if a line loses or moves a word
///     now TICK
///     first_expiry TICK                "none" where there is none, here and below
///     last_expiry TICK
///     level LEVEL WIDTH SLOTS          0 is the root; a slot spans WIDTH ticks
///     slot TICK PENDING IDLE           a slot of that level: its visit, and its timers
///     overflow PENDING IDLE            the timers beyond the levels
///
/// Empty slots have no line. Each of the others takes about 20 bytes.
TVEC_API std::string to_text(const census& counted);

/// Returns a wheel as text for people: its time, its counters, a line per level, and up to `timers`
/// of its timers, level by level, with their addresses.
TVEC_API std::string dump(const timer_wheel& wheel, std::size_t timers = 32);

}  // namespace tvec
