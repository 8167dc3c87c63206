/// \file
/// The interface of a store, between the engine of `tvec/durable/timers.hpp` and the place where
/// all timers are kept.
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
#include <utility>
#include <variant>
#include <vector>

#include "tvec/core/detail/export.hpp"

namespace tvec::durable {

/// A deadline: milliseconds since 1970, by the clock of the store.
using time_point = std::chrono::sys_time<std::chrono::milliseconds>;
/// A reading of that clock.
using reading = std::chrono::sys_time<std::chrono::microseconds>;
/// A lease, a period or a distance of deadlines.
using duration = std::chrono::milliseconds;
/// The number of an ownership of a shard. It counts up. Epoch 0 has no owner.
using epoch = std::uint64_t;

/// The limits of every store. Requests beyond them are refused before they are sent.
/// @{
inline constexpr std::size_t longest_id = 255;                          ///< bytes; at least one
inline constexpr std::size_t largest_body = 1'048'576;                  ///< bytes: 1 MiB
inline constexpr std::size_t longest_plan = 1'000;                      ///< bytes
inline constexpr std::size_t longest_reason = 500;                      ///< bytes; the rest is cut
inline constexpr time_point earliest_due{};                             ///< the beginning of 1970
inline constexpr time_point latest_due{duration(253'402'300'799'999)};  ///< the end of 9999
/// @}

/// A timer, as it is put.
struct record {
    std::string id;      ///< any bytes; unique among waiting timers and dead letters
    time_point due;      ///< the deadline; no delivery comes before it
    std::string body{};  ///< any bytes; handed to the handler
    duration every{};    ///< 0, or a period: due again at due + k * every, until it is cancelled
    std::string plan{};  ///< "", or the schedule and the retries of the timer. The engine reads it

    /// Compares all members.
    friend bool operator==(const record&, const record&) = default;
};

/// Names a delivery: a fencing token. It is never given out a second time, not even if the timer is
/// gone and its id is put again. A system that keeps the highest attempt seen of an id can refuse
/// earlier ones.
struct token {
    std::string id;             ///< of the timer
    std::uint32_t attempt = 0;  ///< goes up, and is no count. After 2^30 - 1 new timers begin at 1

    /// Returns true for the same delivery of the same timer.
    friend bool operator==(const token&, const token&) = default;
};

/// A timer, as it is in the store. Attempts after `ended` are open: each was claimed, and neither
/// ended nor returned. `spent` counts the open attempts whose handler was certainly called.
struct stored_timer : record {
    std::uint32_t attempt = 0;  ///< the last attempt given out, or what the first one follows
    std::uint32_t ended = 0;    ///< the last attempt that was ended or returned, or the same
    std::uint32_t spent = 0;    ///< attempts since then that count towards options::attempts
    std::string history{};      ///< notes of the engine about earlier deliveries

    /// How the last delivery ended, if the plan of the timer has to decide what comes next: "done",
    /// or "failed" and a space and the reason. "first": the plan has to decide the first deadline.
    /// Otherwise "", as for a dead letter. The engine that claims the timer applies the plan and
    /// delivers nothing.
    std::string verdict{};
};

/// A place in the order of timers: by deadline, then by id, byte by byte.
struct place {
    time_point due = earliest_due;  ///< compares first
    std::string id{};               ///< "" is before all others

