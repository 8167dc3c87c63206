// Limits by prefix: so many deliveries are in flight, and no other timers wait for them.
#include <algorithm>
#include <chrono>
#include <string>

#include "support/check.hpp"
#include "support/durable.hpp"

using namespace std::chrono_literals;
using support::alone, support::beside, support::durable_process, support::in;
using support::asking::count, support::asking::find;
using namespace tvec::durable;

TestSuite(durable_limits, .timeout = 600);

namespace {

options limited(std::vector<std::pair<std::string, std::size_t>> to) {
    options o;
    o.limits = std::move(to);
    o.claim_lease = 500ms;
    return o;
}

std::size_t with_prefix(const durable_process& p, const std::string& prefix) {
    return static_cast<std::size_t>(std::ranges::count_if(
        p.got, [&](const delivery& d) { return d.token.id.starts_with(prefix); }));
}

void put_many(durable_process& p, const std::string& prefix, int n, time_point due) {
    std::vector<record> batch;
    for (int i = 0; i < n; ++i) batch.push_back({prefix + std::to_string(i), due});
    CHECK(p.timers.put_all(std::move(batch), existing::keep) == refusal::none);
    p.settle();
}

// Handles one delivery for each millisecond, for a time or until none is left. Returns the largest
// number in flight.
std::size_t handle_one_by_one(durable_process& p, const std::string& prefix, duration at_most) {
    std::size_t most = 0, next = 0;
    for (duration d{}; d < at_most; d += 1ms) {
        p.pass(1ms);
        std::size_t open = 0;
        for (std::size_t i = next; i < p.got.size(); ++i)
            open += p.got[i].token.id.starts_with(prefix);
        most = std::max(most, open);
        if (next < p.got.size()) p.timers.done(p.got[next++].token);
    }
    return most;
}

// One delivery is in flight, one timer waits for it, and the limit leaves out all others.
options with_one_claim_at_a_time() {
    options o = limited({{"mail-", 1}});
    o.window = 4;
    o.max_deliveries_per_turn = 1;
    o.sweep = 1h;
    return o;
}

// Ends the deliveries in flight, and all that come in the next second.
void end_all(durable_process& p) {
    p.ends = true;
    for (const delivery& d : p.got) p.timers.done(d.token);
    p.pass(1s);
    CHECK_EQ(p.timers.gauges().being_delivered, 0U);
}

}  // namespace

Test(durable_limits, a_limit_bounds_deliveries_in_flight_by_prefix) {
    alone w(limited({{"mail-", 3}}));
    w.one.ends = false;
    put_many(w.one, "mail-", 100, in(10ms));
    w.one.pass(50ms);
    CHECK_EQ(w.one.got.size(), 3U);
    CHECK_EQ(w.one.timers.gauges().being_delivered, 3U);
    CHECK_EQ(find(beside(w.all), "mail-99")->attempt + find(beside(w.all), "mail-98")->attempt, 0U);
    const std::size_t most = handle_one_by_one(w.one, "mail-", 300ms);
    CHECK_LE(most, 3U);
    CHECK_EQ(w.one.got.size(), 100U);
    CHECK_EQ(w.one.timers.counters().retries, 0U);
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
}

Test(durable_limits, the_longest_prefix_with_a_limit_counts) {
    alone w(limited({{"", 2}, {"mail-", 3}, {"mail-vip-", 5}}));
    w.one.ends = false;
    for (const char* prefix : {"sms-", "mail-", "mail-vip-"}) put_many(w.one, prefix, 9, in(10ms));
    w.one.pass(50ms);
    CHECK_EQ(with_prefix(w.one, "sms-"), 2U);
    CHECK_EQ(with_prefix(w.one, "mail-vip-"), 5U);
    CHECK_EQ(with_prefix(w.one, "mail-"), 3U + 5U);
    alone free(limited({{"mail-", 1}}));
    free.one.ends = false;
    for (const char* prefix : {"sms-", "mail-"}) put_many(free.one, prefix, 9, in(10ms));
    free.one.pass(50ms);
    CHECK_EQ(with_prefix(free.one, "sms-"), 9U);
    CHECK_EQ(with_prefix(free.one, "mail-"), 1U);
}

