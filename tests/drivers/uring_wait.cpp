// The reactor's own wait on a real ring. Tests of all drivers are in every_driver.cpp.
#include "tvec/drivers/uring_wait.hpp"
#include "support/appointment.hpp"
#include "support/check.hpp"
#include "support/ring.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/drivers/uring_timeout.hpp"
#include "tvec/extra/turn_clock.hpp"
#include <liburing.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using wheel = tvec::clocked_wheel<>;
using support::appointment;
using support::ring;

TestSuite(uring_wait, .timeout = 60);

namespace {

struct registration {
    unsigned opcode = 0;
    clockid_t clock = -1;
};
std::optional<registration> last;  // by anybody but liburing itself
bool kernel_is_old = false;
bool deadlines_are_lost = false;
unsigned lost = 0;
unsigned entered_with = 0;  // the flags of the last wait
unsigned waits = 0;

// A clock that counts how often it is read.
template <class Clock> struct counted : Clock {
    using time_point = std::chrono::time_point<counted>;
    static inline int readings = 0;
    static time_point now() noexcept {
        ++readings;
        return time_point(Clock::now().time_since_epoch());
    }
};
using counted_steady = counted<std::chrono::steady_clock>;
using counted_boottime = counted<tvec::boottime_clock>;
template <class Clock>
using wheel_on = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, Clock>>;

}  // namespace

template <>
inline constexpr auto tvec::detail::alarm_clock_of<counted_steady> =
    tvec::detail::alarm_clock_of<std::chrono::steady_clock>;
template <>
inline constexpr auto tvec::detail::alarm_clock_of<counted_boottime> =
    tvec::detail::alarm_clock_of<tvec::boottime_clock>;

// Stands before the kernel, and before liburing's function of this name.
extern "C" int io_uring_register(unsigned fd, unsigned opcode, const void* what, unsigned n) {
    last = registration{opcode, *static_cast<const clockid_t*>(what)};
    if (kernel_is_old) return -EINVAL;
    const long result = syscall(__NR_io_uring_register, fd, opcode, what, n);
    return static_cast<int>(result < 0 ? -errno : result);
}

// The same. When deadlines are lost, a wait ends with a completion only.
extern "C" int io_uring_enter2(unsigned fd, unsigned submitted, unsigned wanted, unsigned flags,
                               sigset_t* argument, std::size_t size) {
    io_uring_getevents_arg without{};
    if (flags & IORING_ENTER_GETEVENTS) {
        entered_with = flags;
        ++waits;
    }
    if (deadlines_are_lost && (flags & IORING_ENTER_EXT_ARG) != 0) {
        ++lost;
        argument = reinterpret_cast<sigset_t*>(&without);
    }
    const long result = syscall(__NR_io_uring_enter, fd, submitted, wanted, flags, argument, size);
    return static_cast<int>(result < 0 ? -errno : result);
}

// No other driver may sleep on such a ring.
Test(uring_wait, waits_work_beside_a_polling_kernel_thread) {
    ring r(4, IORING_SETUP_SQPOLL);
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    appointment a;
    a.arm(timers, 10ms);
    while (!a.fired) {
        wait();
        timers.run();
    }
    CHECK(a.kept());
}

Test(uring_wait, a_kernel_without_timed_waits_is_refused) {
    ring r;
    wheel timers;
    io_uring old = r.get();
    old.features &= ~unsigned{IORING_FEAT_EXT_ARG};
    const std::string why = support::refusal([&] { tvec::uring_wait wait{old, timers}; });
    CHECK(support::says(why, "IORING_FEAT_EXT_ARG"));
}

Test(uring_wait, a_polled_ring_is_refused) {
    ring r(8, IORING_SETUP_IOPOLL);
    wheel timers;
    const std::string why = support::refusal([&] { tvec::uring_wait wait{r.get(), timers}; });
    CHECK(support::says(why, "IORING_SETUP_IOPOLL"));
}

Test(uring_wait, a_rewinding_ring_is_refused) {
    ring r;
    wheel timers;
    io_uring rewinding = r.get();
    rewinding.flags |= 1u << 20;
    const std::string why = support::refusal([&] { tvec::uring_wait wait{rewinding, timers}; });
    CHECK(support::says(why, "IORING_SETUP_SQ_REWIND"));
}

// --- waits that are none for I/O -----------------------------------------------------------------

