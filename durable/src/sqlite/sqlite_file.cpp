#include "sqlite_file.hpp"

#include <sys/stat.h>

#include <array>
#include <cassert>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

namespace tvec::durable::detail {

namespace {

// The application id in the header of the file: "tvec".
constexpr std::int64_t application_id = 0x74766563;

// The upgrades from each version to the next; an empty file has version 0.
constexpr std::array upgrades{
    "create table timer(id blob primary key, due int not null, body blob not null,"
    " every int not null default 0, attempt int not null default 0,"
    " ended int not null default 0) without rowid;"
    "create index by_due on timer(due, id)",
    "create table dead(id blob primary key, due int not null, body blob not null,"
    " every int not null, attempt int not null, ended int not null) without rowid",
    // A large body has a table of its own, so a claim does not write it anew.
    "alter table timer add column spent int not null default 0;"
    "alter table timer add column counted int not null default 0;"  // 1: `spent` counts the last
                                                                    // attempt
    "alter table timer add column apart int not null default 0;"
    "alter table dead add column spent int not null default 0;"
    "alter table dead add column apart int not null default 0;"
    "create table body(id blob primary key, bytes blob not null) without rowid;"
    "create table mark(needs_log int not null); insert into mark values(0)",
    "alter table timer add column plan blob;"
    "alter table timer add column history blob;"
    "alter table timer add column verdict blob;"
    "alter table dead add column plan blob;"
    "alter table dead add column history blob",
    "-- the same tables, but plans may say `for good`, which version 4 takes for a fault",
    // Histories may note a delay, and version 5 forgets their numbers then.
    "alter table mark add column gone int not null default 0"};  // see later_of
constexpr auto version = static_cast<std::int64_t>(upgrades.size());

// Pages of 4 KiB in the log, above which it is written into the file.
constexpr int longest_log = 4'000;
// A log that became longer beside somebody's transaction is cut to this when it begins anew.
constexpr int longest_file_of_log = longest_log * 4'096;

constexpr const char* gone =
    "the file, or its log (-wal), was removed or replaced while it was open, and nothing is stored "
    "any more: move it back, or end this process before you restore a copy";
constexpr const char* overwritten =
    "the file, or its log (-wal), was overwritten while it was open, as by a copy, and nothing is "
    "stored any more: end this process";
constexpr const char* with_log =
    ", move the log (-wal) away, and restore the copy before you start it again";
constexpr const char* without_log =
    " and start it again. A whole copy is opened as it is, and a file that needs its log is "
    "refused: move ";

// Follows links as SQLite does: the log lies beside the file, and not beside a link to it.
std::string without_links(std::filesystem::path p) {
    for (int links = 0; links < 40 && std::filesystem::is_symlink(p); ++links)
        p = p.parent_path() / std::filesystem::read_symlink(p);
    return std::filesystem::weakly_canonical(std::filesystem::absolute(p)).string();
}

std::uintmax_t size_of(const std::string& path) {
    std::error_code none;
    const auto size = std::filesystem::file_size(path, none);
    return none ? 0 : size;
}

std::string log_of(const std::string& path) { return path + "-wal"; }

void check_options(const sqlite_options& o) {
    if (o.claim_ahead < duration::zero() || o.claim_ahead > std::chrono::hours(1))
        raise(std::errc::invalid_argument, "sqlite_options::claim_ahead is " +
                                               std::to_string(o.claim_ahead.count()) +
                                               " ms: expected is 0 to an hour");
}

// Returns the path of the file. Refuses names that SQLite does not take as paths.
std::string path_of(const std::string& name, const sqlite_options& options) {
    check_options(options);
    if (name.empty()) raise(std::errc::invalid_argument, "the name is empty: a path is expected");
    if (name == ":memory:" || name.starts_with("file:") || name.find('\0') != name.npos)
        raise(std::errc::invalid_argument, "is no path: a file is expected, and no URI or memory");
    std::string path = without_links(name);
    if (size_of(path) == 0 && size_of(log_of(path)) > 0)
        raise(std::errc::no_such_file_or_directory,
              "is missing or empty, but its log (-wal) is there: put the file back, beside that");
    return path;
}

// Waits a millisecond for a transaction of another connection. Gives up after about five seconds.
int wait_for_others(void* /*unused*/, int waits) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return waits < 5'000 ? 1 : 0;
}

// Upgrades the tables. A shared file may hold tables of others from the beginning. Precondition: a
// transaction is open, so no other process does the same.
void upgrade(sqlite3* db, bool is_shared) {
    assert(sqlite3_get_autocommit(db) == 0 && "an upgrade is one transaction");
    const std::int64_t found = number(db, "pragma user_version");
    const std::int64_t application = number(db, "pragma application_id");
    const bool is_new =
        found == 0 &&
        (is_shared ? application == 0 : number(db, "select count(*) from sqlite_schema") == 0);
    if (!is_new && application != application_id)
        raise(std::errc::invalid_argument, "is a database of something else");
    if (found < 0)
        raise(std::errc::invalid_argument, "is damaged: its version is " + std::to_string(found));
    if (found > version)
        raise(std::errc::not_supported, "is of version " + std::to_string(found) +
                                            ", and this program knows " + std::to_string(version));
    for (std::int64_t v = found; v < version; ++v)
        execute(db, upgrades[static_cast<std::size_t>(v)]);
    if (found == version) return;
    execute(db, "pragma application_id = " + std::to_string(application_id));
    execute(db, "pragma user_version = " + std::to_string(version));
}

void check_log(sqlite3* db, bool has_log) {
    if (!has_log && number(db, "select max(needs_log) from mark") != 0)
        raise(std::errc::no_such_file_or_directory,
              "was not closed, and its log (-wal) is missing or empty: put back the log of the "
              "same moment. To go on without what was in it: sqlite3 FILE 'update mark set "
              "needs_log = 0'");
}

// Refuses what the schema of a file could do to its reader: it may have been made by somebody else.
// The tables of timers need no trigger, no view, and no function that has effects.
void distrust_schema(sqlite3* db) {
    detail::require(db, sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr));
    detail::require(db, sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr));
    detail::require(db, sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr));
    detail::require(db, sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr));
}

