/// \file
/// Time that runs at any speed, pauses and steps, and a wheel's ticks of it.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <ratio>
#include <utility>

#include "tvec/clock/tick_clock.hpp"
#include "tvec/core/detail/wants.hpp"

namespace tvec {

namespace detail {

/// The units of game time in one of its `Base`: in ninths of a nanosecond all usual frames are
/// whole numbers, because the rates have no other factors than 2 (nine of them), 3 (two) and 5.
inline constexpr std::uint64_t game_parts = 9;

/// A speed: a numerator, with 2^shift below it.
struct speed_fraction {
    std::uint32_t numerator;
    unsigned shift;
};

/// Returns the fraction nearest to the double with these bits, which is not negative: a numerator
/// of 32 bits, and 2^31 or a lower power of two below it. For more it returns the largest fraction.
/// It calculates in integers, which no rounding mode and no wider register can change.
constexpr speed_fraction nearest_fraction(std::uint64_t bits) noexcept {
    constexpr std::uint64_t one = 1023;  // the exponent of 1.0
    const std::uint64_t exponent = bits >> 52;
    if (exponent > one + 31) return {std::numeric_limits<std::uint32_t>::max(), 0};
    // The value is digits * 2^(exponent - one - 52), and the last of 32 digits has 21 behind it.
    const std::uint64_t digits = (bits & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1} << 52;
    const std::uint64_t below = std::min<std::uint64_t>(one - std::min(exponent, one), 40);
    const std::uint64_t rounded = ((digits >> (20 + below)) + 1) >> 1;
    const auto shift = static_cast<unsigned>(one + 31 - std::max(exponent, one));
    if (rounded >> 32 == 0) return {static_cast<std::uint32_t>(rounded), shift};
    // It was rounded up to 2^32.
    if (shift == 0) return {std::numeric_limits<std::uint32_t>::max(), 0};
    return {std::uint32_t{1} << 31, shift - 1};
}

}  // namespace detail

/// The time of a game, a zone or a simulation: an object, of which there may be many. Game time
/// begins at 0, paused. From `resume` on it follows the clock `Base` at a speed. It runs faster or
/// slower, pauses, and is moved by hand.
///
///     tvec::game_clock<> world;
///     tvec::clocked_wheel timers{tvec::game_ticks<std::chrono::milliseconds>(world)};
///     timers.arm_after(creature.respawn, 30s);     // of the game
///     world.resume();                              // the game begins
///     world.set_speed(0.25);                       // slow motion
///     world.pause();                               // no timer fires, and no driver wakes
///
/// All clocks on one `Base` have one type of time_point. Several wheels may share a clock, and each
/// may have its own. The order in which timers fire depends on game time and on the calls made.
///
/// **Whole frames**: a clock that never resumes, and is moved by `step(frame(1))` before each
/// `run`, makes time a part of the input, so that the same calls fire in the same order on every
/// machine. A delay of n frames takes n frames, however it is armed, if a frame is one tick of the
/// wheel or several; a shortest time of 0 of a scaled_wheel has exceptions. On ticks of
/// `std::common_type_t<frame, std::chrono::milliseconds>` periods of milliseconds are exact, too.
/// (On ticks of a millisecond a delay of frames rounds up, and takes a frame more unless it ends on
/// a whole millisecond, as every third frame does at 60 per second.) For that game time counts in
/// ninths of the unit of `Base`, of a nanosecond: frames are whole numbers of them at each rate
/// that divides 9 * 10^9, such as 24, 50, 60, 72, 90, 128, 144 or 240, and at 24000/1001,
/// 30000/1001 and 60000/1001. Game time ends after 32 years.
///
/// **A saved game** holds `now()`, `speed()` and `paused()`. A new clock takes them by `set`,
/// `set_speed` and, unless it was paused, `resume`. What has passed below a unit is not in them: a
/// game that runs on after it was saved, and must stay equal to the loaded one, first calls
/// `set(now())`.
///
/// **Drivers** turn the next wake-up into a time of `Base`. They sleep for the time that is left at
/// the speed of now, and without limit while the clock is paused. A change takes effect on an alarm
/// when it is next set, so change the clock between two sleeps. After a pause or a slower speed the
/// loop may wake once in vain. A loop with an alarm of its own uses `base_time`.
///
/// **A `Base` that goes back** takes game time back with it, at most to the last change. There game
/// time stands still until `Base` is there again. `set(now())` lets it go on at once.
///
/// The clock belongs to the thread of its wheels, and must outlive them. A `mailbox_sender` cannot
/// schedule by a delay on it: `post` a function that does.
template <class Base = std::chrono::steady_clock> class game_clock {
public:
    /// The members that std::chrono requires of a clock, but `now` needs an object.
    /// @{
    using rep = typename Base::duration::rep;
    using period =
        std::ratio_divide<typename Base::duration::period, std::ratio<detail::game_parts>>;
    using duration = std::chrono::duration<rep, period>;
    using time_point = std::chrono::time_point<game_clock>;
    static constexpr bool is_steady = false;
    /// @}

    /// A speed: game time passes numerator / denominator times as fast as `Base`.
    struct fraction {
        std::uint32_t numerator = 1;    ///< 0 if the clock stands still
        std::uint32_t denominator = 1;  ///< never 0
    };

    /// Makes a clock that is paused at 0. From `resume` on it runs as fast as `Base`.
    game_clock() noexcept = default;
    game_clock(const game_clock&) TVEC_WANTS("a reference: wheels refer to their clock");
    game_clock& operator=(const game_clock&) TVEC_WANTS("set(other.now())");

    /// Returns the game time. Reads `Base`, unless the clock is paused.
    time_point now() const noexcept { return paused_ ? from_ : at(Base::now()); }

    /// Begin and end a turn of `Base`: see turn_clock.
    /// @{
    static void begin_turn() noexcept requires detail::shared_by_turns<Base> { Base::begin_turn(); }
    static void end_turn() noexcept requires detail::shared_by_turns<Base> { Base::end_turn(); }
    /// @}

    /// Makes the clock run numerator / denominator times as fast as `Base`. A speed of 0 stops it.
    /// Game time does not jump. It loses less than a unit, a ninth of a nanosecond, at each change.
    /// Requires that both have at most 32 bits, numerator >= 0 and denominator > 0. A release build
    /// stops the clock at a negative speed, and clang refuses a negative constant.
    template <std::integral Numerator, std::integral Denominator = unsigned>
    void set_speed(Numerator numerator, Denominator denominator = 1) noexcept
        TVEC_REFUSES_CONSTANT(numerator < 0, "a speed from 0 on: pause() stops a clock") {
        assert(std::cmp_greater_equal(numerator, 0) && "game time does not run backwards");
        assert(std::in_range<std::uint32_t>(numerator) &&
               "a speed is a fraction with a numerator of 32 bits");
        assert(std::in_range<std::uint32_t>(denominator) && denominator != 0 &&
               "a speed is a fraction with a positive denominator of 32 bits");
        follow_until_now();
        speed_.numerator = std::cmp_less(numerator, 0) ? 0 : static_cast<std::uint32_t>(numerator);
        speed_.denominator = static_cast<std::uint32_t>(denominator);
    }

    /// Makes the clock run `speed` times as fast as `Base`, for slow motion as `set_speed(0.5)`.
    /// The speed becomes the nearest fraction with a numerator of 32 bits and 2^31 or a lower power
    /// of two below it, the same on every machine: 0.5 and 1.5 are exact. A speed from 1 on changes
    /// by at most 2^-32 of itself, and a lower one by at most 2^-32: 0.1 by less than 10^-9. A
    /// speed below 2^-32 stops the clock. Requires 0 <= speed < 2^32. A release build stops the
    /// clock at a negative speed, and takes 2^32 - 1 for one that is too high.
    template <std::floating_point F>
    void set_speed(F speed) noexcept
        TVEC_REFUSES_CONSTANT(speed < 0, "a speed from 0 on: pause() stops a clock") {
        static_assert(std::numeric_limits<double>::digits == 53,
                      "game_clock reads the bits of an IEEE 754 double");
        assert(speed >= 0 && "game time does not run backwards");
        assert(speed < 4'294'967'296.0 && "a speed has at most 32 bits before its point");
        const double number = speed > 0 ? static_cast<double>(speed) : 0;
        const auto nearest = detail::nearest_fraction(__builtin_bit_cast(std::uint64_t, number));
        set_speed(nearest.numerator, std::uint32_t{1} << nearest.shift);
    }

    /// Returns the speed as a fraction that `set_speed` makes the same again, on a clock that is
    /// paused too.
    fraction speed() const noexcept { return speed_; }

    /// Stops the clock. No-op if it is paused.
    void pause() noexcept {
        follow_until_now();
        paused_ = true;
    }
    /// Lets the clock go on at its speed. No-op if it is not paused.
    void resume() noexcept {
        if (paused_) base_ = Base::now();
        paused_ = false;
    }
    /// Returns whether the clock is paused, as it is before the first `resume`.
    bool paused() const noexcept { return paused_; }

    /// Moves the clock forward by `d`, whether it is paused or not, and whatever its speed is.
    /// Saturates. A frame is exact: see above. What is no whole number of units rounds up. Slow
    /// motion of whole frames is a shorter step, the same on every machine:
    /// `step(duration(frame(1)) * percent / 100)`. Requires d >= 0.
    template <detail::countable Rep, class Period>
    void step(std::chrono::duration<Rep, Period> d) noexcept {
        assert(d >= d.zero() && "time is added, and never subtracted");
        follow_until_now();
        const detail::tick_origin<game_clock> origin(from_);
        from_ = origin.after(detail::units_to_cover<period>(d, origin.until_the_end()));
    }
    void step(detail::anything) noexcept TVEC_WANTS("a duration: frame(1) or 16ms, not 0.016s");

    /// Makes the clock show `t`, from which it goes on. For a game that is loaded or rolled back: a
    /// wheel on a clock that was set back fires nothing until the clock is there again, so delays
    /// armed meanwhile may be longer by that, unless a snapshot takes it back too.
    void set(time_point t) noexcept {
        if (!paused_) base_ = Base::now();
        from_ = t;
    }

    /// Returns the first time of `Base` at which the clock shows `t` or later, if nothing changes.
    /// Returns time_point::max() if the clock stands still before `t`, and a past time if it shows
    /// `t` already.
    typename Base::time_point base_time(time_point t) const noexcept {
        if (t <= from_) return std::min(base_, Base::now());  // `Base` may have gone back
        if (paused_ || speed_.numerator == 0) return Base::time_point::max();
        const detail::tick_origin<Base> base(base_);
        const std::uint64_t left = detail::tick_origin<game_clock>(from_).until(t);
        return base.after(base_units(left, base.until_the_end()));
    }

private:
    // Does nothing while `Base` is behind `base_`: it would pass the same time twice.
    void follow_until_now() noexcept {
        if (paused_) return;
        const auto t = Base::now();
        if (t <= base_) return;
        from_ = at(t);
        base_ = t;
    }
    time_point at(typename Base::time_point t) const noexcept {
        const detail::tick_origin<game_clock> origin(from_);
        const std::uint64_t since = detail::tick_origin<Base>(base_).until(t);
        return origin.after(game_units(since, origin.until_the_end()));
    }

    // Both conversions are exact, in two parts whose products fit in 64 bits.

    // Returns the units that pass in `since` units of `Base`, rounded down, at most `limit`.
    std::uint64_t game_units(std::uint64_t since, std::uint64_t limit) const noexcept {
        using detail::game_parts, detail::scale;
        const std::uint64_t num = speed_.numerator, den = speed_.denominator;
        constexpr auto down = detail::rounding::down;
        const std::uint64_t laps = scale(since / den, num * game_parts, 1, down, limit);
        return laps + scale(since % den * num, game_parts, den, down, limit - laps);
    }
    // Returns the units of `Base` in which `left` units pass, rounded up, at most `limit`.
    std::uint64_t base_units(std::uint64_t left, std::uint64_t limit) const noexcept {
        using detail::game_parts, detail::rounding, detail::scale;
        const std::uint64_t num = speed_.numerator, den = speed_.denominator;
        const std::uint64_t lap = num * game_parts;
        const std::uint64_t laps = scale(left / lap, den, 1, rounding::down, limit);
        const std::uint64_t rest = scale(left % lap, den, game_parts, rounding::up, num * den);
        return laps + scale(rest, 1, num, rounding::up, limit - laps);
    }

    // The clock shows `from_` at the time `base_`.
    time_point from_{};
    typename Base::time_point base_ = Base::now();
    fraction speed_;
    bool paused_ = true;
};

/// Ticks of a game_clock, for a clocked_wheel. Tick 0 begins at game time 0. A tick is a whole
/// number of units of the clock, which 1/7 s is not. Everything else is as in tick_clock.
template <class Tick, class Base = std::chrono::steady_clock>
class game_ticks : public tick_clock<Tick, game_clock<Base>> {
    using ticks = tick_clock<Tick, game_clock<Base>>;
    using units_per_tick =
        std::ratio_divide<typename Tick::period, typename game_clock<Base>::period>;
    static_assert(units_per_tick::den == 1,
                  "a tick of game time is whole ninths of a nanosecond, as at 60 or 144 frames a "
                  "second: at other rates count frames on a timer_wheel");

public:
    using typename ticks::time_point;

    /// Makes ticks of the clock `of`, which must outlive them.
    explicit game_ticks(const game_clock<Base>& of) noexcept : ticks(time_point{}), clock_(&of) {}
    explicit game_ticks(const game_clock<Base>&&) TVEC_WANTS("a clock that outlives it");
    game_ticks() TVEC_WANTS("a clock: clocked_wheel timers{game_ticks<milliseconds>(world)}");

    /// Returns the current tick.
    jiffies now() const noexcept { return ticks::floor(reading()); }
    /// Returns the time of the clock.
    time_point reading() const noexcept { return clock_->now(); }
    /// Returns the time of `Base` for which an alarm is set: see game_clock.
    typename Base::time_point base_time(time_point t) const noexcept {
        return clock_->base_time(t);
    }

private:
    const game_clock<Base>* clock_;
};

}  // namespace tvec
