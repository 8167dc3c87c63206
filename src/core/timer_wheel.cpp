#include "tvec/core/timer_wheel.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "tvec/core/detail/broken_promise.hpp"

namespace tvec {

namespace geometry = detail::geometry;

namespace {

constexpr unsigned first_upper = geometry::root + 1;

}  // namespace

/// One call of `advance`: the wheel is running while the turn lives. If work is left at its end,
/// the wheel is due at once.
struct timer_wheel::turn {
    turn(timer_wheel& w, std::size_t visits) noexcept : wheel(w), budget(visits) {
        assert(!wheel.running_ && "a wheel runs one call at a time");
        wheel.running_ = true;
        TVEC_PROBE3(advance_begin, &wheel, wheel.now_, wheel.target_);
    }
    ~turn() {
        TVEC_PROBE3(advance_end, &wheel, wheel.now_, finished);
        wheel.running_ = false;
        if (!finished) wheel.agenda_.leave(wheel.now_);
    }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

    /// Prepares the slot of now() before its next timer is taken: a no-op here.
    static void prepare(unsigned) noexcept {}

    /// Runs the callback of a timer of `w`, which is `wheel`. Returns whether to go on.
    static bool fire(timer_wheel& w, timer& t) {
        t.fire_(w, t);
        return true;
    }

    timer_wheel& wheel;
    std::size_t budget;  ///< visits left
    bool finished = false;
};

/// One call of `advance_watched`.
struct timer_wheel::watched_turn : turn {
    watched_turn(timer_wheel& w, std::size_t visits, const watcher& around) noexcept
        : turn(w, visits), around_(around) {}

    bool fire(timer_wheel& w, timer& t) const { return around_(due_callback(w, t)); }

private:
    watcher around_;
};

/// One call of `advance_in_order`.
struct timer_wheel::ordered_turn : turn {
    ordered_turn(timer_wheel& w, std::size_t visits, const ordering& by) noexcept
        : turn(w, visits), by_(by) {}

