// The timer that waits longest, of those that several parts of a store have found.
#pragma once

#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

// Replaces `found` by one that waits longer. One without the prefix counts only if there is none
// with it. Of a timer that no worker has taken, no delivery is to blame for not having ended.
inline void keep_longest(std::optional<overdue>& found, overdue o, std::string_view prefix) {
    const auto rank = [prefix](const overdue& t) {
        return std::tuple(!t.id.starts_with(prefix), t.since, std::string_view(t.id), !t.waits);
    };
    if (!found || rank(o) < rank(*found)) found = std::move(o);
}

}  // namespace tvec::durable::detail
