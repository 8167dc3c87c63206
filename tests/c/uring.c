/* Waking a reactor on io_uring through the C interface, on real rings. */
#define _GNU_SOURCE /* liburing.h asks for it */

#include <errno.h>
#include <liburing.h>

#include "check.h"
#include "probe.h"
#include "tvec/tvec_uring.h"

TestSuite(c_uring, .timeout = 60);

static const int64_t ms = 1000000;

static struct io_uring ring;
static struct tvec_clock the_clock;
static struct tvec_wheel wheel;

static void begin(void) {
    CHECK(io_uring_queue_init(8, &ring, 0) == 0);
    CHECK(tvec_clock_init(&the_clock, TVEC_CLOCK_MONOTONIC, ms) == 0);
    tvec_wheel_init(&wheel, tvec_clock_now(&the_clock));
}

static void end(void) {
    tvec_wheel_destroy(&wheel);
    io_uring_queue_exit(&ring);
}

static void run(void) { tvec_advance(&wheel, tvec_clock_now(&the_clock), TVEC_UNLIMITED); }

static int64_t arm_in(struct probe* p, int64_t delay) {
    const int64_t deadline = tvec_clock_read(&the_clock) + delay;
    tvec_arm_at(&wheel, &p->timer, tvec_clock_ceil(&the_clock, deadline));
    return deadline;
}

static void queue_nop(uint64_t user_data) {
    struct io_uring_sqe* sqe = io_uring_get_sqe(&ring);
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, user_data);
}

Test(c_uring, a_wait_ends_for_timers_and_completions) {
    struct tvec_uring_wait wait;
    struct probe p = PROBE_INIT;
    struct io_uring_cqe* cqe;
    int64_t deadline;
    begin();
    CHECK(tvec_uring_wait_init(&wait, &ring, &wheel, &the_clock) == 0);
    queue_nop(1);
    CHECK(tvec_uring_submit_and_wait(&wait) == 0); /* no timer: no limit */
    CHECK(io_uring_peek_cqe(&ring, &cqe) == 0);
    io_uring_cqe_seen(&ring, cqe);
    deadline = arm_in(&p, 20 * ms);
    for (; p.fired == 0; run()) CHECK(tvec_uring_submit_and_wait(&wait) == 0);
    CHECK(tvec_clock_read(&the_clock) >= deadline);
    end();
}

Test(c_uring, the_loop_does_not_sleep_on_unfinished_work) {
    struct tvec_uring_wait wait;
    struct probe p[3] = {PROBE_INIT, PROBE_INIT, PROBE_INIT};
    begin();
    CHECK(tvec_uring_wait_init(&wait, &ring, &wheel, &the_clock) == 0);
    tvec_arm_after(&wheel, &p[0].timer, 100001);
    tvec_arm_after(&wheel, &p[1].timer, 100001);
    tvec_arm_after(&wheel, &p[2].timer, 100000000);
    tvec_advance(&wheel, tvec_now(&wheel) + 100000, TVEC_UNLIMITED); /* ahead of the clock */
    CHECK(!tvec_advance(&wheel, tvec_now(&wheel) + 1, 1).caught_up);
    CHECK(tvec_uring_submit_and_wait(&wait) == 0);
    end();
}

Test(c_uring, a_poll_submits_and_reaps_without_sleep) {
    struct tvec_uring_wait wait;
    struct probe p = PROBE_INIT;
    struct io_uring_cqe* cqe;
    begin();
    CHECK(tvec_uring_wait_init(&wait, &ring, &wheel, &the_clock) == 0);
    arm_in(&p, 1000000 * ms);
    CHECK(tvec_uring_submit_and_poll(&wait) == 0); /* a sleep would not end */
    queue_nop(1);
    CHECK(tvec_uring_submit_and_poll(&wait) == 0);
    CHECK(io_uring_peek_cqe(&ring, &cqe) == 0);
    CHECK_EQ(cqe->user_data, 1);
    end();
}

