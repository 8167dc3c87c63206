// How the C interface ends a program that has done what it must not do: there is no std::terminate.
#include <cstdio>
#include <cstdlib>

#include "tvec/core/detail/broken_promise.hpp"

namespace tvec::detail {

void broken_promise(const char* what) noexcept {
    std::fprintf(stderr, "tvec: %s\n", what);
    std::abort();
}

}  // namespace tvec::detail
