// Fair judgement after a stall. A loop that did not run for a while (its process was stopped, its
// machine too busy, a callback blocked) wakes to timers that are due and to messages that nobody
// has read. If the timers run first, clients that talked during the stall are closed as silent.
// docs/loops.md says more.
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
    // Upper bound on the time for which completions are drained after a stall.
    static constexpr std::chrono::milliseconds longest{500};

    // `grace` is for those who were to be judged during a stall, or just after it: how much longer
    // they have. At least a round trip, and for them to wake, if they were stopped as well.
    stall_watch(Timers& wheel, std::chrono::milliseconds grace) : timers_(wheel), grace_(grace) {}

    // Runs a turn's hearing, between its sleep and its timers. hear() handles the completions that
    // are there, and returns how many there were. After a stall this goes on until everything that
    // arrived during it was heard: each request that is answered may have another behind it, which
    // the kernel does not hand out before this one is made again.
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

    // Returns whether the loop was stalled a moment ago, so that no client may be judged yet.
    bool just_back() const { return stalls_ != 0 && last_ < back_ + grace_; }
    std::chrono::milliseconds grace() const { return grace_; }
    std::size_t stalls() const { return stalls_; }

private:
    using time_point = typename clock::time_point;

    // To be called once a turn, before it hears. Work that a budget left over was seen in the turn
    // before.
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

// A second chance for a client: one silence is forgiven if the loop was stalled. Forgiving more
// often would be no timeout on a loop that stalls again and again.
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
