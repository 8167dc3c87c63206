/// \file
/// What durable timers show of themselves.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "tvec/core/detail/export.hpp"
#include "tvec/inspect/lateness_histogram.hpp"

namespace tvec::durable {

/// Counters of everything that has happened so far, in this process.
struct counters {
    std::uint64_t stored = 0;         ///< puts that were answered so
    std::uint64_t there_already = 0;  ///< and so
    std::uint64_t dead_already = 0;   ///< puts whose id a dead timer has
    std::uint64_t unknown = 0;        ///< puts and cancels that were, because the link broke
    std::uint64_t failed = 0;         ///< and those that the store could not do
    std::uint64_t refused = 0;        ///< calls that were refused before they were sent
    std::uint64_t cancelled = 0;      ///< cancels that took a timer away, begun or not
    std::uint64_t delivered = 0;      ///< calls of the handler
    std::uint64_t retries = 0;        ///< those that were not the first for the same deadline
    std::uint64_t done = 0;           ///< deliveries ended by `done`
    std::uint64_t again = 0;          ///< and by `again`
    std::uint64_t stale = 0;          ///< ends that came when the attempt was over
    std::uint64_t returned = 0;       ///< claims given back before their handler was called
    std::uint64_t died = 0;           ///< timers that had all their attempts
    std::uint64_t damaged = 0;        ///< timers set aside because their record cannot be read
    std::uint64_t thrown = 0;         ///< exceptions of handlers and completions
    std::uint64_t taken = 0;          ///< timers brought into the window from the store
    std::uint64_t swept = 0;          ///< of them, those whose hint was lost
    std::uint64_t hints = 0;          ///< hints of what others have put
    std::uint64_t duplicates = 0;     ///< timers brought that were in the window already
    std::uint64_t too_early = 0;      ///< claims that the store's clock found to be early
    std::uint64_t evicted = 0;      ///< timers sent back to the store, because the window was full
    std::uint64_t leases_lost = 0;  ///< times that a shard went to somebody else
    std::uint64_t clock_set = 0;    ///< times that the store's clock jumped
};

/// Gauges: the state at this moment, in this process.
struct gauges {
    std::size_t near = 0;             ///< timers in the window
    std::size_t being_delivered = 0;  ///< of them, those claimed and not ended
    std::size_t asked = 0;            ///< calls that are unanswered
    std::size_t shards = 0;           ///< that this process owns
    /// How often the link to the store broke, for each reason.
    std::map<std::string, std::uint64_t> broken_links{};
};

/// All of it, in Prometheus' text format 0.0.4: names begin with tvec_durable_.
TVEC_API std::string to_prometheus(const counters& count, const gauges& now,
                                   const lateness_histogram& late);

}  // namespace tvec::durable
