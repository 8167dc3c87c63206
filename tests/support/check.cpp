#include "support/check.hpp"

namespace support {

void report(const char* file, unsigned line, const std::string& what) {
    criterion_assert_stats failed{};
    failed.file = file;
    failed.line = line;
    failed.message = what.c_str();
    criterion_send_assert(&failed);
}

}  // namespace support
