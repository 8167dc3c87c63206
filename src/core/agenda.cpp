#include "tvec/core/detail/agenda.hpp"

namespace tvec::detail {

namespace {

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

/// Emptying begins a tick earlier for each `rate` of further timers.
void agenda::note_many(const upper_entry& v, std::uint64_t there, jiffies now) noexcept {
    const emptying to = plan(v, there);
    const jiffies must = to.start(most_before_next_look(v, there, now), to.rate);
    note(v, std::min(to.start(there, to.gentle), must), must, now);
}

/// The rate is a chunk per tick, or the even share of all links to the slot if that is more. Timers
/// that were destroyed since count as well. A loop that is awake spreads its work over the last
/// three eighths of the lap, and leaves the other ticks idle.
emptying agenda::plan(const upper_entry& v, std::uint64_t there) const noexcept {
    assert(v.level != geometry::root && v.level <= geometry::overflow && "the root is not emptied");
    if (emptying_[v.level - 1].entry == v.entry) return emptying_[v.level - 1].unpack();
    assert(there > 0 && "an empty slot is not emptied");
    constexpr std::uint64_t chunk = geometry::chunk;
    const unsigned shift = geometry::shift_of(v.level);
    const std::uint64_t rate = std::max(chunk, ((there - 1) >> shift) + 1);
    const std::uint64_t eighths = (there - 1) * 8 >> shift;
    const std::uint64_t gentle = std::max(few, share_of(eighths, 3) + 1);
    assert(rate << shift >= there && "a slot can be emptied within the lap before its visit");
    return {v.entry, rate, std::min(rate, gentle)};
}

std::uint64_t agenda::due(const upper_entry& v, std::uint64_t there, jiffies now) noexcept {
    const emptying to = plan(v, there);
    emptying_[v.level - 1] = packed_emptying::of(to);
    return to.due(there, now);
}

}  // namespace tvec::detail
