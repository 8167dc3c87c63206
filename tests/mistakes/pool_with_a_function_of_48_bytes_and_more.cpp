// says: capture a pointer to
// lines: 99
#include <array>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void add(tvec::timeout_pool<>& pool) {
    std::array<char, 64> many{};
    pool.schedule(1ms, [many] { static_cast<void>(many); });
}
