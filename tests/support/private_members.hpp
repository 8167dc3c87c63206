// The private members of a wheel and its timers, for tests that read whole states or damage them.
// Only this file of the tests depends on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tvec/core/timer_wheel.hpp"
#include "tvec/extra/snapshot.hpp"

// The members of a wheel: `wheel.*member(of_wheel::now{})`. An explicit instantiation may name
// private members.
namespace support::of_wheel {

template <class Tag, auto Member> struct reveal {
    friend constexpr auto member(Tag) { return Member; }
};

#define SUPPORT_REVEAL(type, name)                                                                 \
    struct name {                                                                                  \
        friend constexpr auto member(name);                                                        \
    };                                                                                             \
    template struct reveal<name, &type::name##_>;

SUPPORT_REVEAL(tvec::timer_wheel, now)
SUPPORT_REVEAL(tvec::timer_wheel, target)
SUPPORT_REVEAL(tvec::timer_wheel, agenda)
SUPPORT_REVEAL(tvec::timer_wheel, levels)
SUPPORT_REVEAL(tvec::detail::agenda, quiet)
SUPPORT_REVEAL(tvec::detail::agenda, wake)
SUPPORT_REVEAL(tvec::detail::agenda, above)
SUPPORT_REVEAL(tvec::detail::agenda, emptying)
SUPPORT_REVEAL(tvec::detail::levels, sentinel)

#undef SUPPORT_REVEAL

// A member of a wheel, or of its agenda, by name.
template <class Wheel, class Name> auto& of(Wheel& wheel, Name name) {
    if constexpr (requires { wheel.*member(name); })
        return wheel.*member(name);
    else
        return wheel.*member(agenda{}).*member(name);
}

// The next ticks of its slots above `level`.
template <class Wheel> auto& ticks_above(Wheel& wheel, unsigned level) {
    return of(wheel, above{})[level];
}

struct counts {
    friend constexpr auto member(counts);
};
template struct reveal<counts, &tvec::detail::levels::counts_>;
struct saved_words {
    friend constexpr auto member(saved_words);
};
template struct reveal<saved_words, &tvec::snapshot::words_>;

// The wheel as words, to compare and overwrite one by one.
inline std::vector<std::uint64_t> words_of(const tvec::timer_wheel& wheel) {
    std::vector<std::uint64_t> words(sizeof wheel / sizeof(std::uint64_t));
    std::memcpy(words.data(), static_cast<const void*>(&wheel), sizeof wheel);
    return words;
}
inline void set_word(tvec::timer_wheel& wheel, std::size_t i, std::uint64_t value) {
    std::memcpy(reinterpret_cast<std::byte*>(&wheel) + i * sizeof value, &value, sizeof value);
}

}  // namespace support::of_wheel

namespace support {

// Changes the count of each slot that counts `from` links to `to`.
inline void set_counts(tvec::timer_wheel& wheel, tvec::detail::link_count from,
                       tvec::detail::link_count to) {
    auto& levels = wheel.*member(of_wheel::levels{});
    for (auto& n : levels.*member(of_wheel::counts{}))
        if (n == from) n = to;
}

}  // namespace support

// The words of a timer, as laid out in timer.hpp.
namespace support::of_timer {

enum word : std::size_t {
    next = offsetof(tvec::detail::link, next),
    back = offsetof(tvec::detail::link, back),
    expires = sizeof(tvec::detail::link),
};

template <class T> T read(const tvec::timer& t, word w) {
    T value;
    std::memcpy(&value, reinterpret_cast<const std::byte*>(&t) + w, sizeof value);
    return value;
}
template <class T> void write(tvec::timer& t, word w, T value) {
    std::memcpy(reinterpret_cast<std::byte*>(&t) + w, &value, sizeof value);
}

// The chain links of a timer.
inline tvec::detail::link* link_of(tvec::timer& t) {
    return reinterpret_cast<tvec::detail::link*>(&t);
}

}  // namespace support::of_timer
