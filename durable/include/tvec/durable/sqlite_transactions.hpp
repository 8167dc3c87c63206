/// \file
/// Timers in the transactions of a program's own connection to an SQLite file.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <memory>
#include <string>

#include "tvec/core/detail/export.hpp"
#include "tvec/durable/sqlite_store.hpp"
#include "tvec/durable/store.hpp"

struct sqlite3;

namespace tvec::durable {

/// Puts, cancels and touches timers in transactions of the program. Its tables are in the file of
/// the store, and the store was opened with sqlite_options::shares_file:
///
///     tvec::durable::sqlite_store store("orders.db", {.shares_file = true});
///     sqlite3_open("orders.db", &db);
///     sqlite3_busy_timeout(db, 5'000);                // the store writes into the file as well
///     tvec::durable::sqlite_transactions timers(db, store);
///
///     execute(db, "begin immediate");
///     execute(db, "insert into orders ...");
///     timers.put({.id = "17", .due = due}, existing::keep);
///     execute(db, "commit");
///
/// The timer exists if and only if the transaction commits, and is not delivered before. A commit
/// wakes the store. If it cannot, because the WAL hook of the connection was replaced, the timer is
/// late by about options::sweep. All but the last 100 000 changes of one transaction may be, too.
///
/// **Errors.** A call throws std::system_error if SQLite could not do it: then the call has changed
/// nothing, and the transaction is still open, unless SQLite has ended it (sqlite3_get_autocommit).
/// It throws std::invalid_argument if the timer is beyond the limits of `store.hpp`, and
/// std::logic_error if no transaction is open.
///
/// **Transactions.** Begin them with `begin immediate`: one that reads first fails if the store has
/// written meanwhile. While a transaction that has written is open, the store waits: its answers
/// and deliveries come later. After about five seconds its answers are `failed`, and it tries
/// claims and ends again. The sync at the commit is up to the connection: the default of `pragma
/// synchronous` survives a power cut.
///
/// **Threads.** The object is used by one thread at a time, that of its connection. It may be
/// another thread than that of the store. The store may be destroyed first: timers are then
/// delivered once the file is opened again.
class TVEC_API sqlite_transactions {
public:
    /// Prepares the statements. Takes over the WAL hook of the connection (sqlite3_wal_hook), and
    /// checkpoints as the default hook does. Throws std::invalid_argument if the main database of
    /// `db` is not the file of the store, std::logic_error if the store does not share its file,
    /// and std::system_error if SQLite fails. An attached file will not do: SQLite commits one file
    /// after the other, so a crash may keep the one and lose the other.
    sqlite_transactions(sqlite3* db, const sqlite_store& store);

    /// Gives the connection the default WAL hook. Call it before the connection is closed.
    ~sqlite_transactions();
    sqlite_transactions(const sqlite_transactions&) = delete;
    sqlite_transactions& operator=(const sqlite_transactions&) = delete;

    /// Puts a timer, as `timers::put` does. Returns `stored`, `there_already` or `dead`. Takes a
    /// few microseconds. The deadline must not be by_plan. A plan is read when it is applied.
    put_result put(record timer, existing how);

    /// Removes a timer, as `timers::cancel` does. Returns `cancelled`, `had_begun` or `unknown_id`.
    /// `had_begun` includes a timer that the store has claimed ahead of its deadline: it may come.
    cancel_result cancel(const std::string& id);

    /// Gives a timer a new deadline. Returns `touched` or `unknown_id`.
    touch_result touch(const std::string& id, time_point due);

private:
    struct inner;

    std::unique_ptr<inner> inner_;
};

}  // namespace tvec::durable