namespace {

constexpr unsigned has_no_iowait = 1u << 17, no_iowait = 1u << 7;

// Waits until the timer, or for ever with an empty wheel, and returns whether that counts as I/O.
template <class Clocked, class Set>
bool counts_as_io(ring& r, Clocked& timers, Set set, bool knows_it = true) {
    if (!knows_it) r.get().features &= ~has_no_iowait;
    tvec::uring_wait wait{r.get(), timers};
    set(wait);
    r.queue_nop();
    wait();
    CHECK_EQ(r.reap(), 1);
    return (entered_with & no_iowait) == 0;
}

constexpr auto as_it_is = [](auto&) {};

}  // namespace

Test(uring_wait, an_idle_loop_is_not_in_io_wait) {
    if (!(ring().get().features & has_no_iowait)) cr_skip("before Linux 6.15 each wait counts");
    tvec::timer t;
    wheel idle, timers;
    wheel_on<tvec::manual_clock> by_hand;
    timers.arm_after(t, 10s);
    for (const unsigned flags : {0u, support::deferred, unsigned{IORING_SETUP_SQPOLL}}) {
        CHECK(!counts_as_io(*std::make_unique<ring>(4, flags), idle, as_it_is));
        CHECK(!counts_as_io(*std::make_unique<ring>(4, flags), timers, as_it_is));
        CHECK(!counts_as_io(*std::make_unique<ring>(4, flags), by_hand, as_it_is));
    }
    ring r;
    CHECK(!counts_as_io(r, timers, [](auto& wait) { wait.gather(1ms, 2); }));
}

Test(uring_wait, the_user_may_ask_for_io_wait) {
    ring r;
    if (!(r.get().features & has_no_iowait)) cr_skip("before Linux 6.15 each wait counts");
    wheel timers;
    CHECK(counts_as_io(r, timers, [](auto& wait) { wait.set_iowait(true); }));
    // What liburing's io_uring_set_iowait(&ring, true) does, and with false.
    CHECK(counts_as_io(r, timers, [&](auto&) { r.get().int_flags &= 0x7f; }));
    CHECK(!counts_as_io(r, timers, [&](auto&) { r.get().int_flags |= no_iowait; }));
}

Test(uring_wait, kernels_without_the_flag_are_not_told) {
    ring r;
    wheel timers;
    CHECK(counts_as_io(r, timers, as_it_is, false));
    CHECK_EQ(r.get().int_flags & no_iowait, 0);
}

Test(uring_wait, a_wait_reports_a_lost_ring) {
    ring r;
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    appointment a;
    a.arm(timers, 50ms);
    const int fd = r.get().ring_fd;
    const int entered = r.get().enter_ring_fd;
    r.get().ring_fd = r.get().enter_ring_fd = -1;
    const std::string why = support::refusal([&] { wait(); });
    r.get().ring_fd = fd;
    r.get().enter_ring_fd = entered;
    CHECK(support::says(why, "io_uring_enter"));
}

Test(uring_wait, a_completion_ends_waits_of_whole_seconds) {
    ring r;
    __kernel_timespec soon{0, 20'000'000};
    io_uring_prep_timeout(io_uring_get_sqe(&r.get()), &soon, 0, 0);
    const auto before = std::chrono::steady_clock::now();
    tvec::detail::timed_ring(r.get(), {CLOCK_MONOTONIC, false}).submit_and_wait(20s).or_throw();
    CHECK_EQ(r.reap(), 1);
    CHECK(std::chrono::steady_clock::now() - before < 10s);
}

Test(uring_wait, one_completion_ends_a_relative_wait) {
    ring r;
    r.queue_nop();
    const auto before = std::chrono::steady_clock::now();
    tvec::detail::timed_ring(r.get(), {CLOCK_MONOTONIC, false}).submit_and_wait(20s).or_throw();
    CHECK_EQ(r.reap(), 1);
    CHECK(std::chrono::steady_clock::now() - before < 10s);
}

Test(uring_wait, a_poll_reaps_deferred_completions) {
    ring r(8, support::deferred);
    tvec::detail::timed_ring timed(r.get(), {CLOCK_MONOTONIC, true});
    __kernel_timespec soon{0, 1'000'000};
    io_uring_prep_timeout(io_uring_get_sqe(&r.get()), &soon, 0, 0);
    const auto patience = std::chrono::steady_clock::now() + 10s;
    unsigned reaped = 0;
    while (reaped == 0 && std::chrono::steady_clock::now() < patience) {
        timed.submit_and_wait(0ns).or_throw();
        reaped = r.reap();
    }
    CHECK_EQ(reaped, 1);
}

