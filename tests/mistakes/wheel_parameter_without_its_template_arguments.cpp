// g++ says: clocked_wheel
// clang++ says: clocked_wheel
// lines: 1
#include "tvec/tvec.hpp"

void serve(tvec::clocked_wheel& timers);
