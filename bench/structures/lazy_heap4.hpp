#pragma once

#include "lazy_heap.hpp"

namespace bench {

struct lazy_heap4_adapter : lazy_heap<4> {
    static constexpr const char* name = "lazy_heap4";
    static constexpr description is{.what = "the same with four children to an entry",
                                    .order = lazy_heap_adapter::is.order,
                                    .allocation = lazy_heap_adapter::is.allocation,
                                    .cancel = lazy_heap_adapter::is.cancel};
};

}  // namespace bench
