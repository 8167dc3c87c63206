/// \file
/// A loop that was stalled hears its peers before it times them out.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/clock/detail/stall_rule.hpp"
#include "tvec/core/detail/wants.hpp"

namespace tvec {

/// Keeps a loop that was stalled from timing out others for it. A loop sometimes does not turn for
/// a while: a handler or a callback blocks, the process is stopped, the machine is busy. Then
/// timers are due, and messages that came meanwhile are not read. If the timers ran first, the loop
/// would close clients that talked all the time. With a watch it hears them first:
///
///     tvec::uring_wait wait{ring, timers};
///     tvec::stall_watch watch{timers};
///     while (running) {
///         wait();
///         watch.listen([&] { return handle_completions(ring); });    // returns how many
///         watch.run(256);                                 // in the place of timers.run(256)
///     }
///
/// **It works with any driver and any loop**: it makes no system call, and reads the clock once a
/// turn, as `timers.run` does. After a stall `run` fires nothing until a turn has heard nothing
/// new. Meanwhile timers are due, so the driver does not sleep, and the turns of the loop
/// themselves collect what has come. Where a thread of the kernel completes requests, as for an
/// IORING_SETUP_SQPOLL ring, it may run later than the loop after a stop of both: give the watch
/// 10 ms of `settling`, or it takes the silence of that thread for that of the peers.
///
/// **It notices a stall** at the next turn, by something that was due for more than a tenth of a
/// second (`tolerance`) since then and not done, and for more than twice as long as in the turns
/// before. It does not notice a stall in which nothing became due: what becomes due right after it,
/// while the loop takes several turns to read what came, may be judged before it is heard. A loop
/// with few timers and many peers arms one for every tenth of a second.
///
/// **Its bound**: peers that never cease to talk hold up the timers for as long again as something
/// was due, half a second (`longest`) at most, and for the turn that begins then. This holds for
/// every stall, and for all timers of the wheel: also for those that judge nobody. Without a stall
/// timers wait for nothing.
///
/// **Overload does not starve the timers.** A loop whose turns always take long is slow and not
/// stalled: its timers fire in every turn, at most a turn later than by `timers.run`, and as fast
/// as they fall due, if a tenth of a second of each turn is enough for it: where the budget does
/// not suffice, a late turn goes on for as long as it was late, but no longer than that. The first
/// timers that such a loop is late for count as a stall, because no turns are known yet.
///
/// **Each turn hears all that has come**, or the rest is judged unheard: an array of events has
/// room for all that may be ready. Where one call sleeps and handles, it stands within `listen`,
/// with what prepares the sleep (prepare, rearm, wait_ms), and what becomes due in it fires a turn
/// later.
///
/// **Its limits**: it knows what the loop has read, not what is on its way. After a stall of the
/// whole machine the peers have not talked either: `second_chance` gives them time for it. A peer
/// whose messages the loop does not read for want of its own (no buffer, no memory) was not heard.
///
/// It belongs to the thread of the wheel, which must outlive it. It is plain data: it may be
/// copied. Requires a clock of real time that the whole program has: no game_clock.
template <class Clocked> class stall_watch {
    static_assert(detail::clocked<Clocked>,
                  "stall_watch watches over a tvec::clocked_wheel: a timer_wheel has no clock");
    static_assert(!detail::clocked<Clocked> || detail::one_clock<typename Clocked::clock>,
                  "stall_watch wants a wheel on a clock of real time, and a game_clock has pauses");

public:
    /// Something was due for longer than this, and not done: that may be a stall.
    static constexpr std::chrono::nanoseconds tolerance = detail::stall_rule::tolerance;
    /// The longest time that timers wait, after a stall, for everything to be heard.
    static constexpr std::chrono::nanoseconds longest = detail::stall_rule::longest;

    /// Makes a watch. `grace` is for second chances: how long a peer that was to be timed out
    /// during a stall, or just after it, is waited for. It should cover a round trip, and the time
    /// until the peer runs again if it was stopped as well. `settling` is for how long a loop hears
    /// at least after a stall: it turns without sleep meanwhile.
    explicit stall_watch(Clocked& timers,
                         std::chrono::nanoseconds grace = std::chrono::milliseconds(500),
                         std::chrono::nanoseconds settling = {}) noexcept
        : timers_(&timers), rule_(since_epoch(Clocked::clock::now()), grace), settling_(settling) {}
    template <class... D> stall_watch(Clocked&&, D...) TVEC_WANTS("a wheel that outlives it");

    /// Handles what has come: calls hear(), once, and passes its result on. Call it in every turn,
    /// between the sleep and the timers, or around a call that sleeps and handles. It begins a turn
    /// of a turn_clock. `hear` returns how many messages or completions it has handled; those of
    /// the loop's own alarm do not count, and if they are counted, timers wait `longest` after each
    /// stall. If it throws, the turn counts as one that has heard something.
    template <class F> std::size_t listen(F&& hear) {
        timers_->begin_turn();
        const auto now = Clocked::clock::now();
        const auto due = timers_->wheel().next_wakeup();
        rule_.begin(since_epoch(now),
                    since_epoch(due ? std::min(timers_->ticks().start_of(*due), now) : now));
        static_assert(std::convertible_to<decltype(hear()), std::size_t>,
                      "listen wants a function that returns how many messages it has handled");
        const auto heard = static_cast<std::size_t>(hear());
        rule_.end(heard, settling_);
        return heard;
    }

    /// Fires what was due when the loop began to listen, in `budget` visits, and in a late turn
    /// some more: see above. Call it after `listen`, in the place of timers.run(budget). Timers
    /// that have become due since then wait for the next turn, which hears their peers first: the
    /// loop does not sleep before. Fires nothing after a stall until everything was heard. The
    /// result is that of timer_wheel::advance for heard(), and {0, false} while timers wait.
    timer_wheel::progress run(std::size_t budget = timer_wheel::unlimited) {
        if (rule_.listening()) return {0, false};
        const jiffies until = heard();
        const auto reading = [this] {
            timers_->begin_turn();
            return since_epoch(Clocked::clock::now());
        };
        timers_->begin_turn();
        detail::note_run(timers_->wheel(), until);
        return rule_.fire(timers_->wheel(), until, budget, reading);
    }

    /// Returns the tick up to which peers were heard, for loops that call
    /// timers.wheel().advance(watch.heard(), 256) or one of its kind. While timers wait it is the
    /// tick that was run last.
    jiffies heard() const noexcept {
        using duration = typename Clocked::duration;
        const typename Clocked::time_point last(std::chrono::floor<duration>(rule_.last()));
        return rule_.listening() ? timers_->wheel().now() : timers_->ticks().floor(last);
    }

    /// Returns whether the loop was stalled a moment ago, less than `grace`: then no peer should be
    /// timed out without a second chance.
    bool just_back() const noexcept { return rule_.just_back(); }

    /// Returns how long a second chance lasts.
    std::chrono::nanoseconds grace() const noexcept { return rule_.grace(); }

    /// Returns the number of stalls so far.
    std::uint64_t stalls() const noexcept { return rule_.stalls(); }

private:
    static std::chrono::nanoseconds since_epoch(typename Clocked::time_point t) noexcept {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch());
    }

    Clocked* timers_;
    detail::stall_rule rule_;
    std::chrono::nanoseconds settling_;
};

/// Deduces the type of the wheel.
template <class Clocked> stall_watch(Clocked&) -> stall_watch<Clocked>;

/// The excuse of a peer that a timer is about to judge after a stall, because the peer may have
/// been stopped as well. At most one for each silence: on a loop that stalls again and again more
/// of them would disable the timeout.
///
///     void on_message() { chance.renew(), timers.arm_after(idle, 30s); }
///     void on_silence() {
///         if (chance.take(watch)) return void(timers.arm_after(idle, watch.grace()));
///         close();
///     }
class second_chance {
public:
    /// Notes that the peer was heard: its next silence is a new one.
    void renew() noexcept { taken_ = false; }

    /// Returns whether to wait for watch.grace() instead of judging the peer. For the timeout's
    /// callback.
    template <class Clocked> bool take(const stall_watch<Clocked>& watch) noexcept {
        return !taken_ && (taken_ = watch.just_back());
    }

private:
    bool taken_ = false;
};

}  // namespace tvec
