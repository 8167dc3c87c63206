#include "tvec/durable/store.hpp"

#include <algorithm>

namespace tvec::durable {

store::~store() = default;

time_point next_beat(time_point due, duration every, time_point now) noexcept {
    const auto missed = std::max(now - due, duration::zero()) / every;
    const auto left = latest_due - due;
    if (missed >= left / every) return latest_due;
    return due + (missed + 1) * every;
}

}  // namespace tvec::durable
