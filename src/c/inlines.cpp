// What is inline in the header, as functions: for bindings, and for compilers that do not inline.
#define TVEC_INLINE
#include "tvec/tvec.h"