    /// Compares as stores order timers.
    friend auto operator<=>(const place&, const place&) = default;
};

/// How a put treats a timer that has the same id.
enum class existing {
    keep,     ///< the put answers there_already or dead, and nothing changes
    replace,  ///< the timer gets the new deadline, body, period and plan, and waits even if it was
              ///< a dead letter; its attempts go on counting, and its delivery in flight is stale.
              ///< A beat that is due and not delivered yet comes only if it is the new deadline
    sooner,  ///< `replace` if the new deadline is before that of the timer, otherwise `keep`. Keeps
             ///< a dead letter
    later    ///< `replace` if the new deadline is after that of the timer, otherwise `keep`. Keeps
             ///< a dead letter
};

/// The result of a put.
enum class put_result {
    stored,         ///< the timer is in the store, as safely as the store promises
    there_already,  ///< another timer has the id, and is kept
    dead,           ///< a dead letter has the id, and is kept: revive, cancel or replace it
    unknown,        ///< the connection broke: the timer may be there. Putting it again tells
    failed          ///< the store could not, and store::last_failure says why: it is not there
};

/// The result of a cancel.
enum class cancel_result {
    cancelled,  ///< the timer was removed and will not be delivered. A delivery in flight of a
                ///< timer that was replaced or revived may still be: its end is stale
    had_begun,  ///< the timer was removed, but a delivery of it had begun and may be in flight: its
                ///< end is stale, also if the id is put again
    unknown_id,  ///< no timer has the id: it was ended, cancelled, or never put
    unknown,     ///< the connection broke: the timer may be cancelled. Cancelling it again tells
    failed       ///< the store could not: the timer is as it was
};

/// The result of a touch.
enum class touch_result {
    touched,     ///< the timer waits for its new deadline, and its delivery in flight is stale
    unknown_id,  ///< no timer has the id, or only a dead letter
    unknown,     ///< the connection broke: touching it again does no harm
    failed       ///< the store could not: the timer is as it was
};

/// The result of reviving a dead letter.
enum class revive_result {
    revived,     ///< the timer waits again, and has all its attempts
    unknown_id,  ///< no dead letter has the id
    unknown,     ///< the connection broke
    failed       ///< the store could not: the dead letter is as it was
};

/// The result of a request of the engine.
enum class standing {
    done,    ///< the request was done
    fenced,  ///< another process owns the shard
    unknown  ///< the connection broke, or the store could not: the request may have been done
};

/// How a delivery ends.
enum class outcome {
    done,      ///< a periodic timer gets its next deadline. One with a plan waits, with its
               ///< deadline and the verdict "done", unless it has no period and its plan has
               ///< nothing but retries. Any other is removed
    again,     ///< the timer gets a new deadline
    failed,    ///< the timer waits, with its deadline and the verdict "failed REASON"
    dead,      ///< the timer becomes a dead letter
    removed,   ///< the timer is removed, whatever its period and plan
    returned,  ///< the handler was not called. The timer waits for its deadline again, and the
               ///< attempt is not spent. If no earlier attempt is open, none is open afterwards
};

/// The end of a delivery.
struct ending {
    durable::token token;                  ///< of the delivery
    outcome how = outcome::done;           ///< how it ended
    time_point due{};                      ///< `again`: the next deadline
    std::string reason{};                  ///< `failed`: at most longest_reason bytes
    std::optional<std::string> history{};  ///< `again`, `dead`: replaces stored_timer::history
};

/// The result of an end.
struct end_reply {
    bool was_current = false;          ///< false: the attempt was over, and nothing has changed
    std::optional<time_point> next{};  ///< the next deadline, if there is one
};

/// The answer to a claim of one timer.
struct claimed {
    /// The kind of answer.
    enum class kind {
        granted,  ///< claimed for the length of the lease; `timer` is whole, its attempt is new
        gone,     ///< cancelled, ended, or claimed by another owner of the shard
        early,    ///< too early: timer.due is the time of the claim
        later,    ///< not done: the answer holds claim_terms::bytes already, or the server came to
                  ///< the claim after it was given up. Claim it again
        damaged   ///< its record cannot be read: it was set aside, and totals::damaged counts it
    } what = kind::gone;   ///< the kind of this answer
    stored_timer timer{};  ///< whole if it was granted
};

/// A timer that is due, and of which no attempt is under way, or too many have had no end.
struct overdue {
    std::string id;      ///< of the timer
    time_point due;      ///< its deadline
    time_point since;    ///< it has waited since then: its deadline, or the end of the last lease
    bool waits = false;  ///< true: it was claimed, and no worker has taken it

