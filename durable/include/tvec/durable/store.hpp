/// \file
/// What a store of timers does: the interface between the engine in `tvec/durable/timers.hpp` and
/// the place where all timers are kept.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tvec/core/detail/export.hpp"

namespace tvec::durable {

/// Deadlines: milliseconds since 1970, by the clock of the store.
using time_point = std::chrono::sys_time<std::chrono::milliseconds>;
/// A reading of that clock.
using reading = std::chrono::sys_time<std::chrono::microseconds>;
/// Leases, periods and distances of deadlines.
using duration = std::chrono::milliseconds;
/// The number of an ownership of a shard. It counts up. Epoch 0 has no owner.
using epoch = std::uint64_t;

/// The limits of every store. Requests beyond them are refused before they are sent.
/// @{
inline constexpr std::size_t longest_id = 255;                          ///< bytes; at least one
inline constexpr std::size_t largest_body = 1'048'576;                  ///< bytes: 1 MiB
inline constexpr time_point earliest_due{};                             ///< the beginning of 1970
inline constexpr time_point latest_due{duration(253'402'300'799'999)};  ///< the end of 9999
/// @}

/// A timer, as it is put.
struct record {
    std::string id;      ///< any bytes; one timer has it at a time
    time_point due;      ///< not delivered before
    std::string body{};  ///< any bytes; delivered with it
    duration every{};    ///< 0: once; else again at due + k * every, until it is cancelled

    /// In all of it.
    friend bool operator==(const record&, const record&) = default;
};

/// Names a delivery: a fencing token. It is never given out a second time while the timer lives. A
/// system that keeps the highest attempt seen of an id can refuse earlier ones.
struct token {
    std::string id;             ///< of the timer
    std::uint32_t attempt = 0;  ///< from 1, counting up; numbers may be left out

    /// The same delivery of the same timer.
    friend bool operator==(const token&, const token&) = default;
};

/// A timer, as it is in the store. Attempts after `ended` are open: each was claimed, and neither
/// ended nor returned. `spent` counts those of them whose handler was certainly called.
struct stored_timer : record {
    std::uint32_t attempt = 0;  ///< the last that was given out; 0: none
    std::uint32_t ended = 0;    ///< the last that was ended or returned
    std::uint32_t spent = 0;    ///< deliveries since then that count towards claim_terms::attempts
};

/// A place in the order of deadlines, and of ids where these are equal: byte by byte.
struct place {
    time_point due = earliest_due;  ///< what counts first
    std::string id{};               ///< "" is before all others

