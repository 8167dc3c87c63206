// says: take gives a function object
// lines: 12
#include "tvec/tvec.hpp"

struct mail {
    void operator()() const {}
};

auto take(tvec::timeout_pool<>& pool, tvec::timeout_handle h) { return pool.take<const mail>(h); }
