// Before anything else is included, so that an older standard is what the first line speaks of. The
// include ends it there: hundreds of lines would follow.
#pragma once

#if __cplusplus < 202002L
#error "tvec needs C++20: compile with -std=c++20 or later"
#include <C++20>
#endif
