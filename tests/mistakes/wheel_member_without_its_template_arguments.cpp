// g++ says: without an argument list
// clang++ says: template arguments
// lines: 1
#include "tvec/tvec.hpp"

struct server {
    tvec::clocked_wheel timers;
};
