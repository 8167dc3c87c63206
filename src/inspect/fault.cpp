#include "tvec/inspect/detail/fault.hpp"

#include <algorithm>
#include <cassert>

namespace tvec::detail {

/// Reads the private members of a wheel. Each function returns the first fault it finds, or "".
class inspector {
public:
    explicit inspector(const timer_wheel& wheel)
        : wheel_(wheel), levels_(wheel.levels_), agenda_(wheel.agenda_) {}

    fault first_fault() const {
        if (fault found = clock_fault(); !found.empty()) return found;
        for (unsigned level = geometry::root; level <= geometry::overflow; ++level)
            if (fault found = level_fault(level); !found.empty()) return found;
        return slot_fault(geometry::overflow, geometry::never_slot);
    }

private:
    struct location {
        unsigned level, slot;
        jiffies visit;  // of the slot; `never` if it is not visited
    };

    template <class... Parts> static fault say(const Parts&... parts) noexcept {
        return fault::of(parts...);
    }

    /// Returns whether a budget or an exception has left work: the wheel is due at once.
    bool left_over() const { return agenda_.wake() <= wheel_.now_; }

    fault clock_fault() const {
        const jiffies now = wheel_.now_;
        if (now >= never) return say("now ", now, " is not a tick");
        if (wheel_.busy_ != timer_wheel::activity::none) return {};
        const char* const rule = agenda_.contradiction(now);
        if (rule == nullptr) return {};
        const upper_ticks& all = agenda_.above(geometry::root);
        return say(rule, ": now ", now, ", quiet ", agenda_.quiet(), ", wake ", agenda_.wake(),
                   ", may empty ", all.may, ", must empty ", all.must, ", upper visit ", all.visit);
    }

    fault level_fault(unsigned level) const {
        for (unsigned i = 0; i < geometry::ring_of(level); ++i) {
            const unsigned s = geometry::first_slot_of(level) + i;
            if (is_untouched(s)) continue;
            if (fault found = slot_fault(level, s); !found.empty()) return found;
        }
        return {};
    }

    /// Returns whether a slot has neither a timer nor a count nor a bit, as nearly all slots.
    bool is_untouched(unsigned s) const {
        if (levels_.at_most(s) != 0 || levels_.occupied(s)) return false;
        for (unsigned k = 0; k < geometry::chains_per_slot; ++k)
            if (levels_.chain_of(s, k).first() != &levels_.sentinel_) return false;
        return true;
    }

    fault slot_fault(unsigned level, unsigned s) const {
        assert(geometry::level_with(s) == level && "a slot belongs to its level");
        const bool is_visited = s != geometry::never_slot;
        const location at{level, s, is_visited ? geometry::visit_of(level, s, wheel_.now_) : never};
        std::uint64_t timers = 0;
        for (unsigned k = 0; k < geometry::chains_per_slot; ++k) {
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
        if (levels_.occupied(s) && !(levels_.words_used_ & levels::bit_of(s / geometry::word_bits)))
            return say("slot ", s, " has its bit in a word that looks unused");
        if (timers == 0 || wheel_.busy_ == timer_wheel::activity::run) return {};
        return level == geometry::root ? root_fault(at) : upper_fault(at);
    }

    fault chain_fault(const location& at, unsigned k, std::uint64_t& length) const {
        const unsigned s = at.slot;
        link* const* from = &levels_.chain_of(s, k).first_pointer();
        for (; *from != &levels_.sentinel_; from = &(*from)->next) {
            const link& l = **from;
            length += !levels_.is_marker(l);
            if (&l.pointer_here() != from)
                return say("slot ", s, " chain ", k, ": link ", length, " points back to ",
                           &l.pointer_here(), " and hangs from ", from);
            if (!l.linked_in(number_of(levels_.tag())))
                return say("slot ", s, " chain ", k, ": link ", length, " has the tag ", l.back,
                           " of another wheel than ", levels_.tag());
            if (fault found = timer_fault(at, timer::of(l)); !found.empty()) return found;
        }
        return {};
    }

    /// Checks the main invariant: a slot is visited no later than its timers are due. A timer armed
    /// for the past is due at the next tick.
    fault timer_fault(const location& at, const timer& t) const {
        if (at.visit <= std::max(t.expires(), wheel_.now_ + 1)) return {};
        if (at.slot == geometry::never_slot)
            return say("a timer that expires at ", t.expires(), " hangs where none is visited");
        return say("slot ", at.slot, " of level ", at.level, " is visited at ", at.visit,
                   ", after a timer in it expires at ", t.expires());
    }

    fault root_fault(const location& at) const {
        if (agenda_.wake() <= at.visit) return {};
        return say("wake ", agenda_.wake(), " after the visit of slot ", at.slot, " at ", at.visit);
    }

    /// Checks that the cached ticks account for a slot that holds timers, and that the slot is
    /// emptied in time. This bounds the timers left at its visit, however the loop calls.
    fault upper_fault(const location& at) const {
        assert(at.level != geometry::root && levels_.at_most(at.slot) > 0 &&
               "only slots that hold timers are emptied ahead");
        const jiffies now = wheel_.now_, width = geometry::width_of(at.level);
        const upper_ticks& next = agenda_.above(std::min(at.level - 1, agenda::apart));
        const jiffies visit = std::max(agenda_.above(geometry::root).visit, next.visit);
        if (visit > at.visit)
            return say("the upper levels' visit ", visit, " after that of slot ", at.slot, " at ",
                       at.visit);
        if (left_over()) return {};
        const std::uint64_t there = levels_.at_most(at.slot);
        const emptying to = agenda_.plan({at.level, at.visit}, there);
        if (at.visit - now < width && there > (at.visit - now) * to.rate)
            return say(there, " timers are left in slot ", at.slot, ", ", at.visit - now,
                       " ticks before it has to be empty at ", to.rate, " a tick");
        const jiffies start = std::max(to.start(there, to.rate), at.visit - width);
        const jiffies must = std::max(agenda_.above(geometry::root).must, next.must);
        if (std::min(must, visit) > start)
            return say("emptying that must begin at ", must, " is too late for the ", there,
                       " timers of slot ", at.slot, ", to be emptied from ", start);
        return {};
    }

    const timer_wheel& wheel_;
    const levels& levels_;
    const agenda& agenda_;
};

fault first_fault(const timer_wheel& wheel) noexcept { return inspector(wheel).first_fault(); }

}  // namespace tvec::detail
