#include "tvec/core/timer_wheel.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "tvec/core/detail/broken_promise.hpp"

namespace tvec {

namespace geometry = detail::geometry;

namespace {

constexpr unsigned first_upper = geometry::root + 1;
constexpr unsigned first_far = geometry::first_slot_of(first_upper + 1);

}  // namespace

/// One call of `advance`: the wheel is running while the object lives. If work is left at its end,
/// the wheel is due at once.
struct timer_wheel::advance_call {
    advance_call(timer_wheel& w, std::size_t visits) noexcept : wheel(w), budget(visits) {
        assert(wheel.busy_ == activity::none && "a wheel runs one call at a time");
        wheel.busy_ = activity::run;
        TVEC_PROBE3(advance_begin, &wheel, wheel.now_, wheel.target_);
    }
    ~advance_call() {
        TVEC_PROBE3(advance_end, &wheel, wheel.now_, finished);
        wheel.busy_ = activity::none;
        if (!finished) wheel.agenda_.leave(wheel.now_);
    }
    advance_call(const advance_call&) = delete;
    advance_call& operator=(const advance_call&) = delete;

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

/// One call in which `take` gets the timers: of `collect`, `advance_watched` or `advance_in_order`.
struct timer_wheel::taking_call : advance_call {
    taking_call(timer_wheel& w, std::size_t visits, const taker& take, const ordering* by) noexcept
        : advance_call(w, visits), take_(take), by_(by) {}

    /// Sorts the timers in the slot of now() if there is an order, unless they are sorted. A
    /// `drain` in a callback whose visitor has thrown leaves them unsorted.
    void prepare(unsigned s) const noexcept {
        if (by_ == nullptr || wheel.sorted_ == wheel.now_ || wheel.levels_[s].empty()) return;
        wheel.sorted_ = wheel.now_;
        wheel.levels_[s].sort(wheel.levels_.tag(), [this](detail::link& a, detail::link& b) {
            return (*by_)(timer::of(a), timer::of(b));
        });
    }

