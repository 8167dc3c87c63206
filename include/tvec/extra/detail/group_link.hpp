/// \file
/// The place of a timer in its group: 16 bytes, and no memory of the group's own.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tvec/core/detail/export.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/pool/detail/inline_function.hpp"
#include "tvec/pool/detail/timeout_core.hpp"

namespace tvec::detail {

/// An element of a circular list, which its destructor leaves. The two lowest bits of `back` hold
/// the kind of the element.
class group_link {
public:
    enum class kind : std::uint8_t {
        group,    ///< the head of the list
        timer,    ///< in a grouped_timer
        timeout,  ///< in the function object of a timeout
        place,    ///< of a walk over the list
    };

    explicit group_link(kind what) noexcept : back_(static_cast<std::uintptr_t>(what)) {}
    /// Takes the place of `other` in its list.
    group_link(group_link&& other) noexcept : group_link(other.what()) { replace(other); }
    group_link& operator=(group_link&& other) noexcept {
        assert(what() == other.what() && "a place is given to an element of the same kind");
        if (this == &other) return *this;
        leave();
        replace(other);
        return *this;
    }
    ~group_link() { leave(); }

    kind what() const noexcept { return static_cast<kind>(back_ & kind_mask); }
    bool linked() const noexcept { return next_ != nullptr; }
    group_link& next() const noexcept {
        assert(linked() && "an element outside of a list has no neighbours");
        return *next_;
    }

    /// Makes this element a list by itself.
    void begin_list() noexcept {
        next_ = this;
        set_back(*this);
    }
    /// Puts this element right behind `before`.
    void enter(group_link& before) noexcept {
        assert(!linked() && "an element is in one list");
        assert(before.linked() && "the group is there");
        next_ = before.next_;
        set_back(before);
        next_->set_back(*this);
        before.next_ = this;
    }
    void leave() noexcept {
        if (!linked()) return;
        back().next_ = next_;
        next_->set_back(back());
        next_ = nullptr;
    }

private:
    static constexpr std::uintptr_t kind_mask = 3;

    group_link& back() const noexcept { return *reinterpret_cast<group_link*>(back_ & ~kind_mask); }
    void set_back(group_link& l) noexcept {
        back_ = reinterpret_cast<std::uintptr_t>(&l) | (back_ & kind_mask);
    }
    void replace(group_link& other) noexcept {
        if (!other.linked()) return;
        enter(other);
        other.leave();
    }

    group_link* next_ = nullptr;  ///< null: in no list
    std::uintptr_t back_;
};

static_assert(sizeof(void*) != 8 || sizeof(group_link) == 16);

/// A function object in the node of a timeout that belongs to a group. Its destructor leaves the
/// group.
template <class F> class grouped_function : group_link {
    static_assert(sizeof(F) <= function_size - sizeof(group_link),
                  "in a group, a timeout's function object has at most 32 bytes: capture a pointer "
                  "to what it needs, or a std::unique_ptr");

public:
    /// Requires that `this` is the function object of a node. The link comes first in it.
    template <class G>
    explicit grouped_function(joining<G>&& j)
        : group_link(kind::timeout), f_(std::forward<G>(j.function)) {
        assert(static_cast<void*>(static_cast<group_link*>(this)) == this && "the link is first");
        enter(j.group);
    }

    void operator()(const timeout_call& c) {
        if constexpr (std::is_invocable_v<F&, const timeout_call&>)
            static_cast<void>(f_(c));
        else
            static_cast<void>(f_());
    }

private:
    F f_;
};

/// Returns the node of a timeout by the link in its function object.
inline timeout_node& node_around(group_link& l) noexcept {
    assert(l.what() == group_link::kind::timeout && "the link is in the node of a timeout");
    auto* const storage = reinterpret_cast<std::byte*>(&l);
    return *static_cast<timeout_node*>(
        static_cast<void*>(storage - __builtin_bit_cast(std::ptrdiff_t, &timeout_node::storage)));
}

/// A walk over the members of a group. Between two steps anything may happen to the group and its
/// members. Members that join meanwhile are not visited.
class group_walk {
public:
    explicit group_walk(group_link& head) noexcept { here_.enter(head); }

    /// Returns the next one, or null.
    group_link* next() noexcept {
        while (here_.linked() && here_.next().what() != group_link::kind::group) {
            group_link& l = here_.next();
            here_.leave();
            here_.enter(l);
            if (l.what() != group_link::kind::place) return &l;
        }
        return nullptr;
    }

private:
    group_link here_{group_link::kind::place};  ///< in no list once the group is gone
};

}  // namespace tvec::detail
