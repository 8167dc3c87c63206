/// \file
/// Texts of servers, for logs and terminals.
#pragma once

#include <cstddef>

namespace tvec::durable::detail {

/// Returns how many bytes at a place of a UTF-8 text are a character on which a terminal acts: a
/// control character, or one that turns the direction of what follows. Returns 0 for any other.
inline std::size_t control_at(const char* text, std::size_t size) {
    const auto at = [text, size](std::size_t i) {
        return i < size ? static_cast<unsigned char>(text[i]) : 0U;
    };
    if (at(0) < ' ' || at(0) == 0x7f) return 1;
    if (at(0) == 0xc2 && at(1) >= 0x80 && at(1) < 0xa0) return 2;
    if (at(0) != 0xe2) return 0;
    const bool embeds = at(1) == 0x80 && at(2) >= 0xaa && at(2) <= 0xae;
    const bool isolates = at(1) == 0x81 && at(2) >= 0xa6 && at(2) <= 0xa9;
    return embeds || isolates ? 3 : 0;
}

/// Replaces these characters by question marks, in place.
inline void make_printable(char* text, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
        for (std::size_t left = control_at(text + i, size - i); left > 0; --left)
            text[left > 1 ? i++ : i] = '?';
}

}  // namespace tvec::durable::detail
