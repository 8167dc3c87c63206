// What most tests include, compiled once for all of them. Each still names what it needs: with
// -Dby_rooms=false nobody has this, and `scripts/check clang` builds so.
#include <algorithm>
#include <array>
#include <chrono>
#include <criterion/criterion.h>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
