/// \file
/// Metrics of durable timers.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "tvec/core/detail/export.hpp"
#include "tvec/extra/lateness_histogram.hpp"

namespace tvec::durable {

/// Numbers of events in this process so far.
struct counters {
    std::uint64_t stored = 0;         ///< puts answered `stored`
    std::uint64_t there_already = 0;  ///< puts answered `there_already`
    std::uint64_t dead_already = 0;   ///< puts answered `dead`
    std::uint64_t unknown = 0;        ///< puts and cancels answered `unknown`
    std::uint64_t failed = 0;         ///< puts and cancels answered `failed`
    std::uint64_t refused = 0;        ///< calls that were refused before they were sent
    std::uint64_t cancelled = 0;      ///< cancels that removed a timer, begun or not
    std::uint64_t delivered = 0;      ///< calls of the handler
    std::uint64_t retries = 0;        ///< deliveries that were not the first for their deadline
    std::uint64_t done = 0;           ///< deliveries ended by `done`
    std::uint64_t again = 0;          ///< deliveries ended by `again`
    std::uint64_t failures = 0;       ///< deliveries ended by `failed`, or by a handler that threw
    std::uint64_t planned = 0;        ///< decisions of plans: what comes after a delivery
    std::uint64_t stale = 0;          ///< ends of attempts that were not the current ones
    std::uint64_t returned = 0;       ///< claims returned before their handler was called
    std::uint64_t died = 0;           ///< timers that became dead letters, and beats given up
    std::uint64_t damaged = 0;        ///< timers set aside because their records cannot be read
    std::uint64_t thrown = 0;         ///< exceptions of handlers and completions
    std::uint64_t taken = 0;          ///< timers brought into the window from the store
    std::uint64_t swept = 0;          ///< those of them that a sweep found: their hint was lost,
                                      ///< or they were handed over and not ended
    std::uint64_t hints = 0;          ///< hints of puts by other processes
    std::uint64_t duplicates = 0;     ///< timers taken that were in the window already
    std::uint64_t too_early = 0;      ///< claims that were early by the clock of the store
    std::uint64_t evicted = 0;        ///< timers left to the store, because the window was full
    std::uint64_t leases_lost = 0;    ///< shards that another process took over
    std::uint64_t clock_set = 0;      ///< jumps of the clock of the store
};

/// The present state of this process, in numbers.
struct gauges {
    std::size_t near = 0;             ///< timers in the window
    std::size_t being_delivered = 0;  ///< those of them that are claimed and not ended
    std::size_t asked = 0;            ///< calls in flight
    std::size_t shards = 0;           ///< shards that this process owns, whose lease is renewed
    /// Breaks of the connection to the store, by reason.
    std::map<std::string, std::uint64_t> broken_connections{};
};

/// Returns all metrics in the text format 0.0.4 of Prometheus. Names begin with tvec_durable_.
TVEC_API std::string to_prometheus(const counters& count, const gauges& now,
                                   const lateness_histogram& late);

}  // namespace tvec::durable
