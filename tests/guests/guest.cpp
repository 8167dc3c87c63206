// Guests of any host: a loop on a manual clock, in which all that a guest promises is exact.
#include "tvec/guests/guest.hpp"

#include <array>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "support/check.hpp"
#include "support/overload.hpp"
#include "support/probe.hpp"
#include "tvec/extra/game_clock.hpp"
#include "tvec/extra/snapshot.hpp"
#include "tvec/extra/turn_clock.hpp"
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;
using support::probe;
using tvec::manual_clock;

namespace {

// Calls the guest's turn behind the handlers of a pass, as hosts do.
struct manual_loop {
    struct host {
        host(tvec::guest_turn turn, manual_loop& l) : of(l) {
            of.ring = [turn] { turn(); };
        }
        ~host() { of.ring = {}; }
        void set_alarm(manual_clock::time_point t) noexcept {
            of.alarm = t;
            ++of.sets;
        }
        manual_loop& of;
    };

    // Handles what has come, which takes `work`, and then the alarm.
    void pass(std::chrono::nanoseconds work = 0ns) {
        manual_clock::advance(work);
        if (is_due()) ring();
    }
    bool is_due() const { return alarm <= manual_clock::now(); }
    // Sleeps until the alarm, and makes the pass after it, which does not sleep.
    void sleep() {
        REQUIRE(alarm != alarm.max());
        manual_clock::set(std::max(manual_clock::now(), alarm));
        pass();
        pass();
    }

    manual_clock::time_point alarm = manual_clock::time_point::max();
    std::function<void()> ring;
    unsigned sets = 0;
};

std::chrono::nanoseconds now() { return manual_clock::now().time_since_epoch(); }

template <class Clock> using ms_of = tvec::tick_clock<std::chrono::milliseconds, Clock>;
template <class Ticks> using guest_on = tvec::guest<manual_loop::host, Ticks>;
using guest = guest_on<ms_of<manual_clock>>;

template <class Ticks> void overload_on(Ticks ticks) {
    support::each_overload([ticks](std::size_t n, auto turn, auto work) {
        manual_loop l;
        guest_on<Ticks> timers(l, ticks);
        support::clients c(*timers, n, work);
        const auto latest = support::lateness(c, [&] { l.pass(turn); });
        const auto plain = std::max(support::plain_lateness(n, turn, work), turn);
        CHECK_LE(latest, plain + support::one_turn(n, turn, work));
        CHECK_EQ(c.early, 0);
        if (work < 1ms) CHECK_LE(latest, 2 * turn + 100ms);
    });
}

}  // namespace

Test(guest, overload_makes_timers_at_most_a_turn_later) { overload_on(ms_of<manual_clock>()); }

Test(guest, overload_on_a_turn_clock_is_the_same) {
    overload_on(ms_of<tvec::turn_clock<manual_clock>>());
}

Test(guest, overload_on_a_game_clock_is_the_same) {
    tvec::game_clock<manual_clock> world;
    world.resume();
    overload_on(tvec::game_ticks<std::chrono::milliseconds, manual_clock>(world));
}

Test(guest, occasional_long_passes_delay_timers_by_their_length) {
    manual_loop l;
    guest timers(l);
    support::clients c(*timers, 1000, 10us);
    int passes = 0;
    const auto latest = support::lateness(c, [&] { l.pass(++passes % 5 == 0 ? 200ms : 5ms); });
    CHECK_LE(latest, 2 * 210ms);
}

Test(guest, a_hold_leaves_no_backlog_that_grows) {
    manual_loop l;
    guest timers(l);
    support::clients c(*timers, 4000, 10us);
    int passes = 0;
    const auto latest = support::lateness(c, [&] { l.pass(++passes % 17 == 0 ? 250ms : 1ms); });
    CHECK_LE(latest, 700ms);
}

// As a handler does, and as a mailbox does with a message from before the stall.
Test(guest, a_deadline_in_the_past_hides_no_stall) {
    manual_loop l;
    guest timers(l);
    int heard = 0;
    probe late, idle;
    timers->arm_after(idle.t, 50ms);
    l.pass();
    manual_clock::advance(400ms);
    timers->arm_at(late.t, manual_clock::time_point{});
    for (; idle.fired() == 0; ++heard) l.pass(1us);
    CHECK_GE(heard, 16);
}

Test(guest, a_callback_blocking_amid_work_is_a_stall) {
    manual_loop l;
    guest timers(l);
    int heard = 0;
    bool is_first = true;
    probe idle;
    auto due = support::probes(400);
    for (const auto& p : due) {
        p->then = [&](auto&) {
            if (std::exchange(is_first, false)) manual_clock::advance(1s);
        };
        timers->arm_after(p->t, 10ms);
    }
    timers->arm_after(idle.t, 100ms);
    l.sleep();
    CHECK_EQ(support::count_fired(due), 256);
    for (; idle.fired() == 0; ++heard) l.pass(1us);
    CHECK_GE(heard, 16);
}

