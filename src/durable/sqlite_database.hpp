// The timers of one SQLite file: each operation of the store, done at once, within a transaction.
#pragma once

#include <sqlite3.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "job.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable {

namespace detail {

// What SQLite says, and the error that is nearest to it.
struct sqlite_failure : std::system_error {
    sqlite_failure(std::error_code code, std::string words, int of_sqlite = 0)
        : std::system_error(code, words), why(std::move(words)), extended_code(of_sqlite) {}
    std::string why;
    int extended_code;
};

// Ends the statement and the connection.
struct finalizer {
    void operator()(sqlite3_stmt* s) const noexcept { sqlite3_finalize(s); }
    void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
};
using connection = std::unique_ptr<sqlite3, finalizer>;

// A prepared statement. What fails throws sqlite_failure.
class statement {
public:
    statement(sqlite3* db, const char* sql);

    // Binds the arguments in order, and goes to the first row. Returns whether there is one.
    template <class... Arguments> bool first(const Arguments&... arguments) {
        sqlite3_reset(handle_.get());
        int at = 0;
        (bind(++at, arguments), ...);
        return next();
    }
    bool next();
    // Runs it to its end. Returns how many rows it has changed.
    template <class... Arguments> int run(const Arguments&... arguments) {
        for (bool is_row = first(arguments...); is_row; is_row = next()) continue;
        return sqlite3_changes(sqlite3_db_handle(handle_.get()));
    }

    // Columns of the row.
    std::int64_t integer(int column) const;
    std::string bytes(int column) const;

private:
    void bind(int at, std::int64_t value);
    void bind(int at, std::string_view value);  // which must live until the next reset
    void bind(int at, time_point t) { bind(at, std::int64_t{t.time_since_epoch().count()}); }
    void bind(int at, duration d) { bind(at, std::int64_t{d.count()}); }

    std::unique_ptr<sqlite3_stmt, finalizer> handle_;
};

}  // namespace detail

// Nobody shares it: shards are always ours, by the wall clock.
class sqlite_database final : public detail::database {
public:
    // Opens the file, or makes it. `synchronous` as SQLite knows it. Throws std::system_error.
    sqlite_database(const std::string& path, const char* synchronous, duration claim_ahead);

    void begin() { begin_.run(); }
    void commit() { commit_.run(); }
    void roll_back() noexcept;

    std::vector<put_result> put(const std::vector<record>& timers, existing how) override;
    cancel_result cancel(const std::string& id) override;
    std::vector<end_reply> end(const std::vector<ending>& endings) override;
    std::optional<stored_timer> find(const std::string& id) override;
    std::vector<stored_timer> list(which set, const place& after, std::size_t limit) override;
    totals count() override;
    revive_result revive(const std::string& id, time_point due) override;
    std::size_t join(duration) override { return 1; }
    epoch own(unsigned, duration) override { return 1; }
    void release(unsigned, epoch) override {}
    std::optional<std::vector<place>> take(unsigned, epoch, const place& after, time_point until,
                                           std::size_t limit) override;
    std::optional<std::vector<claimed>> claim(unsigned, epoch, const claim_terms& terms,
                                              const std::vector<std::string>& ids) override;
    std::optional<bool> spend(unsigned, epoch, const token&) override { return true; }

private:
    put_result put(const record& r, existing how);
    end_reply end(const ending& e, time_point now);
    claimed claim(const claim_terms& terms, time_point until, const std::string& id);
    detail::statement prepared(const char* sql) { return {db_.get(), sql}; }

    duration claim_ahead_;
    detail::connection db_;
    detail::statement begin_, commit_, keep_, replace_, remove_, remove_dead_, finish_, postpone_,
        find_, list_, list_dead_, count_, take_, claim_, bury_, is_dead_, revive_;
};

}  // namespace tvec::durable
