/// \file
/// A clock that reads the processor's counter.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "tvec/core/detail/broken_promise.hpp"
#include "tvec/core/detail/export.hpp"

namespace tvec {

namespace detail {

/// A stretch of counts, and their times in nanoseconds.
struct counter_line {
    std::uint64_t first = 0;   ///< the count at which it begins
    std::uint64_t counts = 0;  ///< its length
    std::uint64_t rate = 0;    ///< nanoseconds per count, times 2^32
    std::int64_t begin = 0;    ///< the time of its first count

    bool holds(std::uint64_t count) const noexcept { return count - first < counts; }
    std::int64_t at(std::uint64_t count) const noexcept {
        return begin + static_cast<std::int64_t>(((count - first) * rate) >> 32);
    }
};

/// A count, and two readings of the kernel's clock around it.
struct counter_sample {
    std::int64_t before;
    std::uint64_t count;
    std::int64_t after;
};

/// Makes lines of samples, whose times never go back. A line lasts a millisecond. It begins at the
/// kernel's time, or where the last one ended if that is later: then it runs slower, by at most an
/// eighth, until both meet. A rate is measured between two samples, and used only if it agrees with
/// the one before, and is that of a counter: one that stands still, goes back or is set far ahead
/// has none. A suspend or a counter that changes never yields a rate.
struct counter_calibration {
    static constexpr std::int64_t length = 1'000'000;           ///< of a line, in nanoseconds
    static constexpr std::int64_t widest = 500;                 ///< sample of which a line is made
    static constexpr double lowest = 0x1p20, highest = 0x1p44;  ///< rates, of 4 THz and 240 kHz

    /// Returns the time of a sample, which is not before any time that was shown. Replaces the line
    /// by a new one, or by none.
    std::int64_t step(const counter_sample& s) noexcept {
        const std::int64_t time = s.before + (s.after - s.before) / 2;
        shown = std::max({shown, line.at(line.first + line.counts), time});
        line = {.begin = shown};
        if (s.after - s.before > widest || time - last_time < length) return shown;
        const double last_rate = rate, counts = static_cast<double>(s.count - last_count);
        rate = static_cast<double>(time - last_time) * 0x1p32 / std::max(counts, 1.);
        const bool is_steady = std::abs(rate - last_rate) <= rate / 1024;
        if (is_steady && rate > lowest && rate < highest) {
            const double ahead = static_cast<double>(shown - time) / length;
            line.first = s.count;
            line.counts = static_cast<std::uint64_t>(length * 0x1p32 / rate);
            line.rate = static_cast<std::uint64_t>(rate * (1 - std::min(ahead, 1. / 8)));
        }
        last_time = time;
        last_count = s.count;
        return shown;
    }

