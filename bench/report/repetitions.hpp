// How often a work is measured, by the number of timers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace bench {

// Many timers take long, and are measured well by few repetitions.
constexpr std::size_t many_timers = 100'000;

constexpr unsigned repetitions_of(unsigned asked, std::size_t timers) {
    return timers <= many_timers ? asked : (asked + 1) / 2;
}

// A round is a run of the work within a repetition, and the median of them counts. One of few
// timers is over too soon to be measured, and the first finds in the caches what the structure
// before it has left there.
constexpr std::size_t rounds_of(std::size_t timers) {
    return timers <= many_timers ? std::max<std::size_t>(3, many_timers / timers) : 1;
}

// The repetitions of all works with one number of timers.
struct part {
    std::size_t timers;
    unsigned asked;
    unsigned done = 0;
};

inline std::vector<part> parts_of(unsigned asked, const std::vector<std::size_t>& sizes) {
    std::vector<part> all;
    for (const std::size_t n : sizes) all.push_back({n, repetitions_of(asked, n)});
    return all;
}

// "medians of 5 repetitions", or "medians of 5 repetitions with 1000 timers, 3 with 1000000"
inline std::string say_repetitions(const std::vector<part>& all) {
    std::string words = "medians of ";
    for (const part& p : all) {
        const bool is_first = &p == &all.front();
        words += fmt::format("{}{}{}", is_first ? "" : ", ", p.done,
                             !is_first     ? ""
                             : p.done == 1 ? " repetition"
                                           : " repetitions");
        const bool differ = std::any_of(all.begin(), all.end(),
                                        [&](const part& other) { return other.done != p.done; });
        if (differ) words += fmt::format(" with {}{}", p.timers, is_first ? " timers" : "");
        if (!differ) break;
    }
    return words;
}

}  // namespace bench
