/// \file
/// Text built part by part without the C++ library: for strings, and for buffers of programs in C.
#pragma once

#include <cassert>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tvec/core/detail/jiffies.hpp"

namespace tvec::detail {

/// Passes each part at once to a function.
class text {
public:
    using taker = void (*)(void* to, std::string_view part);

    text(taker take, void* to) noexcept : take_(take), to_(to) {
        assert(take != nullptr && "text goes somewhere");
    }

    text& operator<<(std::string_view part) {
        take_(to_, part);
        return *this;
    }
    text& operator<<(const char* part) { return *this << std::string_view(part); }
    template <std::unsigned_integral N> text& operator<<(N n) { return put(n, 10); }
    text& operator<<(const void* p) {
        return (*this << "0x").put(reinterpret_cast<std::uintptr_t>(p), 16);
    }
    text& operator<<(const std::optional<jiffies>& tick) {
        return tick ? *this << *tick : *this << "none";
    }

    /// Writes a number, right-aligned in `columns` columns.
    text& right_aligned(std::uint64_t n, unsigned columns) { return put(n, 10, columns); }

private:
    text& put(std::uint64_t n, int base, unsigned columns = 0) {
        assert(base >= 10 && "20 digits are room for any number from base 10 on");
        char digits[20];
        const char* const end = std::to_chars(digits, digits + sizeof digits, n, base).ptr;
        const auto length = static_cast<unsigned>(end - digits);
        for (unsigned column = length; column < columns; ++column) *this << " ";
        return *this << std::string_view(digits, length);
    }

    taker take_;
    void* to_;
};

/// A buffer of the caller, filled as snprintf does it: text that does not fit is counted and cut
/// off.
class bounded {
public:
    bounded(char* memory, std::size_t size) noexcept : memory_(memory), size_(size) {
        assert((memory != nullptr || size == 0) && "memory that is written to is there");
        if (size_ != 0) *memory_ = '\0';
    }

    operator text() noexcept {
        return {[](void* to, std::string_view part) { static_cast<bounded*>(to)->add(part); },
                this};
    }

    /// Returns the length of the whole text, also if it does not fit, without the zero at the end.
    std::size_t length() const noexcept { return length_; }

private:
    void add(std::string_view part) noexcept {
        for (const char c : part) {
            if (length_ + 1 < size_) memory_[length_] = c, memory_[length_ + 1] = '\0';
            ++length_;
        }
    }

    char* memory_;
    std::size_t size_;
    std::size_t length_ = 0;
};

/// Returns a text that appends to the string `all`.
template <class String> text appending_to(String& all) noexcept {
    return {[](void* to, std::string_view part) { static_cast<String*>(to)->append(part); }, &all};
}

}  // namespace tvec::detail