Test(c_uring, one_timeout_in_the_ring_wakes_whatever_waits) {
    struct tvec_uring_timeout alarm;
    struct probe soon = PROBE_INIT, later = PROBE_INIT;
    struct io_uring_cqe* cqe;
    int64_t deadline;
    begin();
    CHECK(tvec_uring_timeout_init(&alarm, &ring, &wheel, &the_clock, TVEC_URING_TIMEOUT_TAG) == 0);
    arm_in(&later, 1000000 * ms);
    CHECK(tvec_uring_timeout_prepare(&alarm) == 1);
    io_uring_submit(&ring);
    deadline = arm_in(&soon, 20 * ms); /* the timeout has to be moved */
    for (; soon.fired == 0; run()) {
        CHECK(tvec_uring_timeout_prepare(&alarm) == 1);
        CHECK(io_uring_submit_and_wait(&ring, 1) >= 0);
        while (io_uring_peek_cqe(&ring, &cqe) == 0) {
            CHECK(tvec_is_uring_timeout(cqe->user_data, TVEC_URING_TIMEOUT_TAG));
            CHECK(tvec_uring_timeout_complete(&alarm, cqe->user_data, cqe->res) == 1);
            io_uring_cqe_seen(&ring, cqe);
        }
    }
    CHECK(tvec_clock_read(&the_clock) >= deadline);
    CHECK(tvec_uring_timeout_prepare(&alarm) == 1); /* one for the later, as that has ended */
    CHECK(tvec_uring_timeout_prepare(&alarm) == 1); /* and one is enough */
    CHECK_EQ(io_uring_submit(&ring), 1);
    CHECK(tvec_uring_timeout_complete(&alarm, 7, 0) == 0);
    CHECK(!tvec_is_uring_timeout(7, TVEC_URING_TIMEOUT_TAG));
    end();
}

static void hand_over(void* context, const struct io_uring_cqe* cqe) {
    uint64_t* seen = context;
    *seen += cqe->user_data;
}

Test(c_uring, a_detached_alarm_leaves_nothing_in_the_ring) {
    struct tvec_uring_timeout alarm;
    struct probe p = PROBE_INIT;
    struct io_uring_cqe* cqe;
    uint64_t seen = 0;
    begin();
    CHECK(tvec_uring_timeout_init(&alarm, &ring, &wheel, &the_clock, TVEC_URING_TIMEOUT_TAG) == 0);
    arm_in(&p, 1000000 * ms);
    queue_nop(5);
    CHECK(tvec_uring_timeout_prepare(&alarm) == 1);
    CHECK(tvec_uring_timeout_detach(&alarm, hand_over, &seen) == 0);
    CHECK(io_uring_peek_cqe(&ring, &cqe) != 0);
    CHECK_EQ(seen, 5);
    CHECK(tvec_uring_timeout_prepare(&alarm) == 1);
    CHECK_EQ(io_uring_submit(&ring), 1);
    end();
}

Test(c_uring, rings_that_take_no_deadlines_are_refused) {
    struct tvec_uring_wait wait;
    struct tvec_uring_timeout alarm;
    begin();
    ring.flags |= IORING_SETUP_IOPOLL; /* few file systems have such rings */
    CHECK(tvec_uring_wait_init(&wait, &ring, &wheel, &the_clock) == -EOPNOTSUPP);
    CHECK(tvec_uring_timeout_init(&alarm, &ring, &wheel, &the_clock, 1) == -EOPNOTSUPP);
    ring.flags ^= IORING_SETUP_IOPOLL | IORING_SETUP_SQPOLL;
    CHECK(tvec_uring_wait_init(&wait, &ring, &wheel, &the_clock) == 0);
    CHECK(tvec_uring_timeout_init(&alarm, &ring, &wheel, &the_clock, 1) == -EOPNOTSUPP);
    ring.flags ^= IORING_SETUP_SQPOLL;
    end();
}

static uint64_t last_queued(void) {
    return ring.sq.sqes[(ring.sq.sqe_tail - 1) & ring.sq.ring_mask].user_data;
}

