// The lease of a delivery: it is extended, or given to another process with the delivery.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "support/check.hpp"
#include "support/durable.hpp"
#include "support/file_of_timers.hpp"

using namespace std::chrono_literals;
using support::alone, support::beside, support::durable_process, support::in;
using support::asking::count, support::asking::find;
using namespace tvec::durable;

TestSuite(durable_leases, .timeout = 600);

namespace {

options short_leases() {
    options o;
    o.claim_lease = 100ms;
    return o;
}

struct extended {
    standing how = standing::unknown;
    bool is_current = false;
};

extended extend(durable_process& p, const token& t, duration lease) {
    extended answer;
    CHECK(p.timers.extend(t, lease, [&](standing how, bool is_current) {
        answer = {how, is_current};
    }) == refusal::none);
    p.settle();
    return answer;
}

}  // namespace

Test(durable_leases, an_extended_lease_delays_the_next_delivery) {
    alone w(short_leases());
    w.one.begin({"a", in(10ms)}, 60ms);
    const extended e = extend(w.one, w.one.got[0].token, 300ms);
    CHECK(e.how == standing::done && e.is_current);
    w.one.pass(295ms);
    CHECK_EQ(w.one.got.size(), 1U);
    w.one.pass(10ms);
    REQUIRE_EQ(w.one.got.size(), 2U);
    CHECK(!extend(w.one, w.one.got[0].token, 1s).is_current);  // it is over
    w.one.timers.done(w.one.got[1].token);
    w.one.pass(1s);
    CHECK_EQ(w.one.got.size(), 2U);
}