// Checks all pages, which reads the whole file.
void check_pages(sqlite3* db) {
    statement s(db, "pragma integrity_check(1)");
    const std::string found = s.first() ? s.bytes(0) : "nothing was answered";
    if (found != "ok") raise(std::errc::io_error, "is damaged: " + found);
}

}  // namespace

sqlite_file::sqlite_file(const std::string& name, const sqlite_options& options)
    : path_(path_of(name, options)), log_path_(log_of(path_)), is_shared_(options.shares_file),
      lock_(path_, is_shared_), seen_(is_shared_) {
    const bool has_log = size_of(log_of(path_)) > 0;
    sqlite3* raw = nullptr;
    // One thread at a time uses the connection, so SQLite need not lock.
    constexpr int how = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    const int code = sqlite3_open_v2(path_.c_str(), &raw, how, nullptr);
    db_.reset(raw);
    require(raw, code);
    sqlite3_extended_result_codes(raw, 1);
    distrust_schema(raw);
    if (is_shared_)
        sqlite3_busy_handler(raw, wait_for_others, nullptr);
    else
        execute(raw, "pragma locking_mode = exclusive");
    execute(raw, "begin immediate");
    upgrade(raw, is_shared_);
    check_log(raw, has_log);
    execute(raw, "commit");
    if (options.checks_file) check_pages(raw);
    // Removed bodies are overwritten where that costs no extra writes.
    execute(raw, std::string("pragma journal_mode = wal; pragma secure_delete = fast;"
                             "pragma cache_size = -65536; pragma synchronous = ") +
                     (options.survives_power_cut ? "full" : "normal") +
                     "; pragma journal_size_limit = " + std::to_string(longest_file_of_log));
    const auto count_frames = [](void* log, sqlite3*, const char*, int n) {
        *static_cast<log_state*>(log) = {n, true};
        return SQLITE_OK;
    };
    sqlite3_wal_hook(raw, count_frames, &log_);  // replaces the checkpoints of SQLite
    mark_anew(has_log);
    note_file();
}