Test(c_uring, alarms_of_one_ring_know_their_completions) {
    struct tvec_uring_timeout one, other;
    struct probe p = PROBE_INIT;
    uint64_t of_one;
    begin();
    arm_in(&p, 1000000 * ms);
    CHECK(tvec_uring_timeout_init(&one, &ring, &wheel, &the_clock, 0x5A) == 0);
    CHECK(tvec_uring_timeout_init(&other, &ring, &wheel, &the_clock, 0x5A) == 0);
    CHECK(tvec_uring_timeout_prepare(&one) == 1);
    of_one = last_queued();
    CHECK(tvec_uring_timeout_prepare(&other) == 1);
    CHECK_EQ(io_uring_submit(&ring), 2);
    CHECK(tvec_is_uring_timeout(of_one, 0x5A));
    CHECK(!tvec_is_uring_timeout(of_one, TVEC_URING_TIMEOUT_TAG));
    CHECK(tvec_uring_timeout_complete(&other, of_one, -ETIME) == 0);
    CHECK(tvec_uring_timeout_complete(&one, of_one, -ETIME) == 1);
    end();
}

/* The library calls this one, as do the tests: the linker sees to it (--wrap). */
static int refusal = 0;
int __real_io_uring_submit(struct io_uring* r);
int __wrap_io_uring_submit(struct io_uring* r);
int __wrap_io_uring_submit(struct io_uring* r) {
    return refusal == 0 ? __real_io_uring_submit(r) : refusal;
}

Test(c_uring, a_timeout_without_room_is_set_later) {
    struct tvec_uring_timeout alarm;
    struct probe p = PROBE_INIT;
    begin();
    CHECK(tvec_uring_timeout_init(&alarm, &ring, &wheel, &the_clock, 1) == 0);
    CHECK(tvec_uring_timeout_prepare(&alarm) == 1); /* nothing to set */
    CHECK_EQ(io_uring_sq_ready(&ring), 0);
    arm_in(&p, 1000000 * ms);
    while (io_uring_sq_space_left(&ring) != 0) queue_nop(7);
    refusal = -EAGAIN;
    CHECK(tvec_uring_timeout_prepare(&alarm) == 0);
    refusal = 0;
    CHECK(tvec_uring_timeout_prepare(&alarm) == 1);
    CHECK_EQ(io_uring_sq_ready(&ring), 1); /* the others have been submitted */
    CHECK(tvec_is_uring_timeout(last_queued(), 1));
    end();
}

Test(c_uring, each_prepare_repeats_the_kernels_refusal) {
    struct tvec_uring_timeout alarm;
    struct probe p = PROBE_INIT;
    uint64_t timeout;
    begin();
    CHECK(tvec_uring_timeout_init(&alarm, &ring, &wheel, &the_clock, 1) == 0);
    arm_in(&p, 1000000 * ms);
    CHECK(tvec_uring_timeout_prepare(&alarm) == 1);
    timeout = last_queued();
    CHECK_EQ(io_uring_submit(&ring), 1);
    CHECK(tvec_uring_timeout_complete(&alarm, timeout, -EACCES) == -EACCES);
    CHECK(tvec_uring_timeout_prepare(&alarm) == -EACCES);
    CHECK(tvec_uring_timeout_prepare(&alarm) == -EACCES);
    CHECK_EQ(io_uring_sq_ready(&ring), 0);
    end();
}

