// Figures for summaries.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <string>

#include <fmt/format.h>

#include "tvec/extra/lateness_histogram.hpp"

namespace example {

inline double seconds_of(std::chrono::nanoseconds d) {
    return std::chrono::duration<double>(d).count();
}

inline double microseconds_of(std::chrono::nanoseconds d) { return seconds_of(d) * 1e6; }

// Returns the processor time of the program (RUSAGE_SELF) or the thread (RUSAGE_THREAD).
inline double cpu_seconds(__rusage_who who) {
    rusage used{};
    getrusage(who, &used);
    const auto of = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return of(used.ru_utime) + of(used.ru_stime);
}

inline std::string spread(const tvec::lateness_histogram& late) {
    return fmt::format("p50 {:.0f} us, p99 {:.0f} us, max {:.0f} us",
                       microseconds_of(late.quantile(0.5)), microseconds_of(late.quantile(0.99)),
                       microseconds_of(late.max()));
}

}  // namespace example
