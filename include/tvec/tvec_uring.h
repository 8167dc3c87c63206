/// \file
/// Waking a reactor on io_uring, for programs in C: tvec.h with libtvec-uring-c, which needs
/// liburing. A program uses one of the two ways. liburing.h is not included: the program does that.
///
/// Both keep the promises of the drivers in C++: see uring_wait.hpp and uring_timeout.hpp for how
/// long ring, wheel and clock must live. A failure returns a negative errno value.
#ifndef TVEC_TVEC_URING_H
#define TVEC_TVEC_URING_H

#include "tvec/tvec.h"

#ifdef __cplusplus
extern "C" {
#endif

struct io_uring;
struct io_uring_cqe;

/* --- by the reactor's own wait ---------------------------------------------------------------- */

/// Lets a reactor sleep on its ring until a completion arrives or a timer is due. The deadline is
/// an argument of the wait itself (IORING_ENTER_EXT_ARG): it needs no submission, makes no
/// completion, and leaves nothing to cancel. There is nothing to destroy.
///
///     tvec_uring_wait_init(&wait, &ring, &wheel, &clock);
///     while (running) {
///         tvec_uring_submit_and_wait(&wait);
///         handle_completions(&ring);      // first: a message in time ends its timeout
///         tvec_advance(&wheel, tvec_clock_now(&clock), 256);      // always, whatever woke us
///     }
///
/// The wake-up is only an alarm: the time comes from the clock. A wait may end early, and does not
/// say why it ended. All waits on one ring have one clock: that of the last one initialized for the
/// ring. `ring`, wheel and clock must outlive it. Rings with SQPOLL are supported.
struct tvec_uring_wait {
    uint64_t library[4];  ///< private
};

/// Makes a wait. Returns 0, or -EOPNOTSUPP if the kernel takes no deadline in a wait (before 5.11),
/// or if the ring has IORING_SETUP_IOPOLL, where waits ignore the deadline, or
/// IORING_SETUP_SQ_REWIND (Linux 7.0), where the wait would submit requests again. From Linux 6.15
/// on waits on the ring do not count as waits for I/O, until io_uring_set_iowait(ring, true) is
/// called.
TVEC_C_API int tvec_uring_wait_init(struct tvec_uring_wait* wait, struct io_uring* ring,
                                    struct tvec_wheel* wheel, const struct tvec_clock* clock);

/// Submits queued requests, and waits for one completion, at most until tvec_next_wakeup. With an
/// empty wheel there is no limit. While a budget has left timers over it does not sleep, but still
/// submits and reaps. A timeout, a signal and a full completion queue end the wait and are no
/// errors. Returns 0 or a negative errno value.
TVEC_C_API int tvec_uring_submit_and_wait(struct tvec_uring_wait* wait);

/// Submits queued requests, and has the kernel post what has completed, as a wait does, but never
/// sleeps: for a loop that has work of its own left. Returns 0 or a negative errno value.
TVEC_C_API int tvec_uring_submit_and_poll(struct tvec_uring_wait* wait);

/// Makes the loop of tvec.h on a ring: tvec_loop_init and tvec_uring_wait_init. Returns 0, or what
/// they return: then there is nothing to destroy. `ring` must outlive it.
///
///     tvec_loop_uring_init(&timers, &ring, TVEC_CLOCK_MONOTONIC, 1000000);
///     while (running) {
///         tvec_loop_uring_wait(&timers);
///         heard = handle_completions(&ring);
///         tvec_loop_run(&timers, heard, 256);         // always, whatever woke us
///     }
TVEC_C_API int tvec_loop_uring_init(struct tvec_loop* loop, struct io_uring* ring, int clock,
                                    int64_t tick);

/// Submits and waits as tvec_uring_submit_and_wait does, and then begins to listen:
/// tvec_stall_watch_listen. Requires a loop of tvec_loop_uring_init.
TVEC_C_API int tvec_loop_uring_wait(struct tvec_loop* loop);

/* --- by a request, where other code makes the wait -------------------------------------------- */

/// The default top byte of the user data of all requests of a tvec_uring_timeout. The program's
/// user data must not have it. Addresses and small numbers do not; packed fields may.
#define TVEC_URING_TIMEOUT_TAG 0xA7

/// Keeps one IORING_OP_TIMEOUT in a ring. Any kind of wait for a completion then wakes when a wheel
/// has something to do.
///
///     tvec_uring_timeout_init(&alarm, &ring, &wheel, &clock, TVEC_URING_TIMEOUT_TAG);
///     while (running) {
///         const int set = tvec_uring_timeout_prepare(&alarm);      // queues one request at most
///         submit_and_wait(&ring, set == 1);       // if not set: submit and reap, but do not sleep
///         for (each completion)
///             if (!tvec_uring_timeout_complete(&alarm, cqe->user_data, cqe->res)) handle(cqe);
///         tvec_advance(&wheel, tvec_clock_now(&clock), 256);      // always, whatever woke us
///     }
///
/// Several may share a ring and a tag: each claims its own completions. Its memory may end at any
/// time except between prepare and the submission. A completion that comes later belongs to nobody:
/// see tvec_is_uring_timeout, or detach first. It must be neither copied nor moved. Do not put it
/// behind IOSQE_IO_DRAIN requests, nor into a chain of linked requests.
struct tvec_uring_timeout {
    uint64_t library[12];  ///< private
};

/// Makes an alarm. Submits nothing yet. Returns 0, or -EOPNOTSUPP if the ring has
/// IORING_SETUP_IOPOLL, where the kernel refuses timeouts, or IORING_SETUP_SQPOLL, where
/// tvec_uring_wait works.
TVEC_C_API int tvec_uring_timeout_init(struct tvec_uring_timeout* alarm, struct io_uring* ring,
                                       struct tvec_wheel* wheel, const struct tvec_clock* clock,
                                       uint8_t tag);

/// Makes a completion arrive at tvec_next_wakeup or before, and at once if a budget has left work
/// over. Call it before every submission that may sleep. Queues one request at most, and none if
/// the alarm need not move earlier: then it is a comparison. A full submission queue is submitted
/// to make room. Returns 1. Returns 0 if even that makes no room: then do not sleep, reap
/// completions, and call again. Returns a negative errno value if submitting fails, and whenever a
/// timeout would be needed after the kernel has refused one: use a tvec_timerfd then.
TVEC_C_API int tvec_uring_timeout_prepare(struct tvec_uring_timeout* alarm);

/// Returns 1 if a completion with that user data and result belongs to this alarm: then it has been
/// dealt with. Returns 0 if not, and nothing has changed. Runs no timers. Returns a negative errno
/// value if it belongs to this alarm, and the kernel refused the timeout for a permanent reason (a
/// restricted ring, a filter of the process).
TVEC_C_API int tvec_uring_timeout_complete(struct tvec_uring_timeout* alarm, uint64_t user_data,
                                           int result);

/// Takes all requests of this alarm out of the ring, and waits until they are out. Completions of
/// others that arrive before are passed to foreign(context, cqe), in their order, and consumed when
/// it returns. It may queue requests, but must not reap completions. Queued requests are submitted.
/// `prepare` may be called again later. Returns 0 or a negative errno value.
TVEC_C_API int tvec_uring_timeout_detach(struct tvec_uring_timeout* alarm,
                                         void (*foreign)(void* context,
                                                         const struct io_uring_cqe* cqe),
                                         void* context);

/// Returns whether a completion belongs to any tvec_uring_timeout with this tag, alive or
/// destroyed.
TVEC_C_API bool tvec_is_uring_timeout(uint64_t user_data, uint8_t tag);

#ifdef __cplusplus
}
#endif

#endif
