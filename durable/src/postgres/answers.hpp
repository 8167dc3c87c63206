/// \file
/// The rows of the functions in the schema (schema.sql), as results of the store.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tvec/durable/store.hpp"
#include "values.hpp"

namespace tvec::durable::postgres {

// Reads a number from 0 to `most`.
inline std::uint64_t count_of(row& r,
                              std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
    const std::int64_t n = r.integer();
    if (n < 0 || n > most) r.reject();
    return r.is_whole() ? static_cast<std::uint64_t>(n) : 0;
}

// Reads milliseconds: a period, or a time since 1970.
inline duration duration_of(row& r) {
    return duration(count_of(r, latest_due.time_since_epoch().count()));
}
inline time_point time_of(row& r) { return time_point(duration_of(r)); }

inline std::uint32_t attempt_of(row& r) {
    return static_cast<std::uint32_t>(count_of(r, std::numeric_limits<std::uint32_t>::max()));
}

// Reads the columns of a timer from its period on.
inline void read_timer(stored_timer& t, row& r) {
    t.every = duration_of(r);
    t.attempt = attempt_of(r);
    t.ended = attempt_of(r);
    t.spent = attempt_of(r);
    t.body = r.bytes();
    t.plan = r.bytes();
    t.history = r.bytes();
    t.verdict = r.bytes();
}

inline stored_timer listed_timer(row& r) {
    stored_timer t;
    t.id = r.bytes();
    t.due = time_of(r);
    read_timer(t, r);
    return t;
}

// Reads a row of `claims`, after its number.
inline standing read_claimed(std::vector<claimed>& all, std::size_t part, row* r) {
    using enum claimed::kind;
    claimed& c = all[part];
    if (r == nullptr) return standing::done;  // gone
    constexpr claimed::kind kinds[] = {gone, granted, early, later};
    const std::int64_t state = r->integer();
    if (state == 4) return standing::fenced;
    if (state < 1 || state > 3) {
        r->reject();
        return standing::unknown;
    }
    c.what = kinds[state];
    if (c.what == granted || c.what == early) c.timer.due = time_of(*r);
    if (c.what == granted) read_timer(c.timer, *r);
    if (c.what == granted && c.timer.attempt == 0) r->reject();
    return standing::done;
}

inline void read_end(std::vector<end_reply>& all, std::size_t part, row* r) {
    if (r == nullptr) return;
    r->integer();
    all[part].was_current = true;
    if (!r->is_null()) all[part].next = time_of(*r);
}

// Reads one of several rows of `takes`. A place without an id means that another process owns the
// shard.
inline standing read_place(std::vector<place>& all, std::size_t, row* r) {
    if (r == nullptr) return standing::done;
    place p;
    p.due = time_of(*r);
    if (r->is_null()) return standing::fenced;
    p.id = r->bytes();
    if (p.id.empty() || p.id.size() > longest_id) r->reject();
    all.push_back(std::move(p));
    return standing::done;
}

// Reads a row of `ends` or `spends`: true if there is one.
inline standing read_flag(bool& is_current, std::size_t, row* r) {
    is_current = r != nullptr;
    constexpr std::int64_t is_fenced = 3;
    return r != nullptr && r->integer() == is_fenced ? standing::fenced : standing::done;
}

inline put_result read_put(row* r) {
    const char letter = r->letter();
    return letter == 's'   ? put_result::stored
           : letter == 'd' ? put_result::dead
                           : put_result::there_already;
}

// Reads the number that a pair of `beat` has: see schema.sql.
template <class Number> void read_pair(Number& n, std::size_t, row* r) {
    n = r == nullptr ? 0 : static_cast<Number>(count_of(*r));
}

// Parses a hint, "due:id" with an id in hexadecimal digits. Returns nothing for any other text.
inline std::optional<place> hint_of(std::string_view word) {
    std::int64_t due = 0;
    const char* const end = word.data() + word.size();
    const auto [colon, error] = std::from_chars(word.data(), end, due);
    const auto digits = static_cast<std::size_t>(end - colon);
    const bool is_due = error == std::errc{} && due >= 0 && time_point(duration(due)) <= latest_due;
    const bool is_id = digits >= 3 && digits % 2 == 1 && digits / 2 <= longest_id;
    if (!is_due || !is_id || *colon != ':') return std::nullopt;
    place p{time_point(duration(due)), {}};
    for (const char* c = colon + 1; c != end; c += 2) {
        unsigned char byte = 0;
        if (std::from_chars(c, c + 2, byte, 16).ptr != c + 2) return std::nullopt;
        p.id += static_cast<char>(byte);
    }
    return p;
}

}  // namespace tvec::durable::postgres
