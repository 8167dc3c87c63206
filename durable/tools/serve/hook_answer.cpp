#include "hook_answer.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace timers_tool {

namespace {

using namespace tvec::durable;

constexpr std::uint64_t longest_pause = 253'402'300'799'999;  // ms: no deadline is later
// A hook that asks for another delivery gets it after this at the earliest, in ms: one that is
// overloaded is not called again and again.
constexpr std::int64_t shortest_pause = 1'000;
constexpr std::int64_t longest_delay = 86'400'000'000;  // of a plan, in ms

std::optional<std::string> header_of(CURL* easy, const char* name) {
    curl_header* header = nullptr;
    if (curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK) return {};
    return header->value;
}

sink_answer failure(std::string why) { return {sink_answer::kind::failed, {}, std::move(why)}; }

sink_answer again_in(double ms) {
    const double least = static_cast<double>(shortest_pause), most = longest_pause;
    return {sink_answer::kind::again,
            duration(static_cast<std::int64_t>(std::clamp(std::ceil(ms), least, most)))};
}

// Reads {"again": MS}. An answer that begins as an object and cannot be read would lose its timer
// if it meant "done". Any other answer with a status of success does.
sink_answer meaning_of(const std::string& answer) {
    const bool is_cut = answer.size() == largest_answer;
    const auto first = answer.find_first_not_of(" \t\r\n\xef\xbb\xbf");  // a byte order mark, too
    if (first == answer.npos ? !is_cut : answer[first] != '{') return {sink_answer::kind::done};
    if (is_cut) return failure("hook: its answer is an object of 64 KiB or more, expected less");
    const auto said = nlohmann::json::parse(answer, nullptr, false);
    if (said.is_discarded()) return failure("hook: its answer is cut, or no JSON");
    if (!said.contains("again")) return {sink_answer::kind::done};
    const auto& ms = said["again"];
    if (ms.is_number() && ms.get<double>() >= 0) return again_in(ms.get<double>());
    // To show a nested value takes a frame of the stack for each level.
    const std::string found = ms.is_structured() ? ms.type_name() : ms.dump();
    return failure("hook: \"again\" is " + found + ", expected milliseconds: 60000");
}

// Reads a Retry-After: seconds, or a date, of which 0 are left once it has passed. Returns nothing
// if it is neither. Precondition: it is that of the last answer.
std::optional<std::chrono::seconds> seconds_in(const std::string& retry_after, CURL* easy) {
    constexpr std::int64_t most = longest_delay / 1'000;
    std::int64_t seconds = most;  // of a number that is too large
    const bool is_number =
        !retry_after.empty() && retry_after.find_first_not_of("0123456789") == retry_after.npos;
    if (is_number) {
        std::from_chars(retry_after.data(), retry_after.data() + retry_after.size(), seconds);
    } else {
        if (curl_getdate(retry_after.c_str(), nullptr) == -1) return {};
        curl_off_t left = 0;
        curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &left);
        seconds = left;
    }
    return std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, most));
}

// Returns the beginning of a reason, by which the plan waits for so long at least.
std::string reason_to_wait(CURL* easy) {
    if (!header_of(easy, "Retry-After")) return "";
    const auto wait = wait_of(easy);
    if (!wait) return "Retry-After is neither seconds nor a date: ";
    return fmt::format("after {}s: ", std::max<std::int64_t>(wait->count(), 1));
}

}  // namespace

long status_of(CURL* easy) {
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

bool has_stray_body(CURL* easy) {
    if (status_of(easy) != 204 && status_of(easy) != 304) return false;
    return header_of(easy, "Content-Length").value_or("0") != "0" ||
           header_of(easy, "Transfer-Encoding");
}

std::optional<std::chrono::seconds> wait_of(CURL* easy) {
    const auto header = header_of(easy, "Retry-After");
    return header ? seconds_in(*header, easy) : std::nullopt;
}

std::string text_of(CURL* easy, const std::string& answer) {
    const auto size = std::min(answer.find('\n'), longest_reason);
    return fmt::format("hook: HTTP {}: {}", status_of(easy), answer.substr(0, size));
}

sink_answer meaning_of(CURLcode how, CURL* easy, const std::string& answer) {
    if (how == CURLE_ABORTED_BY_CALLBACK) how = CURLE_GOT_NOTHING;
    if (how != CURLE_OK) return failure(std::string("hook: ") + curl_easy_strerror(how));
    if (status_of(easy) >= 200 && status_of(easy) < 300) {
        const std::string encoding = header_of(easy, "Content-Encoding").value_or("");
        if (answer.empty() || encoding.empty() || encoding == "identity") return meaning_of(answer);
        return failure("hook: its answer has the encoding " + encoding + ", expected none");
    }
    return failure(reason_to_wait(easy) + text_of(easy, answer));
}

}  // namespace timers_tool
