// What every guest promises, on the `host` that the including file defines.
//
// A host has:
//   guest_in(ticks): makes a guest of it
//   run(): until nothing is left, or stop(); returns how often it has turned
//   post(f): calls f once, soon. after(d, f): by a timer of its own. watch(fd, f), until unwatch()
#pragma once

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "tvec/extra/game_clock.hpp"
#include "tvec/extra/tsc_clock.hpp"
#include "tvec/extra/turn_clock.hpp"
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;
using support::probe;

TestSuite(guests, .timeout = 300);

namespace {

// Both ends of a socket.
struct connection {
    connection() {
        REQUIRE_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    }
    ~connection() { ::close(ends[0]), ::close(ends[1]); }
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    void say(int side) const { CHECK_EQ(::send(ends[side], "!", 1, 0), 1); }
    bool hear(int side) const {
        char word = 0;
        return ::recv(ends[side], &word, 1, MSG_DONTWAIT) == 1;
    }
    std::array<int, 2> ends{};
};

// Ends the run when the host's own timer has fired fifty times, or `done`. A timer that is starved
// has not fired then. Counts in the place of time: a slow machine delays both.
void run_until(host& h, const std::function<bool()>& done) {
    int beats = 0;
    std::function<void()> beat = [&] {
        if (done() || ++beats == 50) return h.stop();
        h.after(100ms, beat);
    };
    h.after(1ms, beat);
    h.run();
    CHECK(done());
}

}  // namespace

Test(guests, a_timer_fires_beside_connections_always_talking) {
    host h;
    const auto timers = h.guest_in();
    std::array<connection, 8> pairs;
    for (const connection& c : pairs) {
        for (const int side : {0, 1})
            h.watch(c.ends[side], [&c, side] {
                if (c.hear(side)) c.say(side);
            });
        c.say(0);
    }
    probe p;
    (*timers)->arm_after(p.t, 100ms);
    run_until(h, [&] { return p.fired() == 1; });
    h.unwatch();
}

Test(guests, a_timer_fires_beside_endless_posts) {
    host h;
    const auto timers = h.guest_in();
    probe p;
    (*timers)->arm_after(p.t, 100ms);
    const std::function<void()> again = [&] { h.post(again); };
    again();
    run_until(h, [&] { return p.fired() == 1; });
}

Test(guests, a_mailbox_alone_is_heard_without_spinning) {
    host h;
    const auto timers = h.guest_in();
    tvec::eventfd_doorbell bell;
    tvec::mailbox mailbox(**timers, 4, bell);
    h.watch(bell.fd(), [&] {
        bell.acknowledge();
        mailbox.run();
        mailbox.rearm();
    });
    mailbox.rearm();
    bool fired = false;
    std::thread other([&, sender = mailbox.sender()] {
        std::this_thread::sleep_for(50ms);
        sender.schedule(20ms, [&] {
            fired = true;
            h.unwatch();
        });
    });
    const std::size_t turns = h.run();  // ends, because nothing else is left
    other.join();
    CHECK(fired);
    CHECK_LE(turns, 20);
}

Test(guests, the_run_ends_when_only_timers_are_left) {
    host h;
    const auto timers = h.guest_in();
    probe p;
    (*timers)->arm_after(p.t, 1h);
    bool posted = false;
    h.post([&] { posted = true; });
    h.run();
    CHECK(posted);
    CHECK(p.t.pending());
    p.t.cancel();
    h.run();  // nor do cancelled ones hold it
}

Test(guests, a_kept_loop_waits_for_timers_alone) {
    host h;
    const auto timers = h.guest_in();
    timers->keep_running();
    probe first, last([&](auto&) { timers->keep_running(false); });
    (*timers)->arm_after(first.t, 10ms);
    (*timers)->arm_after(last.t, 40ms);
    CHECK_LE(h.run(), 20);
    CHECK_EQ(first.fired(), 1);
    CHECK_EQ(last.fired(), 1);
}

Test(guests, keep_running_may_be_withdrawn_before_a_wakeup) {
    host h;
    const auto timers = h.guest_in();
    timers->keep_running();
    probe p;
    (*timers)->arm_after(p.t, 1h);
    h.after(20ms, [&] { timers->keep_running(false); });
    h.run();
    CHECK(p.t.pending());
}

