// Measures single calls in loops that do not call on every tick: loops that sleep until the next
// wake-up, and loops that call every so many ticks. Nothing is due, so the cost is that of moving
// timers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "workloads.hpp"

namespace bench {

struct loop {
    const char* name;
    std::uint64_t every;  // ticks; 0: it sleeps until the next wake-up
};

constexpr std::array<loop, 5> loops{{{"loop that sleeps", 0},
                                     {"loop of 2 ticks", 2},
                                     {"loop of 5 ticks", 5},
                                     {"loop of 10 ticks", 10},
                                     {"loop of 100 ticks", 100}}};

// A structure that cannot tell its next wake-up sleeps until the end.
template <class A> std::uint64_t next_call(A& wheel, const loop& l, std::uint64_t end) {
    if (l.every != 0) return std::min(end, wheel.now() + l.every);
    if constexpr (tells_wakeup<A>) return std::clamp(wheel.next_wakeup(), wheel.now() + 1, end);
    return end;
}

// 33 seconds of keepalives that all have more than that left, of a minute: past two cascades of
// 2^14 ticks.
template <class A> durations calls_of_loop(field<A>& f, const loop& l) {
    constexpr std::uint64_t quiet = 33'000;
    observed<A>& wheel = f.wheel();
    const std::uint64_t end = wheel.now() + quiet;
    const std::uint32_t* const delays = f.what().delays.data();
    f.each(f.what().order, [=](A& w, auto& n, std::size_t i) {
        w.arm(n, end + 1 + std::uint64_t{delays[i]} * (plan::longest - quiet) / plan::longest);
    });
    durations calls;
    while (wheel.now() < end) {
        const std::uint64_t next = next_call(wheel, l, end);
        calls.push_back(time_one([&] { wheel.advance(next); }));
    }
    return calls;
}

}  // namespace bench
