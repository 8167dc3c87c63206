// Durable timers on an SQLite file, beside what people write instead: a table with an index, one
// transaction for each put or for a batch, polled for what is due. All of it syncs before it says
// that something is stored. Rows: puts (stored per second), lateness (at a rate), recovery (until
// the near window is in the wheel, and bytes per timer), idle (share of a core with nothing due).
#include <poll.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "../examples/support/command_line.hpp"
#include "../examples/support/figures.hpp"
#include "../examples/support/program.hpp"
#include "durable_load.hpp"
#include "tvec/durable/sqlite_store.hpp"

namespace {

using namespace std::chrono_literals;
using namespace tvec::durable;
using namespace bench;

struct settings : bench::load {
    std::string folder;
    std::vector<std::string> rows{"puts", "lateness", "recovery", "idle"};
    std::uint64_t puts = 200'000, stored = 1'000'000;
    unsigned poll_ms = 100, repetitions = 3, days = 365;
    bool at_once = false;
};

// A file of its own, gone when this is.
class file {
public:
    explicit file(const settings& s)
        : path_(s.folder + "/bench-durable-" + std::to_string(getpid()) + ".db") {
        remove();
    }
    ~file() { remove(); }
    file(const file&) = delete;
    file& operator=(const file&) = delete;
    const std::string& path() const { return path_; }
    std::uintmax_t size() const { return std::filesystem::file_size(path_); }

private:
    void remove() {
        for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + end);
    }
    std::string path_;
};

class on_file {
public:
    on_file(const std::string& path, on_tvec::handler h) : store_(path), t_(store_, std::move(h)) {}
    on_tvec* operator->() { return &t_; }

private:
    sqlite_store store_;
    on_tvec t_;
};

// --- what people write --------------------------------------------------------------------------

class table {
public:
    explicit table(const std::string& path) {
        if (sqlite3_open(path.c_str(), &db_) != SQLITE_OK) fail();
        run("pragma journal_mode = wal; pragma synchronous = full; pragma cache_size = -65536;"
            "create table timer(id text primary key, due int not null, body blob) without rowid;"
            "create index by_due on timer(due)");
        insert_ = prepared("insert into timer values(?, ?, ?) on conflict do nothing");
        due_ = prepared("select id, due, body from timer where due <= ? order by due");
        remove_ = prepared("delete from timer where id = ?");
    }
    ~table() {
        for (sqlite3_stmt* s : {insert_, due_, remove_}) sqlite3_finalize(s);
        sqlite3_close(db_);
    }
    table(const table&) = delete;
    table& operator=(const table&) = delete;

    void run(const char* sql) {
        if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail();
    }
    void insert(const std::string& id, time_point due) {
        bind(insert_, id);
        sqlite3_bind_int64(insert_, 2, due.time_since_epoch().count());
        sqlite3_bind_blob(insert_, 3, body.data(), static_cast<int>(body.size()), SQLITE_STATIC);
        step(insert_);
    }
    // Handles what is due, and removes it, in one transaction.
    template <class F> void poll(F handle) {
        std::vector<std::string> ids;
        sqlite3_bind_int64(due_, 1, today().time_since_epoch().count());
        while (sqlite3_step(due_) == SQLITE_ROW) {
            const auto* const id = reinterpret_cast<const char*>(sqlite3_column_text(due_, 0));
            ids.emplace_back(id, static_cast<std::size_t>(sqlite3_column_bytes(due_, 0)));
            handle(time_point(duration(sqlite3_column_int64(due_, 1))));
        }
        sqlite3_reset(due_);
        if (ids.empty()) return;
        run("begin");
        for (const std::string& id : ids) {
            bind(remove_, id);
            step(remove_);
        }
        run("commit");
    }

private:
    [[noreturn]] void fail() { throw std::runtime_error(sqlite3_errmsg(db_)); }
    sqlite3_stmt* prepared(const char* sql) {
        sqlite3_stmt* s = nullptr;
        if (sqlite3_prepare_v2(db_, sql, -1, &s, nullptr) != SQLITE_OK) fail();
        return s;
    }
    static void bind(sqlite3_stmt* s, const std::string& id) {
        sqlite3_bind_text(s, 1, id.data(), static_cast<int>(id.size()), SQLITE_STATIC);
    }
    void step(sqlite3_stmt* s) {
        if (sqlite3_step(s) != SQLITE_DONE) fail();
        sqlite3_reset(s);
    }

