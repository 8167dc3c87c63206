// Promises to a reactor by every driver. Never early is exact. Lateness is judged only by bounds
// that no machine should miss.
#include <sys/time.h>
#include <sys/timerfd.h>

#include <csignal>
#include <random>

#include "support/appointment.hpp"
#include "support/check.hpp"
#include "support/loops.hpp"
#include "tvec/extra/game_clock.hpp"

using namespace std::chrono_literals;
using wheel = tvec::clocked_wheel<>;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using support::appointment;

TestSuite(every_driver, .timeout = 60);

namespace {

template <std::intmax_t PerSecond>
using hertz = std::chrono::duration<long, std::ratio<1, PerSecond>>;

// Timers that arm themselves again, and are slow now and then.
template <class Wheel> class restless {
public:
    restless(Wheel& timers, std::mt19937& random) : timers_(timers), random_(random) { arm(); }

    unsigned fired = 0;
    unsigned early = 0;

private:
    void arm() {
        const nanoseconds delay(random_() % 30'000'000);
        deadline_ = steady_clock::now() + delay;
        timers_.arm_after(t_, delay);
    }
    void on_fire() {
        early += steady_clock::now() < deadline_;
        ++fired;
        if (random_() % 16 == 0) usleep(random_() % 3'000);
        arm();
    }

    Wheel& timers_;
    std::mt19937& random_;
    steady_clock::time_point deadline_;
    tvec::timer t_{tvec::call<&restless::t_, &restless::on_fire>};
};

// Read from a configuration, say.
struct chosen_ticks : tvec::runtime_tick_clock<> {
    chosen_ticks() : runtime_tick_clock(700us) {}
};

template <template <class> class Loop, class Ticks> void is_never_early() {
    using ticked = tvec::clocked_wheel<Ticks>;
    ticked timers;
    Loop<ticked> loop{timers};
    std::mt19937 random(11);
    std::vector<std::unique_ptr<restless<ticked>>> all;
    for (int i = 0; i < 30; ++i) all.push_back(std::make_unique<restless<ticked>>(timers, random));
    for (const auto end = steady_clock::now() + 300ms; steady_clock::now() < end;) {
        if (random() % 4 == 0) loop.poke();
        loop.sleep();
        timers.run(random() % 2 == 0 ? 8 : tvec::timer_wheel::unlimited);
    }
    unsigned fired = 0;
    for (const auto& r : all) {
        CHECK_EQ(r->early, 0);
        fired += r->fired;
    }
    CHECK_GE(fired, 10);
}

// A descriptor that is readable after that time, once: another reason to wake.
class other_timer {
public:
    explicit other_timer(nanoseconds after) : fd_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {
        const itimerspec once{{}, {0, static_cast<long>(after.count())}};
        timerfd_settime(fd_, 0, &once, nullptr);
    }
    ~other_timer() { close(fd_); }
    other_timer(const other_timer&) = delete;
    other_timer& operator=(const other_timer&) = delete;
    int fd() const { return fd_; }

private:
    int fd_;
};

// Returns how many times the loop turns within that time, at whose end it wakes for another reason.
template <class Loop, class Wheel> int turns_in(Loop& loop, Wheel& timers, nanoseconds time) {
    const auto end = steady_clock::now() + time;
    other_timer other(time);
    loop.watch(other.fd());
    int turns = 0;
    for (; steady_clock::now() < end; ++turns) {
        loop.sleep();
        timers.run();
    }
    loop.watch(-1);
    return turns;
}

template <class Wheel, class Loop>
int turns_until_fired(Wheel& timers, Loop& loop, appointment& a) {
    int turns = 0;
    for (; !a.fired; ++turns) {
        loop.sleep();
        timers.run();
    }
    return turns;
}

}  // namespace

EACH_DRIVER(every_driver, no_timer_is_early_at_any_period) {
    is_never_early<Loop, tvec::tick_clock<hertz<10'000>>>();
    is_never_early<Loop, tvec::tick_clock<std::chrono::milliseconds>>();
    is_never_early<Loop, tvec::tick_clock<hertz<60>>>();
    is_never_early<Loop, tvec::tick_clock<hertz<100>>>();
    is_never_early<Loop, chosen_ticks>();
}

EACH_DRIVER(every_driver, each_tick_wakes_the_loop_once) {
    wheel timers;
    Loop<wheel> loop{timers};
    const auto all = support::appointments(1'000);
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i]->arm(timers, std::chrono::milliseconds(1 + i % 200));
    int turns = 0;
    for (; timers.next_wakeup(); ++turns) {
        loop.sleep();
        timers.run();
    }
    for (const auto& a : all) CHECK(a->kept());
    CHECK_LE(turns, 250);
}

EACH_DRIVER(every_driver, a_handler_that_arms_earlier_is_woken_earlier) {
    wheel timers;
    Loop<wheel> loop{timers};
    appointment far, near;
    far.arm(timers, 1h);
    loop.poke();
    CHECK_EQ(loop.sleep(), 1);  // its handler arms a timer that is due sooner
    near.arm(timers, 20ms);
    turns_until_fired(timers, loop, near);
    CHECK(near.kept());
    CHECK(!far.fired);
    CHECK(steady_clock::now() - near.deadline < 30s);
}

EACH_DRIVER(every_driver, a_later_deadline_costs_one_needless_wakeup) {
    wheel timers;
    Loop<wheel> loop{timers};
    appointment a;
    a.arm(timers, 20ms);
    loop.poke();
    loop.sleep();
    a.arm(timers, 70ms);
    CHECK_LE(turns_until_fired(timers, loop, a), 2);
    CHECK(a.kept());
}

EACH_DRIVER(every_driver, a_wakeup_costs_two_turns_at_most) {
    wheel timers;
    Loop<wheel> loop{timers};
    int turns = 0;
    for (int i = 0; i < 20; ++i) {
        appointment a;
        a.arm(timers, 5ms);
        turns += turns_until_fired(timers, loop, a);
        CHECK(a.kept());
    }
    CHECK_LE(turns, 40);
}

EACH_DRIVER(every_driver, a_storm_of_signals_makes_nothing_early) {
    wheel timers;
    Loop<wheel> loop{timers};
    struct sigaction ignore {};
    ignore.sa_handler = [](int) {};
    sigaction(SIGALRM, &ignore, nullptr);
    const itimerval storm{{0, 1'700}, {0, 1'700}};
    setitimer(ITIMER_REAL, &storm, nullptr);
    appointment a;
    a.arm(timers, 100ms);
    turns_until_fired(timers, loop, a);
    const itimerval calm{};
    setitimer(ITIMER_REAL, &calm, nullptr);
    CHECK(a.kept());
}

EACH_DRIVER(every_driver, unfinished_work_keeps_io_moving_without_sleep) {
    wheel timers;
    Loop<wheel> loop{timers};
    const auto all = support::appointments(10);
    for (const auto& a : all) a->arm(timers, 1ms);
    usleep(5'000);
    int turns = 0;
    while (!timers.run(1).caught_up) {
        loop.poke();
        CHECK_EQ(loop.sleep(), 1);
        loop.sleep();  // would sleep for ever if it waited for what has been taken
        ++turns;
    }
    CHECK_GE(turns, 8);
    for (const auto& a : all) CHECK(a->kept());
}

EACH_DRIVER(every_driver, timers_for_the_end_of_time_never_wake) {
    wheel timers;
    Loop<wheel> loop{timers};
    tvec::timer never, last, longest;
    appointment waker;
    timers.wheel().arm_at(never, tvec::never);
    timers.arm_after(last, std::chrono::hours::max());
    timers.arm_after(longest, nanoseconds::max());
    loop.poke();
    CHECK_EQ(loop.sleep(), 1);
    waker.arm(timers, 30ms);
    CHECK_LE(turns_until_fired(timers, loop, waker), 2);
    CHECK(waker.kept());
    CHECK(never.pending() && last.pending() && longest.pending());
}

// --- a clock that is stepped --------------------------------------------------------------------

namespace {

using stepped_wheel =
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>>;

}  // namespace

EACH_DRIVER(every_driver, a_step_forward_makes_the_next_sleep_shorter) {
    stepped_wheel timers;
    Loop<stepped_wheel> loop{timers};
    tvec::timer t;
    timers.arm_after(t, 10h);
    loop.poke();
    loop.sleep();  // sets the alarm for ten hours
    tvec::manual_clock::advance(10h - 1ms);
    loop.sleep();
    CHECK_EQ(timers.run().fired, 0);
    tvec::manual_clock::advance(1ms);
    loop.sleep();
    CHECK_EQ(timers.run().fired, 1);
}

EACH_DRIVER(every_driver, a_step_back_costs_one_needless_wakeup) {
    tvec::manual_clock::set(tvec::manual_clock::time_point(10h));
    stepped_wheel timers;
    Loop<stepped_wheel> loop{timers};
    tvec::timer t;
    timers.arm_after(t, 5ms);
    loop.poke();
    loop.sleep();
    tvec::manual_clock::set(tvec::manual_clock::time_point(1h));
    CHECK_LE(turns_in(loop, timers, 50ms), 2);
    CHECK(t.pending());
}

// --- game time ----------------------------------------------------------------------------------

namespace {

using game_wheel = tvec::clocked_wheel<tvec::game_ticks<std::chrono::milliseconds>>;

}  // namespace

EACH_DRIVER(every_driver, game_time_is_never_early_at_any_speed) {
    for (const auto& [num, den] : {std::pair{1u, 3u}, {1u, 1u}, {7u, 2u}, {1'000u, 1u}}) {
        tvec::game_clock<> clock;
        clock.resume();
        clock.set_speed(num, den);
        game_wheel timers{tvec::game_ticks<std::chrono::milliseconds>(clock)};
        Loop<game_wheel> loop{timers};
        bool early = false;
        const auto delay = 10ms * num / den;
        const auto begin = steady_clock::now(), due = begin + 10ms - 1us;
        const auto deadline = clock.now() + delay;
        tvec::callback_timer t{
            [&] { early = clock.now() < deadline || steady_clock::now() < due; }};
        timers.arm_at(t, deadline);
        int turns = 0;
        for (; t.pending(); ++turns) {
            loop.sleep();
            timers.run();
        }
        CHECK(!early);
        CHECK_LE(turns, 4);
        CHECK(steady_clock::now() - begin < 30s);
    }
}

EACH_DRIVER(every_driver, a_change_of_speed_reaches_the_alarm) {
    tvec::game_clock<> clock;
    clock.resume();
    game_wheel timers{tvec::game_ticks<std::chrono::milliseconds>(clock)};
    Loop<game_wheel> loop{timers};
    tvec::timer t;
    timers.arm_after(t, 10h);
    loop.poke();
    loop.sleep();  // sets the alarm for the speed of now
    clock.set_speed(3'600'000);
    const auto begin = steady_clock::now();
    for (int turns = 0; t.pending(); ++turns) {
        CHECK_LE(turns, 6);
        loop.sleep();
        timers.run();
    }
    CHECK(steady_clock::now() - begin < 30s);
}

EACH_DRIVER(every_driver, a_clock_that_is_paused_does_not_wake) {
    tvec::game_clock<> clock;
    clock.resume();
    game_wheel timers{tvec::game_ticks<std::chrono::milliseconds>(clock)};
    Loop<game_wheel> loop{timers};
    tvec::timer t;
    timers.arm_after(t, 5ms);
    loop.poke();
    loop.sleep();
    clock.pause();
    CHECK_LE(turns_in(loop, timers, 50ms), 2);  // an alarm that was set before may ring
    CHECK(t.pending());
    clock.resume();
    while (t.pending()) {
        loop.sleep();
        timers.run();
    }
}

EACH_DRIVER(every_driver, unfinished_work_does_not_sleep_while_paused) {
    tvec::game_clock<> clock;
    clock.resume();
    game_wheel timers{tvec::game_ticks<std::chrono::milliseconds>(clock)};
    Loop<game_wheel> loop{timers};
    tvec::timer t[3];
    for (tvec::timer& each : t) timers.arm_after(each, 1ms);
    usleep(3'000);
    clock.pause();
    while (!timers.run(1).caught_up) loop.sleep();
    for (const tvec::timer& each : t) CHECK(!each.pending());
}

#ifdef TVEC_TESTS_HAVE_URING
EACH_RING_DRIVER(every_driver, each_kind_of_ring_wakes) {
    for (const unsigned flags :
         {0u, unsigned{IORING_SETUP_COOP_TASKRUN},
          IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, support::deferred,
          support::deferred | IORING_SETUP_TASKRUN_FLAG}) {
        if (!support::ring_exists(flags)) continue;
        wheel timers;
        Loop<wheel> loop{timers, 4, flags};
        appointment a;
        a.arm(timers, 10ms);
        turns_until_fired(timers, loop, a);
        CHECK(a.kept());
    }
}

// --- narrow rings -------------------------------------------------------------------------------

// Completions come in faster than they are reaped, so that the alarm's own is never reached.
EACH_RING_DRIVER(every_driver, timers_fire_beside_a_never_drained_completion_queue) {
    for (const unsigned flags : {0u, support::deferred}) {
        if (!support::ring_exists(flags)) continue;
        wheel timers;
        Loop<wheel> loop{timers, 256, flags};
        unsigned backlog = 0;
        const auto fall_behind = [&] {
            const unsigned more = backlog < 20'000 ? 32 : 4;
            for (unsigned i = 0; i < more; ++i) loop.poke();
            backlog += more - loop.sleep(4);
        };
        while (backlog < 100) fall_behind();
        appointment a;
        a.arm(timers, 20ms);
        while (!a.fired) {
            fall_behind();
            timers.run();
        }
        CHECK_GE(backlog, 100);
        CHECK(a.kept());
        CHECK(steady_clock::now() - a.deadline < 30s);
    }
}

EACH_RING_DRIVER(every_driver, a_completion_queue_of_four_loses_nothing) {
    wheel timers;
    Loop<wheel> loop{timers, 2};
    appointment a;
    a.arm(timers, 20ms);
    unsigned taken = 0;
    for (int i = 0; i < 40; ++i) {
        loop.poke();
        taken += loop.sleep(0);  // overflows
    }
    while (taken < 40) taken += loop.sleep();
    CHECK_EQ(taken, 40);
    turns_until_fired(timers, loop, a);
    CHECK(a.kept());
}

EACH_RING_DRIVER(every_driver, a_full_submission_queue_delays_no_timer) {
    wheel timers;
    Loop<wheel> loop{timers, 4};
    for (int i = 0; i < 20; ++i) {
        appointment a;
        a.arm(timers, 3ms);
        unsigned taken = 0;
        for (int k = 0; k < 4; ++k) loop.poke();
        while (!a.fired) {
            taken += loop.sleep();
            timers.run();
        }
        CHECK(a.kept());
        CHECK_EQ(taken, 4);
    }
}
#endif
