// What each event does to a timer, in the functions that the stores of this process call. The table
// of docs/proof.md is what the store in memory does.
#include "../src/local/timer_state.hpp"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/transitions.hpp"

using namespace std::chrono_literals;
using namespace support::transitions;
using tvec::durable::detail::afterwards, tvec::durable::detail::timer_state;

TestSuite(durable_timer_state, .timeout = 60);

namespace {

const time_point now(1'000h);

timer_state timer_with(std::uint32_t attempt, std::uint32_t ended, std::uint32_t spent) {
    timer_state t(record{"a", now - 1h});
    t.attempt = attempt;
    t.ended = ended;
    t.spent = spent;
    t.history = "h";
    t.verdict = "failed v";
    return t;
}

afterwards end(timer_state& t, outcome how) {
    return t.end({{"a", t.attempt}, how, now + 2h, "no"}, now);
}

}  // namespace

Test(durable_timer_state, a_claim_opens_an_attempt_for_its_lease) {
    timer_state t(record{"a", now});
    CHECK(!t.claim({10s}, now - 1ms, 0s));
    CHECK(t.claim({10s}, now - 1ms, 1ms));
    CHECK_EQ(t.attempt, 1U);
    CHECK(t.is_open() && t.is_current({"a", 1}) && !t.is_current({"a", 2}));
    CHECK(t.visible == now + 10s);  // ahead of the deadline the lease counts from there
    CHECK(t.lease == 10s + 1ms);
    CHECK(!t.claim({10s}, now + 10s - 1ms, 0s));
    CHECK(t.claim({10s}, now + 10s, 0s));
    CHECK_EQ(t.attempt, 2U);
    CHECK_EQ(t.ended, 0U);
}

Test(durable_timer_state, a_lease_never_exceeds_its_length_from_now) {
    timer_state t(record{"a", now});
    t.claim({10s}, now, 0s);
    t.shorten(now - 1h);
    CHECK(t.visible == now - 1h + 10s);
    timer_state waiting(record{"a", now});
    waiting.shorten(now - 1h);
    CHECK(waiting.visible == now);
}

Test(durable_timer_state, an_attempt_is_spent_at_most_once) {
    timer_state t(record{"a", now});
    for (const bool is_spent : {false, true, true}) {
        const std::uint32_t before = t.spent;
        CHECK(t.claim({-1s}, now, 0s));
        for (int i = 0; is_spent && i < 2; ++i) t.spend();
        CHECK_EQ(t.spent, before + is_spent);
    }
}

Test(durable_timer_state, an_end_closes_all_attempts_of_a_timer) {
    for (const outcome how : {outcome::done, outcome::again, outcome::failed, outcome::dead}) {
        timer_state t = timer_with(5, 2, 2);
        t.plan = "times 2";
        CHECK(end(t, how) == (how == outcome::dead ? afterwards::dead : afterwards::waits));
        CHECK(!t.is_open() && t.ended == 5 && t.spent == 0);
        CHECK(t.due == (how == outcome::again ? now + 2h : now - 1h));
        CHECK(t.visible == t.due);
        CHECK_EQ(t.history, "h");
        CHECK_EQ(t.verdict, how == outcome::done     ? "done"
                            : how == outcome::failed ? "failed no"
                                                     : "");
    }
    timer_state once_only = timer_with(1, 0, 0), periodic = once_only, removed = periodic,
                retried = once_only;
    CHECK(end(once_only, outcome::done) == afterwards::gone);
    retried.plan = "retry fixed 1s";
    CHECK(end(retried, outcome::done) == afterwards::gone);
    periodic.every = removed.every = 24h;
    CHECK(end(periodic, outcome::done) == afterwards::waits);
    CHECK(periodic.due == now + 23h && periodic.verdict.empty());
    CHECK(end(removed, outcome::removed) == afterwards::gone);
}

Test(durable_timer_state, returned_attempts_are_unspent_and_close_no_others) {
    timer_state t(record{"a", now - 1h});
    t.claim({10s}, now, 0s);
    t.spend();
    timer_state alone = t;
    CHECK(end(alone, outcome::returned) == afterwards::waits);
    CHECK(!alone.is_open() && alone.spent == 0 && alone.visible == now - 1h);
    t.claim({10s}, now + 10s, 0s);
    t.spend();
    CHECK(end(t, outcome::returned) == afterwards::waits);
    CHECK(t.is_open() && t.attempt == 2 && t.ended == 0 && t.spent == 1);
    CHECK(t.visible == now - 1h);
}

Test(durable_timer_state, touching_replacing_or_reviving_makes_deliveries_stale) {
    timer_state touched = timer_with(5, 2, 2), replaced(record{"a", now}), revived = touched;
    touched.touch(now + 1h);
    CHECK(!touched.is_current({"a", 5}) && !touched.is_open());
    CHECK(touched.attempt == 6 && touched.spent == 0 && touched.visible == now + 1h);
    CHECK(touched.history == "h" && touched.verdict.empty());
    replaced.replace(5);
    CHECK(replaced.attempt == 6 && !replaced.is_open());
    revived.revive(now + 1h);
    CHECK(revived.attempt == 5 && !revived.is_open() && revived.spent == 0);
    CHECK(revived.history.empty() && revived.visible == now + 1h);
}

// More removals than there are numbers, of timers with few and with many attempts.
Test(durable_timer_state, attempts_follow_those_of_gone_timers_and_wrap) {
    using tvec::durable::detail::attempts_of_puts, tvec::durable::detail::later_of;
    CHECK_EQ(later_of(0, 0), 0U);
    CHECK_EQ(later_of(0, 1), 1U);
    CHECK_EQ(later_of(5, 3), 5U);
    CHECK_EQ(later_of(5, 9), 9U);
    CHECK_EQ(later_of(attempts_of_puts - 1, attempts_of_puts), 0U);
    CHECK_EQ(later_of(3, attempts_of_puts - 7), 3U);  // it was put before they began anew
    CHECK_EQ(later_of(0, UINT32_MAX), 0U);
    std::uint32_t gone = 0, rounds = 0;
    for (int i = 0; i < 1'000; ++i) {
        timer_state t(record{"a", now});
        t.begin_after(gone);
        t.attempt += attempts_of_puts / 100;
        const std::uint32_t before = std::exchange(gone, later_of(gone, t.attempt));
        CHECK(gone != before);
        rounds += gone < before;
    }
    CHECK_EQ(rounds, 9U);
}

// --- the table of the page ----------------------------------------------------------------------

namespace {

struct row {
    timer_kind kind;
    event what;
};
const std::vector<row> rows{
    {once, events::put("put, `keep`", existing::keep, 0h)},
    {once, events::put("put, `replace`", existing::replace, 3h)},
    {once, events::put("put, `sooner`, and it is", existing::sooner, -1min)},
    {once, events::claim("claim", 1h)},
    {once, events::claim("claim, the lease is over", -1h)},
    {once, events::spend("spend: the handler was called")},
    {once, events::end("`done`", outcome::done)},
    {with_period, events::end("`done`, with a period", outcome::done)},
    {support::transitions::with_plan, events::end("`done`, with a plan", outcome::done)},
    {once, events::end("`again`", outcome::again, "new")},
    {once, events::end("`failed`", outcome::failed)},
    {once, events::end("`dead`", outcome::dead, "new")},
    {once, events::end("`removed`", outcome::removed)},
    {once, events::end("`returned`: not called", outcome::returned)},
    {once, events::end("an end of an earlier attempt", outcome::done, {}, 1)},
    {once, events::set_deadline<operations::touch>("`touch`")},
    {once, events::set_deadline<operations::revive>("`revive`")},
    {once, events::cancel("`cancel`")},
};
// The states are those of the columns.
const std::vector<state> columns{
    {"waits after a failure", {put_it, begin, note_it, begin, count_it, fail_it}},
    {"is delivered", {put_it, begin, note_it, begin_for_an_hour}},
    {"is a dead letter", {put_it, begin, count_it, bury_it}},
};

// Returns what has changed, in words.
std::string change(const subject& before, const subject& after) {
    if (!after.timer) return "gone";
    const stored_timer &a = *before.timer, &b = *after.timer;
    std::vector<std::string> words;
    const auto add = [&words](bool is_so, const std::string& word) {
        if (is_so) words.push_back(word);
    };
    add(!before.is_dead && after.is_dead, "dead letter");
    add(after.is_open() && (!before.is_open() || a.attempt != b.attempt), "delivered");
    add((before.is_open() || before.is_dead) && !after.is_open() && !after.is_dead, "waits");
    add(b.attempt > a.attempt, "attempt + " + std::to_string(b.attempt - a.attempt));
    add(b.spent > a.spent, "spent + " + std::to_string(b.spent - a.spent));
    add(b.spent < a.spent, "spent " + std::to_string(b.spent));
    add(a.due != b.due, b.every == 0h ? "new deadline" : "next beat");
    add(a.verdict != b.verdict, b.verdict.empty() ? "no verdict" : "verdict `" + b.verdict + "`");
    add(a.history != b.history, b.history.empty() ? "no history" : "new history");
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
}

std::string printed_table() {
    memory_database database;
    memory_store s(database, "one");
    own(s, 0);
    std::vector<subject> all;
    std::vector<const state*> in;
    for (const row& r : rows)
        for (const state& column : columns) {
            all.push_back({std::to_string(all.size()), r.kind, today() - 1h});
            in.push_back(&column);
        }
    prepare(s, all, in);
    const auto what = [](std::size_t i) { return &rows[i / columns.size()].what; };
    act(s, all,
        [&](std::size_t i) { return what(i)->name.starts_with("spend") ? nullptr : &count_it; });
    std::vector<subject> after = all;
    // An hour's lease hides a timer.
    const event over = events::extend("", -1h);
    act(s, after, [&](std::size_t i) { return what(i)->name == "claim" ? nullptr : &over; });
    act(s, after, what);
    std::string text = "| event |";
    for (const state& column : columns) text += " " + column.name + " |";
    text += "\n|---|---|---|---|\n";
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (i % columns.size() == 0) text += "| " + what(i)->name + " |";
        const std::string changed = change(all[i], after[i]);
        text += " `" + after[i].answer + "`" + (changed.empty() ? "" : ": ") + changed + " |";
        if (i % columns.size() == columns.size() - 1) text += "\n";
    }
    return text;
}

std::string text_of(const char* path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

// TVEC_PAGE is the page. With TVEC_RENEW it is written anew.
Test(durable_timer_state, the_proof_page_has_the_current_event_table) {
    const char* const path = std::getenv("TVEC_PAGE");
    if (path == nullptr) cr_skip("TVEC_PAGE names no page");
    const std::string begin_mark = "<!-- printed by durable/tests/timer_state.cpp -->\n";
    std::string page = text_of(path);
    const auto from = page.find(begin_mark), to = page.find("<!-- end -->", from);
    REQUIRE(from != page.npos && to != page.npos);
    const auto first = from + begin_mark.size();
    if (std::getenv("TVEC_RENEW") != nullptr) {
        page.replace(first, to - first, printed_table());
        std::ofstream(path) << page;
    } else {
        CHECK_EQ(page.substr(first, to - first), printed_table());
    }
}