// --- until a point in time -----------------------------------------------------------------------

namespace {

// Returns whether this kernel can, and this process's time is the machine's.
bool can_wait_until_points_in_time() {
    ring r;
    const clockid_t clock[4] = {CLOCK_MONOTONIC};
    return tvec::detail::ring_alarm(r.get(), {CLOCK_MONOTONIC, true}, 1).absolute() &&
           io_uring_register(static_cast<unsigned>(r.get().ring_fd), 29, clock, 0) == 0;
}

// Keeps an appointment. Returns how often the clock was read by a turn.
template <class Clock> int readings_per_turn(unsigned ring_flags = 0) {
    ring r(8, ring_flags);
    wheel_on<Clock> timers;
    tvec::uring_wait wait{r.get(), timers};
    support::appointment a;
    a.deadline = std::chrono::steady_clock::now() + 20ms;
    timers.arm_after(a.t, 20ms);
    r.queue_nop();
    Clock::readings = 0;
    int turns = 0;
    for (; !a.fired; ++turns) {
        wait();
        r.reap();
        timers.run();
    }
    CHECK(a.kept());
    CHECK_EQ(Clock::readings % turns, 0);
    return Clock::readings / turns;
}

}  // namespace

Test(uring_wait, the_ring_waits_on_the_wheels_clock) {
    ring r;
    wheel_on<tvec::boottime_clock> since_boot;
    wheel steady;
    tvec::uring_wait{r.get(), since_boot};
    REQUIRE(last.has_value());
    CHECK_EQ(last->opcode, 29);  // IORING_REGISTER_CLOCK
    CHECK_EQ(last->clock, CLOCK_BOOTTIME);
    tvec::uring_wait{r.get(), steady};
    CHECK_EQ(last->clock, CLOCK_MONOTONIC);
}

Test(uring_wait, only_kernel_clocks_are_given_to_the_ring) {
    ring r;
    wheel_on<tvec::manual_clock> timers;
    last.reset();
    tvec::uring_wait{r.get(), timers};
    CHECK(!last.has_value());
}

Test(uring_wait, absolute_waits_read_no_clock) {
    if (!can_wait_until_points_in_time()) cr_skip("no such waits here");
    CHECK_EQ(readings_per_turn<counted_steady>(), 1);
    CHECK_EQ(readings_per_turn<counted_boottime>(), 1);
    CHECK_EQ(readings_per_turn<counted_boottime>(support::deferred), 1);
}

Test(uring_wait, older_kernels_wait_as_long_as_is_left) {
    kernel_is_old = true;
    CHECK(!can_wait_until_points_in_time());
    CHECK_EQ(readings_per_turn<counted_steady>(), 2);
    CHECK_EQ(readings_per_turn<counted_boottime>(), 2);
    kernel_is_old = false;
}

Test(uring_wait, a_ring_that_is_registered_waits_as_well) {
    if (!can_wait_until_points_in_time()) cr_skip("no such waits here");
    ring other, r(8, support::deferred);
    io_uring_register_ring_fd(&other.get());
    io_uring_register_ring_fd(&r.get());
    tvec::detail::timed_ring timed(r.get(), tvec::detail::alarm_clock_of<counted_steady>);
    r.queue_nop();
    const auto before = std::chrono::steady_clock::now();
    timed.submit_and_wait(before.time_since_epoch() + 20s).or_throw();
    CHECK_EQ(r.reap(), 1);
    CHECK(std::chrono::steady_clock::now() - before < 10s);
    const auto soon = std::chrono::steady_clock::now() + 20ms;
    timed.submit_and_wait(soon.time_since_epoch()).or_throw();
    CHECK(std::chrono::steady_clock::now() >= soon);
}

// --- completions that gather ---------------------------------------------------------------------

namespace {

// A ring with completions, and how long a wait on it takes that may gather.
std::chrono::nanoseconds gathered(unsigned nops, std::chrono::microseconds longest, unsigned enough,
                                  std::optional<std::chrono::nanoseconds> limit) {
    ring r(8, support::deferred);
    tvec::detail::timed_ring timed(r.get(),
                                   tvec::detail::alarm_clock_of<std::chrono::steady_clock>);
    REQUIRE(timed.gather(longest, enough));
    for (unsigned i = 0; i < nops; ++i) r.queue_nop();
    const auto before = std::chrono::steady_clock::now();
    if (limit) *limit += before.time_since_epoch();
    timed.submit_and_wait(limit).or_throw();
    const auto took = std::chrono::steady_clock::now() - before;
    REQUIRE_EQ(r.reap(), nops);
    return took;
}

bool can_gather() {
    ring r;
    return can_wait_until_points_in_time() && (r.get().features & 1u << 15) != 0;
}

}  // namespace

