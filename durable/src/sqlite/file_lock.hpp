// A lock that gives a file to one owner at a time, in any process.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

namespace tvec::durable::detail {

// A lock of the file itself, by an open file description (F_OFD_SETLK) and a list of this process.
// SQLite has a POSIX lock, which any close of the file in this process drops. This lock stays,
// survives renames, and holds for every name of the file. A program started by exec has no copy.
class file_lock {
public:
    // Opens the file, or makes it, and locks it. Throws std::system_error: device_or_resource_busy
    // if another file_lock holds it. Precondition: SQLite has not opened the file, because a
    // descriptor that is closed later would drop its lock.
    explicit file_lock(const std::string& path);
    // Precondition: SQLite has closed the file.
    ~file_lock();
    file_lock(const file_lock&) = delete;
    file_lock& operator=(const file_lock&) = delete;

    // Closes the copy of this process, and leaves the lock to the parent. For forked children.
    void leave() noexcept;

private:
    using identity = std::pair<dev_t, ino_t>;

    int fd_ = -1;
    identity file_{};
};

}  // namespace tvec::durable::detail
