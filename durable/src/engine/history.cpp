#include <algorithm>
#include <charconv>
#include <string>

#include "plan.hpp"

namespace tvec::durable {

namespace {

// Reads a number and the character after it, and removes both from the text.
bool take_number(std::string_view& text, std::int64_t most, std::int64_t& to, char after = ' ') {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
    const auto digits = static_cast<std::size_t>(end - text.data());
    if (error != std::errc() || to < 0 || to > most) return false;
    if (digits == text.size() || text[digits] != after) return false;
    text.remove_prefix(digits + 1);
    return true;
}

std::int64_t ms(time_point t) { return t.time_since_epoch().count(); }

bool is_continuation(unsigned char c) { return (c & 0xc0U) == 0x80U; }

// Returns how many bytes the character at the beginning has, or 0 if it is not UTF-8. Surrogates
// and characters in more bytes than needed are not UTF-8.
std::size_t length_of_character(std::string_view s) {
    const auto byte = [s](std::size_t i) { return static_cast<unsigned char>(s[i]); };
    const unsigned char c = byte(0);
    const std::size_t n = c < 0x80   ? 1
                          : c < 0xc2 ? 0
                          : c < 0xe0 ? 2
                          : c < 0xf0 ? 3
                          : c < 0xf5 ? 4
                                     : 0;
    if (n == 0 || n > s.size()) return 0;
    for (std::size_t i = 1; i < n; ++i)
        if (!is_continuation(byte(i))) return 0;
    if ((c == 0xe0 && byte(1) < 0xa0) || (c == 0xed && byte(1) > 0x9f)) return 0;
    if ((c == 0xf0 && byte(1) < 0x90) || (c == 0xf4 && byte(1) > 0x8f)) return 0;
    return n;
}

}  // namespace

history history::parse(std::string_view text) {
    std::string_view rest = text;
    std::int64_t failures = 0, first = 0, last = 0, delay = 0, beats = 0;
    const std::int64_t latest = ms(latest_due);
    const auto take_last = [&] {
        if (take_number(rest, latest, last)) return true;
        return take_number(rest, latest, last, '+') && take_number(rest, latest, delay);
    };
    if (!take_number(rest, UINT32_MAX, failures) || !take_number(rest, latest, first) ||
        !take_last() || !take_number(rest, UINT32_MAX, beats))
        return {0, {}, {}, 0, std::string(text)};
    return {static_cast<std::uint32_t>(failures),
            time_point(duration(first)),
            time_point(duration(last)),
            static_cast<std::uint32_t>(beats),
            std::string(rest),
            duration(delay)};
}

std::string to_text(const history& h) {
    if (h == history()) return "";
    return std::to_string(h.failures) + ' ' + std::to_string(ms(h.first)) + ' ' +
           std::to_string(ms(h.last)) +
           (h.delay != duration::zero() ? '+' + std::to_string(h.delay.count()) : "") + ' ' +
           std::to_string(h.beats) + ' ' + h.reason;
}

namespace detail {

std::string line_of(std::string_view reason) {
    std::string line;
    while (!reason.empty()) {
        const std::size_t n = length_of_character(reason);
        const auto c = static_cast<unsigned char>(reason[0]);
        if (line.size() + std::max<std::size_t>(n, 1) > longest_reason) break;
        if (n == 0)
            line += '?';
        else if (c < ' ' || c == 0x7f)
            line += ' ';
        else
            line += reason.substr(0, n);
        reason.remove_prefix(std::max<std::size_t>(n, 1));
    }
    return line;
}

}  // namespace detail

}  // namespace tvec::durable
