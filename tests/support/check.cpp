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

#ifdef SUPPORT_EVERYWHERE
int main() {
    unsigned done = 0;
    for (const auto& t : support::everywhere::tests()) {
        std::printf("%s%s\n", t.name, t.wanted.signal != 0 ? ": skipped" : "");
        std::fflush(stdout);
        if (t.wanted.signal == 0) try {
                t.body();
                ++done;
            } catch (const support::everywhere::skipped&) {
                std::puts(": skipped from here, where it needs a process of its own");
            }
    }
    std::printf("%u of %zu tests\n", done, support::everywhere::tests().size());
    return done == 0;
}
#endif
