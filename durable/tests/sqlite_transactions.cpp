// Timers in transactions of a program's own connection: a timer exists if its transaction commits.
#include <poll.h>
#include <sqlite3.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/any_store.hpp"
#include "support/environment.hpp"
#include "support/file_of_timers.hpp"
#include "tvec/durable/sqlite_transactions.hpp"
#include "tvec/durable/timers.hpp"

using namespace std::chrono_literals;
using namespace support::asking;
using namespace tvec::durable;
using support::file_of_timers, support::is_busy, support::other_process, support::refuses,
    support::run_sql, support::try_sql;

TestSuite(durable_sqlite_transactions, .timeout = 600);

namespace {

// The program's own connection.
class connection {
public:
    explicit connection(const std::string& path) {
        REQUIRE_EQ(sqlite3_open(path.c_str(), &db_), SQLITE_OK);
        sqlite3_busy_timeout(db_, 10'000);
    }
    ~connection() { sqlite3_close_v2(db_); }
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    operator sqlite3*() const { return db_; }

    void execute(const std::string& sql) {
        CHECK_EQ(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    }

private:
    sqlite3* db_ = nullptr;
};

// A question with one number as its answer.
class statement {
public:
    statement(sqlite3* db, const char* sql) {
        REQUIRE_EQ(sqlite3_prepare_v2(db, sql, -1, &handle_, nullptr), SQLITE_OK);
    }
    ~statement() { sqlite3_finalize(handle_); }
    statement(const statement&) = delete;
    statement& operator=(const statement&) = delete;
    int number() {
        CHECK_EQ(sqlite3_step(handle_), SQLITE_ROW);
        const int n = sqlite3_column_int(handle_, 0);
        sqlite3_reset(handle_);
        return n;
    }

private:
    sqlite3_stmt* handle_ = nullptr;
};

constexpr sqlite_options shared{.shares_file = true};

struct shared_file : file_of_timers {
    sqlite_store s{path, shared};
    connection db{path};
    sqlite_transactions own{db, s};

    template <class F> void commit(F does) {
        db.execute("begin immediate");
        does();
        db.execute("commit");
    }
    template <class F> void roll_back(F does) {
        db.execute("begin immediate");
        does();
        db.execute("rollback");
    }
};

options without_sweeps() {
    options o;
    o.sweep = 24h;
    return o;
}

// A program with a loop.
struct service : shared_file {
    explicit service(options o = without_sweeps())
        : all(
              wheel, s,
              [this](delivery d) {
                  CHECK(d.due <= s.now());
                  got.push_back(d);
                  all.done(d.token);
              },
              o) {
        while (!all.ready()) turn();
    }
    void turn(int at_most = 1) {
        pollfd watched{all.fd(), POLLIN, 0};
        poll(&watched, 1, at_most);
        wheel.run();
        all.run();
    }
    void turn_until_delivered(std::size_t n) {
        while (got.size() < n) turn();
    }

    tvec::clocked_wheel<> wheel;
    std::vector<delivery> got;
    timers<> all;
};

}  // namespace

// --- the timer and the transaction ---------------------------------------------------------------

Test(durable_sqlite_transactions, a_commit_delivers_and_nothing_comes_before) {
    service p;
    p.db.execute("begin immediate");
    CHECK(p.own.put({"a", today() - 1s, "body"}, existing::keep) == put_result::stored);
    for (int i = 0; i < 50; ++i) p.turn();
    CHECK(p.got.empty());
    p.db.execute("commit");
    p.turn_until_delivered(1);
    CHECK_EQ(p.got[0].token.id, "a");
    CHECK_EQ(p.got[0].body, "body");
}

Test(durable_sqlite_transactions, a_rollback_leaves_nothing) {
    shared_file p;
    p.commit([&] { p.own.put({"b", today() + 1h, "old"}, existing::keep); });
    p.roll_back([&] {
        CHECK(p.own.put({"a", today() + 1h, std::string(5'000, 'x')}, existing::keep) ==
              put_result::stored);
        CHECK(p.own.put({"b", today(), "new"}, existing::replace) == put_result::stored);
        CHECK(p.own.touch("b", today()) == touch_result::touched);
        CHECK(p.own.cancel("b") == cancel_result::cancelled);
    });
    CHECK(!find(p.s, "a").has_value());
    CHECK(find(p.s, "b")->body == "old");
    CHECK_EQ(find(p.s, "b")->attempt, 0U);
    run_sql(p.path, "create temp table none(bodies check(bodies = 0));"
                    "insert into none select count(*) from body");
}

Test(durable_sqlite_transactions, a_part_that_is_rolled_back_leaves_nothing) {
    shared_file p;
    p.commit([&] {
        p.db.execute("savepoint part");
        p.own.put({"a", today()}, existing::keep);
        p.db.execute("rollback to part; release part");
        p.own.put({"b", today()}, existing::keep);
    });
    CHECK(!find(p.s, "a").has_value());
    CHECK(find(p.s, "b").has_value());
}

Test(durable_sqlite_transactions, it_answers_as_the_store_in_memory_does) {
    shared_file p;
    memory_database all{1, [&p] { return p.s.now(); }};
    memory_store model(all, "model");
    CHECK_EQ(own(model, 0, 10h), own(p.s, 0, 10h));
    std::mt19937 random(1);
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random()) % n; };
    const time_point begin = today();
    for (int i = 0; i < 3'000; ++i) {
        const std::string id(1, static_cast<char>('a' + below(5)));
        const time_point due = begin + 1ms * below(5);
        const record r{id, due, std::string(below(2) * 900, 'x'), 1s * below(2)};
        const auto how = static_cast<existing>(below(4));
        switch (below(5)) {
        case 0:
            CHECK(claim(p.s, id).what == claim(model, id).what);
            CHECK(find(p.s, id).has_value() == find(model, id).has_value());
            if (const auto t = find(model, id))
                CHECK(spend(p.s, {id, t->attempt}) == spend(model, {id, t->attempt}));
            break;
        case 1:
            p.commit([&] { CHECK(p.own.cancel(id) == cancel(model, id)); });
            break;
        case 2:
            p.commit([&] {
                const auto known = std::get<0>(answer_to(model, operations::touch{id, due}));
                CHECK(p.own.touch(id, due) == known);
            });
            break;
        default:
            p.commit([&] { CHECK(p.own.put(r, how) == put(model, r, how)); });
        }
    }
    CHECK(list(p.s, timer_set::waiting) == list(model, timer_set::waiting));
    CHECK(list(p.s, timer_set::dead) == list(model, timer_set::dead));
}

// --- the store learns of it ----------------------------------------------------------------------

Test(durable_sqlite_transactions, a_commit_makes_the_descriptor_readable) {
    service p;
    for (int i = 0; i < 30; ++i) p.turn();
    pollfd watched{p.all.fd(), POLLIN, 0};
    CHECK_EQ(poll(&watched, 1, 0), 0);
    p.commit([&] { p.own.put({"a", today()}, existing::keep); });
    CHECK_EQ(poll(&watched, 1, 0), 1);
}

Test(durable_sqlite_transactions, a_touched_timer_comes_at_its_new_deadline) {
    service p;
    p.commit([&] { p.own.put({"a", today() + 1h}, existing::keep); });
    for (int i = 0; i < 20; ++i) p.turn();
    p.commit([&] { CHECK(p.own.touch("a", today() + 10ms) == touch_result::touched); });
    p.turn_until_delivered(1);
}

// The change is told with the next commit, and must not move the alarm.
Test(durable_sqlite_transactions, a_touch_rolled_back_delays_no_timer) {
    service p;
    p.commit([&] { p.own.put({"a", today() + 400ms}, existing::keep); });
    for (int i = 0; i < 20; ++i) p.turn();
    p.roll_back([&] { p.own.touch("a", today() + 30s); });
    p.commit([&] { p.own.put({"b", today()}, existing::keep); });
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (p.got.size() < 2 && std::chrono::steady_clock::now() < limit) p.turn();
    CHECK_EQ(p.got.size(), 2U);
}

Test(durable_sqlite_transactions, a_sweep_finds_timers_of_unreported_commits) {
    options o;
    o.sweep = 50ms;
    service p(o);
    sqlite3_wal_hook(p.db, nullptr, nullptr);
    p.commit([&] { p.own.put({"a", today()}, existing::keep); });
    p.turn_until_delivered(1);
    CHECK_EQ(p.all.counters().hints, 0U);
    CHECK_EQ(p.all.counters().swept, 1U);
}

Test(durable_sqlite_transactions, the_last_hundred_thousand_changes_are_reported) {
    if (support::only_memory()) return;
    service p;
    p.commit([&] {
        p.own.put({"b", today() + 1h}, existing::keep);
        p.own.put({"a", today()}, existing::keep);
        for (int i = 0; i < 99'999; ++i) p.own.touch("b", today() + 1h);
    });
    p.turn_until_delivered(1);
}

Test(durable_sqlite_transactions, a_timer_that_is_cancelled_does_not_come) {
    service p;
    p.commit([&] {
        p.own.put({"a", today() + 250ms}, existing::keep);
        p.own.put({"b", today() + 260ms}, existing::keep);
    });
    for (int i = 0; i < 5; ++i) p.turn();
    cancel_result result{};
    p.commit([&] { result = p.own.cancel("a"); });
    p.turn_until_delivered(1);
    CHECK(result == cancel_result::cancelled ? p.got[0].token.id == "b"
                                             : result == cancel_result::had_begun);
}

Test(durable_sqlite_transactions, transactions_of_another_thread_are_delivered) {
    service p;
    std::thread other([&] {
        for (int i = 0; i < 200; ++i) {
            const auto put = [&] { p.own.put({std::to_string(i), today()}, existing::keep); };
            i % 4 == 0 ? p.roll_back(put) : p.commit(put);
        }
    });
    p.turn_until_delivered(150);
    other.join();
    CHECK_EQ(count(p.s).waiting, 0U);
}

// --- one waits for the other ---------------------------------------------------------------------

Test(durable_sqlite_transactions, an_open_transaction_delays_answers_and_loses_none) {
    shared_file p;
    std::optional<put_result> result;
    p.commit([&] {
        const auto note = [&](const std::vector<put_result>& all) { result = all.front(); };
        p.s.submit(operations::put{{{"a", today()}}, existing::keep, note});
        for (int i = 0; i < 10; ++i) turn(p.s, 10ms);
        CHECK(!result.has_value());
    });
    turn_until(p.s, [&] { return result.has_value(); });
    CHECK(*result == put_result::stored);
}

Test(durable_sqlite_transactions, a_long_transaction_fails_puts_and_delays_claims) {
    service p;
    p.commit([&] { p.own.put({"a", today() + 300ms}, existing::keep); });
    for (int i = 0; i < 20; ++i) p.turn();
    std::optional<put_result> result;
    p.commit([&] {
        const auto note = [&](put_result r) { result = r; };
        CHECK(p.all.put({"b", today()}, existing::keep, note) == refusal::none);
        while (!result) p.turn();
        CHECK(*result == put_result::failed);
        CHECK(p.s.last_failure().find("locked") != std::string::npos);
        CHECK(p.got.empty());
    });
    p.turn_until_delivered(1);
}

Test(durable_sqlite_transactions, a_closed_store_leaves_the_connection_alone) {
    const file_of_timers f;
    other_process rival([&] { return try_sql(f.path, "pragma journal_mode = delete"); });
    auto s = std::make_unique<sqlite_store>(f.path, shared);
    connection db(f.path);
    sqlite_transactions own(db, *s);
    s.reset();
    CHECK_EQ(rival(), SQLITE_BUSY);  // the locks of the connection hold
    db.execute("begin immediate");
    CHECK(own.put({"a", today()}, existing::keep) == put_result::stored);
    db.execute("commit");
    sqlite_store again(f.path, shared);
    CHECK_EQ(count(again).waiting, 1U);
}

// --- the file ------------------------------------------------------------------------------------

Test(durable_sqlite_transactions, a_second_store_is_refused_in_any_process) {
    const file_of_timers f;
    const auto both_refused = [&] {
        const auto refused = [&](const sqlite_options& o) {
            try {
                const sqlite_store s(f.path, o);
                return false;
            } catch (const std::system_error& e) {
                return e.code() == std::errc::device_or_resource_busy;
            }
        };
        return refused(shared) && refused({});
    };
    other_process second([&] { return both_refused() ? 7 : 0; });
    other_process third([&] { return is_busy(f.path) ? 0 : 7; });
    {
        const sqlite_store s(f.path, shared);
        CHECK_EQ(second(), 7);
        CHECK(both_refused());
    }
    CHECK_EQ(third(), 7);
}

Test(durable_sqlite_transactions, a_backup_while_it_runs_is_whole) {
    shared_file p;
    for (int i = 0; i < 100; ++i)
        put(p.s, {std::to_string(i), today() + 1h, std::string(90'000, 'x')});
    p.db.execute("vacuum into '" + p.name() + "/vacuumed'");
    connection copy(p.name() + "/copied");
    sqlite3_backup* const b = sqlite3_backup_init(copy, "main", p.db, "main");
    CHECK_EQ(sqlite3_backup_step(b, -1), SQLITE_DONE);
    CHECK_EQ(sqlite3_backup_finish(b), SQLITE_OK);
    for (const char* name : {"/vacuumed", "/copied"}) {
        sqlite_store restored(p.name() + name);
        CHECK_EQ(count(restored).waiting, 100U);
    }
}

Test(durable_sqlite_transactions, a_backup_never_asks_for_a_missing_log) {
    shared_file p;
    statement needs_log(p.db, "select max(needs_log) from mark");
    for (int i = 0; i < 60; ++i)
        p.s.submit(operations::put{{{std::to_string(i), today() + 1h, std::string(1'000'000, 'x')}},
                                   existing::keep});
    while (p.s.unanswered() != 0) {
        CHECK_EQ(needs_log.number(), 0);
        p.s.run();
    }
}

Test(durable_sqlite_transactions, the_log_does_not_become_long) {
    shared_file p;
    p.db.execute("create table mine(x)");
    for (int i = 0; i < 200; ++i)
        p.commit([&] { p.db.execute("insert into mine values(zeroblob(500000))"); });
    CHECK(std::filesystem::file_size(p.log) < 20'000'000U);
}

Test(durable_sqlite_transactions, a_shared_file_may_hold_tables_of_others) {
    const file_of_timers f;
    run_sql(f.path, "create table mine(x); insert into mine values(1)");
    refuses(f.path, std::errc::invalid_argument, "something else");
    {
        sqlite_store s(f.path, shared);
        CHECK(put(s, {"a", today()}) == put_result::stored);
    }
    run_sql(f.path, "select x from mine");
    sqlite_store s(f.path);
    CHECK_EQ(count(s).waiting, 1U);
}

Test(durable_sqlite_transactions, a_foreign_file_is_refused_even_if_shared) {
    const file_of_timers f;
    run_sql(f.path, "create table mine(x); pragma user_version = 1");
    refuses(f.path, std::errc::invalid_argument, "something else", shared);
    run_sql(f.path, "pragma user_version = 0; pragma application_id = 9");
    refuses(f.path, std::errc::invalid_argument, "something else", shared);
}

Test(durable_sqlite_transactions, an_unclosed_file_can_be_shared_afterwards) {
    const file_of_timers f;
    const std::string copy = f.name() + "/copy.db";
    {
        sqlite_store s(f.path);
        put(s, {"a", today() + 1h});
        std::filesystem::copy_file(f.path, copy);
        refuses(copy, std::errc::no_such_file_or_directory, "its log (-wal) is missing", shared);
        std::filesystem::copy_file(f.log, copy + "-wal");
    }
    { const sqlite_store s(copy, shared); }
    sqlite_store s(copy);
    CHECK_EQ(count(s).waiting, 1U);
}

// --- refusals ------------------------------------------------------------------------------------

namespace {

template <class Error, class F> void throws(F f, const std::string& words) {
    try {
        f();
        CHECK(!"it was accepted");
    } catch (const Error& e) {
        CHECK_EQ(std::string(e.what()).find(words) == std::string::npos ? e.what() : words, words);
    }
}

}  // namespace

Test(durable_sqlite_transactions, a_connection_to_another_file_is_refused) {
    shared_file p;
    const file_of_timers other;
    run_sql(other.path, "create table mine(x)");
    connection db(other.path);
    const std::string words = "is not the file of the store";
    throws<std::invalid_argument>([&] { sqlite_transactions(db, p.s); }, words);
    db.execute("attach '" + p.path + "' as timers");
    throws<std::invalid_argument>([&] { sqlite_transactions(db, p.s); }, words);
    connection none(":memory:");
    throws<std::invalid_argument>([&] { sqlite_transactions(none, p.s); }, words);
}

Test(durable_sqlite_transactions, an_unshared_store_is_refused) {
    const file_of_timers f;
    const sqlite_store s(f.path);
    connection db(f.path);
    throws<std::logic_error>([&] { sqlite_transactions(db, s); }, "shares_file");
}

Test(durable_sqlite_transactions, a_call_outside_of_a_transaction_is_refused) {
    shared_file p;
    throws<std::logic_error>([&] { p.own.put({"a", today()}, existing::keep); }, "begin one");
    throws<std::logic_error>([&] { p.own.cancel("a"); }, "begin one");
    throws<std::logic_error>([&] { p.own.touch("a", today()); }, "begin one");
}

Test(durable_sqlite_transactions, a_timer_beyond_the_limits_is_refused) {
    shared_file p;
    p.db.execute("begin immediate");
    const auto put = [&](record r) { p.own.put(std::move(r), existing::keep); };
    throws<std::invalid_argument>([&] { put({"", today()}); }, "id");
    throws<std::invalid_argument>([&] { put({"a", latest_due + 1ms}); }, "deadline");
    throws<std::invalid_argument>(
        [&] {
            put({"a", today(), std::string(largest_body + 1, 'x')});
        },
        "body");
    throws<std::invalid_argument>(
        [&] {
            put({"a", today(), "", {}, std::string(longest_plan + 1, 'x')});
        },
        "plan");
    throws<std::invalid_argument>([&] { p.own.touch("a", earliest_due - 1ms); }, "deadline");
    throws<std::invalid_argument>([&] { p.own.cancel(std::string(longest_id + 1, 'x')); }, "id");
}

Test(durable_sqlite_transactions, a_failed_put_changes_nothing_and_explains_why) {
    shared_file p;
    p.db.execute("create temp trigger full before insert on main.body"
                 " begin select raise(abort, 'no room'); end");
    p.commit([&] {
        p.own.put({"a", today()}, existing::keep);
        refused(
            [&] {
                p.own.put({"b", today(), std::string(5'000, 'x')}, existing::keep);
            },
            std::errc::io_error, "sqlite_transactions: no room");
    });
    CHECK(find(p.s, "a").has_value());
    CHECK(!find(p.s, "b").has_value());
}

// A checkpoint with each commit would write everything twice, and none would let the log grow.
Test(durable_sqlite_transactions, the_log_of_commits_keeps_its_length) {
    shared_file p;
    p.db.execute("create table filler (bytes blob); pragma wal_checkpoint");
    const auto commit_400_kb = [&] {
        p.db.execute("insert into filler values (zeroblob(400000))");
    };
    const auto before = std::filesystem::file_size(p.path);
    for (int i = 0; i < 5; ++i) commit_400_kb();
    CHECK_EQ(std::filesystem::file_size(p.path), before);
    for (int i = 0; i < 45; ++i) commit_400_kb();
    CHECK_LE(std::filesystem::file_size(p.path + "-wal"), 8'000'000);
}
