// Disturbances of a run: other processes, other guests of the machine, and clocks that moved.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tsc.hpp"

namespace bench {

// Readings at one moment.
struct conditions {
    double seconds;               // of CLOCK_MONOTONIC_RAW
    double tsc;                   // counts
    double counts_per_cycle;      // of the TSC for a cycle of the core
    double involuntary_switches;  // of this process
    double stolen_seconds;        // by other guests, of all processors
};

inline double stolen_seconds() {
    std::ifstream stat("/proc/stat");
    std::string name;
    double ticks = 0;
    stat >> name;
    for (unsigned column = 0; column < 8 && stat; ++column) stat >> ticks;  // the eighth is steal
    return stat ? ticks / static_cast<double>(sysconf(_SC_CLK_TCK)) : 0;
}

inline conditions conditions_now() {
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    return {system_nanoseconds(CLOCK_MONOTONIC_RAW) * 1e-9, static_cast<double>(tsc_begin()),
            counts_per_core_cycle(), static_cast<double>(used.ru_nivcsw), stolen_seconds()};
}

// Says what was above its bound from `a` to `b`, in which `ns_per_count` was taken for the TSC's.
inline std::vector<std::string> noise_between(const conditions& a, const conditions& b,
                                              double ns_per_count) {
    std::vector<std::string> all;
    const double seconds = b.seconds - a.seconds;
    const auto add = [&](bool is_above, std::string what) {
        if (is_above) all.push_back(std::move(what));
    };
    const double switches = b.involuntary_switches - a.involuntary_switches;
    add(switches > 1 + seconds, fmt::format("{:.0f} involuntary context switches", switches));
    const double stolen = b.stolen_seconds - a.stolen_seconds;
    add(stolen > 0.02 + seconds / 1'000, fmt::format("{:.2f} s stolen by other guests", stolen));
    const double core = b.counts_per_cycle / a.counts_per_cycle - 1;
    add(std::abs(core) > 0.02, fmt::format("the core's clock moved by {:.1f} %", -100 * core));
    const double tsc = (b.tsc - a.tsc) * ns_per_count * 1e-9 / seconds - 1;
    add(std::abs(tsc) > 1e-3, fmt::format("the TSC moved by {:.2f} % against "
                                          "CLOCK_MONOTONIC_RAW",
                                          100 * tsc));
    return all;
}

// Watches a run from its construction on.
class noise_watch {
public:
    // "quiet", or everything that was above its bound.
    std::string verdict() const {
        const auto all = noise_between(begin_, conditions_now(), nanoseconds_per_count());
        return all.empty() ? "quiet" : fmt::format("NOISY: {}", fmt::join(all, ", "));
    }

private:
    conditions begin_ = conditions_now();
};

}  // namespace bench
