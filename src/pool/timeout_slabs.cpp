#include "tvec/pool/detail/timeout_slabs.hpp"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

namespace tvec::detail {

timeout_node* timeout_slabs::take() noexcept {
    if (first_free_ == none && !grow()) return nullptr;
    assert(at(first_free_) != nullptr && "a free node has its slab");
    timeout_node& n = *at(first_free_);
    assert(n.generation != last_generation && "a worn node is not free");
    first_free_ = n.next_free;
    ++n.generation;
    n.phase = timeout_phase::unused;
    return &n;
}

void timeout_slabs::give_back(timeout_node& n) noexcept {
    assert(&n == at(n.index) && "a node goes back to its own pool");
    assert(!n.armed() && "a node that is given back is not pending");
    if (n.generation != last_generation) return push_free(n);
    ++entry_of(n.index).worn;
    --capacity_;
}

void timeout_slabs::push_free(timeout_node& n) noexcept {
    n.next_free = first_free_;
    first_free_ = n.index;
}

timeout_node* timeout_slabs::at(std::uint32_t index) const noexcept {
    assert(index < indices() && "an index lies in the directory");
    slab* const nodes = entry_of(index).nodes.get();
    return nodes ? nodes->data() + index % slab_size : nullptr;
}

timeout_node* timeout_slabs::find(timeout_handle h) const noexcept {
    if (!h || h.index_ >= indices()) return nullptr;
    timeout_node* const n = at(h.index_);
    return n && n->generation == h.generation_ ? n : nullptr;
}

// --- growing ------------------------------------------------------------------------------------

bool timeout_slabs::reserve(std::size_t nodes) noexcept {
    if (nodes > most_nodes) return false;
    while (capacity_ < nodes)
        if (!grow()) return false;
    return true;
}

bool timeout_slabs::grow() noexcept {
    if (first_vacant_ == none && !make_vacancy()) return false;
    entry& e = entries_[first_vacant_];
    assert(!e.nodes && "a vacant place has no slab");
    e.nodes.reset(new (std::nothrow) slab);
    if (!e.nodes) return false;
    fill(e);
    first_vacant_ = std::exchange(e.next_vacant, none);
    capacity_ += slab_size;
    return true;
}

/// Adds the nodes to the free list in reverse: the first node is taken first.
void timeout_slabs::fill(entry& e) noexcept {
    for (std::uint32_t i = slab_size; i-- != 0;) {
        timeout_node& n = (*e.nodes)[i];
        n.owner = &owner_;
        n.index = first_vacant_ * slab_size + i;
        n.generation = e.counted;
        push_free(n);
    }
}

bool timeout_slabs::make_vacancy() noexcept {
    if (entries_in_use_ == most_nodes / slab_size) return false;
    if (entries_in_use_ == entries_room_ && !widen_directory()) return false;
    entries_[entries_in_use_].counted = counted_;
    first_vacant_ = entries_in_use_++;
    return true;
}

bool timeout_slabs::widen_directory() noexcept {
    const std::uint32_t room = std::max(8U, entries_room_ * 2);
    assert(room > entries_in_use_ && "the directory grows");
    std::unique_ptr<entry[]> wider(new (std::nothrow) entry[room]);
    if (!wider) return false;
    // A loop instead of std::move: g++ exports the instantiation under a name of the standard
    // library.
    for (std::uint32_t i = 0; i < entries_in_use_; ++i) wider[i] = std::move(entries_[i]);
    entries_ = std::move(wider);
    entries_room_ = room;
    return true;
}

std::size_t timeout_slabs::memory() const noexcept {
    std::size_t bytes = entries_room_ * sizeof(entry);
    for (std::uint32_t i = 0; i < entries_in_use_; ++i)
        if (entries_[i].nodes) bytes += slab_size * sizeof(timeout_node);
    return bytes;
}

// --- shrinking ----------------------------------------------------------------------------------

std::size_t timeout_slabs::trim() noexcept {
    count_idle();
    forget_idle_slabs();
    std::size_t freed = 0;
    for (std::uint32_t number = 0; number < entries_in_use_; ++number)
        if (entries_[number].nodes && entries_[number].idle == slab_size)
            freed += free_slab(number);
    return freed;
}

void timeout_slabs::count_idle() noexcept {
    for (std::uint32_t i = 0; i < entries_in_use_; ++i) entries_[i].idle = entries_[i].worn;
    for (std::uint32_t i = first_free_; i != none; i = at(i)->next_free) ++entry_of(i).idle;
}

/// Removes the nodes of slabs that are about to be freed from the free list.
void timeout_slabs::forget_idle_slabs() noexcept {
    for (std::uint32_t* link = &first_free_; *link != none;) {
        timeout_node& n = *at(*link);
        if (entry_of(n.index).idle == slab_size)
            *link = n.next_free;
        else
            link = &n.next_free;
    }
}

/// Frees a slab. Its place is reused by another slab, unless one of its nodes is worn.
std::size_t timeout_slabs::free_slab(std::uint32_t number) noexcept {
    entry& e = entries_[number];
    assert(e.nodes && e.idle == slab_size && "no timeout uses a slab that is freed");
    const std::size_t freed = slab_size - std::exchange(e.worn, 0U);
    assert(freed <= capacity_ && "each node of a slab is counted");
    for (std::uint32_t i = 0; i < slab_size; ++i)
        e.counted = std::max(e.counted, (*e.nodes)[i].generation);
    e.nodes.reset();
    capacity_ -= freed;
    if (e.counted != last_generation) e.next_vacant = std::exchange(first_vacant_, number);
    return freed;
}

}  // namespace tvec::detail
