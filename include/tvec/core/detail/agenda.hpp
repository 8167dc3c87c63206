/// \file
/// The agenda of a wheel: the next ticks at which it has something to do.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>

#include "tvec/core/detail/export.hpp"
#include "tvec/core/detail/geometry.hpp"

namespace tvec::detail {

/// The visit of a slot above the root: its level, and the tick by which the slot has to be empty,
/// which is the first tick of its lap.
struct upper_entry {
    unsigned level;
    jiffies entry;

    unsigned slot() const noexcept {
        assert(level != geometry::root && "the root's slots have one tick");
        return geometry::slot_before(level, entry);
    }
};

/// Returns timers / by. Both are counts of 32 bits, which a processor of 32 bits divides at once.
constexpr std::uint64_t share_of(std::uint64_t timers, std::uint64_t by) noexcept {
    assert(timers >> 32 == 0 && by >> 32 == 0 && by != 0 && "a slot counts timers in 32 bits");
    return static_cast<std::uint32_t>(timers) / static_cast<std::uint32_t>(by);
}

/// The rates at which a slot is emptied before its visit. They are fixed when emptying begins: a
/// share of the timers that are left would fall as the slot empties.
struct emptying {
    jiffies entry = 0;         ///< the slot has to be empty by this tick
    std::uint64_t rate = 0;    ///< upper bound of the timers to be moved in each tick until then
    std::uint64_t gentle = 0;  ///< timers per tick at which a loop that is awake begins earlier

    /// Returns the tick at which emptying has to begin, for `there` timers at `a_tick` timers per
    /// tick. It lies within the lap before, because `rate` is at least there / width. Requires
    /// there > 0 and a_tick > 0.
    jiffies start(std::uint64_t there, std::uint64_t a_tick) const noexcept {
        assert(there > 0 && a_tick > 0 && "an empty slot is not emptied");
        return entry - share_of(there - 1, a_tick);
    }

    /// Returns how many of `there` timers are to be moved at `now`: those that `rate` cannot move
    /// in time later. If that is more, up to a chunk of those that `gentle` cannot.
    /// Requires now < entry.
    std::uint64_t due(std::uint64_t there, jiffies now) const noexcept {
        assert(now < entry && "a slot is emptied ahead before its visit");
        assert(gentle > 0 && gentle <= rate && "a loop that is awake begins earlier");
        const jiffies ticks = entry - now;
        const std::uint64_t late = there - std::min(there, ticks * rate);
        const std::uint64_t soon = there - std::min(there, ticks * gentle);
        return std::max(late, std::min<std::uint64_t>(soon, geometry::chunk));
    }
};

/// The same in 16 bytes. A snapshot has them, so they are the same numbers on all machines.
struct packed_emptying {
    jiffies entry = 0;
    std::uint64_t rates = 0;

