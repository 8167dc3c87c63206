/// \file
/// The agenda of a wheel: when it must look up next.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>

#include "tvec/core/detail/geometry.hpp"

namespace tvec::detail {

/// A slot above the root, by its level and the tick by which it has to be empty: the first tick of
/// its lap.
struct visit {
    unsigned level;
    jiffies entry;

    unsigned slot() const noexcept {
        assert(level != geometry::root && "the root's slots have one tick");
        return geometry::slot_before(level, entry);
    }
};

/// How fast a slot is emptied before its visit. The rates are fixed when emptying begins: a rate of
/// what is left would fall as the slot empties.
struct emptying {
    jiffies entry = 0;         ///< the slot has to be empty by this tick
    std::uint64_t rate = 0;    ///< timers that each tick until then can take at most
    std::uint64_t gentle = 0;  ///< timers that a loop that is awake moves a tick, to end early

    /// Returns the tick at which emptying `there` timers at `a_tick` timers a tick has to begin. It
    /// lies within the lap before, because `rate` is at least there / width. Requires there > 0.
    jiffies start(std::uint64_t there, std::uint64_t a_tick) const noexcept {
        assert(there > 0 && a_tick > 0 && "an empty slot is not emptied");
        return entry - (there - 1) / a_tick;
    }

    /// Returns how many of `there` timers are to be moved at `now`: those that cannot leave in time
    /// otherwise, and up to a chunk of those that would have to hurry later. Requires now < entry.
    std::uint64_t due(std::uint64_t there, jiffies now) const noexcept {
        assert(now < entry && "a slot is emptied ahead before its visit");
        assert(gentle > 0 && gentle <= rate && "a loop that is awake begins earlier");
        const jiffies ticks = entry - now;
        const std::uint64_t late = there - std::min(there, ticks * rate);
        const std::uint64_t soon = there - std::min(there, ticks * gentle);
        return std::max(late, std::min<std::uint64_t>(soon, geometry::chunk));
    }
};

/// The ticks at which a wheel has something to do, and the rates at which slots are emptied.
///
/// `quiet <= wake`: before `quiet` there is nothing to do, before `wake` nothing has to be done. A
/// loop that sleeps until `wake` does everything in time. A loop that is awake anyway finds work at
/// `quiet`, and spreads it over more ticks.
class agenda {
public:
    /// The first tick at which there is something to do.
    jiffies quiet() const noexcept { return quiet_; }
    /// The first tick at which something has to be done.
    jiffies wake() const noexcept { return wake_; }
    /// The first visit of a slot above the root.
    jiffies upper_visit() const noexcept { return upper_visit_; }
    /// The first tick at which a slot may be emptied ahead of its visit.
    jiffies may_empty() const noexcept { return may_empty_; }
    /// The first tick at which a slot has to be emptied ahead of its visit.
    jiffies must_empty() const noexcept { return must_empty_; }

    /// Notes that a slot of the root is visited at `tick`.
    void note_root(jiffies tick) noexcept {
        assert(tick < never && "`never` is not visited");
        lower(quiet_, tick);
        lower(wake_, tick);
    }

    /// Notes a slot above the root that holds up to `there` timers. Requires there > 0.
    void note(const visit& v, std::uint64_t there, jiffies now) noexcept;

    /// Forgets all slots above the root. Those that hold timers are to be noted again.
    void forget_upper() noexcept { upper_visit_ = may_empty_ = must_empty_ = never; }

    /// Returns how many of `there` timers are to be moved now, and fixes the rate until the visit.
    std::uint64_t due(const visit& v, std::uint64_t there, jiffies now) noexcept {
        return (emptying_[v.level] = plan(v, there)).due(there, now);
    }

    /// Returns whether so many timers can leave the slot before its visit at the rate of `due`.
    bool is_in_time(const visit& v, std::uint64_t there, jiffies now) const noexcept {
        assert(now < v.entry && "a slot is emptied ahead before its visit");
        assert(emptying_[v.level].entry == v.entry && "`due` has fixed the rate");
        return there <= (v.entry - now) * emptying_[v.level].rate;
    }

    /// Returns the rates for a slot that holds up to `there` timers: those that were fixed, or what
    /// they would be. Requires there > 0 unless they were fixed.
    emptying plan(const visit& v, std::uint64_t there) const noexcept;

    /// Runs tick `now`: a call of `advance` from a callback is always noticed.
    void begin(jiffies now) noexcept { quiet_ = now; }
    /// Makes the wheel due at once, since work of tick `now` was left.
    void leave(jiffies now) noexcept { wake_ = quiet_ = now; }
    /// All ticks up to `now` were run. The root is next visited at `root`.
    void rest(jiffies root, jiffies now) noexcept {
        assert(root > now && "the slot of the tick that was run is empty");
        wake_ = std::min(root, must_empty_);
        quiet_ = std::min(root, std::max(may_empty_, now + 1));
        assert(contradiction(now) == nullptr && "the cached ticks agree with each other");
    }
    /// The same after a drain: the wheel is to wake at `wake`.
    void rest_after_drain(jiffies wake) noexcept {
        wake_ = wake;
        quiet_ = std::min(wake, may_empty_);
    }
    /// Returns when a wheel that is running tick `now`, and visits the root next at `root`, has to
    /// go on.
    jiffies next(jiffies root, jiffies now) const noexcept {
        assert(root > now && "the slot of the tick being run is visited now");
        return std::min(root, std::max(must_empty_, now + 1));
    }

    /// Returns which rule the cached ticks break at tick `now`, or nullptr. While work is left over
    /// the wheel is due at once, and no further rule holds.
    const char* contradiction(jiffies now) const noexcept {
        if (wake_ < now) return "wake is before now";
        if (quiet_ > wake_) return "quiet is after wake";
        if (wake_ <= now) return nullptr;
        if (quiet_ <= now) return "quiet is not after now: no tick would be idle";
        if (must_empty_ > upper_visit_)
            return "the tick at which a slot must be emptied is after the upper levels' visit";
        if (quiet_ > std::max(may_empty_, now + 1))
            return "quiet is after the tick at which a slot may be emptied";
        if (wake_ > must_empty_) return "wake is after the tick at which a slot must be emptied";
        return nullptr;
    }

private:
    /// Sets `tick` to the smaller of the two. Unlikely to change once a few timers are armed.
    static void lower(jiffies& tick, jiffies to) noexcept {
        if (to < tick) [[unlikely]]
            tick = to;
    }

    jiffies quiet_ = never;
    jiffies wake_ = never;
    jiffies upper_visit_ = never;
    jiffies may_empty_ = never;
    jiffies must_empty_ = never;
    std::array<emptying, geometry::levels + 1> emptying_{};
};

}  // namespace tvec::detail
