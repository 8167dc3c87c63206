/// \file
/// The memory of a pool: slabs of nodes, and the handles that find them again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "tvec/core/detail/export.hpp"
#include "tvec/pool/detail/timeout_node.hpp"

namespace tvec::detail {

/// Nodes in slabs of 64, which never move. Nodes given back are taken again, the last one first.
///
/// A node's generation counts the timeouts it has held. It never goes back: a slab's place in the
/// directory outlives the slab, and remembers how far its nodes had counted. A node whose
/// generation has reached its end, 2^32 - 1, is never taken again.
class TVEC_API timeout_slabs {
public:
    static constexpr std::uint32_t slab_size = 64;
    static constexpr std::uint32_t last_generation = std::numeric_limits<std::uint32_t>::max();
    static constexpr std::size_t most_nodes = std::size_t{1} << 31;

    /// Nodes will know their `owner`. Their first timeout is of the generation after `counted`.
    explicit timeout_slabs(timeout_core& owner, std::uint32_t counted = 0) noexcept
        : owner_(owner), counted_(counted) {}

    /// A node for a new timeout, or null if there is no memory. O(1), but for a new slab.
    timeout_node* take() noexcept;

    /// Takes back a node that holds no function. O(1).
    void give_back(timeout_node& n) noexcept;

    /// The node that still is, or was last, the timeout of that name; null if there is none. It may
    /// also be an unused one, in the place of the slab where that timeout was.
    timeout_node* find(timeout_handle h) const noexcept;

    static timeout_handle handle_of(const timeout_node& n) noexcept {
        return timeout_handle(n.index, n.generation);
    }

    /// Every node has an index below this one.
    std::uint32_t indices() const noexcept { return entries_in_use_ * slab_size; }

    /// The node of that index, or null if its slab has been given back.
    timeout_node* at(std::uint32_t index) const noexcept;

    /// Sees to it that so many nodes can be taken in all. False: no memory; some may have come.
    bool reserve(std::size_t nodes) noexcept;

    /// Frees the slabs that no timeout uses. Returns how many nodes they had. O(nodes + slabs).
    std::size_t trim() noexcept;

    /// How many nodes there are, but for those that are never taken again.
    std::size_t capacity() const noexcept { return capacity_; }

private:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    struct entry {                              // of the directory
        std::unique_ptr<timeout_node[]> nodes;  ///< null: given back, or never had
        std::uint32_t counted = 0;              ///< the highest generation of nodes given back
        std::uint32_t worn = 0;                 ///< nodes never taken again
        std::uint32_t idle = 0;                 ///< `trim`'s: nodes that no timeout uses
        std::uint32_t next_vacant = none;
    };

    entry& entry_of(std::uint32_t index) const noexcept { return entries_[index / slab_size]; }
    void push_free(timeout_node& n) noexcept;
    bool grow() noexcept;
    bool make_vacancy() noexcept;
    bool widen_directory() noexcept;
    void fill(entry& e) noexcept;
    void count_idle() noexcept;
    void forget_idle_slabs() noexcept;
    std::size_t free_slab(std::uint32_t number) noexcept;

    timeout_core& owner_;
    std::uint32_t counted_;
    std::unique_ptr<entry[]> entries_;
    std::uint32_t entries_room_ = 0;
    std::uint32_t entries_in_use_ = 0;
    std::uint32_t first_vacant_ = none;
    std::uint32_t first_free_ = none;
    std::size_t capacity_ = 0;
};

}  // namespace tvec::detail