    static packed_emptying of(const emptying& e) noexcept {
        assert(e.gentle <= e.rate && e.rate >> 32 == 0 && "a slot has fewer than 2^32 timers");
        return {e.entry, e.rate << 32 | e.gentle};
    }
    emptying unpack() const noexcept { return {entry, rates >> 32, rates & 0xffff'ffff}; }
};

/// Sets `tick` to the smaller of the two. Unlikely to change once a few timers are armed.
inline void lower(jiffies& tick, jiffies to) noexcept {
    if (to < tick) [[unlikely]]
        tick = to;
}

/// The next ticks of the slots of some levels above the root.
struct upper_ticks {
    jiffies visit = never;  ///< the first visit of a slot
    jiffies may = never;    ///< the first tick at which a slot may be emptied ahead
    jiffies must = never;   ///< the first tick at which a slot has to be emptied ahead

    void lower(const upper_ticks& to) noexcept {
        detail::lower(visit, to.visit);
        detail::lower(may, to.may);
        detail::lower(must, to.must);
    }
    bool is_before(const upper_ticks& other) const noexcept {
        return visit <= other.visit && may <= other.may && must <= other.must;
    }
};

/// The ticks at which a wheel has something to do, and the rates at which slots are emptied.
///
/// Before `quiet` there is nothing to do. Before `wake` nothing has to be done. `quiet` is at most
/// `wake`. A loop that sleeps until `wake` does everything in time. A loop that is awake anyway
/// finds work from `quiet` on, and spreads it over more ticks.
class agenda {
public:
    /// The timers that a loop which is awake moves in a tick, at least. So few are moved together.
    static constexpr std::uint64_t few = (geometry::chunk + 7) / 8;

    /// Returns whether up to `there` timers of a slot leave it in any call of the lap before. Not
    /// in the overflow: the first tick of a lap counts as the one before there, and still links to
    /// it.
    static constexpr bool leaves_together(unsigned level, std::uint64_t there) noexcept {
        return there <= few && level != geometry::overflow;
    }

    /// Levels 1 and 2 are looked through without the levels above, whose slots are seldom visited.
    static constexpr unsigned apart = 2;

    /// Returns the first tick at which there is something to do.
    jiffies quiet() const noexcept { return quiet_; }
    /// Returns the first tick at which something has to be done.
    jiffies wake() const noexcept { return wake_; }
    /// Returns the next ticks of the slots above `level`, which is the root, level 1 or level 2.
    const upper_ticks& above(unsigned level) const noexcept {
        assert(level <= apart && "higher levels are looked through together");
        return above_[level];
    }
    /// Returns the highest level of which a slot may be emptied ahead at `now`, or the overflow.
    unsigned highest_to_empty(jiffies now) const noexcept {
        unsigned level = geometry::root + 1;
        while (level <= apart && now >= above_[level].may) ++level;
        return level <= apart ? level : geometry::overflow;
    }

    /// Notes that a slot of the root is visited at `tick`.
    void note_root(jiffies tick) noexcept {
        assert(tick < never && "`never` is not visited");
        lower(quiet_, tick);
        lower(wake_, tick);
    }

    /// Notes the visit of a slot above the root with up to `there` timers. Requires there > 0. A
    /// few timers leave their slot in any call of the lap before, and else at the visit: no rate is
    /// lower.
    void note(const upper_entry& v, std::uint64_t there, jiffies now) noexcept {
        assert(there > 0 && "an empty slot needs no visit");
        if (there > few) [[unlikely]]
            return note_many(v, there, now);
        const bool together = leaves_together(v.level, there);
        note(v, together ? v.entry - geometry::width_of(v.level) : v.entry, v.entry, now);
    }

    /// Forgets the slots of the levels up to `highest`, and of all if it is above level 2. The
    /// caller notes occupied slots again.
    void forget_up_to(unsigned highest) noexcept {
        const upper_ticks kept = highest <= apart ? above_[highest] : upper_ticks{};
        for (unsigned level = geometry::root; level <= apart && level < highest; ++level)
            above_[level] = kept;
    }

    /// Fixes the rates until the visit, and returns how many of `there` timers are to be moved now.
    std::uint64_t due(const upper_entry& v, std::uint64_t there, jiffies now) noexcept;

    /// Returns whether `there` timers can leave the slot before its visit, at the rate that `due`
    /// has fixed.
    bool is_in_time(const upper_entry& v, std::uint64_t there, jiffies now) const noexcept {
        assert(now < v.entry && "a slot is emptied ahead before its visit");
        assert(emptying_[v.level - 1].entry == v.entry && "`due` has fixed the rate");
        return there <= (v.entry - now) * emptying_[v.level - 1].unpack().rate;
    }

    /// Returns the rates for a slot that holds up to `there` timers: the fixed ones, or those that
    /// `due` would fix now. Requires there > 0 unless they were fixed.
    emptying plan(const upper_entry& v, std::uint64_t there) const noexcept;

    /// Notes that tick `now` is being run: `advance` in a callback does not take it for idle.
    void begin(jiffies now) noexcept { quiet_ = now; }
    /// Notes that work of tick `now` was left: the wheel is due at once.
    void leave(jiffies now) noexcept { wake_ = quiet_ = now; }
    /// Notes that all ticks up to `now` were run, and that the root is visited next at `root`.
    void rest(jiffies root, jiffies now) noexcept {
        assert(root > now && "the slot of the tick that was run is empty");
        wake_ = std::min(root, above_[0].must);
        quiet_ = std::min(root, std::max(above_[0].may, now + 1));
        assert(contradiction(now) == nullptr && "the cached ticks agree with each other");
    }
    /// Notes that the wheel was drained or walked over at tick `now`, and is to wake at `wake`.
    void rest_again(jiffies wake, jiffies now) noexcept {
        wake_ = wake;
        quiet_ = std::min(wake, std::max(above_[0].may, now + 1));
        assert(contradiction(now) == nullptr && "the cached ticks agree with each other");
    }
    /// Returns the wake-up of a wheel that runs tick `now`, and visits the root next at `root`.
    jiffies next(jiffies root, jiffies now) const noexcept {
        assert(root > now && "the slot of the tick being run is visited now");
        return std::min(root, std::max(above_[0].must, now + 1));
    }

    /// Returns the rule that the cached ticks break at tick `now`, or nullptr. While work is left
    /// over, the wheel is due at once, and no further rule applies.
    const char* contradiction(jiffies now) const noexcept {
        if (wake_ < now) return "wake is before now";
        if (quiet_ > wake_) return "quiet is after wake";
        if (wake_ <= now) return nullptr;
        if (quiet_ <= now) return "quiet is not after now: no tick would be idle";
        for (const upper_ticks& next : above_)
            if (next.must > next.visit)
                return "the tick at which a slot must be emptied is after the upper levels' visit";
        for (unsigned level = geometry::root + 1; level <= apart; ++level)
            if (!above_[level - 1].is_before(above_[level]))
                return "a tick of the upper levels is after one of those above";
        if (quiet_ > std::max(above_[0].may, now + 1))
            return "quiet is after the tick at which a slot may be emptied";
        if (wake_ > above_[0].must) return "wake is after the tick at which a slot must be emptied";
        return nullptr;
    }

    /// Returns whether visits are first ticks of laps, and all rates that were fixed empty a slot.
    bool is_possible() const noexcept {
        for (unsigned level = geometry::root; level <= apart; ++level)
            if (const jiffies visit = above_[level].visit;
                visit != never && visit != geometry::entry_of(level + 1, visit))
                return false;
        for (const packed_emptying& e : emptying_)
            if (const emptying to = e.unpack();
                (e.entry != 0 || e.rates != 0) && (to.gentle == 0 || to.gentle > to.rate))
                return false;
        return true;
    }

private:
    TVEC_API void note_many(const upper_entry& v, std::uint64_t there, jiffies now) noexcept;

    /// Notes a slot that may be emptied from `may` on, and has to be from `must` on. While a call
    /// runs, `quiet` stays at its tick.
    void note(const upper_entry& v, jiffies may, jiffies must, jiffies now) noexcept {
        assert(v.level != geometry::root && v.level <= geometry::overflow &&
               "the root has note_root");
        assert(v.entry == geometry::entry_of(v.level, v.entry) &&
               "a slot is visited as its lap begins");
        assert(v.entry >= now && v.entry < never && "a slot is visited now or later");
        assert(may <= must && must <= v.entry && "emptying begins before the visit");
        for (unsigned level = geometry::root; level <= apart && level < v.level; ++level)
            above_[level].lower({v.entry, may, must});
        lower(quiet_, std::max(may, now));
        lower(wake_, must);
    }

    jiffies quiet_ = never;
    jiffies wake_ = never;
    /// Of the levels above the root, above level 1 and above level 2.
    std::array<upper_ticks, apart + 1> above_{};
    std::array<packed_emptying, geometry::levels> emptying_{};  ///< of the levels above the root
};

}  // namespace tvec::detail