Test(durable_leases, the_next_owner_respects_an_extended_lease) {
    memory_database all(1, support::durable_now);
    options o = short_leases();
    o.shard_lease = 50ms;
    auto one = std::make_unique<durable_process>(all, "one", o);
    one->settle();
    one->begin({"a", in(10ms)}, 20ms);
    CHECK(extend(*one, one->got[0].token, 500ms).is_current);
    one.reset();
    durable_process two(all, "two", o);
    two.pass(490ms);
    CHECK(two.got.empty());
    two.pass(1'100ms);
    CHECK_EQ(two.got.size(), 1U);
}

Test(durable_leases, an_unconfirmed_extension_leaves_the_lease_unchanged) {
    alone w(short_leases());
    w.one.begin({"a", in(10ms)}, 20ms);
    w.one.store.fail(1);
    CHECK(extend(w.one, w.one.got[0].token, 10s).how == standing::unknown);
    w.one.pass(100ms);
    CHECK_EQ(w.one.got.size(), 2U);
}

Test(durable_leases, a_failed_extension_undoes_no_later_one) {
    alone w(short_leases());
    w.one.begin({"a", in(10ms)}, 20ms);
    w.one.store.fail(1);
    CHECK(w.one.timers.extend(w.one.got[0].token, 5s) == refusal::none);
    CHECK(extend(w.one, w.one.got[0].token, 10s).how == standing::done);
    w.one.pass(100ms);
    CHECK_EQ(w.one.got.size(), 1U);
    CHECK_EQ(w.one.timers.counters().too_early, 0U);  // it was not claimed again
}

Test(durable_leases, a_lease_out_of_range_is_refused) {
    alone w(short_leases());
    const auto extend_by = [&](duration d) { return w.one.timers.extend({"a", 1}, d); };
    CHECK(extend_by(0ms) == refusal::bad_lease);
    CHECK(extend_by(-1ms) == refusal::bad_lease);
    CHECK(extend_by(duration::max()) == refusal::bad_lease);
    CHECK(extend_by(1ms) == refusal::none);
    CHECK_EQ(std::string(to_text(refusal::bad_lease)), "the lease is not from 1 ms to 1000 days");
}

// The file has no leases: the one that the engine keeps counts.
Test(durable_leases, leases_are_extended_in_a_file_too) {
    const support::file_of_timers f;
    sqlite_store s(f.path);
    tvec::clocked_wheel<> wheel;
    int came = 0;
    bool was_extended = false;
    options o;
    o.claim_lease = 20ms;
    timers<> all(
        wheel, s,
        [&](const delivery& d) {
            if (++came > 1) return;
            const auto on_answer = [&](standing, bool is_current) { was_extended = is_current; };
            CHECK(all.extend(d.token, 1h, on_answer) == refusal::none);
        },
        o);
    const auto turn = [&] {
        support::asking::turn(s, 1ms);
        wheel.run();
        all.run();
    };
    CHECK(all.put({"a", all.now()}, existing::keep) == refusal::none);
    while (!was_extended) turn();
    const auto end = std::chrono::steady_clock::now() + 60ms;
    while (std::chrono::steady_clock::now() < end) turn();
    CHECK_EQ(came, 1);
}

Test(durable_leases, a_claim_slower_than_its_lease_is_returned) {
    alone w(short_leases());
    w.one.put({"a", in(10ms)});
    tvec::manual_clock::advance(10ms);
    w.one.turn();
    while (!w.one.store.is_asked()) w.one.turn();
    tvec::manual_clock::advance(110ms);
    w.one.pass(5ms);
    CHECK_EQ(w.one.got.size(), 1U);
    CHECK_EQ(w.one.timers.counters().returned, 1U);
    CHECK_EQ(w.one.timers.counters().retries, 0U);
}

// A process that stands still does not know that another has claimed its timers.
Test(durable_leases, a_claim_by_a_clock_ahead_expires_undelivered) {
    std::chrono::microseconds skew{};
    memory_database all(1, [&] { return support::durable_now() + skew; });
    options o = short_leases();
    o.shard_lease = 50ms;
    durable_process one(all, "one", o);
    one.settle();
    one.put({"a", in(10ms)});
    tvec::manual_clock::advance(11ms);
    skew = 24h;
    one.pass_without_answers(1ms);
    skew = {};
    one.store.serve_all();
    CHECK_EQ(find(beside(all), "a")->attempt, 1U);
    durable_process two(all, "two", o);
    two.pass(1'500ms);
    CHECK_EQ(two.got.size(), 1U);
    one.store.answer_all();
    one.pass_without_answers(1ms);
    CHECK_EQ(one.got.size(), 0U);
}

Test(durable_leases, leases_end_despite_backward_clocks_and_failed_extensions) {
    std::chrono::microseconds skew{};
    memory_database all(1, [&] { return support::durable_now() + skew; });
    durable_process one(all, "one", short_leases());
    one.settle();
    skew = 24h;
    one.begin({"a", in(10ms)}, 20ms);
    skew = {};
    one.pass(5ms);
    one.store.fail(1);
    CHECK(extend(one, one.got[0].token, 100ms).how == standing::unknown);
    one.pass(2s);
    CHECK_GE(one.got.size(), 2U);
}

// Its attempt was counted in the store, and another process has it when the answer comes.
Test(durable_leases, a_suspect_is_not_delivered_after_its_lease) {
    memory_database all(1, support::durable_now);
    options o = short_leases();
    o.shard_lease = 50ms;
    o.attempts = 5;
    durable_process one(all, "one", o);
    one.settle();
    one.begin({"a", in(10ms)}, 20ms);
    for (int i = 0; i < 200 && find(beside(all), "a")->spent < 2; ++i) {
        one.store.answer_all();
        one.pass_without_answers(1ms);
        one.store.serve_all();
    }
    REQUIRE_EQ(find(beside(all), "a")->spent, 2U);
    durable_process two(all, "two", o);
    two.ends = false;
    two.pass(150ms);
    CHECK_EQ(two.got.size(), 1U);
    one.store.answer_all();
    one.pass_without_answers(1ms);
    CHECK_EQ(one.got.size(), 1U);
}

// --- handing over -------------------------------------------------------------------------------

Test(durable_leases, a_delivery_handed_over_takes_no_memory) {
    alone w(short_leases());
    w.one.handle = [&](const delivery& d) { w.one.timers.hand_over(d.token); };
    w.one.put({"a", in(10ms)});
    w.one.pass(20ms);
    REQUIRE_EQ(w.one.got.size(), 1U);
    CHECK_EQ(w.one.timers.gauges().near, 0U);
    CHECK_EQ(w.one.timers.gauges().being_delivered, 0U);
    CHECK_EQ(find(beside(w.all), "a")->attempt, 1U);
    CHECK(support::asking::end(beside(w.all), {w.one.got[0].token}).was_current);
    w.one.pass(5s);
    CHECK_EQ(w.one.got.size(), 1U);
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
}

Test(durable_leases, sweeps_find_deliveries_handed_over_and_lost) {
    alone w(short_leases());
    w.one.handle = [&](const delivery& d) {
        if (w.one.got.size() == 1) return w.one.timers.hand_over(d.token);
        w.one.timers.done(d.token);
    };
    w.one.put({"a", in(10ms)});
    w.one.pass(109ms);
    CHECK_EQ(w.one.got.size(), 1U);
    w.one.pass(1'300ms);
    CHECK_EQ(w.one.got.size(), 2U);
    w.one.timers.hand_over(w.one.got[0].token);  // it is over
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
}

Test(durable_leases, repeated_losses_after_handovers_make_dead_letters) {
    options o = short_leases();
    o.attempts = 3;
    alone w(o);
    w.one.handle = [&](const delivery& d) { w.one.timers.hand_over(d.token); };
    w.one.put({"a", in(10ms)});
    w.one.pass(10s);
    CHECK_EQ(w.one.got.size(), 4U);  // the first one is not counted
    CHECK_EQ(count(beside(w.all)).dead, 1U);
}

Test(durable_leases, handovers_count_only_if_a_worker_took_them) {
    options o = short_leases();
    o.attempts = 3;
    o.hands_over = true;
    alone w(o);
    std::size_t taken = 0;
    w.one.handle = [&](const delivery& d) {
        w.one.timers.hand_over(d.token);
        if (w.one.got.size() % 2 == 0) ++taken, w.one.timers.taken(d.token);
        if (w.one.got.size() % 4 == 0) w.one.timers.taken(d.token);  // was counted
    };
    w.one.put({"a", in(10ms)});
    w.one.pass(20s);
    CHECK_EQ(taken, 3U);
    CHECK_EQ(w.one.got.size(), 6U);
    CHECK_EQ(count(beside(w.all)).dead, 1U);
}

Test(durable_leases, a_call_that_hands_over_is_no_attempt) {
    options o = short_leases();
    o.attempts = 1;
    o.hands_over = true;
    alone w(o);
    w.one.handle = [](const delivery&) {};  // as while the workers are away
    w.one.put({"a", in(10ms)});
    w.one.pass(20s);
    CHECK_LT(10U, w.one.got.size());
    CHECK_EQ(count(beside(w.all)).dead, 0U);
}

// A store whose hints are reliable is swept less often.
Test(durable_leases, a_store_says_how_often_it_is_swept) {
    struct rarely_swept : memory_store {
        using memory_store::memory_store;
        const store_traits& traits() const noexcept override {
            static store_traits all = memory_store::traits();
            all.sweep = 10s;
            return all;
        }
    };
    memory_database all(1, support::durable_now);
    rarely_swept s(all, "one");
    durable_process::wheel wheels;
    int came = 0;
    timers<durable_process::wheel> one(wheels, s, [&](const delivery& d) {
        ++came;
        one.done(d.token);
    });
    const auto turn = [&] {
        do {
            wheels.run();
            one.run();
        } while (s.unanswered() != 0);
    };
    turn();
    support::asking::put(beside(all), {"a", in(10ms)});
    CHECK(s.lose_hint());
    support::pass(9s, turn);
    CHECK_EQ(came, 0);
    support::pass(1'200ms, turn);
    CHECK_EQ(came, 1);
}
