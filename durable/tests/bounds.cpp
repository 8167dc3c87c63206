// Tests bounds, refusals and failures: bad input, too much of it, a full window, a store that
// fails, handlers that throw, a clock that is set, and `stop`.
#include <chrono>
#include <stdexcept>
#include <string>

#include "support/check.hpp"
#include "support/durable.hpp"

using namespace std::chrono_literals;
using support::beside, support::durable_process, support::in, support::asking::count;
using namespace tvec::durable;

TestSuite(durable_bounds, .timeout = 600);

namespace {

struct on_a_clock_to_set {
    explicit on_a_clock_to_set(options o = {}) : one(all, "one", o) { one.settle(); }

    reading now() const { return support::durable_now() + set_by; }

    std::chrono::milliseconds set_by{};
    memory_database all{1, [this] { return now(); }};
    durable_process one;
};

options small_window() {
    options o;
    o.window = 16;
    return o;
}

}  // namespace

Test(durable_bounds, bad_input_is_refused_and_nothing_is_sent) {
    on_a_clock_to_set w;
    auto& t = w.one.timers;
    const std::string too_long(longest_id + 1, 'x'), too_large(largest_body + 1, 'x');
    CHECK(t.put({"", in(1ms)}, existing::keep) == refusal::bad_id);
    CHECK(t.put({too_long, in(1ms)}, existing::keep) == refusal::bad_id);
    CHECK(t.put({"a", in(1ms), too_large}, existing::keep) == refusal::body_too_large);
    CHECK(t.put({"a", earliest_due - 1ms}, existing::keep) == refusal::bad_due);
    CHECK(t.put({"a", latest_due + 1ms}, existing::keep) == refusal::bad_due);
    CHECK(t.put({"a", in(1ms), "", -1ms}, existing::keep) == refusal::bad_period);
    CHECK(t.put_all({{"a", in(1ms)}, {"", in(1ms)}}, existing::keep) == refusal::bad_id);
    CHECK(t.cancel(too_long) == refusal::bad_id);
    CHECK(t.again({"a", 1}, latest_due + 1ms) == refusal::bad_due);
    CHECK_EQ(t.counters().refused, 9U);
    w.one.settle();
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
    CHECK(w.one.put({std::string(longest_id, 'x'), latest_due}) == put_result::stored);
}

Test(durable_bounds, excess_calls_are_refused_until_others_are_answered) {
    options o;
    o.max_calls = 2;
    on_a_clock_to_set w(o);
    CHECK(w.one.timers.put({"a", in(1h)}, existing::keep) == refusal::none);
    CHECK(w.one.timers.cancel("b") == refusal::none);
    CHECK(w.one.timers.put({"c", in(1h)}, existing::keep) == refusal::too_many);
    w.one.settle();
    CHECK(w.one.timers.put({"c", in(1h)}, existing::keep) == refusal::none);
}

Test(durable_bounds, refusals_name_the_option_out_of_range) {
    memory_database all(1, support::durable_now);
    durable_process::wheel wheels;
    memory_store store(all, "one");
    const auto refused = [&](const std::string& name, auto set) {
        options o;
        set(o);
        try {
            timers<durable_process::wheel> t(
                wheels, store, [](delivery) {}, o);
            CHECK(!"it was accepted");
        } catch (const std::invalid_argument& e) {
            CHECK(std::string(e.what()).find("options::" + name + " is ") != std::string::npos);
        }
    };
    refused("claim_lease", [](options& o) { o.claim_lease = duration::max(); });
    refused("claim_lease", [](options& o) { o.claim_lease = 0ms; });
    refused("horizon", [](options& o) { o.horizon = duration::max(); });
    refused("shard_lease", [](options& o) { o.shard_lease = -1ms; });
    refused("sweep", [](options& o) { o.sweep = 0ms; });
    refused("retry", [](options& o) { o.retry = duration::min(); });
    refused("turn_length", [](options& o) { o.turn_length = 0ms; });
    refused("window", [](options& o) { o.window = 0; });
    refused("max_deliveries_per_turn", [](options& o) { o.max_deliveries_per_turn = 0; });
    refused("max_calls", [](options& o) { o.max_calls = 0; });
    refused("max_put_bytes", [](options& o) { o.max_put_bytes = 0; });
    refused("max_held_bytes", [](options& o) { o.max_held_bytes = 0; });
    timers<durable_process::wheel> t(wheels, store, [](delivery) {});  // the store is free
}

