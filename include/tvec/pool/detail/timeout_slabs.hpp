/// \file
/// The memory of a pool: slabs of nodes, and handles that find them again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "tvec/core/detail/export.hpp"
#include "tvec/pool/detail/timeout_node.hpp"

namespace tvec::detail {

/// Nodes in slabs of 64, which never move. Nodes that were given back are reused, the last one
/// first.
///
/// The generation of a node counts the timeouts that it has held. It never goes back: the place of
/// a slab in the directory outlives the slab, and keeps the highest generation of its nodes. A node
/// whose generation has reached the end, 2^32 - 1, is worn and never reused.
class TVEC_API timeout_slabs {
public:
    static constexpr std::uint32_t slab_size = 64;
    static constexpr std::uint32_t last_generation = std::numeric_limits<std::uint32_t>::max();
    static constexpr std::size_t most_nodes = std::size_t{1} << 31;

    /// Makes an empty set of slabs. Their nodes know `owner`, and their first generation follows
    /// `counted`.
    explicit timeout_slabs(timeout_core& owner, std::uint32_t counted = 0) noexcept
        : owner_(owner), counted_(counted) {}

    /// Returns a node for a new timeout, or null if there is no memory. O(1), except for a new
    /// slab.
    timeout_node* take() noexcept;

    /// Takes back a node that holds no function. O(1).
    void give_back(timeout_node& n) noexcept;

    /// Returns the node that holds, or held last, the timeout of that handle; null if there is
    /// none. It may also be an unused node in the place of the slab where that timeout was.
    timeout_node* find(timeout_handle h) const noexcept;

    static timeout_handle handle_of(const timeout_node& n) noexcept {
        return timeout_handle(n.index, n.generation);
    }

    /// Returns the end of the indices: every node has a smaller one.
    std::uint32_t indices() const noexcept { return entries_in_use_ * slab_size; }

    /// Returns the node of that index, or null if its slab was freed. Requires index < indices().
    timeout_node* at(std::uint32_t index) const noexcept;

    /// Makes room for that number of nodes in total. Returns false if there is no memory: some
    /// nodes may have been added.
    bool reserve(std::size_t nodes) noexcept;

    /// Frees the slabs that no timeout uses. Returns the number of their nodes. O(nodes + slabs).
    std::size_t trim() noexcept;

    /// Returns the number of nodes, without worn ones.
    std::size_t capacity() const noexcept { return capacity_; }

    /// Returns the bytes of all slabs and of their directory. O(slabs).
    std::size_t memory() const noexcept;

private:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    /// One object: in an array of its own g++ for 32-bit ARM would align nodes to 8 bytes.
    using slab = std::array<timeout_node, slab_size>;

    struct entry {                    // of the directory of slabs
        std::unique_ptr<slab> nodes;  ///< null: freed, or never allocated
        std::uint32_t counted = 0;    ///< the highest generation of nodes that were freed
        std::uint32_t worn = 0;       ///< nodes that are never reused
        std::uint32_t idle = 0;       ///< for `trim`: nodes that no timeout uses
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
