// The store in a file: its answers equal those of the store in memory, it keeps confirmed timers,
// and it reports problems of a file or a disk.
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "support/any_store.hpp"
#include "support/asking.hpp"
#include "support/check.hpp"
#include "support/file_of_timers.hpp"
#include "support/foreign_records.hpp"
#include "support/transitions.hpp"
#include "tvec/durable/sqlite_store.hpp"
#include "tvec/durable/timers.hpp"

using namespace std::chrono_literals;
using namespace support::asking;
using namespace tvec::durable;
using support::file_of_timers, support::refuses, support::run_sql;

TestSuite(durable_sqlite, .timeout = 600);

namespace {

std::uint64_t bytes_written() {
    std::ifstream io("/proc/self/io");
    std::string name;
    std::uint64_t n = 0;
    while (io >> name >> n && name != "wchar:") continue;
    return n;
}

std::vector<claimed> claim_all(sqlite_store& s, std::vector<std::string> ids, std::size_t bytes) {
    return std::get<1>(answer_to(s, operations::claim{0, 1, {-1h, bytes}, ids}));
}

}  // namespace

Test(durable_sqlite, it_answers_as_the_store_in_memory_does) {
    const file_of_timers f;
    sqlite_store s(f.path);
    support::answers_as_the_store_in_memory(s, 3'000);
}

Test(durable_sqlite, every_event_changes_timers_as_in_memory) {
    const file_of_timers f;
    sqlite_store s(f.path);
    support::transitions::are_those_of_the_store_in_memory(s);
}

Test(durable_sqlite, it_keeps_what_stores_promise_of_a_shard) {
    for (const auto promise : {support::takes_in_order, support::grants_bodies_up_to_a_bound,
                               support::an_earlier_delivery_ends_no_later_timer,
                               support::a_timer_with_retries_is_gone_when_it_is_done}) {
        const file_of_timers f;
        sqlite_store s(f.path);
        promise(s);
    }
}

Test(durable_sqlite, stored_timers_survive_reopening_the_file) {
    const file_of_timers f;
    const std::string body("\0\xff body", 7);
    {
        sqlite_store s(f.path);
        CHECK(put(s, {"a", today() + 1h, body, 5s}) == put_result::stored);
        CHECK(put(s, {"b", today() - 1h}) == put_result::stored);
        CHECK(claim(s, "b").what == claimed::kind::granted);
    }
    sqlite_store s(f.path);
    REQUIRE(find(s, "a").has_value());
    CHECK(find(s, "a")->body == body);
    CHECK(find(s, "a")->every == 5s);
    CHECK_EQ(claim(s, "b").timer.attempt, 2U);  // the first one's attempt was counted
    CHECK_EQ(count(s).waiting, 2U);
}

Test(durable_sqlite, closing_completes_all_requests) {
    const file_of_timers f;
    {
        sqlite_store s(f.path);
        for (int i = 0; i < 1'000; ++i)
            s.submit(operations::put{{{std::to_string(i), today() + 1h}}, existing::keep});
    }
    sqlite_store s(f.path);
    CHECK_EQ(count(s).waiting, 1'000U);
}

Test(durable_sqlite, requests_made_together_are_written_together) {
    const file_of_timers f;
    sqlite_store s(f.path);
    const std::uint64_t before = s.groups();
    int answered = 0;
    const auto note = [&](const auto&) { ++answered; };
    for (int i = 0; i < 10'000; ++i)
        s.submit(operations::put{{{std::to_string(i), today() + 1h}}, existing::keep, note});
    while (s.unanswered() != 0) s.run();
    CHECK_EQ(answered, 10'000);
    CHECK(s.groups() - before < 2'000);
}

Test(durable_sqlite, a_turn_gives_a_limited_number_of_answers) {
    const file_of_timers f;
    sqlite_store s(f.path);
    for (int i = 0; i < 10'000; ++i)
        s.submit(operations::put{{{std::to_string(i), today() + 1h}}, existing::keep});
    while (s.unanswered() != 0) {
        pollfd watched{s.fd(), POLLIN, 0};
        REQUIRE_EQ(poll(&watched, 1, 10'000), 1);
        const std::size_t before = s.unanswered(), n = s.run();
        CHECK_LE(n, 1'000U);
        CHECK_EQ(s.unanswered(), before - n);
    }
}

Test(durable_sqlite, a_foreign_file_is_refused_and_left_unchanged) {
    const file_of_timers f;
    std::ofstream(f.path) << std::string(5'000, 'x');
    refuses(f.path, std::errc::invalid_argument, "not a database");
    std::filesystem::remove(f.path);
    run_sql(f.path, "create table mine(x); insert into mine values(1)");
    refuses(f.path, std::errc::invalid_argument, "something else");
    run_sql(f.path, "select x from mine");
    refuses(f.path + "/nowhere", std::errc::not_a_directory, "cannot be opened");
}

// The file was edited by hand.
Test(durable_sqlite, impossible_times_are_clamped_to_the_valid_range) {
    const file_of_timers f;
    { const sqlite_store s(f.path); }
    run_sql(f.path, "insert into timer(id, due, body, every) values"
                    "(x'61', 9223372036854775807, x'', 9223372036854775807),"
                    "(x'62', -9223372036854775808, x'', -5)");
    sqlite_store s(f.path);
    CHECK(find(s, "a")->due == latest_due);
    CHECK(find(s, "a")->every == latest_due - earliest_due);
    CHECK(find(s, "b")->due == earliest_due);
    CHECK(find(s, "b")->every == 0ms);
    CHECK(claim(s, "b").what == claimed::kind::granted);
    CHECK(end(s, {{"b", 1}}).was_current);
    CHECK(cancel(s, "a") == cancel_result::cancelled);
}

Test(durable_sqlite, a_full_disk_still_allows_reads) {
    const file_of_timers f;
    put(*std::make_unique<sqlite_store>(f.path), {"a", today()});
    signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit none{0, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
    auto s = std::make_unique<sqlite_store>(f.path);
    const bool is_found = find(*s, "a").has_value();
    const put_result failed = put(*s, {"b", today()});
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(is_found && failed == put_result::failed);
    CHECK(put(*s, {"b", today()}) == put_result::stored);
    s.reset();
    CHECK_EQ(count(*std::make_unique<sqlite_store>(f.path)).waiting, 2U);
}

Test(durable_sqlite, a_full_disk_is_reported_and_loses_nothing) {
    const file_of_timers f;
    sqlite_store s(f.path);
    put(s, {"a", today() + 1h});
    signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{200'000, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    const record large{"b", today() + 1h, std::string(500'000, 'x')};
    const put_result refused = put(s, large);
    CHECK(refused == put_result::failed);
    CHECK(!s.last_failure().empty());
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(!find(s, "b").has_value());
    CHECK(find(s, "a").has_value());
    CHECK(put(s, large) == put_result::stored);
}

Test(durable_sqlite, only_a_put_writes_the_body) {
    const file_of_timers f;
    sqlite_store s(f.path);
    const std::string body(1'000'000, 'x');
    const std::uint64_t begin = bytes_written();
    put(s, {"a", today(), body, 1h});
    put(s, {"b", today(), body});
    CHECK(bytes_written() - begin >= 2'000'000U);
    const std::uint64_t before = bytes_written();
    for (std::uint32_t attempt = 1; attempt < 4; ++attempt)
        for (const char* id : {"a", "b"}) {
            CHECK(claim(s, id).timer.body == body);
            CHECK(spend(s, {id, attempt}));
        }
    CHECK(end(s, {{"b", 3}, outcome::again, today()}).was_current);
    CHECK(end(s, {{"a", 3}}).next.has_value());
    CHECK(claim(s, "b").timer.body == body);
    CHECK(end(s, {{"b", 4}, outcome::returned}).was_current);
    CHECK(claim(s, "b").timer.body == body);
    CHECK(end(s, {{"b", 5}}).was_current);
    CHECK(cancel(s, "a") == cancel_result::cancelled);
    CHECK(bytes_written() - before < 1'000'000U);
}

Test(durable_sqlite, a_large_body_goes_with_its_timer) {
    const file_of_timers f;
    {
        sqlite_store s(f.path);
        for (const char* id : {"a", "b", "c", "d"}) put(s, {id, today(), std::string(5'000, 'x')});
        put(s, {"a", today(), "small"}, existing::replace);
        CHECK(claim(s, "b").what == claimed::kind::granted);
        CHECK(end(s, {{"b", 1}}).was_current);
        CHECK(cancel(s, "c") == cancel_result::cancelled);
        CHECK(claim(s, "d").what == claimed::kind::granted);
        CHECK(end(s, {{"d", 1}, outcome::dead}).was_current);
        CHECK(cancel(s, "d") == cancel_result::had_begun);
    }
    run_sql(f.path, "create temp table none(bodies check(bodies = 0));"
                    "insert into none select count(*) from body");
}

Test(durable_sqlite, a_timer_without_its_body_is_set_aside) {
    const file_of_timers f;
    {
        sqlite_store s(f.path);
        put(s, {"a", today(), std::string(5'000, 'x')});
        put(s, {"b", today(), std::string(5'000, 'y')});
    }
    run_sql(f.path, "delete from body where id = x'61'");
    sqlite_store s(f.path);
    const auto got = claim_all(s, {"a", "b"}, 1'000'000);
    CHECK(got[0].what == claimed::kind::damaged);
    CHECK(got[1].what == claimed::kind::granted);
    const totals all = count(s);
    CHECK(all.waiting == 1 && all.dead == 0 && all.damaged == 1);
    CHECK(cancel(s, "a") == cancel_result::had_begun);
    CHECK_EQ(count(s).damaged, 0U);
}

Test(durable_sqlite, foreign_records_stop_no_other_timers) {
    const file_of_timers f;
    { const sqlite_store made(f.path); }
    support::foreign_records foreign;
    for (int i = 0; i < 300; ++i) {
        const support::foreign_record r = foreign.next();
        run_sql(f.path, "insert or replace into timer(id, due, every, attempt, ended, spent, body)"
                        " values(x'" +
                            support::hex(r.id) + "', " + r.numbers() + ", x'')");
    }
    sqlite_store s(f.path);
    support::others_come(s);
    CHECK(count(s).damaged > 0U);
}

Test(durable_sqlite, an_impossible_id_is_not_overdue) {
    for (const char* const id : {"x''", "zeroblob(256)"}) {
        const file_of_timers f;
        { const sqlite_store made(f.path); }
        run_sql(f.path, std::string("insert into timer(id, due, attempt, body) values(") + id +
                            ", 1, 5, x'')");
        sqlite_store s(f.path);
        CHECK(!std::get<1>(answer_to(s, operations::oldest{""})).has_value());
        CHECK_EQ(count(s).damaged, 1U);
    }
}

Test(durable_sqlite, timers_on_it_come_and_are_never_early) {
    const file_of_timers f;
    sqlite_store s(f.path);
    support::delivers_fifty(s);
}
