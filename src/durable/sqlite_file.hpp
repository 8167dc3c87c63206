// A file of timers: whether it is one, whether it is nobody else's, and its version.
#pragma once

#include <string>

#include "file_lock.hpp"
#include "sqlite_statement.hpp"
#include "tvec/durable/sqlite_store.hpp"

namespace tvec::durable::detail {

class sqlite_file {
public:
    // Opens the file, or makes it. Throws std::system_error.
    sqlite_file(const std::string& name, const sqlite_options& options);
    sqlite_file(const sqlite_file&) = delete;
    sqlite_file& operator=(const sqlite_file&) = delete;

    sqlite3* get() const noexcept { return db_.get(); }

private:
    std::string path_;
    file_lock lock_;
    connection db_;
};

}  // namespace tvec::durable::detail