// The agenda of a wheel that is being run does not have what the callback arms next.
Test(guest, rearm_in_a_callback_loses_no_wakeup) {
    manual_loop l;
    guest timers(l);
    probe p([&](auto&) {
        timers.rearm();
        if (p.fired() < 10) timers->arm_after(p.t, 100ms);
    });
    timers->arm_after(p.t, 10ms);
    manual_clock::advance(11ms);
    timers->run();
    for (int i = 0; i < 100 && p.fired() < 10; ++i) l.sleep();
    CHECK_EQ(p.fired(), 10);
}

Test(guest, a_step_back_of_the_clock_is_counted) {
    manual_clock::set(manual_clock::time_point(10h));
    manual_loop l;
    guest timers(l);
    probe p;
    timers->arm_after(p.t, 1ms);
    l.pass(10ms);
    l.pass();
    CHECK_EQ(p.fired(), 1);
    timers.rearm();
    manual_clock::set(manual_clock::time_point(9h));
    timers.rearm();
    l.ring();
    CHECK_EQ(timers->wheel().count().clock_backward, 1);
}

Test(guest, a_rarely_polled_loop_fires_one_poll_late) {
    manual_loop l;
    guest timers(l);
    probe p;
    for (int i = 0; i < 20; ++i) {
        (*timers).arm_unless_pending(p.t, timers->after(10ms));
        l.pass(130ms);
        l.pass();  // what a host does in the same poll once more
    }
    CHECK_GE(p.fired(), 9);
}

Test(guest, a_stall_leaves_sixteen_passes_to_hear) {
    for (const auto stall : {99ms, 101ms, 5000ms}) {
        manual_loop l;
        guest timers(l);
        int heard = 0;
        probe idle;
        timers->arm_after(idle.t, 1ms);
        manual_clock::advance(1ms + stall);
        for (; idle.fired() == 0; ++heard) l.pass(1us);
        CHECK_EQ(heard - 1, stall < 100ms ? 1 : 16);
    }
}

Test(guest, endless_talk_delays_timers_by_the_stall) {
    for (const auto stall : {150ms, 400ms, 5000ms}) {
        manual_loop l;
        guest timers(l);
        probe idle;
        timers->arm_after(idle.t, 1ms);
        l.pass(1ms + stall);
        const auto begin = now();
        while (idle.fired() == 0) l.pass(90ms);
        CHECK_LE(now() - begin, std::min(stall, 500ms) + 90ms);
    }
}

Test(guest, overload_makes_a_lone_timer_one_turn_late) {
    manual_loop l;
    guest timers(l);
    for (const auto delay : {100ms, 190ms, 3100ms, 3250ms}) {
        probe p;
        for (int i = 0; i < 50; ++i) l.pass(300ms);
        timers->arm_after(p.t, delay);
        const auto due = now() + delay;
        while (p.fired() == 0) l.pass(300ms);
        CHECK_LE(now() - due, 600ms);
    }
}

Test(guest, a_turn_in_time_makes_256_visits) {
    manual_loop l;
    guest timers(l);
    const auto due = support::probes(1000);
    for (const auto& p : due) timers->arm_after(p->t, 10ms);
    l.sleep();
    CHECK_EQ(support::count_fired(due), 256);
    CHECK(l.is_due());
    l.pass();
    CHECK_EQ(support::count_fired(due), 512);
}

Test(guest, a_late_turn_lasts_as_long_again) {
    manual_loop l;
    guest timers(l);
    support::clients slow(*timers, 0, 0us);
    auto due = support::probes(2000);
    for (const auto& p : due) {
        p->then = [](auto&) { manual_clock::advance(100us); };
        timers->arm_after(p->t, 10ms);
    }
    l.sleep();
    CHECK_EQ(support::count_fired(due), 256);
    l.pass(60ms);
    CHECK_EQ(support::count_fired(due), 256 + 3 * 256);  // 77 ms
    l.pass(1ms);
    CHECK_EQ(support::count_fired(due), 5 * 256);
}

