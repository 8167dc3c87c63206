// Tests awaiting the first of several things, or all: the first, the end of the others, results,
// exceptions, and coroutines that are destroyed meanwhile. Nothing is allocated.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // it may inline only one of the two below
#endif

#include "tvec/extra/when.hpp"

#include <cstdlib>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "support/check.hpp"
#include "support/coroutines.hpp"
#include "tvec/extra/interval.hpp"
#include "tvec/extra/stoppable_sleep.hpp"
#include "tvec/inspect/inspect.hpp"

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using support::manual_timers;
using support::pass;
using support::started, support::task;

TestSuite(when, .timeout = 60);

namespace {

std::size_t allocations = 0;

// Notes the position of the first, and its value, or -1 for nothing and -2 for an exception.
struct first_of {
    std::size_t index = 99;
    int value = 0;
    bool operator==(const first_of&) const = default;
};

task<> first(manual_timers& timers, support::signal& a, support::signal& b, milliseconds limit,
             first_of& out) {
    try {
        const auto got = co_await tvec::when_any(a, b, tvec::sleep_for(timers, limit));
        out = {got.index(), -1};
        if (const int* const v = std::get_if<0>(&got)) out.value = *v;
        if (const int* const v = std::get_if<1>(&got)) out.value = *v;
    } catch (const std::runtime_error&) {
        out.value = -2;
    }
}

task<int> after(manual_timers& timers, milliseconds d, int value) {
    co_await tvec::sleep_for(timers, d);
    if (value < 0) throw std::runtime_error("failed");
    co_return value;
}

}  // namespace