// Sets the mark for this opening. A full disk does not prevent it: then the loss of the log would
// go unnoticed.
void sqlite_file::mark_anew(bool has_log) {
    try {
        if (has_log)
            mark(false);
        else
            write_log_into_file();
    } catch (const sqlite_failure&) {  // the mark stays as it was
    }
}

sqlite_file::~sqlite_file() {
    int yes = 1;
    if (db_ && !end_log()) sqlite3_file_control(db_.get(), nullptr, SQLITE_FCNTL_PERSIST_WAL, &yes);
}

// Returns true if SQLite may write the log into the file and remove it. It may not if the mark
// cannot say that the file is whole without its log, and if the log of that name may be of another
// file. A file that was moved gets what is in its log, which is empty then: SQLite would read it as
// that of the file which is in its place. One that was overwritten stays as it is.
bool sqlite_file::end_log() noexcept {
    const bool is_whole = fault() == nullptr;
    if (!overwritten_.empty()) {
        sqlite3_db_config(db_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
        return false;
    }
    try {
        mark(false);
        if (!is_whole)
            require(db_.get(),
                    sqlite3_wal_checkpoint_v2(db_.get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE,
                                              nullptr, nullptr));
    } catch (const sqlite_failure&) {
        return false;
    }
    return is_whole;
}

const char* sqlite_file::fault() noexcept {
    if (!overwritten_.empty()) return overwritten_.c_str();
    const auto both = find_both();
    if (!both) return gone;
    if (seen_.is_as_left(db_.get(), both->file, both->log.st_size, log_)) return nullptr;
    const std::string aside = is_shared_ || both->file.st_size == 0 ? "" : set_log_aside();
    overwritten_ = overwritten + (aside.empty() ? with_log : without_log + aside + " back to -wal");
    return overwritten_.c_str();
}

// Returns nothing if the file or its log is not in place. Notes the log once it is there.
std::optional<sqlite_file::file_and_log> sqlite_file::find_both() noexcept {
    file_and_log both;
    if (stat(path_.c_str(), &both.file) != 0 || !lock_.is_of(both.file)) return std::nullopt;
    const bool has_log = stat(log_path_.c_str(), &both.log) == 0;
    const std::pair found(both.log.st_dev, both.log.st_ino);
    if (has_log && !log_file_) log_file_ = found;
    if (log_file_ && (!has_log || found != *log_file_)) return std::nullopt;
    return both;
}

void sqlite_file::note_file() noexcept {
    const auto both = find_both();
    if (!both) return;
    seen_.note_file(db_.get(), both->file);
    seen_.note_log(db_.get(), both->log.st_size, log_);
}

void sqlite_file::note_log() noexcept {
    if (const auto both = find_both()) seen_.note_log(db_.get(), both->log.st_size, log_);
}

// Gives the log another name, and returns that, or "" if it fails. The next opening would take the
// log for that of the copy, and put pages of both into the file. It stays beside an empty file,
// which is refused for that. A log that was set aside before is kept: it may be all that is left.
std::string sqlite_file::set_log_aside() noexcept {
    std::string aside = log_path_ + ".old";
    struct stat there;
    for (int n = 2; lstat(aside.c_str(), &there) == 0; ++n)
        aside = log_path_ + ".old." + std::to_string(n);
    return std::rename(log_path_.c_str(), aside.c_str()) == 0 ? aside : "";
}

void sqlite_file::tend_log() {
    if (log_.frames >= longest_log) write_log_into_file();
}

// The mark reaches the file with the rest, once the log is safe. The log takes it back at once.
void sqlite_file::write_log_into_file() {
    mark(true);
    const int code =
        sqlite3_wal_checkpoint_v2(db_.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
    note_file();  // a part of it may be written
    require(db_.get(), code);
    mark(false);
}

void sqlite_file::mark(bool needs_log) {
    const std::string to = needs_log && !is_shared_ ? "1" : "0";
    execute(db_.get(), "update mark set needs_log = " + to + " where needs_log <> " + to);
}

void sqlite_file::leave() noexcept {
    static_cast<void>(db_.release());
    lock_.leave();
}

}  // namespace tvec::durable::detail