    counter_line line;
    std::int64_t shown = 0;  ///< the latest time that was shown, but by the line
    std::int64_t last_time = 0;
    std::uint64_t last_count = 0;
    double rate = 0;
};

/// Reads the counter. Does not wait for earlier instructions.
inline std::uint64_t read_counter() noexcept {
    std::uint64_t count = 0;
#if defined __x86_64__
    count = __builtin_ia32_rdtsc();
#elif defined __aarch64__
    asm volatile("mrs %0, cntvct_el0" : "=r"(count));
#endif
    return count;
}

/// The line that all threads read, behind a sequence lock. A test has atomics of its own.
template <template <class> class Atomic> struct line_behind_a_lock {
    /// Returns the line; none while it is replaced.
    counter_line load() const noexcept {
        counter_line line;
        const std::uint64_t begun = version.load(std::memory_order_acquire);
        line.first = first.load(std::memory_order_acquire);
        line.counts = counts.load(std::memory_order_acquire);
        line.rate = rate.load(std::memory_order_acquire);
        line.begin = begin.load(std::memory_order_acquire);
        if (begun % 2 != 0 || version.load(std::memory_order_relaxed) != begun) line.counts = 0;
        return line;
    }

    /// Replaces the line. One thread at a time.
    void store(const counter_line& line) noexcept {
        version.fetch_add(1, std::memory_order_relaxed);
        first.store(line.first, std::memory_order_release);
        counts.store(line.counts, std::memory_order_release);
        rate.store(line.rate, std::memory_order_release);
        begin.store(line.begin, std::memory_order_release);
        version.fetch_add(1, std::memory_order_release);
    }

    alignas(64) Atomic<std::uint64_t> version{0};  ///< odd while the line is replaced
    Atomic<std::uint64_t> first{0}, counts{0}, rate{0};
    Atomic<std::int64_t> begin{0};
};

using shared_line = line_behind_a_lock<std::atomic>;

TVEC_API extern shared_line line_of_tsc;

}  // namespace detail

/// std::chrono::steady_clock at half of its cost, on the counter that the kernel makes steady_clock
/// of. Take it for a loop that spins. A program that reads the clock less than ten times a
/// millisecond pays less for steady_clock.
///
///     tvec::clocked_wheel<tvec::tick_clock<std::chrono::microseconds, tvec::tsc_clock>> timers;
///
/// **Accuracy.** It differs from steady_clock by at most `drift`, never steps back, and runs slower
/// than steady_clock by at most an eighth. Once a millisecond a reading reads steady_clock, too. It
/// takes some 200 ns and holds a lock, for which other threads wait. After a suspend of the machine
/// or a step of the counter it may be a millisecond ahead, and then stand still until steady_clock
/// has come there. In its first two milliseconds and after a suspend it reads steady_clock.
///
/// **Threads.** Readings of a thread never go back. A reading is not ordered with memory accesses:
/// a thread that has just heard of another's reading may read some nanoseconds less. A child of
/// fork() reads on, whatever the threads of its parent did.
///
/// Its time points are those of steady_clock, by which drivers set their alarms. An alarm may come
/// `drift` too early, and the loop then turns once more. turn_clock<tsc_clock> shares its readings.
/// A debug build compares each reading with steady_clock. It ends the program (std::terminate) if
/// they differ by over a millisecond.
struct tsc_clock {
    /// The members that std::chrono requires of a clock.
    /// @{
    using duration = std::chrono::steady_clock::duration;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::steady_clock::time_point;
    static constexpr bool is_steady = true;
    /// @}

    /// The largest difference from steady_clock, while that changes its rate by at most 500 ppm.
    static constexpr std::chrono::microseconds drift{2};

    /// Reads the clock.
    static time_point now() noexcept {
#ifndef NDEBUG
        constexpr auto most = drift + std::chrono::nanoseconds(detail::counter_calibration::length);
        const time_point earliest = std::chrono::steady_clock::now() - most, t = reading();
        if (t < earliest || t > std::chrono::steady_clock::now() + most)
            detail::broken_promise("the counter of the processor and steady_clock differ by more "
                                   "than a millisecond: use steady_clock on this machine");
        return t;
#else
        return reading();
#endif
    }

    /// Returns why the clock reads steady_clock on this machine, or nullptr if it reads the
    /// counter. It refuses other processors than x86-64 and 64-bit ARM, a counter that is not
    /// invariant (CPUID 0x80000007, EDX bit 8), and a kernel whose clocksource is another: the
    /// kernel leaves tsc if the counters of processors differ. kvm-clock counts as another, because
    /// Linux prefers a sound tsc to it.
    TVEC_API static const char* refusal() noexcept;

private:
    static time_point reading() noexcept {
        const detail::counter_line line = detail::line_of_tsc.load();
        const std::uint64_t count = detail::read_counter();
        return time_point(
            std::chrono::nanoseconds(line.holds(count) ? line.at(count) : calibrate()));
    }
    TVEC_API static std::int64_t calibrate() noexcept;
};

}  // namespace tvec
