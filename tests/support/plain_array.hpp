// The other oracle: one deadline per timer in an array, and every query reads all of it. It shares
// no code with `ledger` except the interface.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "tvec/core/detail/geometry.hpp"

namespace support {

class plain_array {
public:
    static constexpr std::size_t capacity = 64;

    plain_array() { due_.fill(none); }

    bool pending(int id) const { return at(id) != none; }
    std::optional<tvec::jiffies> due(int id) const {
        return pending(id) ? std::optional(at(id)) : std::nullopt;
    }
    std::size_t size() const {
        return capacity - static_cast<std::size_t>(std::count(due_.begin(), due_.end(), none));
    }

    bool arm(int id, tvec::jiffies at_tick) {
        const bool was_pending = pending(id);
        at(id) = at_tick;
        return was_pending;
    }
    bool cancel(int id) {
        const bool was_pending = pending(id);
        at(id) = none;
        return was_pending;
    }

    std::optional<tvec::jiffies> first() const {
        const tvec::jiffies least = *std::min_element(due_.begin(), due_.end());
        return least < tvec::never ? std::optional(least) : std::nullopt;
    }

private:
    static constexpr tvec::jiffies none = ~tvec::jiffies{0};

    tvec::jiffies& at(int id) { return due_[static_cast<std::size_t>(id)]; }
    tvec::jiffies at(int id) const { return due_[static_cast<std::size_t>(id)]; }

    std::array<tvec::jiffies, capacity> due_;
};

}  // namespace support
