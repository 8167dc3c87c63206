// g++ says: static assertion failed: result type must be constructible
// clang++ says: deleted
// lines: 22
#include <vector>

#include "tvec/tvec.hpp"

void add(std::vector<tvec::timeout_pool<>>& pools, tvec::clocked_wheel<>& w) {
    pools.emplace_back(w);
}