Test(uring_wait, completions_gather_until_there_are_enough) {
    if (!can_gather()) cr_skip("no minimum wait here");
    for (const std::optional<std::chrono::nanoseconds> limit :
         {std::optional(20'000'000'000ns), {}}) {
        CHECK(gathered(1, 30ms, 3, limit) >= 30ms);
        CHECK(gathered(1, 30ms, 3, limit) < 10s);
        CHECK(gathered(3, 20s, 3, limit) < 10s);
        CHECK(gathered(1, 0us, 3, limit) < 10s);
    }
}

Test(uring_wait, completions_never_gather_beyond_the_next_wakeup) {
    if (!can_gather()) cr_skip("no minimum wait here");
    CHECK(gathered(1, 20s, 3, 20ms) < 10s);
    CHECK(gathered(0, 1ms, 3, 20ms) >= 20ms);
    ring r(8, support::deferred);
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    REQUIRE(wait.gather(20s, 3));
    appointment a;
    a.arm(timers, 20ms);
    while (!a.fired) {
        r.queue_nop();
        wait();
        r.reap();
        timers.run();
    }
    CHECK(a.kept());
}

Test(uring_wait, gathering_sleeps_on_until_a_completion) {
    if (!can_gather()) cr_skip("no minimum wait here");
    for (const bool is_empty : {true, false}) {
        ring r;
        wheel timers;
        tvec::timer far;
        if (!is_empty) timers.arm_after(far, 1h);
        tvec::uring_wait wait{r.get(), timers};
        REQUIRE(wait.gather(50us, 8));
        // A completion that comes by itself. A wait that ends each 50 microseconds ends often by
        // then.
        __kernel_timespec later{0, 50'000'000};
        io_uring_prep_timeout(io_uring_get_sqe(&r.get()), &later, 0, 0);
        waits = 0;
        while (io_uring_cq_ready(&r.get()) == 0) wait();
        CHECK_LE(waits, 5);  // signals end a wait, too
    }
}

Test(uring_wait, completions_gather_on_no_kernel_that_cannot) {
    ring r, polled(4, IORING_SETUP_SQPOLL);
    wheel timers;
    wheel_on<tvec::manual_clock> by_hand;
    CHECK(!tvec::uring_wait(polled.get(), timers).gather(1ms, 2));
    CHECK(!tvec::uring_wait(r.get(), by_hand).gather(1ms, 2));
    r.get().features &= ~(1u << 15);
    CHECK(!tvec::uring_wait(r.get(), timers).gather(1ms, 2));
}

// --- work that is left ---------------------------------------------------------------------------

Test(uring_wait, a_poll_submits_and_reaps_and_never_sleeps) {
    for (const unsigned flags : {0u, support::deferred, unsigned{IORING_SETUP_SQPOLL}}) {
        if (!support::ring_exists(flags)) continue;
        ring r(8, flags);
        wheel timers;
        tvec::uring_wait wait{r.get(), timers};
        tvec::timer far;
        for (const bool is_armed : {false, true}) {
            if (is_armed) timers.arm_after(far, 1h);
            wait.poll();  // a sleep would not end: nothing completes
            r.queue_nop();
            unsigned reaped = 0;
            while (reaped == 0) {  // a kernel thread takes its time
                wait.poll();
                reaped = r.reap();
            }
            CHECK_EQ(reaped, 1);
        }
    }
}

Test(uring_wait, a_poll_begins_a_turn_as_well) {
    ring r;
    using turns = tvec::turn_clock<>;
    wheel_on<turns> timers;
    tvec::uring_wait wait{r.get(), timers};
    turns::end_turn();
    wait.poll();
    const auto reading = turns::now();
    usleep(2'000);
    CHECK(turns::now() == reading);
    wait.poll();
    CHECK(turns::now() > reading);
    turns::end_turn();
}

Test(uring_wait, a_poll_reports_a_ring_that_is_gone) {
    ring r;
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    const int fd = std::exchange(r.get().ring_fd, -1);
    const int entered = std::exchange(r.get().enter_ring_fd, -1);
    const std::string why = support::refusal([&] { wait.poll(); });
    r.get().ring_fd = fd;
    r.get().enter_ring_fd = entered;
    CHECK(support::says(why, "io_uring_enter"));
}

// Whose timers run on time all the same.
Test(uring_wait, a_loop_that_never_blocks_runs_its_timers) {
    for (const unsigned flags : {0u, support::deferred, unsigned{IORING_SETUP_COOP_TASKRUN}}) {
        if (!support::ring_exists(flags)) continue;
        ring r(8, flags);
        wheel timers;
        tvec::uring_wait wait{r.get(), timers};
        appointment a;
        a.arm(timers, 50ms);
        while (!a.fired) {
            wait.poll();
            r.reap();
            timers.run(256);
        }
        CHECK(a.kept());
    }
}

Test(uring_wait, the_loop_does_not_sleep_on_unfinished_work) {
    ring r;
    wheel_on<tvec::boottime_clock> timers;
    tvec::uring_wait wait{r.get(), timers};
    std::vector<tvec::timer> due(100);
    const auto soon = timers.after(1ms);
    for (tvec::timer& t : due) timers.arm_at(t, soon);  // all on one tick
    tvec::timer later;
    timers.arm_after(later, 10s);
    do wait();
    while (timers.run(0).caught_up);
    r.queue_nop();
    wait();
    CHECK_EQ(r.reap(), 1);
    CHECK(!timers.run(99).caught_up);
}

// --- a deadline that the kernel loses, docs/io_uring.md ------------------------------------------

namespace {

// Keeps an appointment in a ring that also polls a timerfd, and sleeps as `sleep` does.
template <class Sleep> void keep_with_a_timerfd_beside(ring& r, wheel& timers, Sleep sleep) {
    tvec::timerfd_alarm beside{timers};
    appointment a;
    a.arm(timers, 20ms);
    while (!a.fired) {
        beside.rearm();
        io_uring_prep_poll_add(io_uring_get_sqe(&r.get()), beside.fd(), POLLIN);
        sleep();
        r.reap();
        beside.acknowledge();
        timers.run();
    }
    CHECK(a.kept());
}

// Has each timeout that is queued end in 34 years. Returns how many.
unsigned lose_timeouts(io_uring& r) {
    static __kernel_timespec far{1 << 30, 0};
    unsigned n = 0;
    for (unsigned i = r.sq.sqe_head; i != r.sq.sqe_tail; ++i) {
        io_uring_sqe& sqe = r.sq.sqes[i & r.sq.ring_mask];
        if (sqe.opcode != IORING_OP_TIMEOUT) continue;
        sqe.addr = reinterpret_cast<std::uintptr_t>(&far);
        ++n;
    }
    return n;
}

}  // namespace

Test(uring_wait, a_timerfd_covers_lost_deadlines_of_waits) {
    if (!can_wait_until_points_in_time()) cr_skip("no such waits here");
    ring r;
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    lost = 0;
    deadlines_are_lost = true;
    keep_with_a_timerfd_beside(r, timers, [&] { wait(); });
    deadlines_are_lost = false;
    CHECK_GE(lost, 1);
}

Test(uring_wait, a_timerfd_wakes_when_timeout_requests_are_lost) {
    ring r;
    wheel timers;
    tvec::uring_timeout alarm{r.get(), timers};
    unsigned timeouts = 0;
    keep_with_a_timerfd_beside(r, timers, [&] {
        CHECK(alarm.prepare());
        timeouts += lose_timeouts(r.get());
        io_uring_submit_and_wait(&r.get(), 1);
    });
    CHECK_EQ(timeouts, 1);
}

// More than the kernel hands out at once on such a ring, of which the first wait would see a part.
Test(uring_wait, a_wait_returns_all_completions_of_a_burst) {
    constexpr std::size_t pairs = 150;
    ring r(256, support::deferred);
    wheel timers;
    tvec::uring_wait wait(r.get(), timers);
    std::vector<std::array<int, 2>> ends(pairs);
    std::vector<char> words(pairs);
    for (std::size_t i = 0; i < pairs; ++i) {
        REQUIRE_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i].data()), 0);
        io_uring_prep_recv(io_uring_get_sqe(&r.get()), ends[i][0], &words[i], 1, 0);
    }
    wait.poll();
    CHECK_EQ(r.reap(), 0);
    for (const auto& pair : ends) REQUIRE_EQ(send(pair[1], "!", 1, 0), 1);
    wait();
    CHECK_EQ(r.reap(), pairs);
    for (const auto& pair : ends) close(pair[0]), close(pair[1]);
}
