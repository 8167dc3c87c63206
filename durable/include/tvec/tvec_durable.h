/// \file
/// Durable timers for programs in C, and for bindings of other languages: C11, and valid C++.
///
///     static void on_due(void* user, const struct tvec_durable_delivery* d)
///     {
///         close_if_unpaid(d->id, d->id_length);
///         tvec_durable_done(timers, d->id, d->id_length, d->attempt, NULL, NULL);
///     }
///
///     struct tvec_durable_options o = {.size = sizeof o, .store = "orders.db", .handler = on_due};
///     if (tvec_durable_open(&timers, &o, text, sizeof text) != 0) fail(text);
///     struct tvec_durable_record r = {.size = sizeof r, .id = "17", .id_length = 2};
///     r.due = tvec_durable_now(timers) + 1800000;
///     tvec_durable_put(timers, &r, TVEC_DURABLE_KEEP, on_answer, NULL);
///     watch(tvec_durable_fd(timers), EPOLLIN);
///     while (running) { sleep until it is readable; tvec_durable_run(timers); }
///
/// They are the timers of tvec/durable/timers.hpp, with the same promises, on a wheel and an alarm
/// of their own. durable/docs/using.md describes them.
///
/// **Answers.** A call returns TVEC_DURABLE_ACCEPTED or a refusal at once. tvec_durable_text
/// returns the text of a refusal. After an accepted call tvec_durable_run calls `then` once, with
/// `user`. A `then` may be null, and is not called after a refusal or tvec_durable_close.
///
/// **Bytes.** Ids, bodies and plans are any bytes with a length. Those that a function receives are
/// copied. Those that a callback receives are valid until it returns.
///
/// **Versions.** A program sets `size` of each struct that it passes to the size that it knows, and
/// other members that it does not need to 0. Later versions append members. A struct whose size is
/// not set is refused, and one with a member that this version does not know and that is not 0.
///
/// **Memory.** A call that runs out of memory ends the program.
///
/// **Threads.** One thread at a time uses an object. Callbacks must return, and may call all
/// functions but tvec_durable_run and tvec_durable_close.
#ifndef TVEC_TVEC_DURABLE_H
#define TVEC_TVEC_DURABLE_H

#include <stddef.h>
#include <stdint.h>

