// The store in a PostgreSQL database: its answers equal those of the store in memory, it can be
// shared, and it reports problems of a server.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/any_store.hpp"
#include "support/asking.hpp"
#include "support/check.hpp"
#include "support/child.hpp"
#include "support/foreign_records.hpp"
#include "support/postgres_server.hpp"
#include "support/transitions.hpp"
#include "tvec/durable/postgres_store.hpp"
#include "tvec/durable/timers.hpp"

using namespace std::chrono_literals;
using namespace support::asking;
using namespace tvec::durable;
using support::postgres_server, support::sql_client;

TestSuite(durable_postgres, .timeout = 600);

namespace {

// Puts a timer by the function that any language calls.
std::string put_by_sql(sql_client& c, const std::string& id, const std::string& more = "") {
    return c.run("select tvec.put('" + id + "', now()" + more + ")");
}

int statements_of(sql_client& admin) {
    return std::stoi(admin.run("select coalesce(sum(calls), 0) from pg_stat_statements where query "
                               "like '%\"tvec\".%'"));
}

// A store, and the timers of it whose handlers were called.
struct process {
    explicit process(const postgres_server& server, options o = {})
        : store(server.options()), timers(
                                       wheel, store,
                                       [this](const delivery& d) {
                                           CHECK(d.due <= store.now());
                                           came.push_back(d.token.id);
                                           if (ends) timers.done(d.token);
                                       },
                                       o) {}

    void turn() {
        pollfd watched{timers.fd(), POLLIN, 0};
        poll(&watched, 1, 1);
        wheel.run();
        timers.run();
    }
    template <class Condition> void until(Condition is_so) {
        while (!is_so()) turn();
    }
    void pass(std::chrono::milliseconds d) {
        const auto end = std::chrono::steady_clock::now() + d;
        until([&] { return std::chrono::steady_clock::now() >= end; });
    }
    bool has(const std::string& id) const { return std::ranges::count(came, id) != 0; }

    bool ends = true;
    std::vector<std::string> came;
    tvec::clocked_wheel<> wheel;
    postgres_store store;
    tvec::durable::timers<> timers;
};

// The answer to an operation that is submitted while the test goes on.
template <class Operation, class Answer> void begin(store& s, Operation o, Answer& got) {
    o.then = [&got](standing, auto answer) { got = std::move(answer); };
    s.submit(std::move(o));
    s.run();
}

}  // namespace