    /// Sorts the timers in the slot of now(), unless they are sorted. A `drain` in a callback whose
    /// visitor has thrown leaves them unsorted.
    void prepare(unsigned s) const noexcept {
        if (std::exchange(wheel.sorted_, wheel.now_) == wheel.now_) return;
        wheel.levels_.sort(s, [this](detail::link& a, detail::link& b) {
            return by_(timer::of(a), timer::of(b));
        });
    }

private:
    ordering by_;
};

timer_wheel::timer_wheel(tick_count now) noexcept
    : now_(std::min<jiffies>(now, never - 1)), levels_(number_.tag()) {}

timer_wheel::~timer_wheel() {
    if (running_)
        detail::broken_promise("a timer_wheel is destroyed by one of its own callbacks, or by the "
                               "visitor of its drain(): it must outlive them");
    levels_.pop_all([](detail::link&) {});
}

// --- arm ----------------------------------------------------------------------------------------

bool timer_wheel::arm_within(timer& t, tick_count earliest, tick_count latest) noexcept {
    earliest = std::clamp<jiffies>(earliest, now_ + 1, never);
    latest = std::clamp<jiffies>(latest, earliest, never);
    if (t.pending() && surely_here(t) && earliest <= t.expires() && t.expires() <= latest)
        return true;
    // `keep` is the highest bit in which latest differs from the tick before the window. Clearing
    // the bits below it leaves the tick of the window that ends in the most zeros.
    const auto keep = std::bit_width((earliest - 1) ^ latest) - 1;
    // They differ, so `keep` is not negative. NOLINTNEXTLINE(clang-analyzer-core.*)
    const jiffies roundest = latest >> keep << keep;
    assert(earliest <= roundest && roundest <= latest && "the roundest tick is in the window");
    return arm_at(t, roundest);
}

jiffies timer_wheel::arm_next(timer& t, tick_count period) noexcept {
    period = std::max<jiffies>(period, 1);
    const jiffies due = t.expires();
    const jiffies missed = detail::missed_by(now_ + behind(), due, period);
    arm_at(t, detail::later(due + missed * period, period));
    return missed;
}

/// The slow path of `arm_at`: `expires` is now or past, or above `never` and negative as a signed
/// number.
bool timer_wheel::arm_past(timer& t, jiffies expires) noexcept {
    assert((expires <= now_ || expires > never) && "arm_at places all other deadlines");
    if (expires > never) return arm_at(t, never);
    TVEC_PROBE3(arm, this, &t, expires);
    const bool was_pending = t.pending();
    t.unlink_if_linked();
    t.expires_ = expires;
    place(t, now_ + 1);
    return was_pending;
}

/// The slow path of `place`: links `t` to the slot for `at` on any level, beyond the levels or for
/// `never`, and notes its visit in the agenda. A timer for `never` is not visited.
void timer_wheel::place_anywhere(timer& t, jiffies at) noexcept {
    assert(now_ <= at && at <= never && "a timer is visited now or later");
    const unsigned log2 = geometry::log2_of(at - now_);
    unsigned s = geometry::slot_by_log2(at, log2), last_chain = geometry::last_chain_by_log2(log2);
    const bool is_beyond = s == geometry::beyond || at == never;
    if (is_beyond) {
        s = at == never ? geometry::never_slot : geometry::overflow_slot_for(at, now_);
        last_chain = geometry::chains_of(s) - 1;
    }
    levels_.bound_count(s);
    levels_.push(s, last_chain, t);
    if (at == never) return;
    levels_.set_occupied(s);
    const unsigned level = is_beyond ? geometry::overflow : geometry::level_by_log2(log2);
    if (level == geometry::root) return agenda_.note_root(at);
    const jiffies entry =
        is_beyond ? geometry::visit_of(level, s, now_) : geometry::entry_of(level, at);
    agenda_.note({level, entry}, levels_.at_most(s), now_);
}

// --- advance ------------------------------------------------------------------------------------

/// Inlined in each of its three callers: a plain `advance` does not pay for the other two.
template <class Turn, class... How>
[[gnu::always_inline]] inline timer_wheel::progress
timer_wheel::run_as(jiffies until, std::size_t budget, const How&... how) {
    if (running_) return {0, false};
    if (until < now_) ++counters_.clock_backward;
    assert(now_ < never && "a wheel stops before `never`");
    target_ = std::clamp(until, now_, never - 1);

    Turn current{*this, budget, how...};
    const std::uint64_t fired_before = counters_.fired;
    current.finished = run_ticks(current) && settle(current);
    return {static_cast<std::size_t>(counters_.fired - fired_before), current.finished};
}

timer_wheel::progress timer_wheel::run(jiffies until, std::size_t budget) {
    return run_as<turn>(until, budget);
}

timer_wheel::progress timer_wheel::run_watched(jiffies until, std::size_t budget, watcher around) {
    return run_as<watched_turn>(until, budget, around);
}

timer_wheel::progress timer_wheel::run_in_order(jiffies until, std::size_t budget, ordering by) {
    return run_as<ordered_turn>(until, budget, by);
}

/// Jumps from visit to visit up to the target. The first one is cached: it is now() if an earlier
/// call has left work. Returns whether all ticks were run.
template <class Turn> bool timer_wheel::run_ticks(Turn& current) {
    jiffies visit = agenda_.wake();
    for (;;) {
        assert(visit >= now_ && "time does not run backwards");
        now_ = std::min(visit, target_);
        agenda_.begin(now_);
        if (now_ >= agenda_.upper_visit() && !enter_slots(current)) return false;
        if (!fire_due(current)) return false;
        if (now_ == target_) return true;
        visit = std::min(next_in_root(), agenda_.upper_visit());
    }
}

/// Empties the slots that have to be empty now, and looks ahead. Most are empty already. Returns
/// whether the budget has sufficed.
bool timer_wheel::enter_slots(turn& current) noexcept {
    assert(now_ == agenda_.upper_visit() && "no visit is passed over");
    for (unsigned level = first_upper; level <= geometry::overflow; ++level) {
        if (now_ % geometry::width_of(level) != 0) break;
        const unsigned s = geometry::slot_before(level, now_);
        if (levels_.occupied(s) && !cascade(s, unlimited, current)) return false;
    }
    look_ahead();
    return true;
}

/// Runs the rest of tick now(). No timer is linked to the running slot, and it is emptied in place:
/// there is no work list. Returns whether the slot is empty now.
template <class Turn> bool timer_wheel::fire_due(Turn& current) {
    const unsigned s = geometry::slot_at(geometry::root, now_);
    if (!levels_.occupied(s)) return true;
    for (detail::slot due = levels_[s]; current.budget != 0; --current.budget) {
        current.prepare(s);
        detail::link* const l = due.pop();
        if (l == nullptr) break;
        timer& t = timer::of(*l);
        if (t.expires_ > now_) [[unlikely]] {  // idle, or pushed back
            if (!is_idle(t)) place(t, t.expires_);
            continue;
        }
        ++counters_.fired;
        TVEC_PROBE3(fire, this, &t, t.expires_);
        if (!current.fire(*this, t)) current.budget = 1;  // as if this were the last visit
    }
    return levels_.settle_if_empty(s);
}

/// Returns whether a timer that is visited before it is due is idle: the wheel drops it. Otherwise
/// the caller places it again.
bool timer_wheel::is_idle(const timer& t) noexcept {
    assert(!t.linked() && "a visit unlinks a timer first");
    const bool idle = t.expires_ & timer::idle_bit;  // an idle deadline is after every tick
    if (idle) {
        ++counters_.dropped;
    } else {
        ++counters_.moved;
        TVEC_PROBE3(move, this, &t, t.expires_);
    }
    return idle;
}

/// Moves up to `most` timers of slot `s` down. The agenda need not note them, because the wheel
/// looks ahead afterwards. Returns whether the slot is empty now.
bool timer_wheel::cascade(unsigned s, std::size_t most, turn& current) noexcept {
    assert(s >= geometry::first_slot_of(first_upper) && "the slots of the root do not cascade");
    const auto move = [this](detail::link& l) {
        timer& t = timer::of(l);
        if (is_idle(t)) return;
        assert(t.expires_ >= now_ && "a slot is visited before its timers are due");
        const unsigned log2 = geometry::log2_of(t.expires_ - now_);
        const unsigned to = geometry::slot_by_log2(t.expires_, log2);
        if (to == geometry::beyond) [[unlikely]]
            return place_anywhere(t, t.expires_);
        levels_.push(to, geometry::last_chain_by_log2(log2), t);
        levels_.set_occupied(to);
    };
    const std::size_t moved =
        levels_[s].pop_each(std::min(most, current.budget), levels_.owner(), move);
    assert(moved <= current.budget && "a call visits no more timers than its budget");
    current.budget -= moved;
    return levels_.settle_if_empty(s);
}

/// Empties the next slot of each level as far as it is due now, and looks ahead. Returns whether
/// the budget has sufficed.
bool timer_wheel::empty_ahead(turn& current) noexcept {
    for (unsigned level = first_upper; level <= geometry::overflow; ++level)
        if (!empty_ahead(level, current)) return false;
    look_ahead();
    return true;
}

/// Empties the next slot of `level` as far as it is due now. Returns whether the rest can leave in
/// time: moves at the gentle rate may be left to a later call.
bool timer_wheel::empty_ahead(unsigned level, turn& current) noexcept {
    const detail::visit next{level, geometry::entry_of(level, now_) + geometry::width_of(level)};
    const unsigned s = next.slot();
    if (!levels_.occupied(s)) return true;
    const auto due = static_cast<std::size_t>(agenda_.due(next, levels_.at_most(s), now_));
    if (due != 0) cascade(s, due, current);
    return agenda_.is_in_time(next, levels_.at_most(s), now_);
}

/// Ends a call that has run all ticks: empties ahead if it is time, and caches the next ticks.
/// Returns whether the budget has sufficed.
bool timer_wheel::settle(turn& current) noexcept {
    assert(now_ == target_ && "slots are emptied ahead when all ticks were run");
    if (now_ >= agenda_.may_empty() && !empty_ahead(current)) return false;
    agenda_.rest(next_in_root(), now_);  // slots above the root are emptied before their visits
    return true;
}

// --- look ahead ---------------------------------------------------------------------------------

/// Returns the visit of the next occupied slot of the root, or `never`.
jiffies timer_wheel::next_in_root() noexcept {
    const unsigned ahead = levels_.next_occupied(geometry::root, now_);
    return ahead != 0 ? now_ + ahead : never;
}

/// Returns the visit of the next occupied slot of `level`, or `never`.
jiffies timer_wheel::next_entry(unsigned level) noexcept {
    assert(level != geometry::root && "the slots of the root have no entry");
    if (level == geometry::overflow) {
        const unsigned s = levels_.next_occupied_of_overflow(now_);
        return s == geometry::beyond ? never : geometry::visit_of(level, s, now_);
    }
    const unsigned ahead = levels_.next_occupied(level, now_);
    if (ahead == 0) return never;
    return geometry::entry_of(level, now_) + ahead * geometry::width_of(level);
}

/// Notes the next occupied slot of each upper level. Until its visit no other slot of the level has
/// to be emptied, and at its visit the wheel looks ahead again.
void timer_wheel::look_ahead() noexcept {
    agenda_.forget_upper();
    for (unsigned level = first_upper; level <= geometry::overflow; ++level) {
        const detail::visit next{level, next_entry(level)};
        if (next.entry != never) agenda_.note(next, levels_.at_most(next.slot()), now_);
    }
}

/// Returns what `next_wakeup` answers in a callback. A timer in the running slot is due, or pushed
/// back and placed again in this call.
jiffies timer_wheel::wakeup_while_running() noexcept {
    assert(running_ && "a wheel at rest has cached its wake-up");
    const unsigned s = geometry::slot_at(geometry::root, now_);
    if (!levels_[s].empty()) return now_;
    return agenda_.next(next_in_root(), now_);
}

/// Returns the first expiry in slot `s`, or `never`. A timer armed for the past is due at its
/// visit.
jiffies timer_wheel::earliest_in(unsigned s, jiffies entry) const noexcept {
    jiffies first = never;
    levels_.for_each_in(s, [&](const detail::link& l) {
        const timer& t = timer::of(l);
        if (t.pending()) first = std::min(first, std::max(t.expires(), entry));
    });
    return first;
}

std::optional<jiffies> timer_wheel::next_expiry() const noexcept {
    jiffies first = never;
    for (unsigned level = geometry::root; level < geometry::levels; ++level) {
        const jiffies width = geometry::width_of(level);
        jiffies tick = now_;  // the slot of now() itself may hold what is left of this tick
        for (unsigned ahead = 0; ahead <= geometry::ring_of(level); ++ahead, tick += width) {
            const jiffies entry = geometry::entry_of(level, tick);
            if (entry > first) break;
            const unsigned s = geometry::slot_at(level, tick);
            if (levels_.occupied(s)) first = std::min(first, earliest_in(s, entry));
        }
    }
    for (unsigned s = geometry::first_slot_of(geometry::overflow); s < geometry::beyond; ++s)
        if (levels_.occupied(s)) first = std::min(first, earliest_in(s, now_));
    return first == never ? std::nullopt : std::optional(first);
}

// --- all of them --------------------------------------------------------------------------------

bool timer_wheel::any_pending() const noexcept {
    return levels_.any_of([](const detail::link& l) { return timer::of(l).pending(); });
}

std::size_t timer_wheel::count_pending() const noexcept {
    std::size_t pending = 0;
    for_each_pending([&](const timer&) { ++pending; });
    return pending;
}

// --- drain --------------------------------------------------------------------------------------

/// The wheel is running while `evicted` lives: it can be neither advanced nor destroyed.
timer_wheel::evicted::evicted(timer_wheel& wheel) noexcept
    : wheel_(wheel), was_running_(std::exchange(wheel.running_, true)) {
    const auto nobody = detail::wheel_number::nobody;
    next_.reset(sentinel_);
    rest_.reset(sentinel_);
    for (const unsigned s :
         {geometry::slot_at(geometry::root, wheel.now_ + 1), geometry::never_slot})
        while (detail::link* const l = wheel.levels_[s].pop()) next_.push(*l, nobody);
    wheel.levels_.pop_all([&](detail::link& l) { rest_.push(l, nobody); });
    wheel.agenda_.forget_upper();
    if (was_running_) return;
    wheel.target_ = wheel.now_;
    wheel.agenda_.begin(wheel.now_);
}

timer_wheel::evicted::~evicted() {
    const jiffies now = wheel_.now_;
    while (timer* const t = next_in(next_)) wheel_.place(*t, std::max(t->expires_, now + 1));
    while (timer* const t = next_in(rest_)) wheel_.place(*t, std::max(t->expires_, now));
    assert(wheel_.running_ && "a wheel that is drained cannot be advanced");
    wheel_.sorted_ = never;
    if (!was_running_) wheel_.agenda_.rest_after_drain(wheel_.wakeup_while_running());
    wheel_.running_ = was_running_;
}

timer* timer_wheel::evicted::next() noexcept {
    timer* const t = next_in(next_);
    return t != nullptr ? t : next_in(rest_);
}

timer* timer_wheel::evicted::next_in(detail::chain& from) noexcept {
    while (from.first() != &sentinel_) {
        timer& t = timer::of(from.pop());
        if (!(t.expires_ & timer::idle_bit)) return &t;
    }
    return nullptr;
}

}  // namespace tvec
