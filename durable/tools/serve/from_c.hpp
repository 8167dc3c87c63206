// For functions that a library in C calls.
#pragma once

namespace example {

// Calls f() for a library in C, through which no exception may pass. Returns `otherwise` if it
// throws.
template <class R, class F> R from_c(R otherwise, F f) noexcept {
    try {
        return f();
    } catch (...) {
        return otherwise;
    }
}

}  // namespace example
