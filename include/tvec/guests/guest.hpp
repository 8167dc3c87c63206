/// \file
/// A wheel that lives in a loop of others: what all guests share, for hosts of your own.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <utility>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/clock/detail/stall_rule.hpp"
#include "tvec/clock/detail/waiting.hpp"

namespace tvec {

namespace detail {

inline constexpr std::size_t visits_in_a_turn = 256;

}  // namespace detail

/// What a host calls when its alarm has gone off: a turn of its guest.
class guest_turn {
public:
    /// Fires what is due, and sets the next alarm. Exceptions of callbacks leave it. Requires that
    /// no turn of the guest is going on.
    void operator()() const { turn_(guest_); }

private:
    template <class, class> friend class guest;
    guest_turn(void (*turn)(void*), void* guest) noexcept : turn_(turn), guest_(guest) {}

    void (*turn_)(void*);
    void* guest_;
};

/// A clocked_wheel whose timers fire in the loop of a `Host`. asio_guest, libuv_guest and
/// libevent_guest are such guests. For another loop write its host, a class with one alarm:
///
///     class my_host {
///     public:
///         my_host(tvec::guest_turn turn, my_loop& loop);    // keeps turn
///         ~my_host();                                       // takes the alarm back
///         // Has the loop call turn() when `t` has come, in the place of the alarm before.
///         void set_alarm(std::chrono::steady_clock::time_point t) noexcept;
///     };
///     tvec::guest<my_host> timers{loop};
///     timers->arm_after(session.idle, 30s);       // or a pool, a group, a mailbox on *timers
///
/// **The alarm** may go off late, but not from within set_alarm. If `t` has passed, the loop
/// handles what has come, and then calls turn(): so asks a guest that has work left over. For
/// time_point::max() there is no alarm. A turn that nobody asked for is harmless, but for one after
/// a stall, which counts as one in which peers were heard. set_alarm is called at the end of each
/// turn, and when a timer is armed for earlier than all others, from anywhere on the thread. A
/// push-back is one store, of which the host learns nothing.
///
/// **The clock** of the alarm is steady_clock. For a wheel on another clock it is set for the time
/// that is left, so it notices no change of that clock, and no suspend: a guest on boottime_clock
/// or system_clock may then be late by all the time that was left. Call `rearm` where the program
/// learns of it, and after it has set, paused or hastened a game_clock. A step forward is taken for
/// a stall, and a step that ends in a stall's hold ends it.
///
/// **A turn** fires what had come due by the turn before, because the loop has handled since then
/// what had come by that time: however long its handlers take, a peer is heard before a timer
/// judges it. So the alarm of a loop that sleeps goes off twice, and the loop does not sleep before
/// the second one. Where a pass of the loop does not hand out all that has come, the rest may be
/// judged unheard: Asio takes 128 events in a pass, libevent 32 at first, and frameworks on
/// io_uring 20 with deferred completions on newer kernels.
///
/// It makes 256 visits, then other handlers have theirs. Where these do not suffice a late turn
/// goes on for as long as it was late, a tenth of a second at most: so timers get as much time as
/// the rest of the loop, in turns of up to that length. A callback that runs the loop itself, as by
/// run_one() of Asio, fires nothing by that: the alarm is set when the turn ends.
///
/// **After a stall** of more than a tenth of a second, and of more than twice as long as turns
/// usually are late, the loop has 16 turns to hear peers before a timer judges them, for as long
/// again as a timer was due, half a second at most. A loop whose turns always take long is slow and
/// not stalled: a timer is at most a turn later there than in a loop of your own, where turns
/// differ the longest of them. The first timers that such a loop is late for count as a stall.
///
/// **One thread** runs the loop, and owns the wheel: a debug build asserts it. Callbacks of timers
/// must not destroy the guest. It stays where it is. A loop may have any number of guests.
template <class Host, class Ticks = tick_clock<std::chrono::milliseconds>> class guest {
public:
    using wheel_type = clocked_wheel<Ticks>;  ///< the wheel

    /// Makes an empty wheel, and a host in `loop`. Throws what the host's constructor throws.
    template <class Loop>
    requires std::constructible_from<Host, guest_turn, Loop&&>
    explicit guest(Loop&& loop, Ticks ticks = {})
        : timers_(ticks), rule_(since_epoch(clock::now()), {}), heard_(timers_.wheel().now()),
          host_(guest_turn(&turn, this), std::forward<Loop>(loop)) {
        timers_.wheel().on_earlier_wakeup(&move_alarm, this);
    }
    guest(const guest&) = delete;
    guest& operator=(const guest&) = delete;

    wheel_type& operator*() noexcept { return timers_; }    ///< the wheel
    wheel_type* operator->() noexcept { return &timers_; }  ///< the wheel

    /// Keeps the loop alive until `keep_running(false)`: it goes on with nothing else, for a
    /// program that waits for nothing but timers and mailboxes. If the host's loop ends by itself.
    void keep_running(bool on = true) requires requires(Host h) { h.keep_running(on); }
    { host_.keep_running(on); }

    /// Asks for a turn, which sets the alarm anew: for a clock that has changed. No-op in a turn.
    void rearm() noexcept {
        if (!in_turn_) set_alarm({});  // which has passed
    }

protected:
    Host& host() noexcept { return host_; }  ///< for a guest that offers more

private:
    using clock = detail::base_clock_of<wheel_type>;
    using nanoseconds = std::chrono::nanoseconds;
    /// Hosts hand out a limited number of events in a pass: libevent 32, and then twice as many.
    static constexpr std::size_t passes = 16;

    static nanoseconds since_epoch(typename clock::time_point t) noexcept {
        return std::chrono::duration_cast<nanoseconds>(t.time_since_epoch());
    }
    /// Returns the next wake-up by the clock that the wheel's clock follows, or its last time.
    auto wakeup() noexcept {
        const auto tick = timers_.wheel().next_wakeup();
        return tick ? detail::base_time(timers_.ticks(), timers_.ticks().start_of(*tick))
                    : clock::time_point::max();
    }
    void set_alarm(typename clock::time_point t) noexcept {
        using steady = std::chrono::steady_clock;
        set_for_ = since_epoch(t);
        if constexpr (requires { host_.set_alarm(t); })
            host_.set_alarm(t);
        else if (t == t.max())
            host_.set_alarm(steady::time_point::max());
        else
            host_.set_alarm(detail::add(steady::now(), detail::nanoseconds_from(clock::now(), t)));
    }
    static void move_alarm(void* whom) noexcept {
        auto& self = *static_cast<guest*>(whom);
        if (self.in_turn_) return;
        const nanoseconds now = since_epoch(clock::now());
        if (self.set_for_ > now) self.told_ = now;  // else something is due for longer
        self.set_alarm(self.wakeup());
    }
    static void turn(void* whom) {
        auto& self = *static_cast<guest*>(whom);
        struct end_of_turn {  // also after an exception
            ~end_of_turn() {
                detail::end_turn<typename wheel_type::clock>();
                self.in_turn_ = false;
                self.set_alarm(self.wakeup());
            }
            guest& self;
        } const end{self};
        self.in_turn_ = true;
        self.timers_.begin_turn();
        self.run();
    }
    /// Between two portions of visits, gives a host of several threads what they have taken out.
    void pause() {
        if constexpr (requires { host_.pause(); }) host_.pause();
    }
    /// Fires what is due, or returns at once so that the loop goes on.
    void run() {
        pause();
        const nanoseconds now = since_epoch(clock::now());
        const jiffies tick = timers_.ticks().now(), before = std::exchange(heard_, tick);
        rule_.begin(now, std::min(std::max(since_epoch(wakeup()), told_), now));
        if (rule_.is_first()) left_ = passes;
        rule_.end(left_ == 0 ? 0 : left_--);
        if (rule_.listening()) return;
        const jiffies until = std::min(std::max(before, timers_.wheel().now()), tick);
        rule_.fire(timers_.wheel(), until, detail::visits_in_a_turn, [this] {
            pause();
            timers_.begin_turn();
            return since_epoch(clock::now());
        });
    }

    wheel_type timers_;
    detail::stall_rule rule_;
    jiffies heard_;  ///< the tick at the last turn: since then all that came before was handled
    nanoseconds set_for_ = nanoseconds::max();  ///< the alarm
    nanoseconds told_{};  ///< when a timer was armed for earlier: it is not late since before then
    std::size_t left_ = 0;  ///< passes until all counts as heard, after a stall
    bool in_turn_ = false;
    Host host_;
};

}  // namespace tvec