Test(guests, an_earlier_timer_fires_wherever_it_is_armed) {
    host h;
    const auto timers = h.guest_in();
    tvec::clocked_wheel<>& wheel = **timers;
    tvec::timeout_pool pool(wheel);
    probe far, before, by_handler, by_callback, between;
    bool by_pool = false;
    wheel.arm_after(far.t, 1h);
    wheel.arm_after(before.t, 60ms);
    before.then = [&](auto&) { wheel.arm_after(by_callback.t, 5ms); };
    h.after(20ms, [&] {
        wheel.arm_after(by_handler.t, 10ms);
        pool.schedule(12ms, [&] { by_pool = true; });
    });
    run_until(
        h, [&] { return by_handler.fired() && before.fired() && by_callback.fired() && by_pool; });
    wheel.arm_after(between.t, 10ms);
    run_until(h, [&] { return between.fired() == 1; });
    CHECK(far.t.pending());
}

Test(guests, a_push_back_does_not_wake_the_loop) {
    host h;
    const auto timers = h.guest_in();
    probe p;
    (*timers)->arm_after(p.t, 1h);
    int left = 1000;
    const std::function<void()> push = [&] {
        (*timers)->arm_after(p.t, 1h);
        if (--left != 0) h.post(push);
    };
    push();
    CHECK_LE(h.run(), 1010);
}

namespace {

// How often the thread sleeps in a fifth of a second in which only the end of it comes.
long sleeps_of_an_idle_loop(bool with_guest) {
    host h;
    const auto timers = with_guest ? h.guest_in() : nullptr;
    probe far, cancelled;
    if (with_guest) {
        (*timers)->arm_after(far.t, 1h);
        (*timers)->arm_after(cancelled.t, 10min);
        cancelled.t.cancel();
    }
    const auto sleeps_until_stopped = [&h](std::chrono::milliseconds d) {
        rusage before{}, after{};
        h.after(d, [&h] { h.stop(); });
        getrusage(RUSAGE_THREAD, &before);
        h.run();
        getrusage(RUSAGE_THREAD, &after);
        return after.ru_nvcsw - before.ru_nvcsw;
    };
    sleeps_until_stopped(20ms);  // has the guest's first turn
    return sleeps_until_stopped(200ms);
}

}  // namespace

Test(guests, an_idle_guest_never_wakes_the_loop) {
    bool once = false;  // a busy machine may put the thread to sleep
    for (int tries = 0; tries < 10 && !once; ++tries)
        once = sleeps_of_an_idle_loop(true) <= sleeps_of_an_idle_loop(false);
    CHECK(once);
}

// The least of ten and more, because a busy machine delays most of them. Three milliseconds are the
// tick, and two to which hosts round: its alarm up, its own timer down.
Test(guests, a_timer_lags_the_hosts_by_one_tick) {
    using clock = std::chrono::steady_clock;
    host h;
    const auto timers = h.guest_in();
    clock::duration late = 1h, late_of_host = 1h;
    for (int tries = 0; tries < 10 || (tries < 100 && late > late_of_host + 3ms); ++tries) {
        clock::time_point due = clock::now() + 10ms;
        probe p([&](auto&) {
            late = std::min(late, clock::now() - due);
            h.stop();
        });
        (*timers)->arm_at(p.t, due);
        h.after(1h, [] {});  // holds the run, until the timer ends it
        h.run();
        due = clock::now() + 10ms;
        h.after(10ms, [&] {
            late_of_host = std::min(late_of_host, clock::now() - due);
            h.stop();
        });
        h.run();
    }
    CHECK_LE(late, late_of_host + 3ms);
}

// A turn makes 256 visits, or as many as fit into a tenth of a second if it was late: 500 of these,
// and what is left of 256.
Test(guests, a_turn_ends_and_others_have_theirs) {
    host h;
    const auto timers = h.guest_in();
    const auto due = support::probes(2000);
    for (const auto& p : due) {
        p->then = [](auto&) { std::this_thread::sleep_for(200us); };
        (*timers)->arm_after(p->t, 10ms);
    }
    std::size_t before = 0;
    bool is_over = false;
    const std::function<void()> look = [&] {
        const std::size_t fired = support::count_fired(due);
        CHECK_LE(fired - before, 500 + 256);
        before = fired;
        if (!is_over) h.post(look);
    };
    look();
    run_until(h, [&] { return is_over = before == due.size(); });
}

