// A store by its name, whose library is loaded if it is not this one.
#pragma once

#include <memory>
#include <string>

#include "tvec/durable/store.hpp"

namespace tvec::durable::c {

// Opens `FILE`, `redis:...` or `postgres:...`. Throws std::system_error.
std::unique_ptr<store> open_by_name(const std::string& name);

}  // namespace tvec::durable::c
