/// \file
/// Values of PostgreSQL in their binary format: arguments of statements, and rows of answers.
#pragma once

#include <libpq-fe.h>

#include <bit>
#include <cassert>
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
    void add_null() {
        starts_.push_back(cells_.size());
        cells_ += bytes_of(std::int32_t{-1});
        has_null_ = true;
    }
    void add(std::int64_t n) {
        if (element_ == type::number)
            add(std::string_view(bytes_of(static_cast<std::int32_t>(n))));
        else
            add(std::string_view(bytes_of(n)));
    }
    std::size_t size() const noexcept { return starts_.size(); }
    std::size_t weight() const noexcept { return cells_.size(); }

    /// Copies an element of another array.
    void add_from(const array& other, std::size_t i) {
        assert(i < other.size() && "an array has the element");
        const std::size_t end = i + 1 < other.size() ? other.starts_[i + 1] : other.cells_.size();
        starts_.push_back(cells_.size());
        cells_.append(other.cells_, other.starts_[i], end - other.starts_[i]);
        has_null_ = has_null_ || other.has_null_;
    }
    array like() const { return array(element_); }

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
    row(const PGresult& r, int number) : all_(r), number_(number) {}

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
    void reject() noexcept { is_whole_ = false; }

private:
    static constexpr std::int64_t limit = 1'000'000'000'000'000'000;

    const PGresult& all_;
    const int number_;
    int next_ = 0;
    bool is_whole_ = true;
};

}  // namespace tvec::durable::postgres
