// Runs both oracles at once, and compares them.
#pragma once

#include "support/divergence.hpp"
#include "support/ledger.hpp"
#include "support/plain_array.hpp"

namespace support {

template <class One, class Other> class pair_of_oracles {
public:
    bool pending(int id) const {
        return agreed(one_.pending(id), other_.pending(id), "whether a timer is pending");
    }
    std::optional<tvec::jiffies> due(int id) const {
        return agreed(one_.due(id), other_.due(id), "when a timer is due");
    }
    std::size_t size() const { return agreed(one_.size(), other_.size(), "how many pend"); }
    bool arm(int id, tvec::jiffies at) {
        return agreed(one_.arm(id, at), other_.arm(id, at), "what was pending");
    }
    bool cancel(int id) { return agreed(one_.cancel(id), other_.cancel(id), "what was cancelled"); }
    std::optional<tvec::jiffies> first() const {
        return agreed(one_.first(), other_.first(), "which is first");
    }

private:
    template <class T> static T agreed(const T& one, const T& other, const char* what) {
        expect(one == other, "the oracles disagree on ", what, ": ", one, ", ", other);
        return one;
    }

    One one_;
    Other other_;
};

using oracles = pair_of_oracles<ledger, plain_array>;

}  // namespace support
