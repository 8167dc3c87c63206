/// \file
/// Type-erased function objects that live inside a node.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace tvec::detail {

/// The largest size and alignment of a function object.
inline constexpr std::size_t function_size = 48;
inline constexpr std::size_t function_alignment = 16;

/// Returns the object of type `F` that lives in `storage`.
template <class F> F& held(void* storage) noexcept {
    return *std::launder(static_cast<F*>(storage));
}

/// The operations of a type-erased function object. It is called with `Argument` if it accepts
/// that, else without arguments.
template <class Argument> struct function_kind {
    void (*call)(void* f, Argument a);
    void (*destroy)(void* f) noexcept;
};

template <class F, class Argument> struct function_kind_of {
    static void call(void* f, Argument a) {
        F& function = held<F>(f);
        if constexpr (std::is_invocable_v<F&, Argument>)
            static_cast<void>(function(a));
        else
            static_cast<void>(function());
    }
    static void destroy(void* f) noexcept { held<F>(f).~F(); }

    static constexpr function_kind<Argument> value{call, destroy};
};

class group_link;
template <class F> class grouped_function;

/// A function on its way into a group: a reference, which lives as long as the call that takes it.
template <class F> struct joining {
    group_link& group;
    F function;  ///< a reference
};

/// The type of the object that holds a function given as `F`.
template <class F> struct holder { using type = F; };
template <class F> struct holder<joining<F>> { using type = grouped_function<std::decay_t<F>>; };
template <class F> using holder_of = typename holder<std::decay_t<F>>::type;

/// Makes a function object from `f` in `storage`, which has room for it. Returns its operations.
template <class Argument, class F>
const function_kind<Argument>* hold_function(std::byte* storage, F&& f) {
    using object = holder_of<F>;
    static_assert(sizeof(object) <= function_size,
                  "a timeout's function object has at most 48 bytes: capture a pointer to "
                  "what it needs, or a std::unique_ptr");
    static_assert(alignof(object) <= function_alignment,
                  "a timeout's function object is aligned to at most 16 bytes: capture a "
                  "pointer to what it needs, or a std::unique_ptr");
    static_assert(std::is_nothrow_destructible_v<object>,
                  "a timeout's function object has a destructor that does not throw");
    assert(reinterpret_cast<std::uintptr_t>(storage) % alignof(object) == 0 &&
           "storage is aligned for the object");
    ::new (static_cast<void*>(storage)) object(std::forward<F>(f));
    return &function_kind_of<object, Argument>::value;
}

/// Returns whether `f` is a null pointer, or an object that is as empty as one.
template <class F> bool is_empty_function(const F& f) noexcept {
    if constexpr (std::is_pointer_v<F>)
        return f == nullptr;
    else if constexpr (std::is_constructible_v<F, std::nullptr_t> &&
                       std::is_constructible_v<bool, const F&>)
        return !static_cast<bool>(f);
    else
        return false;
}
template <class F> bool is_empty_function(const joining<F>& j) noexcept {
    return is_empty_function(j.function);
}

}  // namespace tvec::detail
