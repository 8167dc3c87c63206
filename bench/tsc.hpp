// The clock of the benchmarks: the time stamp counter, fenced, so that what is measured has begun
// and ended where the code says so. std::chrono would read the clock that virtual_time.cpp has
// taken over. Nothing is subtracted: what an empty measurement costs is a row of its own.
#pragma once

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <cstdint>

namespace bench {

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

class stopwatch {
public:
    double nanoseconds() const {
        return static_cast<double>(tsc_end() - begin_) * nanoseconds_per_count();
    }

private:
    std::uint64_t begin_ = tsc_begin();
};

// For what may take long enough to be interrupted: if it took a millisecond or more, this thread's
// CPU time, so that what the scheduler gave to others does not count.
class long_stopwatch {
public:
    double nanoseconds() const {
        const double passed = watch_.nanoseconds();
        const double used = system_nanoseconds(CLOCK_THREAD_CPUTIME_ID) - begin_;
        return passed < 1e6 ? passed : used;
    }

private:
    double begin_ = system_nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    stopwatch watch_;
};

}  // namespace bench