void* operator new(std::size_t size) {
    ++allocations;
    if (void* const p = std::malloc(size)) return p;
    throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

// --- any ----------------------------------------------------------------------------------------

Test(when, any_gives_the_first_and_cancels_the_others_before_the_coroutine_goes_on) {
    manual_timers timers;
    support::signal a, b;
    first_of out;
    task<> t = started(first(timers, a, b, 10ms, out));
    CHECK(a.awaited() && b.awaited());
    b.complete(7);
    CHECK(out == (first_of{1, 7}));
    CHECK(t.done());
    CHECK_EQ(a.given_up, 1);
    CHECK_EQ(b.given_up, 0);
    CHECK_EQ(timers.wheel().count_pending(), 0);
    a.complete(8);
    pass(timers, 20ms);
    CHECK_EQ(check(timers.wheel()), "");
}

namespace {

task<> first_by_name(support::signal& a, support::signal& b, int& given_up) {
    auto both = tvec::when_any(a, b);
    co_await both;
    given_up = a.given_up;  // while `both` is still there
}

}  // namespace

Test(when, any_cancels_the_others_although_it_lives_on) {
    support::signal a, b;
    int given_up = 0;
    task<> t = started(first_by_name(a, b, given_up));
    b.complete(1);
    CHECK_EQ(given_up, 1);
    CHECK(t.done());
}

Test(when, any_gives_a_sleep_its_position) {
    manual_timers timers;
    support::signal a, b;
    first_of out;
    task<> t = started(first(timers, a, b, 10ms, out));
    pass(timers, 9ms);
    CHECK(!t.done());
    pass(timers, 1ms);
    CHECK(out == (first_of{2, -1}));
    CHECK_EQ(a.given_up + b.given_up, 2);
}

Test(when, any_does_not_begin_what_comes_after_one_that_is_ready) {
    manual_timers timers;
    support::signal a, b;
    first_of out;
    a.complete(7);
    task<> t = started(first(timers, a, b, 10ms, out));
    CHECK(out == (first_of{0, 7}));
    CHECK_EQ(b.given_up, 0);
    CHECK_EQ(timers.wheel().count_pending(), 0);
}

Test(when, any_lets_the_exception_of_the_first_through_when_the_others_are_gone) {
    manual_timers timers;
    support::signal a, b;
    first_of out;
    task<> t = started(first(timers, a, b, 10ms, out));
    a.complete(-1);
    CHECK_EQ(out.value, -2);
    CHECK_EQ(b.given_up, 1);
    CHECK_EQ(timers.wheel().count_pending(), 0);
}

Test(when, destroying_the_coroutine_cancels_all) {
    manual_timers timers;
    support::signal a, b;
    first_of out;
    std::optional<task<>> t(first(timers, a, b, 10ms, out));
    t->start();
    t.reset();
    CHECK_EQ(a.given_up + b.given_up, 2);
    CHECK_EQ(timers.wheel().count_pending(), 0);
    a.complete(1);
    pass(timers, 20ms);
    CHECK_EQ(out.index, 99);
}

namespace {

// Begins with something that completes while it begins, and completes the next as well.
task<int> completes(support::signal& other, int value) {
    other.complete(1);
    co_return value;
}
task<> any_at_once(support::signal& a, first_of& out) {
    const auto got = co_await tvec::when_any(a, completes(a, 7), a);
    out = {got.index(), std::visit([](int v) { return v; }, got)};
}

struct does_not_suspend {
    ~does_not_suspend() {}  // has nothing to cancel, and says so
    bool await_ready() const { return false; }
    bool await_suspend(std::coroutine_handle<>) const { return false; }
    int& await_resume() const { return value; }
    int& value;
};
task<> any_without_suspending(int& value, int*& out) {
    const auto got = co_await tvec::when_any(does_not_suspend{value});
    out = &std::get<0>(got).get();
}

}  // namespace

Test(when, any_may_complete_while_it_begins) {
    support::signal a;
    first_of out;
    task<> t = started(any_at_once(a, out));
    CHECK(t.done());
    CHECK(out == (first_of{0, 1}));
}

Test(when, any_gives_references_and_takes_what_does_not_suspend) {
    int value = 3, *out = nullptr;
    task<> t = started(any_without_suspending(value, out));
    CHECK(out == &value);
}

namespace {

task<> beats_until(manual_timers& timers, support::signal& stop, std::vector<int>& out) {
    tvec::interval every(timers, 10ms);
    for (;;) {
        const auto got = co_await tvec::when_any(every.next(), stop);
        out.push_back(static_cast<int>(got.index()));
        if (out.size() == 5) co_return;
    }
}

}  // namespace

Test(when, a_beat_that_was_cancelled_comes_with_the_next) {
    manual_timers timers;
    support::signal stop;
    std::vector<int> out;
    task<> t = started(beats_until(timers, stop, out));
    pass(timers, 15ms);
    stop.complete(1);
    pass(timers, 4ms);
    CHECK(out == (std::vector<int>{0, 1}));
    pass(timers, 1ms);
    CHECK(out == (std::vector<int>{0, 1, 0}));
}

namespace {

// All kinds of awaitables, one in the other.
task<> nested(manual_timers& timers, support::signal& s, tvec::sleeper& nap, std::string& out) {
    const auto got = co_await tvec::with_timeout(
        timers,
        tvec::when_any(tvec::when_all(s, nap),
                       tvec::with_timeout(timers, after(timers, 1h, 1), 20ms)),
        50ms);
    if (!got)
        out = "time";
    else if (got->index() == 0)
        out = "all";
    else
        out = std::get<1>(*got) ? "value" : "inner time";
}

}  // namespace

Test(when, they_nest_with_each_other_and_with_limits) {
    manual_timers timers;
    support::signal s;
    tvec::sleeper nap = tvec::sleep_for(timers, 5ms);
    std::string out;
    task<> t = started(nested(timers, s, nap, out));
    pass(timers, 10ms);
    s.complete(1);
    CHECK(out == "all");
    CHECK_EQ(timers.wheel().count_pending(), 0);
    task<> again = started(nested(timers, s, nap, out));
    pass(timers, 20ms);
    CHECK(out == "inner time");
    CHECK_EQ(timers.wheel().count_pending(), 0);
    CHECK_EQ(s.given_up, 1);
}

#ifdef __cpp_lib_jthread
namespace {
task<> until_stopped(manual_timers& timers, support::signal& s, std::stop_token token, bool& out) {
    const auto got = co_await tvec::when_any(s, tvec::sleep_for(timers, 1h, token));
    out = std::get<1>(got);
}
}  // namespace

Test(when, any_ends_by_a_stop_request_through_a_sleep_for_a_token) {
    manual_timers timers;
    support::signal s;
    std::stop_source source;
    bool out = false;
    task<> t = started(until_stopped(timers, s, source.get_token(), out));
    source.request_stop();
    pass(timers, 1ms);
    CHECK(out);
}
#endif

// --- all ----------------------------------------------------------------------------------------

namespace {

task<> all(manual_timers& timers, support::signal& s, int second, std::string& out) {
    try {
        auto [a, b, c] =
            co_await tvec::when_all(s, after(timers, 10ms, second), tvec::sleep_for(timers, 5ms));
        static_assert(std::is_same_v<decltype(c), std::monostate>);
        out = std::to_string(a) + " " + std::to_string(b);
    } catch (const std::runtime_error&) {
        out = "exception";
    }
}

}  // namespace

Test(when, all_waits_for_the_last_and_gives_all_results_in_the_order_of_the_arguments) {
    for (const bool signal_last : {false, true}) {
        manual_timers timers;
        support::signal s;
        std::string out;
        task<> t = started(all(timers, s, 7, out));
        if (!signal_last) s.complete(3);
        pass(timers, 9ms);
        CHECK(out == "");
        pass(timers, 1ms);
        CHECK(out == (signal_last ? "" : "3 7"));
        if (signal_last) s.complete(3);
        CHECK(out == "3 7");
    }
}

Test(when, all_throws_when_all_have_completed) {
    manual_timers timers;
    support::signal s;
    std::string out;
    task<> t = started(all(timers, s, 7, out));
    s.complete(-1);
    pass(timers, 9ms);
    CHECK(out == "");
    pass(timers, 1ms);
    CHECK(out == "exception");
    CHECK(t.done());
}

Test(when, all_of_what_is_ready_does_not_suspend) {
    manual_timers timers;
    support::signal s;
    s.complete(1);
    std::string out;
    task<> t = started(all(timers, s, 7, out));
    pass(timers, 10ms);
    CHECK(out == "1 7");
}

Test(when, destroying_the_coroutine_cancels_what_is_left_of_all) {
    manual_timers timers;
    support::signal s;
    std::string out;
    std::optional<task<>> t(all(timers, s, 7, out));
    t->start();
    pass(timers, 7ms);
    t.reset();
    CHECK_EQ(timers.wheel().count_pending(), 0);
    CHECK_EQ(s.given_up, 1);
}

namespace {

// Keeps the handle of the coroutine that awaits it, for the test to destroy.
struct ends_its_waiter {
    explicit ends_its_waiter(std::coroutine_handle<>& w) : waiter(w) {}
    ends_its_waiter(ends_its_waiter&&) = default;
    ~ends_its_waiter() {}
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> w) { waiter = w; }
    void await_resume() const {}
    std::coroutine_handle<>& waiter;
};
support::unowned waits_for_its_end(std::coroutine_handle<>& waiter, support::signal& s) {
    co_await tvec::when_any(s, ends_its_waiter(waiter));
}

}  // namespace

