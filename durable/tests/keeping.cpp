// Operations on stored timers: replace, keep, count, list, repeat, die and revive.
#include <chrono>
#include <string>
#include <vector>

#include "support/check.hpp"
#include "support/durable.hpp"

using namespace std::chrono_literals;
using support::alone, support::beside, support::in, support::asking::count;
using namespace tvec::durable;

TestSuite(durable_keeping, .timeout = 60);

namespace {

options with_attempts(std::uint32_t n) {
    options o;
    o.attempts = n;
    return o;
}

}  // namespace

Test(durable_keeping, a_second_put_of_an_id_is_kept_out_or_replaces_as_the_caller_says) {
    alone w;
    w.one.put({"a", in(10ms), "first"});
    CHECK(w.one.put({"a", in(5ms), "second"}) == put_result::there_already);
    CHECK(w.one.put({"b", in(10ms), "first"}) == put_result::stored);
    CHECK(w.one.put({"b", in(40ms), "second"}, existing::replace) == put_result::stored);
    w.one.pass(20ms);
    REQUIRE_EQ(w.one.got.size(), 1U);
    CHECK_EQ(w.one.got[0].body, "first");
    w.one.pass(20ms);
    REQUIRE_EQ(w.one.got.size(), 2U);
    CHECK_EQ(w.one.got[1].body, "second");
}

Test(durable_keeping, the_end_of_what_was_replaced_does_not_end_the_new_one) {
    alone w;
    w.one.ends = false;
    w.one.put({"a", in(10ms), "first"});
    w.one.pass(10ms);
    REQUIRE_EQ(w.one.got.size(), 1U);
    w.one.put({"a", in(10ms), "second"}, existing::replace);
    bool was_current = true;
    w.one.timers.done(w.one.got[0].token, [&](bool c) { was_current = c; });
    w.one.ends = true;
    w.one.pass(20ms);
    CHECK(!was_current);
    REQUIRE_EQ(w.one.got.size(), 2U);
    CHECK_EQ(w.one.got[1].body, "second");
    CHECK_EQ(w.one.timers.counters().stale, 1U);
}

Test(durable_keeping, a_period_keeps_its_phase_until_it_is_cancelled) {
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

Test(durable_keeping, again_comes_at_the_time_it_was_given) {
    alone w;
    w.one.ends = false;
    w.one.put({"a", in(10ms)});
    w.one.pass(10ms);
    CHECK(w.one.timers.again(w.one.got[0].token, in(30ms)) == refusal::none);
    w.one.pass(29ms);
    CHECK_EQ(w.one.got.size(), 1U);
    w.one.pass(1ms);
    REQUIRE_EQ(w.one.got.size(), 2U);
    CHECK_EQ(w.one.got[1].token.attempt, 2U);
    CHECK_EQ(w.one.timers.counters().retries, 0U);
}

Test(durable_keeping, what_never_ends_is_dead_after_its_attempts_and_can_be_put_back) {
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
    CHECK_EQ(w.one.got[2].token.attempt, 3U);
    CHECK_EQ(w.one.got[2].body, "body");
    w.one.pass(1s);
    const totals left = count(beside(w.all));
    CHECK_EQ(left.waiting + left.dead, 0U);
}

Test(durable_keeping, what_is_not_done_is_listed_in_order_of_its_deadline_page_by_page) {
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
    const std::string text =
        to_prometheus(w.one.timers.counters(), w.one.timers.gauges(), w.one.timers.late());
    CHECK(text.find("\ntvec_durable_puts_total{answer=\"stored\"} 1\n") != std::string::npos);
    CHECK(text.find("\ntvec_durable_delivered_total 1\n") != std::string::npos);
    CHECK(text.find("# TYPE tvec_durable_near gauge\ntvec_durable_near 0\n") != std::string::npos);
    CHECK(text.find("\ntvec_durable_lateness_seconds_count 1\n") != std::string::npos);
}