    sqlite3* db_ = nullptr;
    sqlite3_stmt *insert_ = nullptr, *due_ = nullptr, *remove_ = nullptr;
};

// --- puts ---------------------------------------------------------------------------------------

double puts_of_tvec(const settings& s, bool in_order) {
    const file f(s);
    on_file t(f.path(), [](const delivery&) {});
    const time_point begin = today() + 1h;
    return per_second(s.puts, [&] {
        t->put(s.puts, 50'000, [&](std::uint64_t n) {
            return record{id_of(n, in_order), begin + duration(n / 50), body};
        });
    });
}

double puts_of_table(const settings& s, std::uint64_t n, std::uint64_t batch, bool in_order) {
    const file f(s);
    table t(f.path());
    const time_point begin = today() + 1h;
    return per_second(n, [&] {
        for (std::uint64_t i = 0; i < n; i += batch) {
            t.run("begin");
            for (std::uint64_t k = i; k < std::min(n, i + batch); ++k)
                t.insert(id_of(k, in_order), begin + duration(k / 50));
            t.run("commit");
        }
    });
}

void measure_puts(const settings& s) {
    for (const bool in_order : {true, false}) {
        const char* const ids = in_order ? "in order" : "random";
        const double tvec = puts_of_tvec(s, in_order);
        const double batched = puts_of_table(s, s.puts, 1'000, in_order);
        const double one = puts_of_table(s, 500, 1, in_order);
        fmt::print("puts, ids {:<9} tvec {:>7.0f}/s; table, batches of 1000 {:>7.0f}/s; one by "
                   "one {:>5.0f}/s: {:.2f} x, {:.0f} x\n",
                   ids, tvec, batched, one, tvec / batched, tvec / one);
    }
}

// --- lateness -----------------------------------------------------------------------------------

tvec::lateness_histogram lateness_of_tvec(const settings& s) {
    const file f(s);
    tvec::lateness_histogram late;
    on_file t(f.path(),
              [&](const delivery& d) { late.record(std::chrono::system_clock::now() - d.due); });
    const double before = example::cpu_seconds(RUSAGE_SELF);
    const auto begun = steady::now();
    arrivals a(s);
    while (!a.over() || late.count() < a.sent()) {
        a.run([&](std::string id, time_point due) { t->put({std::move(id), due, body}); });
        t->turn(2);
    }
    print_lateness("tvec", late, cpu_share(before, begun));
    return late;
}

tvec::lateness_histogram lateness_of_polling(const settings& s) {
    const file f(s);
    tvec::lateness_histogram late;
    table t(f.path());
    const double before = example::cpu_seconds(RUSAGE_SELF);
    const auto begun = steady::now();
    auto next_poll = begun;
    arrivals a(s);
    while (!a.over() || late.count() < a.sent()) {
        t.run("begin");
        a.run([&](const std::string& id, time_point due) { t.insert(id, due); });
        t.run("commit");
        if (steady::now() >= next_poll) {
            next_poll += std::chrono::milliseconds(s.poll_ms);
            t.poll([&](time_point due) { late.record(std::chrono::system_clock::now() - due); });
        }
        poll(nullptr, 0, 2);
    }
    print_lateness(fmt::format("polled every {} ms", s.poll_ms).c_str(), late,
                   cpu_share(before, begun));
    return late;
}

void measure_lateness(const settings& s) {
    const double ours = seconds_of(lateness_of_tvec(s).quantile(0.5));
    const double theirs = seconds_of(lateness_of_polling(s).quantile(0.5));
    fmt::print("lateness, p50 of polling / tvec: {:.0f}\n", theirs / ours);
}

// --- a store of many ----------------------------------------------------------------------------

double recovery(const std::string& path, std::size_t& near) {
    const auto begun = steady::now();
    on_file t(path, [](const delivery&) {});
    while (!t->all().ready()) t->turn();
    near = t->all().now_near().near;
    return seconds_of(steady::now() - begun);
}

void measure_idle(const settings& s, const std::string& path) {
    on_file t(path, [](const delivery&) {});
    while (!t->all().ready()) t->turn();
    const double before = example::cpu_seconds(RUSAGE_SELF);
    const auto begun = steady::now();
    const auto end = begun + std::chrono::seconds(s.seconds);
    while (steady::now() < end) t->turn(500);
    fmt::print("idle, {} stored: {:.3f} % of a core\n", s.stored, 100 * cpu_share(before, begun));
}

// Where they are due, over so many days.
std::uint64_t span_of(const settings& s) {
    return static_cast<std::uint64_t>(duration(24h * s.days).count());
}

void fill_by_puts(const settings& s, const std::string& path) {
    const time_point begin = today() + 10s;
    on_file t(path, [](const delivery&) {});
    t->put(s.stored, 50'000, [&](std::uint64_t n) {
        const auto after = (n * 11400714819323198485ULL) % span_of(s);
        return record{id_of(n, true), begin + duration(after), body};
    });
}

