// The end of a C program after a forbidden call: there is no std::terminate.
#include <cstdio>
#include <cstdlib>

#include "tvec/core/detail/broken_promise.hpp"

namespace tvec::detail {

void broken_promise(const char* what) noexcept {
    std::fprintf(stderr, "tvec: %s\n", what);
    std::abort();
}

}  // namespace tvec::detail
