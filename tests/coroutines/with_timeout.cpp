// Awaiting for a limited time: exactly one of completion and timeout happens, and whatever has lost
// is gone before the coroutine goes on.
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/check.hpp"
#include "support/coroutines.hpp"
#include "support/probe.hpp"
#include "tvec/inspect/inspect.hpp"

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using support::manual_timers;
using support::pass;
using support::started, support::task;
using tvec::jiffies;
using tvec::timer_wheel;

TestSuite(with_timeout, .timeout = 60);

namespace {

// Adds the result of one wait: the value, -1 if time ran out, -2 for an exception.
task<> waits(manual_timers& timers, support::signal& s, milliseconds limit, std::vector<int>& out) {
    try {
        const std::optional<int> got = co_await tvec::with_timeout(timers, s, limit);
        out.push_back(got.value_or(-1));
    } catch (const std::runtime_error&) {
        out.push_back(-2);
    }
}

task<int> slow_answer(manual_timers& timers, milliseconds d, std::shared_ptr<int> alive) {
    co_await tvec::sleep_for(timers, d);
    co_return *alive;
}

// An awaiter of the plain kind, given away and held by value.
template <class Result> struct scripted {
    scripted(std::function<Result()> r, bool is_ready) : ready(is_ready), result(std::move(r)) {}
    scripted(scripted&&) = default;
    scripted& operator=(scripted&&) = delete;
    ~scripted() {}  // has nothing to cancel, and says so
    bool await_ready() const { return ready; }
    bool await_suspend(std::coroutine_handle<>) const { return !at_once; }
    Result await_resume() { return result(); }

    bool ready;
    bool at_once = false;
    std::function<Result()> result;
};

}  // namespace

Test(with_timeout, completion_in_time_cancels_the_timer) {
    manual_timers timers;
    support::signal s;
    std::vector<int> out;
    task<> t = started(waits(timers, s, 10ms, out));
    pass(timers, 9ms);
    CHECK(out.empty());
    s.complete(7);
    CHECK(out == std::vector<int>{7});
    CHECK(t.done());
    CHECK_EQ(timers.wheel().count_pending(), 0);
    CHECK_EQ(s.given_up, 0);
}

Test(with_timeout, a_limit_is_never_a_nanosecond_short) {
    manual_timers timers;
    support::signal s;
    std::vector<int> out;
    tvec::manual_clock::advance(300us);
    task<> t = started(waits(timers, s, 10ms, out));
    tvec::manual_clock::advance(10ms - 1ns);
    timers.run();
    CHECK(out.empty());
    tvec::manual_clock::advance(1ms);
    timers.run();
    CHECK(out == std::vector<int>{-1});
}

namespace {

task<> waits_until(manual_timers& on, support::signal& of, milliseconds end, std::vector<int>& o) {
    const auto deadline = tvec::manual_clock::time_point(end);
    const std::optional<int> got = co_await tvec::with_timeout_until(on, of, deadline);
    o.push_back(got.value_or(-1));
}

}  // namespace

Test(with_timeout, with_timeout_until_waits_for_its_time_point) {
    manual_timers timers;
    pass(timers, 5ms);
    support::signal first, second, third;
    std::vector<int> out;
    task<> in_time = waits_until(timers, first, 10ms, out);
    task<> too_late = waits_until(timers, second, 10ms, out);
    task<> past = waits_until(timers, third, 2ms, out);
    for (task<>* t : {&in_time, &too_late, &past}) t->start();
    pass(timers, 1ms);
    CHECK(out == std::vector<int>{-1});
    pass(timers, 3ms);
    first.complete(7);
    CHECK(out == (std::vector<int>{-1, 7}));
    pass(timers, 1ms);
    CHECK(out == (std::vector<int>{-1, 7, -1}));
    CHECK_EQ(second.given_up, 1);
}