    /// As stores list timers.
    friend auto operator<=>(const place&, const place&) = default;
};

/// How a put treats a timer that has the same id.
enum class existing {
    keep,    ///< there_already or dead, and nothing changes
    replace  ///< it gets the new deadline, body and period, lives if it was dead, and its attempts
             ///< go on counting; what is being delivered of it is stale
};

/// The result of a put.
enum class put_result {
    stored,         ///< it is in the store, as safely as the store promises
    there_already,  ///< another has its id, and is kept
    dead,           ///< a dead timer has its id, and is kept: revive, cancel or replace it
    unknown,        ///< the link broke: it may be there. Putting the same id again tells
    failed          ///< it is not there: the store could not (store::last_failure says why)
};

/// The result of a cancel.
enum class cancel_result {
    cancelled,   ///< it was there and will not be delivered. If it was replaced or revived while
                 ///< an attempt was under way, that one may still be: its end would be stale
    had_begun,   ///< it is gone, but a delivery had begun that is not ended: it may be under way
    unknown_id,  ///< nothing of that id is there: ended, cancelled, or never put
    unknown,     ///< the link broke: it may be cancelled. Cancelling again tells
    failed       ///< it is as it was: the store could not
};

/// The result of reviving a dead timer.
enum class revive_result {
    revived,     ///< it is due again, with a whole number of attempts before it
    unknown_id,  ///< nothing of that id is dead
    unknown,     ///< the link broke
    failed       ///< it is as it was: the store could not
};

/// The result of a request of the engine.
enum class standing {
    done,    ///< it did
    fenced,  ///< no: the shard is not ours any more
    unknown  ///< the link broke, or the store could not; what was asked may have been done
};

/// How a delivery is to end.
struct ending {
    durable::token token;               ///< of which delivery
    std::optional<time_point> again{};  ///< none: it is done
    /// The timer was not handed to its handler. It waits for its deadline again, and this attempt
    /// is not spent. If no earlier attempt is open, none is open afterwards. `again` must be empty.
    bool returned = false;
};

/// The result of an end.
struct end_reply {
    bool was_current = false;          ///< if not, nothing has changed: the attempt is over
    std::optional<time_point> next{};  ///< when it comes again, if it does
};

/// The answer to a claim of one timer.
struct claimed {
    /// The kind of answer.
    enum class kind {
        granted,  ///< it is ours for the length of the lease; `timer` is whole, its attempt new
        gone,     ///< cancelled, ended, or claimed by another owner of the shard
        early,    ///< timer.due says when it may be claimed
        dead,     ///< `spent` had reached claim_terms::attempts: it is now among the dead
        later,    ///< nothing was done: the answer holds claim_terms::bytes already. Ask again
        damaged   ///< its record cannot be read: it was set aside, and totals::damaged counts it
    } what = kind::gone;   ///< what came of it
    stored_timer timer{};  ///< whole if it was granted
};

/// The terms of a claim.
struct claim_terms {
    duration lease{30'000};         ///< if it is not ended by then it comes again
    std::uint32_t attempts = 0;     ///< it is dead once `spent` has reached this; 0: no limit
    std::size_t bytes = 1'048'576;  ///< bodies in one answer, about; one timer is always granted
};

/// The first beat of a period that lies after `now`: due + k * every, with k > 0. For stores.
TVEC_API time_point next_beat(time_point due, duration every, time_point now) noexcept;

/// The timers that are listed.
enum class timer_set {
    waiting,  ///< those that will be delivered, also what is being delivered
    dead      ///< those that had all their attempts
};

/// How many there are of each.
struct totals {
    std::uint64_t waiting = 0;  ///< those that will be delivered, also what is being delivered
    std::uint64_t dead = 0;     ///< those that had all their attempts
    std::uint64_t damaged = 0;  ///< those whose record cannot be read; `cancel` removes them
};

/// Traits of a store, once it is open.
struct store_traits {
    unsigned shards = 1;  ///< into which the ids are divided, by their hash
    bool shared = true;   ///< others may own shards, and put: leases, hints and sweeps are needed
    duration claim_ahead{};  ///< so long before its deadline a timer can be claimed already
};

/// Messages from a store that nobody has asked for. Called from `run`.
struct store_listener {
    /// Somebody else has put a timer into a shard, before the end of what its owner has taken.
    std::function<void(unsigned shard, std::string id, time_point due)> hint;
    /// The link broke and is there again: what is known of the shards may be old.
    std::function<void()> reconnected;
};

namespace detail {
class engine;
}

/// A place where timers are kept, divided into shards. The engine calls it; users construct one and
/// hand it over. One `timers` uses a store at a time.
///
/// **Ids.** One timer has an id at a time, be it living or dead. No attempt of it is given out
/// twice until it has ended or was cancelled.
///
/// **Nothing waits.** Every operation returns at once. Its completion is called exactly once, by
/// `run`, on the same thread, never from within the operation: when the store has answered, or when
/// it is clear that it will not. That is then `unknown`. Requests to one shard are done in the
/// order of the calls. Answers come in that order, too, except acknowledgements of writes, which
/// may be held back until the writes are safe. A completion must not throw and may call the store.
/// Completions that are left when the store is destroyed are not called.
///
/// **Time** is the store's. It decides whether a timer is due, and in it leases are counted.
///
/// **A claim is a push-back.** A timer that is claimed is not shown by `take`, and cannot be
/// claimed, until its lease is over. Where nobody shares the store its only owner sees to that by
/// itself. `end` works for the attempt that was claimed last and for no other.
///
/// **Leases end.** No lease of a shard, of a member or of a claim counts for longer than its length
/// from now, whatever the clock showed when it was given.
///
/// **Attempts are spent by handlers.** A claim gives out a new attempt, and does not spend it:
/// `spend` does. A timer is dead only if as many were spent as claim_terms::attempts says.
///
/// **Owners.** `take` and `claim` work for the owner of the shard, who proves it by its epoch. Any
/// process may call the other operations.
class TVEC_API store {
public:
    /// The function that is called with an answer.
    template <class... Answer> using completion = std::function<void(Answer...)>;

