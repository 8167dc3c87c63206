// Operations on stored timers: replace, keep, touch, count, list, repeat, die, revive, and by
// prefix.
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "support/check.hpp"
#include "support/durable.hpp"

using namespace std::chrono_literals;
using support::alone, support::beside, support::in, support::asking::count;
using namespace tvec::durable;

TestSuite(durable_keeping, .timeout = 600);

namespace {

options with_attempts(std::uint32_t n) {
    options o;
    o.attempts = n;
    return o;
}

touch_result touch(support::durable_process& p, const std::string& id, time_point due) {
    auto result = touch_result::unknown;
    CHECK(p.timers.touch(id, due, [&](auto r) { result = r; }) == refusal::none);
    p.settle();
    return result;
}

// The answer to a call for all timers with a prefix.
struct bulk_answer {
    auto note() {
        return [this](standing s, std::uint64_t n) {
            how = s;
            changed = n;
            is_there = true;
        };
    }
    standing how = standing::fenced;
    std::uint64_t changed = 0;
    bool is_there = false;
};

}  // namespace

Test(durable_keeping, a_second_put_keeps_or_replaces_as_told) {
    for (const auto how : {existing::keep, existing::replace, existing::sooner, existing::later})
        for (const bool is_later : {false, true}) {
            alone w;
            w.one.put({"a", in(20ms), "first"});
            const time_point due = in(is_later ? 30ms : 10ms);
            const bool replaces =
                how == existing::replace || how == (is_later ? existing::later : existing::sooner);
            CHECK(w.one.put({"a", due, "second"}, how) ==
                  (replaces ? put_result::stored : put_result::there_already));
            w.one.pass(31ms);
            REQUIRE_EQ(w.one.got.size(), 1U);
            CHECK_EQ(w.one.got[0].body, replaces ? "second" : "first");
            CHECK(w.one.got[0].due == (replaces ? due : in(-11ms)));
        }
}

Test(durable_keeping, a_period_keeps_its_phase_until_cancelled) {
    alone w;
    const time_point start = in(10ms);
    w.one.put({"a", start, "", 100ms});
    w.one.pass(250ms);
    w.one.ends = false;
    w.one.pass(100ms);  // this handler is slow, and misses a beat
    REQUIRE_EQ(w.one.got.size(), 4U);
    w.one.pass(150ms);
    w.one.ends = true;
    w.one.timers.done(w.one.got[3].token);
    w.one.pass(100ms);
    REQUIRE_EQ(w.one.got.size(), 5U);
    for (const int k : {0, 1, 2, 3})
        CHECK(w.one.got[static_cast<std::size_t>(k)].due == start + k * 100ms);
    CHECK(w.one.got[4].due == start + 5 * 100ms);
    CHECK(w.one.cancel("a") == cancel_result::cancelled);
    w.one.pass(1s);
    CHECK_EQ(w.one.got.size(), 5U);
}

Test(durable_keeping, unfinished_timers_die_and_can_be_revived) {
    alone w(with_attempts(2));
    w.one.ends = false;
    w.one.put({"a", in(10ms), "body"});
    w.one.pass(61s);
    CHECK_EQ(w.one.got.size(), 2U);
    CHECK_EQ(w.one.timers.counters().died, 1U);
    CHECK(w.list(timer_set::dead, {}, 10) == std::vector<std::string>{"a"});
    CHECK(w.list(timer_set::waiting, {}, 10).empty());
    auto back = revive_result::unknown;
    w.one.ends = true;
    CHECK(w.one.timers.revive("a", in(5ms), [&](auto r) { back = r; }) == refusal::none);
    w.one.pass(5ms);
    CHECK(back == revive_result::revived);
    REQUIRE_EQ(w.one.got.size(), 3U);
    CHECK_EQ(w.one.got[2].token.attempt, 4U);  // it died of the third claim
    CHECK_EQ(w.one.got[2].body, "body");
    w.one.pass(1s);
    const totals left = count(beside(w.all));
    CHECK_EQ(left.waiting + left.dead, 0U);
}

