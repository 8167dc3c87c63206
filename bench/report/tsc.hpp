// The clock of the benchmarks: the time stamp counter of x86-64, or cntvct_el0 of ARM. Fences make
// the measured code begin and end where the source says so. std::chrono would read the clock that
// virtual_time.cpp has replaced. Nothing is subtracted: the cost of an empty measurement is a row
// of its own.
#pragma once

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace bench {

#ifdef __x86_64__

inline std::uint64_t tsc_begin() {
    _mm_lfence();
    const std::uint64_t t = __rdtsc();
    _mm_lfence();
    return t;
}

inline std::uint64_t tsc_end() {
    unsigned processor;
    const std::uint64_t t = __rdtscp(&processor);
    _mm_lfence();
    return t;
}

// Ten multiplications that wait for each other, of 3 cycles each on any x86-64 processor of the
// last fifteen years (additions would be folded).
inline constexpr double cycles_of_chain = 30;
inline void run_chain(std::uint64_t& x) {
    asm volatile(".rept 10\n imul %0, %0\n .endr" : "+r"(x));
}

#else

inline std::uint64_t tsc_begin() {
    std::uint64_t t;
    asm volatile("isb\n mrs %0, cntvct_el0\n isb" : "=r"(t) : : "memory");
    return t;
}

inline std::uint64_t tsc_end() { return tsc_begin(); }

// Ten additions of a register that wait for each other, of a cycle each.
inline constexpr double cycles_of_chain = 10;
inline void run_chain(std::uint64_t& x) {
    asm volatile(".rept 10\n add %0, %0, %0\n .endr" : "+r"(x));
}

#endif

// The system's clocks, past any interposed clock_gettime.
inline double system_nanoseconds(clockid_t clock) {
    timespec t;
    syscall(SYS_clock_gettime, clock, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

// How long a count of the TSC lasts; measured once, over 50 ms.
inline double nanoseconds_per_count() {
    static const double measured = [] {
        const double begin = system_nanoseconds(CLOCK_MONOTONIC_RAW);
        const std::uint64_t first = tsc_begin();
        double end = begin;
        while (end - begin < 50e6) end = system_nanoseconds(CLOCK_MONOTONIC_RAW);
        return (end - begin) / static_cast<double>(tsc_end() - first);
    }();
    return measured;
}

// The counter runs at a rate of its own, whatever the core's clock does: how many counts a cycle of
// the core lasts now. The least of some tries.
inline double counts_per_core_cycle() {
    constexpr unsigned chains = 30'000;
    std::uint64_t least = ~std::uint64_t{0};
    for (unsigned k = 0; k < 20; ++k) {
        std::uint64_t x = 3;
        const std::uint64_t begin = tsc_begin();
        for (unsigned i = 0; i < chains; ++i) run_chain(x);
        least = std::min(least, tsc_end() - begin);
    }
    return static_cast<double>(least) / (cycles_of_chain * chains);
}

class stopwatch {
public:
    std::uint64_t counts() const { return tsc_end() - begin_; }
    double nanoseconds() const {
        const std::uint64_t passed = counts();  // before the first call calibrates
        return static_cast<double>(passed) * nanoseconds_per_count();
    }

private:
    std::uint64_t begin_ = tsc_begin();
};

// For what may take long enough to be interrupted: if it took a millisecond or more, this thread's
// CPU time, so that what the scheduler gave to others does not count.
class long_stopwatch {
public:
    double nanoseconds() const {
        const std::uint64_t counts = watch_.counts();  // first, then what itself takes time
        const double used = system_nanoseconds(CLOCK_THREAD_CPUTIME_ID) - begin_;
        const double passed = static_cast<double>(counts) * nanoseconds_per_count();
        return passed < 1e6 ? passed : used;
    }

private:
    double begin_ = system_nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    stopwatch watch_;
};

}  // namespace bench
