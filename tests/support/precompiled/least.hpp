// What every test includes by itself. Where sources are compiled one by one, to see that each names
// what it needs, no more than this is compiled once for all.
#include "support/check.hpp"
