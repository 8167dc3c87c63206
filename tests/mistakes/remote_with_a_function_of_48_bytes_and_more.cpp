// says: capture a pointer to
// lines: 99
#include <array>

#include "tvec/tvec.hpp"

void add(const tvec::remote_sender<>& sender) {
    std::array<char, 64> many{};
    sender.post([many] { static_cast<void>(many); });
}
