// A plan decides what comes after a delivery: the next beat, a retry, or the end of the timer.
#include <charconv>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/durable.hpp"
#include "support/file_of_timers.hpp"
#include "tvec/durable/plan.hpp"

using namespace std::chrono_literals;
using support::alone, support::beside, support::durable_process, support::in;
using support::asking::count, support::asking::find, support::asking::list;
using namespace tvec::durable;

TestSuite(durable_plans, .timeout = 600);

namespace {

// A rule is `cron N`: every N ms since 1970. In the zone "Later" it is 7 ms later.
std::optional<time_point> fake_calendar(std::string_view rule, std::string_view zone,
                                        time_point after) {
    if (rule == "cron never") return std::nullopt;
    int n = 0;
    const std::string_view digits = rule.substr(rule.find(' ') + 1);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), n).ec != std::errc() || n < 1)
        throw std::invalid_argument("the fake calendar wants a number");
    if (!zone.empty() && zone != "Later")
        throw std::invalid_argument("the fake calendar has no such zone");
    const duration shift(zone.empty() ? 0 : 7);
    const auto beats = (after - shift).time_since_epoch() / duration(n) + 1;
    return time_point(beats * duration(n)) + shift;
}

// The clock begins anew, because rules depend on its time: tests may share a process.
options with_calendar(std::string default_plan = "") {
    tvec::manual_clock::set({});
    options o;
    o.calendar = fake_calendar;
    o.default_plan = std::move(default_plan);
    o.claim_lease = 500ms;
    return o;
}

record with_plan(std::string id, time_point due, std::string plan, duration every = {}) {
    return {std::move(id), due, "body", every, std::move(plan)};
}

std::vector<time_point> dues(const durable_process& p) {
    std::vector<time_point> all;
    for (const delivery& d : p.got) all.push_back(d.due);
    return all;
}

// Checks that these delays lie between the deadlines. The claim by which a plan decides takes a
// tick or two.
void delayed_by(const std::vector<time_point>& all, const std::vector<duration>& delays) {
    REQUIRE_EQ(all.size(), delays.size() + 1);
    for (std::size_t i = 0; i < delays.size(); ++i) {
        CHECK_GE((all[i + 1] - all[i]).count(), delays[i].count());
        CHECK_LE((all[i + 1] - all[i]).count(), (delays[i] + 2ms).count());
    }
}

std::optional<history> history_of_dead(store& s, const std::string& id) {
    for (const stored_timer& t : list(s, timer_set::dead))
        if (t.id == id) return history::parse(t.history);
    return std::nullopt;
}

// Fails deliveries with this reason.
void fail_all(durable_process& p, const std::string& reason) {
    p.handle = [&p, reason](const delivery& d) { p.timers.failed(d.token, reason); };
}

// A put with a verdict, as a program in another language makes it without a deadline.
struct store_with_first : memory_store {
    using memory_store::memory_store;
    void submit(operation o) override {
        if (auto* const c = std::get_if<operations::claim>(&o))
            c->then = [then = std::move(c->then)](standing how, std::vector<claimed> got) {
                for (claimed& g : got)
                    if (g.timer.attempt == 1) g.timer.verdict = "first";
                then(how, std::move(got));
            };
        memory_store::submit(std::move(o));
    }
};

}  // namespace

// --- the text -----------------------------------------------------------------------------------

Test(durable_plans, valid_plans_have_no_fault) {
    for (const char* plan :
         {"", "cron 5", "cron 5 | zone Later", " cron 5|until 2027-01-01 ", "times 10",
          "until 2027-01-01T00:00:00Z", "retry exponential 1s to 1h jitter 20%",
          "retry exponential 1ms", "retry fixed 30s", "retry fixed 2d jitter 100%", "attempts 5",
          "attempts 5 for good",
          "cron 5 | zone Later | until 2027-01-01 | times 3 | retry fixed 1m | attempts 2"})
        CHECK_EQ(plan_fault(plan, fake_calendar), "");
}