    /// Attempts in a row whose leases are over, and which had no end. From unended_attempts on the
    /// timer has waited since its deadline, although another attempt may be under way.
    std::uint32_t unended = 0;
};

/// Timers that `oldest` looks at in each shard, at most.
inline constexpr std::size_t overdue_looked_at = 1'000;
/// Attempts without an end that make a timer overdue, whoever is at work on it. One may be that of
/// a process that was killed.
inline constexpr std::uint32_t unended_attempts = 2;

/// The terms of a claim.
struct claim_terms {
    duration lease{30'000};         ///< a claim that is not ended by then comes again
    std::size_t bytes = 1'048'576;  ///< bodies in one answer, about; one timer is always granted

    /// Claims of these timers since then had no answer. Such a claim is granted again, as the same
    /// attempt, although its lease is not over. If its attempt was extended, spent or returned,
    /// somebody has had it, and it is not.
    time_point since = latest_due;
};

/// Returns true if a put of a timer that is due at `due` replaces a living one that is due at
/// `old`. For stores.
inline bool replaces(existing how, time_point due, time_point old) noexcept {
    if (how == existing::sooner) return due < old;
    return how == existing::later ? due > old : how == existing::replace;
}

/// Returns the first beat of a period that lies after `now`: due + k * every, with k > 0. For
/// stores.
TVEC_API time_point next_beat(time_point due, duration every, time_point now) noexcept;

/// A set of timers that can be listed.
enum class timer_set {
    waiting,  ///< timers that will be delivered, and those that are being delivered
    dead      ///< dead letters: timers that had all their attempts
};

/// The numbers of timers in a store.
struct totals {
    std::uint64_t waiting = 0;  ///< timers that will be delivered, and those being delivered
    std::uint64_t dead = 0;     ///< dead letters
    std::uint64_t damaged = 0;  ///< timers whose records cannot be read; `cancel` removes them
};

/// Traits of a store, once it is open.
struct store_traits {
    unsigned shards = 1;     ///< ids are divided into them, by their hash
    bool shared = true;      ///< other processes may own shards and put timers
    duration claim_ahead{};  ///< how long before its deadline a timer can be claimed
    duration sweep{};        ///< how often the engine sweeps; 0: every options::sweep
};

/// Messages from a store that no request has asked for. Called from `run`.
struct store_listener {
    /// Another process has put a timer into a shard, within the window of its owner.
    std::function<void(unsigned shard, std::string id, time_point due)> hint;
    /// The connection broke and is there again: ownership of shards may have changed.
    std::function<void()> reconnected;
};

/// Receives the answer to an operation, or to a call. May be empty.
template <class... Answer> using completion = std::function<void(Answer...)>;

/// The operations of a store: the arguments of each, and `then`, which receives the answer.
///
/// An operation that changes the timer of an id has a `name`: of its function on servers, and of
/// its command. The first value of its result is success, `success` in a word. The others have the
/// names of cancel_result. With `among` it can be done to all timers of that set with a prefix.
namespace operations {

// --- for any process ----------------------------------------------------------------------------

/// Puts timers in one round trip. Each succeeds or fails by itself. The answers are in their order.
struct put {
    std::vector<record> timers;                  ///< in any shards
    existing how;                                ///< for each
    completion<std::vector<put_result>> then{};  ///< a result for each
};

/// Removes a timer, whether it waits, is being delivered or is a dead letter.
struct cancel {
    static constexpr const char* name = "cancel";        ///< of the operation
    static constexpr const char* success = "cancelled";  ///< cancel_result::cancelled
    static constexpr const char* about = "removes a timer or a dead letter";  ///< for help
    static constexpr timer_set among = timer_set::waiting;  ///< the timers with a prefix
    std::string id;                                         ///< of the timer
    completion<cancel_result> then{};                       ///< the result
};

/// Ends deliveries of one shard. A timer that is done is removed. A timer that has a period, or is
/// to come again, gets its next deadline. The answers are in the order of the ends. Idempotent.
struct end {
    unsigned shard;                                       ///< of all of them
    std::vector<ending> endings;                          ///< done in this order
    completion<standing, std::vector<end_reply>> then{};  ///< an answer for each
};

/// Finds the timer of an id that waits or is being delivered.
struct find {
    std::string id;                                            ///< of the timer
    completion<standing, std::optional<stored_timer>> then{};  ///< the timer, if there is one
};

/// Lists timers after a place, over all shards in one order.
struct list {
    timer_set set;                                           ///< the timers to list
    place after;                                             ///< they come after this place
    std::size_t limit;                                       ///< at most so many timers
    std::string prefix{};                                    ///< their ids begin with it
    completion<standing, std::vector<stored_timer>> then{};  ///< the timers
};

/// Finds the timer that waits longest of those that are due and have no attempt under way: they
/// were not claimed, the lease of their claim has ended, or no worker has taken them. Those of
/// which unended_attempts had no end are among them, too. With a prefix, of those whose ids begin
/// with it. If overdue_looked_at others of a shard wait before these, and no shard has found one,
/// it answers with one of the others, whose id shows it. Costs a look at each shard and at each
/// delivery under way, whatever the number of timers.
struct oldest {
    std::string prefix{};                                 ///< "": of all timers
    completion<standing, std::optional<overdue>> then{};  ///< the timer, if there is one
};

/// Counts the timers in the store.
struct count {
    completion<standing, totals> then{};  ///< the numbers
};

/// Gives a timer that waits or is being delivered a new deadline. As a put that replaces the timer,
/// but with the body, period, plan and history that it has.
struct touch {
    static constexpr const char* name = "touch";                          ///< of the operation
    static constexpr const char* success = "touched";                     ///< touch_result::touched
    static constexpr const char* about = "gives a timer a new deadline";  ///< for help
    std::string id;                                                       ///< of the timer
    time_point due;                                                       ///< its new deadline
    completion<touch_result> then{};                                      ///< the result
};

/// Extends the lease of a delivery. Answers true if the attempt is the current one and open. If
/// not, nothing has changed.
struct extend {
    unsigned shard;                     ///< of the timer
    durable::token token;               ///< of the delivery
    duration lease;                     ///< from now
    completion<standing, bool> then{};  ///< true: the lease is extended
};

/// Makes a dead letter wait again. Its attempts go on counting. All of them count as ended, and
/// none as spent. Its history is cleared.
struct revive {
    static constexpr const char* name = "revive";      ///< of the operation
    static constexpr const char* success = "revived";  ///< revive_result::revived
    static constexpr const char* about = "has a dead letter wait again";  ///< for help
    static constexpr timer_set among = timer_set::dead;  ///< the timers with a prefix
    std::string id;                                      ///< of the dead letter
    time_point due;                                      ///< its new deadline
    completion<revive_result> then{};                    ///< the result
};

// --- for the engine -----------------------------------------------------------------------------

/// Stores a dead letter: id, deadline, body, plan and history, and the last of its attempts.
/// Answers true if its id was free. If not, nothing has changed. Idempotent.
struct bury {
    stored_timer letter;                ///< all its attempts have ended
    completion<standing, bool> then{};  ///< true: it is new
};

/// Enters this process among those that share the store.
struct join {
    duration lease;                            ///< it is one of them for so long
    completion<standing, std::size_t> then{};  ///< the number of these processes
};

/// Acquires a shard, or renews its lease. Answers the epoch of this ownership: 0 if another process
/// owns the shard, and the same as before if no other has owned it since.
struct own {
    unsigned shard;                      ///< the shard
    duration lease;                      ///< from now
    completion<standing, epoch> then{};  ///< the epoch, or 0
};

/// Releases a shard, if `mine` is its epoch.
struct release {
    unsigned shard;               ///< the shard
    epoch mine;                   ///< of the ownership that ends
    completion<standing> then{};  ///< `done`, also if the shard has another owner
};

/// Answers the timers of the shard with after < place and due <= until, in order. From now on the
/// owner receives a hint of each timer that is put there. The answer begins with an empty place for
/// each record that was set aside because its id or deadline cannot be read.
struct take {
    unsigned shard;                                   ///< the shard
    epoch mine;                                       ///< of its owner
    place after;                                      ///< they come after this place
    time_point until;                                 ///< the latest deadline
    std::size_t limit;                                ///< at most so many timers
    completion<standing, std::vector<place>> then{};  ///< their places
};

/// Claims timers of the shard. The answers are in the order of the ids.
struct claim {
    unsigned shard;                                     ///< the shard
    epoch mine;                                         ///< of its owner
    claim_terms terms;                                  ///< for each timer
    std::vector<std::string> ids;                       ///< of the timers
    completion<standing, std::vector<claimed>> then{};  ///< an answer for each
};

/// Counts an attempt as spent, once. Answers true if the attempt is the current one and open. If
/// not, nothing has changed. Idempotent.
struct spend {
    unsigned shard;                     ///< of the timer
    epoch mine;                         ///< of the owner of the shard
    durable::token token;               ///< of the delivery
    completion<standing, bool> then{};  ///< true: the attempt counts
};

}  // namespace operations

/// An operation of a store.
using operation =
    std::variant<operations::put, operations::cancel, operations::end, operations::find,
                 operations::list, operations::oldest, operations::count, operations::touch,
                 operations::extend, operations::revive, operations::bury, operations::join,
                 operations::own, operations::release, operations::take, operations::claim,
                 operations::spend>;

namespace detail {
class engine;

/// An operation that changes the timer of an id, one that gives it a deadline as well, and one that
/// can be done to all timers of a set.
/// @{
template <class Operation>
concept changes_one = requires {
    Operation::name;
};
template <class Operation>
concept sets_deadline = changes_one<Operation> && requires(Operation o) {
    o.due;
};
template <class Operation>
concept changes_many = changes_one<Operation> && requires {
    Operation::among;
};
/// @}
}  // namespace detail

/// A place where timers are kept, divided into shards. The engine calls it. Users construct one and
/// hand it over. One `timers` uses a store at a time.
///
/// `submit` returns at once. The completion of the operation is called exactly once, by `run`, on
/// the same thread: with the answer of the store, or with `unknown` once no answer can come. A
/// completion must not throw and may call the store. Completions that are left when the store is
/// destroyed are not called. Operations on one shard are done and answered in the order of the
/// calls, but answers to writes may be held back until the writes are safe.
///
/// For those that write a store:
///
///  * **Ids.** An id names one timer, waiting or dead. No attempt of it is given out twice: a new
///    timer begins after the last attempt of those of its shard that have ended or were cancelled.
///  * **Time** is the time of the store. It decides if a timer is due, and if a lease has ended.
///    The lease of a shard, of a process or of a claim counts for no longer than its length from
///    now, whatever the clock showed when it was given.
///  * **A claim pushes a timer back.** `take` does not show a claimed timer, and no process can
///    claim it, until its lease has ended. In a store that is not shared, its only owner ensures
///    that itself. `end` works for the attempt that was claimed last, and for no other. A claim
///    does not spend an attempt: `spend` does.
///  * **Owners.** `take`, `claim` and `spend` work for the owner of a shard, which proves that by
///    its epoch. Any process may call the other operations.
///  * **Verdicts.** A claim answers the verdict. A put, a touch, `again` and a death clear it. The
///    store does not read plans.
class TVEC_API store {
public:
    store() = default;
    store(const store&) = delete;
    store& operator=(const store&) = delete;
    virtual ~store();

