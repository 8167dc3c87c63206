/// \file
/// Messages for calls that do not compile.
#pragma once

namespace tvec::detail {

/// The result of a call that does not compile. It converts to any type, so that the message of the
/// call is the first error.
struct any_result {
    template <class T> operator T() const;
};

template <class> inline constexpr bool is_accepted = false;

}  // namespace tvec::detail

/// Replaces `= delete`, and says what to write instead. Compilers show the line on which a deleted
/// function is declared. Therefore the macro has to stand on the line of the function's name.
#if defined(__cpp_deleted_function) && __cplusplus > 202302L
#define TVEC_WANTS(what) = delete ("it wants " what)
#else
#define TVEC_WANTS(what) = delete
#endif

/// The body of a function template for arguments of type `T` that it does not accept. A call does
/// not compile, and the compiler says what it wants. The template returns any_result. The call
/// counts as possible in a requires expression: constructors, copies and moves are deleted instead.
#define TVEC_REFUSES(T, what)                                                                      \
    {                                                                                              \
        static_assert(tvec::detail::is_accepted<T>, "it wants " what);                             \
        return {};                                                                                 \
    }                                                                                              \
    static_assert(true)  // takes the semicolon

/// Stands behind a function's declaration, and refuses arguments that are a constant for which
/// `condition` holds. Only clang can: other compilers leave it to an assertion.
#ifdef __clang__
#define TVEC_REFUSES_CONSTANT(condition, what)                                                     \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wgcc-compat\"")          \
        __attribute__((diagnose_if(condition, "it wants " what, "error")))                         \
        _Pragma("clang diagnostic pop")
#else
#define TVEC_REFUSES_CONSTANT(condition, what)
#endif

/// Declares a method that other timers have and this class does not. A call does not compile, and
/// the compiler says what to write instead.
#define TVEC_INSTEAD(name, what)                                                                   \
    template <class... Given> tvec::detail::any_result name(Given&&...) const {                    \
        static_assert(sizeof...(Given) > 99, "instead of " #name ": " what);                       \
        return {};                                                                                 \
    }

/// Declares the same for a first argument that `concept_of` tells from those of the real method.
#define TVEC_INSTEAD_OF(concept_of, name, what)                                                    \
    template <concept_of Given, class... More>                                                     \
    tvec::detail::any_result name(Given&&, const More&...) const {                                 \
        static_assert(sizeof...(More) > 99, what);                                                 \
        return {};                                                                                 \
    }
