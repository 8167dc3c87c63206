// The store in a file: it answers as the one in memory does, keeps what it has answered, and says
// what is wrong with a file or a disk.
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "support/any_store.hpp"
#include "support/asking.hpp"
#include "support/check.hpp"
#include "support/temporary_folder.hpp"
#include "tvec/durable/sqlite_store.hpp"
#include "tvec/durable/timers.hpp"

using namespace std::chrono_literals;
using namespace support::asking;
using namespace tvec::durable;

TestSuite(durable_sqlite, .timeout = 60);

namespace {

struct file : support::temporary_folder {
    std::string path = name() + "/timers.db";
};

// Opening it throws this, and says that.
void refuses(const std::string& path, std::errc error, const std::string& words) {
    refused([&] { const sqlite_store s(path); }, error, words);
    refused([&] { const sqlite_store s(path); }, error, path);
}

void run_sql(const std::string& path, const std::string& sql) {
    sqlite3* db = nullptr;
    REQUIRE_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
}

}  // namespace

Test(durable_sqlite, it_answers_as_the_store_in_memory_does) {
    const file f;
    sqlite_store s(f.path);
    support::answers_as_the_store_in_memory(s, 3'000);
}

Test(durable_sqlite, what_is_soon_is_taken_in_order_page_by_page) {
    const file f;
    sqlite_store s(f.path);
    support::takes_in_order(s);
}

Test(durable_sqlite, what_was_stored_is_there_when_the_file_is_opened_again) {
    const file f;
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
    CHECK_EQ(claim(s, "b").timer.attempt, 2U);  // the attempt of the first was counted
    CHECK_EQ(count(s).waiting, 2U);
}

Test(durable_sqlite, what_was_asked_before_it_is_closed_is_done) {
    const file f;
    {
        sqlite_store s(f.path);
        for (int i = 0; i < 1'000; ++i)
            s.put({{std::to_string(i), today() + 1h}}, existing::keep, nullptr);
    }
    sqlite_store s(f.path);
    CHECK_EQ(count(s).waiting, 1'000U);
}

Test(durable_sqlite, what_is_asked_together_is_written_together) {
    const file f;
    sqlite_store s(f.path);
    const std::uint64_t before = s.groups();
    int answered = 0;
    for (int i = 0; i < 10'000; ++i)
        s.put({{std::to_string(i), today() + 1h}}, existing::keep, [&](auto) { ++answered; });
    while (s.unanswered() != 0) s.run();
    CHECK_EQ(answered, 10'000);
    CHECK(s.groups() - before < 2'000);
}

Test(durable_sqlite, a_turn_gives_so_many_answers_and_the_next_ones_the_rest) {
    const file f;
    sqlite_store s(f.path);
    for (int i = 0; i < 10'000; ++i)
        s.put({{std::to_string(i), today() + 1h}}, existing::keep, nullptr);
    while (s.unanswered() != 0) {
        pollfd watched{s.fd(), POLLIN, 0};
        REQUIRE_EQ(poll(&watched, 1, 10'000), 1);
        const std::size_t before = s.unanswered(), n = s.run();
        CHECK_LE(n, 1'000U);
        CHECK_EQ(s.unanswered(), before - n);
    }
}

Test(durable_sqlite, a_file_of_something_else_is_refused_and_left_as_it_is) {
    const file f;
    std::ofstream(f.path) << std::string(5'000, 'x');
    refuses(f.path, std::errc::invalid_argument, "not a database");
    std::filesystem::remove(f.path);
    run_sql(f.path, "create table mine(x); insert into mine values(1)");
    refuses(f.path, std::errc::invalid_argument, "something else");
    run_sql(f.path, "select x from mine");
    refuses(f.path + "/nowhere", std::errc::not_a_directory, "cannot be opened");
}

Test(durable_sqlite, a_newer_file_is_refused_and_an_older_one_is_made_newer) {
    const file f;
    { const sqlite_store s(f.path); }
    run_sql(f.path, "pragma user_version = 99");
    refuses(f.path, std::errc::not_supported, "version 99");
    run_sql(f.path, "pragma user_version = 1; drop table dead; insert into timer(id, due, body)"
                    " values(x'61', 4102444800000, x'')");
    sqlite_store s(f.path);
    CHECK(find(s, "a").has_value());
    CHECK(list(s, which::dead).empty());
}

// Somebody has written into it by hand.
Test(durable_sqlite, times_that_cannot_be_are_read_as_the_first_or_the_last_that_can) {
    const file f;
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

Test(durable_sqlite, a_file_that_is_open_is_refused_to_a_second) {
    const file f;
    const sqlite_store s(f.path);
    refuses(f.path, std::errc::device_or_resource_busy, "locked");
}

Test(durable_sqlite, a_full_disk_is_said_and_nothing_that_was_answered_is_lost) {
    const file f;
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

Test(durable_sqlite, timers_on_it_come_and_are_never_early) {
    const file f;
    sqlite_store s(f.path);
    support::delivers_fifty(s);
}
