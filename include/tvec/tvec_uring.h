/// \file
/// Waking a reactor on io_uring, for programs in C: tvec.h with libtvec-uring-c, which needs
/// liburing. A program takes one of the two. liburing.h is not included: that is the program's.
///
/// Both keep what the drivers in C++ promise, see uring_wait.hpp and uring_timeout.hpp. Ring, wheel
/// and clock must outlive them as these say. What fails returns a negative errno value.
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
///         handle_completions(&ring);      // first: who was heard in time is not silent
///         tvec_advance(&wheel, tvec_clock_now(&clock), 256);      // always, whatever woke us
///     }
///
/// The wake-up is only an alarm: what time it is comes from the clock. A wait may end early, and
/// says nothing about why it ended. All waits on one ring have one clock: that of the last that was
/// initialized for it. `ring`, wheel and clock must outlive it. Rings with SQPOLL are fine.
struct tvec_uring_wait {
    uint64_t library[4];  ///< the library's
};

/// Returns 0, or -EOPNOTSUPP if the kernel cannot take a deadline in a wait (before 5.11), or if
/// the ring is made with IORING_SETUP_IOPOLL, where waits ignore it.
TVEC_C_API int tvec_uring_wait_init(struct tvec_uring_wait* wait, struct io_uring* ring,
                                    struct tvec_wheel* wheel, const struct tvec_clock* clock);

/// Submits what is queued, and waits for one completion, at most until tvec_next_wakeup. Nothing in
/// the wheel: no limit. Timers left over by a budget: does not sleep, but still submits and reaps.
/// A timeout, a signal and a full completion queue end the wait and are no errors. Returns 0 or a
/// negative errno value.
TVEC_C_API int tvec_uring_submit_and_wait(struct tvec_uring_wait* wait);

/* --- by a request, where the wait is somebody else's ------------------------------------------ */

/// The top byte of the user data of every request that a tvec_uring_timeout makes, if no other is
/// wanted: the program's own must not have it. Addresses and small numbers do not.
#define TVEC_URING_TIMEOUT_TAG 0xA7

/// Keeps one IORING_OP_TIMEOUT in a ring, so that whatever waits for a completion wakes when a
/// wheel has something to do.
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
/// Several may share a ring and a tag; each claims its own completions. Its memory may end at any
/// time but between prepare and the submission; a completion that comes later is nobody's, see
/// tvec_is_uring_timeout, or detach first. It must be neither copied nor moved. Do not put it
/// behind IOSQE_IO_DRAIN requests, nor into a chain of linked ones.
struct tvec_uring_timeout {
    uint64_t library[12];  ///< the library's
};

/// Submits nothing yet. Returns 0, or -EOPNOTSUPP if the ring is made with IORING_SETUP_IOPOLL,
/// whose kernel refuses timeouts, or with IORING_SETUP_SQPOLL: there use tvec_uring_wait.
TVEC_C_API int tvec_uring_timeout_init(struct tvec_uring_timeout* alarm, struct io_uring* ring,
                                       struct tvec_wheel* wheel, const struct tvec_clock* clock,
                                       uint8_t tag);

/// Sees to it that a completion arrives at tvec_next_wakeup, or before. Work left over by a budget:
/// at once. Call it before every submission that may sleep. Queues one request at most, and none if
/// the alarm need not be earlier: then it is a comparison. If the submission queue is full, submits
/// it to make room. Returns 1; 0 if even that makes no room: then do not sleep, reap completions,
/// and call again; or a negative errno value if submitting fails.
TVEC_C_API int tvec_uring_timeout_prepare(struct tvec_uring_timeout* alarm);

/// Whether a completion, with that user data and result, is ours: 1, and it has been dealt with, or
/// 0, and nothing has changed. Runs no timers. A negative errno value: it was ours, and the kernel
/// has refused the timeout for a reason that will not pass (a restricted ring, say).
TVEC_C_API int tvec_uring_timeout_complete(struct tvec_uring_timeout* alarm, uint64_t user_data,
                                           int result);

/// Takes everything of ours out of the ring, and waits until it is out. Completions of others that
/// arrive before are handed to foreign(context, cqe), in their order, and consumed when it returns;
/// it may queue requests, but reap no completions. What is queued is submitted. `prepare` may be
/// called again later. Returns 0 or a negative errno value.
TVEC_C_API int tvec_uring_timeout_detach(struct tvec_uring_timeout* alarm,
                                         void (*foreign)(void* context,
                                                         const struct io_uring_cqe* cqe),
                                         void* context);

/// Whether a completion belongs to some tvec_uring_timeout with this tag, be it alive or gone.
TVEC_C_API bool tvec_is_uring_timeout(uint64_t user_data, uint8_t tag);

#ifdef __cplusplus
}
#endif

#endif
