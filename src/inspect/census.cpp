#include "tvec/census.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tvec {

/// Sees the private parts of a wheel, and counts what hangs there.
class census_taker {
public:
    explicit census_taker(const timer_wheel& wheel) noexcept : wheel_(wheel) {}

    census count() const noexcept {
        census all;
        all.now = wheel_.now_;
        for_each_linked([&all](unsigned s, const timer& t) { add(t, s, all); });
        for (unsigned s = 0; s < geometry::slots; ++s)
            add(all.slots[s], all.levels[geometry::level_with(s)]);
        for (const census::level& level : all.levels) {
            all.pending += level.pending;
            all.idle += level.idle;
        }
        return all;
    }

    /// Calls visit(slot, const timer&) for all that hangs in the wheel, idle timers included.
    template <class F> void for_each_linked(F visit) const {
        wheel_.levels_.for_each([&](unsigned s, const detail::link& l) { visit(s, timer::of(l)); });
    }

private:
    /// What is armed for the past is due at its visit.
    static void add(const timer& t, unsigned s, census& all) noexcept {
        ++(t.pending() ? all.slots[s].pending : all.slots[s].idle);
        if (!t.pending() || t.expires() == never || s == geometry::never_slot) return;
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

namespace {

/// Words between spaces, and lines of them.
class text {
public:
    template <class... Words> void line(const Words&... words) {
        (word(words), ...);
        all_.back() = '\n';
    }
    std::string take() { return std::move(all_); }

private:
    void word(const std::string& w) { (all_ += w) += ' '; }
    void word(std::uint64_t n) { word(std::to_string(n)); }
    void word(const std::optional<jiffies>& tick) { tick ? word(*tick) : word("none"); }

    std::string all_;
};

template <class Number> std::string right_aligned(Number n, std::size_t width) {
    const std::string digits = std::to_string(n);
    return std::string(width - std::min(width, digits.size()), ' ') + digits;
}

std::string name_of(unsigned level) {
    return level == geometry::overflow ? "overflow" : "level " + std::to_string(level);
}

std::string address_of(const void* p) {
    std::string digits;
    for (auto rest = reinterpret_cast<std::uintptr_t>(p); rest != 0; rest /= 16)
        digits.insert(digits.begin(), "0123456789abcdef"[rest % 16]);
    return "0x" + digits;
}

void add_levels(text& out, const census& all) {
    for (unsigned level = geometry::root; level <= geometry::overflow; ++level) {
        const census::level& sum = all.levels[level];
        if (sum.pending + sum.idle == 0) continue;
        out.line(name_of(level) + ":", right_aligned(sum.pending, 10), "pending,",
                 right_aligned(sum.idle, 10), "idle,", right_aligned(sum.slots_used, 4),
                 "slots used, at most", sum.longest, "in one");
    }
}

void add_timers(text& out, const timer_wheel& wheel, std::size_t most) {
    std::size_t seen = 0;
    census_taker(wheel).for_each_linked([&](unsigned s, const timer& t) {
        if (seen++ >= most) return;
        out.line("  timer", address_of(&t), "in", name_of(geometry::level_with(s)),
                 t.pending() ? "expires at" : "idle, expired at", t.expires());
    });
    if (seen > most) out.line("  and", seen - most, "more");
}

}  // namespace

census take_census(const timer_wheel& wheel) noexcept { return census_taker(wheel).count(); }

std::string to_text(const census& counted) {
    text out;
    out.line("tvec-census", 1U);
    out.line("now", counted.now);
    out.line("first_expiry", counted.first_expiry);
    out.line("last_expiry", counted.last_expiry);
    for (unsigned level = geometry::root; level < geometry::levels; ++level) {
        out.line("level", level, geometry::width_of(level), geometry::ring_of(level));
        for (unsigned i = 0; i < geometry::ring_of(level); ++i) {
            const unsigned s = geometry::slot_number(level, i);
            const census::slot& slot = counted.slots[s];
            if (slot.linked() == 0) continue;
            out.line("slot", geometry::visit_of(level, s, counted.now), slot.pending, slot.idle);
        }
    }
    const census::level& beyond = counted.levels[geometry::overflow];
    out.line("overflow", beyond.pending, beyond.idle);
    return out.take();
}

std::string dump(const timer_wheel& wheel, std::size_t timers) {
    const census all = take_census(wheel);
    const timer_wheel::counters& done = wheel.count();
    text out;
    out.line("wheel at tick", all.now, "and", wheel.behind(), "behind:", all.pending, "pending,",
             all.idle, "idle");
    out.line("so far:", done.fired, "fired,", done.moved, "moved,", done.dropped, "dropped,",
             done.clock_backward, "times the clock went back");
    out.line("first expiry", all.first_expiry, "and last", all.last_expiry);
    add_levels(out, all);
    add_timers(out, wheel, timers);
    return out.take();
}

}  // namespace tvec
