// The times of a day that a rule allows: each hour with each minute and each second.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <optional>

namespace tvec::durable::calendar {

// A set of numbers from 0 to 63.
class numbers {
public:
    constexpr numbers() = default;

    constexpr void add(int n) { bits_ |= 1ULL << n; }
    constexpr bool has(int n) const { return (bits_ >> n & 1) != 0; }
    // Returns the first number at `n` or later, or 64. `n` is at most 63.
    constexpr int at_or_after(int n) const {
        assert(n >= 0 && n < 64 && "a place in the set");
        const std::uint64_t rest = bits_ >> n;
        return rest == 0 ? 64 : n + std::countr_zero(rest);
    }
    constexpr int first() const { return at_or_after(0); }

private:
    std::uint64_t bits_ = 0;
};

// No set is empty when it is asked.
struct times_of_day {
    numbers hours{};
    numbers minutes{};
    numbers seconds{};

    // Returns the first time at `t` seconds of the day or later.
    std::optional<int> at_or_after(int t) const {
        const int h = t / 3600, m = t / 60 % 60, s = t % 60;
        if (hours.has(h)) {
            if (minutes.has(m) && seconds.at_or_after(s) < 60)
                return joined(h, m, seconds.at_or_after(s));
            if (const int later = minutes.at_or_after(m + 1); later < 60)
                return joined(h, later, seconds.first());
        }
        if (const int later = hours.at_or_after(h + 1); later < 24)
            return joined(later, minutes.first(), seconds.first());
        return std::nullopt;
    }

private:
    static constexpr int joined(int h, int m, int s) { return h * 3600 + m * 60 + s; }
};

}  // namespace tvec::durable::calendar
