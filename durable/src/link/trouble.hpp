// Faults of a link to a server.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <system_error>
#include <utility>

namespace tvec::durable::detail {

// A fault: its code, and words if the code does not tell everything.
struct trouble {
    explicit trouble(int error) : code(error, std::system_category()) {}
    trouble(std::error_code c, std::string words) : code(c), why(std::move(words)) {}
    trouble(std::errc c, std::string words) : trouble(std::make_error_code(c), std::move(words)) {}

    std::string text() const { return why.empty() ? code.message() : why; }
    // Returns the fault with the place in its words.
    trouble at(const std::string& where) const {
        return {code, where + (why.empty() ? "" : ": " + why)};
    }
    [[noreturn]] void raise(const std::string& store) const {
        throw std::system_error(code, store + ": " + why);
    }

    std::error_code code;
    std::string why{};
};

// The faults of all links of a store.
struct faults {
    std::string last{};                             // the last one, in one line
    std::map<std::string, std::uint64_t> broken{};  // how often a link broke, by reason
};

}  // namespace tvec::durable::detail
