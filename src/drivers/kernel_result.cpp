#include "tvec/drivers/detail/kernel_result.hpp"

#include <cassert>
#include <cstdio>
#include <cstring>
#include <exception>
#include <system_error>

namespace tvec::detail {

void raise(int error, const char* tried) {
    assert(error > 0 && tried != nullptr && "an error has a number, and says what was tried");
#ifdef __cpp_exceptions
    throw std::system_error(error, std::system_category(), tried);
#else
    std::fprintf(stderr, "tvec: %s: %s\n", tried, std::strerror(error));
    std::terminate();
#endif
}

}  // namespace tvec::detail
