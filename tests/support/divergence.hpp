// A disagreement of a wheel and its model, as an exception with the numbers.
#pragma once

#include <optional>
#include <sstream>
#include <stdexcept>

namespace support {

class divergence : public std::runtime_error {
    using runtime_error::runtime_error;
};

namespace detail {

template <class T> void print(std::ostream& out, const T& value) { out << value; }
template <class T> void print(std::ostream& out, const std::optional<T>& value) {
    if (value)
        out << *value;
    else
        out << "none";
}

}  // namespace detail

template <class... Parts> [[noreturn, gnu::noinline]] void diverge(const Parts&... parts) {
    std::ostringstream out;
    (detail::print(out, parts), ...);
    throw divergence(out.str());
}

template <class... Parts> void expect(bool holds, const Parts&... parts) {
    if (!holds) [[unlikely]]
        diverge(parts...);
}

}  // namespace support
