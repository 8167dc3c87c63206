#include "server_facts.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "../local/printable.hpp"

namespace tvec::durable::redis {

namespace {

constexpr int oldest = 7;

// Returns the text after `name:` in a line of INFO; "" if there is no such line.
std::string_view fact(std::string_view info, std::string_view name) {
    for (std::size_t at = 0; at < info.size();) {
        const std::size_t end = std::min(info.find_first_of("\r\n", at), info.size());
        const std::string_view line = info.substr(at, end - at);
        if (line.starts_with(name) && line.substr(name.size()).starts_with(':'))
            return line.substr(name.size() + 1);
        at = end + 1;
    }
    return {};
}

// The same, for a message.
std::string shown_fact(std::string_view info, std::string_view name) {
    std::string text(fact(info, name));
    detail::make_printable(text.data(), text.size());
    return text;
}

int number(std::string_view digits) {
    int n = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), n);
    return n;
}

verdict refusal_of(std::string_view info) {
    const std::string version = shown_fact(info, "redis_version");
    if (version.empty()) return {std::errc::protocol_error, "it does not say which Redis it is"};
    if (number(version) < oldest)
        return {std::errc::not_supported, "it is Redis " + version + ": 7.0 is needed"};
    if (fact(info, "loading") == "1")
        return {std::errc::resource_unavailable_try_again, "it is still loading"};
    if (fact(info, "role") != "master")
        return {std::errc::operation_not_permitted, "it is a replica: connect to its primary"};
    if (fact(info, "aof_enabled") != "1")
        return {std::errc::operation_not_permitted,
                "appendonly is no, and all timers are lost when it ends: have it say yes"};
    const std::string policy = shown_fact(info, "maxmemory_policy");
    if (fact(info, "maxmemory") != "0" && policy.starts_with("allkeys"))
        return {std::errc::operation_not_permitted,
                "maxmemory-policy is " + policy +
                    ", and throws timers away when memory is short: have it say noeviction"};
    return {};
}

std::string warning_of(std::string_view appendfsync) {
    if (appendfsync == "always") return {};
    if (appendfsync == "everysec")
        return "appendfsync is everysec: a power cut loses what the last second or two have stored";
    if (appendfsync == "no")
        return "appendfsync is no: a power cut loses what the system has not written, mostly 30 s";
    return "it does not tell its appendfsync: if that is not always, a power cut loses timers";
}

}  // namespace

verdict judge(std::string_view info, std::string_view appendfsync) {
    verdict v = refusal_of(info);
    if (v.refusal.empty()) v.warning = warning_of(appendfsync);
    return v;
}

bool is_in_cluster(std::string_view info) { return fact(info, "cluster_enabled") == "1"; }

}  // namespace tvec::durable::redis
