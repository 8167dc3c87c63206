#include "time_namespace.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace tvec::detail {

namespace {

std::string target_of(const char* link) {
    std::error_code ignored;
    return std::filesystem::read_symlink(link, ignored).string();
}

}  // namespace

/// The kernel tells the offsets of the namespace that the children to come will be in. What cannot
/// be read may be anything: a container without /proc, or with a part of it.
bool may_live_in_shifted_time() {
    if (target_of("/proc/self/ns/time") != target_of("/proc/self/ns/time_for_children"))
        return true;
    std::ifstream offsets("/proc/self/timens_offsets");
    std::string clock;
    long long seconds = 0, nanoseconds = 0;
    int unshifted = 0;
    while (offsets >> clock >> seconds >> nanoseconds)
        unshifted += seconds == 0 && nanoseconds == 0;
    return unshifted != 2;  // CLOCK_MONOTONIC and CLOCK_BOOTTIME
}

}  // namespace tvec::detail
