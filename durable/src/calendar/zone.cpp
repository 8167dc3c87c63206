#include "zone.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include <cctz/civil_time.h>

#include "text.hpp"

namespace tvec::durable::calendar {

namespace {

// The folder where cctz looks for zones.
std::filesystem::path folder() {
    const char* const set = std::getenv("TZDIR");  // NOLINT(concurrency-mt-unsafe)
    return set != nullptr && *set != '\0' ? set : "/usr/share/zoneinfo";
}

bool is_plain(std::string_view name) {
    return name.size() <= 64 && name.front() != '/' && name.find("..") == name.npos &&
           std::ranges::all_of(name, [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '/' || c == '_' || c == '-' || c == '+' || c == '.';
           });
}

// cctz remembers the names of files that are missing for the life of the process. Foreign input
// must not fill its memory, so this looks at the file first.
void check_file(std::string_view name) {
    std::error_code ignored;
    const auto zones = folder();
    if (!std::filesystem::is_directory(zones, ignored))
        refuse("zone", name, "time zones in " + zones.string() + ": install tzdata");
    if (!is_plain(name) || !std::filesystem::is_regular_file(zones / name, ignored))
        refuse("zone", name, "a name from " + zones.string() + " such as Europe/Berlin");
}

constexpr cctz::civil_second epoch(1970, 1, 1);

sys_seconds since_1970(cctz::time_point<cctz::seconds> t) {
    return sys_seconds(std::chrono::seconds(t.time_since_epoch().count()));
}

cctz::time_point<cctz::seconds> of_cctz(sys_seconds t) {
    return cctz::time_point<cctz::seconds>(cctz::seconds(t.time_since_epoch().count()));
}

}  // namespace

zone::zone(std::string_view name) : zone_(cctz::utc_time_zone()) {
    if (name.empty()) return;
    check_file(name);
    if (!cctz::load_time_zone(std::string(name), &zone_))
        refuse("zone", name, "a time zone in its file, without leap seconds");
}

zone::instants zone::of(local_seconds local) const {
    const auto found = zone_.lookup(epoch + local.time_since_epoch().count());
    const instants::kind what =
        found.kind == cctz::time_zone::civil_lookup::UNIQUE     ? instants::kind::one
        : found.kind == cctz::time_zone::civil_lookup::REPEATED ? instants::kind::two
                                                                : instants::kind::left_out;
    return {what, since_1970(found.pre), since_1970(found.post), since_1970(found.trans)};
}

local_seconds zone::local(sys_seconds instant) const {
    return local_seconds(instant.time_since_epoch() +
                         std::chrono::seconds(zone_.lookup(of_cctz(instant)).offset));
}

}  // namespace tvec::durable::calendar
