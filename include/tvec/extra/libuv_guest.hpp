/// \file
/// A wheel that lives in a loop of libuv.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <uv.h>

#include <chrono>
#include <cstdint>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/extra/detail/fair_turn.hpp"

namespace tvec {

/// A clocked_wheel whose timers fire in uv_run:
///
///     tvec::libuv_guest timers{loop};
///     timers->arm_after(session.idle, 30s);       // or a pool, a group, a mailbox on *timers
///     uv_run(loop, UV_RUN_DEFAULT);               // as before
///
/// **One uv_timer_t** carries the next wake-up of all. It is set before each sleep of the loop, to
/// an earlier time only, so timers may be armed anywhere on the thread: in any callback, before
/// uv_run or between two of them. It counts in milliseconds, rounded up: a timer may be that much
/// later than in a loop of your own.
///
/// **uv_run ends when nothing else is left**, however many timers are pending: see keep_running.
///
/// **A turn** follows the I/O of each pass of the loop, and makes at most 256 visits. After a stall
/// of 100 ms or more, the loop makes 16 passes first, or passes for half a second, to hear peers
/// before a timer judges them.
///
/// **Exceptions** from callbacks of timers end the program (std::terminate), because they cannot
/// pass through libuv.
///
/// **One thread** runs the loop, and owns the wheel, as it does with all handles: a debug build
/// asserts it. Other threads send by a mailbox whose doorbell is uv_async_send.
///
/// **Life.** Destroy the guest before the loop, then let the loop turn once more, which frees the
/// three handles: uv_loop_close returns UV_EBUSY until then. If the program has closed them itself
/// by uv_walk, it runs the loop before it destroys the guest. Callbacks of the guest's timers must
/// not destroy it. It stays where it is. A loop may have any number of guests.
template <class Ticks = tick_clock<std::chrono::milliseconds>> class libuv_guest {
public:
    using wheel_type = clocked_wheel<Ticks>;  ///< the wheel

    /// Makes an empty wheel in `loop`. Throws std::bad_alloc, and nothing else.
    explicit libuv_guest(uv_loop_t* loop, Ticks ticks = {}) : timers_(ticks), stay_(new stay) {
        uv_prepare_init(loop, &stay_->before);  // these six cannot fail
        uv_check_init(loop, &stay_->after);
        uv_timer_init(loop, &stay_->alarm);
        stay_->before.data = stay_->after.data = this;
        uv_prepare_start(&stay_->before, [](uv_prepare_t* h) { of(h).set_alarm(); });
        uv_check_start(&stay_->after, [](uv_check_t* h) { of(h).turn(); });
        stay_->each([](uv_handle_t* h) { uv_unref(h); });
    }
    ~libuv_guest() {
        if (uv_is_closing(stay_->handle(stay_->alarm)) != 0) {  // by the program
            delete stay_;
            return;
        }
        stay_->before.data = stay_->after.data = stay_->alarm.data = stay_;
        stay_->each([](uv_handle_t* h) { uv_close(h, &closed); });
    }
    libuv_guest(const libuv_guest&) = delete;
    libuv_guest& operator=(const libuv_guest&) = delete;

    wheel_type& operator*() noexcept { return timers_; }    ///< the wheel
    wheel_type* operator->() noexcept { return &timers_; }  ///< the wheel

    /// Keeps the loop alive until `keep_running(false)`: uv_run goes on with nothing else, for a
    /// program that waits for nothing but timers.
    void keep_running(bool on = true) { (on ? uv_ref : uv_unref)(stay_->handle(stay_->before)); }

private:
    /// What the loop uses of the guest until it has closed it.
    struct stay {
        template <class Handle> static uv_handle_t* handle(Handle& h) noexcept {
            return reinterpret_cast<uv_handle_t*>(&h);
        }
        template <class F> void each(F f) { f(handle(before)), f(handle(after)), f(handle(alarm)); }

        uv_prepare_t before;
        uv_check_t after;
        uv_timer_t alarm;
        int open = 3;
    };

    static void closed(uv_handle_t* h) {
        auto* const s = static_cast<stay*>(h->data);
        if (--s->open == 0) delete s;
    }
    template <class Handle> static libuv_guest& of(Handle* h) noexcept {
        return *static_cast<libuv_guest*>(h->data);
    }
    void turn() noexcept { turn_.run(timers_); }
    void set_alarm() noexcept {
        const auto wakeup = timers_.next_wakeup();
        if (!wakeup) return;
        if (set_for_ <= *wakeup && uv_is_active(stay_->handle(stay_->alarm)) != 0) return;
        set_for_ = *wakeup;
        const auto left = detail::time_left(wheel_type::clock::now(), *wakeup);
        const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left);
        const auto ignore = [](uv_timer_t*) {};  // it only ends the sleep
        uv_timer_start(&stay_->alarm, ignore, static_cast<std::uint64_t>(rounded.count()), 0);
    }

    wheel_type timers_;
    detail::fair_turn<wheel_type> turn_;
    stay* stay_;
    typename wheel_type::time_point set_for_{};
};

}  // namespace tvec
