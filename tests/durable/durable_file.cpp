// The file of the store in SQLite: whose it is, whether it is whole, its versions, and what a fork
// leaves of it.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "support/file_of_timers.hpp"

using namespace std::chrono_literals;
using namespace support::asking;
using namespace tvec::durable;
using support::file_of_timers, support::run_sql;

TestSuite(durable_file, .timeout = 60);

// --- its versions -------------------------------------------------------------------------------

namespace {

const std::string version_1 =
    "create table timer(id blob primary key, due int not null, body blob not null,"
    " every int not null default 0, attempt int not null default 0, ended int not null default 0)"
    " without rowid;"
    "create index by_due on timer(due, id);"
    "pragma application_id = 1953916259; pragma user_version = 1;"
    "insert into timer values(x'61', 1, cast('body' as blob), 0, 3, 1),"
    "(x'62', 2, zeroblob(5000), 60000, 0, 0);";
const std::string version_2 =
    version_1 + "create table dead(id blob primary key, due int not null, body blob not null,"
                " every int not null, attempt int not null, ended int not null) without rowid;"
                "pragma user_version = 2;"
                "insert into dead values(x'63', 3, zeroblob(5000), 0, 5, 2);";

void has_what_version_1_had(sqlite_store& s) {
    const auto timers = list(s, which::waiting);
    REQUIRE_EQ(timers.size(), 2U);
    CHECK(timers[0].body == "body");
    CHECK(timers[0].attempt == 3 && timers[0].ended == 1 && timers[0].spent == 0);
    CHECK(timers[1].body == std::string(5'000, '\0'));
    CHECK(timers[1].every == 60s);
    CHECK(claim(s, "b", 3).timer.body == timers[1].body);
    CHECK(end(s, {{"b", 1}}).next.has_value());
    CHECK(claim(s, "a", 3).timer.attempt == 4);
    CHECK(end(s, {{"a", 4}}).was_current);
}

}  // namespace

Test(durable_file, a_file_of_version_1_is_made_newer) {
    const file_of_timers f;
    run_sql(f.path, version_1);
    sqlite_store s(f.path);
    has_what_version_1_had(s);
    CHECK(list(s, which::dead).empty());
}

Test(durable_file, a_file_of_version_2_is_made_newer) {
    const file_of_timers f;
    run_sql(f.path, version_2);
    sqlite_store s(f.path);
    has_what_version_1_had(s);
    REQUIRE_EQ(list(s, which::dead).size(), 1U);
    CHECK(list(s, which::dead)[0].body == std::string(5'000, '\0'));
    CHECK(put(s, {"c", today()}) == put_result::dead);
    CHECK(revive(s, "c", today()) == revive_result::put_back);
    CHECK_EQ(claim(s, "c").timer.attempt, 6U);
}

// There, and only there, one id may have a living and a dead timer.
Test(durable_file, an_id_of_version_2_that_two_timers_have_is_kept_and_cancelled_for_both) {
    const file_of_timers f;
    run_sql(f.path, version_2 + "insert into dead select id, due, x'', 0, 7, 7 from timer");
    sqlite_store s(f.path);
    CHECK(put(s, {"a", today()}) == put_result::there_already);
    CHECK(revive(s, "a", today()) == revive_result::failed);
    CHECK(s.last_failure().starts_with("a living timer has the id"));
    CHECK_EQ(count(s).dead, 3U);
    CHECK(put(s, {"a", today()}, existing::replace) == put_result::stored);
    CHECK_EQ(claim(s, "a").timer.attempt, 9U);
    CHECK(cancel(s, "b") == cancel_result::cancelled);
    CHECK_EQ(count(s).dead, 1U);
    CHECK(revive(s, "b", today()) == revive_result::unknown_id);
}

Test(durable_file, a_dead_timer_of_version_2_that_is_replaced_by_another_is_said_to_be_gone) {
    const file_of_timers f;
    run_sql(f.path, version_2 + "insert into dead select id, due, x'', 0, 7, 7 from timer");
    sqlite_store s(f.path);
    const token first{"a", claim(s, "a", 1).timer.attempt};
    CHECK(spend(s, first));
    CHECK(claim(s, "a", 1).what == claimed::kind::dead);
    CHECK(s.last_failure().find("the older one is gone") != std::string::npos);
    CHECK_EQ(list(s, which::dead)[0].attempt, first.attempt);
}