Test(durable_bounds, a_store_refuses_a_second_timers_object) {
    on_a_clock_to_set w;
    durable_process::wheel wheels;
    bool is_refused = false;
    try {
        timers<durable_process::wheel> second(wheels, w.one.store, [](delivery) {});
    } catch (const std::logic_error&) {
        is_refused = true;
    }
    CHECK(is_refused);
    w.one.put({"a", in(10ms)});
    w.one.pass(11ms);
    CHECK_EQ(w.one.got.size(), 1U);
}

Test(durable_bounds, a_full_window_stays_bounded_and_delays_nothing) {
    on_a_clock_to_set w(small_window());
    for (int i = 200; i > 0; --i) w.one.put({std::to_string(i), in(std::chrono::milliseconds(i))});
    for (int i = 0; i < 200; ++i) {
        CHECK_LE(w.one.timers.gauges().near, 17U);
        w.one.pass(1ms);
        CHECK_EQ(w.one.got.size(), i + 1);
    }
    CHECK(w.one.timers.counters().evicted > 0);
}

Test(durable_bounds, setting_the_clock_back_evicts_no_near_timers) {
    std::chrono::milliseconds set_by{};
    memory_database all(1, [&] { return support::durable_now() + set_by; });
    for (int i = 0; i < 40; ++i) support::asking::put(beside(all), {std::to_string(i), in(10s)});
    durable_process one(all, "one", small_window());
    one.settle();
    REQUIRE_EQ(one.timers.gauges().near, 16U);
    set_by = -10s;
    one.settle();
    CHECK_EQ(one.timers.gauges().near, 16U);
    CHECK_EQ(one.timers.counters().evicted, 0U);
}

Test(durable_bounds, timers_evicted_during_a_take_need_no_sweep) {
    options o = small_window();
    o.horizon = 100ms;
    on_a_clock_to_set w(o);
    w.one.pass(20ms);
    for (int i = 0; i < 22; ++i)
        CHECK(w.one.timers.put({std::to_string(i), in(60ms + 1ms * i)}, existing::keep) ==
              refusal::none);
    w.one.pass_without_answers(40ms);  // meanwhile it asks for more
    w.one.pass(100ms);
    CHECK_EQ(w.one.timers.counters().swept, 0U);
    CHECK_EQ(w.one.got.size(), 22U);
}

Test(durable_bounds, many_timers_with_one_deadline_all_come) {
    on_a_clock_to_set w(small_window());
    const time_point due = in(100ms);
    for (int i = 0; i < 500; ++i) w.one.put({std::to_string(i), due});
    w.one.pass(400ms);
    CHECK_EQ(w.one.got.size(), 500U);
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
}

Test(durable_bounds, failed_puts_are_reported_and_failed_claims_retried) {
    on_a_clock_to_set w;
    w.one.put({"a", in(10ms)});
    w.one.store.fail(1);
    CHECK(w.one.put({"b", in(10ms)}) == put_result::failed);
    CHECK(!w.one.store.last_failure().empty());
    w.one.store.fail(3);  // the claim, and when it is tried again
    w.one.pass(5s);
    REQUIRE_EQ(w.one.got.size(), 1U);
    CHECK_EQ(w.one.got[0].token.id, "a");
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
}

Test(durable_bounds, an_end_is_repeated_until_it_is_stored) {
    on_a_clock_to_set w;
    w.one.ends = false;
    w.one.put({"a", in(10ms)});
    w.one.pass(10ms);
    REQUIRE_EQ(w.one.got.size(), 1U);
    w.one.store.fail(2);
    bool was_current = false;
    w.one.timers.done(w.one.got[0].token, [&](bool c) { was_current = c; });
    w.one.pass(5s);
    CHECK(was_current);
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
    CHECK_EQ(w.one.got.size(), 1U);
}

