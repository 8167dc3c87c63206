/// \file
/// Durations of callbacks: the longest one, and the number over a limit.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tvec {

/// Measures the callbacks of a wheel:
///
///     tvec::callback_meter slow(2ms);
///     timers.run_watched(slow, 256);                // in place of timers.run(256)
///     if (slow.over() != 0) complain(slow.longest());
///
/// A callback_meter is a watch for timer_wheel::advance_watched. A call without a watch pays
/// nothing. To end a turn of the loop as well, call it in a watch of your own:
///
///     timers.run_watched([&](auto& fire) { slow(fire); return clock::now() < end; });
///
/// Costs two readings of `Clock` per callback (about 60 ns). For a distribution, record in a
/// lateness_histogram instead.
template <class Clock = std::chrono::steady_clock> class callback_meter {
public:
    using duration = typename Clock::duration;  ///< in units of the clock

    /// Makes an empty meter. over() counts callbacks that take longer than `limit`.
    explicit callback_meter(duration limit) noexcept : limit_(limit) {}

    /// Calls fire() and measures it, also if it throws.
    template <class Fire> void operator()(const Fire& fire) {
        const reading begun(*this);
        fire();
    }

    /// Returns how many callbacks were measured.
    std::uint64_t count() const noexcept { return count_; }

    /// Returns how many callbacks took longer than limit().
    std::uint64_t over() const noexcept { return over_; }

    /// Returns the longest duration; 0 if there is none.
    duration longest() const noexcept { return longest_; }

    /// Returns the limit.
    duration limit() const noexcept { return limit_; }

    /// Forgets all measurements. The limit stays.
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
