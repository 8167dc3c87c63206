// Fuzzing the way from durations and time points to ticks and back, for ticks and clocks of every
// kind, against the same arithmetic in 128 bits.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <ratio>

#include "support/divergence.hpp"
#include "tvec/clock/clocked_wheel.hpp"

namespace {

using support::expect;
using tvec::jiffies;

__extension__ using wide = unsigned __int128;

constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();

// Reads numbers from the bytes; missing ones are 0.
struct input {
    std::int64_t origin = 0;
    std::int64_t time = 0;
    std::int64_t delay = 0;
    std::uint64_t tick = 0;
};

// A clock that counts in `Period` and reads what it was set to.
template <class Period> struct set_clock {
    using duration = std::chrono::duration<std::int64_t, Period>;
    using rep = std::int64_t;
    using period = Period;
    using time_point = std::chrono::time_point<set_clock>;
    static constexpr bool is_steady = false;
    static time_point now() noexcept { return now_; }
    static inline time_point now_{};
};

std::uint64_t at_most(wide value, std::uint64_t limit) {
    return value < limit ? static_cast<std::uint64_t>(value) : limit;
}

template <class R> wide scaled(wide count, bool up) {
    const auto den = static_cast<wide>(R::den);
    return (count * static_cast<wide>(R::num) + (up ? den - 1 : 0)) / den;
}

std::int64_t plus(std::int64_t a, std::uint64_t b) {
    const auto room = static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(a);
    return b <= room ? static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + b) : last;
}

// The same ticks, chosen at run time.
template <class TickPeriod, class Period>
struct chosen_ticks : tvec::runtime_tick_clock<set_clock<Period>> {
    using base = tvec::runtime_tick_clock<set_clock<Period>>;
    explicit chosen_ticks(typename base::time_point origin)
        : base(std::chrono::duration<std::int64_t, TickPeriod>(1), origin) {}
};

template <class TickPeriod, class Period>
using fixed_ticks =
    tvec::tick_clock<std::chrono::duration<std::int64_t, TickPeriod>, set_clock<Period>>;

template <class TickPeriod, class Period, template <class, class> class Ticks = fixed_ticks>
struct conversions {
    using clock = set_clock<Period>;
    using ticks = Ticks<TickPeriod, Period>;
    using point = typename clock::time_point;
    using span = typename clock::duration;
    using ticks_per_unit = std::ratio_divide<Period, TickPeriod>;
    using units_per_tick = std::ratio_divide<TickPeriod, Period>;

    static point at(std::int64_t count) { return point(span(count)); }

    static void check(const input& in) {
        const ticks t(at(in.origin));
        check_readings(t, in);
        check_starts(t, in);
        check_delays(t, in);
    }

    static void check_readings(const ticks& t, const input& in) {
        const wide since = in.time <= in.origin ? 0
                                                : static_cast<std::uint64_t>(in.time) -
                                                      static_cast<std::uint64_t>(in.origin);
        const jiffies down = at_most(scaled<ticks_per_unit>(since, false), tvec::never);
        const jiffies up = at_most(scaled<ticks_per_unit>(since, true), tvec::never);
        expect(t.floor(at(in.time)) == down, "floor ", t.floor(at(in.time)), ", exactly ", down);
        expect(t.ceil(at(in.time)) == up, "ceil ", t.ceil(at(in.time)), ", exactly ", up);
        clock::now_ = at(in.time);
        expect(t.now() == down, "now ", t.now(), ", exactly ", down);
    }

    static void check_starts(const ticks& t, const input& in) {
        const jiffies tick = in.tick % (tvec::never + 1);
        const auto since = at_most(scaled<units_per_tick>(tick, true), ~std::uint64_t{0});
        const std::int64_t exact = plus(in.origin, since);
        const auto start = t.start_of(tick).time_since_epoch().count();
        expect(start == exact, "tick ", tick, " starts at ", start, ", exactly ", exact);
    }

    static void check_delays(const ticks& t, const input& in) {
        const auto cover = in.delay <= 0 ? 0 : static_cast<std::uint64_t>(in.delay);
        const jiffies covered = at_most(scaled<ticks_per_unit>(cover, true), tvec::never);
        expect(t.ticks_to_cover(span(in.delay)) == covered, "covers ", covered);
        clock::now_ = at(in.time);
        tvec::clocked_wheel<ticks> wheel(t);
        arm_in<std::nano>(wheel, in);
        arm_in<std::milli>(wheel, in);
        arm_in<std::ratio<3600>>(wheel, in);
        arm_in<std::ratio<1, 60>>(wheel, in);
    }

    // A delay in any unit, from now: never early, and exact.
    template <class Unit> static void arm_in(tvec::clocked_wheel<ticks>& wheel, const input& in) {
        const ticks& t = wheel.ticks();
        tvec::timer timer;
        wheel.arm_after(timer, std::chrono::duration<std::int64_t, Unit>(in.delay));
        using in_units = std::ratio_divide<Unit, Period>;
        const wide delay = in.delay <= 0 ? 0 : scaled<in_units>(static_cast<wide>(in.delay), true);
        const auto deadline = at(plus(in.time, at_most(delay, static_cast<std::uint64_t>(last))));
        const jiffies exact = std::min(t.ceil(deadline), tvec::never);
        expect(timer.expires() == exact, "armed for ", timer.expires(), ", exactly ", exact);
        const jiffies due = std::clamp(exact, wheel.wheel().now() + 1, tvec::never);
        expect(wheel.wheel().next_expiry().value_or(tvec::never) == due, "due at ",
               wheel.wheel().next_expiry().value_or(tvec::never), ", exactly ", due);
        const auto start = t.start_of(exact);
        const bool saturated = exact == tvec::never || start.time_since_epoch().count() == last;
        expect(saturated || start >= deadline, "early");
    }
};

input decode(const std::uint8_t* data, std::size_t size) {
    input in;
    std::memcpy(&in, data, std::min(size, sizeof in));
    return in;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const input in = decode(data, size);
    try {
        conversions<std::milli, std::nano>::check(in);
        conversions<std::ratio<1, 10'000>, std::nano>::check(in);
        conversions<std::ratio<1, 60>, std::nano>::check(in);
        conversions<std::ratio<1, 44'100>, std::micro>::check(in);
        conversions<std::ratio<1>, std::milli>::check(in);
        conversions<std::nano, std::nano>::check(in);
        conversions<std::nano, std::ratio<1>>::check(in);
        conversions<std::ratio<7, 3>, std::ratio<5, 11>>::check(in);
        conversions<std::milli, std::nano, chosen_ticks>::check(in);
        conversions<std::nano, std::nano, chosen_ticks>::check(in);
        conversions<std::ratio<86'399>, std::milli, chosen_ticks>::check(in);
    } catch (const support::divergence& e) {
        std::fprintf(stderr, "a conversion is not exact: %s\n", e.what());
        std::abort();
    }
    return 0;
}
