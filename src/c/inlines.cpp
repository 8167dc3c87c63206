// The inline functions of the header as functions of the library: for bindings, and for compilers
// that do not inline.
#define TVEC_INLINE
#include "tvec/tvec.h"
