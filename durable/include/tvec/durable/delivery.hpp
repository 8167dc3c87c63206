/// \file
/// Deliveries of durable timers, their options, and the reasons for which a call is refused.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tvec/core/detail/export.hpp"
#include "tvec/durable/plan.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable {

/// A timer that has come due. The handler may keep it, and end it later.
struct delivery {
    durable::token token;  ///< names this delivery, for its end
    time_point due;        ///< the deadline; of a periodic timer, the beat
    duration every{};      ///< the period, or 0
    std::string body{};    ///< the body, as it was put
};

/// The reason for which a call was refused. Nothing was sent, and the completion is not called.
enum class refusal {
    none,            ///< the call was accepted
    bad_id,          ///< the id is empty, or longer than longest_id
    body_too_large,  ///< the body is larger than largest_body
    bad_due,         ///< the deadline is before earliest_due or after latest_due, or it is by_plan
                     ///< and the plan has no time left
    bad_period,      ///< the period is negative, or reaches beyond latest_due, or the plan of the
                     ///< timer has a rule
    bad_plan,        ///< the plan is longer than longest_plan, or plan_fault says what is wrong
    bad_lease,       ///< the lease is not from 1 ms to 1000 days
    too_many,        ///< options::max_calls or max_put_bytes are in flight: try again later
    stopping         ///< `stop` has been called
};

/// Returns the reason of a refusal in a few words.
TVEC_API const char* to_text(refusal r) noexcept;

/// Options of `timers`. Its constructor throws std::invalid_argument, which names the option, if
/// one is out of range. Every duration is from 1 ms to 1000 days. Every number but `attempts` is at
/// least 1.
struct options {
    duration horizon{60'000};      ///< how far ahead the window reaches
    std::size_t window = 200'000;  ///< timers in it at most; each shard has an equal share
    duration claim_lease{30'000};  ///< a delivery that is not ended by then comes again

    /// Deliveries in a row without an end that make a timer a dead letter, or the beat of one with
    /// a rule or a period; 0: no limit. A handler that ends its process may be called once more.
    /// Its first call is not counted, because the store cannot tell which of the deliveries in
    /// flight ended the process.
    std::uint32_t attempts = 0;
    /// True for a handler that only hands deliveries over: a call of it is no attempt then.
    /// `timers::taken` counts what a worker took.
    bool hands_over = false;
    duration shard_lease{10'000};  ///< how long a process that died keeps its shards
    /// Upper bound on the lateness that a lost hint causes. PostgreSQL has ten seconds instead.
    duration sweep{1'000};
    duration retry{1'000};  ///< delay after an operation that the store could not do

    /// Deliveries in one turn of the loop at most. Also the limit of ends in flight, so at most
    /// this many ended deliveries of a process that is killed come again.
    std::size_t max_deliveries_per_turn = 8'000;
    duration turn_length{10};  ///< how long one turn calls handlers, about
    /// Calls in flight; more are refused. Renewals of leases wait behind them: while a store takes
    /// longer than `shard_lease` for all of `gauges::asked`, this process delivers nothing.
    std::size_t max_calls = 100'000;
    std::size_t max_put_bytes = 67'108'864;  ///< bytes of puts in flight; more are refused
    /// Bytes of the bodies of deliveries in flight, from which on nothing is claimed. Claims that
    /// were sent before may bring as many again, or 16 MiB.
    std::size_t max_held_bytes = 67'108'864;
    /// Receives exceptions of handlers and completions. Must not throw.
    std::function<void(std::exception_ptr)> on_exception{};

    /// A plan of `retry` and `attempts` clauses, for timers whose plans do not have them. Without
    /// any `retry` clause a failed delivery comes again after claim_lease. Without an `attempts`
    /// clause, `attempts` above counts for failures as well.
    std::string default_plan{};
    durable::calendar calendar{};  ///< reads the rules of plans; without it no plan has a rule
    /// Called when a timer, or a beat of one, becomes a dead letter: by failures, by deliveries
    /// without an end, or by a plan that cannot be read. Its exceptions are treated like those of a
    /// handler.
    std::function<void(const std::string& id, const std::string& reason)> on_dead{};

    /// At most `second` deliveries of ids with the prefix `first` are in flight in this process. If
    /// several prefixes fit an id, the longest one counts. A delivery is in flight from its claim
    /// until it is ended or handed over, or its lease ends. Timers beyond a limit wait unclaimed,
    /// in a quarter of a window at most: the others are left to the store, until the queue is half
    /// empty. The plan of a delivery that another process has ended needs a permit as well.
    std::vector<std::pair<std::string, std::size_t>> limits{};
};

/// Work that `stop` could not complete within its time limit.
struct unfinished {
    std::size_t calls = 0;   ///< puts, cancels and questions in flight: their outcome is unknown
    std::size_t ends = 0;    ///< ends that the store has not answered: these deliveries come again
    std::size_t shards = 0;  ///< shards not released: others own them when their leases end
    /// Returns true if any work is unfinished.
    bool any() const noexcept { return calls + ends + shards != 0; }
};

}  // namespace tvec::durable
