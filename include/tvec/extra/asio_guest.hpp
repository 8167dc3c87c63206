/// \file
/// A wheel that lives in an io_context, of Boost.Asio or of standalone Asio. Where both are
/// installed, include yours before this header, which takes Boost.Asio otherwise.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <chrono>
#include <memory>
#include <utility>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/extra/detail/asio_host.hpp"
#include "tvec/extra/detail/fair_turn.hpp"

namespace tvec {

/// A clocked_wheel whose timers fire in io.run(). No loop is written:
///
///     tvec::asio_guest timers{io};
///     timers->arm_after(session.idle, 30s);       // or a pool, a group, a mailbox on *timers
///     io.run();                                   // as before
///
/// **One timer of Asio** carries the next wake-up of all. It is moved when a timer is armed for
/// earlier, from anywhere on the thread: a handler, a callback, before run() or between two of
/// them. A push-back is one store, of which Asio learns nothing.
///
/// **run() ends when nothing else is left**, however many timers are pending: see keep_running.
/// A wake-up is a handler of io, which run_one() and poll() count. So is the guest's first turn.
///
/// **A turn** makes at most 256 visits, then other handlers have theirs. They cannot starve the
/// timers: Asio comes to the guest's alarm as often as to any timer of its own. After a stall of
/// 100 ms or more, handlers have 16 turns, or half a second, to hear peers before a timer judges
/// them.
///
/// **Exceptions** from callbacks leave io.run(), as those of handlers do. Other timers stay due.
///
/// **One thread** calls io.run(), and owns the wheel: a debug build asserts that no other thread
/// arms or fires timers. Strands do not help, because they change threads. Where several threads
/// run an io_context, give the timers one of their own, with one thread and a mailbox.
///
/// **Life.** Guest and io may be destroyed in either order: afterwards no timer is pending, or none
/// fires. The guest stays where it is. Its callbacks must not destroy it. An io_context may have
/// any number of guests.
template <class Context, class Ticks = tick_clock<std::chrono::milliseconds>> class asio_guest {
public:
    using context_type = Context;             ///< the io_context
    using wheel_type = clocked_wheel<Ticks>;  ///< the wheel

    /// Makes an empty wheel in `io`. Throws std::bad_alloc, and what Asio throws.
    explicit asio_guest(Context& io, Ticks ticks = {}) : timers_(ticks) {
        auto made = std::make_unique<stay>(*this, io);
        stay_ = made.get();
        wait(std::move(made), {});
        timers_.wheel().on_earlier_wakeup(&move_alarm, this);
    }
    /// Ends sleeps (see asio_sleep.hpp) with operation_aborted.
    ~asio_guest() {
        sleeps_.end_all(false);
        if (stay_ == nullptr) return;
        stay_->count();
        stay_->guest = nullptr;
        stay_->alarm.cancel();  // the handler destroys it
    }
    asio_guest(const asio_guest&) = delete;
    asio_guest& operator=(const asio_guest&) = delete;

    wheel_type& operator*() noexcept { return timers_; }    ///< the wheel
    wheel_type* operator->() noexcept { return &timers_; }  ///< the wheel

    /// Counts as work of io until `keep_running(false)`: run() goes on with nothing else, for a
    /// program that waits for nothing but timers and mailboxes.
    void keep_running(bool on = true) {
        keeps_running_ = on;
        if (stay_ == nullptr) return;
        if (on) return stay_->count();
        stay_->alarm.cancel();  // the end of a turn takes it back
    }

private:
    template <class, class, class> friend class detail::asio_sleep_of;
    using host = detail::asio_host<Context>;
    using time_point = typename wheel_type::time_point;

    /// What Asio owns of the guest: the handler of the alarm, which always waits, holds it.
    struct stay {
        stay(asio_guest& g, Context& io) : guest(&g), executor(io.get_executor()), alarm(io) {}
        ~stay() {
            if (guest == nullptr) return;
            guest->stay_ = nullptr;  // the io_context is being destroyed
            guest->sleeps_.end_all(true);
        }
        void count() {
            if (!std::exchange(counted, true)) executor.on_work_started();
        }

        asio_guest* guest;
        typename Context::executor_type executor;
        typename host::template timer_on<typename wheel_type::clock> alarm;
        bool counted = true;  ///< as work; taken back within run(), which stops io at the last
    };

    static void wait(std::unique_ptr<stay> s, time_point until) {
        auto& alarm = s->alarm;
        alarm.expires_at(until);
        alarm.async_wait([s = std::move(s)](const auto&) mutable {
            if (s->guest != nullptr) turn(std::move(s));
        });
    }
    static void turn(std::unique_ptr<stay> s) {
        stay& here = *s;
        asio_guest& guest = *s->guest;
        struct end_of_turn {  // also after an exception
            ~end_of_turn() {
                wait(std::move(s), guest.timers_.next_wakeup().value_or(time_point::max()));
                if (!guest.keeps_running_ && std::exchange(here.counted, false))
                    here.executor.on_work_finished();
            }
            std::unique_ptr<stay> s;
            stay& here;
            asio_guest& guest;
        } const end{std::move(s), here, guest};
        here.count();
        guest.turn_.run(guest.timers_);
    }
    static void move_alarm(void* guest) noexcept {
        if (stay* const s = static_cast<asio_guest*>(guest)->stay_) s->alarm.cancel();
    }

    wheel_type timers_;
    detail::fair_turn<wheel_type> turn_;
    detail::asio_sleep sleeps_{nullptr, nullptr};  ///< the head of the list
    stay* stay_ = nullptr;
    bool keeps_running_ = false;
};

/// Deduces the types of the io_context and of the ticks.
template <class Context> explicit asio_guest(Context&) -> asio_guest<Context>;
/// The same with ticks of one's own.
template <class Context, class Ticks> asio_guest(Context&, Ticks) -> asio_guest<Context, Ticks>;

}  // namespace tvec
