/// \file
/// The answers of the functions on the server (functions.lua), as results of the store.
#pragma once

#include <cassert>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "reply.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable::redis {

inline time_point time_of(long long ms) { return time_point(duration(ms)); }

inline std::uint32_t attempt_of(fields& f) {
    const long long n = f.number();
    if (n > std::numeric_limits<std::uint32_t>::max()) f.reject();
    return static_cast<std::uint32_t>(n);
}

// Reads an id of as many bytes as put allows: the functions set others aside.
inline std::string id_of(fields& f) {
    const std::string_view id = f.view();
    if (id.empty() || id.size() > longest_id) f.reject();
    return std::string(id);
}

inline stored_timer timer_of(fields& f) {
    stored_timer t;
    t.id = id_of(f);
    t.due = time_of(f.number());
    t.every = duration(f.number());
    t.attempt = attempt_of(f);
    t.ended = attempt_of(f);
    t.spent = attempt_of(f);
    t.body = f.text();
    t.plan = f.text();
    t.history = f.text();
    t.verdict = f.text();
    return t;
}

// The answer is 0 for an attempt that is not the current one, 1 for a timer that was removed, and
// otherwise 2 + its next deadline.
inline end_reply end_of(fields& f) {
    const long long n = f.number();
    if (n < 2) return {n == 1, {}};
    return {true, time_of(n - 2)};
}

inline place place_of(fields& f) {
    place p;
    p.id = id_of(f);
    p.due = time_of(f.number());
    return p;
}

// An entry of a timer with an open attempt, as functions.lua packs it. Numbers are little-endian.
// If it is marked, three lengths and the texts of these lengths are between the head and the body.
class packed_timer {
public:
    static constexpr std::size_t head_size = 45;

    explicit packed_timer(std::string_view bytes) : bytes_(bytes) {
        assert(bytes.size() >= head_size && "an entry holds a whole head");
    }
    stored_timer timer() const {
        assert(is_right() && "only a right entry is read");
        stored_timer t;
        t.attempt = static_cast<std::uint32_t>(number(1, 4));
        t.ended = static_cast<std::uint32_t>(number(5, 4));
        t.spent = static_cast<std::uint32_t>(number(9, 4));
        t.every = duration(number(13, 8));
        t.due = time_of(number(21, 8));
        if (has_texts()) {
            t.plan = bytes_.substr(head_size + lengths_size, length(0));
            t.history = bytes_.substr(head_size + lengths_size + length(0), length(1));
            t.verdict = bytes_.substr(body_at() - length(2), length(2));
        }
        t.body = bytes_.substr(body_at());
        return t;
    }
    // Returns true if the attempt, the times and the texts are in range, so arithmetic cannot
    // overflow.
    bool is_right() const {
        if (has_texts() && (bytes_.size() < head_size + lengths_size || bytes_.size() < body_at()))
            return false;
        return number(1, 4) != 0 && is_time(number(13, 8)) && is_time(number(21, 8));
    }

private:
    static constexpr std::size_t lengths_size = 12;

    static bool is_time(long long ms) { return ms >= 0 && ms < fields::limit; }
    bool has_texts() const { return (static_cast<unsigned char>(bytes_[0]) & 8U) != 0; }
    std::size_t length(std::size_t text) const {
        return static_cast<std::size_t>(number(head_size + 4 * text, 4));
    }
    std::size_t body_at() const {
        return has_texts() ? head_size + lengths_size + length(0) + length(1) + length(2)
                           : head_size;
    }
    long long number(std::size_t at, std::size_t size) const {
        std::uint64_t n = 0;
        for (std::size_t i = size; i-- > 0;)
            n = n << 8 | static_cast<unsigned char>(bytes_[at + i]);
        return static_cast<long long>(n);
    }

    std::string_view bytes_;
};

// The answer is the entry of a granted timer, or a digit that is the reason. The time of the claim
// follows the digit of an early one.
inline claimed claim_of(fields& f) {
    using enum claimed::kind;
    constexpr claimed::kind reasons[] = {gone, early, later, damaged};
    const std::string_view text = f.view();
    claimed c;
    if (text.size() >= packed_timer::head_size) {
        const packed_timer packed(text);
        if (packed.is_right()) return {granted, packed.timer()};
        f.reject();
        return c;
    }
    const bool is_reason = !text.empty() && text[0] >= '0' && text[0] <= '3';
    if (!is_reason) f.reject();
    if (is_reason) c.what = reasons[text[0] - '0'];
    if (c.what == early) {
        const long long due = fields::parsed(text.substr(1));
        if (due < 0 || due >= fields::limit)
            f.reject();
        else
            c.timer.due = time_of(due);
    }
    return c;
}

// Parses the rest of an answer.
template <class Parse> auto rest(fields& f, Parse parse) {
    std::vector<decltype(parse(f))> items;
    while (!f.at_end()) items.push_back(parse(f));
    return items;
}

/// Parses a hint, "due id": a timer that was put into a shard. Returns nothing for any other text.
inline std::optional<place> hint_of(std::string_view text) {
    long long due = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), due);
    const auto digits = static_cast<std::size_t>(end - text.data());
    const bool is_due = error == std::errc{} && due >= 0 && time_of(due) <= latest_due;
    const bool is_id = digits + 1 < text.size() && text.size() - digits - 1 <= longest_id;
    if (!is_due || !is_id) return std::nullopt;
    return place{time_of(due), std::string(text.substr(digits + 1))};
}

}  // namespace tvec::durable::redis
