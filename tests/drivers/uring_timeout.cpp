// One timeout request for all timers, in a ring with another owner's wait. Requests and completions
// are judged exactly. Lateness is not judged.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <thread>
#include <vector>

#include "support/appointment.hpp"
#include "support/check.hpp"
#include "support/ring.hpp"
#include "tvec/drivers/uring_timeout.hpp"
#include "tvec/mailbox/mailbox.hpp"

using namespace std::chrono_literals;
using wheel = tvec::clocked_wheel<>;
using alarm_of_wheel = tvec::uring_timeout<wheel>;
using std::chrono::steady_clock;
using support::appointment;
using support::ring;

TestSuite(uring_timeout, .timeout = 60);

namespace {

unsigned queued(ring& r) { return io_uring_sq_ready(&r.get()); }

const io_uring_sqe& last_queued(ring& r) {
    const io_uring_sq& sq = r.get().sq;
    return sq.sqes[(sq.sqe_tail - 1) & sq.ring_mask];
}

// Returns how many completions were not the alarm's.
template <class Alarm> unsigned reap(ring& r, Alarm& alarm) {
    unsigned foreign = 0;
    r.reap([&](const io_uring_cqe& cqe) { foreign += !alarm.complete(cqe); });
    return foreign;
}

template <class Wheel, class Alarm> unsigned turn(ring& r, Wheel& timers, Alarm& alarm) {
    REQUIRE(alarm.prepare());
    io_uring_submit_and_wait(&r.get(), 1);
    const unsigned foreign = reap(r, alarm);
    timers.run();
    return foreign;
}

using manual_ticks = tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>;
using manual_wheel = tvec::clocked_wheel<manual_ticks>;

// Makes the alarm go off behind its back, by a change that it takes for its own, and moves it then.
template <class Alarm>
void set_off_and_move_too_late(ring& r, manual_wheel& timers, Alarm& alarm, tvec::timer& far,
                               tvec::timer& near) {
    constexpr std::uint64_t kind_move = std::uint64_t{1} << 54;
    timers.arm_after(far, 1h);
    REQUIRE(alarm.prepare());
    const std::uint64_t timeout = last_queued(r).user_data;
    __kernel_timespec at_once{0, 1};
    io_uring_sqe* const sqe = io_uring_get_sqe(&r.get());
    io_uring_prep_timeout_update(sqe, &at_once, timeout, 0);
    io_uring_sqe_set_data64(sqe, timeout | kind_move);
    io_uring_submit(&r.get());
    usleep(4'000);
    timers.arm_after(near, 1ms);
    REQUIRE(alarm.prepare());
    REQUIRE_EQ(last_queued(r).timeout_flags, IORING_TIMEOUT_UPDATE);
    io_uring_submit(&r.get());
}

// Lets time pass until what has been submitted has completed.
void let_complete(ring& r, std::chrono::milliseconds delay) {
    usleep(static_cast<useconds_t>(delay / 1us));
    io_uring_get_events(&r.get());
}

// liburing 2.3 declares functions for this and does not export them.
long set_up(ring& r, unsigned operation, void* what, unsigned n) {
    return syscall(__NR_io_uring_register, r.get().ring_fd, operation, what, n);
}

}  // namespace

// --- queued requests ----------------------------------------------------------------------------

Test(uring_timeout, a_single_absolute_timeout_ignores_other_completions) {
    ring r;
    wheel timers;
    alarm_of_wheel alarm{r.get(), timers};
    appointment a, b;
    a.arm(timers, 20ms);
    b.arm(timers, 30ms);
    REQUIRE(alarm.prepare());
    REQUIRE_EQ(queued(r), 1);
    const io_uring_sqe& sqe = last_queued(r);
    CHECK_EQ(sqe.opcode, IORING_OP_TIMEOUT);
    CHECK_EQ(sqe.timeout_flags, IORING_TIMEOUT_ABS);  // no clock flag: CLOCK_MONOTONIC
    CHECK_EQ(sqe.off, 0);
    CHECK(tvec::is_uring_timeout(sqe.user_data));
    CHECK_EQ(sqe.user_data >> 56, 0xA7);
    for (int i = 0; i < 5; ++i) r.queue_nop();
    io_uring_submit_and_wait(&r.get(), 5);
    CHECK_EQ(reap(r, alarm), 5);
    // The queue first: a pause between the two must not look like an early completion.
    CHECK(io_uring_cq_ready(&r.get()) == 0 || steady_clock::now() > a.deadline);
    while (!b.fired) turn(r, timers, alarm);
    CHECK(a.kept() && b.kept());
}

Test(uring_timeout, only_an_earlier_deadline_moves_the_timeout) {
    ring r;
    wheel timers;
    alarm_of_wheel alarm{r.get(), timers};
    appointment a, b;
    CHECK(alarm.prepare());
    CHECK_EQ(queued(r), 0);
    a.arm(timers, 1h);
    CHECK(alarm.prepare());
    CHECK(alarm.prepare());
    CHECK_EQ(queued(r), 1);
    io_uring_submit(&r.get());
    a.arm(timers, 2h);
    CHECK(alarm.prepare());
    CHECK_EQ(queued(r), 0);
    b.arm(timers, 20ms);
    CHECK(alarm.prepare());
    CHECK_EQ(queued(r), 1);
    CHECK_EQ(last_queued(r).opcode, IORING_OP_TIMEOUT_REMOVE);
    CHECK_EQ(last_queued(r).timeout_flags, IORING_TIMEOUT_UPDATE | IORING_TIMEOUT_ABS);
    b.t.cancel();
    CHECK(alarm.prepare());
    CHECK_EQ(queued(r), 1);
    io_uring_submit_and_wait(&r.get(), 1);
    CHECK_EQ(reap(r, alarm), 0);
    CHECK(steady_clock::now() >= b.deadline);
}

// Eight threads send, before the alarm is made and after.
Test(uring_timeout, timers_of_many_threads_are_one_request) {
    ring r;
    wheel timers;
    tvec::mailbox<wheel> mailbox(timers, 1200, [] {});
    const auto send_from_all = [&](std::chrono::seconds delay) {
        std::vector<std::thread> senders;
        for (int i = 0; i < 8; ++i)
            senders.emplace_back([&, i, s = mailbox.sender()] {
                for (int k = 0; k < 50; ++k) CHECK(s.schedule(delay + i * 1s, [] {}));
            });
        for (std::thread& t : senders) t.join();
        mailbox.run();
    };
    send_from_all(100s);
    alarm_of_wheel alarm{r.get(), timers};
    REQUIRE(alarm.prepare());
    CHECK_EQ(queued(r), 1);
    CHECK_EQ(last_queued(r).opcode, IORING_OP_TIMEOUT);
    io_uring_submit(&r.get());
    send_from_all(50s);  // the earliest of them moves the request
    REQUIRE(alarm.prepare());
    CHECK_EQ(queued(r), 1);
    CHECK_EQ(last_queued(r).timeout_flags & IORING_TIMEOUT_UPDATE, IORING_TIMEOUT_UPDATE);
    io_uring_submit(&r.get());
    send_from_all(200s);
    REQUIRE(alarm.prepare());
    CHECK_EQ(queued(r), 0);
    CHECK_EQ(mailbox.stop(), 1200);
}

Test(uring_timeout, an_unsubmitted_timeout_may_be_moved) {
    ring r;
    wheel timers;
    alarm_of_wheel alarm{r.get(), timers};
    appointment far, nearer, near;
    far.arm(timers, 3h);
    CHECK(alarm.prepare());
    nearer.arm(timers, 2h);
    CHECK(alarm.prepare());
    near.arm(timers, 10ms);
    CHECK(alarm.prepare());
    CHECK_EQ(queued(r), 3);
    while (!near.fired) turn(r, timers, alarm);
    CHECK(near.kept());
}

Test(uring_timeout, an_empty_wheel_queues_no_timeout) {
    ring r;
    wheel timers;
    alarm_of_wheel alarm{r.get(), timers};
    tvec::timer never;
    timers.wheel().arm_at(never, tvec::never);
    CHECK(alarm.prepare());
    CHECK_EQ(queued(r), 0);
}

Test(uring_timeout, a_move_posts_no_completion_where_avoidable) {
    for (const bool skips : {true, false}) {
        ring r;
        if (!(r.get().features & IORING_FEAT_CQE_SKIP)) cr_skip("no IORING_FEAT_CQE_SKIP here");
        if (!skips) r.get().features &= ~unsigned{IORING_FEAT_CQE_SKIP};
        wheel timers;
        alarm_of_wheel alarm{r.get(), timers};
        appointment far, near;
        far.arm(timers, 2h);
        REQUIRE(alarm.prepare());
        io_uring_submit(&r.get());
        near.arm(timers, 1h);
        REQUIRE(alarm.prepare());
        io_uring_submit(&r.get());
        CHECK_EQ(io_uring_cq_ready(&r.get()), skips ? 0 : 1);
        CHECK_EQ(reap(r, alarm), 0);
    }
}

// --- results ------------------------------------------------------------------------------------

Test(uring_timeout, a_kernel_that_cannot_move_it_is_refused) {
    ring r;
    wheel timers;
    io_uring old = r.get();
    old.features &= ~unsigned{IORING_FEAT_EXT_ARG};
    const std::string why = support::refusal([&] { alarm_of_wheel(old, timers); });
    CHECK(support::says(why, "timerfd_alarm"));
}

Test(uring_timeout, every_temporary_failure_queues_a_new_timeout) {
    ring r;
    wheel timers;
    alarm_of_wheel alarm{r.get(), timers};
    appointment a;
    a.arm(timers, 1h);
    for (const int result : {-ETIME, 0, -ECANCELED, -EAGAIN, -EBUSY, -ENOMEM, -EINTR}) {
        REQUIRE(alarm.prepare());
        REQUIRE_EQ(last_queued(r).opcode, IORING_OP_TIMEOUT);
        const std::uint64_t ours = last_queued(r).user_data;
        io_uring_submit(&r.get());
        CHECK(alarm.complete(ours, result));
        CHECK(alarm.complete(ours, result));  // given twice
        REQUIRE(alarm.prepare());
        CHECK_EQ(queued(r), 1);
        CHECK_NE(last_queued(r).user_data, ours);
        CHECK(alarm.complete(ours, -ECANCELED));  // a stale one changes nothing
        CHECK(alarm.prepare());
        CHECK_EQ(queued(r), 1);
        CHECK(alarm.complete(last_queued(r).user_data, -ETIME));
        io_uring_submit(&r.get());
    }
}

Test(uring_timeout, a_permanent_refusal_is_thrown) {
    ring r(8, IORING_SETUP_R_DISABLED);
    io_uring_restriction only_nops{};
    only_nops.opcode = IORING_RESTRICTION_SQE_OP;
    only_nops.sqe_op = IORING_OP_NOP;
    REQUIRE_EQ(set_up(r, IORING_REGISTER_RESTRICTIONS, &only_nops, 1), 0);
    REQUIRE_EQ(set_up(r, IORING_REGISTER_ENABLE_RINGS, nullptr, 0), 0);
    wheel timers;
    alarm_of_wheel alarm{r.get(), timers};
    appointment a;
    a.arm(timers, 10ms);
    const std::string why = support::refusal([&] { turn(r, timers, alarm); });
    CHECK(support::says(why, "IORING_OP_TIMEOUT"));
    CHECK(support::says(why, "Permission denied"));
}

// A filter of the process (Linux 7.0), or a restricted ring. A loop that goes on all the same must
// not spin on requests that are refused at once, nor sleep for ever without an alarm.
Test(uring_timeout, each_prepare_throws_after_a_refusal) {
    for (const int error : {EACCES, EPERM, EINVAL}) {
        ring r;
        wheel timers;
        alarm_of_wheel alarm{r.get(), timers};
        appointment a;
        a.arm(timers, 1h);
        REQUIRE(alarm.prepare());
        const std::uint64_t timeout = last_queued(r).user_data;
        io_uring_submit(&r.get());
        const std::string why = support::refusal([&] { alarm.complete(timeout, -error); });
        CHECK(support::says(why, "IORING_OP_TIMEOUT"));
        for (int i = 0; i < 3; ++i) {
            CHECK(support::says(support::refusal([&] { (void)alarm.prepare(); }), "timerfd_alarm"));
            CHECK_EQ(queued(r), 0);
        }
    }
}

Test(uring_timeout, a_refused_move_is_thrown_as_well) {
    ring r;
    wheel timers;
    alarm_of_wheel alarm{r.get(), timers};
    appointment far, near;
    far.arm(timers, 2h);
    REQUIRE(alarm.prepare());
    io_uring_submit(&r.get());
    near.arm(timers, 1h);
    REQUIRE(alarm.prepare());
    const std::uint64_t move = last_queued(r).user_data;
    io_uring_submit(&r.get());
    const std::string why = support::refusal([&] { alarm.complete(move, -EACCES); });
    CHECK(support::says(why, "IORING_OP_TIMEOUT_REMOVE"));
    CHECK(support::says(support::refusal([&] { (void)alarm.prepare(); }), "timerfd_alarm"));
    CHECK_EQ(queued(r), 0);
}

Test(uring_timeout, an_alarm_moved_while_expiring_loses_nothing) {
    for (const unsigned flags : {0u, support::deferred}) {
        if (!support::ring_exists(flags)) continue;
        ring r(8, flags);
        manual_wheel timers;
        tvec::uring_timeout alarm{r.get(), timers};
        tvec::timer far, near;
        set_off_and_move_too_late(r, timers, alarm, far, near);
        const auto before = steady_clock::now();
        while (alarm.prepare() && queued(r) == 0) {  // both completions, in either order
            io_uring_submit_and_wait(&r.get(), 1);
            CHECK_EQ(reap(r, alarm), 0);
        }
        CHECK_EQ(last_queued(r).opcode, IORING_OP_TIMEOUT);
        CHECK_EQ(turn(r, timers, alarm), 0);
        CHECK(steady_clock::now() - before >= 1ms);
    }
}

Test(uring_timeout, a_move_too_late_arms_exactly_once) {
    ring r;
    wheel timers;
    alarm_of_wheel alarm{r.get(), timers};
    appointment a, b;
    a.arm(timers, 1h);
    REQUIRE(alarm.prepare());
    const std::uint64_t timeout = last_queued(r).user_data;
    io_uring_submit(&r.get());
    b.arm(timers, 10ms);
    REQUIRE(alarm.prepare());
    const std::uint64_t move = last_queued(r).user_data;
    CHECK_NE(move, timeout);
    for (const int too_late : {-ENOENT, -EALREADY}) {
        CHECK(alarm.complete(move, too_late));
        CHECK(alarm.prepare());
        CHECK_EQ(queued(r), 1);  // its own completion is still to come
    }
    CHECK(alarm.complete(timeout, -ETIME));
    CHECK(alarm.prepare());
    CHECK_EQ(queued(r), 2);
    CHECK_EQ(last_queued(r).opcode, IORING_OP_TIMEOUT);
}

// --- narrow rings -------------------------------------------------------------------------------

Test(uring_timeout, a_full_queue_is_submitted_to_make_room) {
    ring r(4);
    wheel timers;
    alarm_of_wheel alarm{r.get(), timers};
    appointment a;
    for (int i = 0; i < 50; ++i) {
        a.arm(timers, 5ms);
        for (int k = 0; k < 4; ++k) r.queue_nop();
        unsigned foreign = 0;
        while (!a.fired) foreign += turn(r, timers, alarm);
        CHECK(a.kept());
        CHECK_EQ(foreign, 4);
    }
}

Test(uring_timeout, prepare_throws_while_the_queue_stays_full) {
    ring r(4);
    wheel timers;
    alarm_of_wheel alarm{r.get(), timers};
    appointment a;
    a.arm(timers, 5ms);
    for (int k = 0; k < 4; ++k) r.queue_nop();
    const int fd = r.get().enter_ring_fd;
    r.get().enter_ring_fd = -1;
    const std::string why = support::refusal([&] { (void)alarm.prepare(); });
    r.get().enter_ring_fd = fd;
    CHECK(support::says(why, "io_uring_submit"));
    io_uring_submit(&r.get());
    while (!a.fired) turn(r, timers, alarm);
    CHECK(a.kept());
}

// --- a loop that never blocks --------------------------------------------------------------------

namespace {

// Counts what a loop has submitted, by looking at its queue, and what has completed.
struct traffic {
    void look_at_queue(ring& r) {
        const io_uring_sq& sq = r.get().sq;
        for (unsigned at = sq.sqe_head; at != sq.sqe_tail; ++at)
            started += sq.sqes[at & sq.ring_mask].opcode == IORING_OP_TIMEOUT;
    }
    unsigned started = 0, ended = 0, most = 0;
};

// Never enters the kernel but to submit. Its completions come by task work, or not before it waits.
void never_block(ring& r, wheel& timers, alarm_of_wheel& alarm, traffic& t, int periods) {
    appointment once;
    once.arm(timers, 50ms);
    tvec::timer pushed_back;
    int beats = 0;
    tvec::callback_timer beat([&](auto&, tvec::timer& b) {
        ++beats;
        timers.arm_next(b, 3ms);
    });
    timers.arm_after(beat, 3ms);
    while (!once.fired || beats < periods) {
        timers.arm_after(pushed_back, 10ms);
        CHECK(alarm.prepare());
        t.look_at_queue(r);
        io_uring_submit(&r.get());
        r.reap([&](const io_uring_cqe& cqe) {
            t.ended += cqe.res == -ETIME;
            CHECK(alarm.complete(cqe));
        });
        t.most = std::max(t.most, t.started - t.ended);
        timers.run(256);
    }
    CHECK(once.kept());
}

}  // namespace

Test(uring_timeout, a_polling_loop_has_one_timeout_in_flight) {
    for (const unsigned flags : {0u, support::deferred, unsigned{IORING_SETUP_COOP_TASKRUN}}) {
        if (!support::ring_exists(flags)) continue;
        ring r(8, flags);
        wheel timers;
        alarm_of_wheel alarm{r.get(), timers};
        traffic t;
        never_block(r, timers, alarm, t, 100);
        CHECK_EQ(t.most, 1);
        CHECK_EQ(*r.get().cq.koverflow, 0);
        appointment last;  // and it may block after all: at most one alarm is stale
        last.arm(timers, 50ms);
        int turns = 0;
        for (; !last.fired; ++turns) turn(r, timers, alarm);
        CHECK(last.kept());
        CHECK_LE(turns, 3);
    }
}

// --- more than one alarm, and other clocks ------------------------------------------------------

Test(uring_timeout, alarms_sharing_ring_and_tag_claim_their_own) {
    ring r;
    wheel first, second;
    alarm_of_wheel one{r.get(), first}, two{r.get(), second};
    appointment a, b;
    a.arm(first, 20ms);
    b.arm(second, 10ms);
    while (!a.fired || !b.fired) {
        REQUIRE(one.prepare());
        REQUIRE(two.prepare());
        io_uring_submit_and_wait(&r.get(), 1);
        r.reap([&](const io_uring_cqe& cqe) {
            const bool ones = one.complete(cqe), twos = two.complete(cqe);
            CHECK(ones != twos);
        });
        first.run();
        second.run();
    }
    CHECK(a.kept() && b.kept());
}

Test(uring_timeout, the_tag_can_be_chosen) {
    ring r;
    wheel timers;
    alarm_of_wheel alarm{r.get(), timers, 0x42};
    appointment a;
    a.arm(timers, 1h);
    REQUIRE(alarm.prepare());
    CHECK(tvec::is_uring_timeout(last_queued(r).user_data, 0x42));
    CHECK(!tvec::is_uring_timeout(last_queued(r).user_data));
}

Test(uring_timeout, foreign_user_data_is_never_taken_for_alarms) {
    ring r;
    wheel timers;
    alarm_of_wheel alarm{r.get(), timers};
    const auto heap = std::make_unique<int>();
    const std::uint64_t addresses[] = {reinterpret_cast<std::uint64_t>(heap.get()),
                                       reinterpret_cast<std::uint64_t>(&r),
                                       0,
                                       1,
                                       4096,
                                       LIBURING_UDATA_TIMEOUT};
    for (const std::uint64_t data : addresses) {
        CHECK(!tvec::is_uring_timeout(data));
        CHECK(!alarm.complete(data, -ETIME));
    }
}

namespace {

template <class Clock> void drives_a_wheel(unsigned flag) {
    using ticks = tvec::tick_clock<std::chrono::milliseconds, Clock>;
    for (const bool known : {true, false}) {  // the flag came with Linux 5.15
        ring r;
        tvec::clocked_wheel<ticks> timers;
        tvec::uring_timeout alarm{r.get(), timers};
        tvec::timer t;
        const auto deadline = Clock::now() + 20ms;
        timers.arm_at(t, deadline);
        REQUIRE(alarm.prepare());
        CHECK_EQ(last_queued(r).timeout_flags, IORING_TIMEOUT_ABS | flag);
        if (!known) {
            CHECK(alarm.complete(last_queued(r).user_data, -EINVAL));
            REQUIRE(alarm.prepare());
            CHECK_EQ(last_queued(r).timeout_flags, 0);
        }
        while (t.pending()) turn(r, timers, alarm);
        CHECK(Clock::now() >= deadline);
    }
}

}  // namespace

Test(uring_timeout, boot_time_drives_a_wheel_too) {
    drives_a_wheel<tvec::boottime_clock>(IORING_TIMEOUT_BOOTTIME);
}

Test(uring_timeout, the_time_of_day_may_drive_a_wheel) {
    drives_a_wheel<std::chrono::system_clock>(IORING_TIMEOUT_REALTIME);
}

Test(uring_timeout, clocks_unknown_to_the_kernel_count_real_time) {
    ring r;
    manual_wheel timers;
    tvec::uring_timeout alarm{r.get(), timers};
    tvec::timer t;
    timers.arm_after(t, 30ms);
    const auto before = steady_clock::now();
    turn(r, timers, alarm);
    CHECK(steady_clock::now() - before >= 30ms);
    CHECK(t.pending());
    tvec::manual_clock::advance(30ms);
    timers.run();
    CHECK(!t.pending());
}

// --- detaching, and what outlives what ----------------------------------------------------------

Test(uring_timeout, detaching_hands_over_foreign_completions_in_order) {
    ring r(4);
    wheel timers;
    alarm_of_wheel alarm{r.get(), timers};
    appointment a;
    std::vector<std::uint64_t> seen;
    const auto note = [&](const io_uring_cqe& cqe) { seen.push_back(cqe.user_data); };

    alarm.detach(note);  // never armed: nothing to do
    CHECK_EQ(queued(r), 0);

    a.arm(timers, 1h);
    r.queue_nop(1);
    REQUIRE(alarm.prepare());  // not submitted yet
    r.queue_nop(2);
    alarm.detach(note);
    CHECK(seen == (std::vector<std::uint64_t>{1, 2}));
    CHECK_EQ(io_uring_cq_ready(&r.get()), 0);

    alarm.detach(note);
    CHECK_EQ(seen.size(), 2);

    a.arm(timers, 10ms);  // and on again
    while (!a.fired) turn(r, timers, alarm);
    CHECK(a.kept());
}

Test(uring_timeout, detaching_with_the_completion_already_queued_consumes_it) {
    for (const unsigned flags : {0u, support::deferred}) {
        if (!support::ring_exists(flags)) continue;
        ring r(8, flags);
        wheel timers;
        alarm_of_wheel alarm{r.get(), timers};
        appointment a;
        a.arm(timers, 1ms);
        r.queue_nop(7);
        REQUIRE(alarm.prepare());
        io_uring_submit(&r.get());
        let_complete(r, 5ms);
        unsigned foreign = 0;
        alarm.detach([&](const io_uring_cqe& cqe) { foreign += cqe.user_data == 7; });
        CHECK_EQ(foreign, 1);
        let_complete(r, 5ms);
        CHECK_EQ(io_uring_cq_ready(&r.get()), 0);
    }
}

Test(uring_timeout, detaching_leaves_no_failed_move_behind) {
    for (const unsigned flags : {0u, support::deferred}) {
        if (!support::ring_exists(flags)) continue;
        ring r(8, flags);
        manual_wheel timers;
        tvec::uring_timeout alarm{r.get(), timers};
        tvec::timer far, near;
        set_off_and_move_too_late(r, timers, alarm, far, near);
        unsigned foreign = 0;
        alarm.detach([&](const io_uring_cqe&) { ++foreign; });
        CHECK_EQ(foreign, 0);
        let_complete(r, 5ms);
        CHECK_EQ(io_uring_cq_ready(&r.get()), 0);
    }
}

Test(uring_timeout, a_handler_that_throws_while_detaching_loses_nothing) {
    ring r;
    wheel timers;
    alarm_of_wheel alarm{r.get(), timers};
    appointment a;
    a.arm(timers, 1h);
    r.queue_nop(1);
    r.queue_nop(2);
    REQUIRE(alarm.prepare());
    std::vector<std::uint64_t> seen;
    const auto note = [&](const io_uring_cqe& cqe) {
        seen.push_back(cqe.user_data);
        if (cqe.user_data == 1) throw std::system_error();
    };
    support::refusal([&] { alarm.detach(note); });
    alarm.detach(note);
    CHECK(seen == (std::vector<std::uint64_t>{1, 2}));
    CHECK_EQ(io_uring_cq_ready(&r.get()), 0);
}

Test(uring_timeout, orphaned_completions_are_ignored_by_later_alarms) {
    ring r(16);
    wheel timers;
    std::mt19937 random(7);
    unsigned orphans = 0;
    for (int i = 0; i < 2'000; ++i) {
        auto alarm = std::make_unique<alarm_of_wheel>(r.get(), timers);
        appointment a, b;
        a.arm(timers, std::chrono::milliseconds(random() % 3));
        REQUIRE(alarm->prepare());
        if (random() % 2 != 0) b.arm(timers, 0ms);
        REQUIRE(alarm->prepare());
        io_uring_submit(&r.get());
        if (random() % 8 == 0) io_uring_submit_and_wait(&r.get(), 1);
        if (random() % 4 == 0) alarm->detach([&](const io_uring_cqe&) { ++orphans; });
        if (random() % 2 == 0) alarm.reset();
        r.reap([&](const io_uring_cqe& cqe) {
            CHECK(tvec::is_uring_timeout(cqe.user_data));
            orphans += !(alarm && alarm->complete(cqe));
        });
    }
    CHECK_GE(orphans, 100);
}

Test(uring_timeout, ring_wheel_and_alarm_go_in_any_order) {
    for (int first = 0; first < 3; ++first)
        for (int second = 0; second < 3; ++second) {
            auto r = std::make_unique<ring>();
            auto timers = std::make_unique<wheel>();
            auto alarm = std::make_unique<alarm_of_wheel>(r->get(), *timers);
            appointment a;
            a.arm(*timers, 1ms);
            REQUIRE(alarm->prepare());
            io_uring_submit(&r->get());
            for (const int which : {first, second}) {
                if (which == 0) r.reset();
                if (which == 1) timers.reset();
                if (which == 2) alarm.reset();
                if (r && alarm) let_complete(*r, 2ms);
            }
            if (r && alarm) CHECK_EQ(reap(*r, *alarm), 0);
        }
}

// --- times in requests (Linux 7.1) --------------------------------------------------------------

namespace {

constexpr unsigned time_in_request = 1u << 7;  // IORING_TIMEOUT_IMMEDIATE_ARG

// Writes the times of queued requests to where an older kernel reads them, and returns them.
std::vector<std::chrono::nanoseconds> point_to_times(ring& r,
                                                     std::array<__kernel_timespec, 4>& times) {
    const io_uring_sq& sq = r.get().sq;
    std::vector<std::chrono::nanoseconds> read;
    for (unsigned at = sq.sqe_head; at != sq.sqe_tail; ++at) {
        io_uring_sqe& sqe = sq.sqes[at & sq.ring_mask];
        if (!(sqe.timeout_flags & time_in_request)) continue;
        auto& ns = sqe.opcode == IORING_OP_TIMEOUT ? sqe.addr : sqe.addr2;
        __kernel_timespec& time = times.at(read.size());
        time = {static_cast<long long>(ns / 1'000'000'000),
                static_cast<long long>(ns % 1'000'000'000)};
        read.emplace_back(ns);
        ns = reinterpret_cast<std::uintptr_t>(&time);
        sqe.timeout_flags &= ~time_in_request;
    }
    return read;
}

// Waits for the timeout. Returns its time less that of its completion: not positive.
std::chrono::nanoseconds earliness_of(ring& r, tvec::detail::ring_alarm* alarm,
                                      std::chrono::nanoseconds time) {
    io_uring_submit_and_wait(&r.get(), 1);
    const auto now = steady_clock::now().time_since_epoch();
    unsigned timeouts = 0;
    r.reap([&](const io_uring_cqe& cqe) {
        timeouts += cqe.res == -ETIME;
        if (alarm) CHECK(alarm->complete(cqe.user_data, cqe.res).yes);
    });
    CHECK_EQ(timeouts, 1);
    return time - now;
}

}  // namespace

Test(uring_timeout, a_request_with_its_time_outlives_its_alarm) {
    ring r;
    std::array<__kernel_timespec, 4> times{};
    const std::chrono::nanoseconds time = steady_clock::now().time_since_epoch() + 3ms;
    {
        tvec::detail::ring_alarm alarm(r.get(), {CLOCK_MONOTONIC, true}, 1, true);
        if (!alarm.absolute()) cr_skip("the times of this time namespace are shifted");
        REQUIRE(alarm.set(time).yes);
    }
    CHECK_EQ(last_queued(r).timeout_flags, IORING_TIMEOUT_ABS | time_in_request);
    CHECK(point_to_times(r, times) == std::vector{time});
    CHECK(earliness_of(r, nullptr, time) <= 0ns);
}

Test(uring_timeout, a_request_with_its_time_is_moved) {
    ring r;
    std::array<__kernel_timespec, 4> times{};
    for (const bool is_submitted : {true, false}) {
        tvec::detail::ring_alarm alarm(r.get(), {CLOCK_MONOTONIC, true}, 1, true);
        if (!alarm.absolute()) cr_skip("the times of this time namespace are shifted");
        const std::chrono::nanoseconds time = steady_clock::now().time_since_epoch() + 3ms;
        REQUIRE(alarm.set(time + 1h).yes);
        if (is_submitted) {
            CHECK(point_to_times(r, times) == std::vector{time + 1h});
            io_uring_submit(&r.get());
        }
        REQUIRE(alarm.set(time).yes);
        CHECK_EQ(last_queued(r).timeout_flags,
                 IORING_TIMEOUT_UPDATE | IORING_TIMEOUT_ABS | time_in_request);
        CHECK(point_to_times(r, times).back() == time);
        CHECK(earliness_of(r, &alarm, time) <= 0ns);
        CHECK(!alarm.is_set());
    }
}

Test(uring_timeout, requests_carry_their_time_where_possible) {
    ring r;
    wheel timers;
    alarm_of_wheel alarm(r.get(), timers);
    appointment a;
    a.arm(timers, 1ms);
    REQUIRE(alarm.prepare());
    const bool carries = last_queued(r).timeout_flags & time_in_request;
    CHECK_EQ(carries, tvec::detail::ring_alarm::kernel_reads_requests());
    io_uring_submit_and_wait(&r.get(), 1);
    CHECK_EQ(reap(r, alarm), 0);
}

// --- refusals -----------------------------------------------------------------------------------

Test(uring_timeout, a_polling_kernel_thread_is_refused) {
    ring r;
    wheel timers;
    io_uring polling = r.get();
    polling.flags |= IORING_SETUP_SQPOLL;
    const std::string why = support::refusal([&] { alarm_of_wheel alarm(polling, timers); });
    CHECK(support::says(why, "IORING_SETUP_SQPOLL"));
    CHECK(support::says(why, "uring_wait"));
}

Test(uring_timeout, a_ring_for_polled_devices_is_refused) {
    ring r(8, IORING_SETUP_IOPOLL);
    wheel timers;
    const std::string why = support::refusal([&] { alarm_of_wheel alarm(r.get(), timers); });
    CHECK(support::says(why, "IORING_SETUP_IOPOLL"));
}
