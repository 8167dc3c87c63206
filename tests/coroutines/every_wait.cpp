// What each wait of a coroutine promises, whether it sleeps, sleeps until a stop or
// waits for a limited time: it ends on its tick, or with its coroutine.
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/coroutines.hpp"
#include "support/probe.hpp"
#include "tvec/extra/stoppable_sleep.hpp"
#include "tvec/inspect/inspect.hpp"

using support::reckless;
using support::started, support::task;
using tvec::jiffies, tvec::timer_wheel;

TestSuite(every_wait, .timeout = 60);

namespace {

// Each makes one wait until a tick.
struct plain_sleep {
    plain_sleep(timer_wheel& on, jiffies tick) : wheel(on), until(tick) {}
    auto wait() { return tvec::sleep_until(wheel, until); }
    timer_wheel& wheel;
    jiffies until;
};
struct sleep_until_stop {
    sleep_until_stop(timer_wheel& on, jiffies tick) : wheel(on), until(tick) {}
    auto wait() { return tvec::sleep_until(wheel, until, stop.get_token()); }
    timer_wheel& wheel;
    jiffies until;
    std::stop_source stop;
};
struct limited_wait {
    limited_wait(timer_wheel& on, jiffies tick) : wheel(on), until(tick) {}
    auto wait() { return tvec::with_timeout_until(wheel, completes_never, until); }
    timer_wheel& wheel;
    jiffies until;
    support::signal completes_never;
};

template <class Wait> task<> waits(Wait& w, int& ended) {
    co_await w.wait();
    ++ended;
}

// The awaited object is not in the frame: see tvec/extra/stoppable_sleep.hpp on clang 14.
template <class Awaited> reckless waits_and_throws(Awaited& awaited, int& ended) {
    co_await awaited;
    ++ended;
    throw std::runtime_error("from a coroutine");
}

template <class Wait> std::vector<std::unique_ptr<Wait>> several(timer_wheel& wheel, jiffies tick) {
    std::vector<std::unique_ptr<Wait>> all;
    for (int i = 0; i < 6; ++i) all.push_back(std::make_unique<Wait>(wheel, tick));
    return all;
}

}  // namespace

#define EACH_WAIT(name)                                                                            \
    template <class Wait> static void name();                                                      \
    Test(every_wait, name##__sleep) { name<plain_sleep>(); }                                       \
    Test(every_wait, name##__stoppable_sleep) { name<sleep_until_stop>(); }                        \
    Test(every_wait, name##__with_timeout) { name<limited_wait>(); }                               \
    template <class Wait> static void name()

EACH_WAIT(a_wait_ends_on_its_tick_without_clock) {
    timer_wheel wheel(250);
    Wait w(wheel, 260);
    int ended = 0;
    task<> t = started(waits(w, ended));
    wheel.advance(259);
    CHECK_EQ(ended, 0);
    wheel.advance(260);
    CHECK_EQ(ended, 1);
    CHECK(t.done());
    CHECK_EQ(check(wheel), "");
}

EACH_WAIT(a_wait_ends_with_its_coroutine) {
    timer_wheel wheel;
    Wait w(wheel, 10);
    int ended = 0;
    {
        task<> t = started(waits(w, ended));
        CHECK_EQ(wheel.count_pending(), 1);
    }
    CHECK_EQ(wheel.count_pending(), 0);
    wheel.advance(20);
    CHECK_EQ(ended, 0);
    CHECK_EQ(wheel.count().fired, 0);
}

EACH_WAIT(a_callback_may_destroy_waits_on_their_tick) {
    for (const bool first : {false, true}) {
        timer_wheel wheel;
        const auto all = several<Wait>(wheel, 10);
        std::vector<std::optional<task<>>> waiting(all.size());
        support::probe killer([&](timer_wheel&) {
            for (auto& t : waiting) t.reset();
        });
        int ended = 0;
        if (first) wheel.arm_at(killer.t, 10);
        for (std::size_t i = 0; i < all.size(); ++i) {
            waiting[i].emplace(waits(*all[i], ended));
            waiting[i]->start();
        }
        if (!first) wheel.arm_at(killer.t, 10);
        wheel.advance(20);
        CHECK_EQ(killer.fired(), 1);
        CHECK_EQ(wheel.count().fired, 1 + ended);
        CHECK_EQ(wheel.count_pending(), 0);
        CHECK_EQ(check(wheel), "");
    }
}

EACH_WAIT(exceptions_after_a_wait_leave_others_due) {
    timer_wheel wheel;
    const auto all = several<Wait>(wheel, 10);
    std::vector<std::unique_ptr<decltype(all[0]->wait())>> awaited;
    std::vector<reckless> waiting;
    int ended = 0;
    for (const auto& w : all) {
        awaited.emplace_back(new auto(w->wait()));
        waiting.push_back(waits_and_throws(*awaited.back(), ended));
    }
    for (std::size_t i = 1; i <= all.size(); ++i) {
        bool thrown = false;
        try {
            wheel.advance(10);
        } catch (const std::runtime_error&) {
            thrown = true;
        }
        CHECK(thrown);
        CHECK_EQ(ended, i);
        CHECK_EQ(wheel.count_pending(), all.size() - i);
    }
    CHECK(wheel.advance(10).caught_up);
    CHECK_EQ(check(wheel), "");
}

EACH_WAIT(a_wait_never_ends_without_its_wheel) {
    std::optional<timer_wheel> wheel(std::in_place);
    Wait w(*wheel, 10);
    int ended = 0;
    task<> t = started(waits(w, ended));
    wheel.reset();
    CHECK_EQ(ended, 0);
    CHECK(!t.done());
}
