/// \file
/// The class that counts and visits all timers linked in a wheel.
#pragma once

#include <algorithm>
#include <cassert>

#include "tvec/inspect/inspect.hpp"

namespace tvec::detail {

/// Reads the private members of a wheel, and counts its timers.
class census_taker {
public:
    explicit census_taker(const timer_wheel& wheel) noexcept : wheel_(wheel) {}

    census count() const noexcept {
        census all;
        all.now = wheel_.now_;
        for_each_linked([&all](unsigned s, const timer& t) { add(t, s, all); });
        for (unsigned s = 0; s < geometry::total_slots; ++s)
            add(all.slot_counts[s], all.levels[geometry::level_with(s)]);
        for (const census::level& level : all.levels) {
            all.pending += level.pending;
            all.idle += level.idle;
        }
        return all;
    }

    /// Calls visit(slot, const timer&) for each linked timer, idle ones included.
    template <class F> void for_each_linked(F visit) const {
        wheel_.levels_.for_each([&](unsigned s, const link& l) {
            if (!wheel_.levels_.is_marker(l)) visit(s, timer::of(l));
        });
    }

private:
    /// Counts `t` in slot `s`. A timer armed for the past is due at its visit.
    static void add(const timer& t, unsigned s, census& all) noexcept {
        ++(t.pending() ? all.slot_counts[s].pending : all.slot_counts[s].idle);
        if (!t.pending() || t.expires() == never || s == geometry::never_slot) return;
        assert(t.expires() < never && "a timer for `never` hangs where none is visited");
        const jiffies visit = geometry::visit_of(geometry::level_with(s), s, all.now);
        const jiffies at = std::max(t.expires(), visit);
        all.first_expiry = std::min(all.first_expiry.value_or(at), at);
        all.last_expiry = std::max(all.last_expiry.value_or(at), at);
    }

    static void add(const census::slot& s, census::level& level) noexcept {
        level.pending += s.pending;
        level.idle += s.idle;
        level.longest = std::max(level.longest, s.linked());
        level.slots_used += s.linked() != 0;
    }

    const timer_wheel& wheel_;
};

}  // namespace tvec::detail
