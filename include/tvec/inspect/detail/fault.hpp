/// \file
/// The result of `check`, without allocation.
#pragma once

#include <array>
#include <cassert>

#include "tvec/core/detail/export.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/inspect/detail/text.hpp"

namespace tvec::detail {

/// The message about a broken invariant, with its numbers; empty if all invariants hold.
class fault {
public:
    bool empty() const noexcept { return text_[0] == '\0'; }
    const char* c_str() const noexcept { return text_.data(); }

    template <class... Parts> static fault of(const Parts&... parts) noexcept {
        fault found;
        bounded memory(found.text_.data(), found.text_.size());
        text out = memory;
        (out << ... << parts);
        assert(!found.empty() && "a fault says which rule is broken");
        return found;
    }

private:
    std::array<char, 256> text_{};
};

TVEC_API fault first_fault(const timer_wheel& wheel) noexcept;

}  // namespace tvec::detail
