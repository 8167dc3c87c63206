/// \file
/// An awaited object that its holder can abandon at any time.
#pragma once

#include <cassert>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

/// Warns if the result is dropped: it does nothing before it is awaited.
#define TVEC_AWAITED [[nodiscard("it must be awaited: it waits for nothing before a co_await")]]

namespace tvec::detail {

template <class A>
concept with_member_co_await = requires(A&& a) {
    static_cast<A&&>(a).operator co_await();
};
template <class A>
concept with_free_co_await = requires(A&& a) {
    operator co_await(static_cast<A&&>(a));
};
template <class A>
concept makes_awaiter = with_member_co_await<A> || with_free_co_await<A>;

template <class A>
concept awaitable = makes_awaiter<A> || requires(std::remove_reference_t<A>& a) {
    a.await_ready();
};

template <with_member_co_await A>
decltype(auto) awaiter_of(A&& a) noexcept(noexcept(static_cast<A&&>(a).operator co_await())) {
    return static_cast<A&&>(a).operator co_await();
}

template <with_free_co_await A>
requires(!with_member_co_await<A>) decltype(auto)
    awaiter_of(A&& a) noexcept(noexcept(operator co_await(static_cast<A&&>(a)))) {
    return operator co_await(static_cast<A&&>(a));
}

/// An awaiter that is held by value.
template <class A> class abandonable {
public:
    using awaiter = A;
    static constexpr bool ends_what_it_began = !std::is_trivially_destructible_v<A>;

    static_assert(!std::is_reference_v<A>,
                  "an awaiter is destroyed when time runs out: give it away, by std::move");

    explicit abandonable(A&& a) noexcept(std::is_nothrow_move_constructible_v<A>)
        : awaiter_(std::move(a)) {}

    awaiter& begin() noexcept { return current(); }
    awaiter& current() noexcept {
        assert(awaiter_ && "not awaited again after time ran out");
        return *awaiter_;
    }
    void abandon() noexcept { awaiter_.reset(); }

private:
    std::optional<A> awaiter_;
};

/// An object with an operator co_await, and the awaiter that it makes once it is awaited. The
/// object is held by value, or by reference if `A` is an lvalue reference. Movable until it is
/// awaited.
template <makes_awaiter A> class abandonable<A> {
public:
    using awaiter = decltype(awaiter_of(std::declval<A>()));
    static constexpr bool ends_what_it_began =
        !std::is_trivially_destructible_v<awaiter> ||
        !(std::is_reference_v<A> || std::is_trivially_destructible_v<A>);

    static_assert(!std::is_reference_v<awaiter>,
                  "an awaiter is destroyed when time runs out: operator co_await must return it by "
                  "value");

    explicit abandonable(A&& a) noexcept(std::is_nothrow_constructible_v<held, A&&>)
        : awaitable_(std::forward<A>(a)) {}
    abandonable(abandonable&& other) noexcept(std::is_nothrow_move_constructible_v<held>)
        : awaitable_(std::move(other.awaitable_)) {}

    awaiter& begin() noexcept(noexcept(awaiter_of<A>(std::declval<A>()))) {
        assert(awaitable_ && "not awaited again after time ran out");
        std::remove_reference_t<A>& awaitable = *awaitable_;
        return awaiter_.emplace(made_in_place{static_cast<A&&>(awaitable)});
    }
    awaiter& current() noexcept {
        assert(awaiter_ && "awaited, and not abandoned");
        return *awaiter_;
    }
    void abandon() noexcept {
        awaiter_.reset();
        awaitable_.reset();
    }

private:
    using held = std::conditional_t<std::is_reference_v<A>,
                                    std::reference_wrapper<std::remove_reference_t<A>>, A>;

    struct made_in_place {  // an awaiter need not be movable
        operator awaiter() const { return awaiter_of<A>(static_cast<A&&>(from)); }
        A&& from;
    };

    std::optional<held> awaitable_;
    std::optional<awaiter> awaiter_;
};

}  // namespace tvec::detail
