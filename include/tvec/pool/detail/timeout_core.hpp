/// \file
/// A pool without its clock: all of `timeout_pool`, in ticks.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "tvec/clock/detail/beats.hpp"
#include "tvec/core/detail/export.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/pool/detail/in_user_code.hpp"
#include "tvec/pool/detail/timeout_slabs.hpp"

namespace tvec::detail {

/// The life of timeouts: reserved, pending, running, fired or cancelled. Deadlines are ticks of the
/// caller's clock. A deadline that has passed counts as the next tick.
class TVEC_API timeout_core {
public:
    struct counters {
        std::uint64_t fired = 0;
        std::uint64_t cancelled = 0;
        std::uint64_t rejected = 0;
        std::uint64_t failed = 0;
        std::uint64_t missed = 0;
        jiffies late = 0;
        jiffies latest = 0;
    };
    using exception_hook = std::function<void(timeout_handle, std::exception_ptr)>;

    timeout_core(timer_wheel& wheel, std::size_t max_pending, std::uint32_t counted = 0) noexcept
        : wheel_(wheel), max_pending_(max_pending), slabs_(*this, counted) {}
    ~timeout_core();
    timeout_core(const timeout_core&) = delete;
    timeout_core& operator=(const timeout_core&) = delete;

    bool cancel(timeout_handle h) noexcept;
    timeout_state state(timeout_handle h) const noexcept;
    std::optional<jiffies> due(timeout_handle h) const noexcept;

    bool reschedule(timeout_handle h, jiffies due) noexcept;
    /// Arms an armed timeout for a tick that stands for a pause, as its deadline is then one. It
    /// does not run early.
    void pause(timeout_node& n, beginning paused) noexcept;
    /// Arms a paused timeout again.
    void resume(timeout_node& n, beginning again) noexcept { arm_first(n, again, n.at_once); }

    /// Returns the node whose alarm is set for the earliest tick, or null. O(nodes).
    const timeout_node* next() const noexcept;

    void run_early(bool early) noexcept;
    void stop() noexcept;
    void on_exception(exception_hook hook) { hook_ = std::move(hook); }

    std::size_t pending() const noexcept { return pending_; }
    std::size_t max_pending() const noexcept { return max_pending_; }
    std::size_t high_water() const noexcept { return high_water_; }
    bool stopped() const noexcept { return stopped_; }
    const counters& count() const noexcept { return counters_; }

    bool reserve(std::size_t timeouts) noexcept;

    timeout_slabs& slabs() noexcept { return slabs_; }
    const timeout_slabs& slabs() const noexcept { return slabs_; }

private:
    friend class timeout_reservation;
    friend class timeout_handover;
    friend class timeout_walk;
    friend void run_timeout(timer_wheel&, timer&);

    timeout_node* take(bool has_function, schedule_error& error) noexcept;
    scheduled admit(timeout_node& n, beginning begin) noexcept;
    bool full() const noexcept { return pending_ + reserved_ >= max_pending_; }
    void arm(timeout_node& n, jiffies due) noexcept;
    void arm_first(timeout_node& n, beginning at, bool has_extra_call) noexcept;
    bool readmit(timeout_node& n) noexcept;
    void bring_forward(timeout_node& n) noexcept;
    void take_back(timeout_node& n) noexcept;
    void fire(timeout_node& n);
    jiffies late_by(const timeout_node& n) const noexcept;
    jiffies reached() const noexcept { return wheel_.now() + wheel_.behind(); }
    jiffies renew(timeout_node& n) noexcept;
    std::exception_ptr call(timeout_node& n, const timeout_call& c);
    void finish(timeout_node& n) noexcept;
    void release(timeout_node& n, timeout_phase end) noexcept;
    void disarm(timeout_node& n) noexcept;
    void report(timeout_handle h, std::exception_ptr thrown);
    timeout_node* next_armed(std::uint32_t& index) const noexcept;
    timeout_node* waiting(timeout_handle h, const timeout_kind& kind) const noexcept;
    template <class F> void for_each_armed(F visit) const;