Test(with_timeout, a_timed_out_wait_leaves_nothing_waiting) {
    manual_timers timers;
    support::signal s;
    std::vector<int> out;
    task<> t = started(waits(timers, s, 10ms, out));
    pass(timers, 10ms);
    CHECK(out == std::vector<int>{-1});
    CHECK_EQ(s.given_up, 1);
    CHECK(!s.awaited());
    s.complete(7);
    CHECK_EQ(out.size(), 1);
}

namespace {

long holders_after(const std::optional<int>& got, const std::shared_ptr<int>& a) {
    return got ? -2 : a.use_count();
}

task<> counts_holders(manual_timers& on, std::shared_ptr<int> a, long& n) {
    // One expression, so that temporaries would live until its end.
    n = holders_after(co_await tvec::with_timeout(on, slow_answer(on, 50ms, a), 10ms), a);
}

}  // namespace

Test(with_timeout, abandoned_waits_are_destroyed_before_the_coroutine_resumes) {
    manual_timers timers;
    const auto alive = std::make_shared<int>(7);
    long holders = -1;
    task<> t = started(counts_holders(timers, alive, holders));
    pass(timers, 10ms);
    CHECK_EQ(holders, 2);  // ours, and that of the coroutine
    CHECK_EQ(timers.wheel().count_pending(), 0);
}

namespace {

task<> takes_two_answers(manual_timers& on, std::vector<int>& o) {
    const auto nine = std::make_shared<int>(9);
    o.push_back((co_await tvec::with_timeout(on, slow_answer(on, 5ms, nine), 6ms)).value_or(-1));
    o.push_back((co_await tvec::with_timeout(on, slow_answer(on, 6ms, nine), 5ms)).value_or(-1));
    CHECK_EQ(nine.use_count(), 1);
}

}  // namespace

Test(with_timeout, with_timeout_gives_the_values_of_tasks) {
    manual_timers timers;
    std::vector<int> out;
    task<> t = started(takes_two_answers(timers, out));
    pass(timers, 20ms);
    CHECK(out == (std::vector<int>{9, -1}));
    CHECK(t.done());
}

Test(with_timeout, an_exception_passes_and_cancels_the_timer) {
    manual_timers timers;
    support::signal s;
    std::vector<int> out;
    task<> t = started(waits(timers, s, 10ms, out));
    s.complete(-1);
    CHECK(out == std::vector<int>{-2});
    CHECK_EQ(timers.wheel().count_pending(), 0);
}

namespace {

// Throws instead of suspending.
struct refuses {
    refuses() = default;
    refuses(refuses&&) = default;
    refuses& operator=(refuses&&) = delete;
    ~refuses() {}
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<>) const { throw std::runtime_error("no"); }
    void await_resume() const {}
};

task<> holds_what_refuses(timer_wheel& on, std::string& what) {
    auto held = tvec::with_timeout(on, refuses(), 5);
    try {
        co_await held;
    } catch (const std::runtime_error& e) {
        what = e.what();
    }
    co_await tvec::sleep_for(on, 100);
}

}  // namespace

Test(with_timeout, an_exception_from_suspending_cancels_the_timer) {
    timer_wheel wheel;
    std::string said;
    task<> t = started(holds_what_refuses(wheel, said));
    CHECK_EQ(said, "no");
    CHECK_EQ(wheel.count_pending(), 1);
    wheel.advance(50);
    CHECK(!t.done());
    wheel.advance(100);
    CHECK(t.done());
}

Test(with_timeout, a_ready_awaitable_arms_no_timer) {
    manual_timers timers;
    for (const milliseconds limit : {10ms, 0ms, -10ms}) {
        support::signal s;
        std::vector<int> out;
        s.complete(3);
        task<> t = started(waits(timers, s, limit, out));
        CHECK(out == std::vector<int>{3});
        CHECK(!timers.next_wakeup());
    }
}

namespace {

task<> takes_what_is_there_at_once(timer_wheel& on, std::optional<int>& o) {
    scripted<int> s([] { return 5; }, false);
    s.at_once = true;
    o = co_await tvec::with_timeout(on, std::move(s), 10);
}

}  // namespace

