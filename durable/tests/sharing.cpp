// Several processes on one database: shards are shared out, taken over and given back; hints.
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "support/asking.hpp"
#include "support/check.hpp"
#include "support/durable.hpp"

using namespace std::chrono_literals;
using support::beside, support::durable_process, support::in;
using support::asking::claim, support::asking::count, support::asking::own, support::asking::take;
using namespace tvec::durable;

TestSuite(durable_sharing, .timeout = 600);

namespace {

struct three {
    memory_database all{8, support::durable_now};
    std::vector<std::unique_ptr<durable_process>> processes;

    three() {
        for (const char* name : {"one", "two", "three"})
            processes.push_back(std::make_unique<durable_process>(all, name));
        pass(8s);
    }
    void pass(std::chrono::milliseconds d) {
        support::pass(d, [this] {
            for (auto& p : processes) p->settle();
        });
    }
    std::size_t delivered() const {
        std::size_t sum = 0;
        for (const auto& p : processes) sum += p->got.size();
        return sum;
    }
    std::size_t owned() const {
        std::size_t sum = 0;
        for (const auto& p : processes) {
            CHECK_LE(p->timers.gauges().shards, 3U);
            sum += p->timers.gauges().shards;
        }
        return sum;
    }
};

}  // namespace

Test(durable_sharing, each_process_has_its_share_of_shards) {
    three w;
    CHECK_EQ(w.owned(), 8U);
}

Test(durable_sharing, timers_put_by_any_process_come_in_time) {
    three w;
    for (int i = 0; i < 60; ++i)
        w.processes[static_cast<std::size_t>(i % 3)]->put({std::to_string(i), in(20ms)});
    w.pass(22ms);
    CHECK_EQ(w.delivered(), 60U);
}