Test(guests, talkers_are_heard_before_timers_after_stalls) {
    host h;
    const auto timers = h.guest_in();
    std::array<connection, 200> talkers;  // more than one pass of some hosts hands out
    std::size_t heard = 0, judged_early = 0;
    probe idle([&](auto&) { judged_early = talkers.size() - heard; });
    for (const connection& c : talkers)
        h.watch(c.ends[1], [&] {
            if (c.hear(1)) ++heard;
        });
    h.after(20ms, [&] {
        (*timers)->arm_after(idle.t, 50ms);
        for (const connection& c : talkers) c.say(0);
        std::this_thread::sleep_for(400ms);  // the program blocks
    });
    run_until(h, [&] { return idle.fired() == 1; });
    CHECK_EQ(judged_early, 0);
    h.unwatch();
}

Test(guests, a_stall_cannot_delay_timers_for_ever) {
    host h;
    const auto timers = h.guest_in();
    probe p;
    const std::function<void()> again = [&] { h.post(again); };
    h.post([&] {
        (*timers)->arm_after(p.t, 10ms);
        std::this_thread::sleep_for(300ms);
        again();
    });
    run_until(h, [&] { return p.fired() == 1; });
}

Test(guests, an_always_late_loop_runs_its_timers) {
    host h;
    const auto timers = h.guest_in();
    probe p;
    (*timers)->arm_after(p.t, 10ms);
    const std::function<void()> slow = [&] {
        std::this_thread::sleep_for(120ms);
        h.post(slow);
    };
    h.post(slow);
    run_until(h, [&] { return p.fired() == 1; });
}

// Counted in passes of the slow loop instead of time, beside those by which the host's own timer is
// late. guest.cpp has the bound on a clock that is set; here a busy machine may add a stall.
Test(guests, overload_makes_timers_few_passes_late) {
    struct kind {
        std::size_t timers;
        std::chrono::milliseconds pass;
    };
    using time_point = std::chrono::steady_clock::time_point;
    for (const kind k : {kind{400, 60ms}, kind{1000, 120ms}, kind{2000, 300ms}}) {
        host h;
        const auto timers = h.guest_in();
        std::vector<time_point> passes, due(k.timers);
        const auto passes_since = [&](time_point t) {
            return static_cast<std::size_t>(passes.end() - std::ranges::upper_bound(passes, t));
        };
        std::size_t most = 0, fired = 0, most_of_host = 1;
        bool is_over = false;
        auto all = support::probes(k.timers);
        for (std::size_t i = 0; i < due.size(); ++i) {
            due[i] = std::chrono::steady_clock::now() + 300ms + i * 1000ms / due.size();
            all[i]->then = [&, i](auto&) {
                most = std::max(most, passes_since(due[i]));
                ++fired;
            };
            (*timers)->arm_at(all[i]->t, due[i]);
        }
        const std::function<void()> slow = [&] {
            passes.push_back(std::chrono::steady_clock::now());
            std::this_thread::sleep_for(k.pass);
            if (fired != due.size()) h.post(slow);
        };
        const std::function<void()> own = [&] {
            h.after(1ms, [&, t = std::chrono::steady_clock::now() + 1ms] {
                most_of_host = std::max(most_of_host, passes_since(t));
                is_over = fired == due.size();
                if (!is_over) own();
            });
        };
        h.post(slow);
        own();
        run_until(h, [&] { return is_over; });
        CHECK_LE(most, 6 * most_of_host);
    }
}

namespace {

// Fires beside handlers that post themselves, that are slow, and after a stall; never early.
template <class Ticks> void fires_under_each_load(Ticks ticks) {
    enum class load { none, posts, slow, stall };
    for (const load l : {load::none, load::posts, load::slow, load::stall}) {
        host h;
        const auto timers = h.guest_in(ticks);
        auto& wheel = **timers;
        auto due = wheel.after(30ms);
        probe second(
            [&](auto&) { CHECK_GE(wheel.now().time_since_epoch(), due.time_since_epoch()); });
        probe first([&](auto&) {
            CHECK_GE(wheel.now().time_since_epoch(), due.time_since_epoch());
            due = wheel.after(10ms);
            wheel.arm_at(second.t, due);
        });
        wheel.arm_at(first.t, due);
        const std::function<void()> again = [&] {
            if (l == load::slow) std::this_thread::sleep_for(120ms);
            if (second.fired() == 0) h.post(again);
        };
        if (l == load::posts || l == load::slow) h.post(again);
        if (l == load::stall) h.post([] { std::this_thread::sleep_for(250ms); });
        run_until(h, [&] { return second.fired() == 1; });
    }
}
template <class Clock> using ms_of = tvec::tick_clock<std::chrono::milliseconds, Clock>;

}  // namespace