// Timers that wait for a limit fill the window and the first page of every sweep.
Test(durable_limits, a_backlog_beyond_a_limit_delays_no_others) {
    options o = limited({{"mail-", 2}});
    o.window = 200;
    alone w(o);
    w.one.ends = false;
    put_many(w.one, "mail-", 3'000, in(10ms));
    w.one.pass(100ms);
    CHECK_EQ(w.one.got.size(), 2U);
    w.one.got.clear();
    const time_point due = in(20ms);
    put_many(w.one, "sms-", 16, due);
    support::asking::put(beside(w.all), {"sms-other", due});
    w.one.pass(20ms);
    CHECK_EQ(with_prefix(w.one, "sms-"), 17U);
    for (const delivery& d : w.one.got) w.one.timers.done(d.token);
    w.one.pass(10ms);
    support::asking::put(beside(w.all), {"sms-lost", in(5ms)});  // its hint is lost
    CHECK(w.one.store.lose_hint());
    w.one.got.clear();
    w.one.handle = [&](const delivery& d) {
        if (d.token.id == "sms-lost") w.one.timers.done(d.token);
    };
    w.one.pass(5s);
    CHECK_EQ(with_prefix(w.one, "sms-"), 1U);
    CHECK_EQ(w.one.timers.counters().swept, 1U);
}

Test(durable_limits, a_limited_backlog_comes_as_fast_as_handled) {
    options o = limited({{"mail-", 2}});
    o.window = 80;
    o.claim_lease = 10min;
    alone w(o);
    w.one.handle = [&](const delivery& d) { w.one.timers.done(d.token); };
    put_many(w.one, "mail-", 1'000, in(10ms));
    w.one.pass(2s);
    CHECK_EQ(w.one.got.size(), 1'000U);
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
    CHECK_EQ(w.one.timers.counters().retries, 0U);
}

// Nothing but the window finds them again in a file, which is not swept.
Test(durable_limits, backward_clock_steps_lose_no_waiting_timer) {
    reading::duration shift{};
    memory_database all(1, [&] { return support::durable_now() + shift; });
    options o = limited({{"mail-", 1}});
    o.window = 40;
    o.sweep = 1h;
    durable_process one(all, "one", o);
    one.settle();
    one.ends = false;
    put_many(one, "mail-", 30, in(10ms));
    one.pass(20ms);
    REQUIRE_EQ(one.got.size(), 1U);
    shift = -1h;
    one.timers.done(one.got[0].token);
    one.pass(50ms);
    CHECK_EQ(one.got.size(), 1U);
    shift = 0h;
    one.ends = true;
    one.pass(100ms);
    CHECK_EQ(one.got.size(), 30U);
}

// No sweep comes meanwhile.
Test(durable_limits, timers_whose_lease_ended_need_permits_too) {
    options o = limited({{"mail-", 3}});
    o.window = 160;
    o.sweep = 1h;
    alone w(o);
    w.one.handle = [&](const delivery& d) {
        if (d.token.attempt > 1) w.one.timers.done(d.token);
    };
    for (int i = 1; i <= 50; ++i)
        put_many(w.one, "mail-" + std::to_string(i) + "-", 4, in(i * 10ms));
    w.one.pass(60s);
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
    CHECK_EQ(w.one.got.size(), 400U);
}

// The answer to the touch comes while the timer waits for its claim. No sweep finds it.
Test(durable_limits, a_timer_touched_while_left_out_comes) {
    memory_database all(1, support::durable_now);
    durable_process one(all, "one", with_one_claim_at_a_time());
    one.settle();
    one.ends = false;
    for (int i = 0; i < 3; ++i) put_many(one, "mail-" + std::to_string(i), 1, in(i * 1ms + 10ms));
    one.pass_without_answers(15ms);
    CHECK(one.timers.touch("mail-20", in(50ms)) == refusal::none);
    one.store.serve_all();
    one.store.answer_all();  // to a claim of the first, and to the touch
    one.pass(5ms);
    end_all(one);
    CHECK_EQ(one.got.size(), 3U);
}

// A timer that was touched is left out, and then others.
Test(durable_limits, no_timers_beyond_the_window_are_asked_for) {
    memory_database all(1, support::durable_now);
    durable_process one(all, "one", with_one_claim_at_a_time());
    one.settle();
    one.ends = false;
    put_many(one, "sms-", 100, in(1h));
    for (int i = 0; i < 3; ++i) put_many(one, "mail-" + std::to_string(i), 1, in(i * 1ms + 10ms));
    one.pass_without_answers(15ms);
    CHECK(one.timers.touch("mail-20", in(2h)) == refusal::none);
    one.store.serve_all();
    one.store.answer_all();
    one.pass(5ms);
    end_all(one);
    CHECK_EQ(one.got.size(), 2U);
    one.ends = false;
    put_many(one, "mail-3", 3, in(10ms));
    one.pass(20ms);
    one.ends = true;
    one.timers.done(one.got.back().token);
    for (int i = 0; i < 20; ++i) one.turn();
    CHECK_EQ(one.store.unanswered(), 0U);
}

// A take that was done before the return of a claim shows the timer at the end of the lease. The
// answer to the return comes while the timer waits for its next claim. No sweep finds it.
Test(durable_limits, a_timer_returned_while_left_out_comes_again) {
    memory_database all(1, support::durable_now);
    options o = with_one_claim_at_a_time();
    o.horizon = 1s;
    o.claim_lease = 600ms;
    durable_process one(all, "one", o);
    one.settle();
    one.ends = false;
    put_many(one, "mail-", 3, in(490ms));
    one.pass(489ms);
    one.pass_without_answers(1ms);  // sends a claim
    one.store.serve_all();
    one.pass_without_answers(610ms);  // sends a take of what is due in a second
    one.store.serve_all();
    CHECK(one.store.answer());  // to the claim, whose lease is over
    one.pass_without_answers(1ms);
    one.store.serve_all();
    CHECK(one.store.answer());  // to the take
    one.pass_without_answers(1ms);
    one.pass(5ms);
    CHECK_EQ(one.timers.counters().returned, 1U);
    end_all(one);
    CHECK_EQ(one.got.size(), 3U);
}

Test(durable_limits, timers_waiting_for_permits_keep_no_loop_awake) {
    alone w(limited({{"mail-", 1}}));
    w.one.ends = false;
    put_many(w.one, "mail-", 100, in(10ms));
    w.one.pass(20ms);
    CHECK_EQ(w.one.got.size(), 1U);
    for (int i = 0; i < 10; ++i) {
        w.one.turn();
        CHECK_EQ(w.one.store.unanswered(), 0U);
    }
    CHECK(w.one.wheels.wheel().next_expiry() > w.one.wheels.wheel().now() + 100);
}

Test(durable_limits, a_permit_is_freed_however_its_delivery_ends) {
    options o = limited({{"mail-", 1}});
    o.attempts = 3;
    alone w(o);
    int came = 0;
    std::string last;
    w.one.handle = [&](const delivery& d) {
        last = d.token.id;
        switch (++came) {
        case 1:
            CHECK(w.one.timers.again(d.token, in(1h)) == refusal::none);
            break;
        case 2:
            w.one.timers.failed(d.token, "x");
            break;
        case 3:
            CHECK(w.one.timers.cancel(d.token.id) == refusal::none);
            break;
        case 4:
            w.one.timers.hand_over(d.token);
            break;
        default:
            break;  // until its lease ends
        }
    };
    put_many(w.one, "mail-", 20, in(10ms));
    w.one.pass(100ms);
    CHECK_EQ(came, 5);
    w.one.pass(500ms);
    CHECK_EQ(came, 6);
}

Test(durable_limits, limited_suspects_delay_no_trial_of_others) {
    memory_database all(1, support::durable_now);
    options o = limited({{"mail-", 20}});
    o.attempts = 5;
    o.shard_lease = 50ms;
    o.claim_lease = 100ms;
    {
        options before = o;
        before.limits.clear();
        durable_process one(all, "one", before);
        one.settle();
        one.ends = false;
        put_many(one, "mail-", 200, in(10ms));
        put_many(one, "sms-", 50, in(60ms));  // their leases end later
        one.pass(80ms);
        CHECK_EQ(one.got.size(), 250U);
    }  // dies: all of them are suspects
    o.claim_lease = 1h;
    durable_process two(all, "two", o);
    two.handle = [&](const delivery& d) {
        if (d.token.id.starts_with("sms-")) two.timers.done(d.token);
    };
    two.pass(1s);
    CHECK_EQ(with_prefix(two, "sms-"), 50U);
    CHECK_EQ(with_prefix(two, "mail-"), 20U);
}

Test(durable_limits, timers_left_out_survive_failures_and_clock_jumps) {
    std::chrono::microseconds skew{};
    memory_database all(1, [&] { return support::durable_now() + skew; });
    options o = limited({{"", 1}});
    o.window = 8;
    durable_process one(all, "one", o);
    one.settle();
    one.ends = false;
    put_many(one, "a", 6, in(10ms));
    skew = 24h;
    one.pass(20ms);
    REQUIRE_EQ(one.got.size(), 1U);
    one.ends = true;
    one.store.fail(3);
    one.timers.done(one.got[0].token);
    one.settle();
    skew = {};
    one.pass(10s);
    CHECK_EQ(count(beside(all)).waiting, 0U);
}
