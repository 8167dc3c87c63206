/// \file
/// The lateness of timers: a histogram of durations, in memory that does not grow.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "tvec/core/detail/jiffies.hpp"

namespace tvec {

/// A distribution of durations, in 8 KB for any number of them.
///
///     late.record(clock::now() - deadline);                  // first thing in a callback
///     late.quantile(0.99)                                    // of 99 in a hundred, not later
///
/// Durations fall into buckets: one per nanosecond below 16 ns, then 16 to each power of two. A
/// quantile is within 3.2 % of the exact one (and within half a nanosecond of it), from a
/// nanosecond to 292 years. `max`, `sum` and `count` are exact.
///
/// No function allocates or fails. One thread at a time may use a histogram. Let each thread record
/// in its own, and merge them to read.
class lateness_histogram {
public:
    using duration = std::chrono::nanoseconds;  ///< the type of what is recorded

    /// Counts one duration. A negative one means that a timer fired early: it counts as 0, and in
    /// early(). O(1), about ten instructions.
    void record(duration late) noexcept {
        early_ += late < duration::zero();
        const auto nanoseconds = static_cast<std::uint64_t>(std::max(late, duration{}).count());
        ++buckets_[bucket_of(nanoseconds)];
        ++count_;
        sum_ += nanoseconds;
        max_ = std::max(max_, nanoseconds);
    }

    /// Returns how many durations were recorded.
    std::uint64_t count() const noexcept { return count_; }

    /// Returns how many of them were negative.
    std::uint64_t early() const noexcept { return early_; }

    /// Returns the longest duration, exactly; 0 if there is none.
    duration max() const noexcept { return to_duration(max_); }

    /// Returns the sum of all durations; 0 if there is none. Wraps after 292 years.
    duration sum() const noexcept { return to_duration(sum_); }

    /// Returns the duration that a share of them did not exceed; 0 if there is none. With n
    /// recorded it stands for the one of rank ceil(share * n), in the arithmetic of doubles. A
    /// share of 0 or less, or NaN, means the first one. A share of 1 or more means the last one. At
    /// most max(). O(buckets).
    duration quantile(double share) const noexcept {
        if (count_ == 0) return duration::zero();
        const std::uint64_t rank = rank_of(share);
        assert(rank <= count_ && "the buckets add up to count()");
        std::uint64_t seen = 0;
        std::size_t b = 0;
        while ((seen += buckets_[b]) < rank) ++b;
        return to_duration(std::min(middle_of(b), max_));
    }

    /// Adds all durations recorded in `other`.
    void merge(const lateness_histogram& other) noexcept {
        for (std::size_t b = 0; b < buckets_.size(); ++b) buckets_[b] += other.buckets_[b];
        count_ += other.count_;
        early_ += other.early_;
        sum_ += other.sum_;
        max_ = std::max(max_, other.max_);
    }

    /// Forgets all durations.
    void reset() noexcept { *this = {}; }

private:
    static constexpr unsigned fine_bits = 4;
    static constexpr std::size_t fine = 1U << fine_bits;  ///< buckets to a power of two
    static constexpr unsigned bits = 63;                  ///< of a duration that is not negative

    /// Returns the bucket of `value`. Below `fine` each value has its own. Above, the highest bit
    /// and the four after it decide.
    static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
        assert(value >> bits == 0 && "a duration has 63 bits");
        if (value < fine) return detail::narrow_to<std::size_t>(value);
        const auto coarse = static_cast<unsigned>(std::bit_width(value)) - fine_bits - 1;
        return coarse * fine + detail::narrow_to<std::size_t>(value >> coarse);
    }

    /// Returns the value in the middle of a bucket.
    static constexpr std::uint64_t middle_of(std::size_t bucket) noexcept {
        if (bucket < fine) return bucket;
        const std::size_t coarse = bucket / fine - 1;
        const std::uint64_t first = std::uint64_t{fine + bucket % fine} << coarse;
        return first + ((std::uint64_t{1} << coarse) - 1) / 2;
    }

    /// Returns a rank from 1 to count_, however `share` and the 53 bits of a double round.
    std::uint64_t rank_of(double share) const noexcept {
        assert(count_ != 0 && "an empty histogram has no ranks");
        if (!(share > 0)) return 1;
        const auto all = static_cast<double>(count_);
        const double exact = share * all;
        if (!(exact < all)) return count_;
        const auto below = static_cast<std::uint64_t>(exact);
        return below + (static_cast<double>(below) < exact);
    }

    static constexpr duration to_duration(std::uint64_t nanoseconds) noexcept {
        return duration(static_cast<duration::rep>(nanoseconds));
    }

    std::uint64_t count_ = 0;
    std::uint64_t early_ = 0;
    std::uint64_t sum_ = 0;
    std::uint64_t max_ = 0;
    std::array<std::uint64_t, (bits - fine_bits + 1) * fine> buckets_{};
};

}  // namespace tvec