Test(guests, each_clock_fires_under_each_load) {
    fires_under_each_load(ms_of<std::chrono::steady_clock>());
    fires_under_each_load(ms_of<std::chrono::system_clock>());
    fires_under_each_load(ms_of<tvec::boottime_clock>());
    fires_under_each_load(ms_of<tvec::tsc_clock>());
    fires_under_each_load(ms_of<tvec::turn_clock<>>());
    tvec::game_clock<> world;
    world.resume();
    fires_under_each_load(tvec::game_ticks<std::chrono::milliseconds>(world));
    tvec::game_clock<tvec::turn_clock<>> fast;
    fast.resume();
    fast.set_speed(3);
    fires_under_each_load(tvec::game_ticks<std::chrono::milliseconds, tvec::turn_clock<>>(fast));
}

// Nobody asks for a wake-up in it, which would end the turn.
Test(guests, turns_begun_by_handlers_stop_no_timers) {
    host h;
    const auto timers = h.guest_in(ms_of<tvec::turn_clock<>>());
    probe p;
    (*timers)->arm_after(p.t, 60ms);
    tvec::clocked_wheel<ms_of<tvec::turn_clock<>>> other;
    h.after(10ms, [&] { (*timers)->begin_turn(); });
    h.after(20ms, [&] { (*timers)->run(); });
    h.after(30ms, [&] { other.run(); });
    run_until(h, [&] { return p.fired() == 1; });
}

Test(guests, a_slow_callback_delays_no_later_alarm) {
    bool once = false;  // a busy machine may delay both
    for (int tries = 0; tries < 10 && !once; ++tries) {
        host h;
        const auto timers = h.guest_in(ms_of<tvec::turn_clock<>>());
        bool own = false;
        probe p([&](auto&) { once = once || !own; }), slow([&](auto&) {
            (*timers)->arm_after(p.t, 90ms);
            std::this_thread::sleep_for(70ms);
            h.post([&] { h.after(60ms, [&] { own = true; }); });  // by the time after the callback
        });
        (*timers)->arm_after(slow.t, 1ms);
        run_until(h, [&] { return p.fired() == 1 && own; });
    }
    CHECK(once);
}

Test(guests, a_changed_clock_is_followed_after_rearm) {
    host h;
    tvec::game_clock<> world;
    world.resume();
    const auto timers = h.guest_in(tvec::game_ticks<std::chrono::milliseconds>(world));
    probe p;
    (*timers)->arm_after(p.t, 1h);
    h.after(10ms, [&] {
        world.set_speed(1'000'000);
        timers->rearm();
    });
    run_until(h, [&] { return p.fired() == 1; });
}

Test(guests, two_guests_share_a_loop) {
    host h;
    const auto a = h.guest_in(), b = h.guest_in();
    probe in_a, in_b;
    (*a)->arm_after(in_a.t, 30ms);
    (*b)->arm_after(in_b.t, 10ms);
    run_until(h, [&] { return in_a.fired() == 1 && in_b.fired() == 1; });
    (*a)->arm_after(in_a.t, 1h);
    (*b)->arm_after(in_b.t, 1h);
    h.run();  // neither holds it for the other
}

Test(guests, a_guest_may_be_destroyed_during_run) {
    host h;
    auto timers = h.guest_in();
    const auto other = h.guest_in();
    probe p, q;
    (*timers)->arm_after(p.t, 30ms);
    (*other)->arm_after(q.t, 40ms);
    h.post([&] { timers.reset(); });
    run_until(h, [&] { return q.fired() == 1; });
    CHECK(!p.t.pending());
    CHECK_EQ(p.fired(), 0);
}
