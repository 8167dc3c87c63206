/// \file
/// The rule by which a loop that was stalled listens before it runs timers: for guests, and for
/// stall_watch in C++ and C.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tvec/core/timer_wheel.hpp"

namespace tvec::detail {

/// See stall_watch. All times are readings of one clock.
class stall_rule {
public:
    using nanoseconds = std::chrono::nanoseconds;

    /// Something was due for longer than this, and not done: that is a stall, unless turns are
    /// usually half as late or more.
    static constexpr nanoseconds tolerance = std::chrono::milliseconds(100);
    /// The longest time for which timers wait until the loop has heard everything.
    static constexpr nanoseconds longest = std::chrono::milliseconds(500);
    /// A turn that is less late shows that the loop is not slow.
    static constexpr nanoseconds in_time = std::chrono::milliseconds(10);

    stall_rule(nanoseconds now, nanoseconds grace) noexcept : last_(now), grace_(grace) {}

    /// Notes that the loop handles what has come, from `now` on, and has its next wake-up at `due`,
    /// or at `now` if that is earlier. No stall is what a budget has left over, because the turn
    /// before has seen it, nor the time that timers usually take. Nor is a turn of a loop that is
    /// always late: each hears what came before it, and a hold in every turn would starve timers.
    void begin(nanoseconds now, nanoseconds due) noexcept {
        const nanoseconds before = std::exchange(last_, now);
        if (now < before) step_back(now);
        const nanoseconds ran = listening_ ? ran.zero() : usually(std::exchange(end_, ran.zero()));
        const nanoseconds late = std::max(now - std::max(due, before) - ran, late.zero());
        late_ = listening_ ? late_ + std::max(now - before, late.zero()) : late;
        is_first_ = !listening_ && late > std::max(tolerance, 2 * usual_);
        if (is_first_) {
            listening_ = true;
            back_ = now;
            end_ = now + std::min(late, longest);
            ++stalls_;
        } else {
            note_usual(late, now - before);
        }
    }

    /// Notes how many messages of others the turn has handled. The first turn after a stall does
    /// not show that all was heard: the kernel may have posted nothing yet. Nor does one in less
    /// than `least` after it: threads of the kernel may not have run yet.
    void end(std::size_t heard, nanoseconds least = {}) noexcept {
        const bool is_early = heard != 0 || last_ - back_ < least;
        if (!listening_ || is_first_ || (is_early && last_ < end_)) return;
        listening_ = false;
        back_ = last_;
        end_ = end_.zero();
    }

    /// Fires what is due by tick `until`: in `budget` visits, and for as long as the turn was late,
    /// `tolerance` at most. So timers get as much time as the rest of the loop, in turns of up to
    /// that length. now() reads the clock, if anything is due.
    template <class Now>
    timer_wheel::progress fire(timer_wheel& wheel, jiffies until, std::size_t budget, Now now) {
        if (const auto due = wheel.next_wakeup(); !due || *due > until)
            return wheel.advance(until, budget);
        const nanoseconds begin = now();
        timer_wheel::progress done{};
        std::uint64_t before = 0, made = visits(wheel);
        do {
            const auto more = wheel.advance(until, budget);
            done = {done.fired + more.fired, more.caught_up};
            before = std::exchange(made, visits(wheel));
            end_ = now() - begin;
            if (done.caught_up || made == before) return done;  // a budget of 0, or in a callback
        } while (end_ < std::min(late_, tolerance));
        return done;
    }

    /// Returns whether timers still have to wait.
    bool listening() const noexcept { return listening_; }
    /// Returns whether this turn has noticed a stall.
    bool is_first() const noexcept { return is_first_; }
    /// Returns the beginning of the last turn: what came before was heard, unless it listens.
    nanoseconds last() const noexcept { return last_; }
    bool just_back() const noexcept {
        return listening_ || (stalls_ != 0 && last_ - back_ < grace_);
    }
    nanoseconds grace() const noexcept { return grace_; }
    std::uint64_t stalls() const noexcept { return stalls_; }

private:
    /// Has a hold end, and grace not begin in the future.
    void step_back(nanoseconds now) noexcept {
        if (listening_) end_ = now;
        back_ = std::min(back_, now);
    }
    /// Notes how late a turn was that is no stall. Only a short turn, or one in time, shows that
    /// turns are shorter now: where few timers are due, lateness is often less than a turn.
    void note_usual(nanoseconds late, nanoseconds since_turn) noexcept {
        const bool is_short = since_turn <= tolerance || (late != late.zero() && late < in_time);
        usual_ = std::max(late, is_short ? usual_ - usual_ / 4 : usual_);
    }
    /// Returns how much of the time `ran`, which timers have taken, they usually take.
    nanoseconds usually(nanoseconds ran) noexcept {
        using std::chrono::milliseconds;
        constexpr milliseconds most(1 << 20);
        if (ran == ran.zero()) return ran;
        const milliseconds usual(usual_run_), now = std::chrono::ceil<milliseconds>(ran);
        const milliseconds next = std::clamp(now, usual - usual / 4, most);
        usual_run_ = static_cast<std::uint32_t>(next.count());
        return std::min(ran, std::max<nanoseconds>(tolerance, 2 * usual));
    }
    static std::uint64_t visits(const timer_wheel& wheel) noexcept {
        const timer_wheel::counters& n = wheel.count();
        return n.fired + n.moved + n.dropped;
    }

    std::uint64_t stalls_ = 0;  // first: programs in C read it
    nanoseconds last_;
    nanoseconds grace_;
    nanoseconds end_{};    ///< of listening, whatever is heard; else: how long timers took
    nanoseconds back_{};   ///< when the last stall was noticed, then when everything was heard
    nanoseconds late_{};   ///< the last turn; while it listens, since what the stall has held up
    nanoseconds usual_{};  ///< how late turns are that are no stall
    bool listening_ = false;
    bool is_first_ = false;        ///< this turn has noticed the stall
    std::uint32_t usual_run_ = 0;  ///< milliseconds that timers take
};

}  // namespace tvec::detail
