// Plans, as the engine uses them. tvec/durable/plan.hpp has their text.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tvec/durable/plan.hpp"

namespace tvec::durable::detail {

// The longest delay in a plan, and the longest option.
inline constexpr duration longest{std::chrono::hours(24) * 1000};

// Delays between the failures of a timer.
struct retry_policy {
    duration first;     // after one failure
    duration longest;   // equals `first` if the delay is fixed, and otherwise it doubles up to this
    double jitter = 0;  // the part of a delay by which it may be shorter or longer
};

struct plan {
    std::string rule{}, zone{};
    std::optional<time_point> until{};
    std::uint32_t times = 0;     // 0: no limit
    std::uint32_t attempts = 0;  // 0: not said
    bool is_for_good = false;    // they end a timer with a rule or a period as well
    std::optional<retry_policy> retry{};
};

// Cuts `after DURATION: ` from the beginning of a reason, and returns the duration, or 0.
duration take_delay(std::string_view& reason);

// Returns what a plan says of retries: the plan of a beat that was given up.
std::string retries_of(std::string_view text);

// Returns true if a plan has clauses of retries and no others: then `done` is the end of its timer.
// The functions of servers know that as well.
bool has_only_retries(std::string_view text);

// Reads a plan. Throws std::invalid_argument, whose text is a sentence. Does not check the rule.
plan parsed(std::string_view text);

// Returns the first time of the rule after a time, or nothing if none is left. Throws
// std::invalid_argument if the rule cannot be read, or `dates` is empty.
std::optional<time_point> next_time_of(const plan& p, const calendar& dates, time_point after);

// Returns the delay after so many failures in a row. `luck` is from 0 to 1, and decides within the
// bounds of the jitter.
duration delay_after(const retry_policy& r, std::uint32_t failures, double luck) noexcept;

// Returns a line of UTF-8 of at most longest_reason bytes. Other bytes become question marks, and
// control characters become blanks.
std::string line_of(std::string_view reason);

}  // namespace tvec::durable::detail