    timer_wheel& wheel_;
    std::size_t max_pending_;
    std::size_t pending_ = 0;
    std::size_t reserved_ = 0;  ///< timeouts whose functions are being moved in
    std::size_t high_water_ = 0;
    mutable std::size_t user_code_depth_ = 0;  ///< calls in progress; reservations count separately
    bool stopped_ = false;
    bool early_ = false;
    counters counters_;
    exception_hook hook_;
    timeout_slabs slabs_;
};

/// The hook of a pool in a debug build: reports once per thread on the standard error output the
/// first exception that a function throws.
TVEC_API void tell_of_exception(timeout_handle, std::exception_ptr thrown) noexcept;

/// A reservation for a new timeout: it counts against the bound, but is not pending. Unless it is
/// admitted, it has no effect.
class TVEC_API timeout_reservation {
public:
    timeout_reservation(timeout_core& core, bool has_function) noexcept
        : core_(core), node_(core.take(has_function, error_)) {}
    ~timeout_reservation();
    timeout_reservation(const timeout_reservation&) = delete;
    timeout_reservation& operator=(const timeout_reservation&) = delete;

    /// Returns the reason why there is no node, or none.
    schedule_error error() const noexcept { return error_; }
    timeout_node& node() noexcept {
        assert(node_ != nullptr && "there is no error");
        return *node_;
    }

    /// Makes the timeout pending. Requires that the node holds a function. Refused if moving it in
    /// stopped the pool.
    scheduled admit(beginning begin) noexcept { return core_.admit(node(), begin); }

private:
    timeout_core& core_;
    schedule_error error_ = schedule_error::none;
    timeout_node* node_;
};

/// A walk over armed timeouts. Between two steps anything may happen, except that the pool is
/// destroyed. A timeout that stays armed is visited once.
class TVEC_API timeout_walk {
public:
    explicit timeout_walk(const timeout_core& core) noexcept
        : core_(core), here_(core.user_code_depth_) {}

    /// Returns the next node, or null.
    const timeout_node* next() noexcept { return core_.next_armed(index_); }

private:
    const timeout_core& core_;
    in_user_code here_;
    std::uint32_t index_ = 0;
};

/// A timeout that is taken out: `stop` shows it to a visitor, or `take` returns its function.
class TVEC_API timeout_handover {
public:
    /// Takes out the first pending timeout with an index from `index` on, if there is one.
    timeout_handover(timeout_core& core, std::uint32_t& index) noexcept
        : timeout_handover(core, core.next_armed(index)) {}
    /// Takes out the pending timeout of that handle, if its function is of that kind and is not
    /// being called.
    timeout_handover(timeout_core& core, timeout_handle h, const timeout_kind& kind) noexcept
        : timeout_handover(core, core.waiting(h, kind)) {}
    ~timeout_handover();
    timeout_handover(const timeout_handover&) = delete;
    timeout_handover& operator=(const timeout_handover&) = delete;

    explicit operator bool() const noexcept { return node_ != nullptr; }
    timeout_handle handle() const noexcept { return timeout_slabs::handle_of(node()); }
    jiffies due() const noexcept { return node().deadline(); }
    bool run();
    /// Returns its function. Requires that it is of that type.
    template <class F> F& function() noexcept {
        assert((node().function == &function_kind_of<F, const timeout_call&>::value) &&
               "the function is of that type");
        return held<F>(node().storage);
    }

private:
    timeout_handover(timeout_core& core, timeout_node* n) noexcept;

    timeout_node& node() const noexcept {
        assert(node_ != nullptr && "a timeout was taken out");
        return *node_;
    }

    timeout_core& core_;
    timeout_node* node_;
    std::optional<in_user_code> here_;
};

}  // namespace tvec::detail