Test(with_timeout, an_awaiter_may_decline_to_suspend) {
    timer_wheel wheel;
    std::optional<int> got;
    task<> t = started(takes_what_is_there_at_once(wheel, got));
    CHECK_EQ(got, std::optional(5));
    CHECK_EQ(wheel.count_pending(), 0);
}

namespace {

// Resumes the coroutine before its suspending is over.
struct impatient {
    impatient() = default;
    impatient(impatient&&) = default;
    impatient& operator=(impatient&&) = delete;
    ~impatient() {}
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> waiting) const { waiting.resume(); }
    int await_resume() const { return 6; }
};

task<> takes_what_cannot_wait(timer_wheel& on, std::optional<int>& o) {
    o = co_await tvec::with_timeout(on, impatient(), 10);
}

}  // namespace

Test(with_timeout, a_wait_may_end_while_suspending) {
    timer_wheel wheel;
    std::optional<int> got;
    task<> t = started(takes_what_cannot_wait(wheel, got));
    CHECK(t.done());
    CHECK_EQ(got, std::optional(6));
    CHECK_EQ(wheel.count_pending(), 0);
}

Test(with_timeout, a_nonpositive_limit_ends_on_the_next_tick) {
    manual_timers timers;
    for (const milliseconds limit : {0ms, -10ms}) {
        support::signal s;
        std::vector<int> out;
        task<> t = started(waits(timers, s, limit, out));
        timers.run();
        CHECK(out.empty());
        pass(timers, 1ms);
        CHECK(out == std::vector<int>{-1});
    }
}

namespace {

task<> waits_for_ever(timer_wheel& on, support::signal& of, std::optional<int>& o) {
    o = co_await tvec::with_timeout(on, of, tvec::never);
}

}  // namespace

Test(with_timeout, an_endless_limit_never_times_out) {
    timer_wheel wheel;
    support::signal s;
    std::optional<int> got;
    task<> t = started(waits_for_ever(wheel, s, got));
    CHECK(!wheel.next_wakeup());
    wheel.advance(jiffies{1} << 40);
    s.complete(1);
    CHECK_EQ(got, std::optional(1));
}

namespace {

struct kinds {
    bool completed = false;
    bool too_late = true;
    int object = 4;
    int* referred = nullptr;
};

task<> takes_all_kinds(timer_wheel& on, kinds& k) {
    k.completed = co_await tvec::with_timeout(on, tvec::sleep_for(on, 2), 5);
    k.too_late = co_await tvec::with_timeout(on, tvec::sleep_for(on, 5), 2);
    scripted<int&> s([&]() -> int& { return k.object; }, true);
    const std::optional<std::reference_wrapper<int>> r =
        co_await tvec::with_timeout(on, std::move(s), 5);
    k.referred = &r->get();
}

}  // namespace

Test(with_timeout, the_result_type_follows_the_awaitables_type) {
    timer_wheel wheel;
    kinds k;
    task<> t = started(takes_all_kinds(wheel, k));
    wheel.advance(20);
    CHECK(t.done());
    CHECK(k.completed);
    CHECK(!k.too_late);
    CHECK(k.referred == &k.object);
}

namespace {

task<> takes_a_pointer(timer_wheel& on, std::optional<std::unique_ptr<int>>& o) {
    scripted<std::unique_ptr<int>> s([] { return std::make_unique<int>(6); }, true);
    o = co_await tvec::with_timeout(on, std::move(s), 10);
}

}  // namespace

Test(with_timeout, move_only_results_are_moved_out) {
    timer_wheel wheel;
    std::optional<std::unique_ptr<int>> got;
    task<> t = started(takes_a_pointer(wheel, got));
    CHECK(got && *got && **got == 6);
}

namespace {

task<> races(timer_wheel& on, int& n) {
    co_await tvec::with_timeout(on, tvec::sleep_until(on, 10), 10);
    ++n;
    co_await tvec::sleep_for(on, 100);  // a second resumption would end this
    ++n;
}

}  // namespace

