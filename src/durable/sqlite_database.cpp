#include "sqlite_database.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include "wall_clock.hpp"

namespace tvec::durable {

namespace detail {

namespace {

// "tvec", in the header of the file.
constexpr std::int64_t application_id = 0x74766563;

// What makes a file of one version a file of the next; an empty file has version 0.
constexpr std::array upgrades{
    "create table timer(id blob primary key, due int not null, body blob not null,"
    " every int not null default 0, attempt int not null default 0,"
    " ended int not null default 0) without rowid;"
    "create index by_due on timer(due, id)",
    "create table dead(id blob primary key, due int not null, body blob not null,"
    " every int not null, attempt int not null, ended int not null) without rowid"};
constexpr auto version = static_cast<std::int64_t>(upgrades.size());

std::errc error_of(int code) {
    switch (code & 0xff) {
    case SQLITE_FULL:
        return std::errc::no_space_on_device;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return std::errc::device_or_resource_busy;
    case SQLITE_NOTADB:
        return std::errc::invalid_argument;
    case SQLITE_NOMEM:
        return std::errc::not_enough_memory;
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return std::errc::permission_denied;
    case SQLITE_CANTOPEN:
        return std::errc::no_such_file_or_directory;
    default:
        return std::errc::io_error;
    }
}

[[noreturn]] void raise(std::errc error, const std::string& why, int code = 0) {
    throw sqlite_failure(std::make_error_code(error), why, code);
}

void require(sqlite3* db, int code) {
    if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
    raise(error_of(code), db ? sqlite3_errmsg(db) : sqlite3_errstr(code), code);
}

void execute(sqlite3* db, const std::string& sql) {
    require(db, sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr));
}

std::int64_t number(sqlite3* db, const char* sql) {
    statement s(db, sql);
    return s.first() ? s.integer(0) : 0;
}

// In a transaction, so that nobody else does the same.
void upgrade(sqlite3* db) {
    const std::int64_t found = number(db, "pragma user_version");
    const bool is_new = found == 0 && number(db, "select count(*) from sqlite_schema") == 0;
    if (!is_new && number(db, "pragma application_id") != application_id)
        raise(std::errc::invalid_argument, "is a database of something else");
    if (found > version)
        raise(std::errc::not_supported, "is of version " + std::to_string(found) +
                                            ", and this program knows " + std::to_string(version));
    for (std::int64_t v = found; v < version; ++v)
        execute(db, upgrades[static_cast<std::size_t>(v)]);
    if (found == version) return;
    execute(db, "pragma application_id = " + std::to_string(application_id));
    execute(db, "pragma user_version = " + std::to_string(version));
}

connection open(const std::string& path, const char* synchronous) try {
    sqlite3* raw = nullptr;
    const int code = sqlite3_open(path.c_str(), &raw);
    connection db(raw);
    if (code == SQLITE_CANTOPEN)
        raise(static_cast<std::errc>(sqlite3_system_errno(raw)), "cannot be opened");
    require(raw, code);
    sqlite3_extended_result_codes(raw, 1);
    execute(raw, "pragma locking_mode = exclusive");
    execute(raw, "begin immediate");
    upgrade(raw);
    execute(raw, "commit");
    execute(raw, std::string("pragma journal_mode = wal; pragma synchronous = ") + synchronous +
                     "; pragma cache_size = -65536; pragma wal_autocheckpoint = 4000");
    return db;
} catch (const sqlite_failure& e) {
    throw std::system_error(e.code(), "sqlite_store: " + path + ": " + e.why);
}

// Of a file that somebody else has written into: at least what can be computed with.
time_point time_of(std::int64_t ms) {
    return std::clamp(time_point(duration(ms)), earliest_due, latest_due);
}

stored_timer timer_of(const statement& s) {
    stored_timer t;
    t.id = s.bytes(0);
    t.due = time_of(s.integer(1));
    t.body = s.bytes(2);
    t.every = std::clamp(duration(s.integer(3)), duration::zero(), latest_due - earliest_due);
    t.attempt = static_cast<std::uint32_t>(s.integer(4));
    t.ended = static_cast<std::uint32_t>(s.integer(5));
    return t;
}

}  // namespace

statement::statement(sqlite3* db, const char* sql) {
    sqlite3_stmt* raw = nullptr;
    require(db, sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &raw, nullptr));
    handle_.reset(raw);
}

