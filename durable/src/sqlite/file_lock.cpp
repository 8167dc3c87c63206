#include "file_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <mutex>
#include <set>

#include "sqlite_statement.hpp"

namespace tvec::durable::detail {

namespace {

// The byte after the 512 bytes from 1 GiB on, which SQLite locks.
constexpr off_t locked_byte = 0x40000000 + 512;

// The files that this process has locked. Opening and closing one of them would
// drop the lock of SQLite.
struct locked_files {
    std::mutex mutex;
    std::set<std::pair<dev_t, ino_t>> all;
};
locked_files& locked() {
    static locked_files files;
    return files;
}

[[noreturn]] void fail(int error, const char* why) { raise(static_cast<std::errc>(error), why); }

}  // namespace

file_lock::file_lock(const std::string& path) {
    locked_files& files = locked();
    const std::lock_guard lock(files.mutex);
    struct stat s {};
    if (stat(path.c_str(), &s) == 0 && files.all.contains({s.st_dev, s.st_ino}))
        fail(EBUSY, "is locked: this process has it open already, and one store has it at a time");
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
    if (fd_ < 0) fail(errno, "cannot be opened for reading and writing");
    struct flock range {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_start = locked_byte;
    range.l_len = 1;
    if (fcntl(fd_, F_OFD_SETLK, &range) != 0) {
        const int error = errno;
        close(fd_);
        if (error != EAGAIN && error != EACCES) fail(error, "cannot be locked");
        fail(EBUSY,
             "is locked: another process has it open, and one has it at a time. End that one");
    }
    fstat(fd_, &s);
    file_ = {s.st_dev, s.st_ino};
    [[maybe_unused]] const bool is_new = files.all.insert(file_).second;
    assert(is_new && "a process locks a file once");
}

file_lock::~file_lock() {
    locked_files& files = locked();
    const std::lock_guard lock(files.mutex);
    files.all.erase(file_);
    close(fd_);
}

void file_lock::leave() noexcept { close(fd_); }

}  // namespace tvec::durable::detail
