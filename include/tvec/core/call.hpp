/// \file
/// The binding of a timer to the object around it: the callbacks that call a method of that object.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "tvec/core/detail/wants.hpp"
#include "tvec/core/timer.hpp"

namespace tvec {

namespace detail {

template <class Pointer> struct member_pointer {  // no member pointer
    using object = void;
    using member = void;
};
template <class Object, class Member> struct member_pointer<Member Object::*> {
    using object = Object;
    using member = Member;
};
template <auto Pointer>
using pointer_to_member = member_pointer<std::remove_const_t<decltype(Pointer)>>;
template <auto Pointer> using object_of = typename pointer_to_member<Pointer>::object;

/// The number of timers in a member of that type; 0 if it is no array of timers. They may be of a
/// class derived from `timer`.
template <class Member> inline constexpr std::size_t timers_in_array = 0;
template <std::derived_from<timer> T, std::size_t N>
inline constexpr std::size_t timers_in_array<T[N]> = N;
template <std::derived_from<timer> T, std::size_t N>
inline constexpr std::size_t timers_in_array<std::array<T, N>> = N;

/// The type of a timer in a member: the member itself, or an element of it.
template <class Member> struct timer_in { using type = Member; };
template <std::derived_from<timer> T, std::size_t N> struct timer_in<T[N]> { using type = T; };
template <std::derived_from<timer> T, std::size_t N> struct timer_in<std::array<T, N>> {
    using type = T;
};

/// Returns whether `Hook` points to a timer. If not, the compiler says what it points to.
template <auto Hook> consteval bool is_hook() {
    using member = typename pointer_to_member<Hook>::member;
    constexpr bool is_method = std::is_function_v<member>, is_array = timers_in_array<member> != 0;
    constexpr bool is_const = std::is_const_v<member>, is_timer = std::is_base_of_v<timer, member>;
    static_assert(!is_method, "first the timer, then the method: "
                              "tvec::call<&connection::idle, &connection::on_idle>");
    static_assert(!is_array, "each timer of an array has a callback of its own: "
                             "tvec::call_each<&connection::timers, &connection::on_timer>()");
    static_assert(!is_const, "arming changes a timer: declare it without const");
    static_assert(is_method || is_array || is_const || is_timer,
                  "the first argument points to a member that is a tvec::timer: &connection::idle");
    static_assert(!is_timer || sizeof(decltype(Hook)) == sizeof(std::ptrdiff_t),
                  "a data member pointer is an offset");
    return is_timer;
}

/// Returns whether `Array` points to an array of timers with an element `I`.
template <auto Array, std::size_t I> consteval bool is_hook_of_element() {
    constexpr std::size_t size = timers_in_array<typename pointer_to_member<Array>::member>;
    static_assert(size != 0, "the first argument points to a member that is a std::array of "
                             "tvec::timer, or a tvec::timer[]: &connection::timers");
    static_assert(size == 0 || I < size, "the array has no such element");
    return I < size;
}

/// The class of the object that holds the timer and is called. It may be derived from the class of
/// the timer or of the method. A class derived from both cannot be deduced.
template <auto Hook, auto Method>
using owner_for = std::conditional_t<std::is_base_of_v<object_of<Hook>, object_of<Method>>,
                                     object_of<Method>, object_of<Hook>>;

/// What a method may take: the timer in a member. Any timer, if that holds none.
template <auto Hook,
          class Timer = typename timer_in<typename pointer_to_member<Hook>::member>::type>
using timer_of = std::conditional_t<std::is_base_of_v<timer, Timer>, Timer, timer>;

template <class Base, class Owner>
concept base_at_an_offset = requires(Base& b) {
    static_cast<Owner&>(b);
};

/// Returns whether an `Owner` has `Hook` and `Method`. If not, the compiler says why.
template <auto Hook, auto Method, class Owner> consteval bool is_method_of() {
    constexpr bool is_method = std::is_member_function_pointer_v<decltype(Method)>;
    constexpr bool is_own =
        std::is_base_of_v<object_of<Method>, Owner> && std::is_base_of_v<object_of<Hook>, Owner>;
    constexpr bool is_there = is_own && base_at_an_offset<object_of<Hook>, Owner>;
    static_assert(is_method,
                  "the second argument is a method: &connection::on_idle; a function, or "
                  "a static method, is what tvec::timer itself is made of");
    static_assert(!is_method || is_own,
                  "the timer and the method belong to the same object: to one class and its base, "
                  "or to two bases of a class that is named: tvec::call<timer, method, class>");
    static_assert(!is_own || is_there, "a timer in a virtual base does not know its object");
    return is_method && is_there;
}

/// Returns whether an `Owner` has `Hook` and can call `Method`. If not, the compiler says why.
template <auto Hook, auto Method, class Owner> consteval bool is_method_for() {
    using method = decltype(Method);
    using own_timer = timer_of<Hook>;
    constexpr bool is_own = is_method_of<Hook, Method, Owner>();
    constexpr bool is_callable = std::is_invocable_v<method, Owner&> ||
                                 std::is_invocable_v<method, Owner&, timer_wheel&> ||
                                 std::is_invocable_v<method, Owner&, own_timer&> ||
                                 std::is_invocable_v<method, Owner&, timer_wheel&, own_timer&>;
    static_assert(!is_own || is_callable,
                  "the method takes nothing, a tvec::timer_wheel&, a tvec::timer&, or both");
    return is_own && is_callable;
}

/// Returns the object with `t` as its member `Hook`, or as element `I` of that member.
template <class Owner, auto Hook, std::size_t I> Owner& owner_around(timer& t) noexcept {
    using holder = object_of<Hook>;
    using element = typename timer_in<typename pointer_to_member<Hook>::member>::type;
    auto* const first =
        reinterpret_cast<std::byte*>(&static_cast<element&>(t)) - I * sizeof(element);
    return static_cast<Owner&>(*static_cast<holder*>(
        static_cast<void*>(first - __builtin_bit_cast(std::ptrdiff_t, Hook))));
}

}  // namespace detail

/// Returns the object with `t` as its member `Hook`: the kernel's container_of, without the macro.
/// `Hook` points to a member of type `timer`, or of a class derived from it, that is not in a
/// virtual base.
template <auto Hook> auto& owner_of(timer& t) noexcept {
    if constexpr (detail::is_hook<Hook>())
        return detail::owner_around<detail::object_of<Hook>, Hook, 0>(t);
    else
        return t;
}

namespace detail {

template <class Owner, auto Method, class Timer>
void call_method(Owner& owner, timer_wheel& wheel, Timer& t) {
    using method = decltype(Method);
    if constexpr (std::is_invocable_v<method, Owner&, timer_wheel&, Timer&>)
        (owner.*Method)(wheel, t);
    else if constexpr (std::is_invocable_v<method, Owner&, timer_wheel&>)
        (owner.*Method)(wheel);
    else if constexpr (std::is_invocable_v<method, Owner&, Timer&>)
        (owner.*Method)(t);
    else
        (owner.*Method)();
}

template <auto Hook, auto Method, class Owner> void call_owner(timer_wheel& wheel, timer& t) {
    if constexpr (is_hook<Hook>() && is_method_for<Hook, Method, Owner>())
        call_method<Owner, Method>(owner_around<Owner, Hook, 0>(t), wheel,
                                   static_cast<timer_of<Hook>&>(t));
}

template <auto Array, std::size_t I, auto Method, class Owner>
void call_owner_of_element(timer_wheel& wheel, timer& t) {
    if constexpr (is_hook_of_element<Array, I>() && is_method_for<Array, Method, Owner>())
        call_method<Owner, Method>(owner_around<Owner, Array, I>(t), wheel,
                                   static_cast<timer_of<Array>&>(t));
}

}  // namespace detail

/// A callback that calls `Method` on the object that holds the timer as `Hook`:
///
///     struct connection {
///         void on_idle();
///         tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
///     };
///
/// `Method` takes nothing, a `timer_wheel&`, a `timer&`, or both in this order. For the `timer&` it
/// may take the class of the timer, such as `grouped_timer&`. Several timers may share one method
/// that compares addresses. Its result is ignored. The callback is one function: the method,
/// inlined.
///
/// Timer and method may be members of a base. If they belong to two bases, name the class of the
/// object itself: call<&has_timer::t, &has_method::on_fire, connection>. The base that has the
/// timer must not be a virtual one.
template <auto Hook,              // a pointer to the timer: &connection::idle
          auto Method = nullptr,  // a pointer to the method: &connection::on_idle
          class Owner = detail::owner_for<Hook, Method>>
inline constexpr timer::callback call = &detail::call_owner<Hook, Method, Owner>;

/// A callback as `call` makes, for element `I` of a member that is a plain array of timers. Each
/// element has a small function of its own, which knows the offset of the object. No memory is
/// needed. An element must not be moved to another place of its array. Objects with arrays may be
/// moved. For a std::array there is call_each.
///
///     tvec::timer two[2]{tvec::timer{tvec::call_element<&job::two, 0, &job::on_two>},
///                        tvec::timer{tvec::call_element<&job::two, 1, &job::on_two>}};
template <auto Array, std::size_t I, auto Method, class Owner = detail::owner_for<Array, Method>>
inline constexpr timer::callback call_element =
    &detail::call_owner_of_element<Array, I, Method, Owner>;

namespace detail {

template <auto Array, auto Method, class Owner, std::size_t... I>
auto timers_of(std::index_sequence<I...>, auto&... of_each) noexcept {
    using element = typename timer_in<typename pointer_to_member<Array>::member>::type;
    return std::array<element, sizeof...(I)>{
        {element{of_each..., call_element<Array, I, Method, Owner>}...}};
}

/// The type of call_each. Calling it makes the timers.
template <auto Array, auto Method, class Owner> struct maker_of_timers {
    auto operator()(auto&... of_each) const noexcept {
        constexpr std::size_t size = timers_in_array<typename pointer_to_member<Array>::member>;
        if constexpr (is_hook_of_element<Array, 0>())
            return timers_of<Array, Method, Owner>(std::make_index_sequence<size>(), of_each...);
    }

    template <std::same_as<timer> T>
    operator T() const TVEC_WANTS("to be called: call_each<&k::timers, &k::on_timer>()");
};

}  // namespace detail

/// The timers of a member that is a std::array, each with its call_element. An argument is given to
/// each of them, as its group to a `grouped_timer`. The difference of two addresses says which of
/// them has fired:
///
///     struct connection {
///         void on_phase(tvec::timer& t) { const auto phase = &t - phases.data(); ... }
///         std::array<tvec::timer, 3> phases{
///             tvec::call_each<&connection::phases, &connection::on_phase>()};
///     };
template <auto Array, auto Method, class Owner = detail::owner_for<Array, Method>>
inline constexpr detail::maker_of_timers<Array, Method, Owner> call_each;

/// A timer that holds its own function object, for locals, tests and tools:
///
///     tvec::callback_timer beat{[&](tvec::timer_wheel& wheel, tvec::timer& self) {
///         wheel.arm_next(self, 100);
///     }};
///
/// `F` is called with (timer_wheel&, timer&), or with nothing. A callback_timer is movable if `F`
/// is, into another of its type. A pending one keeps its place when it is moved, and its function
/// moves along. If moving `F` throws, both timers are pending as before.
template <class F> class callback_timer : public timer {
    static_assert(
        std::is_invocable_v<F&, timer_wheel&, timer&> || std::is_invocable_v<F&>,
        "a callback_timer's function takes (tvec::timer_wheel&, tvec::timer&), or nothing");

public:
    /// Makes a timer that is not armed.
    explicit callback_timer(F f) : timer(&run), f_(std::move(f)) {}

    void set_callback(timer::callback) TVEC_WANTS("another callback_timer, assigned to this one");
    callback_timer(const callback_timer&) TVEC_WANTS("std::move: a timer is in one place");
    callback_timer& operator=(const callback_timer&) TVEC_WANTS("a function that can be assigned");

    // Functions are moved before places, because only they can throw.

    /// Takes the function of `other`, its place in its wheel and its deadline.
    callback_timer(callback_timer&& other) noexcept(
        std::is_nothrow_move_constructible_v<F>) requires std::is_move_constructible_v<F>
        : timer(&run), f_(std::move(other.f_)) {
        timer::operator=(static_cast<timer&&>(other));
    }

    /// Takes the same, and cancels this timer. If assigning `F` throws, both timers are pending as
    /// before. Self-assignment is a no-op.
    callback_timer& operator=(callback_timer&& other) noexcept(
        std::is_nothrow_move_assignable_v<F>) requires std::is_move_assignable_v<F> {
        if (this == &other) return *this;
        f_ = std::move(other.f_);
        timer::operator=(static_cast<timer&&>(other));
        return *this;
    }

private:
    static void run(timer_wheel& wheel, timer& t) {
        auto& self = static_cast<callback_timer&>(t);
        if constexpr (std::is_invocable_v<F&, timer_wheel&, timer&>)
            self.f_(wheel, t);
        else
            self.f_();
    }

    F f_;
};

/// Deduces the type of the function.
template <class F> callback_timer(F) -> callback_timer<F>;

}  // namespace tvec