    store() = default;
    store(const store&) = delete;
    store& operator=(const store&) = delete;
    virtual ~store();

    // --- the loop's side ------------------------------------------------------------------------

    /// Readable when `run` has something to do. To be watched for reading, and not for anything
    /// else. The same all the time that the store lives.
    virtual int fd() const noexcept = 0;

    /// Calls the completions of what has been answered. Returns how many. Does not wait.
    virtual std::size_t run() = 0;

    /// The store's time, as well as it is known here. Does not wait.
    virtual reading now() const = 0;

    /// Returns its traits.
    virtual const store_traits& traits() const noexcept = 0;

    /// The shard of an id.
    virtual unsigned shard_of(std::string_view id) const noexcept = 0;

    /// How many operations were asked for and are not answered.
    virtual std::size_t unanswered() const noexcept = 0;

    /// Returns the last failure of the store, in one line; "" if there was none.
    virtual std::string last_failure() const = 0;

    /// How often the link to the store broke, for each reason. Empty if there is no link.
    virtual std::map<std::string, std::uint64_t> broken_links() const { return {}; }

    /// From now on tells it. Replaces who was told before.
    virtual void listen(store_listener listener) = 0;

    // --- what anybody may ask -------------------------------------------------------------------

    /// Puts all of them, in one round trip. The answers are in their order; each is by itself.
    virtual void put(std::vector<record> timers, existing how,
                     completion<std::vector<put_result>> then) = 0;

    /// Takes a timer away, whether it waits, is being delivered or is dead.
    virtual void cancel(std::string id, completion<cancel_result> then) = 0;

    /// Ends deliveries of one shard. A timer that is done goes. A timer that has a period, or is to
    /// come again, gets its next deadline. The answers are in their order. Asking again is
    /// harmless.
    virtual void end(unsigned shard, std::vector<ending> endings,
                     completion<standing, std::vector<end_reply>> then) = 0;

    /// The timer of that id that waits, if there is one.
    virtual void find(std::string id, completion<standing, std::optional<stored_timer>> then) = 0;

    /// At most `limit` timers, those next after that place, over all shards in one order.
    virtual void list(timer_set set, place after, std::size_t limit,
                      completion<standing, std::vector<stored_timer>> then) = 0;

    /// How many there are.
    virtual void count(completion<standing, totals> then) = 0;

    /// Makes a dead timer wait again, for that deadline. Its attempts go on counting; all of them
    /// count as ended, and none as spent.
    virtual void revive(std::string id, time_point due, completion<revive_result> then) = 0;

    // --- what the engine asks -------------------------------------------------------------------

    /// Says that this process is there for the length of the lease, and how many are.
    virtual void join(duration lease, completion<standing, std::size_t> then) = 0;

    /// Makes the shard ours for the length of the lease, or ours for longer. Epoch 0: somebody else
    /// owns it. An epoch as before: nobody has had it since.
    virtual void own(unsigned shard, duration lease, completion<standing, epoch> then) = 0;

    /// Gives the shard back, if it is ours by that epoch.
    virtual void release(unsigned shard, epoch mine, completion<standing> then) = 0;

    /// At most `limit` timers of the shard with after < place and due <= until, in order. From now
    /// on the owner is given a hint of each that is put there.
    virtual void take(unsigned shard, epoch mine, place after, time_point until, std::size_t limit,
                      completion<standing, std::vector<place>> then) = 0;

    /// Claims timers of the shard. The answers are in the order of the ids.
    virtual void claim(unsigned shard, epoch mine, claim_terms terms, std::vector<std::string> ids,
                       completion<standing, std::vector<claimed>> then) = 0;

    /// Counts a delivery as spent, once for each attempt. Says whether the attempt is the current
    /// one and open; if not, nothing has changed. To ask again is harmless.
    virtual void spend(unsigned shard, epoch mine, token t, completion<standing, bool> then) = 0;

private:
    friend class detail::engine;
    bool is_used_ = false;  // by a `timers`
};

}  // namespace tvec::durable
