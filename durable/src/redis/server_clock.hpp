/// \file
/// What time it is on a server, as well as one can know who is told now and then.
#pragma once

#include <chrono>
#include <optional>

#include "tvec/durable/store.hpp"

namespace tvec::durable::redis {

/// Never ahead of the server: what he said when his answer was under way is the least that it can
/// be now. Between answers time goes on a ten thousandth slower than by our own clock, which may go
/// faster than his.
class server_clock {
public:
    /// Our own.
    using local = std::chrono::steady_clock::time_point;

    /// The server has read `said` off his clock, at some time between the two by our own.
    void learn(reading said, local asked, local answered) {
        const auto most = said + std::chrono::floor<std::chrono::microseconds>(answered - asked);
        const bool is_better = !known_ || said > at(answered);
        const bool was_set_back = known_ && at(answered) > most;
        if (is_better || was_set_back) known_ = {said, answered};
    }

    /// Returns the server's time at that time of ours. The beginning of 1970 if nothing was learnt.
    reading at(local now) const {
        if (!known_) return {};
        const auto passed = now - known_->when;
        return known_->said +
               std::chrono::floor<std::chrono::microseconds>(passed - passed / 10'000);
    }

private:
    struct knowledge {
        reading said;
        local when;
    };
    std::optional<knowledge> known_;
};

}  // namespace tvec::durable::redis
