// A lock that gives a file to one owner at a time, in any process.
#pragma once

#include <sys/stat.h>

#include <string>
#include <utility>

namespace tvec::durable::detail {

// A lock of the file itself, by an open file description (F_OFD_SETLK) and a list of this process.
// SQLite has a POSIX lock, which any close of the file in this process drops. This lock stays,
// survives renames, and holds for every name of the file. A program started by exec has no copy.
class file_lock {
public:
    // Opens the file, or makes it, and locks it. Throws std::system_error: device_or_resource_busy
    // if another file_lock holds it. Closing a descriptor of the file drops the locks of SQLite in
    // this process. If SQLite may have the file open before or after, `keeps_descriptor` must be
    // true: then the descriptor is closed by the end of the process, and used again until then.
    file_lock(const std::string& path, bool keeps_descriptor);
    ~file_lock();
    file_lock(const file_lock&) = delete;
    file_lock& operator=(const file_lock&) = delete;

    // Returns true if this is the file that is locked.
    bool is_of(const struct stat& file) const noexcept;

    // Closes the copy of this process, and leaves the lock to the parent. For forked children.
    void leave() noexcept;

private:
    using identity = std::pair<dev_t, ino_t>;

    void end() noexcept;

    int fd_ = -1;
    bool keeps_descriptor_;
    identity file_{};
};

}  // namespace tvec::durable::detail
