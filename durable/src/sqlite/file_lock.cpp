#include "file_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <map>
#include <mutex>
#include <set>

#include "sqlite_statement.hpp"

namespace tvec::durable::detail {

namespace {

// The byte after the 512 bytes from 1 GiB on, which SQLite locks.
constexpr off_t locked_byte = 0x40000000 + 512;

// The files that this process has locked, and the descriptors that it keeps of others. Opening and
// closing one of these files would drop the locks of SQLite.
struct locked_files {
    std::mutex mutex;
    std::set<std::pair<dev_t, ino_t>> all;
    std::map<std::pair<dev_t, ino_t>, int> kept;
};
locked_files& locked() {
    static locked_files files;
    return files;
}

[[noreturn]] void fail(int error, const char* why) { raise(static_cast<std::errc>(error), why); }

// Sets or ends the lock. Returns 0, or -1 and errno.
int set_lock(int fd, short type) {
    struct flock range {};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    range.l_start = locked_byte;
    range.l_len = 1;
    return fcntl(fd, F_OFD_SETLK, &range);
}

}  // namespace

file_lock::file_lock(const std::string& path, bool keeps_descriptor)
    : keeps_descriptor_(keeps_descriptor) {
    locked_files& files = locked();
    const std::lock_guard lock(files.mutex);
    struct stat s {};
    const bool is_there = stat(path.c_str(), &s) == 0;
    if (is_there && files.all.contains({s.st_dev, s.st_ino}))
        fail(EBUSY, "is locked: this process has it open already, and one store has it at a time");
    if (auto kept = files.kept.extract({s.st_dev, s.st_ino}); is_there && kept) {
        fd_ = kept.mapped();
        keeps_descriptor_ = true;
    } else {
        fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    }
    if (fd_ < 0) fail(errno, "cannot be opened for reading and writing");
    fstat(fd_, &s);
    file_ = {s.st_dev, s.st_ino};
    if (set_lock(fd_, F_WRLCK) != 0) {
        const int error = errno;
        end();
        if (error != EAGAIN && error != EACCES) fail(error, "cannot be locked");
        fail(EBUSY,
             "is locked: another process has it open, and one has it at a time. End that one");
    }
    [[maybe_unused]] const bool is_new = files.all.insert(file_).second;
    assert(is_new && "a process locks a file once");
}

file_lock::~file_lock() {
    locked_files& files = locked();
    const std::lock_guard lock(files.mutex);
    files.all.erase(file_);
    if (keeps_descriptor_) set_lock(fd_, F_UNLCK);
    end();
}

// Precondition: the list of files is locked.
void file_lock::end() noexcept {
    if (keeps_descriptor_)
        locked().kept.emplace(file_, fd_);
    else
        close(fd_);
}

bool file_lock::is_of(const struct stat& file) const noexcept {
    return identity(file.st_dev, file.st_ino) == file_;
}

void file_lock::leave() noexcept { close(fd_); }

}  // namespace tvec::durable::detail
