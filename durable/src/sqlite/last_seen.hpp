// A file of timers and its log, as this process has left them.
#pragma once

#include <sqlite3.h>
#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <optional>

namespace tvec::durable::detail {

// The log after the commits of a connection.
struct log_state {
    int frames = 0;            // pages, after the last commit
    bool has_commits = false;  // since it was seen
};

// Notices that somebody else has written the file or its log. Only this connection writes a file
// that is not shared: the file when it writes the log into it, and the log in each commit. Times
// tell nothing of the log, because a network may bring them later.
//
// Others write a shared file as well. Of that it notices contents that are none of SQLite's, and a
// file in the place of a newer one.
class last_seen {
public:
    explicit last_seen(bool is_shared) : is_shared_(is_shared) {}

    // Note what this process has written: the file, or a part of a transaction that was rolled
    // back. `log` is the size of the log.
    void note_file(sqlite3* db, const struct stat& file) noexcept;
    void note_log(sqlite3* db, off_t log, log_state& commits) noexcept;
    // Returns true if both are as this process has left them, and notes the log. Two calls of the
    // system.
    bool is_as_left(sqlite3* db, const struct stat& file, off_t log, log_state& commits) noexcept;

private:
    using header = std::array<unsigned char, 100>;

    static std::optional<header> header_of(sqlite3* db, int which, int bytes) noexcept;
    void note(off_t log, const header& now, log_state& commits) noexcept;
    bool is_file_as_left(const struct stat& file, const header& now) noexcept;
    bool is_log_as_left(off_t size, const header& now, const log_state& commits) const noexcept;

    bool is_shared_;
    struct stat file_ {};
    header file_header_{}, log_header_{};
    off_t log_size_ = 0;
    int frames_ = 0;
};

}  // namespace tvec::durable::detail
