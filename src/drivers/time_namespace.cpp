#include "time_namespace.hpp"

#include <sys/stat.h>

#include <cstdio>

namespace tvec::detail {

namespace {

/// Returns the inode of the namespace behind a link, or 0.
ino_t inode_of(const char* link) {
    struct stat found {};
    return stat(link, &found) == 0 ? found.st_ino : 0;
}

}  // namespace

/// The kernel shows only the offsets of the namespace for future children. An unreadable file may
/// mean anything: a container without /proc, or with a part of it.
bool may_live_in_shifted_time() {
    if (inode_of("/proc/self/ns/time") != inode_of("/proc/self/ns/time_for_children")) return true;
    std::FILE* const offsets = std::fopen("/proc/self/timens_offsets", "re");
    if (offsets == nullptr) return true;
    long long seconds = 0, nanoseconds = 0;
    int unshifted = 0;
    while (std::fscanf(offsets, "%*s %lld %lld", &seconds, &nanoseconds) == 2)
        unshifted += seconds == 0 && nanoseconds == 0;
    std::fclose(offsets);
    return unshifted != 2;  // CLOCK_MONOTONIC and CLOCK_BOOTTIME
}

}  // namespace tvec::detail
