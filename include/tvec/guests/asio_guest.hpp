/// \file
/// A wheel that lives in an io_context, of Boost.Asio or of standalone Asio. Where both are
/// installed, include yours before this header, which takes Boost.Asio otherwise.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/guests/detail/asio_host.hpp"
#include "tvec/guests/guest.hpp"

namespace tvec {

namespace detail {

/// What an alarm of one thread has in the place of a lock.
struct one_thread {
    void lock() noexcept {}
    void unlock() noexcept {}
    bool has_calls() const noexcept { return false; }
};

/// One timer of Asio, whose handler always waits, and the sleeps that io has to end. A turn holds
/// the lock, and so does who sets the alarm.
template <class Context, class Threads = one_thread> class asio_alarm : public Threads {
    static_assert(sizeof(asio_host<Context>) != 0);  // says what a guest lives in, before the rest
    using time_point = std::chrono::steady_clock::time_point;

public:
    asio_alarm(guest_turn turn, Context& io) : turn_(turn) {
        auto made = std::make_unique<stay>(*this, io);
        stay_ = made.get();
        wait(std::move(made), {});
    }
    ~asio_alarm() {
        sleeps_.end_all(false);
        if (stay_ == nullptr) return;
        stay_->count();
        stay_->host = nullptr;
        stay_->alarm.cancel();  // the handler destroys it
    }
    asio_alarm(const asio_alarm&) = delete;
    asio_alarm& operator=(const asio_alarm&) = delete;

    void set_alarm(time_point t) noexcept {
        if (this->has_calls()) t = {};  // which an exception has left over
        if (ringing_ != nullptr) return wait(std::move(ringing_), t);
        if (stay_ != nullptr) stay_->alarm.cancel();  // rings, and is set at the end of the turn
    }
    void keep_running(bool on) {
        keeps_running_ = on;
        if (stay_ == nullptr) return;
        if (on) return stay_->count();
        stay_->alarm.cancel();  // the end of a turn takes it back
    }

    auto executor() const noexcept { return stay_->executor; }
    asio_sleep& sleeps() noexcept { return sleeps_; }  ///< the head of the list

private:
    /// What Asio owns of the guest: the handler of the alarm, which always waits, holds it.
    struct stay {
        stay(asio_alarm& h, Context& io) : host(&h), executor(io.get_executor()), alarm(io) {}
        ~stay() {
            if (host == nullptr) return;
            host->stay_ = nullptr;  // the io_context is being destroyed
            host->sleeps_.end_all(true);
        }
        void count() {
            if (!std::exchange(counted, true)) executor.on_work_started();
        }

        asio_alarm* host;
        typename Context::executor_type executor;
        typename asio_host<Context>::timer alarm;
        bool counted = true;  ///< as work; taken back within run(), which stops io at the last
    };

    static void wait(std::unique_ptr<stay> s, time_point until) {
        auto& alarm = s->alarm;
        alarm.expires_at(until);
        alarm.async_wait([s = std::move(s)](const auto&) mutable {
            if (s->host != nullptr) ring(std::move(s));
        });
    }
    static void ring(std::unique_ptr<stay> s) {
        stay& here = *s;
        asio_alarm& self = *here.host;
        const std::lock_guard<Threads> under(self);
        struct end_of_turn {  // also after an exception
            ~end_of_turn() {
                if (!self.keeps_running_ && std::exchange(here.counted, false))
                    here.executor.on_work_finished();
            }
            stay& here;
            asio_alarm& self;
        } const end{here, self};
        here.count();
        self.ringing_ = std::move(s);
        self.turn_();
    }

    guest_turn turn_;
    asio_sleep sleeps_{nullptr, nullptr};
    stay* stay_ = nullptr;
    std::unique_ptr<stay> ringing_;  ///< in a turn, until the alarm is set
    bool keeps_running_ = false;
};

}  // namespace detail

/// A clocked_wheel whose timers fire in io.run(). No loop is written:
///
///     tvec::asio_guest timers{io};
///     timers->arm_after(session.idle, 30s);       // or a pool, a group, a mailbox on *timers
///     io.run();                                   // as before
///
/// **Turns and stalls** are those of every `guest`, as is what follows a change of the clock.
///
/// **One timer of Asio** carries the next wake-up of all. It is moved when a timer is armed for
/// earlier, from anywhere on the thread: a handler, a callback, before run() or between two of
/// them. A push-back is one store, of which Asio learns nothing.
///
/// **run() ends when nothing else is left**, however many timers are pending: see keep_running.
/// A wake-up is a handler of io, which run_one() and poll() count. So is the guest's first turn.
///
/// **Exceptions** from callbacks leave io.run(), as those of handlers do. Other timers stay due.
///
/// **One thread** calls io.run(), and owns the wheel: a debug build asserts that no other thread
/// arms or fires timers. Strands do not help, because they change threads. Where several threads
/// run an io_context, take asio_shared_timer.
///
/// **Life.** Guest and io may be destroyed in either order: afterwards no timer is pending, or none
/// fires. The guest stays where it is. Its callbacks must not destroy it. An io_context may have
/// any number of guests.
template <class Context, class Ticks = tick_clock<std::chrono::milliseconds>>
class asio_guest : public guest<detail::asio_alarm<Context>, Ticks> {
    using base = guest<detail::asio_alarm<Context>, Ticks>;

public:
    using context_type = Context;  ///< the io_context

    /// Makes an empty wheel in `io`. Throws std::bad_alloc, and what Asio throws. Its end ends
    /// sleeps (see asio_sleep.hpp) with operation_aborted.
    explicit asio_guest(Context& io, Ticks ticks = {}) : base(io, ticks) {}

private:
    template <class, class, class> friend class detail::asio_sleep_of;
};

/// Deduces the types of the io_context and of the ticks.
template <class Context> explicit asio_guest(Context&) -> asio_guest<Context>;
/// The same with ticks of one's own.
template <class Context, class Ticks> asio_guest(Context&, Ticks) -> asio_guest<Context, Ticks>;

}  // namespace tvec
