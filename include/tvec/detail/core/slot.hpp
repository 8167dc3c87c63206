/// \file
/// A slot: four chains, filled in turn and emptied in turn.
#pragma once

#include <array>
#include <cstdint>

#include "tvec/detail/core/chain.hpp"
#include "tvec/geometry.hpp"

namespace tvec::detail {

/// The timers that the wheel visits together.
///
/// Walking one list costs a whole memory latency per timer, because the address of the next one
/// is known only when the line has arrived. Four lists walked in turn keep four misses in flight.
///
/// A slot is told of its count of links: those since it was last empty, less the pops. The k-th
/// link went to chain k mod 4, so popping chain --k mod 4 meets a timer each time, in the reverse
/// order of arrival, unless one has unlinked itself. The count is thus an upper bound, and a hint
/// only: a slot is empty when all its chains are. It is kept elsewhere (levels.hpp), so that a slot
/// is half a cache line.
class slot {
public:
    static constexpr unsigned chains = geometry::chains_per_slot;

    void reset(link& sentinel) noexcept {
        for (chain& c : chains_) c.reset(sentinel);
    }

    bool empty(const link& sentinel) const noexcept {
        for (const chain& c : chains_)
            if (c.first() != &sentinel) return false;
        return true;
    }

    void push(link& node, owner_tag owner, std::uint64_t& links) noexcept {
        chains_[links++ % chains].push(node, owner);
    }

    /// The next link in turn, unlinked; null when the slot is empty.
    link* pop(const link& sentinel, std::uint64_t& links) noexcept {
        for (unsigned misses = 0; misses < chains; ++misses) {
            chain& c = chains_[--links % chains];
            if (c.first() != &sentinel) return &c.pop();
        }
        links = 0;
        return nullptr;
    }

    /// Takes over all that hangs in `other`. Requires that this slot is empty.
    void take(slot& other, link& sentinel, owner_tag owner) noexcept {
        for (unsigned i = 0; i < chains; ++i) chains_[i].take(other.chains_[i], sentinel, owner);
    }

    const chain& operator[](unsigned i) const noexcept { return chains_[i]; }

private:
    std::array<chain, chains> chains_;
};

}  // namespace tvec::detail
