#include "tvec/core/detail/agenda.hpp"

namespace tvec::detail {

namespace {

/// The timers that a loop which is awake moves in a tick, at least.
constexpr std::uint64_t least_gentle = (geometry::chunk + 7) / 8;

/// Returns how many timers a slot with `there` timers may hold before the agenda notes it again:
/// the next full chunk, as long as timers can be linked to it. The rate is the same up to there.
std::uint64_t most_before_next_look(const upper_entry& v, std::uint64_t there,
                                    jiffies now) noexcept {
    constexpr std::uint64_t chunk = geometry::chunk;
    static_assert(geometry::width_of(geometry::root + 1) % chunk == 0);
    const bool may_grow = now + geometry::width_of(v.level) < v.entry;
    return may_grow ? (there + chunk - 1) / chunk * chunk : there;
}

}  // namespace

/// A few timers leave their slot at the visit: no rate is lower. Emptying begins a tick earlier for
/// each `rate` of further timers. While a call runs, `quiet` stays at its tick.
void agenda::note(const upper_entry& v, std::uint64_t there, jiffies now) noexcept {
    assert(there > 0 && "an empty slot needs no visit");
    assert(v.level != geometry::root && v.level <= geometry::overflow && "the root has note_root");
    assert(v.entry == geometry::entry_of(v.level, v.entry) &&
           "a slot is visited as its lap begins");
    assert(v.entry >= now && v.entry < never && "a slot is visited now or later");
    jiffies may = v.entry, must = v.entry;
    if (there > least_gentle) [[unlikely]] {
        const emptying to = plan(v, there);
        must = to.start(most_before_next_look(v, there, now), to.rate);
        may = std::min(to.start(there, to.gentle), must);
    }
    assert(may <= must && must <= v.entry && "emptying begins before the visit");
    lower(upper_visit_, v.entry);
    lower(may_empty_, may);
    lower(must_empty_, must);
    if (v.level != geometry::root + 1) {
        lower(far_visit_, v.entry);
        lower(far_may_empty_, may);
        lower(far_must_empty_, must);
    }
    lower(quiet_, std::max(may, now));
    lower(wake_, must);
}

/// The rate is a chunk per tick, or the even share of all links to the slot if that is more. Timers
/// that were destroyed since count as well. A loop that is awake spreads its work over the last
/// three eighths of the lap, and leaves the other ticks idle.
emptying agenda::plan(const upper_entry& v, std::uint64_t there) const noexcept {
    assert(v.level != geometry::root && v.level <= geometry::overflow && "the root is not emptied");
    if (emptying_[v.level - 1].entry == v.entry) return emptying_[v.level - 1];
    assert(there > 0 && "an empty slot is not emptied");
    constexpr std::uint64_t chunk = geometry::chunk;
    const unsigned shift = geometry::shift_of(v.level);
    const std::uint64_t rate = std::max(chunk, ((there - 1) >> shift) + 1);
    const std::uint64_t eighths = (there - 1) * 8 >> shift;
    const std::uint64_t gentle = std::max(least_gentle, share_of(eighths, 3) + 1);
    assert(rate << shift >= there && "a slot can be emptied within the lap before its visit");
    return {v.entry, rate, std::min(rate, gentle)};
}

std::uint64_t agenda::due(const upper_entry& v, std::uint64_t there, jiffies now) noexcept {
    return (emptying_[v.level - 1] = plan(v, there)).due(there, now);
}

}  // namespace tvec::detail
