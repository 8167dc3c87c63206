// Timers in an SQLite file. The hand-written way has a table with an index. All writes are synced.
#pragma once

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../examples/support/descriptors.hpp"
#include "backend.hpp"
#include "load.hpp"
#include "tvec/durable/sqlite_store.hpp"

namespace bench {

class sqlite_table : public by_hand {
public:
    // Users of one file take turns to write: waiting for SQLite's lock would be slower.
    sqlite_table(const std::string& path, std::mutex& turn) : turn_(turn) {
        if (sqlite3_open(path.c_str(), &db_) != SQLITE_OK) fail();
        const std::scoped_lock mine(turn_);
        run("pragma journal_mode = wal; pragma synchronous = full; pragma cache_size = -65536;"
            "create table if not exists"
            " timer(id text primary key, due int not null, body blob) without rowid;"
            "create index if not exists by_due on timer(due)");
        insert_ = prepared("insert into timer values(?, ?, ?) on conflict do nothing");
        due_ = prepared("select id, due, body from timer where due <= ? order by due");
        remove_ = prepared("delete from timer where id = ?");
    }
    ~sqlite_table() override {
        for (sqlite3_stmt* s : {insert_, due_, remove_}) sqlite3_finalize(s);
        sqlite3_close(db_);
    }
    sqlite_table(const sqlite_table&) = delete;
    sqlite_table& operator=(const sqlite_table&) = delete;

    void put(const std::vector<item>& items) override {
        const std::scoped_lock mine(turn_);
        run("begin");
        for (const item& i : items) insert(i);
        run("commit");
    }
    // At least once: it is removed after the handler.
    void poll(const on_due& handle) override {
        std::vector<std::string> ids;
        sqlite3_bind_int64(due_, 1, today().time_since_epoch().count());
        while (sqlite3_step(due_) == SQLITE_ROW) {
            const auto* const id = reinterpret_cast<const char*>(sqlite3_column_text(due_, 0));
            ids.emplace_back(id, static_cast<std::size_t>(sqlite3_column_bytes(due_, 0)));
            handle(time_point(duration(sqlite3_column_int64(due_, 1))));
        }
        sqlite3_reset(due_);
        if (!ids.empty()) remove(ids);
    }

private:
    [[noreturn]] void fail() { throw std::runtime_error(sqlite3_errmsg(db_)); }
    void run(const char* sql) {
        if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail();
    }
    sqlite3_stmt* prepared(const char* sql) {
        sqlite3_stmt* s = nullptr;
        if (sqlite3_prepare_v2(db_, sql, -1, &s, nullptr) != SQLITE_OK) fail();
        return s;
    }
    void insert(const item& i) {
        bind(insert_, i.id);
        sqlite3_bind_int64(insert_, 2, i.due.time_since_epoch().count());
        sqlite3_bind_blob(insert_, 3, body.data(), static_cast<int>(body.size()), SQLITE_STATIC);
        step(insert_);
    }
    void remove(const std::vector<std::string>& ids) {
        const std::scoped_lock mine(turn_);
        run("begin");
        for (const std::string& id : ids) {
            bind(remove_, id);
            step(remove_);
        }
        run("commit");
    }
    static void bind(sqlite3_stmt* s, const std::string& id) {
        sqlite3_bind_text(s, 1, id.data(), static_cast<int>(id.size()), SQLITE_STATIC);
    }
    void step(sqlite3_stmt* s) {
        if (sqlite3_step(s) != SQLITE_DONE) fail();
        sqlite3_reset(s);
    }

    std::mutex& turn_;
    sqlite3* db_ = nullptr;
    sqlite3_stmt *insert_ = nullptr, *due_ = nullptr, *remove_ = nullptr;
};

// Deletes its file when it is destroyed.
class sqlite_file : public backend {
public:
    explicit sqlite_file(const std::string& folder)
        : path_(folder + "/bench-durable-" + std::to_string(getpid()) + ".db") {}
    ~sqlite_file() override { sqlite_file::clear(); }
    sqlite_file(const sqlite_file&) = delete;
    sqlite_file& operator=(const sqlite_file&) = delete;

    std::string name() const override { return "SQLite"; }
    void clear() override {
        for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + end);
    }
    double server_cpu() override { return 0; }
    double bytes() override { return static_cast<double>(std::filesystem::file_size(path_)); }
    // Makes the kernel drop the file's cached pages, once they are on the disk.
    bool forget() override {
        const example::descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
        return fsync(file.get()) == 0 && posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) == 0;
    }
    std::unique_ptr<store> open() override { return std::make_unique<sqlite_store>(path_); }
    std::unique_ptr<by_hand> connect() override {
        return std::make_unique<sqlite_table>(path_, turn_);
    }

private:
    std::string path_;
    std::mutex turn_;
};

}  // namespace bench
