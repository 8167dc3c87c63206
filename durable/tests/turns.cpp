// A turn of the loop is short in every backlog, ends reach the store between slices, and memory is
// bounded in bytes.
#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "support/check.hpp"
#include "support/durable.hpp"

using namespace std::chrono_literals;
using support::beside, support::durable_process, support::in;
using support::asking::count, support::asking::list;
using namespace tvec::durable;

TestSuite(durable_turns, .timeout = 600);

namespace {

// Answers as many requests in one turn as told to.
struct counted_store : memory_store {
    using memory_store::memory_store;
    std::size_t run() override {
        std::size_t called = 0;
        for (; called < most && (serve() || has_answers()); ++called) answer();
        return called;
    }
    std::size_t most = 1'000'000;
};

// A backlog of overdue timers, and slow handlers.
struct backlog {
    using wheel = durable_process::wheel;

    backlog(int timers_there, options settings, std::chrono::milliseconds from_now = -1s,
            const std::string& body = {})
        : o(settings) {
        beside other(all);
        for (int i = 0; i < timers_there; ++i)
            support::asking::put(other, {std::to_string(i), in(from_now), body});
    }
    void on(const delivery& d) {
        came.insert(d.token.id);
        ++in_this_turn;
        tvec::manual_clock::advance(takes);
        ends ? timers.done(d.token) : kept.push_back(d.token);
    }
    std::size_t turn() {
        in_this_turn = 0;
        tvec::manual_clock::advance(1ms);
        wheels.run();
        timers.run();
        return in_this_turn;
    }
    std::size_t longest_of(int turns) {
        std::size_t most = 0;
        for (; turns > 0; --turns) most = std::max(most, turn());
        return most;
    }

    options o;
    std::chrono::milliseconds takes{};
    bool ends = true;
    std::set<std::string> came{};
    std::vector<token> kept{};  // that were not ended
    std::size_t in_this_turn = 0;
    memory_database all{1, support::durable_now};
    wheel wheels{};
    counted_store store{all, "one", 100ms};
    tvec::durable::timers<wheel> timers{wheels, store, [this](const delivery& d) { on(d); }, o};
};

options of_slices(std::size_t n) {
    options o;
    o.max_deliveries_per_turn = n;
    return o;
}

}  // namespace

Test(durable_turns, a_turn_starts_no_handler_after_its_time) {
    backlog w(2'000, {});
    w.takes = 3ms;
    CHECK_EQ(w.longest_of(700), 4U);  // until 10 ms have passed
    CHECK_EQ(w.came.size(), 2'000U);
}

Test(durable_turns, a_turn_delivers_at_most_one_slice) {
    backlog w(1'000, of_slices(20), 100ms);  // claimed ahead, and due all at once
    w.ends = false;
    CHECK_EQ(w.longest_of(1'000), 20U);
    CHECK_EQ(w.came.size(), 1'000U);
}

Test(durable_turns, at_most_one_slice_has_unstored_ends) {
    backlog w(1'000, of_slices(20));
    for (int i = 0; i < 10 && w.came.empty(); ++i) w.turn();
    w.store.most = 0;  // no more answers
    w.longest_of(50);
    const std::size_t ended = w.timers.counters().done;
    CHECK_LE(w.came.size(), ended + 20U);
    w.store.most = 1'000;
    w.longest_of(1'000);
    CHECK_EQ(w.timers.counters().done, 1'000U);
}

Test(durable_turns, a_kill_repeats_at_most_one_slice) {
    backlog w(1'000, of_slices(20), 100ms);
    w.longest_of(90);
    for (int i = 0; i < 500 && w.came.size() < 300; ++i) {
        w.store.most = i % 10 == 0 ? 1 : 0;
        w.turn();
    }
    CHECK_GE(w.came.size(), 300U);
    const auto left = list(beside(w.all), timer_set::waiting, {}, 2'000);
    CHECK_LE(std::ranges::count_if(left, [&](auto& t) { return w.came.contains(t.id); }), 20);
}

// Afterwards they are delivered one by one.
Test(durable_turns, a_killed_process_leaves_few_attempts_open) {
    backlog w(1'000, of_slices(20));
    w.longest_of(20);
    CHECK_GE(w.came.size(), 40U);
    const auto left = list(beside(w.all), timer_set::waiting, {}, 2'000);
    CHECK_LE(std::ranges::count_if(left, [](auto& t) { return t.attempt != t.ended; }), 40);
}

Test(durable_turns, bodies_of_undelivered_claims_are_bounded_in_bytes) {
    options o;
    o.max_held_bytes = 10'000;
    memory_database all(1, support::durable_now);
    beside other(all);
    for (int i = 0; i < 200; ++i)
        support::asking::put(other, {std::to_string(i), in(100ms), std::string(1'000, 'x')});
    durable_process one(all, "one", o, 90ms);  // claimed long before they are due
    one.settle();
    one.pass(50ms);
    CHECK_GE(one.timers.gauges().being_delivered, 10U);
    CHECK_LE(one.timers.gauges().being_delivered, 20U);
    one.pass(300ms);
    CHECK_EQ(one.got.size(), 200U);
}

Test(durable_turns, bodies_that_handlers_keep_are_bounded_in_bytes) {
    options o;
    o.max_held_bytes = 10'000;
    o.claim_lease = 1h;
    backlog w(200, o, 100ms, std::string(1'000, 'x'));
    w.ends = false;
    w.longest_of(1'000);
    CHECK_GE(w.came.size(), 10U);
    CHECK_LE(w.came.size(), 20U);
    for (std::size_t ended = 0; ended < 200;) {  // each end makes room
        const std::size_t came = w.came.size();
        for (const token& t : std::exchange(w.kept, {})) {
            w.timers.done(t);
            ++ended;
        }
        w.longest_of(10);
        REQUIRE_LE(w.came.size(), came + 20);
    }
    CHECK_EQ(w.came.size(), 200U);
}

Test(durable_turns, pending_puts_beyond_one_are_bounded_in_bytes) {
    options o;
    o.max_put_bytes = 1'000;
    memory_database all(1, support::durable_now);
    durable_process one(all, "one", o);
    one.settle();
    const std::string body(600, 'x');
    CHECK(one.timers.put({"a", in(1h), body}, existing::keep) == refusal::none);
    CHECK(one.timers.put({"b", in(1h), body}, existing::keep) == refusal::too_many);
    CHECK(one.timers.cancel("c") == refusal::none);
    one.settle();
    CHECK(one.timers.put({"b", in(1h), std::string(5'000, 'x')}, existing::keep) == refusal::none);
    one.settle();
    CHECK_EQ(count(beside(all)).waiting, 2U);
}

Test(durable_turns, stopping_ends_in_time_and_reports_unfinished_work) {
    backlog w(10, {});
    w.ends = false;
    w.longest_of(10);
    CHECK_EQ(w.came.size(), 10U);
    w.store.most = 0;  // the store is unreachable
    w.timers.done({"1", 1});
    CHECK(w.timers.put({"new", in(1h)}, existing::keep) == refusal::none);
    int told = 0;
    unfinished left;
    w.timers.stop(
        [&](const unfinished& u) {
            ++told;
            left = u;
        },
        100ms);
    w.longest_of(99);
    CHECK_EQ(told, 0);
    w.longest_of(3);
    CHECK_EQ(told, 1);
    CHECK(left.any());
    CHECK_EQ(left.calls, 1U);
    CHECK_EQ(left.ends, 1U);
    CHECK_EQ(left.shards, 1U);
    w.store.most = 1'000;
    w.longest_of(10);
    CHECK_EQ(told, 1);
}