Test(durable_plans, a_faulty_plan_is_explained_in_a_sentence) {
    const std::map<std::string, std::string> faults{
        {"every 5", "\"every 5\" is no clause: expected is cron"},
        {"cron 5 | cron 6", "\"cron 6\" is a second rule"},
        {"times 1 | times 2", "\"times 2\" is there twice"},
        {"cron", "\"cron\" is empty"},
        {"rrule FREQ=DAILY | zone Later", "put the timer again with cron, or with a period"},
        {"cron x", "the fake calendar wants a number"},
        {"cron 5 | zone Mars", "no such zone"},
        {"zone Later", "\"Later\" is the zone of a rule, and there is none"},
        {"cron 5 |", "\"\" is no clause"},
        {"until tomorrow", "\"tomorrow\" is no time"},
        {"until 2027-02-29", "is no time"},
        {"until 2027-01-01T24:00:00Z", "is no time"},
        {"times 0", "\"0\" is no number"},
        {"times -1", "\"-1\" is no number"},
        {"attempts 4294967296", "is no number"},
        {"retry sometimes 1s", "is no way to retry"},
        {"retry fixed", "is no way to retry"},
        {"retry fixed 5", "\"5\" is no duration"},
        {"retry fixed 0s", "\"0s\" is no duration"},
        {"retry fixed 1001d", "is no duration"},
        {"retry fixed 99999999999999d", "is no duration"},
        {"retry fixed 1s to 1h", "\"to\" is not expected here"},
        {"retry exponential 1h to 1s", "below the first"},
        {"retry fixed 1s jitter 101%", "\"101%\" is no part"},
        {"retry fixed 1s jitter -1%", "\"-1%\" is no part"},
        {"times 1\n", "no printable ASCII"},
        {std::string(1'001, 'x'), "it has 1001 bytes, and may have 1000"}};
    for (const auto& [plan, words] : faults) {
        const std::string fault = plan_fault(plan, fake_calendar);
        CHECK_EQ(fault.find(words) == std::string::npos ? plan + ": " + fault : words, words);
    }
    CHECK(plan_fault("cron 5", {}).find("needs options::calendar") != std::string::npos);
}

// Other programs may write anything into a store.
Test(durable_plans, any_text_is_read_or_has_a_fault) {
    const std::string parts[] = {
        "cron", "until",   "times",      "retry",    "fixed",
        "5",    "jitter",  "2027-01-31", "to",       "99999999999999999999",
        "20%",  "1s",      "|",          " ",        "exponential",
        "\xff", "T1:2:3Z", "-",          "attempts", "zone"};
    std::minstd_rand random(1);
    int read = 0;
    for (int i = 0; i < 20'000; ++i) {
        std::string text;
        for (auto n = random() % 8; n > 0; --n) text += parts[random() % 20] + " ";
        read += plan_fault(text, fake_calendar).empty();
        const history h = history::parse(text);
        CHECK(history::parse(to_text(h)) == h);
    }
    CHECK(read > 100 && read < 19'000);
}

Test(durable_plans, a_history_is_read_as_it_was_written) {
    const history h{3, time_point(5ms), time_point(7ms), 2, "no room: 5 of 5"};
    CHECK_EQ(to_text(h), "3 5 7 2 no room: 5 of 5");
    CHECK(history::parse(to_text(h)) == h);
    CHECK_EQ(to_text(history()), "");
    CHECK(history::parse("") == history());
    const history planned{0, {}, time_point(7ms), 2, "", 5ms};
    CHECK_EQ(to_text(planned), "0 0 7+5 2 ");
    CHECK(history::parse(to_text(planned)) == planned);
    for (const char* odd : {"x", "1 2 3+ 4 x", "1 2 3+4", "1 2 3+x 4 x", "1 2 3 4", "-1 2 3 4 x",
                            "4294967296 2 3 4 x", "1 2 3 x y"}) {
        CHECK_EQ(history::parse(odd).reason, odd);
        CHECK_EQ(history::parse(odd).failures, 0U);
    }
}

Test(durable_plans, a_put_with_a_bad_plan_is_refused) {
    alone w(with_calendar());
    const auto put = [&](const record& r) { return w.one.timers.put(r, existing::keep); };
    CHECK(put(with_plan("a", in(1s), "cron x")) == refusal::bad_plan);
    CHECK(put(with_plan("a", in(1s), std::string(1'001, ' '))) == refusal::bad_plan);
    CHECK(put(with_plan("a", in(1s), "cron 5", 1s)) == refusal::bad_period);
    CHECK(put(with_plan("a", by_plan, "times 5")) == refusal::bad_due);
    CHECK(put(with_plan("a", by_plan, "")) == refusal::bad_due);
    CHECK(put(with_plan("a", by_plan, "cron never")) == refusal::bad_due);
    CHECK(put(with_plan("a", by_plan, "cron 5 | until 1990-01-01")) == refusal::bad_due);
    alone without;
    CHECK(without.one.timers.put(with_plan("a", in(1s), "cron 5"), existing::keep) ==
          refusal::bad_plan);
    CHECK(without.one.timers.put(with_plan("a", in(1s), "attempts 5"), existing::keep) ==
          refusal::none);
}

Test(durable_plans, the_first_time_of_a_plan_is_told) {
    const time_point now = in(0ms);
    CHECK(first_time("cron 5 | attempts 2", fake_calendar, now) ==
          fake_calendar("cron 5", "", now));
    for (const char* none : {"", "times 5", "cron never", "cron 5 | until 1990-01-01"})
        CHECK(!first_time(none, fake_calendar, now));
}

Test(durable_plans, a_default_plan_with_other_clauses_is_refused) {
    for (const char* plan : {"cron 5", "times 5", "until 2027-01-01", "retry"}) {
        try {
            alone w(with_calendar(plan));
            CHECK(!"it was accepted");
        } catch (const std::invalid_argument& e) {
            CHECK(std::string(e.what()).find("default_plan is \"" + std::string(plan)) !=
                  std::string::npos);
        }
    }
}

// --- beats --------------------------------------------------------------------------------------

Test(durable_plans, a_rule_sets_all_deadlines_in_its_zone) {
    alone w(with_calendar());
    const time_point start = *fake_calendar("cron 100", "Later", in(0ms));
    CHECK(w.one.put(with_plan("a", by_plan, "cron 100 | zone Later")) == put_result::stored);
    w.one.pass(350ms);
    CHECK(dues(w.one) == (std::vector{start, start + 100ms, start + 200ms, start + 300ms}));
    CHECK_EQ(w.one.got.back().body, "body");
    CHECK_EQ(w.one.timers.counters().planned, 4U);
    CHECK_EQ(w.one.timers.counters().done, 4U);
    CHECK_EQ(w.one.timers.counters().retries, 0U);
}

Test(durable_plans, beats_that_were_missed_are_skipped) {
    alone w(with_calendar());
    w.one.ends = false;
    w.one.put(with_plan("a", in(100ms), "cron 100"));
    const time_point start = in(100ms);
    w.one.pass(350ms);
    REQUIRE_EQ(w.one.got.size(), 1U);
    w.one.timers.done(w.one.got[0].token);
    w.one.pass(100ms);
    CHECK(dues(w.one) == (std::vector{start, start + 300ms}));
}

Test(durable_plans, setting_the_clock_back_repeats_no_beat) {
    const options o = with_calendar();
    reading::duration shift{};
    memory_database all(1, [&] { return support::durable_now() + shift; });
    durable_process one(all, "one", o, 100ms);
    one.settle();
    const time_point start = in(100ms);
    one.begin(with_plan("a", start, "cron 100"), 100ms);
    shift = -50ms;
    one.timers.done(one.got[0].token);
    one.pass(5ms);
    CHECK(find(beside(all), "a")->due == start + 100ms);
}

Test(durable_plans, times_ends_a_timer_after_that_many_successes) {
    alone w(with_calendar());
    int failures = 2;
    w.one.handle = [&](const delivery& d) {
        if (failures-- > 0) return w.one.timers.failed(d.token, "not yet");
        w.one.timers.done(d.token);
    };
    w.one.put(with_plan("a", in(10ms), "cron 100 | times 3 | retry fixed 10ms"));
    w.one.pass(1s);
    CHECK_EQ(w.one.got.size(), 5U);  // two of them failed
    CHECK_EQ(count(beside(w.all)).waiting + count(beside(w.all)).dead, 0U);
}

Test(durable_plans, until_is_the_time_of_the_last_beat) {
    options o = with_calendar();
    alone w(o);
    const auto start = std::chrono::sys_days(std::chrono::floor<std::chrono::days>(in(0ms)));
    CHECK(start == in(0ms));  // the manual clock begins at midnight
    w.one.put(with_plan("a", start + 1h, "cron 3600000 | until 2019-12-20T03:00:00Z"));
    w.one.put(with_plan("b", start + 1h, "until 2019-12-20T03:00:00Z", 30min));
    for (int i = 0; i < 30; ++i) {  // ten hours
        tvec::manual_clock::advance(20min);
        w.one.settle();
        w.one.pass(2ms);
    }
    CHECK(w.one.got.back().due <= start + 3h);
    CHECK_EQ(std::ranges::count(w.one.got, "a", [](const auto& d) { return d.token.id; }), 3);
    CHECK(std::ranges::count(w.one.got, "b", [](const auto& d) { return d.token.id; }) > 3);
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
}

Test(durable_plans, timers_without_deadlines_begin_at_their_first_beat) {
    const options with_rules = with_calendar();
    memory_database all(1, support::durable_now);
    durable_process::wheel wheels;
    store_with_first s(all, "one");
    std::vector<time_point> got;
    timers<durable_process::wheel> one(
        wheels, s,
        [&](const delivery& d) {
            got.push_back(d.due);
            one.done(d.token);
        },
        with_rules);
    const auto turn = [&] {
        do {
            wheels.run();
            one.run();
        } while (s.unanswered() != 0);
    };
    turn();
    const time_point first = *fake_calendar("cron 100", "", in(0ms));
    support::asking::put(beside(all), with_plan("a", in(0ms), "cron 100 | times 2"));
    support::asking::put(beside(all), with_plan("b", in(0ms), "cron never"));
    support::pass(500ms, turn);
    CHECK(got == (std::vector{first, first + 100ms}));
    REQUIRE(history_of_dead(s, "b").has_value());
    CHECK(history_of_dead(s, "b")->reason.find("no time that is still to come") !=
          std::string::npos);
}

// --- failures -----------------------------------------------------------------------------------

// All die of their last failure. A timer without a policy is retried after the lease of its claim.
Test(durable_plans, delays_follow_the_plan_and_the_reason) {
    struct row {
        std::string default_plan, plan, reason;
        std::vector<duration> delays;
        std::string letter = reason;
    };
    const std::vector<row> rows{
        {"", "retry exponential 10ms to 50ms | attempts 6", "x", {10ms, 20ms, 40ms, 50ms, 50ms}},
        {"", "retry fixed 20ms | attempts 4", "x", {20ms, 20ms, 20ms}},
        {"retry fixed 20ms | attempts 2", "", "x", {20ms}},
        {"retry fixed 20ms | attempts 2", "retry fixed 50ms", "x", {50ms}},
        {"attempts 2", "", "x", {500ms}},
        {"", "attempts 3", "after 60ms: full", {60ms, 60ms}, "full"},
        {"", "retry exponential 50ms | attempts 3", "after 60ms: full", {60ms, 100ms}, "full"},
        {"", "retry fixed 10ms | attempts 2", "after lunch: full", {10ms}}};
    for (const row& r : rows) {
        alone w(with_calendar(r.default_plan));
        fail_all(w.one, r.reason);
        w.one.put(with_plan("a", in(10ms), r.plan));
        w.one.pass(600ms);
        delayed_by(dues(w.one), r.delays);
        CHECK_EQ(w.one.got.back().body, "body");
        CHECK_EQ(w.one.timers.counters().failures, r.delays.size() + 1);
        REQUIRE(history_of_dead(w.one.store, "a").has_value());
        CHECK_EQ(history_of_dead(w.one.store, "a")->reason, r.letter);
        CHECK_EQ(history_of_dead(w.one.store, "a")->failures, r.delays.size() + 1);
    }
}

Test(durable_plans, jitter_stays_within_its_bounds_and_spreads) {
    alone w(with_calendar("retry fixed 1s jitter 20%"));
    fail_all(w.one, "no room");
    const time_point start = in(10ms);
    for (int i = 0; i < 200; ++i) w.one.put({std::to_string(i), start});
    w.one.pass(20ms);
    time_point least = latest_due, most = earliest_due;
    for (const stored_timer& t : list(beside(w.all), timer_set::waiting, {}, 300)) {
        least = std::min(least, t.due);
        most = std::max(most, t.due);
    }
    CHECK(least >= start + 800ms && least < start + 850ms);
    CHECK(most <= start + 1'201ms && most > start + 1'150ms);
}

// Stores of 0.5.0 hold such plans. The beat that is due comes, and nothing is lost.
Test(durable_plans, a_stored_rrule_becomes_a_letter_that_advises) {
    for (const bool fails : {false, true}) {
        std::vector<std::string> told;
        options o = with_calendar();
        o.on_dead = [&](const std::string& id, const std::string& why) {
            told.push_back(id + ": " + why);
        };
        alone w(o);
        if (fails) fail_all(w.one, "no");
        const std::string plan = "rrule 100 | times 3";
        support::asking::put(beside(w.all), with_plan("a", in(10ms), plan));
        w.one.pass(300ms);
        CHECK_EQ(w.one.got.size(), 1U);
        const std::string why =
            "plan: \"rrule\" is a rule that this version does not have: put the "
            "timer again with cron, or with a period";
        CHECK(told == std::vector{"a: " + why});
        const auto dead = list(beside(w.all), timer_set::dead);
        REQUIRE_EQ(dead.size(), 1U);
        CHECK_EQ(dead[0].id + dead[0].plan + dead[0].body, "a" + plan + "body");
        CHECK_EQ(history::parse(dead[0].history).reason, why);
        w.one.handle = {};
        w.one.put(with_plan("a", in(10ms), "cron 100 | times 3"), existing::replace);
        w.one.pass(350ms);
        CHECK_EQ(w.one.got.size(), 4U);
        CHECK_EQ(count(beside(w.all)).waiting + count(beside(w.all)).dead, 0U);
    }
}

Test(durable_plans, failures_in_a_row_make_a_dead_letter) {
    std::vector<std::string> told;
    options o = with_calendar("retry fixed 10ms | attempts 9");
    o.on_dead = [&](const std::string& id, const std::string& why) { told.push_back(id + why); };
    alone w(o);
    fail_all(w.one, "no\nroom \xc3\xa9\xff" + std::string(600, 'x'));
    const time_point start = in(10ms);
    w.one.put(with_plan("a", start, "attempts 3"));
    w.one.pass(100ms);
    CHECK_EQ(w.one.got.size(), 3U);
    const auto h = history_of_dead(w.one.store, "a");
    REQUIRE(h.has_value());
    CHECK_EQ(h->failures, 3U);
    CHECK(h->first >= start && h->last >= h->first + 20ms && h->last <= start + 26ms);
    CHECK_EQ(h->reason, "no room \xc3\xa9?" + std::string(489, 'x'));
    CHECK_EQ(w.one.timers.counters().died, 1U);
    CHECK(told == std::vector{"a" + h->reason});
    w.one.handle = {};
    CHECK(w.one.timers.revive("a", in(1ms)) == refusal::none);
    w.one.pass(5ms);
    CHECK_EQ(w.one.got.size(), 4U);
    CHECK_EQ(count(beside(w.all)).waiting + count(beside(w.all)).dead, 0U);
}

Test(durable_plans, done_forgets_the_failures_before_it) {
    for (const record& timer :
         {with_plan("a", in(10ms), "cron 100 | retry fixed 10ms | attempts 3"),
          record{"a", in(10ms), "body", 100ms}}) {
        alone w(with_calendar("retry fixed 10ms | attempts 3"));
        int n = 0;
        w.one.handle = [&](const delivery& d) {  // two failures before each success
            if (++n % 3 != 0) return w.one.timers.failed(d.token, "not yet");
            w.one.timers.done(d.token);
        };
        w.one.put(timer);
        w.one.pass(1s);
        CHECK_EQ(count(beside(w.all)).dead, 0U);
        CHECK(w.one.got.size() > 20U);
        n = 2;
        w.one.pass(100ms);
        CHECK_EQ(history::parse(find(beside(w.all), "a")->history).failures, 0U);
        CHECK_EQ(count(beside(w.all)).dead, 0U);
    }
}

Test(durable_plans, an_exception_fails_the_delivery_unless_already_ended) {
    int thrown = 0;
    options o = with_calendar("attempts 1");
    o.on_exception = [&](const std::exception_ptr&) { ++thrown; };
    alone w(o);
    w.one.handle = [&](const delivery& d) {
        if (d.token.id == "done") w.one.timers.done(d.token);
        if (d.token.id == "given") w.one.timers.hand_over(d.token);
        if (d.token.id == "odd") throw 5;
        throw std::runtime_error("no money for " + d.token.id);
    };
    for (const char* id : {"a", "done", "given", "odd"}) w.one.put({id, in(10ms)});
    w.one.pass(100ms);
    CHECK_EQ(thrown, 4);
    CHECK_EQ(w.one.timers.counters().thrown, 4U);
    CHECK_EQ(w.one.timers.counters().failures, 2U);
    CHECK_EQ(history_of_dead(w.one.store, "a")->reason, "no money for a");
    CHECK_EQ(history_of_dead(w.one.store, "odd")->reason, "an exception that is no std::exception");
    CHECK(!find(beside(w.all), "done").has_value());
    CHECK(find(beside(w.all), "given").has_value());
}

Test(durable_plans, dead_letters_after_crashes_are_reported) {
    std::vector<std::string> told;
    options o = with_calendar();
    o.attempts = 2;
    o.on_dead = [&](const std::string& id, const std::string& why) { told.push_back(id + why); };
    alone w(o);
    w.one.ends = false;
    w.one.put({"a", in(10ms)});
    w.one.pass(2s);
    CHECK(told == std::vector<std::string>{"adeliveries without an end: 2"});
    CHECK_EQ(history_of_dead(w.one.store, "a")->reason, "deliveries without an end: 2");
}

// --- beats that are given up ---------------------------------------------------------------------

Test(durable_plans, a_rule_continues_after_a_beat_given_up) {
    std::vector<std::string> told;
    options o = with_calendar("retry fixed 10ms");
    o.on_dead = [&](const std::string& id, const std::string& why) { told.push_back(id + why); };
    alone w(o);
    fail_all(w.one, ": away");
    w.one.put(with_plan("a", in(100ms), "cron 100 | attempts 3 | times 9"));
    w.one.pass(290ms);
    CHECK_EQ(w.one.got.size(), 6U);  // two beats
    const auto dead = list(beside(w.all), timer_set::dead);
    REQUIRE_EQ(dead.size(), 2U);
    const auto letter_of = [](const delivery& d) {
        return "a #" + std::to_string(d.token.attempt) + '@' +
               std::to_string(d.due.time_since_epoch().count());
    };
    CHECK_EQ(dead[0].id, letter_of(w.one.got[2]));
    CHECK_EQ(dead[1].id, letter_of(w.one.got[5]));
    CHECK_EQ(dead[0].body, "body");
    CHECK_EQ(dead[0].plan, "attempts 3");
    CHECK_EQ(history_of_dead(w.one.store, dead[0].id)->failures, 3U);
    CHECK_EQ(history_of_dead(w.one.store, dead[0].id)->reason, ": away");
    const std::vector both{dead[0].id + ": away", dead[1].id + ": away"};
    CHECK(told == both);
    CHECK_EQ(w.one.timers.counters().died, 2U);
    w.one.handle = {};
    w.one.pass(400ms);
    CHECK_EQ(history::parse(find(beside(w.all), "a")->history).beats, 6U);
    CHECK_EQ(find(beside(w.all), "a")->plan, "cron 100 | attempts 3 | times 9");
    w.one.got.clear();
    CHECK(w.one.timers.revive(dead[0].id, in(1ms)) == refusal::none);
    w.one.pass(5ms);
    REQUIRE_EQ(w.one.got.size(), 1U);
    CHECK_EQ(w.one.got[0].token.id, dead[0].id);
    CHECK_EQ(count(beside(w.all)).dead, 1U);
    CHECK(!find(beside(w.all), dead[0].id).has_value());
}

Test(durable_plans, a_period_continues_after_a_beat_given_up) {
    for (const bool fails : {true, false}) {
        options o = with_calendar("retry fixed 10ms");
        o.attempts = 2;
        o.claim_lease = 20ms;
        alone w(o);
        if (fails)
            fail_all(w.one, "no");
        else
            w.one.ends = false;
        w.one.put({"a", in(10ms), "body", 200ms});
        w.one.pass(150ms);
        REQUIRE_EQ(list(beside(w.all), timer_set::dead).size(), 1U);
        CHECK(list(beside(w.all), timer_set::dead)[0].id.starts_with("a #"));
        w.one.handle = {};
        w.one.ends = true;
        w.one.got.clear();
        w.one.pass(500ms);
        CHECK_GE(w.one.got.size(), 2U);
        CHECK_EQ(count(beside(w.all)).dead, 1U);
        CHECK_EQ(find(beside(w.all), "a")->every.count(), 200);
    }
}

Test(durable_plans, attempts_for_good_end_a_rule_after_failures) {
    for (const char* plan :
         {"cron 100 | attempts 2 for good", "cron 100 | attempts 2 | until 1971-01-01"}) {
        alone w(with_calendar("retry fixed 10ms"));
        fail_all(w.one, "no");
        w.one.put(with_plan("a", in(100ms), plan));
        w.one.pass(500ms);
        CHECK_EQ(w.one.got.size(), 2U);
        CHECK_EQ(history_of_dead(w.one.store, "a")->failures, 2U);
        CHECK_EQ(count(beside(w.all)).waiting, 0U);
    }
    alone w(with_calendar("retry fixed 10ms | attempts 2 for good"));
    fail_all(w.one, "no");
    w.one.put(with_plan("a", in(100ms), "cron 100"));
    w.one.pass(500ms);
    CHECK_EQ(history_of_dead(w.one.store, "a")->failures, 2U);
}

Test(durable_plans, dead_letters_of_the_longest_ids_are_distinct) {
    alone w(with_calendar("retry fixed 10ms | attempts 1"));
    fail_all(w.one, "no");
    const std::string id(longest_id, 'i');
    w.one.put(with_plan(id, in(100ms), "cron 100"));
    w.one.put(with_plan(id.substr(1) + "j", in(100ms), "cron 100"));
    w.one.pass(150ms);
    const auto dead = list(beside(w.all), timer_set::dead);
    REQUIRE_EQ(dead.size(), 2U);
    CHECK(dead[0].id != dead[1].id);
    for (const stored_timer& t : dead) CHECK_LE(t.id.size(), longest_id);
}

// The store fails at one of the turns in which the beat is claimed and given up: the claim for that
// is no attempt.
Test(durable_plans, a_store_failure_loses_no_beat_given_up) {
    for (int failing = 0; failing < 20; ++failing) {
        options o = with_calendar("retry fixed 10ms");
        o.attempts = 1;
        o.retry = 10ms;
        alone w(o);
        fail_all(w.one, "no");
        w.one.put(with_plan("a", in(100ms), "cron 1000"));
        w.one.pass(99ms);
        for (int turn = 0; turn < failing; ++turn) {
            if (turn % 4 == 0) tvec::manual_clock::advance(1ms);
            w.one.turn();
        }
        w.one.store.fail(1);
        w.one.pass(700ms);
        REQUIRE_EQ(list(beside(w.all), timer_set::dead).size(), 1U);
        CHECK(list(beside(w.all), timer_set::dead)[0].id.starts_with("a #1@"));
        CHECK(find(beside(w.all), "a").has_value());
    }
}

Test(durable_plans, deadlines_planned_by_a_clock_ahead_are_corrected) {
    for (const duration ahead : {duration(24h), duration(30min)}) {
        options o = with_calendar("retry fixed 60ms");
        o.claim_lease = 30s;
        std::chrono::microseconds skew{};
        memory_database all(2, [&] { return support::durable_now() + skew; });
        durable_process p(all, "one", o, 20ms);
        std::map<std::string, int> came;
        p.handle = [&](const delivery& d) {
            CHECK(d.due <= p.timers.now());
            ++came[d.token.id];
            if (d.token.id == "fails") return p.timers.failed(d.token, "no");
            p.timers.done(d.token);
        };
        p.put(with_plan("rule", in(50ms), "cron 100"));
        p.put({"period", in(50ms), "", 70ms});
        p.put({"fails", in(50ms)});
        p.put(with_plan("first at", in(90ms) + 2 * ahead, "cron 100"));
        p.put({"from", in(90ms) + 2 * ahead, "", 70ms});
        p.put({"once", in(90ms) + ahead / 2});
        p.pass(300ms);
        skew = ahead;
        p.pass(290ms);  // the next beat is claimed
        CHECK_EQ(came["once"], 1);
        came.clear();
        skew = {};
        p.pass(2s);  // the look comes after a second
        CHECK_GE(came["rule"], 8);
        CHECK_GE(came["period"], 10);
        CHECK_GE(came["fails"], 12);
        CHECK_EQ(came.count("first at") + came.count("from"), 0U);
        CHECK(find(beside(all), "first at")->due == in(90ms) - 2'590ms + 2 * ahead);
        skew = -ahead;  // while the first look at deliveries that were under way is awaited
        came.clear();
        p.pass(2s);
        CHECK_GE(came["rule"], 8);
        CHECK_GE(came["period"], 10);
    }
}

// Returns the dead letters of beats, when every delivery fails and `attempts 1` gives up each beat.
std::size_t letters_of(alone& w) { return list(beside(w.all), timer_set::dead, {}, 1'000).size(); }

// Deploys cancel and put anew, with a deadline of their own or that of the plan, while others put
// timers under the ids of letters, and the store fails.
Test(durable_plans, beats_given_up_are_dead_letters_or_counted) {
    for (std::uint32_t seed = 1; seed <= (support::only_memory() ? 10U : 60U); ++seed) {
        std::mt19937 random(seed);
        const auto below = [&](std::uint32_t n) {
            return static_cast<std::uint32_t>(random()) % n;
        };
        std::size_t told = 0;
        options o = with_calendar("attempts 1");
        o.on_dead = [&](const std::string&, const std::string&) { ++told; };
        alone w(o);
        fail_all(w.one, "no");
        const auto is_undecided = [&](const std::string& id) {
            const auto t = find(beside(w.all), id);
            return t && (t->attempt != t->ended || !t->verdict.empty());
        };
        const time_point fixed = in(10ms);
        std::set<std::tuple<std::string, std::uint32_t, time_point>> beats;
        for (int i = 0; i < 60; ++i) {
            const std::string id = below(3) != 0 ? "a" : std::string(longest_id, 'i');
            const auto how = below(2) != 0 ? existing::keep : existing::replace;
            const time_point due = below(2) != 0 ? fixed : in(duration(below(80)));
            const auto what = is_undecided(id) ? 7 : below(8);  // else the failure is taken back
            if (what == 0) static_cast<void>(w.one.timers.cancel(id));
            if (what == 1) w.one.put(with_plan(id, by_plan, "cron 40"), how);
            if (what == 2) w.one.put({id, due, "body", 50ms}, how);
            if (what == 3) w.one.put({id.substr(0, 9) + " #" + std::to_string(below(6)), in(1h)});
            if (what == 4) w.one.store.fail(1 + below(2));
            w.one.settle();
            if (what > 3) w.one.pass(duration(below(60)));
        }
        for (const std::string& id : {std::string("a"), std::string(longest_id, 'i')}) {
            while (is_undecided(id)) w.one.pass(1ms);
            static_cast<void>(w.one.timers.cancel(id));
            w.one.settle();
        }
        for (const delivery& d : w.one.got) beats.emplace(d.token.id, d.token.attempt, d.due);
        CHECK_EQ(w.one.timers.counters().died, w.one.got.size());
        CHECK_EQ(told, w.one.got.size());
        CHECK_EQ(letters_of(w), beats.size());
    }
}

Test(durable_plans, a_letter_whose_id_is_taken_is_counted) {
    alone w(with_calendar("attempts 1"));
    fail_all(w.one, "no");
    const time_point due = in(10ms);
    const std::string taken = "a #1@" + std::to_string(due.time_since_epoch().count());
    w.one.put({taken, in(1h)});
    w.one.put({"a", due, "body", 1s});
    w.one.pass(50ms);
    CHECK_EQ(w.one.timers.counters().died, 1U);
    CHECK_EQ(letters_of(w), 0U);
    CHECK(find(beside(w.all), taken)->due > due);
    CHECK(find(beside(w.all), "a")->due == due + 1s);
}

Test(durable_plans, times_counts_a_beat_given_up) {
    for (const duration every : {0ms, 100ms}) {
        alone w(with_calendar("attempts 1"));
        fail_all(w.one, "no");
        w.one.put(with_plan("a", in(10ms), every == 0ms ? "cron 100 | times 3" : "times 3", every));
        w.one.pass(3s);
        CHECK_EQ(w.one.got.size(), 3U);
        CHECK_EQ(letters_of(w), 3U);
        CHECK_EQ(count(beside(w.all)).waiting, 0U);
    }
}

// Requests are done, answers arrive and the engine looks at the clock in any order while it goes
// ahead and back.
Test(durable_plans, clock_jumps_amid_random_requests_lose_no_beat) {
    for (std::uint32_t seed = 1; seed <= (support::only_memory() ? 10U : 150U); ++seed) {
        std::mt19937 random(seed);
        const auto below = [&](std::uint32_t n) {
            return static_cast<std::uint32_t>(random()) % n;
        };
        std::chrono::microseconds skew{};
        memory_database all(1, [&] { return support::durable_now() + skew; });
        options o = with_calendar();
        o.claim_lease = 500ms;
        durable_process p(all, "one", o, 20ms);
        p.settle();
        std::map<std::string, int> came;
        p.handle = [&](const delivery& d) {
            ++came[d.token.id];
            if (below(8) != 0) p.timers.done(d.token);
        };
        p.put({"period", in(10ms), "", 20ms});
        p.put({"long period", in(10ms), "", 90ms});
        p.put(with_plan("rule", in(10ms), "cron 40"));
        const auto stumble = [&](std::chrono::milliseconds d) {
            support::pass(d, [&] {
                for (auto n = below(4); n-- != 0;) static_cast<void>(p.store.serve());
                for (auto n = below(4); n-- != 0;) static_cast<void>(p.store.answer());
                if (below(3) == 0) p.wheels.run();
                if (below(3) == 0) p.timers.run();
            });
        };
        stumble(std::chrono::milliseconds(below(200)));
        skew = 24h + std::chrono::milliseconds(below(4'000)) - 2s;
        stumble(std::chrono::milliseconds(below(below(2) != 0 ? 100 : 4)));
        skew = std::chrono::milliseconds(below(4'000)) - 2s;
        stumble(std::chrono::milliseconds(below(100)));
        p.pass(4s);
        came.clear();
        p.pass(2s);
        for (const char* id : {"period", "long period", "rule"})
            if (came[id] < 2) cr_log_error("seed %u: %s came %d times", seed, id, came[id]);
        for (const char* id : {"period", "long period", "rule"}) CHECK_GE(came[id], 2);
    }
}

// A process on a busy machine may look at the clock long after the store has.
Test(durable_plans, beats_planned_before_the_jump_is_noticed_come) {
    std::chrono::microseconds skew{};
    memory_database all(1, [&] { return support::durable_now() + skew; });
    durable_process p(all, "one", with_calendar());
    p.settle();
    p.begin({"a", in(10ms), "", 100ms}, 20ms);
    p.timers.hand_over(p.got[0].token);
    skew = 24h;
    CHECK(support::asking::end(beside(all), {p.got[0].token, outcome::done}).was_current);
    tvec::manual_clock::advance(200ms);  // the beat is due when the process sees the clock
    p.pass(1ms);
    REQUIRE_EQ(p.got.size(), 1U);
    skew = {};
    p.pass(3s);
    CHECK_GE(p.got.size(), 2U);
    CHECK(p.got.back().due < in(0ms) + 1ms);
}

Test(durable_plans, beats_planned_during_an_unseen_clock_jump_come) {
    std::chrono::microseconds skew{};
    memory_database all(1, [&] { return support::durable_now() + skew; });
    durable_process p(all, "one", with_calendar());
    p.settle();
    p.begin({"a", in(10ms), "", 100ms}, 20ms);
    p.timers.done(p.got[0].token);
    tvec::manual_clock::advance(1ms);
    p.wheels.run();
    REQUIRE(p.store.is_asked());
    skew = 24h;
    while (p.store.serve()) continue;
    skew = {};
    p.ends = true;
    p.pass(3s);
    CHECK_GE(p.got.size(), 10U);
}

// The first page of a look is under way when the clock is ahead a second time.
Test(durable_plans, a_clock_jump_during_a_look_loses_nothing) {
    std::chrono::microseconds skew{};
    const options o = with_calendar();
    memory_database all(1, [&] { return support::durable_now() + skew; });
    durable_process p(all, "one", o);
    p.settle();
    for (int i = 0; i < 150; ++i) p.put({std::to_string(i), in(10ms), "", 100ms});
    p.pass(50ms);
    skew = 24h;
    p.pass(300ms);
    skew = {};
    p.pass(990ms);
    p.pass_without_answers(20ms);
    REQUIRE(p.store.is_asked());
    skew = 24h;
    p.pass_without_answers(2ms);
    skew = {};
    p.pass_without_answers(1'200ms);  // longer than the engine waits for its next look
    p.pass(3s);
    std::map<std::string, int> came;
    p.handle = [&](const delivery& d) {
        ++came[d.token.id];
        p.timers.done(d.token);
    };
    p.pass(200ms);
    CHECK_EQ(came.size(), 150U);
}

// Before, while and after the clock is ahead. Their rules and periods would have given them the
// same deadline then, or the clock was just before it.
Test(durable_plans, deadlines_set_by_users_are_never_replanned) {
    constexpr std::chrono::microseconds ahead = 10min;
    for (const int when : {0, 1, 2}) {
        std::chrono::microseconds skew{};
        memory_database all(2, [&] { return support::durable_now() + skew; });
        options o = with_calendar("retry fixed 1m");
        durable_process p(all, "one", o, 20ms);
        p.settle();
        p.handle = [&](const delivery& d) {
            if (d.token.id == "fails") return p.timers.failed(d.token, "no");
            p.timers.done(d.token);
        };
        const time_point due = *fake_calendar("cron 60000", "", in(10min));
        const auto give = [&] {
            for (const char* id : {"rule", "period", "fails"})
                CHECK(p.timers.touch(id, due) == refusal::none);
            p.put(with_plan("put", due, "cron 60000"), existing::replace);
            p.put(with_plan("put period", due, "", 1min), existing::replace);
        };
        p.put(with_plan("rule", in(10ms), "cron 60000"));
        p.put({"period", due - 10min, "", 1min});
        p.put({"fails", in(10ms)});
        p.pass(100ms);
        if (when == 0) give();
        p.settle();
        skew = ahead - 10s;
        p.pass(100ms);
        if (when == 1) give();
        p.pass(100ms);
        skew = {};
        if (when == 2) p.pass(3s);  // the first look is over
        if (when == 2) give();
        p.pass(40s);
        for (const char* id : {"rule", "period", "fails", "put", "put period"})
            CHECK(find(beside(all), id)->due == due);
        p.got.clear();
        while (in(0ms) < due) {
            tvec::manual_clock::advance(100ms);
            p.settle();
        }
        p.pass(100ms);
        CHECK_EQ(p.got.size(), 5U);
        for (const delivery& d : p.got) CHECK(d.due == due);
    }
}

// The process plans by a clock that is still ahead, and which is set back once more.
Test(durable_plans, large_backward_clock_steps_lose_no_beat) {
    std::chrono::microseconds skew{};
    memory_database all(1, [&] { return support::durable_now() + skew; });
    durable_process p(all, "one", with_calendar("retry fixed 1s"));
    p.settle();
    std::map<std::string, int> came;
    p.handle = [&](const delivery& d) {
        ++came[d.token.id];
        if (d.token.id == "fails") return p.timers.failed(d.token, "no");
        p.timers.done(d.token);
    };
    skew = 24h;
    p.put(with_plan("rule", in(10ms), "cron 600000"));
    p.put({"period", in(10ms), "", 10min});
    p.put({"fails", in(10ms)});
    p.pass(100ms);
    for (const auto shown : {12h, 6h, 0h}) {
        skew = shown;
        p.pass(1100ms);
    }
    skew = 24h;  // before the deadlines that the process has planned anew
    p.pass(100ms);
    skew = {};
    p.pass(1100ms);
    for (const char* id : {"rule", "period"}) CHECK(find(beside(all), id)->due <= in(10min));
    came.clear();
    p.pass(3s);
    CHECK_GE(came["fails"], 2);
}

Test(durable_plans, a_retry_planned_by_a_drifting_clock_comes) {
    std::chrono::microseconds skew{};
    const options o = with_calendar("retry fixed 2s");
    memory_database all(1, [&] { return support::durable_now() + skew; });
    durable_process p(all, "one", o);
    p.settle();
    fail_all(p, "no");
    p.put({"a", in(10ms)});
    skew = 24h;
    p.pass(100ms);
    REQUIRE_EQ(p.got.size(), 1U);
    skew += 10ms;
    p.pass(100ms);
    skew = {};
    p.pass(4s);
    CHECK_GE(p.got.size(), 2U);
}

Test(durable_plans, beats_go_on_after_small_backward_steps) {
    for (const auto step : {45s, 10s}) {
        std::chrono::microseconds skew{};
        const options o = with_calendar();
        memory_database all(1, [&] { return support::durable_now() + skew; });
        durable_process p(all, "one", o);
        p.settle();
        skew = 10min;
        p.put({"a", in(10ms), "", 1s});
        p.pass(20ms);
        REQUIRE_EQ(p.got.size(), 2U);
        for (; skew > 0s; p.pass(10ms)) skew = std::max<std::chrono::microseconds>(skew - step, 0s);
        p.got.clear();
        p.pass(70s);
        CHECK_GE(p.got.size(), 2U);
    }
}

// The new owner of the shard has not seen the clock.
Test(durable_plans, a_former_owner_corrects_beats_that_it_ended) {
    std::chrono::microseconds skew{};
    options o = with_calendar();
    o.shard_lease = 300ms;
    memory_database all(1, [&] { return support::durable_now() + skew; });
    durable_process one(all, "one", o);
    one.settle();
    skew = 24h;
    one.begin({"a", in(10ms), "", 100ms}, 20ms);
    one.timers.done(one.got[0].token);
    one.pass(110ms);
    REQUIRE_EQ(one.got.size(), 2U);
    const token t = one.got[1].token;
    CHECK(one.timers.extend(t, 1h) == refusal::none);
    one.settle();
    skew = {};
    one.pass(2s);
    durable_process two(all, "two", o);
    two.pass(500ms);  // the lease of the shard has ended
    one.pass(200ms);
    CHECK_EQ(one.timers.gauges().shards, 0U);
    one.timers.done(t);
    support::pass(3s, [&] {
        one.settle();
        two.settle();
    });
    CHECK_GE(two.got.size(), 10U);
}

// A timer that was touched while its claim was on its way would come twice.
Test(durable_plans, beats_planned_by_a_correct_clock_stay_untouched) {
    std::chrono::microseconds skew{};
    const options o = with_calendar("retry fixed 50ms");
    memory_database all(1, [&] { return support::durable_now() + skew; });
    durable_process p(all, "one", o, 30ms);
    p.settle();
    p.begin({"a", in(10ms), "", 100ms}, 20ms);
    p.timers.done(p.got[0].token);
    tvec::manual_clock::advance(1ms);
    p.wheels.run();
    skew = 24h;  // no part of the engine sees it
    p.store.serve_all();
    skew = {};
    p.ends = true;
    p.pass(3s);
    int failures = 0;
    p.handle = [&](const delivery& d) {
        if (++failures % 3 == 0) return p.timers.failed(d.token, "no");
        p.timers.done(d.token);
    };
    constexpr std::size_t way = 12;  // of a request, in milliseconds
    std::vector<std::size_t> asked;
    std::size_t served = 0;
    p.store.is_stepped = true;
    support::pass(3s, [&] {
        p.turn();
        asked.push_back(served + p.store.unanswered());
        if (asked.size() <= way) return;
        for (; served < asked[asked.size() - 1 - way]; ++served) p.store.serve();
        p.store.answer_all();
    });
    CHECK_GE(p.got.size(), 30U);
    CHECK_EQ(p.timers.counters().stale, 0U);
}

// Another program ends a delivery that was under way when the clock was set back, and an answer of
// the store is lost meanwhile.
Test(durable_plans, beats_ended_by_others_are_corrected_despite_failures) {
    std::chrono::microseconds skew{};
    options o = with_calendar();
    o.claim_lease = 10s;
    memory_database all(1, [&] { return support::durable_now() + skew; });
    durable_process p(all, "one", o);
    p.settle();
    token with_worker;
    p.handle = [&](const delivery& d) {
        if (d.token.id == "other" || p.got.size() < 5) return p.timers.done(d.token);
        with_worker = d.token;
        p.timers.hand_over(d.token);
    };
    skew = 24h;
    p.put({"a", in(10ms), "", 100ms});
    p.put({"other", in(10ms), "", 100ms});
    p.pass(400ms);
    REQUIRE_EQ(with_worker.id, "a");
    skew = {};
    p.pass(990ms);
    p.pass_without_answers(20ms);
    p.store.serve_all();  // the look
    p.store.answer_all();
    REQUIRE(p.store.is_asked());
    p.store.fail(5);
    p.pass(5s);
    CHECK(support::asking::end(beside(all), {with_worker, outcome::done}).was_current);
    p.handle = {};
    p.got.clear();
    p.pass(10s);
    CHECK_GE(std::ranges::count(p.got, "a", [](const auto& d) { return d.token.id; }), 10);
}

Test(durable_plans, claims_minutes_ahead_of_their_deadline_are_kept) {
    std::chrono::microseconds skew{};
    memory_database all(1, [&] { return support::durable_now() + skew; });
    options o;
    o.horizon = 10min;
    durable_process p(all, "one", o, 5min);
    p.settle();
    p.put({"a", in(4min)});
    for (const auto set : {0ms, 10ms, 0ms}) {
        skew = set;
        p.pass(2s);
        CHECK_EQ(p.timers.gauges().being_delivered, 1U);
        CHECK_EQ(p.timers.counters().returned, 0U);
    }
}

// --- verdicts -----------------------------------------------------------------------------------

Test(durable_plans, an_unreadable_plan_makes_a_dead_letter) {
    std::vector<std::string> told;
    options o = with_calendar();
    o.on_dead = [&](const std::string& id, const std::string& why) { told.push_back(id + why); };
    alone w(o);
    support::asking::put(beside(w.all), with_plan("a", in(10ms), "whenever"));
    support::asking::put(beside(w.all), with_plan("b", in(10ms), "cron never"));
    w.one.pass(50ms);
    CHECK_EQ(w.one.got.size(), 2U);  // by their deadlines, which are no part of the plan
    REQUIRE_EQ(told.size(), 1U);
    CHECK(told[0].starts_with("aplan: \"whenever\" is no clause"));
    CHECK_EQ(history_of_dead(w.one.store, "a")->reason, told[0].substr(1));
    CHECK_EQ(list(beside(w.all), timer_set::dead)[0].body, "body");
    CHECK(!find(beside(w.all), "b").has_value());
}

// A process in another language ends deliveries by functions of the store.
Test(durable_plans, the_owner_applies_verdicts_of_other_processes) {
    memory_database all(1, support::durable_now);
    durable_process one(all, "one", with_calendar("retry fixed 30ms"));
    one.settle();
    one.begin(with_plan("a", in(10ms), "cron 100"), 20ms);
    one.timers.hand_over(one.got[0].token);
    CHECK(support::asking::end(beside(all), {one.got[0].token, outcome::failed, {}, "x\n\xff"})
              .was_current);
    CHECK_EQ(find(beside(all), "a")->verdict, "failed x\n\xff");
    one.pass(35ms);
    REQUIRE_EQ(one.got.size(), 2U);
    CHECK(one.got[1].due >= in(0ms) - 5ms);
    CHECK_EQ(find(beside(all), "a")->verdict, "");
    CHECK_EQ(history::parse(find(beside(all), "a")->history).reason, "x ?");
}

// The other process may be quicker than the handler.
Test(durable_plans, the_owner_applies_verdicts_that_precede_the_handover) {
    memory_database all(1, support::durable_now);
    options o = with_calendar("retry fixed 30ms");
    o.sweep = 10s;
    durable_process one(all, "one", o);
    one.settle();
    one.begin({"a", in(10ms)}, 20ms);
    const token t = one.got[0].token;
    CHECK(support::asking::end(beside(all), {t, outcome::failed, {}, "x"}).was_current);
    one.settle();
    one.timers.hand_over(t);
    one.pass(40ms);
    CHECK_EQ(one.got.size(), 2U);
}

Test(durable_plans, a_new_owner_applies_verdicts_it_finds) {
    memory_database all(1, support::durable_now);
    options o = with_calendar("retry fixed 30ms");
    o.shard_lease = 50ms;
    auto one = std::make_unique<durable_process>(all, "one", o);
    one->settle();
    one->begin({"a", in(10ms)}, 20ms);
    const token t = one->got[0].token;
    one.reset();
    CHECK(support::asking::end(beside(all), {t, outcome::failed, {}, "x"}).was_current);
    durable_process two(all, "two", o);
    two.pass(200ms);
    REQUIRE_EQ(two.got.size(), 1U);
    CHECK(two.got[0].due > two.store.now() - 200ms);
}

Test(durable_plans, touching_an_undecided_timer_overrides_its_retry) {
    alone w(with_calendar("retry fixed 10ms"));
    w.one.begin({"a", in(10ms)}, 10ms);
    w.one.timers.failed(w.one.got[0].token, "x");
    CHECK(w.one.timers.touch("a", in(100ms)) == refusal::none);
    w.one.pass(99ms);
    CHECK_EQ(w.one.got.size(), 1U);
    w.one.pass(5ms);
    CHECK_EQ(w.one.got.size(), 2U);
}

Test(durable_plans, plans_continue_when_a_file_is_reopened) {
    const support::file_of_timers f;
    options o;
    o.default_plan = "retry fixed 1ms | attempts 3";
    const auto run = [&](bool is_over_at_once) {
        sqlite_store s(f.path);
        tvec::clocked_wheel<> wheel;
        int came = 0;
        timers<> all(
            wheel, s,
            [&](const delivery& d) {
                ++came;
                all.failed(d.token, "no room");
            },
            o);
        if (is_over_at_once)
            CHECK(all.put(with_plan("a", all.now(), "times 1"), existing::keep) == refusal::none);
        while (is_over_at_once ? came == 0 : all.counters().died == 0) {
            support::asking::turn(s, 1ms);
            wheel.run();
            all.run();
        }
        if (is_over_at_once) all.run();  // its end is sent, and nobody reads the answer
        return came;
    };
    CHECK_EQ(run(true), 1);
    {
        sqlite_store s(f.path);
        CHECK_EQ(find(s, "a")->verdict, "failed no room");
    }
    CHECK_EQ(run(false), 2);
    sqlite_store s(f.path);
    CHECK_EQ(history_of_dead(s, "a")->failures, 3U);
    CHECK_EQ(history_of_dead(s, "a")->reason, "no room");
}
