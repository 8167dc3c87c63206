#include "tvec/inspect/detail/dump.hpp"

#include "tvec/inspect/detail/census_taker.hpp"

namespace tvec::detail {

namespace {

void name_level(text& out, unsigned level) {
    if (level == geometry::overflow)
        out << "overflow";
    else
        out << "level " << level;
}

void add_levels(text& out, const census& all) {
    for (unsigned level = geometry::root; level <= geometry::overflow; ++level) {
        const census::level& sum = all.levels[level];
        if (sum.pending + sum.idle == 0) continue;
        name_level(out, level);
        (out << ": ").right_aligned(sum.pending, 10) << " pending, ";
        out.right_aligned(sum.idle, 10) << " idle, ";
        out.right_aligned(sum.slots_used, 4)
            << " slots used, at most " << sum.longest << " in one\n";
    }
}

void add_timers(text& out, const timer_wheel& wheel, std::size_t most) {
    std::size_t seen = 0;
    census_taker(wheel).for_each_linked([&](unsigned s, const timer& t) {
        if (seen++ >= most) return;
        out << "  timer " << static_cast<const void*>(&t) << " in ";
        name_level(out, geometry::level_with(s));
        out << (t.pending() ? " expires at " : " idle, expired at ") << t.expires() << "\n";
    });
    if (seen > most) out << "  and " << std::uint64_t{seen - most} << " more\n";
}

}  // namespace

void write_dump(text out, const timer_wheel& wheel, std::size_t timers) {
    const census all = census_taker(wheel).count();
    const timer_wheel::counters& done = wheel.count();
    out << "wheel at tick " << all.now << " and " << wheel.behind() << " behind: " << all.pending
        << " pending, " << all.idle << " idle\n";
    out << "so far: " << done.fired << " fired, " << done.moved << " moved, " << done.dropped
        << " dropped, " << done.clock_backward << " times the clock went back\n";
    out << "first expiry " << all.first_expiry << " and last " << all.last_expiry << "\n";
    add_levels(out, all);
    add_timers(out, wheel, timers);
}

}  // namespace tvec::detail
