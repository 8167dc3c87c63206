// g++ says: discards qualifiers
// clang++ says: drops 'const' qualifier
// lines: 2
#include "tvec/tvec.hpp"

void arm(tvec::timer_wheel& w, const tvec::timer& t) { w.arm_after(t, 20); }