Test(durable_keeping, waiting_timers_are_listed_by_deadline_in_pages) {
    alone w;
    std::vector<record> batch;
    for (const char* id : {"d", "a", "c", "b", "e"})
        batch.push_back({id, in(std::string(id) == "e" ? 1h : 2h), "body of " + std::string(id)});
    std::vector<put_result> results;
    CHECK(w.one.timers.put_all(batch, existing::keep, [&](auto r) { results = r; }) ==
          refusal::none);
    w.one.settle();
    CHECK(results == std::vector<put_result>(5, put_result::stored));
    CHECK(w.list(timer_set::waiting, {}, 3) == (std::vector<std::string>{"e", "a", "b"}));
    CHECK(w.list(timer_set::waiting, {in(2h), "b"}, 3) == (std::vector<std::string>{"c", "d"}));
    std::optional<stored_timer> found;
    CHECK(w.one.timers.find("c", [&](standing, auto t) { found = t; }) == refusal::none);
    w.one.settle();
    REQUIRE(found.has_value());
    CHECK_EQ(found->body, "body of c");
    totals sum;
    CHECK(w.one.timers.count([&](standing, totals t) { sum = t; }) == refusal::none);
    w.one.settle();
    CHECK_EQ(sum.waiting, 5U);
}

Test(durable_keeping, metrics_are_in_prometheus_format) {
    alone w;
    w.one.put({"a", in(10ms)});
    w.one.pass(20ms);
    gauges g = w.one.timers.gauges();
    g.broken_connections["no \"way\"\nto C:\\"] = 2;
    const std::string text = to_prometheus(w.one.timers.counters(), g, w.one.timers.late());
    CHECK(text.find("\ntvec_durable_puts_total{answer=\"stored\"} 1\n") != std::string::npos);
    CHECK(text.find("\ntvec_durable_delivered_total 1\n") != std::string::npos);
    CHECK(text.find("\ntvec_durable_ends_total{how=\"failed\"} 0\n") != std::string::npos);
    CHECK(text.find("\ntvec_durable_planned_total 0\n") != std::string::npos);
    CHECK(text.find("# TYPE tvec_durable_near gauge\ntvec_durable_near 0\n") != std::string::npos);
    CHECK(text.find("{reason=\"no \\\"way\\\" to C:\\\\\"} 2\n") != std::string::npos);
    CHECK(text.find("\ntvec_durable_lateness_seconds_sum ") != std::string::npos);
    CHECK(text.find("\ntvec_durable_lateness_seconds_count 1\n") != std::string::npos);
}

Test(durable_keeping, metrics_show_every_counter_once) {
    std::array<std::uint64_t, sizeof(counters) / sizeof(std::uint64_t)> numbers;
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 1'000 + i;
    const std::string text = to_prometheus(std::bit_cast<counters>(numbers), {}, {});
    for (const std::uint64_t n : numbers) {
        const std::string sample = ' ' + std::to_string(n) + '\n';
        const auto at = text.find(sample);
        CHECK(at != std::string::npos && text.find(sample, at + 1) == std::string::npos);
    }
}

// --- new deadlines ------------------------------------------------------------------------------

Test(durable_keeping, a_touched_timer_keeps_all_but_its_deadline) {
    alone w;
    w.one.put({"a", in(10ms), "body", 100ms});
    CHECK(touch(w.one, "a", in(50ms)) == touch_result::touched);
    w.one.pass(49ms);
    CHECK(w.one.got.empty());
    w.one.pass(1ms);
    REQUIRE_EQ(w.one.got.size(), 1U);
    CHECK_EQ(w.one.got[0].body, "body");
    CHECK(w.one.got[0].every == 100ms);
    CHECK(touch(w.one, "a", in(5ms)) == touch_result::touched);  // sooner
    w.one.pass(5ms);
    CHECK_EQ(w.one.got.size(), 2U);
    CHECK(touch(w.one, "b", in(5ms)) == touch_result::unknown_id);
    CHECK(w.one.timers.touch("", in(5ms)) == refusal::bad_id);
    CHECK(w.one.timers.touch("a", latest_due + 1ms) == refusal::bad_due);
}

