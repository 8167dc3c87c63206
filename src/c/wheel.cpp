// The wheel of the C interface: each call is a call of the C++ wheel.
#include <cassert>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "casts.hpp"
#include "layout.hpp"
#include "tvec/clock/detail/alarm_misuse.hpp"

using tvec::c::as_c;
using tvec::c::as_cpp;

namespace {

uint64_t tick_or_never(const std::optional<tvec::jiffies>& tick) {
    return tick.value_or(tvec::never);
}

tvec_progress progress_of(const tvec::timer_wheel::progress& done) {
    return {done.fired, done.caught_up};
}

/// Returns the wheel. In a debug build, notes whether it is run late. Not in a callback: that runs
/// nothing, and to ask for the wake-up there forgets slots that have become empty.
tvec::timer_wheel& to_run(tvec_wheel* wheel, [[maybe_unused]] uint64_t until) {
#ifndef NDEBUG
    if (tvec::detail::layout::is_busy(as_cpp(wheel))) return as_cpp(wheel);
    const uint64_t wakeup = tvec_next_wakeup(wheel);
    tvec::detail::wheel_runs(wheel, wheel->now < wakeup && wakeup < until);
#endif
    return as_cpp(wheel);
}

}  // namespace

bool tvec_unlink(tvec_timer* timer) { return as_cpp(timer).unlink(); }

void tvec_move(tvec_timer* to, tvec_timer* from) {
    assert(to != from && "a timer moves to other bytes");
    new (to) tvec::timer(std::move(as_cpp(from)));
}

void tvec_wheel_init(tvec_wheel* wheel, uint64_t now) {
    assert(reinterpret_cast<uintptr_t>(wheel) % TVEC_WHEEL_ALIGNMENT == 0 &&
           "a wheel lies at a multiple of TVEC_WHEEL_ALIGNMENT");
    new (wheel) tvec::timer_wheel(now);
}

void tvec_wheel_destroy(tvec_wheel* wheel) { std::destroy_at(&as_cpp(wheel)); }

#ifdef _WIN32
static void* aligned_alloc(size_t alignment, size_t size) {
    return _aligned_malloc(size, alignment);
}
static void aligned_free(void* memory) { _aligned_free(memory); }
#else
static void aligned_free(void* memory) { std::free(memory); }
#endif

tvec_wheel* tvec_wheel_new(uint64_t now) {
    void* const memory = aligned_alloc(TVEC_WHEEL_ALIGNMENT, TVEC_WHEEL_SIZE);
    if (memory == nullptr) return nullptr;
    auto* const wheel = static_cast<tvec_wheel*>(memory);
    tvec_wheel_init(wheel, now);
    return wheel;
}

void tvec_wheel_free(tvec_wheel* wheel) {
    if (wheel == nullptr) return;
    tvec_wheel_destroy(wheel);
    aligned_free(wheel);
}

void tvec_wheel_share_by_lock(tvec_wheel* wheel) { as_cpp(wheel).share_by_lock(); }

uint64_t tvec_behind(const tvec_wheel* wheel) { return as_cpp(wheel).behind(); }

void tvec_arm_unlinked(tvec_wheel* wheel, tvec_timer* timer, uint64_t expires) {
    const bool is_linked = tvec::detail::layout::is_linked(as_cpp(timer));
    assert(!is_linked && "a timer that hangs in no wheel");
    if (is_linked) __builtin_unreachable();  // the compiler drops the same test in arm_at
    as_cpp(wheel).arm_at(as_cpp(timer), expires);
}

bool tvec_arm_by_linking(tvec_wheel* wheel, tvec_timer* timer, uint64_t expires) {
    return as_cpp(wheel).arm_at(as_cpp(timer), expires);
}

bool tvec_arm_if_earlier(tvec_wheel* wheel, tvec_timer* timer, uint64_t expires) {
    return as_cpp(wheel).arm_if_earlier(as_cpp(timer), expires);
}

bool tvec_arm_within(tvec_wheel* wheel, tvec_timer* timer, uint64_t earliest, uint64_t latest) {
    return as_cpp(wheel).arm_within(as_cpp(timer), earliest, latest);
}

uint64_t tvec_arm_next(tvec_wheel* wheel, tvec_timer* timer, uint64_t period) {
    return as_cpp(wheel).arm_next(as_cpp(timer), period);
}

tvec_progress tvec_advance(tvec_wheel* wheel, uint64_t until, size_t budget) {
    return progress_of(to_run(wheel, until).advance(until, budget));
}

tvec_progress tvec_advance_in_order(tvec_wheel* wheel, uint64_t until, size_t budget,
                                    bool (*before)(void*, tvec_timer*, tvec_timer*),
                                    void* context) {
    assert(before && "an order");
    const auto is_before = [=](tvec::timer& a, tvec::timer& b) {
        return before(context, as_c(a), as_c(b));
    };
    return progress_of(to_run(wheel, until).advance_in_order(until, is_before, budget));
}

tvec_progress tvec_collect(tvec_wheel* wheel, uint64_t until, size_t budget,
                           bool (*take)(void*, tvec_timer*), void* context) {
    assert(take && "a function that takes timers");
    const auto taken = [=](tvec::timer& t) { return take(context, as_c(t)); };
    return progress_of(to_run(wheel, until).collect(until, budget, taken));
}

uint64_t tvec_next_wakeup(tvec_wheel* wheel) { return tick_or_never(as_cpp(wheel).next_wakeup()); }

void tvec_on_earlier_wakeup(tvec_wheel* wheel, void (*tell)(void*), void* whom) {
    // C has no noexcept, and its functions do not throw.
    as_cpp(wheel).on_earlier_wakeup(reinterpret_cast<void (*)(void*) noexcept>(tell), whom);
}

uint64_t tvec_next_expiry(const tvec_wheel* wheel) {
    return tick_or_never(as_cpp(wheel).next_expiry());
}

bool tvec_any_pending(const tvec_wheel* wheel) { return as_cpp(wheel).any_pending(); }

size_t tvec_count_pending(const tvec_wheel* wheel) { return as_cpp(wheel).count_pending(); }

bool tvec_for_each_pending(tvec_wheel* wheel, bool (*visit)(void*, tvec_timer*), void* context) {
    assert(visit && "a visitor");
    return as_cpp(wheel).for_each_pending([=](tvec::timer& t) { return visit(context, as_c(t)); });
}

size_t tvec_drain(tvec_wheel* wheel, void (*visit)(void*, tvec_timer*), void* context) {
    assert(visit && "a visitor");
    return as_cpp(wheel).drain([=](tvec::timer& t) { visit(context, as_c(t)); });
}

tvec_counters tvec_count(const tvec_wheel* wheel) {
    const auto& done = as_cpp(wheel).count();
    return {done.fired, done.moved, done.dropped, done.clock_backward};
}
