/// \file
/// What came of asking the kernel: for the drivers in C++, which throw, and in C, which return it.
#pragma once

#include <cassert>

#include "tvec/core/detail/export.hpp"

namespace tvec::detail {

/// Throws std::system_error: the error, and what was tried. A library that is built without
/// exceptions says both on the standard error output, and ends the program.
[[noreturn]] TVEC_API void raise(int error, const char* tried);

/// An answer, or an error.
struct [[nodiscard]] kernel_result {
    bool yes = true;              ///< the answer, if there was a question
    int error = 0;                ///< an errno value; 0: none
    const char* tried = nullptr;  ///< if there was an error

    /// Throws std::system_error if there was an error. The answer.
    bool or_throw() const {
        assert((error == 0) == (tried == nullptr) && "an error says what was tried");
        if (error != 0) [[unlikely]]
            raise(error, tried);
        return yes;
    }
};

}  // namespace tvec::detail
