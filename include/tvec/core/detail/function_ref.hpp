/// \file
/// A reference to a callable of any type.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tvec::detail {

/// Refers to a function or a function object of any type, and calls it. Owns nothing: the callable
/// must outlive it.
template <class Signature> class function_ref;

template <class Result, class... Arguments> class function_ref<Result(Arguments...)> {
public:
    template <class F>
    requires(!std::is_same_v<std::remove_cv_t<F>, function_ref>) function_ref(F& f)
    noexcept
        : callable_(reinterpret_cast<std::uintptr_t>(&f)),  // of a function, too
          call_([](std::uintptr_t it, Arguments... a) -> Result {
              return (*reinterpret_cast<F*>(it))(static_cast<Arguments>(a)...);
          }) {}

    /// Returns whether both refer to the same callable.
    friend bool operator==(const function_ref&, const function_ref&) = default;

    Result operator()(Arguments... a) const {
        return call_(callable_, static_cast<Arguments>(a)...);
    }

private:
    std::uintptr_t callable_;
    Result (*call_)(std::uintptr_t, Arguments...);
};

/// Calls visit(thing), and returns whether to go on: what `visit` returns, or true if it returns
/// nothing.
template <class F, class T> bool goes_on(F& visit, T& thing) {
    using answer = std::remove_cvref_t<std::invoke_result_t<F&, T&>>;
    static_assert(std::is_void_v<answer> || std::is_same_v<answer, bool>,
                  "it returns nothing, or a bool: false to end here");
    if constexpr (std::is_void_v<answer>)
        return visit(thing), true;
    else
        return visit(thing);
}

}  // namespace tvec::detail
