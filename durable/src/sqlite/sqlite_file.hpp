// A file of timers: its form, its lock, its version and its log.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

#include "file_lock.hpp"
#include "last_seen.hpp"
#include "sqlite_statement.hpp"
#include "tvec/durable/sqlite_store.hpp"

namespace tvec::durable::detail {

// The file and its log (FILE-wal). The table `mark` tells if the file is whole without its log.
// File and log together always say that it is. From the first commit to the close the file alone
// says that it is not: a file that is found so has lost its log, or was copied without it. A file
// that is shared with other connections always says that it is whole, because they write the log
// into it, too.
class sqlite_file {
public:
    // Opens the file, or makes it. Throws std::system_error.
    sqlite_file(const std::string& name, const sqlite_options& options);
    // Closes the file. Precondition: all statements have ended.
    ~sqlite_file();
    sqlite_file(const sqlite_file&) = delete;
    sqlite_file& operator=(const sqlite_file&) = delete;

    sqlite3* get() const noexcept { return db_.get(); }
    const std::string& path() const noexcept { return path_; }

    // Writes a long log into the file. Call it after each commit. Throws if that fails, which is
    // harmless: the next call tries again.
    void tend_log();

    // Returns what somebody has done to the file or its log, or nullptr if both are there as this
    // process has left them. If not, what is written goes nowhere, or damages a copy. Call it
    // before and after each commit. Four calls of the system.
    const char* fault() noexcept;
    // Call it after a transaction that has failed, which may have written a part of the log.
    void note_log() noexcept;

    // Leaves everything to the parent. For forked children, which must not close the connection.
    void leave() noexcept;

private:
    struct file_and_log {
        struct stat file {
        }, log{};
    };

    std::optional<file_and_log> find_both() noexcept;
    void note_file() noexcept;
    std::string set_log_aside() noexcept;
    bool end_log() noexcept;
    void mark_anew(bool has_log);
    void write_log_into_file();
    void mark(bool needs_log);

    std::string path_, log_path_;
    bool is_shared_;
    file_lock lock_;
    connection db_;
    log_state log_{};
    last_seen seen_;
    std::string overwritten_;  // what to do, once the file or its log was overwritten
    std::optional<std::pair<dev_t, ino_t>> log_file_{};  // once it was seen
};

}  // namespace tvec::durable::detail
