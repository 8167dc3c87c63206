// Connections and statements of SQLite. A failure throws sqlite_failure.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

// An error of SQLite: its text, and the nearest error code.
struct sqlite_failure : std::system_error {
    sqlite_failure(std::error_code code, std::string words, int of_sqlite = 0)
        : std::system_error(code, words), why(std::move(words)), extended_code(of_sqlite) {}
    std::string why;
    int extended_code;
};
[[noreturn]] void raise(std::errc error, const std::string& why);
// Throws if a result of SQLite is an error.
void require(sqlite3* db, int code);

// Ends a statement or a connection.
struct finalizer {
    void operator()(sqlite3_stmt* s) const noexcept { sqlite3_finalize(s); }
    void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
};
using connection = std::unique_ptr<sqlite3, finalizer>;

// Bytes that are bound as NULL if there are none, which costs the least in a row.
struct bytes_or_null {
    std::string_view bytes;
};

// A prepared statement.
class statement {
public:
    statement(sqlite3* db, const char* sql);

    // Binds the arguments in order, and moves to the first row. Returns true if there is one.
    template <class... Arguments> bool first(const Arguments&... arguments) {
        sqlite3_reset(handle_.get());
        int at = 0;
        (bind(++at, arguments), ...);
        return next();
    }
    bool next();
    // Runs the statement to its end. Returns the number of rows that it has changed.
    template <class... Arguments> int run(const Arguments&... arguments) {
        for (bool is_row = first(arguments...); is_row; is_row = next()) continue;
        return sqlite3_changes(sqlite3_db_handle(handle_.get()));
    }
    // Ends the statement at a row. The arguments may go then.
    void reset() noexcept { sqlite3_reset(handle_.get()); }

    // Return a column of the row.
    std::int64_t integer(int column) const;
    std::string bytes(int column) const;  // "" if it is NULL
    bool is_null(int column) const;

private:
    void bind(int at, std::int64_t value);
    void bind(int at, std::string_view value);  // must live until the next reset
    void bind(int at, bytes_or_null value);
    void bind(int at, time_point t) { bind(at, std::int64_t{t.time_since_epoch().count()}); }
    void bind(int at, duration d) { bind(at, std::int64_t{d.count()}); }

    std::unique_ptr<sqlite3_stmt, finalizer> handle_;
};

// Runs statements without arguments.
void execute(sqlite3* db, const std::string& sql);
// Returns the first column of the first row, or 0.
std::int64_t number(sqlite3* db, const char* sql);

}  // namespace tvec::durable::detail
