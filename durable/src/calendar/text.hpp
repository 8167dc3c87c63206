// Reads the text of rules.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace tvec::durable::calendar {

// Throws std::invalid_argument: where the fault is, the text there, and what was expected.
[[noreturn]] void refuse(std::string_view where, std::string_view found, const std::string& wanted);

// Splits at each separator. An empty text has one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);

// Reads decimal digits. Refuses other characters, and values that are not from `low` to `high`.
int number(std::string_view where, std::string_view text, int low, int high);

// Reads YYYYMMDDTHHMMSS.
std::chrono::local_seconds local_time(std::string_view where, std::string_view text);

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns ASCII letters as capitals.
std::string capitals(std::string_view text);

}  // namespace tvec::durable::calendar