    bool fire(timer_wheel&, timer& t) const { return take_(t); }

private:
    taker take_;
    const ordering* by_;
};

timer_wheel::timer_wheel(tick_count now) noexcept
    : now_(std::min<jiffies>(now, never - 1)), levels_(number_.tag()) {}

timer_wheel::~timer_wheel() {
    if (busy_ != activity::none)
        detail::broken_promise("a timer_wheel is destroyed by one of its own callbacks, or by a "
                               "visitor of its timers: it must outlive them");
    levels_.pop_all([](detail::link&) {});
}

// --- arm ----------------------------------------------------------------------------------------

bool timer_wheel::arm_within(timer& t, tick_count earliest, tick_count latest) noexcept {
    earliest = std::min<jiffies>(earliest, never);
    latest = std::clamp<jiffies>(latest, earliest, never);
    // Before the window is moved to the next tick: a timer that is due fires where it is.
    if (t.pending() && surely_here(t) && earliest <= t.expires() && t.expires() <= latest)
        return true;
    earliest = std::max<jiffies>(earliest, now_ + 1);
    latest = std::max<jiffies>(latest, earliest);
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
    if (at == never) {
        levels_.bound_count(geometry::never_slot);
        return levels_.push(geometry::never_slot, t);
    }
    const unsigned level = geometry::level_for(at, now_);
    const bool is_beyond = level == geometry::overflow;
    const unsigned s =
        is_beyond ? geometry::overflow_slot_for(at, now_) : geometry::slot_for(at, now_);
    levels_.bound_count(s);
    levels_.push(s, t);
    levels_.set_occupied(s);
    const jiffies before = agenda_.wake();
    if (level == geometry::root) {
        agenda_.note_root(at);
    } else {
        const jiffies entry =
            is_beyond ? geometry::visit_of(level, s, now_) : geometry::entry_of(level, at);
        agenda_.note({level, entry}, levels_.at_most(s), now_);
    }
    if (agenda_.wake() < before) levels_.tell_listener();
}

// --- advance ------------------------------------------------------------------------------------

/// Inlined in each of its two callers: a plain `advance` does not pay for the other calls.
template <class Call, class... How>
[[gnu::always_inline]] inline timer_wheel::progress
timer_wheel::run_as(jiffies until, std::size_t budget, const How&... how) {
    if (busy_ != activity::none) return {0, false};
    if (until < now_) ++counters_.clock_backward;
    assert(now_ < never && "a wheel stops before `never`");
    target_ = std::clamp(until, now_, never - 1);

    Call current{*this, budget, how...};
    const std::uint64_t fired_before = counters_.fired;
    current.finished = run_ticks(current);
    return {static_cast<std::size_t>(counters_.fired - fired_before), current.finished};
}

timer_wheel::progress timer_wheel::run(jiffies until, std::size_t budget) {
    return run_as<advance_call>(until, budget);
}

timer_wheel::progress timer_wheel::run_taking(jiffies until, std::size_t budget, taker take,
                                              const ordering* by) {
    return run_as<taking_call>(until, budget, take, by);
}

/// Jumps from visit to visit up to the target. The first one is cached: it is now() if an earlier
/// call has left work. Returns whether all ticks were run.
template <class Call> [[gnu::always_inline]] inline bool timer_wheel::run_ticks(Call& current) {
    jiffies visit = agenda_.wake();
    for (;;) {
        assert(visit >= now_ && "time does not run backwards");
        now_ = std::min(visit, target_);
        agenda_.begin(now_);
        if (now_ >= agenda_.above(geometry::root).visit && !enter_slots(current)) return false;
        if (!fire_due(current)) return false;
        if (now_ == target_ && now_ >= agenda_.above(geometry::root).may && !empty_ahead(current))
            return false;
        const jiffies root = next_in_root();
        if (now_ == target_) {
            agenda_.rest(root, now_);  // slots above the root are emptied before their visits
            return true;
        }
        visit = std::min(root, agenda_.above(geometry::root).visit);
    }
}

/// Empties the slots that have to be empty now, and looks ahead. Most are empty already. Returns
/// whether the budget has sufficed.
bool timer_wheel::enter_slots(advance_call& current) noexcept {
    assert(now_ == agenda_.above(geometry::root).visit && "no visit is passed over");
    unsigned level = first_upper;
    do {
        const unsigned s = geometry::slot_before(level, now_);
        if (levels_.occupied(s) && !cascade(s, unlimited, current)) return false;
        ++level;
    } while (level <= geometry::overflow && now_ % geometry::width_of(level) == 0);
    look_ahead(level - 1);
    return true;
}

/// Runs the rest of tick now(). No timer is linked to the running slot, and it is emptied in place:
/// there is no work list. Returns whether the slot is empty now.
template <class Call> [[gnu::always_inline]] inline bool timer_wheel::fire_due(Call& current) {
    const unsigned s = geometry::slot_at(geometry::root, now_);
    if (!levels_.occupied(s)) return true;
    for (detail::slot due = levels_[s]; current.budget != 0; --current.budget) {
        current.prepare(s);
        detail::link* const l = due.pop();
        if (l == nullptr) break;
        timer& t = timer::of(*l);
        if (t.expires_ > now_) [[unlikely]] {  // idle, or pushed back
            if (!count_early_visit(t)) place(t, t.expires_);
            continue;
        }
        ++counters_.fired;
        TVEC_PROBE3(fire, this, &t, t.expires_);
        if (!current.fire(*this, t)) current.budget = 1;  // as if this were the last visit
    }
    return levels_.settle_if_empty(s);
}

/// Counts the visit of a timer before it is due. Returns whether it is idle: the wheel drops it.
/// Otherwise the caller places it again.
bool timer_wheel::count_early_visit(const timer& t) noexcept {
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
bool timer_wheel::cascade(unsigned s, std::size_t most, advance_call& current) noexcept {
    assert(s >= geometry::first_slot_of(first_upper) && "the slots of the root do not cascade");
    const auto move = [this](detail::link& l) {
        timer& t = timer::of(l);
        if (count_early_visit(t)) return;
        assert(t.expires_ >= now_ && "a slot is visited before its timers are due");
        const bool is_near = t.expires_ - now_ < geometry::ring_of(geometry::root);
        const unsigned to = is_near ? geometry::slot_at(geometry::root, t.expires_)  // no tables
                                    : geometry::slot_for(t.expires_, now_);
        if (to >= first_far) [[unlikely]]  // level 1 alone may be looked through afterwards
            return place(t, t.expires_);
        levels_.push(to, t);
        levels_.set_occupied(to);
    };
    const std::size_t moved =
        levels_[s].pop_each(std::min(most, current.budget), levels_.tag(), move);
    assert(moved <= current.budget && "a call visits no more timers than its budget");
    current.budget -= moved;
    return levels_.settle_if_empty(s);
}

/// Empties the next slot of each level as far as it is due now, and looks ahead. Returns whether
/// the budget has sufficed. A slot that is next on its level gets no more timers, so the rate of
/// one that is not due may be fixed later.
bool timer_wheel::empty_ahead(advance_call& current) noexcept {
    const unsigned highest = agenda_.highest_to_empty(now_);
    for (unsigned level = first_upper; level <= highest; ++level)
        if (!empty_ahead(level, current)) return false;
    look_ahead(highest);
    return true;
}

/// Empties the next slot of `level` as far as it is due now. Returns whether the rest can leave in
/// time: moves at the gentle rate may be left to a later call.
bool timer_wheel::empty_ahead(unsigned level, advance_call& current) noexcept {
    const detail::upper_entry next{level,
                                   geometry::entry_of(level, now_) + geometry::width_of(level)};
    const unsigned s = next.slot();
    if (!levels_.occupied(s)) return true;
    if (detail::agenda::leaves_together(level, levels_.at_most(s))) {
        cascade(s, unlimited, current);
        return true;
    }
    const auto due = static_cast<std::size_t>(agenda_.due(next, levels_.at_most(s), now_));
    if (due != 0) cascade(s, due, current);
    return agenda_.is_in_time(next, levels_.at_most(s), now_);
}

std::size_t timer_wheel::move_ahead(std::size_t most) noexcept {
    thread_.adopt_caller();
    if (busy_ != activity::none || agenda_.wake() <= now_) return 0;
    const detail::upper_entry next{first_upper, geometry::entry_of(first_upper, now_) +
                                                    geometry::width_of(first_upper)};
    const unsigned s = next.slot();
    if (!levels_.occupied(s)) return 0;
    target_ = now_;
    advance_call current{*this, most};
    current.finished = true;
    agenda_.begin(now_);
    static_cast<void>(agenda_.due(next, levels_.at_most(s), now_));  // fixes the rates of the rest
    cascade(s, most, current);
    look_ahead(first_upper);
    agenda_.rest(next_in_root(), now_);
    return most - current.budget;
}

// --- look ahead ---------------------------------------------------------------------------------

/// Returns the visit of the next occupied slot of the root, or `never`.
[[gnu::always_inline]] inline jiffies timer_wheel::next_in_root() noexcept {
    const unsigned ahead = levels_.next_occupied(geometry::root, now_);
    return ahead != 0 ? now_ + ahead : never;
}

/// Returns the visit of the next occupied slot of `level`, or `never`.
[[gnu::always_inline]] inline jiffies timer_wheel::next_entry(unsigned level) noexcept {
    assert(level != geometry::root && "the slots of the root have no entry");
    if (level == geometry::overflow) {
        const unsigned s = levels_.next_occupied_of_overflow(now_);
        return s == geometry::beyond ? never : geometry::visit_of(level, s, now_);
    }
    const unsigned ahead = levels_.next_occupied(level, now_);
    if (ahead == 0) return never;
    return geometry::entry_of(level, now_) + ahead * geometry::width_of(level);
}

/// Looks ahead after visits on the levels up to `highest`.
void timer_wheel::look_ahead(unsigned highest) noexcept {
    static_assert(detail::agenda::apart == 2);
    if (highest == 1) return look_ahead_up_to<1>();
    if (highest == 2) return look_ahead_up_to<2>();
    look_ahead_up_to<geometry::overflow>();
}

/// Notes the next occupied slot of each of these levels, in code without a loop: the shape of each
/// is a constant. Until its visit no other slot of the level has to be emptied, and at its visit
/// the wheel looks ahead again. Timers of the levels above may be gone, and leave at most the
/// wake-up that was noted: none when these levels have no timer either.
template <unsigned Highest>
[[gnu::always_inline]] inline void timer_wheel::look_ahead_up_to() noexcept {
    agenda_.forget_up_to(Highest);
    bool is_any = false;
#pragma GCC unroll 5
    for (unsigned level = first_upper; level <= Highest; ++level)
        if (note_next_of(level)) is_any = true;
    if constexpr (Highest < geometry::overflow)
        if (!is_any && !is_visit_needed_above(Highest)) look_ahead(geometry::overflow);
}

/// Notes the next occupied slot of `level`. Returns whether there is one.
[[gnu::always_inline]] inline bool timer_wheel::note_next_of(unsigned level) noexcept {
    const detail::upper_entry next{level, next_entry(level)};
    if (next.entry == never) return false;
    agenda_.note(next, levels_.at_most(next.slot()), now_);
    return true;
}

/// Returns whether the next visit above level `below` has a slot with a timer, or there is none.
bool timer_wheel::is_visit_needed_above(unsigned below) noexcept {
    const jiffies visit = agenda_.above(below).visit;
    if (visit == never) return true;
    for (unsigned level = below + 1;
         level <= geometry::overflow && visit % geometry::width_of(level) == 0; ++level) {
        const unsigned s = geometry::slot_before(level, visit);
        if (levels_.occupied(s) && !levels_.settle_if_empty(s)) return true;
    }
    return false;
}

/// Returns what `next_wakeup` answers in a callback. A timer in the running slot is due, or pushed
/// back and placed again in this call.
jiffies timer_wheel::wakeup_while_running() noexcept {
    assert(busy_ == activity::run && "a wheel at rest has cached its wake-up");
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

// --- all timers ---------------------------------------------------------------------------------

bool timer_wheel::any_pending() const noexcept {
    return levels_.any_of([](const detail::link& l) { return timer::of(l).pending(); });
}

std::size_t timer_wheel::count_pending() const noexcept {
    std::size_t pending = 0;
    for_each_pending([&](const timer&) { ++pending; });
    return pending;
}

/// Ends a walk or a drain. Outside of `advance` the wheel is to wake at `wake`.
void timer_wheel::go_back_to(activity before, jiffies wake) noexcept {
    busy_ = before;
    if (before == activity::run) return;
    agenda_.rest_again(wake, now_);
    if (before == activity::walk) agenda_.begin(now_);
}

// --- walk ---------------------------------------------------------------------------------------

/// The wheel is busy while `walk` lives: it can be neither advanced nor destroyed.
timer_wheel::walk::walk(timer_wheel& wheel) noexcept
    : wheel_(wheel), before_(wheel.busy_), at_{marker_, wheel.levels_.marked_from(0)} {
    marker_.expires_ = never | timer::idle_bit;
    wheel.levels_.enter(at_);
    if (before_ != activity::none) return;
    wheel.busy_ = activity::walk;
    wheel.agenda_.begin(wheel.now_);
}

timer_wheel::walk::~walk() {
    marker_.unlink_if_linked();
    wheel_.levels_.leave(at_);
    wheel_.go_back_to(before_, wheel_.agenda_.wake());
}

timer* timer_wheel::walk::next() noexcept {
    for (; at_.slot != geometry::total_slots; at_.slot = wheel_.levels_.marked_from(at_.slot + 1)) {
        for (; chain_ != geometry::chains_per_slot; ++chain_)
            if (timer* const t = next_in_chain()) return t;
        chain_ = 0;
    }
    return nullptr;
}

/// Goes on behind the marker, or begins a chain. Links the marker behind the timer that it returns.
timer* timer_wheel::walk::next_in_chain() noexcept {
    detail::link* const* from = &wheel_.levels_.chain_of(at_.slot, chain_).first_pointer();
    if (at_.marker.linked()) {
        from = &at_.marker.pointer_here();
        at_.marker.unlink();
    }
    detail::link::expect_link_at(*from);
    for (; !(*from)->ends_chain(); from = &(*from)->next) {
        timer& t = timer::of(**from);
        detail::link::expect_link_at(t.next);
        if (!t.pending()) continue;
        at_.marker.hang_behind(t);
        return &t;
    }
    return nullptr;
}

// --- drain --------------------------------------------------------------------------------------

/// The wheel is running while `evicted` lives: it can be neither advanced nor destroyed.
timer_wheel::evicted::evicted(timer_wheel& wheel) noexcept : wheel_(wheel), before_(wheel.busy_) {
    wheel.busy_ = activity::run;
    wheel.levels_.unlink_markers();
    const auto nobody = detail::wheel_number::nobody;
    next_.reset(sentinel_);
    rest_.reset(sentinel_);
    for (const unsigned s :
         {geometry::slot_at(geometry::root, wheel.now_ + 1), geometry::never_slot})
        while (detail::link* const l = wheel.levels_[s].pop()) next_.push(*l, nobody);
    wheel.levels_.pop_all([&](detail::link& l) { rest_.push(l, nobody); });
    wheel.agenda_.forget_up_to(geometry::overflow);
    if (before_ == activity::run) return;
    wheel.target_ = wheel.now_;
    wheel.agenda_.begin(wheel.now_);
}

timer_wheel::evicted::~evicted() {
    const jiffies now = wheel_.now_;
    while (timer* const t = next_in(next_)) wheel_.place(*t, std::max(t->expires_, now + 1));
    while (timer* const t = next_in(rest_)) wheel_.place(*t, std::max(t->expires_, now));
    assert(wheel_.busy_ == activity::run && "a wheel that is drained cannot be advanced");
    wheel_.sorted_ = never;
    wheel_.go_back_to(before_, wheel_.wakeup_while_running());
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
