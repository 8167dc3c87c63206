// says: a function that can be assigned
// lines: 6
#include <utility>

#include "tvec/tvec.hpp"

void assign() {
    int n = 0;
    auto count = [&n] { ++n; };
    tvec::callback_timer a{count}, b{count};
    a = std::move(b);
}
