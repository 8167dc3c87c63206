#include "sqlite_file.hpp"

#include <array>
#include <filesystem>

namespace tvec::durable::detail {

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
    " every int not null, attempt int not null, ended int not null) without rowid",
    // A large body is apart, so that a claim does not write it anew.
    "alter table timer add column spent int not null default 0;"
    "alter table timer add column apart int not null default 0;"
    "alter table dead add column spent int not null default 0;"
    "alter table dead add column apart int not null default 0;"
    "create table body(id blob primary key, bytes blob not null) without rowid;"
    "create table mark(needs_log int not null); insert into mark values(0)"};
constexpr auto version = static_cast<std::int64_t>(upgrades.size());

// As SQLite follows them.
std::string without_links(std::filesystem::path p) {
    for (int links = 0; links < 40 && std::filesystem::is_symlink(p); ++links)
        p = p.parent_path() / std::filesystem::read_symlink(p);
    return std::filesystem::weakly_canonical(std::filesystem::absolute(p)).string();
}

// Returns the path of the file.
std::string path_of(const std::string& name) { return without_links(name); }

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

}  // namespace

sqlite_file::sqlite_file(const std::string& name, const sqlite_options& options)
    : path_(path_of(name)), lock_(path_) {
    sqlite3* raw = nullptr;
    // One thread at a time uses it: SQLite need not lock.
    constexpr int how = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    const int code = sqlite3_open_v2(path_.c_str(), &raw, how, nullptr);
    db_.reset(raw);
    require(raw, code);
    sqlite3_extended_result_codes(raw, 1);
    execute(raw, "pragma locking_mode = exclusive");
    execute(raw, "begin immediate");
    upgrade(raw);
    execute(raw, "commit");
    // Removed bodies are overwritten where that costs no writing.
    execute(
        raw,
        std::string(
            "pragma journal_mode = wal; pragma secure_delete = fast;"
            "pragma cache_size = -65536; pragma wal_autocheckpoint = 4000; pragma synchronous = ") +
            (options.survives_power_cut ? "full" : "normal"));
}

}  // namespace tvec::durable::detail
