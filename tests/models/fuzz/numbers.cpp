// Fuzzing the numbers on command lines: what is taken is in its range, and a plain decimal number
// is taken exactly if it is, as what it says.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "../../../support/command_line.hpp"
#include "support/divergence.hpp"

namespace {

using support::expect;

// A decimal number, without zeros in front; nothing if the text is not one.
std::optional<std::string> plain(const std::string& text) {
    const bool below = text.starts_with('-');
    const std::string digits = text.substr(below);
    if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos)
        return std::nullopt;
    const std::string number =
        digits.substr(std::min(digits.find_first_not_of('0'), digits.size() - 1));
    if (below && number == "0") return std::nullopt;  // which unsigned numbers have not
    return below ? '-' + number : number;
}

// Whether a number, as text, is at most another.
bool at_most(const std::string& a, const std::string& b) {
    const bool below = a.starts_with('-');
    if (below != b.starts_with('-')) return below;
    if (below) return at_most(b.substr(1), a.substr(1));
    return a.size() != b.size() ? a.size() < b.size() : a <= b;
}

// One option of this type, from `least` to `most`.
template <class Number> void try_number(const std::string& text, Number least, Number most) {
    Number value = least;
    example::command_line line("", "fuzz");
    line.add_number("--number", value, least, most, "");
    std::string program = "fuzz", argument = "--number=" + text;
    char* arguments[] = {program.data(), argument.data(), nullptr};
    const std::string fault = line.parse(2, arguments);
    expect(value >= least && value <= most, text, " is taken as ", value);
    const auto number = plain(text);
    if (!number) return;
    const bool fits =
        at_most(fmt::to_string(least), *number) && at_most(*number, fmt::to_string(most));
    expect(fault.empty() == fits, text, ": ", fault);
    if (fits) expect(fmt::to_string(value) == *number, text, " is taken as ", value);
}

void try_numbers(const std::string& text) {
    std::vector<unsigned> values;
    example::command_line line("", "fuzz");
    line.add_numbers("--numbers", values, 1u, 1000u, "");
    std::string program = "fuzz", argument = "--numbers=" + text;
    char* arguments[] = {program.data(), argument.data(), nullptr};
    const std::string fault = line.parse(2, arguments);
    if (!fault.empty()) return;
    for (const unsigned value : values) expect(value >= 1 && value <= 1000, text, ": ", value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1 || size > 64) return 0;
    // An argument ends at its first NUL.
    const std::string all(reinterpret_cast<const char*>(data) + 1, size - 1);
    const std::string text = all.substr(0, all.find('\0'));
    switch (data[0] % 6) {
    case 0:
        try_number<int>(text, -100, 100'000);
        break;
    case 1:
        try_number<unsigned short>(text, 1, 65535);
        break;
    case 2:
        try_number<unsigned>(text, 0, 4'000'000'000);
        break;
    case 3:
        try_number<unsigned long>(text, 1, ~0ul);
        break;
    case 4:
        try_number<double>(text, 0, 1);
        break;
    case 5:
        try_numbers(text);
        break;
    }
    return 0;
}
