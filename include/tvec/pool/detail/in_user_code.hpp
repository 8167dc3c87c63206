/// \file
/// The guard of pools and mailboxes while they call user code.
#pragma once

#include <cassert>
#include <cstddef>

namespace tvec::detail {

/// Counts a call of user code as long as it lives: of a function, its destructor, a hook or a
/// visitor. While the count is not 0, the pool or mailbox must not be destroyed.
class in_user_code {
public:
    explicit in_user_code(std::size_t& depth) noexcept : depth_(depth) { ++depth_; }
    ~in_user_code() {
        assert(depth_ != 0 && "each call of user code is counted once");
        --depth_;
    }
    in_user_code(const in_user_code&) = delete;
    in_user_code& operator=(const in_user_code&) = delete;

private:
    std::size_t& depth_;
};

}  // namespace tvec::detail
