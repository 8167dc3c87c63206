// What most examples include, compiled once for all of them. Each still names what it needs: with
// -Dby_rooms=false nobody has this, and `scripts/check clang` builds so.
#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#if __has_include(<fmt/format.h>)
#include <fmt/format.h>
#endif
