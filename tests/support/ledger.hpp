// A slow but simple oracle: the due ticks of all timers, in ordered containers.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tvec/core/detail/geometry.hpp"

namespace support {

class ledger {
public:
    bool pending(int id) const { return due_.contains(id); }
    std::optional<tvec::jiffies> due(int id) const {
        const auto found = due_.find(id);
        return found == due_.end() ? std::nullopt : std::optional(found->second);
    }
    std::size_t size() const { return due_.size(); }

    // Both return whether the timer was pending.
    bool arm(int id, tvec::jiffies at) {
        const bool was_pending = cancel(id);
        due_[id] = at;
        order_.emplace(at, id);
        return was_pending;
    }
    bool cancel(int id) {
        const auto found = due_.find(id);
        if (found == due_.end()) return false;
        order_.erase({found->second, id});
        due_.erase(found);
        return true;
    }

    // The first tick at which a timer has to fire.
    std::optional<tvec::jiffies> first() const {
        if (order_.empty() || order_.begin()->first == tvec::never) return std::nullopt;
        return order_.begin()->first;
    }

private:
    std::map<int, tvec::jiffies> due_;
    std::set<std::pair<tvec::jiffies, int>> order_;
};

}  // namespace support