Test(durable_keeping, touching_a_timer_makes_its_delivery_stale) {
    alone w;
    w.one.begin({"a", in(10ms)}, 10ms);
    CHECK(touch(w.one, "a", in(20ms)) == touch_result::touched);
    w.one.timers.done(w.one.got[0].token);
    w.one.pass(20ms);
    CHECK_EQ(w.one.timers.counters().stale, 1U);
    CHECK_EQ(w.one.got.size(), 2U);
}

// --- by prefix ----------------------------------------------------------------------------------

Test(durable_keeping, timers_with_a_prefix_are_cancelled_in_pages) {
    alone w;
    std::vector<record> batch;
    for (int i = 0; i < 3'000; ++i) batch.push_back({"a-" + std::to_string(i), in(50ms)});
    batch.push_back({"b-1", in(50ms)});
    CHECK(w.one.timers.put_all(std::move(batch), existing::keep) == refusal::none);
    w.one.settle();
    bulk_answer a;
    CHECK(w.one.timers.cancel_all(timer_set::waiting, "a-", a.note()) == refusal::none);
    CHECK_EQ(w.one.timers.gauges().asked, 1U);
    std::size_t most = 0;
    while (!a.is_there) {
        w.one.turn();
        most = std::max(most, w.one.store.unanswered());
    }
    CHECK(a.how == standing::done);
    CHECK_EQ(a.changed, 3'000U);
    CHECK(most > 100U && most <= 600U);
    w.one.pass(60ms);
    REQUIRE_EQ(w.one.got.size(), 1U);
    CHECK_EQ(w.one.got[0].token.id, "b-1");
    CHECK_EQ(w.one.timers.counters().cancelled, 3'000U);
    CHECK_EQ(w.one.timers.gauges().asked, 0U);
}

Test(durable_keeping, prefixes_select_dead_letters_to_purge_or_revive) {
    alone w(with_attempts(1));
    w.one.handle = [&](const delivery& d) { w.one.timers.failed(d.token, "no room"); };
    for (const char* id : {"a-1", "a-2", "b-1", "b-2", "c"}) w.one.put({id, in(10ms)});
    w.one.pass(20ms);
    CHECK_EQ(count(beside(w.all)).dead, 5U);
    w.one.put({"a-3", in(1h)});
    bulk_answer purged, revived;
    CHECK(w.one.timers.cancel_all(timer_set::dead, "a-", purged.note()) == refusal::none);
    CHECK(w.one.timers.revive_all("b-", in(5ms), revived.note()) == refusal::none);
    w.one.settle();
    CHECK(purged.how == standing::done && purged.changed == 2U);
    CHECK(revived.how == standing::done && revived.changed == 2U);
    CHECK_EQ(count(beside(w.all)).dead, 1U);
    CHECK_EQ(count(beside(w.all)).waiting, 3U);
    w.one.handle = {};
    w.one.pass(10ms);
    CHECK_EQ(w.one.got.size(), 7U);
}

Test(durable_keeping, bulk_calls_end_early_on_failure_or_stop) {
    alone w;
    std::vector<record> batch;
    for (int i = 0; i < 1'000; ++i) batch.push_back({"a-" + std::to_string(i), in(1h)});
    CHECK(w.one.timers.put_all(std::move(batch), existing::keep) == refusal::none);
    w.one.settle();
    bulk_answer failed, stopped;
    CHECK(w.one.timers.cancel_all(timer_set::waiting, "a-", failed.note()) == refusal::none);
    w.one.turn();
    w.one.store.fail(1);
    w.one.settle();
    CHECK(failed.how == standing::unknown && failed.is_there);
    CHECK(failed.changed > 0U && failed.changed < 1'000U);
    CHECK(w.one.timers.cancel_all(timer_set::waiting, "a-", stopped.note()) == refusal::none);
    w.one.timers.stop();
    w.one.settle();
    CHECK(stopped.how == standing::unknown && stopped.is_there);
    CHECK(w.one.timers.cancel_all(timer_set::waiting, "a-") == refusal::stopping);
    CHECK(count(beside(w.all)).waiting > 0U);
}
