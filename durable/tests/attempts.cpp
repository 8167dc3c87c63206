// A timer is dead only if its own handler had it as often as `attempts` says, whatever the handlers
// beside it do, and one id names one timer, living or dead.
#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "support/check.hpp"
#include "support/durable.hpp"

using namespace std::chrono_literals;
using support::beside, support::durable_process, support::in;
using support::asking::count, support::asking::find, support::asking::list;
using namespace tvec::durable;

TestSuite(durable_attempts, .timeout = 600);

namespace {

options dead_after(std::uint32_t n) {
    options o;
    o.attempts = n;
    o.claim_lease = 100ms;
    o.shard_lease = 50ms;
    return o;
}

// Processes one after the other on one database. Some ids end the process of their handler.
struct crashing {
    using wheel = durable_process::wheel;

    struct process {
        process(crashing& w, options o)
            : store(w.all, std::to_string(++w.started)),
              timers(
                  wheels, store, [this, &w](const delivery& d) { w.on(*this, d); }, o) {}

        wheel wheels;
        memory_store store;
        bool is_over = false;
        tvec::durable::timers<wheel> timers;
    };

    explicit crashing(options settings) : o(settings) { start(); }

    void start() { one = std::make_unique<process>(*this, o); }
    void on(process& p, const delivery& d) {
        if (p.is_over) return;  // nothing runs in a process that has ended
        ++handed[d.token.id];
        last_attempt[d.token.id] = d.token.attempt;
        p.is_over = d.token.id.starts_with("poison");
        if (!p.is_over) p.timers.done(d.token);
    }
    void turn() {
        one->wheels.run();
        one->timers.run();
    }
    void settle() {
        for (int i = 0; i < 8; ++i) turn();
    }
    // Until no timer waits, in steps that are shorter than the leases.
    void pass_until_all_have_ended(int turns_per_ms = 8) {
        for (int ms = 0; ms < 100'000 && count(beside(all)).waiting != 0; ++ms) {
            tvec::manual_clock::advance(1ms);
            for (int i = 0; i < turns_per_ms && !one->is_over; ++i) turn();
            if (!one->is_over) continue;
            ++crashes;
            start();
        }
    }
    void put(const std::string& id) {
        CHECK(one->timers.put({id, in(10ms)}, existing::keep) == refusal::none);
    }
    std::optional<stored_timer> dead(const std::string& id) {
        for (const stored_timer& t : list(beside(all), timer_set::dead, {}, 100))
            if (t.id == id) return t;
        return std::nullopt;
    }

    options o;
    memory_database all{1, support::durable_now};
    std::unique_ptr<process> one;
    int started = 0, crashes = 0;
    std::map<std::string, std::uint32_t> handed, last_attempt;
};

}  // namespace

Test(durable_attempts, a_crashing_handler_kills_only_its_own_timer) {
    crashing w(dead_after(3));
    w.put("poison");
    for (int i = 0; i < 300; ++i) w.put("innocent " + std::to_string(i));
    w.settle();
    w.pass_until_all_have_ended();
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
    CHECK_EQ(count(beside(w.all)).dead, 1U);
    CHECK(w.dead("poison").has_value());
    CHECK_EQ(w.handed.at("poison"), 4U);  // the first time is not counted
    CHECK_EQ(w.handed.size(), 301U);
    CHECK_EQ(w.crashes, 4);
}

// Suspects are delivered one by one. If all were claimed at once, those that wait would lapse, and
// be claimed again and again: on a server that syncs every write they came at 20 a second.
Test(durable_attempts, suspects_are_not_claimed_repeatedly_while_they_wait) {
    crashing w(dead_after(3));
    w.put("poison");
    for (int i = 0; i < 2000; ++i) w.put("innocent " + std::to_string(i));
    w.settle();
    w.pass_until_all_have_ended(1);  // a turn takes a hundredth of a lease
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
    CHECK_EQ(w.crashes, 4);
    // for each process once, once for its turn, and once more if that had to wait
    for (const auto& [id, attempt] : w.last_attempt) CHECK_LE(attempt, 10U);
}

