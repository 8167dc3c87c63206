#include "tvec/inspect/detail/fault.hpp"

#include <algorithm>

namespace tvec::detail {

/// Sees the private parts of a wheel. Each function returns the first fault it finds, or "".
class inspector {
public:
    explicit inspector(const timer_wheel& wheel) : wheel_(wheel), levels_(wheel.levels_) {}

    fault first_fault() const {
        if (fault found = clock_fault(); !found.empty()) return found;
        for (unsigned level = geometry::root; level <= geometry::overflow; ++level)
            if (fault found = level_fault(level); !found.empty()) return found;
        return slot_fault(geometry::overflow, geometry::never_slot);
    }

private:
    struct place {
        unsigned level, slot;
        jiffies visit;  // of the slot; never, if none comes
    };

    template <class... Parts> static fault say(const Parts&... parts) noexcept {
        return fault::of(parts...);
    }

    /// Work that a budget or an exception has left: the wheel is due at once.
    bool left_over() const { return wheel_.wake_ <= wheel_.now_; }

    fault clock_fault() const {
        const timer_wheel& w = wheel_;
        if (w.now_ >= never) return say("now ", w.now_, " is not a tick");
        if (w.running_) return {};
        if (w.wake_ < w.now_) return say("wake ", w.wake_, " before now ", w.now_);
        if (w.quiet_ > w.wake_) return say("quiet ", w.quiet_, " after wake ", w.wake_);
        if (left_over()) return {};
        if (w.quiet_ <= w.now_)
            return say("quiet ", w.quiet_, " not after now ", w.now_, ": no tick would be idle");
        if (w.must_burst_ > w.upper_visit_)
            return say("the burst that must be at ", w.must_burst_,
                       " after the upper levels' visit ", w.upper_visit_);
        if (w.quiet_ > std::max(w.next_burst_, w.now_ + 1))
            return say("quiet ", w.quiet_, " after the burst that may be at ", w.next_burst_);
        if (w.wake_ > w.must_burst_)
            return say("wake ", w.wake_, " after the burst that must be at ", w.must_burst_);
        return {};
    }

    fault level_fault(unsigned level) const {
        for (unsigned i = 0; i < geometry::ring_of(level); ++i) {
            const unsigned s = geometry::slot_number(level, i);
            if (is_untouched(s)) continue;
            if (fault found = slot_fault(level, s); !found.empty()) return found;
        }
        return {};
    }

    /// Returns whether a slot has neither a timer, a count nor a bit. Nearly all slots are like
    /// that.
    bool is_untouched(unsigned s) const {
        if (levels_.at_most(s) != 0 || levels_.occupied(s)) return false;
        const chain* const first = &levels_.chain_of(s, 0);
        const link* const end = &levels_.sentinel();
        for (unsigned k = 0; k < geometry::chains_of(s); ++k)
            if (first[k].first() != end) return false;
        return true;
    }

    fault slot_fault(unsigned level, unsigned s) const {
        const bool is_visited = s != geometry::never_slot;
        const place at{level, s, is_visited ? geometry::visit_of(level, s, wheel_.now_) : never};
        std::uint64_t timers = 0;
        for (unsigned k = 0; k < geometry::chains_of(s); ++k) {
            std::uint64_t length = 0;
            if (fault found = chain_fault(at, k, length); !found.empty()) return found;
            timers += length;
        }
        if (timers > levels_.at_most(s))
            return say("slot ", s, " holds ", timers, " timers, more than its count of ",
                       levels_.at_most(s));
        if (!is_visited) return {};
        if (levels_.at_most(s) != 0 && !levels_.occupied(s))
            return say("slot ", s, " counts ", levels_.at_most(s), " timers and its bit is clear");
        if (levels_.occupied(s) && !levels_.is_in_used_word(s))
            return say("slot ", s, " has its bit in a word that looks unused");
        if (timers == 0 || wheel_.running_) return {};
        return level == geometry::root ? root_fault(at) : upper_fault(at);
    }

    fault chain_fault(const place& at, unsigned k, std::uint64_t& length) const {
        const unsigned s = at.slot;
        link* const* from = &levels_.chain_of(s, k).first_pointer();
        for (; *from != &levels_.sentinel(); from = &(*from)->next, ++length) {
            const link& l = **from;
            if (&l.pointer_here() != from)
                return say("slot ", s, " chain ", k, ": link ", length, " points back to ",
                           &l.pointer_here(), " and hangs from ", from);
            if (!l.linked_in(number_of(levels_.owner())))
                return say("slot ", s, " chain ", k, ": link ", length, " has the tag ", l.back,
                           " of another wheel than ", levels_.owner());
            if (fault found = timer_fault(at, timer::of(l)); !found.empty()) return found;
        }
        return {};
    }

    /// The heart of it: a slot is visited no later than what hangs in it is due. What was armed for
    /// the past is due at the next tick.
    fault timer_fault(const place& at, const timer& t) const {
        if (at.visit <= std::max(t.expires(), wheel_.now_ + 1)) return {};
        if (at.slot == geometry::never_slot)
            return say("a timer that expires at ", t.expires(), " hangs where none is visited");
        return say("slot ", at.slot, " of level ", at.level, " is visited at ", at.visit,
                   ", after a timer in it expires at ", t.expires());
    }

    fault root_fault(const place& at) const {
        if (wheel_.wake_ <= at.visit) return {};
        return say("wake ", wheel_.wake_, " after the visit of slot ", at.slot, " at ", at.visit);
    }

    /// What the cached ticks have to say of a slot that is not empty, and whether it is emptied in
    /// time: that bounds what is left for its visit, however the loop calls.
    fault upper_fault(const place& at) const {
        const timer_wheel& w = wheel_;
        const auto [level, s, visit] = at;
        const jiffies width = geometry::width_of(level);
        if (w.upper_visit_ > visit)
            return say("the upper levels' visit ", w.upper_visit_, " after that of slot ", s,
                       " at ", visit);
        if (left_over()) return {};
        const std::uint64_t there = levels_.at_most(s);
        const timer_wheel::pace to = w.pace_of(level, visit);
        if (visit - w.now_ < width && there > (visit - w.now_) * to.rate)
            return say(there, " timers are left in slot ", s, ", ", visit - w.now_,
                       " ticks before it has to be empty at ", to.rate, " a tick");
        const jiffies burst = std::max(to.start(there, to.rate), visit - width);
        if (std::min(w.must_burst_, w.upper_visit_) > burst)
            return say("the burst at ", w.must_burst_, " is too late for the ", there,
                       " timers of slot ", s, ", to be emptied from ", burst);
        return {};
    }

    const timer_wheel& wheel_;
    const levels& levels_;
};

fault first_fault(const timer_wheel& wheel) noexcept { return inspector(wheel).first_fault(); }

}  // namespace tvec::detail
