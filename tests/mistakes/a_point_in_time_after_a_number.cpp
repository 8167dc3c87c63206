// says: a duration: 1500ms, not 1.5s
// lines: 5
#include "tvec/tvec.hpp"

const auto deadline = tvec::clocked_wheel<>::after(20);