bool statement::next() {
    const int code = sqlite3_step(handle_.get());
    if (code == SQLITE_ROW) return true;
    sqlite3* const db = sqlite3_db_handle(handle_.get());
    sqlite3_reset(handle_.get());
    require(db, code);
    return false;
}

std::int64_t statement::integer(int column) const {
    return sqlite3_column_int64(handle_.get(), column);
}

std::string statement::bytes(int column) const {
    const auto* const begin = static_cast<const char*>(sqlite3_column_blob(handle_.get(), column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column));
    return begin ? std::string(begin, size) : std::string();
}

void statement::bind(int at, std::int64_t value) {
    require(sqlite3_db_handle(handle_.get()), sqlite3_bind_int64(handle_.get(), at, value));
}

void statement::bind(int at, std::string_view value) {
    const char* const begin = value.empty() ? "" : value.data();  // a null pointer would be NULL
    require(sqlite3_db_handle(handle_.get()),
            sqlite3_bind_blob64(handle_.get(), at, begin, value.size(), SQLITE_STATIC));
}

}  // namespace detail

sqlite_database::sqlite_database(const std::string& path, const char* synchronous,
                                 duration claim_ahead)
    : claim_ahead_(claim_ahead), db_(detail::open(path, synchronous)),
      begin_(prepared("begin immediate")), commit_(prepared("commit")),
      keep_(prepared("insert into timer(id, due, body, every) values(?, ?, ?, ?)"
                     " on conflict do nothing")),
      // What is being delivered of the old one must not end the new one.
      replace_(prepared("insert into timer(id, due, body, every) values(?, ?, ?, ?)"
                        " on conflict do update set due = excluded.due, body = excluded.body,"
                        " every = excluded.every, attempt = attempt + 1, ended = attempt + 1")),
      remove_(prepared("delete from timer where id = ? returning attempt <> ended")),
      remove_dead_(prepared("delete from dead where id = ?")),
      finish_(prepared("delete from timer where id = ? and attempt = ? and ended < attempt"
                       " and every <= 0")),
      postpone_(prepared("update timer set due = ?2, ended = attempt where id = ?1"
                         " and attempt = ?3 and ended < attempt")),
      find_(prepared("select id, due, body, every, attempt, ended from timer where id = ?")),
      list_(prepared("select id, due, body, every, attempt, ended from timer"
                     " where (due, id) > (?, ?) order by due, id limit ?")),
      list_dead_(prepared("select id, due, body, every, attempt, ended from dead"
                          " where (due, id) > (?, ?) order by due, id limit ?")),
      count_(prepared("select (select count(*) from timer), (select count(*) from dead)")),
      take_(prepared("select due, id from timer where (due, id) > (?, ?) and due <= ?"
                     " order by due, id limit ?")),
      claim_(prepared("update timer set attempt = attempt + 1 where id = ?1 and due <= ?2"
                      " and (?3 = 0 or attempt - ended < ?3)"
                      " returning id, due, body, every, attempt, ended")),
      bury_(prepared("insert or replace into dead select id, due, body, every, attempt, ended"
                     " from timer where id = ?")),
      is_dead_(prepared("select 1 from dead where id = ?")),
      revive_(prepared("insert into timer select id, ?2, body, every, attempt, attempt from dead"
                       " where id = ?1 on conflict do nothing")) {}

void sqlite_database::roll_back() noexcept {
    if (sqlite3_get_autocommit(db_.get()) == 0)
        sqlite3_exec(db_.get(), "rollback", nullptr, nullptr, nullptr);
}

std::vector<put_result> sqlite_database::put(const std::vector<record>& timers, existing how) {
    std::vector<put_result> results;
    results.reserve(timers.size());
    for (const record& r : timers) results.push_back(put(r, how));
    return results;
}