// The store fails at one of the turns in which a suspect is claimed, counted and delivered.
Test(durable_attempts, a_failed_count_delays_its_suspect_by_retry) {
    for (int failing = 0; failing < 100; ++failing) {
        memory_database all(1, support::durable_now);
        options o = dead_after(3);
        o.retry = 20ms;
        durable_process one(all, "one", o);
        one.settle();
        one.begin({"a", in(10ms)}, 100ms);
        for (int turn = 0; turn < 240; ++turn) {  // 60 ms of the next lease's 100
            if (turn % 4 == 0) tvec::manual_clock::advance(1ms);
            if (turn == failing) one.store.fail(1);
            one.turn();
        }
        CHECK_EQ(one.got.size(), 2U);
    }
}

Test(durable_attempts, an_end_or_postponement_resets_spent_attempts) {
    memory_database all(1, support::durable_now);
    durable_process one(all, "one", dead_after(2));
    one.settle();
    one.ends = false;
    one.put({"a", in(10ms)});
    for (int i = 0; i < 5; ++i) {
        one.pass(150ms);  // once forgotten, and then postponed
        REQUIRE_EQ(one.got.size(), 2U * static_cast<unsigned>(i + 1));
        CHECK(one.timers.again(one.got.back().token, in(10ms)) == refusal::none);
    }
    CHECK_EQ(count(beside(all)).dead, 0U);
}

Test(durable_attempts, stopping_returns_undelivered_claims_uncounted) {
    memory_database all(1, support::durable_now);
    auto one = std::make_unique<durable_process>(all, "one", dead_after(1), 50ms);
    one->settle();
    one->put({"a", in(60ms)});
    one->pass(20ms);
    CHECK_EQ(one->timers.gauges().being_delivered, 1U);  // claimed ahead
    one->timers.stop();
    one->settle();
    CHECK_EQ(one->timers.counters().returned, 1U);
    CHECK_EQ(find(beside(all), "a")->attempt, 1U);
    CHECK_EQ(find(beside(all), "a")->ended, 1U);
    durable_process two(all, "two", dead_after(1), 50ms);
    two.settle();
    two.pass(40ms);  // without waiting for the end of a lease
    REQUIRE_EQ(two.got.size(), 1U);
    CHECK_EQ(two.got[0].token.attempt, 2U);
}

// --- one id, one timer --------------------------------------------------------------------------

namespace {

// A timer that is dead after its first attempt.
struct one_dead {
    one_dead() {
        one.settle();
        one.ends = false;
        one.put({"a", in(10ms), "first"});
        one.pass(300ms);
        REQUIRE_EQ(count(beside(all)).dead, 1U);
        one.got.clear();
    }

    memory_database all{1, support::durable_now};
    durable_process one{all, "one", dead_after(1)};
};

}  // namespace

Test(durable_attempts, a_put_beside_a_dead_timer_changes_nothing) {
    one_dead w;
    CHECK(w.one.put({"a", in(10ms), "second"}) == put_result::dead);
    w.one.pass(300ms);
    CHECK(w.one.got.empty());
    CHECK_EQ(count(beside(w.all)).dead, 1U);
    CHECK_EQ(list(beside(w.all), timer_set::dead, {}, 1).at(0).body, "first");
    CHECK_EQ(w.one.timers.counters().dead_already, 1U);
}

Test(durable_attempts, a_replaced_dead_timer_lives_under_new_tokens) {
    one_dead w;
    CHECK(w.one.put({"a", in(10ms), "second"}, existing::replace) == put_result::stored);
    CHECK_EQ(count(beside(w.all)).dead, 0U);
    w.one.pass(50ms);
    REQUIRE_EQ(w.one.got.size(), 1U);
    CHECK_GE(w.one.got[0].token.attempt, 2U);
    CHECK_EQ(w.one.got[0].body, "second");
    w.one.pass(300ms);
    CHECK_EQ(list(beside(w.all), timer_set::dead, {}, 1).at(0).body, "second");
}
