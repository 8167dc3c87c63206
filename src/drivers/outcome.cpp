#include "tvec/detail/drivers/outcome.hpp"

#include <system_error>

namespace tvec::detail {

void raise(int error, const char* tried) {
    throw std::system_error(error, std::system_category(), tried);
}

}  // namespace tvec::detail
