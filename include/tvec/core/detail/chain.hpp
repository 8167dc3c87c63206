/// \file
/// Links and chains: the pointers of the wheel, and nothing else.
#pragma once

#include <cassert>
#include <cstdint>

#include "tvec/core/detail/jiffies.hpp"
#include "tvec/core/detail/misuse.hpp"

namespace tvec::detail {

/// The number of the wheel that a link hangs in, from bit 48 on. The other bits are clear.
using wheel_tag = std::uint64_t;

#if defined TVEC_TAGGED_ADDRESSES || defined TVEC_TINY_WHEEL
using wheel_id = std::uint8_t;  ///< leaves the top byte of an address to its tag
#else
using wheel_id = std::uint16_t;
#if defined __SANITIZE_HWADDRESS__ || defined __ARM_FEATURE_MEMORY_TAGGING
#define TVEC_ADDRESSES_HAVE_TAGS_
#elif defined __has_feature
#if __has_feature(hwaddress_sanitizer)  // as clang says it
#define TVEC_ADDRESSES_HAVE_TAGS_
#endif
#endif
#ifdef TVEC_ADDRESSES_HAVE_TAGS_
#error "tvec: pointers have tags here: build it with -Dtagged_addresses=true (docs/limits.md)"
#endif
#endif

inline constexpr unsigned wheel_tag_shift = 48;
inline constexpr std::uint64_t last_wheel_id = static_cast<wheel_id>(-1);
inline constexpr std::uint64_t address_mask = ~(last_wheel_id << wheel_tag_shift);

/// The address in `next` of an unlinked link in a debug build. No memory has it.
inline constexpr auto poison = narrow_to<std::uintptr_t>(0xdead'0000'0000'dead);

/// Returns the number of the wheel in a tag, or in the word `back` of a link.
constexpr wheel_id number_of(wheel_tag tag) noexcept {
    return static_cast<wheel_id>(tag >> wheel_tag_shift);
}

/// An element of a chain. Unlinking needs neither the chain nor the wheel.
///
/// The word `back` holds the address of the pointer that points here, and above it the number of
/// the wheel. On Linux, user-space addresses have at most 48 bits. A push-back writes only the
/// deadline. It can tell from the cache line it has loaded anyway that the timer is linked, and in
/// this wheel.
struct link {
    link* next = nullptr;
    std::uint64_t back = 0;  ///< 0: unlinked

    bool linked() const noexcept { return back != 0; }
    /// Returns whether the link hangs in the wheel with this number. Compilers compare the 16 bits
    /// in memory.
    bool linked_in(std::uint16_t number) const noexcept { return number_of(back) == number; }

    /// Notes that the pointer `from`, in the wheel of `tag`, points here.
    void hang(link*& from, wheel_tag tag) noexcept {
        const auto address = reinterpret_cast<std::uintptr_t>(&from);
        assert((address & ~address_mask) == 0 &&
               "an address has a tag, or over 48 bits: docs/limits.md");
        assert((tag & address_mask) == 0 && "a wheel's tag leaves the address free");
        back = address | tag;
    }

    /// Returns whether this link says that `from` is the pointer that points here.
    bool hangs_from(link* const& from) const noexcept {
        return (back & address_mask) == reinterpret_cast<std::uintptr_t>(&from);
    }
    /// Returns whether the link is a sentinel, the end of a chain.
    bool ends_chain() const noexcept { return next == nullptr && back != 0; }

    /// Returns the pointer that points here. Of an unlinked link the result is not to be read.
    link*& pointer_here() const noexcept {
        return *reinterpret_cast<link**>(narrow_to<std::uintptr_t>(back & address_mask));
    }

    /// Marks the link as unlinked. In a debug build, following its pointer crashes.
    void forget() noexcept {
        back = 0;
#ifndef NDEBUG
        next = reinterpret_cast<link*>(poison);
#endif
    }

    /// In a debug build, ends the program if the pointer `from` leads to a link that does not hang
    /// there, because it was freed, overwritten or copied.
    static void expect_link_at([[maybe_unused]] link* const& from) noexcept {
#ifndef NDEBUG
        assert(from != nullptr && "a chain ends in its sentinel");
        if (!from->hangs_from(from) && !from->ends_chain()) damaged_timer(from, nullptr);
#endif
    }
    /// In a debug build, ends the program if this link or one of its neighbours was damaged.
    void expect_neighbours() const noexcept {
#ifndef NDEBUG
        link* const& here = pointer_here();
        if (here == nullptr) damaged_timer(&here, nullptr);  // `next` of a timer full of zeros
        if (here != this) damaged_timer(this, &here);
        expect_link_at(next);
#endif
    }
    /// In a debug build, ends the program if the chain ends within a few links, and not in `end`:
    /// the link hangs in a wheel of another copy of the library, with the same number.
    void expect_end_of_chain([[maybe_unused]] const link& end) const noexcept {
#ifndef NDEBUG
        const link* l = this;
        for (int few = 8; few != 0 && !l->ends_chain(); --few) {
            expect_link_at(l->next);
            l = l->next;
        }
        if (l->ends_chain() && l != &end) timer_of_another_copy(this);
#endif
    }

    /// Leaves the chain. Requires linked(). No branch: the sentinel at the end can be written to.
    void unlink() noexcept {
        assert(linked() && "an unlinked link leaves no chain");
        assert(!ends_chain() && "a sentinel stays at the end of its chains");
        expect_neighbours();
        pointer_here() = next;
        next->back = back;
        forget();
    }

    /// Hangs behind `other` in its chain. Requires other.linked() and !linked().
    void hang_behind(link& other) noexcept {
        assert(other.linked() && !other.ends_chain() && "nothing hangs behind a sentinel");
        assert(!linked() && "a link hangs in one place");
        const wheel_tag tag = other.back & ~address_mask;
        next = other.next;
        next->hang(next, tag);
        other.next = this;
        hang(other.next, tag);
    }

    /// Takes the place of `other` in its chain. Requires other.linked() and !linked().
    void replace(link& other) noexcept {
        assert(other.linked() && "an unlinked link has no place to give");
        assert(!linked() && "a link hangs in one place");
        other.expect_neighbours();
        next = other.next;
        back = other.back;
        pointer_here() = this;
        next->hang(next, back & ~address_mask);
        other.forget();
    }
};

/// The initial value of a sentinel. It differs from a link full of zeros.
inline constexpr link new_sentinel{nullptr, 1};

/// A list of links, newest first. It ends in the sentinel that `reset` was given.
class chain {
public:
    void reset(link& sentinel) noexcept {
        assert(sentinel.ends_chain() && "a chain ends in its sentinel");
        head_ = &sentinel;
    }
    link* first() const noexcept { return head_; }
    link* const& first_pointer() const noexcept { return head_; }

    void push(link& node, wheel_tag tag) noexcept {
        assert(!node.linked() && "a link hangs in one place");
        link::expect_link_at(head_);
        link* const second = head_;
        node.next = second;
        node.hang(head_, tag);
        second->hang(node.next, tag);
        head_ = &node;
    }

    /// Unlinks the first link and returns it. Requires that the chain is not empty.
    link& pop() noexcept {
        assert(!head_->ends_chain() && "an empty chain has nothing to pop");
        link::expect_link_at(head_);
        link& node = *head_;
        link::expect_link_at(node.next);
        head_ = node.next;
        node.next->back = node.back;
        node.forget();
        return node;
    }

    /// Makes `node` the first link: the chain holds `node` and all that follow it. If `node` is the
    /// sentinel, the chain is empty.
    void restart_at(link& node, wheel_tag tag) noexcept {
        head_ = &node;
        node.hang(head_, tag);
    }

private:
    link* head_ = nullptr;
};

}  // namespace tvec::detail