Test(when, an_awaitable_may_destroy_the_coroutine_by_its_handle) {
    std::coroutine_handle<> waiter;
    support::signal s;
    waits_for_its_end(waiter, s);
    CHECK(s.awaited());
    CHECK(!waiter.done());
    waiter.destroy();
    CHECK_EQ(s.given_up, 1);
}

// --- costs --------------------------------------------------------------------------------------

Test(when, nothing_is_allocated_but_the_coroutines) {
    manual_timers timers;
    support::signal a, b;
    first_of out;
    task<> t = first(timers, a, b, 10ms, out);
    tvec::sleeper nap = tvec::sleep_for(timers, 5ms);
    std::string text;
    task<> other = nested(timers, a, nap, text);
    const std::size_t before = allocations;
    t.start();
    b.complete(1);
    CHECK_EQ(allocations - before, 0);
    other.start();
    pass(timers, 100ms);
    CHECK_EQ(allocations - before, 1);  // the coroutine of `after`
}

// --- failures to begin --------------------------------------------------------------------------

namespace {

struct refuses {
    ~refuses() {}
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<>) const { throw std::runtime_error("refused"); }
    void await_resume() const {}
};
template <class Both> task<> begins(Both both, support::signal& later, std::string& out) {
    try {
        co_await both;
    } catch (const std::runtime_error& e) {
        out = e.what();
    }
    co_await later;
    out += ", went on";
}

}  // namespace

Test(when, an_awaitable_that_fails_to_begin_leaves_nobody_who_resumes) {
    for (const bool any : {false, true}) {
        support::signal s, later;
        std::string out;
        task<> t = started(any ? begins(tvec::when_any(s, refuses()), later, out)
                               : begins(tvec::when_all(s, refuses()), later, out));
        s.complete(1);
        CHECK(out == "refused");
        later.complete(1);
        CHECK(out == "refused, went on");
    }
}

// --- beats of intervals -------------------------------------------------------------------------

namespace {

task<> gives_up_a_beat(tvec::timer_wheel& wheel, tvec::interval& every,
                       std::vector<tvec::jiffies>& out) {
    static_cast<void>(co_await tvec::with_timeout(
        wheel, tvec::when_all(every.next(), tvec::sleep_for(wheel, 100)), 15));
    for (int i = 0; i < 2; ++i) {
        const tvec::jiffies missed = co_await every.next();
        out.insert(out.end(), {wheel.now(), missed});
    }
}

}  // namespace

Test(when, a_beat_that_had_completed_comes_again_if_all_are_given_up) {
    tvec::timer_wheel wheel;
    tvec::interval every(wheel, 10);
    std::vector<tvec::jiffies> out;
    task<> t = started(gives_up_a_beat(wheel, every, out));
    for (tvec::jiffies tick = 1; tick <= 40; ++tick) wheel.advance(tick);
    const std::vector<tvec::jiffies> expected{16, 0, 20, 0};
    CHECK(out == expected);
}

Test(when, all_keeps_the_number_of_periods_that_a_beat_had_missed_when_it_completed) {
    tvec::timer_wheel wheel;
    tvec::interval every(wheel, 10);
    std::vector<tvec::jiffies> out;
    const auto waits = [](auto& w, auto& e, auto& seen) -> task<> {
        const auto [missed, slept] = co_await tvec::when_all(e.next(), tvec::sleep_for(w, 35));
        seen = {w.now(), missed};
        seen.push_back(co_await e.next());  // 20 was to come: it is late, and 30 is missed
        seen.push_back(w.now());
        static_cast<void>(slept);
    };
    task<> t = started(waits(wheel, every, out));
    for (tvec::jiffies tick = 1; tick <= 60; ++tick) wheel.advance(tick);
    const std::vector<tvec::jiffies> expected{35, 0, 1, 36};
    CHECK(out == expected);
}
