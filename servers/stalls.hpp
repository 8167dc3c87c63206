// Keeps a stalled loop from timing out others unfairly. A loop that did not run for a while
// (stopped process, busy machine, blocking callback) wakes to due timers and to unread messages. If
// the timers ran first, clients that had sent messages would be closed as silent. docs/loops.md
// says more.
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

    // Something was due for longer than this and not done: that is a stall.
    static constexpr std::chrono::milliseconds tolerance{100};
    // The longest time to read what the kernel holds after a stall.
    static constexpr std::chrono::milliseconds longest{500};

    // `grace` is the extra time for peers that were to be timed out during a stall or just after
    // it. It should cover a round trip, and their own wake-up if they were stopped as well.
    stall_watch(Timers& wheel, std::chrono::milliseconds grace) : timers_(wheel), grace_(grace) {}

    // Call it between a turn's sleep and its timers. hear() handles the completions and returns
    // their number. After a stall it repeats until everything that arrived during the stall is
    // read: a connection's next message is only handed out after its receive is queued again.
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

    // The tick up to which timers may run now. Later ones have become due since the loop read its
    // messages, so their peers may not have been heard yet.
    tvec::jiffies heard() const { return timers_.ticks().floor(last_); }

    // Returns whether the loop was stalled a moment ago: no peer may be timed out yet.
    bool just_back() const { return stalls_ != 0 && last_ < back_ + grace_; }
    std::chrono::milliseconds grace() const { return grace_; }
    std::size_t stalls() const { return stalls_; }

private:
    using time_point = typename clock::time_point;

    // Called once a turn, before hear(). Work that a budget has left over does not count as a
    // stall: the turn before has seen it.
    bool held_up() {
        const time_point now = clock::now(), before = std::exchange(last_, now);
        const auto due = timers_.next_wakeup();
        return due && now - std::max<time_point>(*due, before) > tolerance;
    }

    Timers& timers_;
    std::chrono::milliseconds grace_;
    time_point last_ = clock::now();  // before the last hear()
    time_point back_{};               // after the last stall, when everything was read
    std::size_t stalls_ = 0;
};

// The exemption of a peer after a stall: at most once in a silence. More often would disable the
// timeout on a loop that stalls again and again.
class second_chance {
public:
    // Call it when the peer is heard: the next silence is a new one.
    void renew() { taken_ = false; }

    // Call it in the timeout's callback. Returns whether to wait for watch.grace() instead.
    template <class Timers> bool take(const stall_watch<Timers>& watch) {
        return !taken_ && (taken_ = watch.just_back());
    }

private:
    bool taken_ = false;
};

}  // namespace example
