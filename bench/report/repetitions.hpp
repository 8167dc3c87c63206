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

// "medians of 5 repetitions, of 3 above 100000 timers"
inline std::string say_repetitions(unsigned asked, const std::vector<std::size_t>& sizes) {
    const auto [fewest, most] = std::minmax_element(sizes.begin(), sizes.end());
    const unsigned first = repetitions_of(asked, *fewest), last = repetitions_of(asked, *most);
    std::string words = fmt::format("medians of {} repetition{}", first, first == 1 ? "" : "s");
    if (last != first) words += fmt::format(", of {} above {} timers", last, many_timers);
    return words;
}

}  // namespace bench
