/// \file
/// The time of a server, estimated from its answers.
#pragma once

#include <cassert>
#include <chrono>
#include <optional>

#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

/// A lower bound on the clock of a server. The time in an answer had already passed when the answer
/// arrived. Between answers the estimate runs slower than the local clock by a ten thousandth,
/// because the local clock may run faster than that of the server.
class server_clock {
public:
    /// A reading of the local clock.
    using local = std::chrono::steady_clock::time_point;

    /// Learns that the server read `said` at some time between `asked` and `answered`.
    void learn(reading said, local asked, local answered) {
        assert(asked <= answered && "an answer comes after its question");
        const auto most = said + std::chrono::floor<std::chrono::microseconds>(answered - asked);
        const bool is_better = !known_ || said > at(answered);
        const bool was_set_back = known_ && at(answered) > most;
        if (is_better || was_set_back) known_ = {said, answered};
    }

    /// Returns the estimate at a local time. The beginning of 1970 if nothing was learnt.
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

}  // namespace tvec::durable::detail
