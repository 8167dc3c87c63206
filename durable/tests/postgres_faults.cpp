// The connection to a PostgreSQL server breaks, or the server ends, hangs, is a standby or a
// pooler, or does not exist. The store reports what is known, and stored timers stay.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "support/any_store.hpp"
#include "support/asking.hpp"
#include "support/check.hpp"
#include "support/postgres_server.hpp"
#include "support/temporary_folder.hpp"
#include "support/unix_socket.hpp"
#include "tvec/durable/postgres_store.hpp"

using namespace std::chrono_literals;
using namespace support::asking;
using namespace tvec::durable;
using support::postgres_server, support::sql_client;

TestSuite(durable_postgres_faults, .timeout = 600);

namespace {

// It does not wait long for an answer.
postgres_options impatient(const postgres_server& server) {
    postgres_options o = server.options();
    o.silence = 400ms;
    o.slowest = 100ms;
    return o;
}

// Puts until that is the answer.
void put_until(store& s, put_result r) {
    while (put(s, {"again", today() + 1h}, existing::replace) != r) continue;
}

// Returns the processes of the sessions, but that of `c`.
std::vector<int> sessions(sql_client& c) {
    std::istringstream listed(c.run("select string_agg(pid::text, ' ') from pg_stat_activity where "
                                    "backend_type = 'client backend' and pid <> "
                                    "pg_backend_pid()"));
    return {std::istream_iterator<int>(listed), {}};
}

void refuses(const postgres_options& o, std::errc code, const std::string& words) {
    refused([&] { const postgres_store s(o); }, code, words);
}

}  // namespace

Test(durable_postgres_faults, unanswered_requests_are_unknown_and_later_ones_fail) {
    postgres_server server;
    postgres_store s(server.options());
    int reconnected = 0;
    s.listen({{}, [&] { ++reconnected; }});
    CHECK(put(s, {"before", today() + 1h}) == put_result::stored);
    sql_client c(server.conninfo());
    c.run("begin");
    c.run("lock table tvec.timer");
    std::optional<put_result> under_way;
    std::optional<standing> counted;
    const auto note = [&](const auto& r) { under_way = r[0]; };
    s.submit(operations::put{{{"under way", today() + 1h}}, existing::keep, note});
    s.run();
    s.submit(operations::count{[&](standing how, totals) { counted = how; }});
    server.end();
    turn_until(s, [&] { return under_way && counted; });
    CHECK(*under_way == put_result::unknown);
    CHECK(*counted == standing::unknown);
    CHECK(put(s, {"without a connection", today() + 1h}) == put_result::failed);
    CHECK(cancel(s, "before") == cancel_result::failed);
    CHECK(!s.last_failure().empty());
    server.start();
    put_until(s, put_result::stored);
    CHECK_EQ(reconnected, 1);
    CHECK(find(s, "before").has_value());
    CHECK(!find(s, "without a connection").has_value());
    CHECK_EQ(s.broken_connections().size(), 1U);
}

Test(durable_postgres_faults, a_hanging_server_counts_as_gone_after_silence) {
    const postgres_server server;
    postgres_store s(impatient(server));
    // The session and the server that would accept another one.
    const std::string pid = sql_client(server.conninfo())
                                .run("select pid from pg_stat_activity where query ~ 'opened|tvec' "
                                     "and pid <> pg_backend_pid() limit 1");
    kill(std::stoi(pid), SIGSTOP);
    server.stop();
    CHECK(put(s, {"a", today() + 1h}) == put_result::unknown);
    CHECK(s.last_failure().find("does not answer") != std::string::npos);
    CHECK_EQ(s.broken_connections().at("it does not answer"), 1U);
    kill(std::stoi(pid), SIGCONT);
    server.go_on();
    put_until(s, put_result::stored);
}

