#include "tvec/inspect.hpp"

#include <algorithm>
#include <sstream>

namespace tvec {

/// Sees the private parts of a wheel. Each function returns the first fault it finds, or "".
class inspector {
public:
    explicit inspector(const timer_wheel& wheel) : wheel_(wheel), levels_(wheel.levels_) {}

    std::string fault() const {
        std::string found = clock_fault();
        for (unsigned level = geometry::root; level < geometry::levels; ++level)
            for (unsigned i = 0; found.empty() && i < geometry::ring_of(level); ++i)
                found = slot_fault(level, geometry::first_slot_of(level) + i);
        for (const unsigned s : {geometry::overflow_slot, geometry::overflow_rest})
            if (found.empty()) found = slot_fault(geometry::overflow, s);
        return found;
    }

private:
    template <class... Parts> static std::string say(const Parts&... parts) {
        std::ostringstream out;
        (out << ... << parts);
        return out.str();
    }

    /// Work of this tick that a budget or an exception has left: the wheel is due at once.
    bool left_over() const { return wheel_.wake_ <= wheel_.now_; }

    std::string clock_fault() const {
        const timer_wheel& w = wheel_;
        if (w.now_ >= never) return say("now ", w.now_, " is not a tick");
        if (w.running_) return "";
        if (w.quiet_ > w.wake_) return say("quiet ", w.quiet_, " after wake ", w.wake_);
        if (w.wake_ < w.now_) return say("wake ", w.wake_, " before now ", w.now_);
        if (w.wake_ > w.overflow_due_)
            return say("wake ", w.wake_, " after the overflow's visit ", w.overflow_due_);
        if (!left_over() && w.quiet_ <= w.now_)
            return say("quiet ", w.quiet_, " not after now ", w.now_, ": no tick would be idle");
        return "";
    }

    std::string slot_fault(unsigned level, unsigned s) const {
        std::uint64_t timers = 0;
        for (unsigned i = 0; i < detail::slot::chains && !levels_.empty(s); ++i) {
            std::uint64_t length = 0;
            if (std::string found = chain_fault(level, s, i, length); !found.empty()) return found;
            timers += length;
        }
        if (timers > levels_.at_most(s))
            return say("slot ", s, " holds ", timers, " timers, more than its count of ",
                       levels_.at_most(s));
        if (level == geometry::overflow) return "";
        if (levels_.at_most(s) != 0 && !levels_.occupied(s))
            return say("slot ", s, " counts ", levels_.at_most(s), " timers and its bit is clear");
        return timers == 0 ? "" : visit_fault(level, s);
    }

    std::string chain_fault(unsigned level, unsigned s, unsigned i, std::uint64_t& length) const {
        detail::link* const* from = &levels_[s][i].first_pointer();
        for (; *from != &levels_.sentinel(); from = &(*from)->next, ++length) {
            const detail::link& l = **from;
            if (&l.pointer_here() != from)
                return say("slot ", s, " chain ", i, ": link ", length, " points back to ",
                           &l.pointer_here(), " and hangs from ", from);
            if (!l.linked_in(detail::number_of(levels_.owner())))
                return say("slot ", s, " chain ", i, ": link ", length, " has the tag ", l.back,
                           " of another wheel than ", levels_.owner());
            std::string found = timer_fault(level, s, timer::of(l));
            if (!found.empty()) return found;
        }
        return "";
    }

    /// The heart of it: a slot is visited no later than what hangs in it is due.
    std::string timer_fault(unsigned level, unsigned s, const timer& t) const {
        if (level == geometry::overflow) return overflow_fault(s, t);
        const jiffies visit = visit_of(level, s);
        if (visit > t.expires())
            return say("slot ", s, " of level ", level, " is visited at ", visit,
                       ", after a timer in it expires at ", t.expires());
        return "";
    }

    std::string overflow_fault(unsigned s, const timer& t) const {
        if (s == geometry::overflow_rest || t.expires() == never) return "";
        if (geometry::overflow_visit_of(t.expires()) < wheel_.overflow_due_)
            return say("the overflow slot is visited at ", wheel_.overflow_due_,
                       ", too late for a timer that expires at ", t.expires());
        return "";
    }

    /// What the cached ticks have to say of a slot that is not empty.
    std::string visit_fault(unsigned level, unsigned s) const {
        const jiffies visit = visit_of(level, s);
        if (wheel_.running_) return "";
        if (wheel_.wake_ > visit)
            return say("wake ", wheel_.wake_, " after the visit of slot ", s, " at ", visit);
        const bool upper = level != geometry::root;
        const jiffies ahead = upper ? visit - geometry::width_of(level) : visit;
        const jiffies burst = std::max(ahead, wheel_.burst_at_[level]);
        if (upper && !left_over() && wheel_.quiet_ > std::max(burst, wheel_.now_ + 1))
            return say("quiet ", wheel_.quiet_, " after slot ", s, " may be emptied from ", ahead);
        return "";
    }

    jiffies visit_of(unsigned level, unsigned s) const {
        return geometry::visit_of(level, s, wheel_.now_);
    }

    const timer_wheel& wheel_;
    const detail::levels& levels_;
};

std::string check(const timer_wheel& wheel) { return inspector(wheel).fault(); }

}  // namespace tvec
