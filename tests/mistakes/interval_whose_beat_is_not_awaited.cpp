// says: it waits for nothing before it is awaited
// lines: 6
#include "tvec/tvec.hpp"

void beat(tvec::interval& every) { every.next(); }