Test(durable_postgres, it_answers_as_the_store_in_memory_does) {
    const postgres_server server;
    server.install(1);  // in memory each shard has numbers of its own
    postgres_store s(server.options());
    support::answers_as_the_store_in_memory(s, 3'000);
}

Test(durable_postgres, every_event_changes_timers_as_in_memory) {
    const postgres_server server;
    postgres_store s(server.options());
    support::transitions::are_those_of_the_store_in_memory(s);
}

Test(durable_postgres, it_keeps_what_stores_promise_of_a_shard) {
    const postgres_server server;
    for (std::size_t i = 0; i < support::promises_of_a_shard.size(); ++i) {
        postgres_options o = server.options();
        o.name = "set_" + std::to_string(i);
        o.shards = 1;
        postgres::install(o);
        postgres_store s(o);
        support::promises_of_a_shard[i](s);
    }
}

Test(durable_postgres, fifty_timers_are_delivered_and_none_is_early) {
    const postgres_server server;
    postgres_store s(server.options());
    support::delivers_fifty(s);
}

Test(durable_postgres, sql_and_cpp_agree_on_shards_of_ids) {
    const postgres_server server;
    server.install(7);
    postgres_store s(server.options());
    sql_client c(server.conninfo());
    for (const char* id : {"a", "b", "order-17", "\xc3\xa4", "0", "1", "2"}) {
        CHECK_EQ(c.run("select tvec.shard_of(convert_to('" + std::string(id) + "', 'UTF8'))"),
                 std::to_string(s.shard_of(id)));
    }
}

// A claim that changes no indexed column finds room on its page, and writes no index.
Test(durable_postgres, a_claim_changes_no_column_of_an_index) {
    const postgres_server server;
    sql_client c(server.conninfo());
    CHECK_EQ(c.run("select string_agg(distinct a.attname, ' ' order by a.attname) from pg_index i "
                   "join pg_attribute a on a.attrelid = i.indexrelid "
                   "where i.indrelid = 'tvec.timer'::regclass"),
             "due id shard");
}

// In byte order, whatever the collation and the encoding of the database are.
Test(durable_postgres, ids_and_bodies_are_bytes_in_any_encoding) {
    const postgres_server server({}, {"--encoding=LATIN1", "--locale=C"});
    server.install(1);
    postgres_store s(server.options());
    support::keeps_any_bytes_in_byte_order(s);
    sql_client c(server.conninfo());
    CHECK_EQ(c.run("select tvec.put('\xe4', now() + '1 h'::interval, '\xe4')"), "stored");
    CHECK_EQ(find(s, "\xc3\xa4")->body, "\xc3\xa4");
}

Test(durable_postgres, a_shard_has_one_owner_at_a_time) {
    const postgres_server server;
    postgres_store a(server.options()), b(server.options());
    support::has_one_owner_at_a_time(a, b);
}

Test(durable_postgres, departed_or_silent_processes_are_no_longer_counted) {
    const postgres_server server;
    postgres_store a(server.options()), silent(server.options());
    support::counts_no_departed_or_silent_process(
        a, std::make_unique<postgres_store>(server.options()), silent);
}

Test(durable_postgres, processes_with_different_terms_are_warned) {
    const postgres_server server;
    const auto with = [&](const char* terms) {
        postgres_options o = server.options();
        o.terms = terms;
        return std::make_unique<postgres_store>(o);
    };
    support::warn_of_other_terms(*with("table"), *with("table"), *with(""), with("hook"));
}

// A lease that ends far ahead was given by a clock that was set back since.
Test(durable_postgres, no_lease_exceeds_its_length_from_now) {
    const postgres_server server;
    server.install(1);
    postgres_store a(server.options()), b(server.options());
    put(a, {"a", today()});
    own(a, 0);
    join(a);
    claim(a, "a", 1s);
    sql_client c(server.conninfo());
    c.run("update tvec.shard set till = till + 3600000, latest = latest + 3600000");
    c.run("update tvec.process set till = till + 3600000");
    c.run("update tvec.timer set visible = visible + 3600000");
    CHECK_EQ(join(b), 1U);
    const epoch mine = own(b, 0);
    CHECK_EQ(mine, 2U);
    const auto got = std::get<1>(take(b, 0, mine, {}, today() + 60s, 10));
    REQUIRE_EQ(got.size(), 1U);
    CHECK(got[0].due <= today() + 2s);
}

Test(durable_postgres, owners_are_told_of_timers_within_two_horizons) {
    const postgres_server server;
    server.install(1);
    postgres_store a(server.options()), b(server.options());
    std::vector<std::string> hints;
    a.listen({[&](unsigned, const std::string& id, time_point) { hints.push_back(id); }, {}});
    take(a, 0, own(a, 0), {}, today() + 60s, 10);
    put(a, {"mine", today() + 1s});
    put(b, {"far", today() + 130s});
    std::vector<record> many;
    for (int i = 0; i < 40; ++i)
        many.push_back({std::string(255, static_cast<char>(i)), today() + 110s});
    answer_to(b, operations::put{many, existing::keep});
    touch(b, "far", today() + 30s);
    turn_until(a, [&] { return hints.size() >= 41; });
    CHECK_EQ(std::ranges::count(hints, "mine"), 0);
    CHECK_EQ(hints.back(), "far");
    for (const record& r : many) CHECK_EQ(std::ranges::count(hints, r.id), 1);
}

Test(durable_postgres, a_turn_makes_one_statement_of_each_kind) {
    const postgres_server server({"shared_preload_libraries=pg_stat_statements"});
    sql_client admin(server.conninfo());
    admin.run("create extension pg_stat_statements");
    postgres_store s(server.options());
    for (unsigned shard = 0; shard < 3; ++shard) own(s, shard);
    const int before = statements_of(admin);
    int stored = 0, cancelled = 0;
    const auto note = [&](const auto& r) { stored += r.front() == put_result::stored; };
    for (int i = 0; i < 900; ++i) {
        const std::string id = std::to_string(i);
        s.submit(operations::put{{{id, today() + 1h}}, existing::keep, note});
        s.submit(operations::claim{s.shard_of("x" + id), 1, {}, {"x" + id}});
        s.submit(operations::cancel{"y" + id, [&](cancel_result) { ++cancelled; }});
    }
    while (s.unanswered() != 0) s.run();
    CHECK_EQ(stored, 900);
    CHECK_EQ(cancelled, 900);
    CHECK_EQ(statements_of(admin) - before, 3);
    CHECK_EQ(count(s).waiting, 900U);
}

Test(durable_postgres, heartbeats_and_takes_are_one_statement_each) {
    const postgres_server server({"shared_preload_libraries=pg_stat_statements"});
    sql_client admin(server.conninfo());
    admin.run("create extension pg_stat_statements");
    postgres_store s(server.options());
    const int before = statements_of(admin);
    std::vector<standing> taken;
    s.submit(operations::join{10s});
    for (unsigned shard = 0; shard < 3; ++shard) {
        s.submit(operations::own{shard, 10s});
        s.submit(operations::take{
            shard, 0, {}, today(), 10, [&](standing how, const auto&) { taken.push_back(how); }});
    }
    while (s.unanswered() != 0) s.run();
    CHECK_EQ(statements_of(admin) - before, 2);
    CHECK((taken == std::vector(3, standing::done)));  // they came before the heartbeat
}

// --- transactions -------------------------------------------------------------------------------

Test(durable_postgres, a_timer_comes_only_after_its_transaction_commits) {
    const postgres_server server;
    process p(server);
    p.until([&] { return p.timers.ready(); });
    sql_client good(server.conninfo()), bad(server.conninfo());
    good.run("begin");
    bad.run("begin");
    CHECK_EQ(put_by_sql(good, "good"), "stored");
    CHECK_EQ(put_by_sql(bad, "bad"), "stored");
    p.pass(200ms);
    CHECK(p.came.empty());
    bad.run("rollback");
    good.run("commit");
    p.until([&] { return p.has("good"); });
    CHECK(!p.has("bad"));
    CHECK(!find(p.store, "bad"));
}

Test(durable_postgres, a_transaction_with_locked_rows_stalls_no_others) {
    const postgres_server server;
    options quick;
    quick.claim_lease = 1s;
    process p(server, quick);
    p.until([&] { return p.timers.ready(); });
    sql_client c(server.conninfo());
    put_by_sql(c, "held", " + '200 ms'");
    put_by_sql(c, "moved", " + '200 ms'");
    c.run("begin");
    c.run("select tvec.cancel('held')");
    c.run("select tvec.touch('moved', now() + '1 h')");
    sql_client other(server.conninfo());
    for (int i = 0; i < 20; ++i) put_by_sql(other, std::to_string(i), " + '300 ms'");
    p.until([&] { return p.came.size() >= 20; });
    CHECK(!p.has("held"));
    CHECK(p.timers.counters().swept == 0);
    c.run("rollback");
    p.until([&] { return p.has("held") && p.has("moved"); });
}

Test(durable_postgres, ends_of_locked_timers_are_repeated_until_unlocked) {
    const postgres_server server;
    server.install(1);
    postgres_store s(server.options());
    const epoch e = own(s, 0);
    for (const char* id : {"a", "b", "c"}) {
        put(s, {id, today()});
        claim(s, id, 1h);
    }
    sql_client c(server.conninfo());
    c.run("begin");
    c.run("select tvec.touch('a', now() + '1 h')");
    c.run("select 1 from tvec.timer where id = 'b' for update");
    std::optional<std::vector<end_reply>> ended;
    std::optional<bool> spent;
    begin(s, operations::end{0, {{{"a", 1}}, {{"c", 1}}}}, ended);
    begin(s, operations::spend{0, e, {"b", 1}}, spent);
    turn_until(s, [&] { return !find(s, "c"); });  // the others go on
    CHECK(!ended && !spent);
    c.run("commit");
    turn_until(s, [&] { return ended && spent; });
    CHECK(!(*ended)[0].was_current);
    CHECK((*ended)[1].was_current);
    CHECK(*spent);
}

Test(durable_postgres, puts_of_timers_in_open_transactions_fail) {
    const postgres_server server;
    postgres_store s(server.options());
    sql_client c(server.conninfo());
    c.run("begin");
    put_by_sql(c, "a");
    const std::vector<record> both{{"a", today()}, {"b", today()}};
    const auto results = std::get<0>(answer_to(s, operations::put{both, existing::keep}));
    CHECK((results == std::vector{put_result::failed, put_result::stored}));
    CHECK(s.last_failure().find("another program has locked the timer") != std::string::npos);
    CHECK(cancel(s, "a") == cancel_result::unknown_id);  // it is not there yet
    c.run("commit");
    c.run("begin");
    c.run("select tvec.touch('a', now())");
    CHECK(cancel(s, "a") == cancel_result::failed);
    CHECK(touch(s, "a", today()) == touch_result::failed);
    c.run("rollback");
    CHECK(cancel(s, "a") == cancel_result::cancelled);
}

// Two programs touch two timers in opposite orders. The server ends one of the transactions.
Test(durable_postgres, a_deadlock_ends_one_transaction_and_no_request) {
    const postgres_server server({"deadlock_timeout=20ms"});
    postgres_store s(server.options());
    for (const char* id : {"a", "b"}) put(s, {id, today() + 1h});
    sql_client c(server.conninfo());
    c.run("begin");
    c.run("select tvec.touch('b', now() + '2 h')");
    std::vector<cancel_result> results;
    const auto note = [&](cancel_result r) { results.push_back(r); };
    s.submit(operations::cancel{"a", note});
    s.submit(operations::cancel{"b", note});
    s.run();
    usleep(20'000);
    const std::string said = c.run("select tvec.touch('a', now() + '2 h')");
    c.run("rollback");
    turn_until(s, [&] { return results.size() == 2; });
    CHECK(said == "touched" || said.find("deadlock") != std::string::npos || said == "unknown_id");
    for (const char* id : {"a", "b"}) {
        const auto r = cancel(s, id);
        CHECK(r == cancel_result::cancelled || r == cancel_result::unknown_id);
    }
}

Test(durable_postgres, serialization_failures_reach_callers_and_lose_nothing) {
    const postgres_server server;
    postgres_store s(server.options());
    put(s, {"a", today() + 1h});
    sql_client c(server.conninfo());
    c.run("begin isolation level serializable");
    CHECK_EQ(c.run("select 1 from tvec.find('a')"), "1");
    touch(s, "a", today() + 2h);
    CHECK(c.run("select tvec.touch('a', now())").find("could not serialize") != std::string::npos);
    c.run("rollback");
    c.run("begin isolation level serializable");
    CHECK_EQ(c.run("select tvec.touch('a', now() + '3 h')"), "touched");
    CHECK_EQ(put_by_sql(c, "b"), "stored");
    own(s, 0);  // the tables of the engine change meanwhile
    CHECK_EQ(c.run("commit"), "");
    CHECK(find(s, "b").has_value());
}

// --- functions ----------------------------------------------------------------------------------

Test(durable_postgres, functions_answer_in_words) {
    const postgres_server server;
    server.install(1);
    postgres_store s(server.options());
    own(s, 0);
    sql_client c(server.conninfo());
    const auto ask = [&](const std::string& call) { return c.run("select tvec." + call); };
    CHECK_EQ(ask("put('a', now())"), "stored");
    CHECK_EQ(ask("put('a', now())"), "there_already");
    CHECK_EQ(ask("put('a', now() - '1 h'::interval, existing => 'later')"), "there_already");
    CHECK_EQ(ask("put('a', now() - '1 h'::interval, 'body', '1 h', 'sooner')"), "stored");
    CHECK(find(s, "a")->every == 1h);
    CHECK_EQ(find(s, "a")->body, "body");
    CHECK_EQ(ask("touch('a', now() - '1 h'::interval)"), "touched");
    CHECK_EQ(ask("touch('b', now())"), "unknown_id");
    CHECK_EQ(ask("done('a', 2)"), "stale");
    const auto claim_it = [&] { return std::to_string(claim(s, "a", 1h).timer.attempt); };
    CHECK_EQ(ask("done('a', " + claim_it() + ")"), "ok");  // it has a period
    CHECK_EQ(ask("again('a', 3, now())"), "stale");
    CHECK_EQ(ask("touch('a', now())"), "touched");
    CHECK_EQ(ask("again('a', " + claim_it() + ", '2020-01-01 00:00:00.0001+00')"), "ok");
    CHECK(find(s, "a")->due == time_point(duration(1'577'836'800'001)));
    const std::string attempt = claim_it();
    CHECK_EQ(ask("extend('a', " + attempt + ", '2 h')"), "ok");
    CHECK(claim(s, "a").timer.due >= today() + 1h + 59min);
    CHECK_EQ(ask("failed('a', " + attempt + ", '" + std::string(600, 'x') + "')"), "ok");
    CHECK_EQ(find(s, "a")->verdict, "failed " + std::string(500, 'x'));
    CHECK_EQ(ask("extend('a', " + attempt + ", '2 h')"), "stale");
    CHECK_EQ(ask("put('p', null, plan => 'daily')"), "stored");
    CHECK_EQ(find(s, "p")->verdict, "first");
    CHECK_EQ(ask("put('p', now(), plan => 'daily', existing => 'replace')"), "stored");
    CHECK_EQ(find(s, "p")->verdict, "");
    CHECK_EQ(ask("done('p', " + std::to_string(claim(s, "p").timer.attempt) + ")"), "ok");
    CHECK_EQ(find(s, "p")->verdict, "done");
    CHECK_EQ(ask("cancel('p')"), "cancelled");
    claim_it();
    CHECK_EQ(ask("cancel('a')"), "had_begun");
    CHECK_EQ(ask("cancel('a')"), "unknown_id");
    put(s, {"d", today()});
    const std::uint32_t last = claim(s, "d", 1h).timer.attempt;
    end(s, {{"d", last}, outcome::dead});
    CHECK_EQ(ask("put('d', now())"), "dead");
    CHECK_EQ(ask("put('\\x00ff'::bytea, now(), '\\xff'::bytea)"), "stored");
    CHECK_EQ(find(s, {"\0\xff", 2})->body, "\xff");
    CHECK_EQ(ask("cancel('\\x00ff'::bytea)"), "cancelled");
    CHECK_EQ(c.run("select body = 'x' and every = '0' and not is_being_delivered from "
                   "(select tvec.put('f', now(), 'x')) p, lateral tvec.find('f')"),
             "");
    CHECK_EQ(c.run("select attempt from tvec.find('f')"), std::to_string(find(s, "f")->attempt));
}

// A program whose client does not send the types of values has a text and bytes.
Test(durable_postgres, text_ids_may_have_bodies_of_bytes) {
    const postgres_server server;
    postgres_store s(server.options());
    sql_client c(server.conninfo());
    for (const char* id : {"order-1", "CORP\\101", "\\x4142", "CORP\\bob"}) {
        const std::string quoted = "'" + std::string(id) + "'";
        const std::string bytes = ", now() + '1 h'::interval, '\\x00ff'::bytea)";
        CHECK_EQ(c.run("select tvec.put(" + quoted + bytes), "stored");
        CHECK_EQ(c.run("select tvec.put(" + quoted + "::text" + bytes), "there_already");
        CHECK_EQ(find(s, id)->body, std::string("\0\xff", 2));
        CHECK_EQ(c.run("select tvec.cancel(" + quoted + ")"), "cancelled");
    }
}

Test(durable_postgres, functions_refuse_bad_arguments_with_an_explanation) {
    const postgres_server server;
    sql_client c(server.conninfo());
    const auto refuses = [&](const std::string& call, const std::string& words) {
        const std::string said = c.run("select tvec." + call);
        CHECK(said.starts_with("ERROR:"));
        CHECK_EQ(said.find(words) == said.npos ? said : words, words);
    };
    refuses("put('', now())", "the id has 0 bytes: expected 1 to 255 bytes");
    refuses("put(null::text, now())", "the id has no value");
    refuses("put(repeat('x', 256), now())", "the id has 256 bytes");
    refuses("put('a', now(), repeat('x', 1048577))", "expected at most 1048576 bytes");
    refuses("put('a', now(), null)", "the body has no value");
    refuses("put('a', null)", "expected a deadline, or a plan");
    refuses("put('a', null, plan => 'cron * * * * *', existing => 'sooner')",
            "expected keep or replace");
    refuses("put('a', 'infinity')", "expected a time from 1970 to 9999");
    refuses("put('a', '1969-12-31 23:59:59+00')", "expected a time from 1970 to 9999");
    refuses("put('a', now(), every => '-1 s')", "not negative");
    refuses("put('a', now(), every => '1 month')", "without months");
    refuses("put('a', now(), every => '1 year')", "without months");
    refuses("put('a', now(), every => '0.5 ms')", "whole milliseconds");
    refuses("put('a', now(), existing => 'any')", "keep, replace, sooner or later");
    refuses("put('a', now(), plan => repeat('x', 1001))", "at most 1000 bytes");
    refuses("touch('a', null)", "expected a time from 1970 to 9999");
    refuses("cancel('')", "expected 1 to 255 bytes");
    refuses("done('a', 0)", "expected the attempt of a delivery");
    refuses("again('a', 1, 'infinity')", "expected a time from 1970 to 9999");
    refuses("extend('a', 1, '0 s')", "1 ms to 1000 days");
    CHECK_EQ(c.run("select count(*) from tvec.timer"), "0");
}

Test(durable_postgres, a_hint_of_a_verdict_reaches_the_owner) {
    const postgres_server server;
    server.install(1);
    postgres_store s(server.options());
    std::vector<std::string> hints;
    s.listen({[&](unsigned, const std::string& id, time_point) { hints.push_back(id); }, {}});
    own(s, 0);
    put(s, {"a", today()});
    claim(s, "a", 1h);
    sql_client c(server.conninfo());
    CHECK_EQ(c.run("select tvec.failed('a', 1, 'no')"), "ok");
    turn_until(s, [&] { return !hints.empty(); });
    CHECK_EQ(hints[0], "a");
}

// --- plans --------------------------------------------------------------------------------------

namespace {

// Counts the pages that a call reads once its session is warm, with those of its statements.
int pages_of(sql_client& c, const std::string& call) {
    for (int i = 0; i < 8; ++i) c.run("select * from tvec." + call);
    c.run("create temp table if not exists said (line text); truncate said");
    c.run("do $do$ declare l text; begin for l in explain (analyze, buffers, timing off) select * "
          "from tvec." +
          call + " loop insert into said values (l); end loop; end $do$");
    CHECK_EQ(c.run("select count(*) > 0 from said"), "t");  // the call is no error
    return std::stoi(
        c.run("select coalesce(sum(n::int), 0) from said, lateral (select m[1] as n from "
              "regexp_matches(line, '(?:hit|read)=(\\d+)', 'g') m) x where line like "
              "'%Buffers: shared%'"));
}

}  // namespace

// Estimates of a plan that is forced are high, and PostgreSQL compiles what seems dear.
Test(durable_postgres, no_plan_depends_on_settings_or_statistics) {
    const postgres_server server(
        {"jit=on", "jit_above_cost=0", "jit_optimize_above_cost=0", "enable_indexscan=off",
         "enable_bitmapscan=off", "enable_tidscan=off", "enable_nestloop=off", "work_mem=64kB",
         "random_page_cost=1000", "autovacuum=off", "fsync=on", "synchronous_commit=on",
         "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track=all"});
    sql_client c(server.conninfo());
    c.run("create extension pg_stat_statements; analyze");  // of empty tables
    postgres_store s(server.options());
    const std::string e = std::to_string(own(s, 0));
    c.run("insert into tvec.timer (id, shard, due, visible, attempt) select i::text::bytea, "
          "tvec.shard_of(i::text::bytea), i, i, 1 from generate_series(1, 20000) i");
    c.run("insert into tvec.ready (id, attempt) select i::text::bytea, 1 from generate_series(1, "
          "1000) i");
    const std::vector<std::string> calls{
        "next(10)",
        "next(10, '77')",
        "make_ready(array['5'::bytea], array[1])",
        "put('x', now())",
        "put('x', now(), existing => 'replace')",
        "touch('77', now())",
        "find('78')",
        "done('79', 1)",
        "again('80', 1, now())",
        "failed('81', 1, '')",
        "extend('82', 1, '1 s')",
        "cancel('83')",
        "cancels(array['84', '85']::bytea[])",
        "finds('86')",
        "puts('', 'keep', '', '{1,1}', '{y,z}', '{1,1}', '{0,0}', '{a,b}', '{\"\",\"\"}')",
        "ends('', '{87,88}', '{1,1}', '{done,again}', '{1,1}', '{a,b}', '{c,d}')",
        "spends('{0,1,2}', array[" + e + ",0,0], '{89,89,89}', '{1,1,1}')",
        "claims(1000, 0, 1000, 10, 1::bigint << 60, 1::bigint << 60, '{1,1}', '{0,1}', array[" + e +
            ",0], '{90,91}')",
        "takes('{0}', array[" + e + "]::bigint[], '{0}', array[''::bytea], '{19000}', '{10}')",
        "lists(0, 100, '', 10, '')",
        "oldest('', 2)",
        "shows_ready(0, 500)",
        "beat('me', null, '{0}', '{1000}')"};
    for (const std::string& call : calls) {
        const int pages = pages_of(c, call);
        CHECK_EQ(pages <= 200 ? call : call + " reads " + std::to_string(pages), call);
    }
    if (c.run("select count(*) from information_schema.columns where table_name = "
              "'pg_stat_statements' and column_name = 'jit_functions'") == "1")
        CHECK_EQ(c.run("select string_agg(query, '; ') from pg_stat_statements where not toplevel "
                       "and jit_functions > 0 and query !~ '^explain|^insert into said'"),
                 "");
}

// Somebody's transaction keeps each row that was removed since.
Test(durable_postgres, dead_deliveries_are_not_walked_over) {
    const postgres_server server({"autovacuum=off"});
    sql_client c(server.conninfo()), holds(server.conninfo());
    holds.run("begin isolation level repeatable read");
    holds.run("select count(*) from tvec.ready");
    c.run("insert into tvec.ready (id, attempt) select 'x', 1 from generate_series(1, 20000)");
    c.run("delete from tvec.ready");
    c.run("analyze tvec.ready");
    c.run("select tvec.make_ready('{a}', '{1}')");
    CHECK_LE(pages_of(c, "next(10)"), 100);
    CHECK_LE(pages_of(c, "make_ready('{a,b}', '{1,1}')"), 100);
    CHECK_LE(pages_of(c, "make_ready('{}', '{}')"), 100);
    holds.run("commit");
}

// Statistics say that the table is empty: each index seems to find a row as fast as any other.
Test(durable_postgres, finding_a_timer_walks_over_no_dead_rows) {
    const postgres_server server({"autovacuum=off"});
    sql_client c(server.conninfo()), holds(server.conninfo());
    postgres_store s(server.options());
    const std::string e = std::to_string(own(s, 0));
    holds.run("begin isolation level repeatable read");
    holds.run("select count(*) from tvec.timer");
    for (const char* dead : {"false", "true"}) {
        c.run("insert into tvec.timer (id, shard, due, visible, dead) select ('b' || i)::bytea, 0, "
              "i, i, " +
              std::string(dead) + " from generate_series(1, 20000) i");
        c.run("delete from tvec.timer");
    }
    c.run("analyze tvec.timer");
    c.run("insert into tvec.timer (id, shard, due, visible, attempt) select i::text::bytea, 0, i, "
          "i, 1 from generate_series(10, 99) i");
    c.run("insert into tvec.ready (id, attempt) select id, 1 from tvec.timer");
    const std::vector<std::string> calls{
        "next(1)",
        "touch('77', now())",
        "find('78')",
        "done('79', 1)",
        "cancel('83')",
        "finds('86')",
        "revives('', '87', 1)",
        "ends('', '{87,88}', '{1,1}', '{done,again}', '{1,1}', '{a,b}', '{c,d}')",
        "spends('{0}', array[" + e + "]::bigint[], '{89}', '{1}')",
        "claims(1000, 0, 1000, 10, 1::bigint << 60, 1::bigint << 60, '{1}', '{0}', array[" + e +
            "]::bigint[], '{90}')",
    };
    for (const std::string& call : calls) {
        const int pages = pages_of(c, call);
        CHECK_EQ(pages <= 100 ? call : call + " reads " + std::to_string(pages), call);
    }
    holds.run("commit");
}

Test(durable_postgres, attempts_begin_anew_after_the_last) {
    const postgres_server server;
    server.install(1);
    postgres_store s(server.options());
    sql_client(server.conninfo()).run("select setval('tvec.gone', 1073741823)");
    support::attempts_begin_anew(s);
}

// Two transactions remove timers at once whose attempts are far ahead of those that are gone.
Test(durable_postgres, attempts_of_gone_timers_never_go_back) {
    const postgres_server server;
    server.install(1);
    sql_client c(server.conninfo()), holds(server.conninfo()), one(server.conninfo()),
        two(server.conninfo());
    for (const char* id : {"a", "b"}) c.run(std::string("select tvec.put('") + id + "', now())");
    c.run("update tvec.timer set attempt = 500, ended = 500 where id = 'a'");
    c.run("update tvec.timer set attempt = 200, ended = 200 where id = 'b'");
    const auto wait_for_waiting = [&c](const char* number) {
        while (c.run("select count(*) from pg_locks where not granted") != number) continue;
    };
    holds.run("begin; alter sequence tvec.gone increment 1");
    std::thread first([&] { CHECK_EQ(one.run("select tvec.cancel('a')"), "cancelled"); });
    wait_for_waiting("1");
    std::thread second([&] { CHECK_EQ(two.run("select tvec.cancel('b')"), "cancelled"); });
    wait_for_waiting("2");
    holds.run("rollback");
    first.join();
    second.join();
    CHECK_EQ(c.run("select last_value from tvec.gone"), "500");
    CHECK_EQ(c.run("select count(*) from pg_locks where locktype = 'advisory'"), "0");
}

// A crash of the server empties the table, and its numbers may begin anew.
Test(durable_postgres, deliveries_are_found_when_their_numbers_begin_anew) {
    const postgres_server server;
    postgres_store s(server.options());
    sql_client c(server.conninfo());
    for (const char* id : {"a", "b"}) {
        put(s, {id, today()});
        const unsigned shard = s.shard_of(id);
        CHECK(
            std::get<1>(answer_to(s, operations::claim{shard, own(s, shard), {}, {id}}))[0].what ==
            claimed::kind::granted);
        CHECK_EQ(c.run("select tvec.make_ready(array['" + std::string(id) + "'::bytea], '{1}')"),
                 "1");
        CHECK_EQ(c.run("select id from tvec.next(10)"),
                 "\\x" + std::string(*id == 'a' ? "61" : "62"));
        c.run("select setval('tvec.ready_from', 1000); alter table tvec.ready alter n restart");
    }
}

// --- rights -------------------------------------------------------------------------------------

Test(durable_postgres, roles_need_no_more_rights_than_documented) {
    const postgres_server server;
    sql_client admin(server.conninfo());
    for (const char* sql :
         {"create role engine login", "create role shop login", "create role nobody login",
          "grant usage on schema tvec to engine, shop",
          "grant execute on all functions in schema tvec to engine"})
        CHECK_EQ(admin.run(sql), "");
    postgres_options o = server.options();
    o.conninfo = server.conninfo("engine");
    postgres_store s(o);
    join(s);
    CHECK_EQ(own(s, 0), 1U);
    CHECK(put(s, {"a", today()}) == put_result::stored);
    sql_client shop(server.conninfo("shop"));
    CHECK_EQ(put_by_sql(shop, "b"), "stored");
    CHECK_EQ(shop.run("select tvec.touch('b', now())"), "touched");
    CHECK_EQ(shop.run("select attempt from tvec.find('b')"), "1");
    CHECK_EQ(shop.run("select tvec.done('b', 1)"), "stale");
    CHECK_EQ(shop.run("select tvec.cancel('b')"), "cancelled");
    const auto denies = [&](sql_client& who, const std::string& sql) {
        const std::string why = who.run(sql);
        CHECK(why.find("permission denied") != std::string::npos ||
              why.find("must be owner of") != std::string::npos);
    };
    sql_client engine(server.conninfo("engine"));
    for (sql_client* const who : {&shop, &engine})
        for (const char* const sql :
             {"truncate tvec.timer", "delete from tvec.ready", "create table tvec.mine (a int)",
              "drop function tvec.find(text)", "alter schema tvec rename to mine",
              "create function tvec.mine() returns int language sql as 'select 1'"})
            denies(*who, sql);
    denies(shop, "select tvec.make_ready('{}', '{}')");
    denies(shop, "select * from tvec.timer");
    denies(shop, "select tvec.beat('me', 1, '{0}', '{1000}')");
    denies(shop, "select tvec.claims(1,0,1,1,1,1,'{1}','{0}','{1}','{a}')");
    sql_client nobody(server.conninfo("nobody"));
    denies(nobody, "select tvec.put('a', now())");
    for (const char* user : {"shop", "nobody"}) {
        o.conninfo = server.conninfo(user);
        refused([&] { const postgres_store none(o); }, std::errc::permission_denied,
                "grant execute on all functions in schema tvec to ROLE");
        refused([&] { postgres::install(o); }, std::errc::permission_denied,
                "the schema tvec belongs to postgres: install as its owner");
    }
}

// Functions of a caller's own schema do not replace those of the server within the functions.
Test(durable_postgres, the_search_path_of_a_caller_changes_nothing) {
    const postgres_server server;
    sql_client c(server.conninfo());
    c.run("create schema evil; create function evil.sha256(bytea) returns bytea language sql as "
          "$$ select '\\x00000000'::bytea $$; set search_path = evil, pg_catalog");
    CHECK_EQ(put_by_sql(c, "a"), "stored");
    sql_client other(server.conninfo());
    CHECK_EQ(other.run("select count(*) from tvec.timer where shard = tvec.shard_of(id)"), "1");
}

// --- the schema ---------------------------------------------------------------------------------

Test(durable_postgres, databases_without_the_current_schema_are_refused) {
    const postgres_server server;
    sql_client c(server.conninfo());
    const auto refuses = [&](const std::string& words) {
        refused([&] { const postgres_store s(server.options()); }, std::errc::not_supported, words);
    };
    c.run("update tvec.setting set version = 0");
    refuses("has version 0, and this program knows 5: run `tvec-timers");
    postgres::install(server.options(5));
    CHECK_EQ(postgres_store(server.options()).traits().shards, 3U);
    c.run("update tvec.setting set version = 99");
    refuses("has version 99, and this program knows 5: take a newer tvec");
    refused([&] { postgres::install(server.options()); }, std::errc::not_supported, "version 99");
    c.run("drop schema tvec cascade");
    refuses("no schema tvec");
    refuses("install");
}

// A trigger of somebody else's table would be done with the rights of the one who installs.
Test(durable_postgres, install_refuses_schemas_and_objects_of_others) {
    const postgres_server server;
    sql_client admin(server.conninfo());
    admin.run("drop schema tvec cascade; create role mallory login; create schema tvec "
              "authorization mallory");
    refused([&] { postgres::install(server.options()); }, std::errc::permission_denied,
            "install: the schema tvec belongs to mallory: install as its owner");
    admin.run("alter schema tvec owner to postgres; grant create on schema tvec to mallory");
    sql_client mallory(server.conninfo("mallory"));
    for (const auto& [make, drop, words] :
         {std::tuple("create table tvec.timer (id bytea)", "drop table tvec.timer",
                     "has a table of mallory"),
          {"create view tvec.setting as select 1 as version", "drop view tvec.setting",
           "has a table of mallory"},
          {"create function tvec.now_us() returns bigint language sql as 'select 1::bigint'",
           "drop function tvec.now_us()", "has a function of mallory"},
          {"create domain tvec.evil as int", "drop domain tvec.evil", "has a type of mallory"}}) {
        CHECK_EQ(mallory.run(make), "");
        refused([&] { postgres::install(server.options()); }, std::errc::permission_denied, words);
        CHECK_EQ(admin.run(drop), "");
    }
    postgres::install(server.options());
    CHECK_EQ(put_by_sql(admin, "a"), "stored");
}

// The tables and functions as version 0.3.0 has made them.
Test(durable_postgres, upgrading_schema_0_3_0_keeps_its_timers) {
    const postgres_server server;
    sql_client c(server.conninfo());
    const std::string undo =
        "drop function tvec.next(int, bytea), tvec.next(int, text), tvec.put(text, timestamptz, "
        "bytea, interval, text, text); drop sequence tvec.ready_from; alter table "
        "tvec.timer drop taken; alter table tvec.ready drop alone; create function tvec.next(most "
        "int default 1) returns table (id bytea, attempt bigint, due timestamptz, body bytea) "
        "language sql as 'select null::bytea, null::bigint, now(), null::bytea where false'; "
        "create function tvec.claims(bigint, bigint, bigint, bigint, bigint, bigint[], int[], "
        "bigint[], bytea[]) returns int language sql as 'select 1'; "
        "update tvec.setting set version = 1";
    CHECK_EQ(c.run(undo), "");
    c.run("insert into tvec.timer (id, shard, due, visible, body) values ('a', tvec.shard_of('a'), "
          "7, 7, 'b')");
    c.run("insert into tvec.ready (id, attempt) values ('gone', 3)");
    refused([&] { const postgres_store s(server.options()); }, std::errc::not_supported,
            "has version 1, and this program knows 5: run `tvec-timers");
    for (int i = 0; i < 2; ++i) postgres::install(server.options());
    CHECK_EQ(c.run("select count(*) from pg_proc where proname = 'claims'"), "1");
    postgres_store s(server.options());
    CHECK_EQ(find(s, "a")->body, "b");
    CHECK_EQ(c.run("select count(*) from tvec.next(10)"), "0");
    CHECK_EQ(c.run("select tvec.put('c'::text, now(), '\\xff'::bytea)"), "stored");
    CHECK_EQ(c.run("select count(*) from tvec.ready"), "0");
    c.run("create role shop login; grant usage on schema tvec to shop");
    sql_client shop(server.conninfo("shop"));
    CHECK_EQ(shop.run("select count(*) from tvec.next(10, 'a')"), "0");
}

Test(durable_postgres, installing_again_and_at_once_keeps_all_timers) {
    const postgres_server server;
    postgres_store s(server.options());
    put(s, {"a", today() + 1h});
    std::vector<pid_t> children;
    for (int i = 0; i < 3; ++i)
        children.push_back(support::start_child([&] {
            postgres::install(server.options());
            return static_cast<const char*>(nullptr);
        }));
    for (const pid_t child : children) CHECK(support::ended_well(child));
    CHECK(find(s, "a").has_value());
}

Test(durable_postgres, foreign_records_stop_no_other_timers) {
    const postgres_server server;
    postgres_options o = server.options();
    o.shards = 1;
    postgres::install(o);
    postgres_store s(o);
    sql_client admin(o.conninfo);
    support::foreign_records foreign;
    for (int i = 0; i < 300; ++i) {
        const support::foreign_record r = foreign.next();
        admin.run("insert into tvec.timer(id, shard, visible, due, every, attempt, ended, spent) "
                  "values('\\x" +
                  support::hex(r.id) + "', 0, " + std::to_string(r.due) + ", " + r.numbers() +
                  ") on conflict do nothing");
    }
    for (const char* const size : {"1048576", "1048577"})
        admin.run("insert into tvec.timer(id, shard, visible, due, body) values('" +
                  std::string(size) + "', 0, 1, 1, convert_to(repeat('x', " + size + "), 'UTF8'))");
    CHECK(find(s, "1048576").has_value());
    CHECK(!find(s, "1048577").has_value());
    support::others_come(s);
}

Test(durable_postgres, two_schemas_are_two_sets_of_timers) {
    const postgres_server server;
    postgres_options o = server.options();
    o.name = "other_2";
    postgres::install(o);
    postgres_store a(server.options()), b(o);
    CHECK(put(a, {"a", today()}) == put_result::stored);
    CHECK(!find(b, "a"));
    CHECK(put(b, {"a", today()}) == put_result::stored);
}

Test(durable_postgres, options_out_of_range_are_refused) {
    const auto refuses = [](const postgres_options& o, const std::string& words) {
        refused([&] { const postgres_store s(o); }, std::errc::invalid_argument, words);
    };
    refuses({.name = "Tvec\"; drop"}, "lower-case letters");
    refuses({.name = ""}, "lower-case letters");
    refuses({.shards = 0}, "1 to 9999");
    refuses({.silence = 0ms}, "silence is 0 ms");
    refuses({.slowest = -1ms}, "slowest is -1 ms");
}
