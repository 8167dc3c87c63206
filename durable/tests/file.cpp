// The file of the store in SQLite: its owner, its integrity, its versions, and the effects of a
// fork.
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/file_of_timers.hpp"

using namespace std::chrono_literals;
using namespace support::asking;
using namespace tvec::durable;
using support::file_of_timers, support::is_busy, support::other_process, support::refuses,
    support::run_sql;

TestSuite(durable_file, .timeout = 600);

namespace {

void fill(sqlite_store& s, int timers, std::size_t bytes) {
    const std::string body(bytes, 'x');
    for (int i = 0; i < timers; ++i)
        s.submit(operations::put{{{std::to_string(i), today() + 1h, body}}, existing::keep});
    turn_until(s, [&] { return s.unanswered() == 0; });
}

// Gives the file of this name other contents.
void overwrite(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

// Copies the files under another name, as if the process had been killed now.
std::string killed_copy(const file_of_timers& f, bool with_log) {
    const std::string copy = f.name() + "/copy.db";
    std::filesystem::copy_file(f.path, copy);
    if (with_log) std::filesystem::copy_file(f.log, copy + "-wal");
    return copy;
}

std::string bytes_of(const std::string& path) {
    std::ifstream f(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(f), {}};
}

}  // namespace

// --- ownership ----------------------------------------------------------------------------------

Test(durable_file, an_owner_reading_its_file_keeps_others_out) {
    const file_of_timers f;
    other_process second([&] { return is_busy(f.path) ? 7 : 0; });
    const sqlite_store s(f.path);
    std::ifstream(f.path).get();  // closes it: SQLite's own lock is gone
    CHECK_EQ(second(), 7);
}

Test(durable_file, refusing_a_second_store_keeps_the_locks) {
    const file_of_timers f;
    other_process reader([&] { return support::try_sql(f.path, "begin immediate"); });
    const sqlite_store s(f.path);
    refuses(f.path, std::errc::device_or_resource_busy, "this process has it open already");
    CHECK_EQ(reader(), SQLITE_BUSY);
}

Test(durable_file, a_busy_file_is_refused_by_every_name) {
    const file_of_timers f;
    const std::string link = f.name() + "/link", hard = f.name() + "/hard";
    other_process second([&] {
        return (is_busy(link) ? 1 : 0) + (is_busy(hard) ? 2 : 0) + (is_busy(f.path) ? 0 : 4);
    });
    std::filesystem::create_symlink("timers.db", link);  // the target does not exist yet
    const sqlite_store s(link);
    std::filesystem::create_hard_link(f.path, hard);
    std::filesystem::rename(f.path, f.name() + "/moved");
    std::filesystem::remove(link);
    std::filesystem::create_symlink("moved", link);
    CHECK_EQ(second(), 7);
}

Test(durable_file, started_programs_do_not_inherit_the_lock) {
    const file_of_timers f;
    auto s = std::make_unique<sqlite_store>(f.path);
    int output[2];
    REQUIRE_EQ(pipe(output), 0);
    const pid_t program = fork();
    if (program == 0) {
        dup2(output[1], STDOUT_FILENO);
        execlp("sh", "sh", "-c", "echo; exec sleep 60", nullptr);
        _exit(1);
    }
    s.reset();
    char begun = 0;
    CHECK_EQ(read(output[0], &begun, 1), 1);
    CHECK(!is_busy(f.path));
    kill(program, SIGKILL);
    waitpid(program, nullptr, 0);
}

Test(durable_file, a_forked_child_leaves_it_to_its_parent) {
    const file_of_timers f;
    other_process second([&] { return is_busy(f.path) ? 7 : 0; });
    auto s = std::make_unique<sqlite_store>(f.path);
    put(*s, {"a", today() + 1h});
    const pid_t child = fork();
    if (child == 0) {
        alarm(10);
        s.reset();
        kill(getpid(), SIGKILL);  // no leak report about the parent's memory
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQ(status, SIGKILL);  // and not SIGALRM
    CHECK(std::filesystem::exists(f.log));
    CHECK(put(*s, {"b", today() + 1h}) == put_result::stored);
    CHECK_EQ(second(), 7);
    s.reset();
    sqlite_store again(f.path);
    CHECK_EQ(count(again).waiting, 2U);
}

// --- integrity ----------------------------------------------------------------------------------

Test(durable_file, an_unclosed_file_is_opened_with_its_log) {
    for (const bool is_synced : {true, false}) {
        const file_of_timers f;
        sqlite_store s(f.path, {.survives_power_cut = is_synced});
        fill(s, 100, 10);
        sqlite_store copy(killed_copy(f, true));
        CHECK_EQ(count(copy).waiting, 100U);
    }
}

Test(durable_file, an_unclosed_file_is_refused_without_its_log) {
    const file_of_timers f;
    sqlite_store s(f.path);
    put(s, {"a", today() + 1h});
    const std::string copy = killed_copy(f, false);
    refuses(copy, std::errc::no_such_file_or_directory, "its log (-wal) is missing");
    std::ofstream(copy + "-wal").flush();
    refuses(copy, std::errc::no_such_file_or_directory, "its log (-wal) is missing or empty");
    run_sql(copy, "update mark set needs_log = 0");  // the fix from the message
    sqlite_store shorter(copy);
    CHECK_EQ(count(shorter).waiting, 0U);
}

// A long log is written into the file: the file alone still records that it is incomplete.
Test(durable_file, a_checkpointed_file_is_refused_without_its_log) {
    const file_of_timers f;
    sqlite_store s(f.path);
    fill(s, 8'000, 4'000);
    CHECK(std::filesystem::file_size(f.path) > 8'000'000U);
    refuses(killed_copy(f, false), std::errc::no_such_file_or_directory, "is missing");
}

Test(durable_file, the_log_does_not_become_long) {
    const file_of_timers f;
    sqlite_store s(f.path);
    for (int i = 0; i < 100; ++i)
        put(s, {std::to_string(i), today() + 1h, std::string(1'000'000, 'x')});
    CHECK(std::filesystem::file_size(f.log) < 20'000'000U);
}

// A reader keeps the log from beginning anew.
Test(durable_file, a_long_log_shrinks_once_its_reader_leaves) {
    const file_of_timers f;
    sqlite_store s(f.path, {.shares_file = true});
    put(s, {"a", today() + 1h});
    sqlite3* reader = nullptr;
    REQUIRE_EQ(sqlite3_open(f.path.c_str(), &reader), SQLITE_OK);
    sqlite3_exec(reader, "begin; select count(*) from timer", nullptr, nullptr, nullptr);
    fill(s, 40, 1'000'000);
    CHECK(std::filesystem::file_size(f.log) > 20'000'000U);
    sqlite3_close(reader);
    for (const char* id : {"b", "c", "d"}) put(s, {id, today() + 1h});
    CHECK(std::filesystem::file_size(f.log) < 20'000'000U);
}

Test(durable_file, only_its_user_reads_a_new_file) {
    const file_of_timers f;
    sqlite_store s(f.path, {.shares_file = true});
    put(s, {"a", today() + 1h});
    for (const std::string& name : {f.path, f.log, f.path + "-shm"})
        CHECK(std::filesystem::status(name).permissions() ==
              (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}

Test(durable_file, an_inspected_file_is_opened_without_its_log) {
    const file_of_timers f;
    sqlite_store s(f.path);
    fill(s, 100, 10);
    const std::string path = killed_copy(f, true);
    run_sql(path, "select count(*) from timer");  // moves the log into the file
    CHECK(!std::filesystem::exists(path + "-wal"));
    sqlite_store copy(path);
    CHECK_EQ(count(copy).waiting, 100U);
}

Test(durable_file, a_closed_file_is_whole_without_a_log) {
    const file_of_timers f;
    {
        sqlite_store s(f.path);
        fill(s, 8'000, 4'000);
    }
    CHECK(!std::filesystem::exists(f.log));
    sqlite_store s(f.path);
    CHECK_EQ(count(s).waiting, 8'000U);
}

Test(durable_file, a_log_without_its_file_is_refused_untouched) {
    const file_of_timers f;
    std::ofstream(f.log) << "a log";
    refuses(f.path, std::errc::no_such_file_or_directory, "is missing or empty");
    CHECK(!std::filesystem::exists(f.path));
    std::ofstream(f.path).flush();
    refuses(f.path, std::errc::no_such_file_or_directory, "is missing or empty");
    std::filesystem::remove(f.path);
    std::filesystem::create_symlink("timers.db", f.name() + "/link");
    refuses(f.name() + "/link", std::errc::no_such_file_or_directory, "is missing or empty");
    CHECK(bytes_of(f.log) == "a log");
}

Test(durable_file, a_removed_or_replaced_file_stores_nothing_meanwhile) {
    for (const int kind : {0, 1, 2, 3, 4, 5, 6, 7}) {
        const bool is_shared = kind / 4 != 0, is_of_log = kind / 2 % 2 != 0,
                   is_replaced = kind % 2 != 0;
        const file_of_timers f;
        const std::string& path = is_of_log ? f.log : f.path;
        const std::string away = f.name() + "/away";
        {
            sqlite_store s(f.path, {.shares_file = is_shared});
            CHECK(put(s, {"a", today() + 1h}) == put_result::stored);
            std::filesystem::rename(path, away);
            if (is_replaced) std::filesystem::copy_file(away, path);
            CHECK(put(s, {"b", today() + 1h}) == put_result::failed);
            CHECK(cancel(s, "a") == cancel_result::failed);
            CHECK(s.last_failure().find("was removed or replaced") != std::string::npos);
            std::filesystem::rename(away, path);
            CHECK(put(s, {"c", today() + 1h}) == put_result::stored);
        }
        sqlite_store s(f.path);
        CHECK_EQ(count(s).waiting, 2U);
    }
}

// Most of the time that a put takes is its commit.
Test(durable_file, a_file_lost_during_a_commit_is_reported) {
    for (int i = 0; i < 20; ++i) {
        const file_of_timers f;
        const std::string away = f.name() + "/away";
        sqlite_store s(f.path);
        std::thread mover([&] {
            std::this_thread::sleep_for(100us * i);
            std::filesystem::rename(f.path, away);
        });
        auto answer = put_result::stored;
        while (answer == put_result::stored)
            answer = put(s, {"a", today() + 1h}, existing::replace);
        CHECK(s.last_failure().find("was removed or replaced") != std::string::npos);
        mover.join();
        std::filesystem::rename(away, f.path);
    }
}

// A copy is restored by `cp`, which keeps the file and changes what is in it.
Test(durable_file, an_overwritten_file_stores_nothing_more) {
    enum { by_copy, by_nothing, by_itself, log_by_nothing, log_by_copy };
    for (const int how : {by_copy, by_nothing, by_itself, log_by_nothing, log_by_copy}) {
        const file_of_timers f;
        const std::string& path = how >= log_by_nothing ? f.log : f.path;
        fill(*std::make_unique<sqlite_store>(f.path), 20, 600);
        std::string copy = how == by_copy ? bytes_of(f.path) : "";
        {
            sqlite_store s(f.path);
            CHECK(put(s, {"a", today() + 1h}) == put_result::stored);
            if (how == log_by_copy) copy = bytes_of(f.log);
            fill(s, 50, 600);
            if (how == by_itself) copy = bytes_of(f.path);
            overwrite(path, copy);
            for (int i = 0; i < 2; ++i) {
                CHECK(put(s, {"b", today() + 1h}) == put_result::failed);
                CHECK(cancel(s, "a") == cancel_result::failed);
                CHECK(s.last_failure().find("was overwritten") != std::string::npos);
                CHECK(s.last_failure().find(how == by_nothing ? "move the log (-wal) away"
                                                              : f.log + ".old back to -wal") !=
                      std::string::npos);
            }
        }
        CHECK(how == by_copy || bytes_of(path + (path == f.log ? ".old" : "")) == copy);
        if (how == by_nothing) {
            refuses(f.path, std::errc::no_such_file_or_directory, "is missing or empty");
        } else if (how == by_copy) {
            sqlite_store s(f.path, {.checks_file = true});
            CHECK_EQ(count(s).waiting, 20U);
        } else {
            refuses(f.path, std::errc::no_such_file_or_directory, "was not closed");
        }
        if (how != by_itself) continue;
        std::filesystem::rename(f.log + ".old", f.log);
        sqlite_store s(f.path, {.checks_file = true});
        CHECK_EQ(count(s).waiting, 51U);
    }
}

Test(durable_file, a_log_that_was_set_aside_is_kept) {
    const file_of_timers f;
    std::vector<std::string> logs;
    for (const std::string name : {".old", ".old.2", ".old.3"}) {
        {
            sqlite_store s(f.path);
            CHECK(put(s, {name, today() + 1h}) == put_result::stored);
            logs.push_back(bytes_of(f.log));
            std::filesystem::last_write_time(f.path, std::filesystem::last_write_time(f.path) - 1h);
            CHECK(put(s, {"lost", today() + 1h}) == put_result::failed);
            CHECK(s.last_failure().find("-wal" + name + " back") != std::string::npos);
        }
        std::filesystem::copy_file(f.log + name, f.log);
    }
    CHECK(bytes_of(f.log + ".old") == logs[0]);
    CHECK(bytes_of(f.log + ".old.2") == logs[1]);
    CHECK(bytes_of(f.log + ".old.3") == logs[2]);
    sqlite_store s(f.path, {.checks_file = true});
    CHECK_EQ(count(s).waiting, 3U);
}

// Other connections write the file and its log as well, and may have cut the log.
Test(durable_file, an_overwritten_shared_file_stores_nothing_more) {
    for (const bool is_log : {false, true}) {
        const file_of_timers f;
        sqlite_store s(f.path, {.shares_file = true});
        CHECK(put(s, {"a", today() + 1h}) == put_result::stored);
        overwrite(is_log ? f.log : f.path, "");
        CHECK(put(s, {"b", today() + 1h}) == (is_log ? put_result::unknown : put_result::failed));
        CHECK(put(s, {"c", today() + 1h}) == put_result::failed);
        CHECK(s.last_failure().find("was overwritten") != std::string::npos);
    }
}

Test(durable_file, a_shared_file_is_written_by_others) {
    const file_of_timers f;
    sqlite_store s(f.path, {.shares_file = true});
    for (const char* sql : {"create table mine(x)", "pragma wal_checkpoint(truncate)", "vacuum",
                            "insert into mine values(zeroblob(9000)); pragma wal_checkpoint",
                            "drop table mine; vacuum; pragma wal_checkpoint(restart)"}) {
        CHECK(put(s, {sql, today() + 1h}) == put_result::stored);
        run_sql(f.path, sql);
        CHECK(put(s, {std::string("after ") + sql, today() + 1h}) == put_result::stored);
    }
}

Test(durable_file, a_replaced_file_leaves_its_successor_no_log) {
    const file_of_timers f;
    const std::string away = f.name() + "/away", copy = f.name() + "/copy";
    {
        sqlite_store s(f.path);
        CHECK(put(s, {"a", today() + 1h}) == put_result::stored);
    }
    std::filesystem::copy_file(f.path, copy);
    {
        sqlite_store s(f.path);
        CHECK(put(s, {"b", today() + 1h}) == put_result::stored);
        std::filesystem::rename(f.path, away);
        std::filesystem::rename(copy, f.path);
    }
    CHECK(!std::filesystem::exists(f.log) || std::filesystem::file_size(f.log) == 0);
    CHECK_EQ(count(*std::make_unique<sqlite_store>(f.path)).waiting, 1U);
    CHECK_EQ(count(*std::make_unique<sqlite_store>(away)).waiting, 2U);
}

Test(durable_file, closing_a_lost_file_spares_its_successors_log) {
    const file_of_timers f;
    auto lost = std::make_unique<sqlite_store>(f.path);
    CHECK(put(*lost, {"a", today() + 1h}) == put_result::stored);
    for (const std::string& path : {f.path, f.log}) std::filesystem::rename(path, path + ".away");
    sqlite_store s(f.path);
    CHECK(put(s, {"b", today() + 1h}) == put_result::stored);
    lost.reset();
    CHECK(put(s, {"c", today() + 1h}) == put_result::stored);
    CHECK_EQ(count(*std::make_unique<sqlite_store>(killed_copy(f, true))).waiting, 2U);
}

Test(durable_file, damage_is_found_where_that_is_asked_for) {
    const file_of_timers f;
    {
        sqlite_store s(f.path);
        put(s, {"a needle", today() + 1h});
        fill(s, 1'000, 10);
    }
    std::string all = bytes_of(f.path);
    all[all.find("needle")] ^= 1;  // in the table, or in the index
    std::ofstream(f.path, std::ios::binary) << all;
    refuses(f.path, std::errc::io_error, "is damaged", {.checks_file = true});
}

Test(durable_file, a_whole_file_is_opened_with_a_check) {
    const file_of_timers f;
    {
        sqlite_store s(f.path);
        fill(s, 1'000, 10);
    }
    sqlite_store s(f.path, {.checks_file = true});
    CHECK_EQ(count(s).waiting, 1'000U);
}

// --- its name and its options -------------------------------------------------------------------

Test(durable_file, a_name_that_is_no_path_is_refused) {
    const file_of_timers f;
    std::filesystem::current_path(f.name());
    refuses("", std::errc::invalid_argument, "the name is empty");
    for (const char* name : {":memory:", "file:timers.db", "file:x?mode=memory"})
        refuses(name, std::errc::invalid_argument, "is no path");
    refused([] { const sqlite_store s(std::string("a\0b", 3)); }, std::errc::invalid_argument,
            "sqlite_store: a");
    CHECK(std::filesystem::is_empty(f.name()));
    { const sqlite_store s("./file:x?mode=memory"); }
    CHECK(std::filesystem::exists("file:x?mode=memory"));
}

Test(durable_file, impossible_options_are_refused_and_create_no_file) {
    const file_of_timers f;
    for (const duration ahead : {duration(-1), duration(1h) + 1ms, duration::max()})
        refuses(f.path, std::errc::invalid_argument, "claim_ahead", {.claim_ahead = ahead});
    CHECK(!std::filesystem::exists(f.path));
    const sqlite_store s(f.path, {.claim_ahead = 1h});
}

Test(durable_file, an_unwritable_file_is_refused_with_the_reason) {
    refuses("/proc/sys/kernel/ostype", std::errc::permission_denied, "for reading and writing");
    refuses("/proc", std::errc::is_a_directory, "for reading and writing");
}

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
const std::string version_3 =
    version_2 + "alter table timer add column spent int not null default 0;"
                "alter table timer add column counted int not null default 0;"
                "alter table timer add column apart int not null default 0;"
                "alter table dead add column spent int not null default 0;"
                "alter table dead add column apart int not null default 0;"
                "create table body(id blob primary key, bytes blob not null) without rowid;"
                "create table mark(needs_log int not null); insert into mark values(0);"
                "pragma user_version = 3;"
                "insert into timer values(x'64', 4, x'', 0, 7, 6, 1, 1, 1);"
                "insert into body values(x'64', zeroblob(9000));";

void has_what_version_1_had(sqlite_store& s) {
    const auto timers = list(s, timer_set::waiting);
    REQUIRE_EQ(timers.size(), 2U);
    CHECK(timers[0].body == "body");
    CHECK(timers[0].attempt == 3 && timers[0].ended == 1 && timers[0].spent == 0);
    CHECK(timers[1].body == std::string(5'000, '\0'));
    CHECK(timers[1].every == 60s);
    CHECK(claim(s, "b").timer.body == timers[1].body);
    CHECK(end(s, {{"b", 1}}).next.has_value());
    CHECK(claim(s, "a").timer.attempt == 4);
    CHECK(end(s, {{"a", 4}}).was_current);
}

}  // namespace

Test(durable_file, a_file_of_version_1_is_made_newer) {
    const file_of_timers f;
    run_sql(f.path, version_1);
    sqlite_store s(f.path);
    has_what_version_1_had(s);
    CHECK(list(s, timer_set::dead).empty());
}

Test(durable_file, a_file_of_version_2_is_made_newer) {
    const file_of_timers f;
    run_sql(f.path, version_2);
    sqlite_store s(f.path);
    has_what_version_1_had(s);
    REQUIRE_EQ(list(s, timer_set::dead).size(), 1U);
    CHECK(list(s, timer_set::dead)[0].body == std::string(5'000, '\0'));
    CHECK(put(s, {"c", today()}) == put_result::dead);
    CHECK(revive(s, "c", today()) == revive_result::revived);
    CHECK_EQ(claim(s, "c").timer.attempt, 6U);
}

Test(durable_file, a_file_of_version_3_is_made_newer) {
    const file_of_timers f;
    run_sql(f.path, version_3);
    sqlite_store s(f.path);
    REQUIRE(find(s, "d").has_value());
    CHECK(find(s, "d")->body == std::string(9'000, '\0') && find(s, "d")->plan.empty());
    CHECK(end(s, {{"d", claim(s, "d").timer.attempt}, outcome::dead}).was_current);
    CHECK(cancel(s, "d") == cancel_result::had_begun);
    has_what_version_1_had(s);
    CHECK(revive(s, "c", today()) == revive_result::revived);
    CHECK(end(s, {{"c", claim(s, "c").timer.attempt}}).next == std::nullopt);
    CHECK(put(s, {"e", today(), "", 0ms, "times 2"}) == put_result::stored);
    CHECK(end(s, {{"e", claim(s, "e").timer.attempt}}).next.has_value());
    CHECK(find(s, "e")->verdict == "done");
}

// Only in this version may one id have a living and a dead timer.
Test(durable_file, an_id_with_two_timers_survives_the_upgrade) {
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

Test(durable_file, replacing_dead_timers_of_version_2_is_reported) {
    const file_of_timers f;
    run_sql(f.path, version_2 + "insert into dead select id, due, x'', 0, 7, 7 from timer");
    sqlite_store s(f.path);
    const token first{"a", claim(s, "a").timer.attempt};
    CHECK(end(s, {first, outcome::dead}).was_current);
    CHECK(s.last_failure().find("the older one is gone") != std::string::npos);
    CHECK_EQ(list(s, timer_set::dead)[0].attempt, first.attempt);
}

Test(durable_file, a_version_that_cannot_be_is_refused) {
    const file_of_timers f;
    { const sqlite_store s(f.path); }
    for (const char* version : {"-1", "-1000000", "-2147483648"}) {
        run_sql(f.path, std::string("pragma user_version = ") + version);
        refuses(f.path, std::errc::invalid_argument, std::string("its version is ") + version);
    }
    run_sql(f.path, "pragma user_version = 2147483647");
    refuses(f.path, std::errc::not_supported, "is of version 2147483647");
    for (const char* version : {"0", "1", "2", "3"}) {
        run_sql(f.path, std::string("pragma user_version = ") + version);
        CHECK(!is_busy(f.path));
    }
    run_sql(f.path, "pragma application_id = -1; pragma user_version = 4");
    refuses(f.path, std::errc::invalid_argument, "something else");
}
