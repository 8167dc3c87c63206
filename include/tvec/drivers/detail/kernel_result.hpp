/// \file
/// The result of a system call. The drivers in C++ throw its error, those in C return it.
#pragma once

#include <cassert>

#include "tvec/core/detail/export.hpp"

namespace tvec::detail {

/// Throws std::system_error with the error and the call that failed. A library built without
/// exceptions prints both on the standard error output, and ends the program.
[[noreturn]] TVEC_API void raise(int error, const char* tried);

/// An answer, or an error.
struct [[nodiscard]] kernel_result {
    bool yes = true;              ///< the answer; true if there was no question
    int error = 0;                ///< an errno value; 0: none
    const char* tried = nullptr;  ///< the call that failed; null without an error

    /// Returns the answer. Throws std::system_error if there was an error.
    bool or_throw() const {
        assert((error == 0) == (tried == nullptr) && "an error says what was tried");
        if (error != 0) [[unlikely]]
            raise(error, tried);
        return yes;
    }
};

}  // namespace tvec::detail