#ifndef DOXYGEN
#ifdef __cplusplus
extern "C" {
#endif
#define TVEC_DURABLE_C_API __attribute__((visibility("default")))
#endif

/// A store, its timers, and the wheel of those that are due soon.
struct tvec_durable;

/// Milliseconds since 1970 are the unit of deadlines, milliseconds that of durations.
typedef int64_t tvec_durable_ms;

/// Refusals of a call. Nothing was sent then.
enum {
    TVEC_DURABLE_ACCEPTED = 0,
    TVEC_DURABLE_BAD_ID = -1,          ///< the id is empty, or longer than 255 bytes
    TVEC_DURABLE_BODY_TOO_LARGE = -2,  ///< the body is larger than 1 MiB
    TVEC_DURABLE_BAD_DUE = -3,         ///< the deadline is not from 1970 to 9999
    TVEC_DURABLE_BAD_PERIOD = -4,      ///< the period is negative, or too long
    TVEC_DURABLE_TOO_MANY = -5,        ///< too many calls are not answered: try again later
    TVEC_DURABLE_STOPPING = -6,        ///< tvec_durable_stop has been called
    TVEC_DURABLE_BAD_PLAN = -7,        ///< the plan cannot be read, or is too long
    TVEC_DURABLE_BAD_LEASE = -8,       ///< the lease is not from 1 ms to 1000 days
    TVEC_DURABLE_BAD_SIZE = -9         ///< the `size` of a struct is not set: see Versions
};

/// Answers of the store: the first argument of completions after `user`. They mean what the enums
/// of tvec/durable/store.hpp say.
enum {
    TVEC_DURABLE_UNKNOWN = -2,       ///< the connection broke: it may have been done. Ask again
    TVEC_DURABLE_FAILED = -1,        ///< the store could not: tvec_durable_failure says why
    TVEC_DURABLE_DONE = 0,           ///< an end of the current attempt, or a question was answered
    TVEC_DURABLE_STALE = 1,          ///< the attempt was over, and nothing has changed
    TVEC_DURABLE_STORED = 2,         ///< a put: the timer is stored
    TVEC_DURABLE_THERE_ALREADY = 3,  ///< a put: another timer has the id, and is kept
    TVEC_DURABLE_DEAD = 4,           ///< a put: a dead letter has the id, and is kept
    TVEC_DURABLE_CANCELLED = 5,      ///< a cancel: the timer will not be delivered
    TVEC_DURABLE_HAD_BEGUN = 6,      ///< a cancel: a delivery had begun, and may be in flight
    TVEC_DURABLE_UNKNOWN_ID = 7,     ///< no timer has the id
    TVEC_DURABLE_REVIVED = 8,        ///< the dead letter waits again
    TVEC_DURABLE_TOUCHED = 9         ///< the timer waits for its new deadline
};

/// How a put treats a timer that has the same id: as `existing` of tvec/durable/store.hpp.
enum tvec_durable_existing {
    TVEC_DURABLE_KEEP = 0,     ///< it is kept
    TVEC_DURABLE_REPLACE = 1,  ///< it is replaced
    TVEC_DURABLE_SOONER = 2,   ///< it is replaced if the new deadline is before its own
    TVEC_DURABLE_LATER = 3     ///< it is replaced if the new deadline is after its own
};

/// A set of timers that can be listed.
enum tvec_durable_set {
    TVEC_DURABLE_WAITING = 0,      ///< they will be delivered, or are being delivered
    TVEC_DURABLE_DEAD_LETTERS = 1  ///< they used up their attempts
};

/// A timer that has come due. Its end is tvec_durable_done, tvec_durable_again or
/// tvec_durable_fail, at any time.
struct tvec_durable_delivery {
    const char* id;         ///< of the timer
    size_t id_length;       ///< in bytes
    uint32_t attempt;       ///< the id and the attempt are a fencing token: they name one delivery
    tvec_durable_ms due;    ///< the deadline; of a periodic timer, the beat
    tvec_durable_ms every;  ///< the period, or 0
    const void* body;       ///< as it was put
    size_t body_length;     ///< in bytes
};

/// A timer to be put.
struct tvec_durable_record {
    size_t size;            ///< sizeof(struct tvec_durable_record)
    const char* id;         ///< any bytes; unique among waiting timers and dead letters
    size_t id_length;       ///< 1 to 255
    tvec_durable_ms due;    ///< the deadline
    const void* body;       ///< any bytes, for the handler; may be null if the length is 0
    size_t body_length;     ///< up to 1 MiB
    tvec_durable_ms every;  ///< 0, or a period
    const char* plan;       ///< null, or a plan: how it comes again, and its retries
    size_t plan_length;     ///< in bytes
};

/// A timer in the store.
struct tvec_durable_timer {
    const char* id;         ///< of the timer
    size_t id_length;       ///< in bytes
    tvec_durable_ms due;    ///< the deadline
    tvec_durable_ms every;  ///< the period, or 0
    const void* body;       ///< as it was put
    size_t body_length;     ///< in bytes
    const char* plan;       ///< as it was put
    size_t plan_length;     ///< in bytes
    uint32_t attempt;       ///< the last attempt given out; 0: none
    uint32_t ended;         ///< the last attempt that was ended or returned
    const char* history;    ///< failures so far, as `history` of tvec/durable/plan.hpp reads them
    size_t history_length;  ///< in bytes
};

/// The numbers of timers in a store.
struct tvec_durable_totals {
    uint64_t waiting;  ///< will be delivered, or are being delivered
    uint64_t dead;     ///< dead letters
    uint64_t damaged;  ///< have records that cannot be read
};

/// Receives due timers.
typedef void (*tvec_durable_handler)(void* user, const struct tvec_durable_delivery* d);
/// Receives the answer to a call.
typedef void (*tvec_durable_then)(void* user, int answer);
/// Receives a timer of a find or a list, before the answer.
typedef void (*tvec_durable_show)(void* user, const struct tvec_durable_timer* t);
/// Receives the answer to a count: TVEC_DURABLE_DONE, or TVEC_DURABLE_UNKNOWN and zeroes.
typedef void (*tvec_durable_counted)(void* user, int answer, const struct tvec_durable_totals* n);

/// The options of an object.
struct tvec_durable_options {
    size_t size;                   ///< sizeof(struct tvec_durable_options)
    const char* store;             ///< a file, `redis:USER@HOST:PORT`, `rediss:...`, `postgres:...`
    tvec_durable_handler handler;  ///< is called for due timers, by tvec_durable_run; not null
    void* user;                    ///< the first argument of the handler
    tvec_durable_ms claim_lease;   ///< a delivery that is not ended by then comes again; 0: 30 s
    uint32_t attempts;         ///< deliveries without an end that make a dead letter; 0: no limit
    const char* default_plan;  ///< null, or `retry` and `attempts` for timers without a plan
};

/// Opens a store, makes timers on it, and sets `*to`. Returns 0, or a negative errno value, and
/// then writes the reason to `text`, as snprintf does. It is -EINVAL for options that are wrong,
/// before a store is opened: a size that is not set, no store or handler, a port that is not from 1
/// to 65535. A store in a server needs its library, such as libtvec-durable-redis, which is loaded
/// here. Opening a file takes milliseconds.
TVEC_DURABLE_C_API int tvec_durable_open(struct tvec_durable** to,
                                         const struct tvec_durable_options* options, char* text,
                                         size_t size);

/// Ends an object. Waits for the disk if the store is a file. Completions that are left are not
/// called. Does nothing for NULL.
TVEC_DURABLE_C_API void tvec_durable_close(struct tvec_durable* d);

/// Returns a descriptor that is readable when tvec_durable_run has work: answers or due timers.
/// Watch it for reading and nothing else.
TVEC_DURABLE_C_API int tvec_durable_fd(const struct tvec_durable* d);

/// Calls completions and handlers, for about 10 ms at most. If work is left, the descriptor is
/// readable again. Does not wait. Returns 0 or a negative errno value.
TVEC_DURABLE_C_API int tvec_durable_run(struct tvec_durable* d);

/// Returns the time of the store.
TVEC_DURABLE_C_API tvec_durable_ms tvec_durable_now(const struct tvec_durable* d);

/// Writes the last failure of the store to `memory`, as snprintf does. Returns the length of that
/// text: 0 if there was none.
TVEC_DURABLE_C_API size_t tvec_durable_failure(const struct tvec_durable* d, char* memory,
                                               size_t size);

/// Returns the text of a refusal.
TVEC_DURABLE_C_API const char* tvec_durable_text(int refusal);

/* --- calls ------------------------------------------------------------------------------------ */

/// Stores a timer. Answers STORED, THERE_ALREADY, DEAD, UNKNOWN or FAILED.
TVEC_DURABLE_C_API int tvec_durable_put(struct tvec_durable* d,
                                        const struct tvec_durable_record* timer,
                                        enum tvec_durable_existing how, tvec_durable_then then,
                                        void* user);

/// Removes a timer or a dead letter. Answers CANCELLED, HAD_BEGUN, UNKNOWN_ID, UNKNOWN or FAILED.
TVEC_DURABLE_C_API int tvec_durable_cancel(struct tvec_durable* d, const char* id, size_t id_length,
                                           tvec_durable_then then, void* user);

/// Ends a delivery. A periodic timer comes again at its next beat, any other is removed. Answers
/// DONE or STALE. Never refused: the request is repeated until the store has answered.
TVEC_DURABLE_C_API int tvec_durable_done(struct tvec_durable* d, const char* id, size_t id_length,
                                         uint32_t attempt, tvec_durable_then then, void* user);

/// Ends a delivery and makes its timer due again at `due`. Answers DONE or STALE.
TVEC_DURABLE_C_API int tvec_durable_again(struct tvec_durable* d, const char* id, size_t id_length,
                                          uint32_t attempt, tvec_durable_ms due,
                                          tvec_durable_then then, void* user);

/// Ends a delivery that did not succeed. The plan of the timer, or the default plan, tells when it
/// comes again. The reason is text. Answers DONE or STALE. Never refused.
TVEC_DURABLE_C_API int tvec_durable_fail(struct tvec_durable* d, const char* id, size_t id_length,
                                         uint32_t attempt, const char* reason, size_t reason_length,
                                         tvec_durable_then then, void* user);

/// Moves the end of the lease of a delivery to `lease` from now. Answers DONE, STALE or UNKNOWN.
TVEC_DURABLE_C_API int tvec_durable_extend(struct tvec_durable* d, const char* id, size_t id_length,
                                           uint32_t attempt, tvec_durable_ms lease,
                                           tvec_durable_then then, void* user);

/// Gives a timer a new deadline. A delivery in flight is stale from then on. Answers TOUCHED,
/// UNKNOWN_ID, UNKNOWN or FAILED.
TVEC_DURABLE_C_API int tvec_durable_touch(struct tvec_durable* d, const char* id, size_t id_length,
                                          tvec_durable_ms due, tvec_durable_then then, void* user);

/// Makes a dead letter wait again, for the deadline `due`. Answers REVIVED, UNKNOWN_ID, UNKNOWN or
/// FAILED.
TVEC_DURABLE_C_API int tvec_durable_revive(struct tvec_durable* d, const char* id, size_t id_length,
                                           tvec_durable_ms due, tvec_durable_then then, void* user);

/// Finds a timer that waits or is being delivered, and shows it. Answers DONE, UNKNOWN_ID or
/// UNKNOWN.
TVEC_DURABLE_C_API int tvec_durable_find(struct tvec_durable* d, const char* id, size_t id_length,
                                         tvec_durable_show show, tvec_durable_then then,
                                         void* user);

/// Shows at most `limit` timers after the place (due, id), in the order of their deadlines. The
/// first page begins at 0 and an empty id, the next one at the last timer shown. Only ids that
/// begin with the prefix are shown. It may be empty. Answers DONE or UNKNOWN.
TVEC_DURABLE_C_API int tvec_durable_list(struct tvec_durable* d, enum tvec_durable_set set,
                                         tvec_durable_ms due, const char* id, size_t id_length,
                                         const char* prefix, size_t prefix_length, size_t limit,
                                         tvec_durable_show show, tvec_durable_then then,
                                         void* user);

/// Counts the timers in the store.
TVEC_DURABLE_C_API int tvec_durable_count(struct tvec_durable* d, tvec_durable_counted then,
                                          void* user);

/// Stops deliveries, for SIGTERM. Later calls are refused, but for ends of deliveries. Answers DONE
/// when the store has answered everything, or UNKNOWN after `at_most` if work is unfinished.
TVEC_DURABLE_C_API void tvec_durable_stop(struct tvec_durable* d, tvec_durable_ms at_most,
                                          tvec_durable_then then, void* user);

#ifndef DOXYGEN
#ifdef __cplusplus
}
#endif
#endif

#endif
