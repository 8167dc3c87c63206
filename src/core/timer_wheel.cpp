#include "tvec/timer_wheel.hpp"

#include <bit>
#include <exception>
#include <utility>

namespace tvec {

namespace {

/// Slots are emptied ahead of time in bursts of this many timers. Few enough to keep the worst
/// tick at a few microseconds, many enough to leave most ticks without one.
constexpr std::size_t burst_size = 16;

constexpr unsigned first_upper = geometry::root + 1;

}  // namespace

/// While it lives, the wheel is running; when it ends before all is done, the wheel is due at once.
/// Callbacks see quiet_ <= now_, so that a call of `advance` from there is always noticed.
struct timer_wheel::turn {
    turn(timer_wheel& w, std::size_t visits) noexcept : wheel(w), budget(visits) {
        wheel.running_ = true;
        TVEC_PROBE3(advance_begin, &wheel, wheel.now_, wheel.target_);
    }
    ~turn() {
        TVEC_PROBE3(advance_end, &wheel, wheel.now_, finished);
        wheel.running_ = false;
        if (!finished) wheel.wake_ = wheel.quiet_ = wheel.now_;
    }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

    timer_wheel& wheel;
    std::size_t budget;  ///< visits left
    bool finished = false;
};

timer_wheel::timer_wheel(jiffies now) noexcept
    : now_(std::min(now, never - 1)), levels_(number_.tag()) {}

timer_wheel::~timer_wheel() {
    if (running_) std::terminate();
    for (unsigned s = 0; s < geometry::slots; ++s)
        while (levels_.pop(s)) {
        }
}

// --- arm ----------------------------------------------------------------------------------------

bool timer_wheel::arm_within(timer& t, jiffies earliest, jiffies latest) noexcept {
    earliest = std::clamp(earliest, now_ + 1, never);
    latest = std::clamp(latest, earliest, never);
    if (t.pending() && t.linked_in(in_place_) && earliest <= t.expires() && t.expires() <= latest)
        return true;
    // The highest bit in which latest differs from the tick before the window: clearing what is
    // below it leaves the tick of the window that ends in the most zeros.
    const auto keep = std::bit_width((earliest - 1) ^ latest) - 1;
    // They differ, so `keep` is not negative. NOLINTNEXTLINE(clang-analyzer-core.*)
    return arm_at(t, latest >> keep << keep);
}

jiffies timer_wheel::arm_next(timer& t, jiffies period) noexcept {
    period = std::max<jiffies>(period, 1);
    const jiffies from = t.expires();
    const jiffies reached = now_ + behind();
    const jiffies missed = reached < from ? 0 : (reached - from) / period;
    arm_at(t, detail::later(from + missed * period, period));
    return missed;
}

/// Out of line, because it is rare: `expires` has passed, or is so far away that it looks as if.
bool timer_wheel::arm_past(timer& t, jiffies expires) noexcept {
    if (expires > never) return arm_at(t, never);
    TVEC_PROBE3(arm, this, &t, expires);
    const bool was_pending = t.pending();
    t.unlink_if_linked();
    t.expires_ = now_ + 1;
    place(t);
    return was_pending;
}

/// Out of line, because it is rare: nothing hangs in the slot, or it is beyond the levels.
void timer_wheel::place_first(timer& t, unsigned s) noexcept {
    if (s == geometry::beyond) return place_beyond(t);
    levels_.push(s, t);
    levels_.set_occupied(s);
    const unsigned level = geometry::level_of(t.expires_ - now_);
    const jiffies entry = geometry::entry_of(level, t.expires_);
    wake_ = std::min(wake_, entry);
    if (level != geometry::root)
        next_burst_ = std::min(next_burst_, entry - geometry::width_of(level));
    quiet_ = std::min({quiet_, wake_, next_burst_});
}

void timer_wheel::place_beyond(timer& t) noexcept {
    levels_.push(geometry::overflow_slot, t);
    if (t.expires_ == never) return;  // it has no tick to be visited for
    overflow_due_ = std::min(overflow_due_, geometry::overflow_visit_of(t.expires_));
    wake_ = std::min(wake_, overflow_due_);
    quiet_ = std::min(quiet_, wake_);
}

// --- advance ------------------------------------------------------------------------------------

timer_wheel::progress timer_wheel::run(jiffies until, std::size_t budget) {
    if (running_) return {0, false};
    if (until < now_) ++counters_.clock_backward;
    target_ = std::clamp(until, now_, never - 1);

    turn current{*this, budget};
    const std::uint64_t fired_before = counters_.fired;
    bool caught_up = run_ticks(current);
    if (caught_up) {
        settle(current);
        current.finished = true;
    }
    return {static_cast<std::size_t>(counters_.fired - fired_before), caught_up};
}

/// Hops from visit to visit. The first is known: it is now() if an earlier call has left work.
bool timer_wheel::run_ticks(turn& current) {
    jiffies visit = wake_;
    for (;;) {
        now_ = std::min(visit, target_);
        if (!run_tick(current)) return false;
        if (now_ == target_) return true;
        visit = next_visit();
    }
}

/// Runs tick now(), or what is left of it. Returns whether all of it is done.
bool timer_wheel::run_tick(turn& current) { return enter_slots(current) && fire_due(current); }

/// Empties the slots whose lap begins with this tick. Most are empty already.
bool timer_wheel::enter_slots(turn& current) noexcept {
    for (unsigned level = first_upper; level < geometry::levels; ++level) {
        if (now_ % geometry::width_of(level) != 0) return true;
        if (!cascade(geometry::slot_at(level, now_), current)) return false;
    }
    return now_ % geometry::width_of(geometry::overflow) != 0 || cascade_overflow(current);
}

/// The running slot receives no arms, so it is emptied in place: there is no work list.
bool timer_wheel::fire_due(turn& current) {
    const unsigned s = geometry::slot_at(geometry::root, now_);
    if (!levels_.occupied(s)) return true;
    for (; current.budget != 0; --current.budget) {
        detail::link* const l = levels_.pop(s);
        if (l == nullptr) break;
        visit(timer::of(*l));
    }
    return levels_.settle_if_empty(s);
}

/// Visits a timer of the running slot. Idle ones have a deadline beyond every tick.
void timer_wheel::visit(timer& t) {
    if (t.expires_ > now_) [[unlikely]]
        return sink(t);
    ++counters_.fired;
    TVEC_PROBE3(fire, this, &t, t.expires_);
    t.fire_(*this, t);
}

/// Visits a timer that is not due yet: places it again, or drops it if it is idle.
void timer_wheel::sink(timer& t) noexcept {
    if (t.expires_ & timer::idle_bit) {
        ++counters_.dropped;
        return;
    }
    ++counters_.moved;
    TVEC_PROBE3(move, this, &t, t.expires_);
    place(t);
}

/// Moves up to `limit` timers of slot `s` down. Returns whether it is empty.
bool timer_wheel::cascade(unsigned s, turn& current, std::size_t limit) noexcept {
    const std::size_t allowed = std::min(limit, current.budget);
    std::size_t left = allowed;
    for (; left != 0; --left) {
        detail::link* const l = levels_.pop(s);
        if (l == nullptr) break;
        sink(timer::of(*l));
    }
    current.budget -= allowed - left;
    return levels_.settle_if_empty(s);
}

/// Places what has waited in the overflow slot again, a lap ahead of the first expiry there. What
/// is still too far away goes back to that slot, which is why it is emptied aside.
bool timer_wheel::cascade_overflow(turn& current) noexcept {
    if (now_ >= overflow_due_) {
        levels_.take(geometry::overflow_rest, geometry::overflow_slot);
        overflow_due_ = never;
    }
    return cascade(geometry::overflow_rest, current);
}

/// Does this stretch's share of emptying the slots whose lap comes next.
void timer_wheel::cascade_ahead(turn& current) noexcept {
    for (unsigned level = first_upper; level < geometry::levels; ++level)
        cascade_burst(level, current);
}

/// A burst from the slot of `level` that comes next, if its time has come. The time of the one
/// after is chosen such that bursts of equal size end just before the slot's lap begins.
void timer_wheel::cascade_burst(unsigned level, turn& current) noexcept {
    const jiffies entry = geometry::entry_of(level, now_) + geometry::width_of(level);
    const unsigned s = geometry::slot_at(level, entry);
    if (now_ < burst_at_[level] || !levels_.occupied(s) || current.budget == 0) return;
    const jiffies ticks = entry - now_;
    const auto share = static_cast<std::size_t>(levels_.at_most(s) / ticks + 1);
    cascade(s, current, std::max(burst_size, share));
    const jiffies pause = ticks * burst_size / (levels_.at_most(s) + burst_size);
    burst_at_[level] = now_ + std::max<jiffies>(pause, 1);
}

// --- look ahead ---------------------------------------------------------------------------------

/// The next occupied slot of the root, or `never`.
jiffies timer_wheel::next_in_root() noexcept {
    const unsigned ahead = levels_.next_occupied(geometry::root, now_);
    return ahead != 0 ? now_ + ahead : never;
}

/// Whether `tick` comes before the upper levels have a say again.
bool timer_wheel::in_this_block(jiffies tick) const noexcept {
    return tick <= (now_ | (geometry::width_of(first_upper) - 1));
}

jiffies timer_wheel::next_visit() noexcept {
    const jiffies tick = next_in_root();
    return in_this_block(tick) ? tick : look_ahead(tick).visit;
}

/// Reads the occupancy of the upper levels; what the root says is known.
timer_wheel::outlook timer_wheel::look_ahead(jiffies in_root) noexcept {
    outlook found{std::min(overflow_due_, in_root), never};
    for (unsigned level = first_upper; level < geometry::levels; ++level) {
        const unsigned ahead = levels_.next_occupied(level, now_);
        if (ahead == 0) continue;
        const jiffies width = geometry::width_of(level);
        const jiffies entry = geometry::entry_of(level, now_) + ahead * width;
        const jiffies burst = ahead > 1 ? entry - width : std::max(now_ + 1, burst_at_[level]);
        found.visit = std::min(found.visit, entry);
        found.burst = std::min(found.burst, burst);
    }
    return found;
}

/// Ends a call that has caught up: empties ahead if it is time, and notes what comes next.
void timer_wheel::settle(turn& current) noexcept {
    const bool ahead = now_ >= next_burst_;
    if (ahead) cascade_ahead(current);
    wake_ = next_in_root();
    if (ahead || !in_this_block(wake_)) {
        const outlook found = look_ahead(wake_);
        wake_ = found.visit;
        next_burst_ = found.burst;
    }
    quiet_ = std::min(wake_, next_burst_);
}

/// What hangs in the running slot is due, or has been pushed back and is placed again on the way.
jiffies timer_wheel::wakeup_while_running() noexcept {
    const bool left_over = !levels_.empty(geometry::slot_at(geometry::root, now_));
    return left_over ? now_ : look_ahead(next_in_root()).visit;
}

jiffies timer_wheel::earliest_in(unsigned s) const noexcept {
    jiffies first = never;
    levels_.for_each_in(s, [&](const detail::link& l) {
        if (timer::of(l).pending()) first = std::min(first, timer::of(l).expires());
    });
    return first;
}

std::optional<jiffies> timer_wheel::next_expiry() const noexcept {
    jiffies first =
        std::min(earliest_in(geometry::overflow_slot), earliest_in(geometry::overflow_rest));
    for (unsigned level = geometry::root; level < geometry::levels; ++level) {
        const jiffies width = geometry::width_of(level);
        jiffies tick = now_;  // the slot of now() itself may hold what is left of this tick
        for (unsigned ahead = 0; ahead <= geometry::ring_of(level); ++ahead, tick += width) {
            if (geometry::entry_of(level, tick) > first) break;
            const unsigned s = geometry::slot_at(level, tick);
            if (levels_.occupied(s)) first = std::min(first, earliest_in(s));
        }
    }
    return first == never ? std::nullopt : std::optional(first);
}

// --- drain --------------------------------------------------------------------------------------

/// As long as it lives the wheel is running: it can be neither advanced nor destroyed.
timer_wheel::evicted::evicted(timer_wheel& wheel) noexcept
    : wheel_(wheel), was_running_(std::exchange(wheel.running_, true)) {
    rest_.reset(sentinel_);
    for (unsigned s = 0; s < geometry::slots; ++s) {
        while (detail::link* const l = wheel.levels_.pop(s))
            rest_.push(*l, detail::wheel_number::nobody);
        wheel.levels_.settle_if_empty(s);
    }
    wheel.overflow_due_ = wheel.next_burst_ = wheel.wake_ = never;
    if (!was_running_) wheel.quiet_ = wheel.target_ = wheel.now_;
}

timer_wheel::evicted::~evicted() {
    while (timer* const t = next()) wheel_.place(*t);
    wheel_.running_ = was_running_;
    if (!was_running_) wheel_.quiet_ = std::min(wheel_.wake_, wheel_.next_burst_);
}

timer* timer_wheel::evicted::next() noexcept {
    while (rest_.first() != &sentinel_) {
        timer& t = timer::of(rest_.pop());
        if (!(t.expires_ & timer::idle_bit)) return &t;
    }
    return nullptr;
}

}  // namespace tvec
