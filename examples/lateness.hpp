// How late timers fire, as the program that armed them sees it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace example {

class lateness {
public:
    using nanoseconds = std::chrono::nanoseconds;

    void record(nanoseconds late) {
        ++fired_;
        if (late < nanoseconds::zero()) ++early_;
        max_ = std::max(max_, late);
        if (samples_.size() < most_samples) samples_.push_back(late);
    }

    std::uint64_t fired() const { return fired_; }
    std::uint64_t early() const { return early_; }
    nanoseconds max() const { return max_; }

    // The lateness that the given share of the timers did not exceed.
    nanoseconds quantile(double share) {
        if (samples_.empty()) return nanoseconds::zero();
        const auto rank =
            static_cast<std::size_t>(share * static_cast<double>(samples_.size() - 1));
        const auto nth = samples_.begin() + static_cast<std::ptrdiff_t>(rank);
        std::nth_element(samples_.begin(), nth, samples_.end());
        return *nth;
    }

private:
    static constexpr std::size_t most_samples = 1'000'000;

    std::vector<nanoseconds> samples_;
    nanoseconds max_{0};
    std::uint64_t fired_ = 0;
    std::uint64_t early_ = 0;
};

}  // namespace example
