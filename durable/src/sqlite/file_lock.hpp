// One owner of a file at a time, in any process.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

namespace tvec::durable::detail {

// A lock of the file itself, by an open file description (F_OFD_SETLK) and a list of this process.
// SQLite's own lock is a POSIX lock: any close of the file in this process drops that one. This one
// stays, survives renames, and holds for every name of the file. It is not inherited over exec.
class file_lock {
public:
    // Opens the file, or makes it, and locks it. Throws std::system_error: device_or_resource_busy
    // if a file_lock has it. Must be made before SQLite opens the file: a descriptor that is closed
    // later would drop SQLite's lock.
    explicit file_lock(const std::string& path);
    // Must come after SQLite has closed the file.
    ~file_lock();
    file_lock(const file_lock&) = delete;
    file_lock& operator=(const file_lock&) = delete;

    // Gives up this process's copy of the lock, and leaves it to the parent. For forked children.
    void leave() noexcept;

private:
    using identity = std::pair<dev_t, ino_t>;

    int fd_ = -1;
    identity file_{};
};

}  // namespace tvec::durable::detail
