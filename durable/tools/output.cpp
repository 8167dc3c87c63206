#include "output.hpp"

#include <chrono>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tvec/durable/plan.hpp"

namespace timers_tool {

namespace {

using namespace tvec::durable;

// Returns bytes as base64 (RFC 4648). curl, OpenSSL and SQLite have it, and are not always there.
std::string base64(const std::string& bytes) {
    constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t three = 0;
        for (std::size_t k = 0; k < 3; ++k)
            three =
                three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
        for (unsigned k = 0; k < 4; ++k)
            text += i + k <= bytes.size() ? digits[three >> (18 - 6 * k) & 63] : '=';
    }
    return text;
}

bool is_utf8(const std::string& bytes) {
    try {
        return !nlohmann::json(bytes).dump().empty();
    } catch (const nlohmann::json::type_error&) {
        return false;
    }
}

// Returns why a timer has failed or died. Until 0.5.0 a store wrote no reason for one whose
// deliveries had no end.
std::string reason_of(const stored_timer& t, const history& h) {
    if (!h.reason.empty() || t.spent == 0) return h.reason;
    return fmt::format("deliveries without an end: {}", t.spent);
}

}  // namespace

std::string shown(const std::string& bytes) {
    std::string text;
    for (const char c : bytes)
        if (c >= ' ' && c <= '~' && c != '\\')
            text += c;
        else
            text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    return text;
}

std::string shown(time_point t) {
    const auto second = std::chrono::floor<std::chrono::seconds>(t);
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                       fmt::gmtime(std::chrono::system_clock::to_time_t(second)),
                       (t - second).count());
}

void enter(nlohmann::json& object, const std::string& name, const std::string& bytes) {
    if (is_utf8(bytes))
        object[name] = bytes;
    else
        object[name + "_base64"] = base64(bytes);
}

std::string json_text(const nlohmann::json& object) { return object.dump(-1, ' ', true); }

nlohmann::json described(const stored_timer& t, bool is_dead) {
    nlohmann::json object = {{"due_ms", t.due.time_since_epoch().count()},
                             {"due", shown(t.due)},
                             {"every_ms", t.every.count()},
                             {"attempts", t.attempt},
                             {"body_bytes", t.body.size()}};
    enter(object, "id", t.id);
    if (!t.plan.empty()) enter(object, "plan", t.plan);
    const history h = history::parse(t.history);
    if (h.failures != 0) {
        object["failures"] = h.failures;
        object["first_failure_ms"] = h.first.time_since_epoch().count();
        object["last_failure_ms"] = h.last.time_since_epoch().count();
    }
    if (is_dead || h.failures != 0) enter(object, "reason", reason_of(t, h));
    return object;
}

std::string line_of(const stored_timer& t) {
    std::string line = shown(t.due) + '\t' + shown(t.id);
    if (t.every != duration()) line += fmt::format("\tevery {} ms", t.every.count());
    line += fmt::format("\tattempt {}\t{} bytes", t.attempt, t.body.size());
    if (!t.plan.empty()) line += "\tplan " + shown(t.plan);
    const history h = history::parse(t.history);
    const std::string reason = shown(reason_of(t, h));
    if (h.failures != 0)
        line += fmt::format("\t{} failures, {} to {}: {}", h.failures, shown(h.first),
                            shown(h.last), reason);
    else if (!reason.empty())
        line += '\t' + reason;
    return line;
}

}  // namespace timers_tool
