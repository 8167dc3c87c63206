/// \file
/// How long callbacks take: the longest of them, and how many took longer than they should.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tvec {

/// Measures the callbacks of a wheel, for who asks for it:
///
///     tvec::callback_meter slow(2ms);
///     timers.run_watched(slow, 256);                // in place of timers.run(256)
///     if (slow.over() != 0) complain(slow.longest());
///
/// It is a watch of timer_wheel::advance_watched. Programs that do not pass one pay nothing. To end
/// a turn of the loop as well, put it into a watch of your own:
///
///     timers.run_watched([&](auto& fire) { slow(fire); return clock::now() < end; });
///
/// Costs two readings of `Clock` per callback (about 60 ns). For a distribution, record in a
/// lateness_histogram instead.
template <class Clock = std::chrono::steady_clock> class callback_meter {
public:
    using duration = typename Clock::duration;  ///< in units of the clock

    /// Makes a meter that has measured nothing. over() counts callbacks longer than `limit`.
    explicit callback_meter(duration limit) noexcept : limit_(limit) {}

    /// Calls fire(), and measures it, also if it throws.
    template <class Fire> void operator()(const Fire& fire) {
        const reading begun(*this);
        fire();
    }

    /// How many were measured.
    std::uint64_t count() const noexcept { return count_; }

    /// How many of them took longer than limit().
    std::uint64_t over() const noexcept { return over_; }

    /// Returns the time of the longest callback, or 0 if there is none.
    duration longest() const noexcept { return longest_; }

    /// Returns the time that no callback should exceed.
    duration limit() const noexcept { return limit_; }

    /// Forgets what was measured, to begin anew.
    void reset() noexcept { *this = callback_meter(limit_); }

private:
    struct reading {
        explicit reading(callback_meter& m) noexcept : meter(m) {}
        ~reading() { meter.note(Clock::now() - begin); }
        reading(const reading&) = delete;
        reading& operator=(const reading&) = delete;

        callback_meter& meter;
        typename Clock::time_point begin = Clock::now();
    };

    void note(duration took) noexcept {
        ++count_;
        over_ += took > limit_;
        longest_ = std::max(longest_, took);
    }

    duration limit_;
    duration longest_{};
    std::uint64_t count_ = 0;
    std::uint64_t over_ = 0;
};

}  // namespace tvec
