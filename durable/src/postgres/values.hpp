/// \file
/// Values of PostgreSQL in their binary format: arguments of statements, and rows of answers.
#pragma once

#include <libpq-fe.h>

#include <bit>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tvec::durable::postgres {

/// The object identifiers of types, which no version changes.
enum class type : Oid { bytes = 17, big = 20, number = 23, text = 25 };

/// Returns the type that a letter stands for: i: int, b: bigint, t: text, y: bytea, and a capital
/// for that of the elements of an array.
constexpr type type_of(char letter) {
    switch (letter) {
    case 'i':
    case 'I':
        return type::number;
    case 'b':
    case 'B':
        return type::big;
    case 't':
    case 'T':
        return type::text;
    default:
        return type::bytes;
    }
}
constexpr bool is_array(char letter) { return letter >= 'A' && letter <= 'Z'; }

/// Returns the type of arrays of these elements.
constexpr Oid array_of(type element) {
    switch (element) {
    case type::bytes:
        return 1001;
    case type::big:
        return 1016;
    case type::number:
        return 1007;
    case type::text:
        break;
    }
    return 1009;
}
constexpr Oid oid_of(char letter) {
    return is_array(letter) ? array_of(type_of(letter)) : static_cast<Oid>(type_of(letter));
}

/// Returns the bytes of a number, the most significant first.
template <class Number> std::string bytes_of(Number n) {
    std::string bytes(sizeof n, '\0');
    for (std::size_t i = sizeof n; i-- > 0; n = static_cast<Number>(n >> 8))
        bytes[i] = static_cast<char>(n & 0xff);
    return bytes;
}

/// An argument of a statement.
struct value {
    Oid of;
    std::optional<std::string> bytes;  ///< nothing: null

    bool operator==(const value&) const = default;
};

inline value big(std::int64_t n) { return {static_cast<Oid>(type::big), bytes_of(n)}; }
inline value null() { return {static_cast<Oid>(type::big), {}}; }
inline value number(std::int32_t n) { return {static_cast<Oid>(type::number), bytes_of(n)}; }
inline value text(std::string s) { return {static_cast<Oid>(type::text), std::move(s)}; }
inline value bytes(std::string s) { return {static_cast<Oid>(type::bytes), std::move(s)}; }

/// An array in the making. Its elements are the bytes of values, or nothing for null.
class array {
public:
    explicit array(type element) : element_(element) {}

    void add(std::string_view bytes) {
        starts_.push_back(cells_.size());
        cells_ += bytes_of(static_cast<std::int32_t>(bytes.size()));
        cells_ += bytes;
    }
    template <std::same_as<std::optional<std::string>> Bytes> void add(const Bytes& bytes) {
        if (bytes) return add(std::string_view(*bytes));
        starts_.push_back(cells_.size());
        cells_ += bytes_of(std::int32_t{-1});
        has_null_ = true;
    }
    void add(std::integral auto n) {
        if (element_ == type::number)
            add(std::string_view(bytes_of(static_cast<std::int32_t>(n))));
        else
            add(std::string_view(bytes_of(static_cast<std::int64_t>(n))));
    }
    std::size_t size() const noexcept { return starts_.size(); }
    std::size_t weight() const noexcept { return cells_.size(); }

    /// Returns an array of some of the elements.
    array some(const std::vector<std::size_t>& elements) const {
        array a(element_);
        for (const std::size_t i : elements) {
            assert(i < size() && "an array has the element");
            const std::size_t end = i + 1 < size() ? starts_[i + 1] : cells_.size();
            a.starts_.push_back(a.cells_.size());
            a.cells_.append(cells_, starts_[i], end - starts_[i]);
        }
        a.has_null_ = has_null_;
        return a;
    }

    value whole() const {
        std::string all = bytes_of(std::int32_t{1}) + bytes_of(std::int32_t{has_null_}) +
                          bytes_of(static_cast<std::uint32_t>(element_)) +
                          bytes_of(static_cast<std::int32_t>(size())) + bytes_of(std::int32_t{1});
        return {array_of(element_), all + cells_};
    }

private:
    type element_;
    std::string cells_{};  // the length and the bytes of each
    std::vector<std::size_t> starts_{};
    bool has_null_ = false;
};

struct result_deleter {
    void operator()(PGresult* r) const noexcept { PQclear(r); }
};
using result_ptr = std::unique_ptr<PGresult, result_deleter>;

/// Reads the columns of a row, one after another. Somebody may have changed the functions: a column
/// of the wrong form is read as 0 or "", and `is_whole` is false.
class row {
public:
    /// `letter` is that of its text which `letter()` reads.
    row(const PGresult& r, int number, std::size_t letter = 0)
        : all_(r), number_(number), letter_(letter) {}

    bool is_whole() const noexcept { return is_whole_; }
    bool is_null() const noexcept {
        return next_ < PQnfields(&all_) && PQgetisnull(&all_, number_, next_) != 0;
    }

    /// Reads a whole number below 10^18 of any size. Null is 0.
    std::int64_t integer() {
        const std::string_view raw = bytes();
        if (raw.size() > 8) is_whole_ = false;
        if (!is_whole_ || raw.empty()) return 0;
        std::uint64_t n = (static_cast<unsigned char>(raw[0]) & 0x80U) != 0 ? ~std::uint64_t{} : 0;
        for (const char c : raw) n = n << 8 | static_cast<unsigned char>(c);
        const auto read = static_cast<std::int64_t>(n);
        is_whole_ = read > -limit && read < limit;
        return is_whole_ ? read : 0;
    }
    /// Reads bytes, which are valid as long as the result. Null is "".
    std::string_view bytes() {
        is_whole_ = is_whole_ && next_ < PQnfields(&all_);
        if (!is_whole_) return {};
        const int column = next_++;
        return {PQgetvalue(&all_, number_, column),
                static_cast<std::size_t>(PQgetlength(&all_, number_, column))};
    }
    /// Reads a letter of a text, or 0 if the text has none there.
    char letter() {
        const std::string_view all = bytes();
        is_whole_ = is_whole_ && letter_ < all.size();
        return is_whole_ ? all[letter_] : '\0';
    }
    void reject() noexcept { is_whole_ = false; }

private:
    static constexpr std::int64_t limit = 1'000'000'000'000'000'000;

    const PGresult& all_;
    const int number_;
    const std::size_t letter_;
    int next_ = 0;
    bool is_whole_ = true;
};

}  // namespace tvec::durable::postgres