Test(durable_sharing, a_lost_hint_costs_a_sweep_at_most) {
    three w;
    auto& one = *w.processes[0];
    for (int i = 0; i < 30; ++i)
        CHECK(one.timers.put({std::to_string(i), in(20ms)}, existing::keep) == refusal::none);
    while (one.store.serve()) continue;
    std::size_t lost = 0;
    for (auto& p : w.processes)
        while (p->store.lose_hint()) ++lost;
    CHECK(lost > 0);
    w.pass(21ms);
    CHECK_EQ(w.delivered(), 30 - lost);
    w.pass(1'200ms);
    CHECK_EQ(w.delivered(), 30U);
}

// As those of a transaction that was open until they were overdue.
Test(durable_sharing, any_number_of_lost_hints_costs_one_sweep) {
    memory_database all(1, support::durable_now);
    durable_process one(all);
    one.settle();
    memory_store other(all, "other");
    const std::size_t number = 3'000;
    for (std::size_t i = 0; i < number; ++i)
        support::asking::put(other, {std::to_string(i), in(0ms)});
    while (one.store.lose_hint()) continue;
    one.pass(1'200ms);
    CHECK_EQ(one.got.size(), number);
    CHECK_EQ(one.timers.counters().swept, number);
}

// A sweep may have much to read: claims wait for a part of that.
Test(durable_sharing, shards_are_swept_one_after_the_other) {
    memory_database all(16, support::durable_now);
    options o;
    o.shard_lease = 10min;
    durable_process one(all, "one", o);
    one.settle();
    std::size_t asked = 0;
    support::pass(o.sweep, [&] {
        one.wheels.run();
        CHECK_LE(one.store.unanswered(), 1U);
        asked += one.store.unanswered();
        one.settle();
    });
    CHECK_EQ(asked, 16U);
}

Test(durable_sharing, survivors_inherit_shards_after_a_lease) {
    three w;
    for (int i = 0; i < 30; ++i) w.processes[1]->put({std::to_string(i), in(30s)});
    w.processes.pop_back();
    w.pass(20s);
    std::size_t owned = 0;
    for (auto& p : w.processes) owned += p->timers.gauges().shards;
    CHECK_EQ(owned, 8U);
    w.pass(11s);
    CHECK_EQ(w.delivered(), 30U);
}

namespace {

// One of two claims a timer ahead of its deadline, and is then stopped for that long.
struct stopped_while_it_holds_a_claim {
    memory_database all{1, support::durable_now};
    std::unique_ptr<durable_process> one, two;

    explicit stopped_while_it_holds_a_claim(std::chrono::milliseconds stopped, bool is_shared) {
        options o;
        o.claim_lease = 5s;
        one = std::make_unique<durable_process>(all, "one", o, 20ms);
        one->settle();
        one->put({"a", in(1s)});
        one->pass(990ms);
        CHECK_EQ(one->timers.gauges().being_delivered, 1U);
        CHECK(one->got.empty());
        if (is_shared) {
            two = std::make_unique<durable_process>(all, "two", o, 20ms);
            two->pass(stopped);
        } else {
            tvec::manual_clock::advance(stopped);
        }
        one->pass(20s);
    }
};

}  // namespace

Test(durable_sharing, an_expired_claim_comes_once_from_another_owner) {
    stopped_while_it_holds_a_claim w(20s, true);
    CHECK(w.one->got.empty());
    REQUIRE_EQ(w.two->got.size(), 1U);
    CHECK_EQ(w.two->got[0].token.attempt, 2U);
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
}

// Long before the next sweep.
Test(durable_sharing, timers_replaced_while_delivered_come_in_time) {
    memory_database all(1, support::durable_now);
    options o;
    o.sweep = 10s;
    durable_process one(all, "one", o);
    one.settle();
    one.begin({"a", in(10ms)}, 20ms);
    support::asking::put(beside(all), {"a", in(50ms)}, existing::replace);
    one.pass(51ms);
    CHECK_EQ(one.got.size(), 2U);
}

Test(durable_sharing, handing_over_a_stale_delivery_changes_nothing) {
    memory_database all(1, support::durable_now);
    options o;
    o.sweep = 10s;
    o.claim_lease = 100ms;
    durable_process one(all, "one", o);
    one.settle();
    one.begin({"a", in(10ms)}, 20ms);
    one.pass(100ms);
    REQUIRE_EQ(one.got.size(), 2U);
    one.timers.hand_over(one.got[0].token);
    one.pass(101ms);
    CHECK_EQ(one.got.size(), 3U);
}

Test(durable_sharing, an_owner_that_remains_repeats_its_expired_claim) {
    const stopped_while_it_holds_a_claim w(7s, false);
    REQUIRE_EQ(w.one->got.size(), 1U);
    CHECK_EQ(w.one->got[0].token.attempt, 2U);
    CHECK_EQ(w.one->timers.counters().stale, 0U);
}

Test(durable_sharing, a_late_claim_within_its_lease_is_delivered) {
    const stopped_while_it_holds_a_claim w(4s, false);
    REQUIRE_EQ(w.one->got.size(), 1U);
    CHECK_EQ(w.one->got[0].token.attempt, 1U);
}

Test(durable_sharing, shards_are_requested_and_taken_in_parallel) {
    for (const unsigned shards : {1U, 64U}) {
        memory_database all(shards, support::durable_now);
        durable_process one(all);
        for (int i = 0; i < 4; ++i) one.turn();  // it joins, owns, takes, and has the answers
        CHECK(one.timers.ready());
        CHECK_EQ(one.timers.gauges().shards, shards);
    }
}

Test(durable_sharing, a_shard_counts_while_its_lease_is_renewed) {
    memory_database all(8, support::durable_now);
    durable_process one(all);
    one.pass(1s);
    one.store.fail(1'000);
    one.pass(8s);
    CHECK_EQ(one.timers.gauges().shards, 8U);
    one.pass(4s);
    CHECK_EQ(one.timers.gauges().shards, 0U);
    one.store.fail(0);
    one.pass(4s);
    CHECK_EQ(one.timers.gauges().shards, 8U);
}

Test(durable_sharing, free_shards_are_taken_before_those_of_others) {
    memory_database all(8, support::durable_now);
    for (unsigned shard = 0; shard < 4; ++shard) own(beside(all, "gone"), shard, 60s);
    durable_process one(all);
    one.settle();
    CHECK_EQ(one.timers.gauges().shards, 4U);
    one.pass(70s);
    CHECK_EQ(one.timers.gauges().shards, 8U);
}

Test(durable_sharing, an_answer_lost_with_the_link_is_unknown) {
    memory_database all(1, support::durable_now);
    memory_store s(all, "one");
    CHECK(support::asking::put(s, {"a", in(1h)}) == put_result::stored);
    std::optional<standing> answer;
    const auto note = [&](standing how, const auto& found) {
        answer = how;
        CHECK(!found.has_value());
    };
    s.submit(operations::find{"a", note});
    s.serve();
    s.cut();
    s.run();
    CHECK(answer == standing::unknown);
}

namespace {

// A clock that was an hour ahead when a process owned the shard, claimed a timer and ended.
struct clock_that_was_ahead {
    clock_that_was_ahead() {
        options o;
        o.claim_lease = 100ms;
        durable_process one(all, "one", o);
        one.settle();
        one.ends = false;
        one.put({"claimed", in(1h + 10ms)});
        one.pass(20ms);
        CHECK_EQ(one.got.size(), 1U);
        ahead = {};
    }

    std::chrono::milliseconds ahead = 1h;
    memory_database all{1, [this] { return support::durable_now() + ahead; }};
};

}  // namespace

Test(durable_sharing, a_lease_far_ahead_blocks_no_next_owner) {
    clock_that_was_ahead w;
    memory_store two(w.all, "two");
    CHECK_EQ(support::asking::join(two), 1U);
    CHECK(own(two, 0) != 0);
}

Test(durable_sharing, a_claim_far_ahead_counts_from_now) {
    clock_that_was_ahead w;
    memory_store two(w.all, "two");
    const auto [how, soon] = take(two, 0, own(two, 0), {}, in(100ms), 10);
    CHECK(how == standing::done);
    CHECK_EQ(soon.size(), 1U);
}

Test(durable_sharing, backward_clock_steps_lengthen_no_claim) {
    std::chrono::milliseconds ahead = 1h;
    memory_database all(1, [&] { return support::durable_now() + ahead; });
    memory_store one(all, "one");
    support::asking::put(one, {"a", in(0ms)});
    CHECK_EQ(own(one, 0), 1U);
    CHECK(claim(one, "a", 100ms).what == claimed::kind::granted);
    ahead = {};
    const claimed early = claim(one, "a", 100ms);
    CHECK(early.what == claimed::kind::early);
    CHECK(early.timer.due <= in(100ms));
}

Test(durable_sharing, a_stopping_process_keeps_no_requested_shard) {
    memory_database all(1, support::durable_now);
    durable_process one(all, "one");
    CHECK(one.store.serve());
    CHECK(one.store.answer());
    REQUIRE(one.store.is_asked());  // for the shard
    bool is_stopped = false;
    one.timers.stop([&](const unfinished& u) { is_stopped = !u.any(); });
    one.pass_without_answers(10ms);
    CHECK(!is_stopped);
    one.settle();
    CHECK(is_stopped);
    CHECK(own(beside(all), 0) != 0);
}

Test(durable_sharing, a_clock_once_ahead_lengthens_no_shard_lease) {
    std::chrono::microseconds skew{};
    memory_database all(1, [&] { return support::durable_now() + skew; });
    durable_process one(all, "one");
    skew = 24h;
    one.pass(5s);
    CHECK_EQ(one.timers.gauges().shards, 1U);
    skew = {};
    one.pass_without_answers(11s);
    CHECK_EQ(one.timers.gauges().shards, 0U);
}
