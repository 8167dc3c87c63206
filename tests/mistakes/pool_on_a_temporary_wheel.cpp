// says: a wheel that outlives it
// lines: 5
#include "tvec/tvec.hpp"

tvec::timeout_pool pool(tvec::clocked_wheel<>{});