    /// Returns a descriptor that is readable when `run` has work. Watch it for reading and nothing
    /// else. It stays the same for the life of the store.
    virtual int fd() const noexcept = 0;

    /// Calls the completions of operations that are answered. Returns how many. Does not wait.
    virtual std::size_t run() = 0;

    /// Returns the time of the store, as well as it is known here. Does not wait.
    virtual reading now() const = 0;

    /// Returns the traits of the store.
    virtual const store_traits& traits() const noexcept = 0;

    /// Returns the shard of an id.
    virtual unsigned shard_of(std::string_view id) const noexcept = 0;

    /// Returns the number of operations that are not answered.
    virtual std::size_t unanswered() const noexcept = 0;

    /// Returns the last failure of the store, in one line; "" if there was none.
    virtual std::string last_failure() const = 0;

    /// Returns how often the connection to the store broke, by reason. Empty for a store without a
    /// connection.
    virtual std::map<std::string, std::uint64_t> broken_connections() const { return {}; }

    /// Returns in one line which timers the store can lose, or else that another process has other
    /// terms; "" if neither.
    virtual std::string warning() const { return {}; }

    /// Sets the receiver of messages, in place of the one before.
    virtual void listen(store_listener listener) = 0;

    /// Begins an operation.
    virtual void submit(operation o) = 0;

private:
    friend class detail::engine;
    bool is_used_ = false;  // by a `timers`
};

}  // namespace tvec::durable