Test(c_uring, one_struct_keeps_deadlines_on_io_uring) {
    static struct tvec_loop loop;
    struct probe p = PROBE_INIT;
    struct io_uring_cqe* cqe;
    int64_t deadline;
    begin();
    CHECK(tvec_loop_uring_init(&loop, &ring, TVEC_CLOCK_MONOTONIC, 0) == -EINVAL);
    ring.flags |= IORING_SETUP_IOPOLL;
    CHECK(tvec_loop_uring_init(&loop, &ring, TVEC_CLOCK_MONOTONIC, ms) == -EOPNOTSUPP);
    ring.flags ^= IORING_SETUP_IOPOLL;
    CHECK(tvec_loop_uring_init(&loop, &ring, TVEC_CLOCK_MONOTONIC, ms) == 0);
    queue_nop(1);
    CHECK(tvec_loop_uring_wait(&loop) == 0); /* no timer: no limit */
    CHECK(io_uring_peek_cqe(&ring, &cqe) == 0);
    io_uring_cqe_seen(&ring, cqe);
    tvec_loop_run(&loop, 1, 256);
    deadline = tvec_clock_read(&loop.clock) + 20 * ms;
    tvec_loop_arm_after(&loop, &p.timer, 20 * ms);
    while (p.fired == 0) {
        CHECK(tvec_loop_uring_wait(&loop) == 0);
        tvec_loop_run(&loop, 0, 256);
    }
    CHECK(tvec_clock_read(&loop.clock) >= deadline);
    tvec_loop_destroy(&loop);
    end();
}

Test(c_uring, detaching_makes_room_for_the_removal) {
    struct tvec_uring_timeout alarm;
    struct probe p = PROBE_INIT;
    uint64_t seen = 0;
    begin();
    CHECK(tvec_uring_timeout_init(&alarm, &ring, &wheel, &the_clock, 1) == 0);
    arm_in(&p, 1000000 * ms);
    CHECK(tvec_uring_timeout_prepare(&alarm) == 1);
    while (io_uring_sq_space_left(&ring) != 0) queue_nop(7);
    refusal = -ENOMEM;
    CHECK(tvec_uring_timeout_detach(&alarm, hand_over, &seen) == -ENOMEM);
    refusal = -EAGAIN; /* the wait for a completion submits them */
    CHECK(tvec_uring_timeout_detach(&alarm, hand_over, &seen) == 0);
    refusal = 0;
    CHECK_EQ(seen, 49); /* seven of them */
    end();
}

Test(c_uring, a_move_refused_while_detaching_is_an_error) {
    const uint64_t kind_move = (uint64_t)1 << 54;
    struct tvec_uring_timeout alarm;
    struct probe p = PROBE_INIT;
    struct io_uring_sqe* sqe;
    uint64_t timeout, seen = 0;
    begin();
    CHECK(tvec_uring_timeout_init(&alarm, &ring, &wheel, &the_clock, 1) == 0);
    arm_in(&p, 1000000 * ms);
    CHECK(tvec_uring_timeout_prepare(&alarm) == 1);
    timeout = last_queued();
    sqe = io_uring_get_sqe(&ring);
    io_uring_prep_close(sqe, -1); /* fails, under the name of a move */
    io_uring_sqe_set_data64(sqe, timeout | kind_move);
    CHECK(tvec_uring_timeout_detach(&alarm, hand_over, &seen) == -EBADF);
    CHECK_EQ(seen, 0);
    end();
}

static void set_descriptor(int fd) { ring.ring_fd = ring.enter_ring_fd = fd; }

Test(c_uring, refusals_of_the_kernel_are_errors) {
    struct tvec_uring_wait wait;
    struct tvec_uring_timeout alarm;
    struct probe p = PROBE_INIT;
    uint64_t seen = 0;
    int fd;
    begin();
    fd = ring.ring_fd;
    CHECK(tvec_uring_wait_init(&wait, &ring, &wheel, &the_clock) == 0);
    CHECK(tvec_uring_timeout_init(&alarm, &ring, &wheel, &the_clock, 1) == 0);
    arm_in(&p, 1000000 * ms);
    set_descriptor(-1);
    CHECK(tvec_uring_submit_and_wait(&wait) == -EBADF);
    while (io_uring_sq_space_left(&ring) != 0) queue_nop(7);
    CHECK(tvec_uring_timeout_prepare(&alarm) == -EBADF);
    set_descriptor(fd);
    CHECK(tvec_uring_timeout_prepare(&alarm) == 1); /* it has not been set */
    CHECK(tvec_uring_timeout_complete(&alarm, last_queued(), -EACCES) == -EACCES);
    set_descriptor(-1);
    CHECK(tvec_uring_timeout_detach(&alarm, hand_over, &seen) == -EBADF);
    set_descriptor(fd);
    end();
}
