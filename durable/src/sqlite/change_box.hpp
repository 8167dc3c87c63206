// Changes that transactions of other connections have made, on their way to the loop of a store.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tvec/drivers/eventfd_doorbell.hpp"

namespace tvec::durable::detail {

// Ids of timers that were put or touched. Any thread may call it.
class change_box {
public:
    explicit change_box(eventfd_doorbell bell) : bell_(std::move(bell)) {}

    // Adds committed changes, and wakes the loop.
    void add(std::deque<std::string> changed) {
        {
            const std::lock_guard lock(mutex_);
            std::ranges::move(changed, std::back_inserter(all_));
        }
        bell_();
    }

    // Returns the oldest changes. Wakes the loop again if some are left.
    std::vector<std::string> take(std::size_t at_most) {
        const std::lock_guard lock(mutex_);
        const std::size_t n = std::min(at_most, all_.size());
        const auto end = all_.begin() + static_cast<std::ptrdiff_t>(n);
        std::vector<std::string> some(std::move_iterator(all_.begin()), std::move_iterator(end));
        all_.erase(all_.begin(), end);
        if (!all_.empty()) bell_();
        return some;
    }

private:
    eventfd_doorbell bell_;
    std::mutex mutex_;
    std::deque<std::string> all_;
};

}  // namespace tvec::durable::detail
