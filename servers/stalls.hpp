// Judging others fairly after one was away oneself. A loop that did not run for a while (its
// process was stopped, its machine too busy, a callback blocked) wakes to timers that are due and
// to messages that nobody has read. If the timers run first, whoever talked meanwhile is closed for
// having been silent. docs/loops.md says more.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "tvec/core/timer_wheel.hpp"

namespace example {

template <class Timers> class stall_watch {
public:
    using clock = typename Timers::clock;

    // To have been away is to have left something due undone for longer than this.
    static constexpr std::chrono::milliseconds tolerance{100};
    // What the kernel holds after a stall is listened to for so long at the most.
    static constexpr std::chrono::milliseconds longest{500};

    // `grace` is for those who were to be judged during a stall, or just after it: how much longer
    // they have. At least a round trip, and for them to wake, if they were stopped as well.
    stall_watch(Timers& wheel, std::chrono::milliseconds grace) : timers_(wheel), grace_(grace) {}

    // What a turn does between its sleep and its timers: hear(), which handles what has completed,
    // and returns how much that was. After a stall it goes on until all has been heard that came
    // meanwhile: each request that is answered may have another behind it, which the kernel does
    // not hand out before this one is made again.
    // [listen]
    template <class Ring, class Hear> void listen(Ring& ring, Hear hear) {
        const bool was_away = held_up();
        hear();
        if (!was_away) return;
        const auto end = last_ + longest;
        do {
            last_ = clock::now();
            ring.submit_and_poll();
        } while (hear() != 0 && last_ < end);
        back_ = clock::now();
        ++stalls_;
    }
    // [listen]

    // As far as timers may run now: what has become due since the loop listened, while it handled
    // one of the messages, say, has not been heard yet.
    tvec::jiffies heard() const { return timers_.ticks().floor(last_); }

    // Whether the loop was away a moment ago, so that nobody may be judged yet.
    bool just_back() const { return stalls_ != 0 && last_ < back_ + grace_; }
    std::chrono::milliseconds grace() const { return grace_; }
    std::size_t stalls() const { return stalls_; }

private:
    using time_point = typename clock::time_point;

    // Asked once a turn, before it hears. What a budget has left over was seen in the turn before.
    // [held_up]
    bool held_up() {
        const time_point now = clock::now(), before = std::exchange(last_, now);
        const auto due = timers_.next_wakeup();
        return due && now - std::max<time_point>(*due, before) > tolerance;
    }
    // [held_up]

    Timers& timers_;
    std::chrono::milliseconds grace_;
    time_point last_ = clock::now();  // when it was about to hear what had completed
    time_point back_{};               // when all had been heard after the last stall
    std::size_t stalls_ = 0;
};

// What somebody has who is waited for: once in a silence it is not taken amiss, if the loop was
// away. More than once would be no timeout on a loop that is held up again and again.
class second_chance {
public:
    // Heard from: the next silence is another.
    void renew() { taken_ = false; }

    // In the callback that would judge: whether to wait for watch.grace() instead.
    template <class Timers> bool take(const stall_watch<Timers>& watch) {
        return !taken_ && (taken_ = watch.just_back());
    }

private:
    bool taken_ = false;
};

}  // namespace example