Test(durable_bounds, clock_steps_make_no_timer_early_or_late) {
    on_a_clock_to_set w;
    w.one.put({"a", in(1s)});
    w.one.put({"b", in(10min)});
    w.one.pass(500ms);
    w.set_by = -1h;
    w.one.pass(1s);
    CHECK(w.one.got.empty());
    w.set_by = 600ms;
    w.one.pass(2ms);
    REQUIRE_EQ(w.one.got.size(), 1U);
    w.set_by = 10min;
    w.one.pass(3ms);
    REQUIRE_EQ(w.one.got.size(), 2U);
    CHECK(w.one.timers.counters().clock_set >= 3);
}

Test(durable_bounds, a_timer_claimed_ahead_is_punctual_and_cancellable) {
    memory_database all(1, support::durable_now);
    durable_process one(all, "one", {}, 20ms);
    one.settle();
    one.put({"a", in(50ms)});
    one.put({"b", in(50ms)});
    one.pass(40ms);
    CHECK_EQ(one.timers.gauges().being_delivered, 2U);
    CHECK(one.cancel("a") == cancel_result::cancelled);
    one.pass(9ms);
    CHECK(one.got.empty());
    one.pass(1ms);
    REQUIRE_EQ(one.got.size(), 1U);
    CHECK_EQ(one.got[0].token.id, "b");
}

Test(durable_bounds, a_timer_claimed_ahead_follows_backward_clock_steps) {
    for (const auto set_back : {1'000ms, 3ms}) {  // the latter is taken for drift
        for (const bool is_due : {false, true}) {
            std::chrono::milliseconds set_by{};
            memory_database all(1, [&] { return support::durable_now() + set_by; });
            durable_process one(all, "one", {}, 20ms);
            one.settle();
            one.put({"a", in(50ms)});
            one.pass(49ms);
            CHECK_EQ(one.timers.gauges().being_delivered, 1U);
            if (is_due) {
                tvec::manual_clock::advance(1ms);
                one.wheels.run();
            }
            set_by = -set_back;
            one.timers.run();
            one.pass(set_back * 9 / 10);
            CHECK(one.got.empty());
            one.pass(set_back / 10 + 10ms);
            CHECK_EQ(one.got.size(), 1U);
        }
    }
}

// The store fails at one of the turns in which a shard is asked for and its timers are taken.
Test(durable_bounds, a_failed_take_is_asked_again_after_retry) {
    for (int failing = 0; failing < 40; ++failing) {
        memory_database all(1, support::durable_now);
        support::asking::put(support::beside(all), {"a", in(300ms)});
        options o;
        o.retry = 20ms;
        o.shard_lease = 60ms;
        durable_process one(all, "one", o);
        for (int turn = 0; turn < 1'240; ++turn) {  // 310 ms: a sweep would come later
            if (turn % 4 == 0) tvec::manual_clock::advance(1ms);
            if (turn == failing) one.store.fail(1);
            one.turn();
        }
        CHECK_EQ(one.got.size(), 1U);
    }
}

Test(durable_bounds, ready_means_that_all_near_timers_are_loaded) {
    on_a_clock_to_set w;
    std::vector<record> many;
    for (int i = 0; i < 25'000; ++i) many.push_back({std::to_string(i), in(30s)});
    CHECK(w.one.timers.put_all(many, existing::keep) == refusal::none);
    w.one.settle();
    options o;
    o.window = 100'000;
    durable_process two(w.all, "two", o);
    w.one.timers.stop();
    for (int i = 0; i < 10'000 && !two.timers.ready(); ++i) {
        tvec::manual_clock::advance(1ms);
        w.one.turn();
        two.turn();
    }
    CHECK_EQ(two.timers.gauges().near, 25'000U);
}

Test(durable_bounds, stopping_ends_deliveries_and_gives_shards_back) {
    on_a_clock_to_set w;
    w.one.ends = false;
    w.one.put({"a", in(10ms)});
    w.one.pass(10ms);
    REQUIRE_EQ(w.one.got.size(), 1U);
    w.one.timers.done(w.one.got[0].token);
    bool is_over = false;
    w.one.timers.stop([&](const unfinished& u) { is_over = !u.any(); });
    CHECK(!is_over);
    CHECK(w.one.timers.put({"b", in(1ms)}, existing::keep) == refusal::stopping);
    w.one.pass(3ms);
    CHECK(is_over);
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
    durable_process two(w.all, "two");
    two.settle();
    CHECK_EQ(two.timers.gauges().shards, 1U);  // without waiting for a lease
}
