/// \file
/// Coroutines that await several things at once: the first of them, or all.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <array>
#include <cassert>
#include <coroutine>
#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "tvec/coroutines/detail/abandonable.hpp"
#include "tvec/coroutines/sleep.hpp"

#if defined(__clang__) && defined(__i386__)
#define TVEC_RESUMED [[gnu::fastcall]]
#else
#define TVEC_RESUMED  ///< the calling convention of a coroutine's functions
#endif

namespace tvec {

namespace detail {

/// A stand-in for a suspended coroutine: a handle of it may be resumed. The ABI of g++ and clang
/// says that the frame of a coroutine begins with these two functions. A real coroutine in its
/// place would have to be allocated.
template <class Group> class branch {
public:
    std::coroutine_handle<> stand_in(Group& group, std::size_t index) noexcept {
        group_ = &group;
        index_ = index;
        return std::coroutine_handle<>::from_address(this);
    }

private:
    TVEC_RESUMED static void resume(branch* b) { b->group_->complete(b->index_); }
    TVEC_RESUMED static void destroy(branch* b) { b->group_->waiting_.destroy(); }

    TVEC_RESUMED void (*resume_)(branch*) = resume;
    TVEC_RESUMED void (*destroy_)(branch*) = destroy;
    Group* group_ = nullptr;
    std::size_t index_ = 0;
};

/// The result of an awaitable as a value.
template <class A,
          class Value = decltype(std::declval<typename abandonable<A>::awaiter&>().await_resume())>
using kept_result =
    std::conditional_t<std::is_void_v<Value>, std::monostate,
                       std::conditional_t<std::is_lvalue_reference_v<Value>,
                                          std::reference_wrapper<std::remove_reference_t<Value>>,
                                          std::remove_cvref_t<Value>>>;

}  // namespace detail

/// The result of when_any and when_all, to be awaited once. Movable until then.
template <bool IsAny, class... Awaitables> class TVEC_AWAITED several {
    static_assert(sizeof...(Awaitables) != 0 && (detail::awaitable<Awaitables> && ...),
                  "when_any and when_all are given what to await: sleep_for(timers, 1s), a task");
    static_assert((detail::abandonable<Awaitables>::ends_what_it_began && ...),
                  "when_any and when_all cancel by destroying, and a destructor here does nothing: "
                  "give the awaiter a destructor after which it resumes nobody");

public:
    /// A std::variant for when_any, and a std::tuple for when_all. std::monostate stands for no
    /// result. A reference becomes a std::reference_wrapper.
    using result = std::conditional_t<IsAny, std::variant<detail::kept_result<Awaitables>...>,
                                      std::tuple<detail::kept_result<Awaitables>...>>;

    /// Makes an awaitable. Begins nothing yet.
    explicit several(Awaitables&&... all) : inner_(std::forward<Awaitables>(all)...) {}

    /// Returns false: each awaitable is asked right before it begins.
    bool await_ready() const noexcept { return false; }

    /// Begins to await each, or until one of them is ready.
    bool await_suspend(std::coroutine_handle<> waiting) {
        assert(!waiting_ && "when_any and when_all are awaited once");
        waiting_ = waiting;
        [this]<std::size_t... I>(std::index_sequence<I...>) {
            static_cast<void>((this->template begin<I>() && ...));
        }
        (indices());
        begun_ = left_ != 0;
        return begun_;
    }

    /// Returns the results. when_any destroys the others before.
    result await_resume() {
        assert(left_ == 0 && "enough of them are ready");
        return [this]<std::size_t... I>(std::index_sequence<I...>)->result {
            if constexpr (IsAny) {
                ((I != first_ ? std::get<I>(inner_).abandon() : void()), ...);
                return this->template first_result<0>();
            } else {
                return result{this->template take<I>()...};
            }
        }
        (indices());
    }

private:
    friend class detail::branch<several>;
    using indices = std::index_sequence_for<Awaitables...>;

    /// Begins to await one, unless that is needless. Returns whether to begin the next.
    template <std::size_t I> bool begin() {
        if (!waits<I>()) complete(I);
        return !IsAny || left_ != 0;
    }

    template <std::size_t I> bool waits() {
        auto& awaiter = std::get<I>(inner_).begin();
        if (awaiter.await_ready()) return false;
        const std::coroutine_handle<> self = std::get<I>(branches_).stand_in(*this, I);
        using next = decltype(awaiter.await_suspend(self));
        if constexpr (std::is_void_v<next>)
            awaiter.await_suspend(self);
        else if constexpr (std::is_same_v<next, bool>)
            return awaiter.await_suspend(self);
        else
            awaiter.await_suspend(self).resume();
        return true;
    }

    void complete(std::size_t index) {
        if (left_ == 0) return;
        first_ = index;
        if (--left_ == 0 && begun_) waiting_.resume();
    }

    template <std::size_t I> result first_result() {
        if constexpr (I + 1 < sizeof...(Awaitables))
            if (first_ != I) return first_result<I + 1>();
        return result(std::in_place_index<I>, take<I>());
    }

    template <std::size_t I> auto take() {
        auto& awaiter = std::get<I>(inner_).current();
        using kept = detail::kept_result<std::tuple_element_t<I, std::tuple<Awaitables...>>>;
        if constexpr (std::is_void_v<decltype(awaiter.await_resume())>)
            return awaiter.await_resume(), kept();
        else
            return kept(awaiter.await_resume());
    }

    std::tuple<detail::abandonable<Awaitables>...> inner_;
    std::array<detail::branch<several>, sizeof...(Awaitables)> branches_{};
    std::coroutine_handle<> waiting_;
    std::size_t left_ = IsAny ? 1 : sizeof...(Awaitables);
    std::size_t first_ = 0;  ///< the one that completed last, for when_any also the first
    bool begun_ = false;     ///< the coroutine is suspended
};

/// Awaits the first of several awaitables, and cancels the others:
///
///     auto first = co_await tvec::when_any(socket.receive(), tvec::sleep_for(timers, 30s));
///     if (first.index() == 1) co_return;                   // 30 s have passed
///     handle(std::get<0>(first));
///
/// Returns a std::variant, with the position of the first in index(). They begin in the order of
/// the arguments. If one is ready, those after it do not begin. The others are cancelled by
/// destroying them, before the coroutine goes on, even if they have just completed. A cancelled
/// beat of an interval comes with the next next(). An exception of the first leaves the co_await.
///
/// Awaitables are as for with_timeout. Each is an rvalue, which is moved, or an lvalue with an
/// operator co_await. Its destructor must cancel: one that does nothing does not compile. All
/// complete on the thread that awaits them. The coroutine may be destroyed while it is suspended,
/// which cancels all, but not by awaitables that are just beginning.
///
/// Allocates nothing. Costs four words for each awaitable. Give the result a name: see
/// with_timeout.
template <class... Awaitables> several<true, Awaitables...> when_any(Awaitables&&... all) {
    return several<true, Awaitables...>(std::forward<Awaitables>(all)...);
}

/// Awaits all of several awaitables:
///
///     auto [user, orders] = co_await tvec::when_all(load_user(id), load_orders(id));
///
/// Returns a std::tuple of their results. An exception does not cancel the others: when all have
/// completed, the first in the order of the arguments leaves the co_await. An exception while they
/// begin leaves it at once, and cancels those that have begun. with_timeout around it cancels all:
/// a beat of an interval that had completed comes with the next next(). Otherwise as when_any.
template <class... Awaitables> several<false, Awaitables...> when_all(Awaitables&&... all) {
    return several<false, Awaitables...>(std::forward<Awaitables>(all)...);
}

}  // namespace tvec
