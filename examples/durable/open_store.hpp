// A store by its name, as programs are told it.
#pragma once

#include <memory>
#include <string>

#include "tvec/durable/sqlite_store.hpp"

namespace example {

inline constexpr const char* store_help = "where the timers are: a file, which is made if need be";

inline std::unique_ptr<tvec::durable::store> open_store(const std::string& where) {
    return std::make_unique<tvec::durable::sqlite_store>(where);
}

}  // namespace example
