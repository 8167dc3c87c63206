#include "tvec/durable/sqlite_transactions.hpp"

#include <cstddef>
#include <deque>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "../engine/options.hpp"
#include "change_box.hpp"
#include "sqlite_database.hpp"

namespace tvec::durable {

namespace {

// Changes of one transaction that the store is told of.
constexpr std::size_t most_told = 100'000;
// Pages in the log that begin a checkpoint: the default of SQLite.
constexpr int longest_log = 1'000;

[[noreturn]] void fail(const detail::sqlite_failure& e) {
    throw std::system_error(e.code(), "sqlite_transactions: " + e.why);
}

void require_no(refusal fault) {
    if (fault == refusal::none) return;
    throw std::invalid_argument(std::string("sqlite_transactions: ") + to_text(fault));
}

}  // namespace

struct sqlite_transactions::inner {
    inner(sqlite3* connection, std::shared_ptr<detail::change_box> box)
        : db(connection), changes(std::move(box)), begin(db, "savepoint tvec_durable"),
          end(db, "release tvec_durable"),
          timers(detail::database_in(db, duration::zero(), [](const std::string&) {})) {
        sqlite3_wal_hook(db, on_commit, this);
    }
    ~inner() { sqlite3_wal_autocheckpoint(db, longest_log); }
    inner(const inner&) = delete;
    inner& operator=(const inner&) = delete;

    // Performs an operation, all of it or nothing.
    template <class Operation> auto perform(const Operation& o) {
        if (sqlite3_get_autocommit(db) != 0)
            throw std::logic_error("sqlite_transactions: no transaction is open: begin one");
        try {
            begin.run();
            auto result = timers->perform(o);
            end.run();
            return result;
        } catch (const detail::sqlite_failure& e) {
            undo();
            fail(e);
        }
    }

    // The store is told of the change after the commit. If the change is rolled back, the store
    // looks at the timer after another one, and finds it as it is.
    void note(std::string id) {
        if (told_next.size() >= most_told) told_next.pop_front();
        told_next.push_back(std::move(id));
    }

    // A no-op if SQLite has rolled back the transaction already.
    void undo() noexcept {
        constexpr const char* back = "rollback to tvec_durable; release tvec_durable";
        sqlite3_exec(db, back, nullptr, nullptr, nullptr);
    }

    static int on_commit(void* self, sqlite3* db, const char* name, int pages) noexcept {
        inner& i = *static_cast<inner*>(self);
        try {
            if (!i.told_next.empty()) i.changes->add(std::exchange(i.told_next, {}));
        } catch (const std::bad_alloc&) {  // the sweep of the engine finds them
        }
        if (pages >= longest_log)
            sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
        return SQLITE_OK;
    }

    sqlite3* db;
    std::shared_ptr<detail::change_box> changes;
    detail::statement begin, end;
    std::unique_ptr<detail::database> timers;
    std::deque<std::string> told_next;
};

sqlite_transactions::sqlite_transactions(sqlite3* db, const sqlite_store& store) {
    if (!store.changes_)
        throw std::logic_error("sqlite_transactions: the store keeps its file for itself: open it "
                               "with sqlite_options::shares_file");
    const char* const file = sqlite3_db_filename(db, "main");
    std::error_code is_none;
    if (file == nullptr || !std::filesystem::equivalent(file, store.path(), is_none))
        throw std::invalid_argument("sqlite_transactions: the main database of the connection is "
                                    "not the file of the store, " +
                                    store.path());
    try {
        inner_ = std::make_unique<inner>(db, store.changes_);
    } catch (const detail::sqlite_failure& e) {
        fail(e);
    }
}

sqlite_transactions::~sqlite_transactions() = default;

put_result sqlite_transactions::put(record timer, existing how) {
    require_no(detail::fault_of(timer));
    std::string id = timer.id;
    std::vector<record> one;
    one.push_back(std::move(timer));
    const auto results = inner_->perform(operations::put{std::move(one), how});
    if (results.front() == put_result::stored) inner_->note(std::move(id));
    return results.front();
}

cancel_result sqlite_transactions::cancel(const std::string& id) {
    require_no(detail::fault_of_id(id));
    return inner_->perform(operations::cancel{id});
}

touch_result sqlite_transactions::touch(const std::string& id, time_point due) {
    require_no(detail::fault_of(record{id, due}));
    const touch_result result = inner_->perform(operations::touch{id, due});
    if (result == touch_result::touched) inner_->note(id);
    return result;
}

}  // namespace tvec::durable
