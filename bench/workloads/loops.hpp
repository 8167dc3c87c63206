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
    std::uint64_t every;     // ticks; 0: it sleeps until the next wake-up
    std::uint64_t fine = 1;  // ticks in those of the other loops
};

constexpr std::array<loop, 6> loops{{{"loop that sleeps", 0},
                                     {"loop of 2 ticks", 2},
                                     {"loop of 5 ticks", 5},
                                     {"loop of 10 ticks", 10},
                                     {"loop of 100 ticks", 100},
                                     {"loop that spins on fine ticks", 1'000, 1'000}}};

// A structure that cannot tell its next wake-up sleeps until the end.
template <class A> std::uint64_t next_call(A& wheel, const loop& l, std::uint64_t end) {
    if (l.every != 0) return std::min(end, wheel.now() + l.every);
    if constexpr (tells_wakeup<A>) return std::clamp(wheel.next_wakeup(), wheel.now() + 1, end);
    return end;
}

// 33 seconds of keepalives that all have more than that left, of a minute: past two cascades of
// 2^14 ticks. A loop that spins on fine ticks calls as often as the tick of the others.
template <class A> durations calls_of_loop(field<A>& f, const loop& l) {
    constexpr std::uint64_t quiet = 33'000;
    observed<A>& wheel = f.wheel();
    const std::uint64_t fine = l.fine, end = wheel.now() + quiet * fine;
    const std::uint32_t* const delays = f.what().delays.data();
    f.each(f.what().order, [=](A& w, auto& n, std::size_t i) BENCH_INLINED {
        const std::uint64_t later = std::uint64_t{delays[i]} * (plan::longest - quiet);
        w.arm(n, end + 1 + later * fine / plan::longest);
    });
    durations calls;
    while (wheel.now() < end) {
        const std::uint64_t next = next_call(wheel, l, end);
        calls.push_back(time_one([&] { wheel.advance(next); }));
    }
    return calls;
}

}  // namespace bench
