/// \file
/// A clock that is read once per turn of the loop.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <chrono>

namespace tvec {

/// `Clock`, whose reading all calls of a turn of the loop share. Reading steady_clock costs about
/// ten times as much as the wheel itself, and a loop that handles a hundred messages a turn arms a
/// hundred timers by a delay.
///
///     tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::turn_clock<>>> timers;
///     for (;;) {
///         timers.begin_turn();          // a reading; uring_wait's wait does it
///         handle_messages();            // timers.arm_after(c.idle, 30s) does not read the clock
///         timers.run();                 // a reading, which its callbacks share
///     }
///
/// **A turn** begins with `begin_turn`, `run`, `collect`, the other calls that fire, and a wait of
/// uring_wait, of any wheel of the thread, each of which reads `Clock`. run_until also begins one
/// after each callback. A turn ends when the loop asks for next_wakeup, as all drivers do before it
/// sleeps, and when the thread destroys a wheel on this clock. Outside of a turn each call reads
/// `Clock`: before the first turn, after a sleep, when the wheel is gone, and on a thread without a
/// loop that sends to a mailbox.
///
/// Loops of one thread share turns. The sleep of one, or the end of its wheel, ends the turn of the
/// others, which costs them readings. A turn goes on when an exception leaves `run`. It also goes
/// on if a loop stops without asking and keeps its wheel, or leaves it to another thread to
/// destroy: then call `end_turn` on the thread of the loop. A wheel that threads share by a lock is
/// better on another clock: a thread's turn lasts until it runs the wheel again, so that it has to
/// call `begin_turn` under the lock before it arms by a delay.
///
/// **A delay** counts from the beginning of the turn. So a timer may fire that much earlier than
/// its delay after the call: by the time that the turn took until then. It never fires before the
/// turn's reading plus its delay. Nothing bounds a turn: if a handler blocks for a second, delays
/// that are armed after it in the same turn are a second short, and shorter ones are due at once.
/// After a call that may block, or a callback that takes long, call `begin_turn`.
///
/// It has the time points of `Clock`, so deadlines of `Clock` are deadlines here, and drivers set
/// their alarms by `Clock`. A game_clock may follow it. Take it for a loop that spins, or that arms
/// by delay many times a turn.
template <class Clock = std::chrono::steady_clock> struct turn_clock {
    /// The members that std::chrono requires of a clock.
    /// @{
    using duration = typename Clock::duration;
    using rep = typename Clock::rep;
    using period = typename Clock::period;
    using time_point = typename Clock::time_point;
    static constexpr bool is_steady = Clock::is_steady;
    /// @}

    /// Returns the reading of this thread's turn. Reads `Clock` outside of a turn.
    static time_point now() noexcept { return in_turn_ ? reading_ : Clock::now(); }

    /// Reads `Clock`, for all calls of this thread until the turn ends or another begins. Returns
    /// the reading.
    static time_point begin_turn() noexcept {
        in_turn_ = true;
        return reading_ = Clock::now();
    }

    /// Ends the turn: each call reads `Clock` again. Does nothing outside of a turn.
    static void end_turn() noexcept { in_turn_ = false; }

private:
    static constinit inline thread_local bool in_turn_ = false;
    static constinit inline thread_local time_point reading_{};
};

}  // namespace tvec
