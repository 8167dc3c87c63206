// Included before everything else: the first error message names the standard. The include of a
// file that does not exist stops the compiler there. Hundreds of errors would follow.
#pragma once

#if __cplusplus < 202002L
#error "tvec needs C++20: compile with -std=c++20 or later"
#include <C++20>
#endif