Test(with_timeout, completion_and_timeout_exclude_each_other) {
    for (const int pad : {0, 1, 2, 3, 4, 5, 6, 7}) {  // so that either comes first in the tick
        timer_wheel wheel;
        std::vector<support::probe> others(static_cast<std::size_t>(pad));
        for (auto& p : others) wheel.arm_at(p.t, 10);
        int ended = 0;
        task<> t = started(races(wheel, ended));
        wheel.advance(10);
        CHECK_EQ(ended, 1);
        CHECK_EQ(wheel.count().fired, pad + 1);
        CHECK_EQ(wheel.count_pending(), 1);
        wheel.advance(110);
        CHECK_EQ(ended, 2);
    }
}

namespace {

task<> waits_twice(timer_wheel& on, support::signal& of, std::vector<std::optional<int>>& o) {
    o.push_back(co_await tvec::with_timeout(on, of, 10));
    o.push_back(co_await tvec::with_timeout(on, of, 10));
}

}  // namespace

Test(with_timeout, completion_and_timeout_on_one_tick_agree) {
    timer_wheel wheel;
    support::signal s;
    std::vector<std::optional<int>> out;
    std::vector<support::probe> completers(2);  // one before it in the slot, one after
    for (auto& c : completers)
        c.then = [&](timer_wheel&) {
            if (s.awaited()) s.complete(1);
        };
    wheel.arm_at(completers[0].t, 10);
    task<> t = started(waits_twice(wheel, s, out));
    wheel.arm_at(completers[1].t, 10);
    wheel.advance(10);
    CHECK_GE(out.size(), 1u);
    CHECK_EQ(out.size() + static_cast<std::size_t>(s.awaited()), 2);
    wheel.advance(100);
    REQUIRE_EQ(out.size(), 2);
    CHECK_EQ(static_cast<int>(!out[0]) + static_cast<int>(!out[1]), s.given_up);
    CHECK_EQ(check(wheel), "");
}

Test(with_timeout, a_destroyed_coroutine_cancels_wait_and_timer) {
    manual_timers timers;
    support::signal s;
    std::vector<int> out;
    for (const milliseconds before : {0ms, 3ms, 9ms}) {
        task<> t = started(waits(timers, s, 10ms, out));
        pass(timers, before);
        CHECK(s.awaited());
    }
    CHECK(!s.awaited());
    CHECK_EQ(s.given_up, 3);
    CHECK_EQ(timers.wheel().count_pending(), 0);
    pass(timers, 20ms);
    CHECK(out.empty());
}

namespace {

task<> holds_it_and_sleeps(timer_wheel& on, support::signal& of, int& n) {
    auto held = tvec::with_timeout(on, of, 10);
    co_await held;
    ++n;
    co_await tvec::sleep_for(on, 100);
    ++n;
}

}  // namespace

Test(with_timeout, a_completed_wait_never_fires_its_timer) {
    timer_wheel wheel;
    support::signal s;
    int reached = 0;
    task<> t = started(holds_it_and_sleeps(wheel, s, reached));
    s.complete(1);
    wheel.advance(50);
    CHECK_EQ(reached, 1);
    wheel.advance(100);
    CHECK_EQ(reached, 2);
    CHECK_EQ(wheel.count().fired, 1);
}

namespace {

task<> holds_what_timed_out(timer_wheel& on, support::signal& of, int& n) {
    auto by_reference = tvec::with_timeout(on, of, 2);
    co_await by_reference;
    auto by_value = tvec::with_timeout(on, tvec::sleep_until(on, 20), 2);
    co_await by_value;
    ++n;
    co_await tvec::sleep_until(on, 100);
    ++n;
}

}  // namespace

Test(with_timeout, a_timed_out_wait_holds_no_awaitable) {
    timer_wheel wheel;
    support::signal s;
    int reached = 0;
    task<> t = started(holds_what_timed_out(wheel, s, reached));
    wheel.advance(50);
    CHECK_EQ(s.given_up, 1);
    CHECK_EQ(reached, 1);
    wheel.advance(100);
    CHECK_EQ(reached, 2);
}

