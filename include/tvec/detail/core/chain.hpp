/// \file
/// Links and chains: the pointers of the wheel, and nothing else of it.
#pragma once

#include <cassert>
#include <cstdint>

namespace tvec::detail {

/// Says which wheel a link hangs in: a number from bit 48 on, the other bits clear.
using owner_tag = std::uint64_t;

#ifdef TVEC_TAGGED_ADDRESSES
using owner_number = std::uint8_t;  ///< leaves the top byte of an address to its tag
#else
using owner_number = std::uint16_t;
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

inline constexpr unsigned owner_shift = 48;
inline constexpr std::uint64_t most_owners = static_cast<owner_number>(-1);
inline constexpr std::uint64_t address_mask = ~(most_owners << owner_shift);

/// Where an unlinked link points to in a debug build: an address that no memory has.
inline constexpr auto poison = static_cast<std::uintptr_t>(0xdead'0000'0000'dead);

/// The number of the wheel in a tag, or in the word `back` of a link.
constexpr owner_number number_of(owner_tag tag) noexcept {
    return static_cast<owner_number>(tag >> owner_shift);
}

/// What a chain is made of. Unlinking needs neither the chain nor the wheel.
///
/// The word `back` holds the address of the pointer that points here, and above it the number of
/// the wheel: user-space addresses have 48 bits at most on the platforms Linux gives them on.
/// So a push-back, which writes nothing but the deadline, can tell in the line it has loaded
/// anyway that the timer is linked, and that it is linked in this wheel and in no other.
struct link {
    link* next = nullptr;
    std::uint64_t back = 0;  ///< 0: unlinked

    bool linked() const noexcept { return back != 0; }
    /// Compares 16 bits of a word: written so that compilers compare them in memory.
    bool linked_in(std::uint16_t number) const noexcept { return number_of(back) == number; }

    void hang(link*& from, owner_tag owner) noexcept {
        const auto address = reinterpret_cast<std::uintptr_t>(&from);
        assert((address & ~address_mask) == 0 &&
               "an address has a tag, or over 48 bits: docs/limits.md");
        back = address | owner;
    }

    link*& pointer_here() const noexcept {
        return *reinterpret_cast<link**>(static_cast<std::uintptr_t>(back & address_mask));
    }

    /// Says that it hangs nowhere. In a debug build, whoever follows it nonetheless crashes.
    void forget() noexcept {
        back = 0;
#ifndef NDEBUG
        next = reinterpret_cast<link*>(poison);
#endif
    }

    /// Requires linked(). No branch: a chain ends in a sentinel that may be written to.
    void unlink() noexcept {
        pointer_here() = next;
        next->back = back;
        forget();
    }

    /// Takes the place of `other` in its chain. Requires other.linked() and !linked().
    void replace(link& other) noexcept {
        next = other.next;
        back = other.back;
        pointer_here() = this;
        next->hang(next, back & ~address_mask);
        other.forget();
    }
};

/// A list of links, newest first. It ends in the sentinel that it was made with.
class chain {
public:
    void reset(link& sentinel) noexcept { head_ = &sentinel; }
    link* first() const noexcept { return head_; }
    link* const& first_pointer() const noexcept { return head_; }

    void push(link& node, owner_tag owner) noexcept {
        link* const second = head_;
        node.next = second;
        node.hang(head_, owner);
        second->hang(node.next, owner);
        head_ = &node;
    }

    /// Requires that the chain is not empty.
    link& pop() noexcept {
        link& node = *head_;
        head_ = node.next;
        node.next->back = node.back;
        node.forget();
        return node;
    }

    /// What `node` begins, or nothing if it is the sentinel, is all that hangs here from now on.
    void restart_at(link& node, owner_tag owner) noexcept {
        head_ = &node;
        node.hang(head_, owner);
    }

private:
    link* head_ = nullptr;
};

}  // namespace tvec::detail
