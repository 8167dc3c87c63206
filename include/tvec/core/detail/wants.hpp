/// \file
/// Sentences for calls that do not compile.
///
/// A wrong call finds a deleted function, whose line says what to write instead. Compilers show the
/// call first, and then that line. Such functions stand below what users call.
#pragma once

#include <concepts>

/// Replaces `= delete`, and says what to write instead. It has to stand on the line of the
/// function's name, which is the line that compilers show.
#if defined(__cpp_deleted_function) && __cplusplus > 202302L
#define TVEC_WANTS(what) = delete ("it wants " what)
#else
#define TVEC_WANTS(what) = delete
#endif

namespace tvec::detail {

/// An argument that is no `Right`: the parameter of a deleted overload. What is a `Right` prefers
/// the function that takes it.
template <class Right> struct no {
    template <class T>
    // NOLINTNEXTLINE(bugprone-forwarding-reference-overload): nobody copies one.
    requires(!std::convertible_to<T, Right>) no(T&&);
};

/// Any argument that the other overloads do not take.
using anything = no<void>;

}  // namespace tvec::detail

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