Test(with_timeout, a_limited_wait_may_stay_unawaited) {
    timer_wheel wheel;
    support::signal s;
    auto unused = tvec::with_timeout(wheel, s, 10);
    auto moved = std::move(unused);
    static_cast<void>(moved);
    CHECK_EQ(wheel.count_pending(), 0);
    wheel.advance(20);
    CHECK_EQ(wheel.count().fired, 0);
}

namespace {

using nested = std::optional<std::optional<int>>;

task<> waits_within_a_wait(manual_timers& on, support::signal& of, milliseconds inner,
                           milliseconds outer, std::vector<nested>& o) {
    o.push_back(co_await tvec::with_timeout(on, tvec::with_timeout(on, of, inner), outer));
}

}  // namespace

Test(with_timeout, the_shorter_of_nested_limits_wins) {
    manual_timers timers;
    support::signal s;
    std::vector<nested> out;
    task<> inner_wins = started(waits_within_a_wait(timers, s, 5ms, 9ms, out));
    pass(timers, 9ms);
    task<> outer_wins = started(waits_within_a_wait(timers, s, 9ms, 5ms, out));
    pass(timers, 9ms);
    task<> neither = started(waits_within_a_wait(timers, s, 5ms, 9ms, out));
    s.complete(8);

    REQUIRE_EQ(out.size(), 3);
    CHECK(out[0] && !*out[0]);
    CHECK(!out[1]);
    CHECK(out[2] && *out[2] == 8);
    CHECK_EQ(s.given_up, 2);
    CHECK_EQ(timers.wheel().count_pending(), 0);
}

namespace {

task<int> counts_rounds(manual_timers& on, support::signal& of, int& n) {
    while (true) {
        if (const auto got = co_await tvec::with_timeout(on, of, 3ms)) co_return *got;
        ++n;
    }
}

task<> allows_10_ms(manual_timers& on, support::signal& of, int& n) {
    const auto got = co_await tvec::with_timeout(on, counts_rounds(on, of, n), 10ms);
    if (!got) n += 100;
}

}  // namespace

Test(with_timeout, a_limit_ends_all_waits_of_a_task) {
    manual_timers timers;
    support::signal s;
    int rounds = 0;
    task<> t = started(allows_10_ms(timers, s, rounds));
    pass(timers, 30ms);
    CHECK_EQ(rounds, 103);
    CHECK(t.done());
    CHECK(!s.awaited());
    CHECK_EQ(timers.wheel().count_pending(), 0);
}

Test(with_timeout, a_wait_without_a_wheel_has_no_limit) {
    std::optional<manual_timers> timers(std::in_place);
    support::signal s;
    std::vector<int> out;
    task<> t = started(waits(*timers, s, 10ms, out));
    timers.reset();
    s.complete(2);
    CHECK(out == std::vector<int>{2});
}

Test(with_timeout, waits_that_cannot_be_abandoned_are_refused) {
    using tvec::detail::abandonable;
    static_assert(!abandonable<std::suspend_always>::ends_what_it_began);
    static_assert(abandonable<tvec::sleeper>::ends_what_it_began);
    static_assert(abandonable<support::signal&>::ends_what_it_began);
    static_assert(abandonable<task<int>>::ends_what_it_began);
    timer_wheel* const wheel = nullptr;
    static_assert(noexcept(tvec::sleep_for(*wheel, 1)));
    static_assert(
        noexcept(tvec::sleep_for(std::declval<manual_timers&>(), std::declval<milliseconds>())));
    static_assert(noexcept(tvec::with_timeout(*wheel, tvec::sleep_for(*wheel, 1), 1)));
    static_assert(noexcept(tvec::with_timeout_until(*wheel, tvec::sleep_for(*wheel, 1), 1)));
    using timed_sleep = tvec::timed<tvec::sleeper>;
    static_assert(noexcept(std::declval<timed_sleep&>().await_ready()));
    static_assert(noexcept(std::declval<timed_sleep&>().await_suspend(std::coroutine_handle<>())));
    static_assert(noexcept(std::declval<timed_sleep&>().await_resume()));
}