// Sessions that go on do what waits in the sockets of connections that were given up.
Test(durable_postgres_faults, a_claim_given_up_is_never_granted) {
    const postgres_server server;
    postgres_store calm(server.options()), s(impatient(server));
    const unsigned shard = s.shard_of("a");
    const epoch e = own(calm, shard);
    put(calm, {"a", today() - 1s});
    sql_client c(server.conninfo());
    const std::vector<int> pids = sessions(c);
    REQUIRE_EQ(pids.size(), 2U);
    for (const int pid : pids) kill(pid, SIGSTOP);
    server.stop();
    const time_point begun = std::chrono::ceil<duration>(s.now());
    const operations::claim claim_it{shard, e, {1h}, {"a"}};
    CHECK(std::get<0>(answer_to(s, claim_it)) == standing::unknown);
    turn_until(s, [&] { return s.now() > begun + 900ms; });
    for (const int pid : pids) kill(pid, SIGCONT);
    server.go_on();
    put_until(s, put_result::stored);
    const auto ended = "select count(*) from pg_stat_activity where pid in (" +
                       std::to_string(pids[0]) + "," + std::to_string(pids[1]) + ")";
    while (c.run(ended) != "1") usleep(10'000);  // the one of `s` ends after its claim
    CHECK_EQ(find(calm, "a")->attempt, 0U);
    const auto again = std::get<1>(answer_to(calm, claim_it));
    CHECK(again.at(0).what == claimed::kind::granted);
}

Test(durable_postgres_faults, a_hang_keeps_no_timer_for_a_lease) {
    const postgres_server server;
    postgres_store s(impatient(server));
    sql_client c(server.conninfo());
    const std::vector<int> pids = sessions(c);
    const auto stop = [&] {
        for (const int pid : pids) kill(pid, SIGSTOP);
        server.stop();
    };
    const auto go_on = [&] {
        for (const int pid : pids) kill(pid, SIGCONT);
        server.go_on();
    };
    support::delivers_after_a_hang(s, stop, go_on);
}

Test(durable_postgres_faults, a_slow_statement_fails_and_keeps_the_connection) {
    const postgres_server server;
    postgres_options o = impatient(server);
    o.silence = 1s;
    postgres_store s(o);
    sql_client c(server.conninfo());
    c.run("create function public.slow() returns trigger language plpgsql as "
          "$$ begin perform pg_sleep(5); return new; end $$");
    c.run("create trigger slow before insert on tvec.timer execute function public.slow()");
    CHECK(put(s, {"a", today() + 1h}) == put_result::failed);
    CHECK(s.last_failure().find("statement timeout") != std::string::npos);
    c.run("drop trigger slow on tvec.timer");
    CHECK(put(s, {"a", today() + 1h}) == put_result::stored);
    CHECK(s.broken_connections().empty());
}

// An error at the end of the transaction comes after the rows of the answer.
Test(durable_postgres_faults, a_put_is_stored_once_its_transaction_commits) {
    const postgres_server server;
    postgres_store s(server.options());
    sql_client c(server.conninfo());
    c.run("create function public.no() returns trigger language plpgsql as "
          "$$ begin raise exception 'not today'; end $$");
    c.run("create constraint trigger no after insert on tvec.timer deferrable initially deferred "
          "for each row execute function public.no()");
    CHECK(put(s, {"a", today() + 1h}) == put_result::failed);
    CHECK_EQ(s.last_failure(), "not today");
    CHECK(!find(s, "a"));
}

Test(durable_postgres_faults, serialization_failures_are_retried_with_a_limit) {
    const postgres_server server;
    postgres_store s(server.options());
    sql_client c(server.conninfo());
    c.run("create sequence public.tries");
    c.run("create function public.conflict() returns trigger language plpgsql as "
          "$$ begin if nextval('public.tries') % 5 <> 0 then "
          "raise exception using errcode = '40001'; end if; return new; end $$");
    c.run("create trigger conflict before insert on tvec.timer for each row execute function "
          "public.conflict()");
    CHECK(put(s, {"a", today() + 1h}) == put_result::stored);
    CHECK_EQ(c.run("select last_value from public.tries"), "5");
    c.run("create or replace function public.conflict() returns trigger language plpgsql as "
          "$$ begin raise exception using errcode = '40P01'; end $$");
    CHECK(put(s, {"b", today() + 1h}) == put_result::failed);
}

Test(durable_postgres_faults, statements_that_are_too_large_are_split) {
    const postgres_server server;
    postgres_store s(server.options());
    sql_client c(server.conninfo());
    // The fourth timer of a statement fails.
    c.run("create function public.conflict() returns trigger language plpgsql as "
          "$$ begin if set_config('a.test', (coalesce(nullif(current_setting('a.test', true), ''), "
          "'0')::int + 1)::text, true) = '4' then raise exception using errcode = '40001'; end if; "
          "return new; end $$");
    c.run("create trigger conflict before insert or update on tvec.timer for each row execute "
          "function public.conflict()");
    std::vector<record> many;
    for (int i = 0; i < 500; ++i) many.push_back({std::to_string(i), today() - 1h});
    std::optional<std::vector<put_result>> results;
    s.submit(operations::put{many, existing::keep, [&](const auto& r) { results = r; }});
    turn_until(s, [&] { return results.has_value(); });
    CHECK_EQ(std::ranges::count(*results, put_result::stored), 500);
    CHECK_EQ(count(s).waiting, 500U);
}

Test(durable_postgres_faults, a_commit_that_standbys_may_lack_is_unknown) {
    const postgres_server server;
    postgres_store s(server.options());
    sql_client c(server.conninfo());
    c.run("alter system set synchronous_standby_names = 'none'");
    c.run("select pg_reload_conf()");
    usleep(200'000);
    std::optional<put_result> result;
    const auto note = [&](const auto& r) { result = r[0]; };
    s.submit(operations::put{{{"a", today() + 1h}}, existing::keep, note});
    s.run();
    sql_client reader(server.conninfo());
    const std::string waits = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
    while (reader.run(waits) != "1") s.run();
    CHECK(!result);  // there is an answer, and no end of its transaction
    reader.run("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'");
    turn_until(s, [&] { return result.has_value(); });
    CHECK(*result == put_result::unknown);
}

Test(durable_postgres_faults, unsafe_settings_are_warned_of_or_refused) {
    const postgres_server server;
    postgres_store s(server.options());
    CHECK_EQ(s.warning(), "");
    sql_client c(server.conninfo());
    const auto set = [&](const std::string& setting) {
        c.run("alter system set " + setting);
        c.run("select pg_reload_conf()");
    };
    set("synchronous_commit = off");
    while (s.warning().empty()) join(s);
    CHECK(s.warning().find("power cut") != std::string::npos);
    set("synchronous_commit = on");
    while (!s.warning().empty()) join(s);
    set("fsync = off");
    while (s.broken_connections().empty()) join(s);  // it is left
    CHECK_EQ(s.broken_connections().at("not acceptable any more"), 1U);
    refuses(server.options(), std::errc::operation_not_permitted, "fsync is off");
}

Test(durable_postgres_faults, a_standby_is_refused) {
    const postgres_server server;
    const support::temporary_folder folder;
    sql_client(server.conninfo()).run("select pg_create_physical_replication_slot('x')");
    postgres_options o = server.options();
    // A server with this file begins as a standby.
    postgres_server standby;
    standby.end(SIGINT);
    std::ofstream(standby.data() + "/standby.signal");
    standby.start();
    o.conninfo = standby.conninfo();
    refuses(o, std::errc::operation_not_permitted, "it is a standby: connect to its primary");
    // With several hosts the primary is found.
    o.conninfo = "host=" + standby.data() + ',' + server.data() + " dbname=postgres user=postgres";
    postgres_store s(o);
    CHECK(put(s, {"a", today() + 1h}) == put_result::stored);
}

Test(durable_postgres_faults, a_pooler_is_refused) {
    if (!std::filesystem::exists("/usr/sbin/pgbouncer")) cr_skip("there is no PgBouncer");
    const postgres_server server;
    for (const char* mode : {"transaction", "session"}) {
        const std::string at = server.data();
        std::ofstream(at + "/users") << "\"postgres\" \"\"\n";
        std::ofstream(at + "/pool.ini")
            << "[databases]\npostgres = host=" << at << "\n[pgbouncer]\nlisten_port = 7000\n"
            << "listen_addr =\nunix_socket_dir = " << at << "\nauth_type = trust\n"
            << "auth_file = " << at << "/users\npool_mode = " << mode << "\n";
        const pid_t pooler =
            support::run_as_postgres({"/usr/sbin/pgbouncer", at + "/pool.ini"}, server.folder());
        postgres_options o = server.options();
        o.conninfo += " port=7000";
        for (int i = 0; i < 500 && PQping(o.conninfo.c_str()) != PQPING_OK; ++i) usleep(10'000);
        CHECK_EQ(sql_client(o.conninfo).run("select 1"), "1");
        refuses(o, std::errc::not_supported, "a pooler is in between");
        kill(pooler, SIGKILL);
        waitpid(pooler, nullptr, 0);
    }
}

Test(durable_postgres_faults, missing_and_foreign_servers_are_refused_with_reasons) {
    const support::temporary_folder folder;
    postgres_options o;
    o.silence = 200ms;
    o.conninfo = "host=" + folder.name();
    refuses(o, std::errc::connection_refused, "No such file");
    for (const char* const malformed : {"nonsense", "host='", "postgresql://u:pass/word@db/shop"}) {
        o.conninfo = malformed;
        refuses(o, std::errc::invalid_argument, "the connection string cannot be read: expected");
        refused([&] { postgres::install(o); }, std::errc::invalid_argument, "cannot be read");
    }
    const int silent = support::listening_on(folder.name() + "/.s.PGSQL.5432");
    o.conninfo = "host=" + folder.name();
    refuses(o, std::errc::timed_out, "does not answer");
    close(silent);
}

Test(durable_postgres_faults, a_missing_password_is_a_missing_permission) {
    const postgres_server server;
    sql_client(server.conninfo()).run("create role timers login password 'secret'");
    std::ofstream(server.data() + "/pg_hba.conf") << "local all timers scram-sha-256\n"
                                                     "local all all trust\n";
    sql_client(server.conninfo()).run("select pg_reload_conf()");
    postgres_options o = server.options();
    o.conninfo = server.conninfo("timers");
    while (PQping(o.conninfo.c_str()) != PQPING_OK) continue;
    refuses(o, std::errc::permission_denied, "no password supplied");
    o.conninfo += " password=wrong";
    refuses(o, std::errc::permission_denied, "password authentication failed");
    refused([&] { postgres::install(o); }, std::errc::permission_denied,
            "password authentication failed");
}

// Sessions that an administrator ends come again.
Test(durable_postgres_faults, an_ended_session_is_renewed_with_its_shards) {
    const postgres_server server;
    postgres_store s(server.options());
    CHECK_EQ(own(s, 0), 1U);
    sql_client c(server.conninfo());
    c.run("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
          "and backend_type = 'client backend'");
    put_until(s, put_result::failed);
    put_until(s, put_result::stored);
    CHECK_EQ(own(s, 0), 1U);
    CHECK(s.broken_connections().contains("connection reset"));
}

Test(durable_postgres_faults, a_dropped_schema_is_reported_and_found_again) {
    const postgres_server server;
    postgres_store s(server.options());
    sql_client c(server.conninfo());
    c.run("drop schema tvec cascade");
    CHECK(put(s, {"a", today()}) == put_result::failed);
    CHECK(s.last_failure().find("tvec") != std::string::npos);
    server.install();
    put_until(s, put_result::stored);
}

Test(durable_postgres_faults, forked_children_keep_no_parent_awake) {
    const postgres_server server;
    postgres_store s(server.options());
    support::sleeps_after_a_break_beside_a_child(s, [&] {
        sql_client(server.conninfo())
            .run("select pg_terminate_backend(pid) from pg_stat_activity "
                 "where pid <> pg_backend_pid() and backend_type = 'client backend'");
    });
}

Test(durable_postgres_faults, a_forked_child_leaves_the_connection_alone) {
    const postgres_server server;
    support::outlives_a_forked_child(std::make_unique<postgres_store>(server.options()));
}

Test(durable_postgres_faults, reconnecting_keeps_the_descriptor) {
    const postgres_server server;
    postgres_store s(server.options());
    const int fd = s.fd();
    sql_client(server.conninfo())
        .run("select pg_terminate_backend(pid) from pg_stat_activity where pid <> "
             "pg_backend_pid() and backend_type = 'client backend'");
    put_until(s, put_result::failed);
    put_until(s, put_result::stored);
    CHECK_EQ(s.fd(), fd);
}