put_result sqlite_database::put(const record& r, existing how) {
    detail::statement& s = how == existing::keep ? keep_ : replace_;
    return s.run(r.id, r.due, r.body, r.every) == 1 ? put_result::stored
                                                    : put_result::there_already;
}

cancel_result sqlite_database::cancel(const std::string& id) {
    if (remove_.first(id)) {
        const bool has_begun = remove_.integer(0) != 0;
        remove_.next();
        return has_begun ? cancel_result::had_begun : cancel_result::cancelled;
    }
    return remove_dead_.run(id) == 1 ? cancel_result::had_begun : cancel_result::unknown_id;
}

std::vector<end_reply> sqlite_database::end(const std::vector<ending>& endings) {
    const time_point now = detail::today();
    std::vector<end_reply> replies;
    replies.reserve(endings.size());
    for (const ending& e : endings) replies.push_back(end(e, now));
    return replies;
}

end_reply sqlite_database::end(const ending& e, time_point now) {
    const std::int64_t attempt = e.which.attempt;
    if (!e.again && !e.returned && finish_.run(e.which.id, attempt) == 1) return {true, {}};
    const auto timer = e.again ? std::nullopt : find(e.which.id);
    if (!e.again && (!timer || (!e.returned && timer->every == duration::zero()))) return {};
    const time_point next = e.again      ? *e.again
                            : e.returned ? timer->due
                                         : next_beat(timer->due, timer->every, now);
    if (postpone_.run(e.which.id, next, attempt) == 0) return {};
    return {true, next};
}

std::optional<stored_timer> sqlite_database::find(const std::string& id) {
    if (!find_.first(id)) return std::nullopt;
    std::optional<stored_timer> found(detail::timer_of(find_));
    find_.next();
    return found;
}

std::vector<stored_timer> sqlite_database::list(which set, const place& after, std::size_t limit) {
    detail::statement& s = set == which::dead ? list_dead_ : list_;
    std::vector<stored_timer> page;
    const auto most = static_cast<std::int64_t>(std::min<std::size_t>(limit, INT32_MAX));
    for (bool is = s.first(after.due, after.id, most); is; is = s.next())
        page.push_back(detail::timer_of(s));
    return page;
}

totals sqlite_database::count() {
    count_.first();
    const totals all{static_cast<std::uint64_t>(count_.integer(0)),
                     static_cast<std::uint64_t>(count_.integer(1))};
    count_.next();
    return all;
}

revive_result sqlite_database::revive(const std::string& id, time_point due) {
    const bool is_dead = is_dead_.first(id);
    if (!is_dead) return revive_result::unknown_id;
    is_dead_.next();
    if (revive_.run(id, due) == 0) return revive_result::unknown_id;
    remove_dead_.run(id);
    return revive_result::put_back;
}

std::optional<std::vector<place>> sqlite_database::take(unsigned, epoch, const place& after,
                                                        time_point until, std::size_t limit) {
    std::vector<place> got;
    const auto most = static_cast<std::int64_t>(limit);
    for (bool is = take_.first(after.due, after.id, until, most); is; is = take_.next())
        got.push_back({detail::time_of(take_.integer(0)), take_.bytes(1)});
    return got;
}

std::optional<std::vector<claimed>> sqlite_database::claim(unsigned, epoch,
                                                           const claim_terms& terms,
                                                           const std::vector<std::string>& ids) {
    const time_point until = detail::today() + claim_ahead_;
    std::vector<claimed> all;
    all.reserve(ids.size());
    for (const std::string& id : ids) all.push_back(claim(terms, until, id));
    return all;
}

claimed sqlite_database::claim(const claim_terms& terms, time_point until, const std::string& id) {
    if (claim_.first(id, until, std::int64_t{terms.attempts})) {
        claimed granted{claimed::kind::granted, detail::timer_of(claim_)};
        claim_.next();
        return granted;
    }
    auto timer = find(id);
    if (!timer) return {};
    if (timer->due > until) return {claimed::kind::early, std::move(*timer)};
    bury_.run(id);
    remove_.run(id);
    return {claimed::kind::dead, std::move(*timer)};
}

}  // namespace tvec::durable
