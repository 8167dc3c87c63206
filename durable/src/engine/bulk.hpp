// One operation on all timers with a prefix.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine_state.hpp"

namespace tvec::durable::detail {

// Begins an operation on the timer of an id. Its completion receives whether the timer has changed.
using operation_on = std::function<void(const std::string& id, completion<standing, bool> next)>;

// Begins an operation on each timer of a set whose id begins with the prefix, page by page. `then`
// receives how many have changed, and standing::unknown if the store has failed, or the engine is
// stopping. One page is in flight at a time.
void do_for_all(engine_state& all, timer_set set, std::string prefix, operation_on each,
                completion<standing, std::uint64_t> then);

}  // namespace tvec::durable::detail
