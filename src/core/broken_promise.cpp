#include "tvec/core/detail/broken_promise.hpp"

#include <cstdio>
#include <exception>

namespace tvec::detail {

void broken_promise(const char* what) noexcept {
    std::fprintf(stderr, "tvec: %s\n", what);
    std::terminate();
}

}  // namespace tvec::detail
