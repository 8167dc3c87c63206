#include "text.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <stdexcept>
#include <system_error>

namespace tvec::durable::calendar {

void refuse(std::string_view where, std::string_view found, const std::string& wanted) {
    constexpr std::size_t enough = 40;
    std::string shown(found.substr(0, enough));
    std::ranges::replace_if(
        shown, [](char c) { return c < ' ' || c > '~'; }, '?');
    if (found.size() > enough) shown += "...";
    throw std::invalid_argument(std::string(where) + ": found \"" + shown + "\", expected " +
                                wanted);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const std::size_t end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == text.npos) return parts;
        text.remove_prefix(end + 1);
    }
}

int number(std::string_view where, std::string_view text, int low, int high) {
    int value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool is_whole = error == std::errc() && stop == end && is_digit(text.front());
    if (!is_whole || value < low || value > high)
        refuse(where, text, "a number from " + std::to_string(low) + " to " + std::to_string(high));
    return value;
}

std::string capitals(std::string_view text) {
    std::string result(text);
    for (char& c : result)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return result;
}

std::chrono::local_seconds local_time(std::string_view part, std::string_view text) {
    const std::string wanted = "a local time such as 20260105T090000";
    if (text.size() != 15 || text[8] != 'T') refuse(part, text, wanted);
    const auto two = [&](std::size_t at, int low, int high) {
        return number(part, text.substr(at, 2), low, high);
    };
    const std::chrono::year_month_day day =
        std::chrono::year(number(part, text.substr(0, 4), 1, 9999)) /
        static_cast<int>(two(4, 1, 12)) / two(6, 1, 31);
    if (!day.ok()) refuse(part, text, "a day that the month has");
    return std::chrono::local_days(day) + std::chrono::hours(two(9, 0, 23)) +
           std::chrono::minutes(two(11, 0, 59)) + std::chrono::seconds(two(13, 0, 59));
}

}  // namespace tvec::durable::calendar
