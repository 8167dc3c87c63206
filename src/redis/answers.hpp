/// \file
/// What the functions on the server answer (functions.lua), as the store gives it on.
#pragma once

#include <charconv>
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

inline stored_timer timer_of(fields& f) {
    stored_timer t;
    t.id = f.text();
    t.due = time_of(f.number());
    t.every = duration(f.number());
    t.attempt = attempt_of(f);
    t.ended = attempt_of(f);
    t.body = f.text();
    return t;
}

inline end_reply end_of(fields& f) {
    end_reply e;
    e.was_current = f.number() == 1;
    if (const long long next = f.number(); next != 0) e.next = time_of(next);
    return e;
}

inline place place_of(fields& f) {
    place p;
    p.id = f.text();
    p.due = time_of(f.number());
    return p;
}

// Of what is not granted, functions.lua has 0 attempts, and why in place of the next.
inline claimed claim_of(fields& f) {
    using enum claimed::kind;
    claimed c;
    c.timer.attempt = attempt_of(f);
    c.timer.ended = attempt_of(f);
    c.timer.due = time_of(f.number());
    c.timer.every = duration(f.number());
    c.timer.body = f.text();
    const auto why = c.timer.ended;
    c.what = c.timer.attempt != 0 ? granted : why == 1 ? early : why == 2 ? dead : gone;
    return c;
}

// All that is left of an answer.
template <class Parse> auto rest(fields& f, Parse parse) {
    std::vector<decltype(parse(f))> items;
    while (!f.at_end()) items.push_back(parse(f));
    return items;
}

/// What was put into a shard, as its owner is told: "due id". Nothing if it is no such text.
inline std::optional<place> hint_of(std::string_view text) {
    long long due = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), due);
    const auto digits = static_cast<std::size_t>(end - text.data());
    const bool is_due = error == std::errc{} && due >= 0 && time_of(due) <= latest_due;
    if (!is_due || digits + 1 >= text.size()) return std::nullopt;
    return place{time_of(due), std::string(text.substr(digits + 1))};
}

}  // namespace tvec::durable::redis
