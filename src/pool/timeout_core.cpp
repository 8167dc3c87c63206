#include <algorithm>
#include <cassert>
#include <cstdio>
#include <exception>
#include <utility>

#include "tvec/core/detail/broken_promise.hpp"
#include "tvec/pool/detail/timeout_core.hpp"

namespace tvec::detail {

/// Returns the first armed node with an index from `index` on, or null. `index` moves behind it.
timeout_node* timeout_core::next_armed(std::uint32_t& index) const noexcept {
    while (index < slabs_.indices())
        if (timeout_node* const n = slabs_.at(index++); n && n->armed()) return n;
    return nullptr;
}

template <class F> void timeout_core::for_each_armed(F visit) const {
    for (std::uint32_t i = 0; timeout_node* const n = next_armed(i);) visit(*n);
}

timeout_core::~timeout_core() {
    if (user_code_depth_ + reserved_ != 0)
        broken_promise("a timeout_pool is destroyed by one of its own functions, by its exception "
                       "hook, or by the visitor of its stop(): it must outlive them");
    stopped_ = true;
    for_each_armed([this](timeout_node& n) {
        disarm(n);
        release(n, timeout_phase::cancelled);
    });
}

// --- scheduling ---------------------------------------------------------------------------------

timeout_node* timeout_core::take(bool has_function, schedule_error& error) noexcept {
    timeout_node* n = nullptr;
    if (!has_function)
        error = schedule_error::no_function;
    else if (stopped_)
        error = schedule_error::stopped;
    else if (full())
        error = schedule_error::too_many;
    else if (n = slabs_.take(); n == nullptr)
        error = schedule_error::out_of_memory;
    n ? ++reserved_ : ++counters_.rejected;
    assert((n == nullptr) == (error != schedule_error::none) && "a refusal says why");
    return n;
}

/// Moving the function in may have stopped the pool.
scheduled timeout_core::admit(timeout_node& n, beginning begin) noexcept {
    assert(n.phase == timeout_phase::unused && "a reservation is admitted once");
    if (stopped_) {
        n.drop_function();
        ++counters_.rejected;
        return {{}, schedule_error::stopped};
    }
    ++pending_;
    assert(pending_ <= max_pending_ && "a reservation counts against the bound");
    n.phase = timeout_phase::pending;
    arm_first(n, begin, begin.due != begin.first);
    return {timeout_slabs::handle_of(n), schedule_error::none};
}

timeout_reservation::~timeout_reservation() {
    if (!node_) return;
    assert(core_.reserved_ != 0 && "each reservation is counted once");
    --core_.reserved_;
    if (node_->phase == timeout_phase::unused) core_.slabs_.give_back(*node_);
}

/// Reserves one more node: a function that is being called needs its node, and is not pending any
/// more.
bool timeout_core::reserve(std::size_t timeouts) noexcept {
    return timeouts == 0 || (timeouts + 1 != 0 && slabs_.reserve(timeouts + 1));
}

void timeout_core::arm(timeout_node& n, jiffies due) noexcept {
    assert(n.armed() && "a pending timeout is armed");
    high_water_ = std::max(high_water_, pending_);
    const jiffies next = wheel_.now() + 1;
    n.due = std::max(due, next);
    n.at_once = n.paused = false;
    wheel_.arm_at(n.alarm, early_ ? next : n.due);
}

/// Arms for the first call. If that is an extra one, the first deadline is yet to come.
void timeout_core::arm_first(timeout_node& n, beginning at, bool has_extra_call) noexcept {
    arm(n, at.first);
    if (!has_extra_call) return;
    n.due = at.due;
    n.at_once = true;
}

void timeout_core::pause(timeout_node& n, beginning paused) noexcept {
    assert(n.armed() && "a pending timeout is paused");
    n.due = paused.due;
    n.paused = true;
    wheel_.arm_at(n.alarm, paused.first);
}

bool timeout_core::reschedule(timeout_handle h, jiffies due) noexcept {
    timeout_node* const n = slabs_.find(h);
    if (!n || !(n->armed() || readmit(*n))) return false;
    arm(*n, due);
    return true;
}

/// Makes a timeout pending again that is being called for the last time, unless the pool refuses.
bool timeout_core::readmit(timeout_node& n) noexcept {
    if (n.phase != timeout_phase::running) return false;
    if (stopped_ || full()) {
        ++counters_.rejected;
        return false;
    }
    n.phase = timeout_phase::running_again;
    ++pending_;
    return true;
}

void timeout_core::run_early(bool early) noexcept {
    early_ = early;
    for_each_armed([&](timeout_node& n) { early ? bring_forward(n) : take_back(n); });
}

/// Leaves due alarms where they are: armed again, they would come later. Paused ones stay paused.
void timeout_core::bring_forward(timeout_node& n) noexcept {
    const jiffies next = wheel_.now() + 1;
    if (n.alarm.pending() && !n.paused && n.alarm.expires() > next) wheel_.arm_at(n.alarm, next);
}

/// Leaves due alarms where they are: only a deadline to come is waited for again.
void timeout_core::take_back(timeout_node& n) noexcept {
    if (n.alarm.pending() && !n.at_once && n.due > wheel_.now()) wheel_.arm_at(n.alarm, n.due);
}

// --- run ----------------------------------------------------------------------------------------

void run_timeout(timer_wheel&, timer& t) {
    timeout_node& n = owner_of<&timeout_node::alarm>(t);
    n.owner->fire(n);
}

void timeout_core::fire(timeout_node& n) {
    assert(n.phase == timeout_phase::pending && "an alarm fires for a pending timeout");
    const in_user_code here(user_code_depth_);
    const jiffies late = late_by(n);
    ++counters_.fired;
    counters_.late += late;
    counters_.latest = std::max(counters_.latest, late);
    const jiffies deadline = n.deadline();
    const timeout_call c{timeout_slabs::handle_of(n), n.period != 0 ? renew(n) : 0, deadline};
    n.phase = n.period != 0 ? timeout_phase::running_again : timeout_phase::running;
    if (n.period == 0) --pending_;
    std::exception_ptr thrown = call(n, c);
    finish(n);
    report(c.self, std::move(thrown));
}

/// Returns the ticks from the deadline to the tick that the wheel has reached, or is advancing to.
/// An extra call at once is never late.
jiffies timeout_core::late_by(const timeout_node& n) const noexcept {
    return reached() > n.due && !n.at_once ? reached() - n.due : 0;
}

/// Arms a periodic timeout for its next period. Returns the number of skipped periods.
jiffies timeout_core::renew(timeout_node& n) noexcept {
    assert(n.period != 0 && "a periodic timeout is renewed");
    const beat next = n.at_once ? beat{n.due, 0} : beat_after(n.due, n.period, n.policy, reached());
    n.due = next.due;
    n.at_once = false;
    wheel_.arm_at(n.alarm, std::max(n.due, wheel_.now() + 1));
    counters_.missed += next.missed;
    return next.missed;
}

/// Calls the function. Returns the exception that it threw, or null.
std::exception_ptr timeout_core::call(timeout_node& n, const timeout_call& c) {
#ifdef __cpp_exceptions
    try {
        n.function->call(n.storage, c);
    } catch (...) {
        ++counters_.failed;
        return std::current_exception();
    }
#else
    n.function->call(n.storage, c);
#endif
    return nullptr;
}

/// Ends a call. From here on the node may belong to another timeout.
void timeout_core::finish(timeout_node& n) noexcept {
    if (n.phase == timeout_phase::running_again)
        n.phase = timeout_phase::pending;
    else
        release(n, n.phase == timeout_phase::running ? timeout_phase::fired
                                                     : timeout_phase::cancelled);
}

void timeout_core::report(timeout_handle h, std::exception_ptr thrown) {
    if (thrown && hook_) hook_(h, std::move(thrown));
}

namespace {

[[maybe_unused]] void tell_of(const char* what) noexcept {
    std::fprintf(
        stderr,
        "tvec: a function of a timeout_pool has thrown %s, which the pool contains. Nobody "
        "is told of exceptions: catch them, or set a hook by on_exception()\n",
        what);
}

}  // namespace

void tell_of_exception(timeout_handle, [[maybe_unused]] std::exception_ptr thrown) noexcept {
    static thread_local bool told = false;
    if (std::exchange(told, true)) return;
#ifdef __cpp_exceptions
    try {
        std::rethrow_exception(std::move(thrown));
    } catch (const std::exception& e) {
        tell_of(e.what());
    } catch (...) {
        tell_of("what is no std::exception");
    }
#endif
}

// --- cancellation -------------------------------------------------------------------------------

bool timeout_core::cancel(timeout_handle h) noexcept {
    timeout_node* const n = slabs_.find(h);
    if (!n || !n->armed()) return false;
    const bool running = n->phase == timeout_phase::running_again;
    disarm(*n);
    ++counters_.cancelled;
    if (running)
        n->phase = timeout_phase::running_cancelled;
    else
        release(*n, timeout_phase::cancelled);
    return true;
}

void timeout_core::disarm(timeout_node& n) noexcept {
    assert(n.armed() && pending_ != 0 && "pending timeouts are counted");
    n.alarm.cancel();
    --pending_;
}

/// Ends a timeout. The destructor of its function may call the pool, which sees the timeout as
/// ended.
void timeout_core::release(timeout_node& n, timeout_phase end) noexcept {
    const in_user_code here(user_code_depth_);
    assert((end == timeout_phase::fired || end == timeout_phase::cancelled) && "it has ended");
    assert(!n.alarm.pending() && "a timeout that has ended does not fire");
    n.phase = end;
    n.drop_function();
    slabs_.give_back(n);
}

/// Cancels periodic timeouts that are being called: they are not handed over, and do not run again.
void timeout_core::stop() noexcept {
    stopped_ = true;
    for_each_armed([this](timeout_node& n) {
        if (n.phase == timeout_phase::running_again) cancel(timeout_slabs::handle_of(n));
    });
}

/// Returns the pending timeout whose function is of that kind. Kinds are compared by address.
timeout_node* timeout_core::waiting(timeout_handle h, const timeout_kind& kind) const noexcept {
    timeout_node* const n = slabs_.find(h);
    return n && n->phase == timeout_phase::pending && n->function == &kind ? n : nullptr;
}

timeout_handover::timeout_handover(timeout_core& core, timeout_node* n) noexcept
    : core_(core), node_(n) {
    if (!node_) return;
    core.disarm(*node_);
    here_.emplace(core.user_code_depth_);
    node_->phase = timeout_phase::handed_over;
}

timeout_handover::~timeout_handover() {
    if (!node_) return;
    const bool has_run = node_->phase == timeout_phase::fired;
    if (!has_run) ++core_.counters_.cancelled;
    core_.release(*node_, has_run ? timeout_phase::fired : timeout_phase::cancelled);
}

bool timeout_handover::run() {
    if (node().phase != timeout_phase::handed_over) return false;
    node_->phase = timeout_phase::running;
    ++core_.counters_.fired;
    std::exception_ptr thrown = core_.call(*node_, {handle(), 0, due()});
    node_->phase = timeout_phase::fired;
    core_.report(handle(), std::move(thrown));
    return true;
}

// --- queries ------------------------------------------------------------------------------------

timeout_state timeout_core::state(timeout_handle h) const noexcept {
    const timeout_node* const n = slabs_.find(h);
    if (!n) return timeout_state::unknown;
    switch (n->phase) {
    case timeout_phase::unused:
        return timeout_state::unknown;
    case timeout_phase::pending:
        return timeout_state::pending;
    case timeout_phase::running:
    case timeout_phase::running_again:
    case timeout_phase::running_cancelled:
        return timeout_state::running;
    case timeout_phase::fired:
        return timeout_state::fired;
    case timeout_phase::handed_over:
    case timeout_phase::cancelled:
        return timeout_state::cancelled;
    }
    return timeout_state::unknown;
}

/// Returns the timeout that fires first. Drained timeouts and those armed for `never` do not fire.
const timeout_node* timeout_core::next() const noexcept {
    const timeout_node* first = nullptr;
    jiffies earliest = never;
    for_each_armed([&](const timeout_node& n) {
        if (!n.alarm.pending() || n.alarm.expires() >= earliest) return;
        earliest = n.alarm.expires();
        first = &n;
    });
    return first;
}

std::optional<jiffies> timeout_core::due(timeout_handle h) const noexcept {
    const timeout_node* const n = slabs_.find(h);
    if (!n || !n->armed()) return std::nullopt;
    return n->deadline();
}

}  // namespace tvec::detail