// What the same puts would have made, in a tenth of the time; the index is tighter.
void fill_at_once(const settings& s, const std::string& path) {
    { const sqlite_store made(path); }
    sqlite3* db = nullptr;
    const std::string sql = fmt::format(
        "pragma synchronous = off; pragma cache_size = -200000; drop index by_due; begin;"
        "with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < {})"
        " insert into timer(id, due, body) select cast(printf('%020d', i) as blob),"
        " {} + abs(random() % {}), zeroblob(64) from n; commit;"
        "create index by_due on timer(due, id)",
        s.stored, (today() + 10s).time_since_epoch().count(), span_of(s));
    const bool is_filled = sqlite3_open(path.c_str(), &db) == SQLITE_OK &&
                           sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
    const std::string why = sqlite3_errmsg(db);
    sqlite3_close(db);
    if (!is_filled) throw std::runtime_error(why);
}

void measure_many(const settings& s, bool has_recovery, bool has_idle) {
    const file f(s);
    s.at_once ? fill_at_once(s, f.path()) : fill_by_puts(s, f.path());
    if (has_recovery) {
        fmt::print("recovery, {} stored over {} days: {:.1f} bytes per timer\n", s.stored, s.days,
                   static_cast<double>(f.size()) / static_cast<double>(s.stored));
        for (unsigned i = 0; i < s.repetitions; ++i) {
            std::size_t near = 0;
            const double seconds = recovery(f.path(), near);
            fmt::print("recovery, until {} are in the wheel: {:.1f} ms\n", near, seconds * 1e3);
        }
    }
    if (has_idle) measure_idle(s, f.path());
}

// ------------------------------------------------------------------------------------------------

int run(settings s) {
    if (s.folder.empty()) s.folder = std::filesystem::temp_directory_path().string();
    const auto has = [&](const char* row) { return std::ranges::count(s.rows, row) != 0; };
    for (unsigned i = 0; i < s.repetitions; ++i) {
        if (has("puts")) measure_puts(s);
        if (has("lateness")) measure_lateness(s);
        example::flush_output();
    }
    if (has("recovery") || has("idle")) measure_many(s, has("recovery"), has("idle"));
    return 0;
}

settings parse(int argc, char** argv) {
    settings s;
    example::command_line line{
        "Measures durable timers on an SQLite file beside a table that is written and polled by "
        "hand.\nThe disk decides: say which one by --folder.",
        "durable"};
    line.add_text("--folder", s.folder, "where the files are made, and removed (the system's)");
    line.add_choices("--rows", s.rows, {"puts", "lateness", "recovery", "idle"},
                     "what is measured");
    line.add_number("--puts", s.puts, 1'000, 100'000'000, "puts: how many");
    line.add_number("--rate", s.rate, 1, 1'000'000, "lateness: timers per second");
    line.add_number("--seconds", s.seconds, 1, 3'600, "lateness, idle: how long");
    line.add_number("--poll-ms", s.poll_ms, 1, 10'000, "lateness: how often the table is polled");
    line.add_number("--stored", s.stored, 1, 1'000'000'000, "recovery, idle: how many are stored");
    line.add_flag("--at-once", s.at_once, "recovery, idle: fills the file by one statement");
    line.add_number("--days", s.days, 1, 36'500, "recovery: over how many days they are due");
    line.add_number("--repetitions", s.repetitions, 1, 1'000,
                    "puts, lateness, recovery: how often");
    line.parse_or_exit(argc, argv);
    return s;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("durable", [&] { return run(parse(argc, argv)); });
}
