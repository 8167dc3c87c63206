// says: pointers have tags here: build it with -Dtagged_addresses=true
// lines: 2
// defined: __SANITIZE_HWADDRESS__
#include "tvec/tvec.hpp"
