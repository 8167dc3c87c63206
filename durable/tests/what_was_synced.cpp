// For LD_PRELOAD: keeps beside each file of timers a copy, FILE.synced, of the contents that fsync
// or fdatasync has written to the disk. Restoring the copy simulates a power cut. For an
// append-only file (a Redis server's, FILE.aof) the copy has the length of the synced part, and no
// contents. All files in a folder `server` (the data of PostgreSQL) are known.
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace {

using syncing = int (*)(int);

std::string name_of(int fd) {
    char name[PATH_MAX];
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t n = readlink(link.c_str(), name, sizeof name);
    return n > 0 ? std::string(name, static_cast<std::size_t>(n)) : std::string();
}

// Copies the contents before the sync, and renames the copy into place atomically.
void keep(const std::string& name, off_t size) {
    const std::string copy = name + ".copying";
    if (name.ends_with(".aof")) {
        const int length = open(copy.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        static_cast<void>(!ftruncate(length, size));
        close(length);
        return;
    }
    const int from = open(name.c_str(), O_RDONLY | O_CLOEXEC);
    const int to = open(copy.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    while (sendfile(to, from, nullptr, 1 << 20) > 0) continue;
    close(from);
    close(to);
}

int sync_and_keep(const char* how, int fd) {
    const auto real = reinterpret_cast<syncing>(dlsym(RTLD_NEXT, how));
    const std::string name = name_of(fd);
    struct stat s {};
    const bool is_known =
        name.find("timers.db") != std::string::npos || name.ends_with(".aof") ||
        (name.find("/server/") != std::string::npos && !name.ends_with(".synced"));
    const bool is_kept = is_known && fstat(fd, &s) == 0 && S_ISREG(s.st_mode);
    if (is_kept) keep(name, s.st_size);
    const int result = real(fd);
    if (is_kept && result == 0) rename((name + ".copying").c_str(), (name + ".synced").c_str());
    return result;
}

}  // namespace

extern "C" int fsync(int fd) { return sync_and_keep("fsync", fd); }
extern "C" int fdatasync(int fd) { return sync_and_keep("fdatasync", fd); }
