/// \file
/// A wheel that lives in a loop of libuv.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <uv.h>

#include <chrono>
#include <cstdint>

#include "tvec/guests/guest.hpp"

namespace tvec {

namespace detail {

/// One uv_timer_t, which is set before each sleep, and a turn after each.
class libuv_host {
    using time_point = std::chrono::steady_clock::time_point;

public:
    libuv_host(guest_turn turn, uv_loop_t* loop) : turn_(turn), stay_(new stay) {
        uv_prepare_init(loop, &stay_->before);  // these six cannot fail
        uv_check_init(loop, &stay_->after);
        uv_timer_init(loop, &stay_->alarm);
        stay_->before.data = stay_->after.data = this;
        uv_prepare_start(&stay_->before, [](uv_prepare_t* h) { of(h).start_alarm(); });
        uv_check_start(&stay_->after, [](uv_check_t* h) { of(h).ring(); });
        stay_->each([](uv_handle_t* h) { uv_unref(h); });
    }
    ~libuv_host() {
        if (uv_is_closing(stay_->handle(stay_->alarm)) != 0) {  // by the program
            delete stay_;
            return;
        }
        stay_->before.data = stay_->after.data = stay_->alarm.data = stay_;
        stay_->each([](uv_handle_t* h) { uv_close(h, &closed); });
    }
    libuv_host(const libuv_host&) = delete;
    libuv_host& operator=(const libuv_host&) = delete;

    void set_alarm(time_point t) noexcept { wakeup_ = t; }
    void keep_running(bool on) { (on ? uv_ref : uv_unref)(stay_->handle(stay_->before)); }

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
    template <class Handle> static libuv_host& of(Handle* h) noexcept {
        return *static_cast<libuv_host*>(h->data);
    }
    void ring() noexcept { turn_(); }
    /// To an earlier time only.
    void start_alarm() noexcept {
        if (wakeup_ == time_point::max()) return;
        if (set_for_ <= wakeup_ && uv_is_active(stay_->handle(stay_->alarm)) != 0) return;
        set_for_ = wakeup_;
        const auto left = nanoseconds_from(time_point::clock::now(), wakeup_);
        const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left);
        const auto ignore = [](uv_timer_t*) {};  // it only ends the sleep
        uv_timer_start(&stay_->alarm, ignore, static_cast<std::uint64_t>(rounded.count()), 0);
    }

    guest_turn turn_;
    stay* stay_;
    time_point wakeup_ = time_point::max();
    time_point set_for_{};
};

}  // namespace detail

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
/// Without it, and with nothing else left, UV_RUN_ONCE and UV_RUN_NOWAIT fire nothing. Where each
/// pass is a call of these, timers fire one call late.
///
/// **A turn** follows the I/O of each pass of the loop. Turns and stalls are those of every
/// `guest`, as is what follows a change of the clock.
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
template <class Ticks = tick_clock<std::chrono::milliseconds>>
class libuv_guest : public guest<detail::libuv_host, Ticks> {
public:
    /// Makes an empty wheel in `loop`. Throws std::bad_alloc, and nothing else.
    explicit libuv_guest(uv_loop_t* loop, Ticks ticks = {})
        : guest<detail::libuv_host, Ticks>(loop, ticks) {}
};

}  // namespace tvec
