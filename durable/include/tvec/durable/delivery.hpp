/// \file
/// Deliveries of durable timers, the options under which they come, and the refusals of calls.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "tvec/core/detail/export.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable {

/// A timer that has come due, for the handler to keep.
struct delivery {
    durable::token token;  ///< for `done` and `again`
    time_point due;        ///< what it was put for; of a period, the beat
    duration every{};      ///< its period, or 0
    std::string body{};    ///< as it was put
};

/// Why a call was refused: nothing was sent, and the completion is not called.
enum class refusal {
    none,            ///< it was not
    bad_id,          ///< empty, or longer than longest_id
    body_too_large,  ///< larger than largest_body
    bad_due,         ///< before earliest_due or after latest_due
    bad_period,      ///< negative, or longer than until latest_due
    too_many,        ///< options::max_calls calls, or max_put_bytes, are unanswered: try later
    stopping         ///< `stop` has been called
};

/// Returns the reason of a refusal in a few words.
TVEC_API const char* to_text(refusal r) noexcept;

/// How durable timers are kept. The constructor of `timers` throws std::invalid_argument, which
/// names the option, if one is out of its range. Every duration is from 1 ms to 1000 days, and
/// every number at least 1, but for `attempts`.
struct options {
    duration horizon{60'000};      ///< how far ahead the wheel is filled,
    std::size_t window = 200'000;  ///< and with how many timers at most; of each shard a share
    duration claim_lease{30'000};  ///< how long a delivery may take before it comes again

    /// A timer is dead when its handler had it so often in a row without an end; 0: no limit. A
    /// handler that ends its process may have it once more: the first time is not counted, since
    /// nobody can tell which of the deliveries under way ended the process.
    std::uint32_t attempts = 0;
    duration shard_lease{10'000};  ///< how long a dead process keeps its shards
    duration sweep{1'000};         ///< how late a lost hint makes a timer
    duration retry{1'000};         ///< how long to wait when the store could not

    /// Deliveries in one turn of the loop at most, and ends at most that the store has not
    /// answered: a process that is killed has so many of its ended deliveries come again.
    std::size_t max_deliveries_per_turn = 8'000;
    duration turn_length{10};                 ///< how long a turn calls handlers, about
    std::size_t max_calls = 100'000;          ///< unanswered calls; more are refused,
    std::size_t max_put_bytes = 67'108'864;   ///< and of unanswered puts; more are refused
    std::size_t max_held_bytes = 67'108'864;  ///< bodies claimed ahead; then no more is claimed
    /// Told what handlers and completions have thrown. Must not throw.
    std::function<void(std::exception_ptr)> on_exception{};
};

/// The calls, ends and shards that `stop` could not end before its time limit.
struct unfinished {
    std::size_t calls = 0;   ///< unanswered puts, cancels and questions: their outcome is unknown
    std::size_t ends = 0;    ///< ends that the store has not answered: these deliveries come again
    std::size_t shards = 0;  ///< shards not given back: others have them when their leases are over
    /// Returns whether anything is unfinished.
    bool any() const noexcept { return calls + ends + shards != 0; }
};

}  // namespace tvec::durable
