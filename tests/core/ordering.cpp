// All of tick x runs before any of tick x+1, also when advance jumps. In a callback now() is
// the running tick, and behind() the distance to go. Within a tick the order is a function of
// the calls made and of nothing else.
#include <algorithm>
#include <random>
#include <utility>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(ordering, .timeout = 60);

namespace {

using trace = std::vector<std::pair<jiffies, std::size_t>>;  // (tick, which timer)

// Arms many timers, pushes some back, pulls some in, cancels some, and advances in steps of
// `stride`. `scattered` gives the timers other addresses.
trace play(jiffies start, jiffies stride, bool scattered) {
    const std::size_t n = support::scaled(2'000, 500);
    std::mt19937_64 random(3);
    timer_wheel wheel(start);
    std::vector<std::unique_ptr<char[]>> padding;
    std::vector<std::unique_ptr<probe>> all;
    trace fired;
    for (std::size_t i = 0; i < n; ++i) {
        if (scattered) padding.push_back(std::make_unique<char[]>(1 + (i * 7919) % 3000));
        all.push_back(std::make_unique<probe>(
            [&fired, i](timer_wheel& w) { fired.emplace_back(w.now(), i); }));
    }
    for (auto& p : all) wheel.arm_after(p->t, random() % 20'000);
    for (std::size_t i = 0; i < n / 2; ++i)
        wheel.arm_after(all[random() % n]->t, random() % 40'000);
    for (std::size_t i = 0; i < n / 10; ++i) all[random() % n]->t.cancel();
    for (jiffies t = 0; t < 40'000; t += stride) wheel.advance(start + t + stride);
    return fired;
}

// Returns the trace shifted by `shift` ticks.
trace shifted(trace fired, jiffies shift) {
    for (auto& [tick, which] : fired) tick -= shift;
    return fired;
}

}  // namespace

Test(ordering, ticks_run_in_order_however_far_advance_jumps) {
    for (const jiffies start : support::starts()) {
        const trace fired = play(start, 40'000, false);
        CHECK_GE(fired.size(), support::scaled(1'500, 375));
        for (std::size_t i = 1; i < fired.size(); ++i)
            REQUIRE_LE(fired[i - 1].first, fired[i].first);
    }
}

Test(ordering, the_order_does_not_depend_on_addresses) {  // not FIFO
    for (const jiffies start : support::starts())
        for (const jiffies stride : {1, 50, 40'000})
            CHECK(play(start, stride, false) == play(start, stride, true));
}

Test(ordering, a_jump_fires_what_small_steps_fire) {  // the order within a tick may differ
    for (const jiffies start : support::starts()) {
        trace steps = play(start, 1, false);
        trace jump = play(start, 40'000, false);
        std::sort(steps.begin(), steps.end());
        std::sort(jump.begin(), jump.end());
        CHECK(steps == jump);
    }
}

Test(ordering, a_replay_whole_turns_later_keeps_its_order) {
    for (const jiffies turns : {1, 2, 1'000}) {
        const jiffies shift =
            turns * 2 * tvec::detail::geometry::width_of(tvec::detail::geometry::overflow);
        for (const jiffies start : {0, 300, (1 << 26) - 7})
            for (const jiffies stride : {1, 50, 40'000})
                CHECK(shifted(play(start + shift, stride, false), shift) ==
                      play(start, stride, false));
    }
}

Test(ordering, firing_ticks_do_not_depend_on_start) {
    trace at_zero = play(0, 50, false);
    std::sort(at_zero.begin(), at_zero.end());
    for (const jiffies start : support::starts()) {
        trace later = shifted(play(start, 50, false), start);
        std::sort(later.begin(), later.end());
        CHECK(later == at_zero);
    }
}

Test(ordering, callbacks_see_the_tick_being_run) {
    timer_wheel wheel(100);
    probe first, second;
    wheel.arm_at(first.t, 150);
    wheel.arm_at(second.t, 5'000);
    wheel.advance(10'000);
    CHECK(first.fired_only_at(150));
    CHECK(second.fired_only_at(5'000));
    CHECK_EQ(wheel.now(), 10'000);
}

Test(ordering, behind_says_how_late_a_callback_is) {
    timer_wheel wheel;
    jiffies behind = 0;
    probe p([&](timer_wheel& w) { behind = w.behind(); });
    wheel.arm_after(p.t, 15);
    wheel.advance(32);
    CHECK_EQ(behind, 17);
    CHECK_EQ(wheel.behind(), 0);
}

Test(ordering, cascades_meeting_on_one_tick_fire_together) {
    const jiffies base = 0x1659418c000;
    timer_wheel wheel(base - 2048);
    probe early, late;
    wheel.arm_at(early.t, base);
    wheel.advance(base - 100);
    wheel.arm_at(late.t, base);
    wheel.advance(base - 100);
    wheel.advance(base - 100);
    CHECK_EQ(wheel.advance(base).fired, 2);
    CHECK_EQ(wheel.advance(base + 1024).fired, 0);
}

Test(ordering, a_timer_survives_calls_just_before_its_tick) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, 193);
    for (const jiffies tick : {62, 192, 192}) {
        wheel.advance(tick);
        CHECK_EQ(p.fired(), 0);
    }
    wheel.advance(193);
    CHECK(p.fired_only_at(193));
}