Test(guest, the_alarm_is_never_later_than_the_wakeup) {
    std::mt19937 random(1);
    manual_loop l;
    guest timers(l);
    auto all = support::probes(40);
    std::array<std::chrono::nanoseconds, 40> due{};
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i]->then = [&, i](auto&) {
            CHECK_GE(now(), due[i]);
            const std::size_t other = random() % all.size();
            const auto delay = random() % 3000 * 1ms;
            if (random() % 2 == 0)
                due[other] = now() + delay, timers->arm_after(all[other]->t, delay);
        };
    for (int step = 0; step < 100'000; ++step) {
        const std::size_t i = random() % all.size();
        switch (random() % 8) {
        case 0:
            all[i]->t.cancel();
            break;
        case 1: {
            probe p;  // which is destroyed
            timers->arm_after(p.t, random() % 100 * 1ms);
            break;
        }
        case 2:
            l.pass(random() % (random() % 50 == 0 ? 1'000'000 : 2000) * 1us);
            break;
        case 3:
            if (l.alarm != l.alarm.max()) l.sleep();
            break;
        case 4:
            timers.rearm();
            break;
        default: {
            const auto delay = random() % (random() % 50 == 0 ? 100'000 : 300) * 1ms;
            due[i] = now() + delay;
            timers->arm_after(all[i]->t, delay);
        }
        }
        const auto wakeup = timers->next_wakeup();
        CHECK(!wakeup || l.alarm <= *wakeup);
    }
    while (timers->any_pending()) l.sleep();
}

Test(guest, a_restored_wheel_sets_the_alarm) {
    const auto begin = manual_clock::now();
    manual_loop l;
    guest timers(l);
    probe p;
    timers->arm_after(p.t, 50ms);
    tvec::snapshot saved;
    saved.capture(timers->wheel(), [](const tvec::timer&) { return 1; });
    while (p.fired() == 0) l.sleep();
    l.sets = 0;
    manual_clock::set(begin);
    saved.restore(timers->wheel(), [&](std::uint64_t) { return &p.t; });
    CHECK_GE(l.sets, 1);
    CHECK_LE(l.alarm - begin, 50ms);
    while (p.fired() == 1) l.sleep();
}

Test(guest, a_push_back_sets_no_alarm) {
    manual_loop l;
    guest timers(l);
    probe p;
    timers->arm_after(p.t, 1s);
    const unsigned before = l.sets;
    for (int i = 0; i < 100; ++i) timers->arm_after(p.t, 2s);
    CHECK_EQ(l.sets, before);
}

Test(guest, no_timer_sets_no_alarm) {
    manual_loop l;
    guest timers(l);
    probe p;
    timers->arm_after(p.t, 10ms);
    while (p.fired() == 0) l.sleep();
    CHECK(l.alarm == l.alarm.max());
}

Test(guest, exceptions_leave_the_alarm_set) {
    manual_loop l;
    guest timers(l);
    probe bad([](auto&) { throw std::runtime_error("a callback's"); }), good;
    timers->arm_after(bad.t, 5ms);
    timers->arm_after(good.t, 50ms);
    bool thrown = false;
    try {
        while (bad.fired() == 0) l.sleep();
    } catch (const std::runtime_error&) {
        thrown = true;
    }
    CHECK(thrown);
    while (good.fired() == 0) l.sleep();
}

Test(guest, rearm_follows_a_changed_game_clock) {
    tvec::game_clock<manual_clock> world;
    world.resume();
    manual_loop l;
    guest_on<tvec::game_ticks<std::chrono::milliseconds, manual_clock>> timers(
        l, tvec::game_ticks<std::chrono::milliseconds, manual_clock>(world));
    probe p;
    timers->arm_after(p.t, 10s);
    world.set_speed(100);
    timers.rearm();
    l.pass();
    CHECK_LE(l.alarm.time_since_epoch(), now() + 101ms);
    world.pause();
    timers.rearm();
    l.pass();
    CHECK(l.alarm == l.alarm.max());
}

// A handler's turn goes on: nothing was asked that ends it.
Test(guest, a_handlers_turn_does_not_stop_the_timers) {
    manual_loop l;
    guest_on<ms_of<tvec::turn_clock<manual_clock>>> timers(l);
    probe p;
    const auto begin = now();
    timers->arm_after(p.t, 100ms);
    manual_clock::advance(20ms);
    timers->begin_turn();
    l.sleep();
    while (p.fired() == 0) l.sleep();
    CHECK_LE(now(), begin + 101ms);
}

Test(guest, a_slow_callback_delays_no_later_alarm) {
    manual_loop l;
    guest_on<ms_of<tvec::turn_clock<manual_clock>>> timers(l);
    probe p, arms([&](auto&) {
        timers->arm_after(p.t, 100ms);
        manual_clock::advance(80ms);
    });
    timers->arm_after(arms.t, 1ms);
    while (arms.fired() == 0) l.sleep();
    const auto left = l.alarm - manual_clock::now();
    CHECK_LE(left, 22ms);
}

Test(guest, slow_passes_close_no_client_that_talks) {
    for (const bool alarm_is_first : {false, true})
        support::each_slow_loop([=](auto limit, int parts, auto next_work) {
            manual_loop l;
            guest timers(l);
            support::talkers all(*timers, limit, parts);
            for (int i = 0; i < 2000; ++i) {
                all.poll();
                if (alarm_is_first && l.is_due()) l.ring();
                all.handle(next_work());
                if (!alarm_is_first && l.is_due()) l.ring();
            }
            CHECK_EQ(all.closed, 0);
        });
}
