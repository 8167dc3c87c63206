#include "sqlite_statement.hpp"

#include <cassert>

namespace tvec::durable::detail {

namespace {

// Returns the error of the system call that failed, or 0 if none did.
int system_error_of(sqlite3* db, int code) {
    const int kind = code & 0xff;
    const bool is_of_the_system = kind == SQLITE_CANTOPEN || kind == SQLITE_IOERR;
    return is_of_the_system ? sqlite3_system_errno(db) : 0;
}

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

}  // namespace

void raise(std::errc error, const std::string& why) {
    throw sqlite_failure(std::make_error_code(error), why);
}

void require(sqlite3* db, int code) {
    if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
    const int system = system_error_of(db, code);
    const std::errc error = system != 0 ? static_cast<std::errc>(system) : error_of(code);
    throw sqlite_failure(std::make_error_code(error),
                         db ? sqlite3_errmsg(db) : sqlite3_errstr(code), code);
}

statement::statement(sqlite3* db, const char* sql) {
    sqlite3_stmt* raw = nullptr;
    require(db, sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &raw, nullptr));
    handle_.reset(raw);
}

bool statement::next() {
    assert(handle_ && "a statement is prepared once");
    const int code = sqlite3_step(handle_.get());
    if (code == SQLITE_ROW) return true;
    sqlite3* const db = sqlite3_db_handle(handle_.get());
    sqlite3_reset(handle_.get());
    require(db, code);
    return false;
}

std::int64_t statement::integer(int column) const {
    assert(column < sqlite3_data_count(handle_.get()) && "there is a row with that column");
    return sqlite3_column_int64(handle_.get(), column);
}

std::string statement::bytes(int column) const {
    assert(column < sqlite3_data_count(handle_.get()) && "there is a row with that column");
    const auto* const begin = static_cast<const char*>(sqlite3_column_blob(handle_.get(), column));
    if (begin == nullptr) return {};
    return {begin, static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column))};
}

bool statement::is_null(int column) const {
    return sqlite3_column_type(handle_.get(), column) == SQLITE_NULL;
}

void statement::bind(int at, std::int64_t value) {
    require(sqlite3_db_handle(handle_.get()), sqlite3_bind_int64(handle_.get(), at, value));
}

void statement::bind(int at, std::string_view value) {
    const char* const begin =
        value.empty() ? "" : value.data();  // SQLite takes a null pointer as NULL
    require(sqlite3_db_handle(handle_.get()),
            sqlite3_bind_blob64(handle_.get(), at, begin, value.size(), SQLITE_STATIC));
}

void statement::bind(int at, bytes_or_null value) {
    if (!value.bytes.empty()) return bind(at, value.bytes);
    require(sqlite3_db_handle(handle_.get()), sqlite3_bind_null(handle_.get(), at));
}

void execute(sqlite3* db, const std::string& sql) {
    require(db, sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr));
}

std::int64_t number(sqlite3* db, const char* sql) {
    statement s(db, sql);
    return s.first() ? s.integer(0) : 0;
}

}  // namespace tvec::durable::detail
