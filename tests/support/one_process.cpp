// Runs Criterion's tests one after the other in this process, in place of its own runner, which
// gives each a child. Valgrind and the leak checkers judge a process by its exit: here there is
// one, and it is honest. The first failure aborts. A test that is to end its process is left out.
//
// The functions that Criterion's macros call are defined again here; those of its library give way.
#include <criterion/criterion.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

extern "C" {
extern criterion_test* const __start_cr_tst[];
extern criterion_test* const __stop_cr_tst[];
}

namespace {

struct skipped {};

bool ends_its_process(const criterion_test& t) {
    return t.data->signal != 0 || t.data->exit_code != 0;
}

}  // namespace

void criterion_internal_test_setup() {}
void criterion_internal_test_teardown() {}

void criterion_internal_test_main(void (*test)()) try { test(); } catch (const skipped&) {
}

void criterion_send_assert(criterion_assert_stats* assertion) {
    if (assertion->passed) return;
    std::fprintf(stderr, "%s:%u: %s\n", assertion->file, assertion->line, assertion->message);
    std::abort();
}

void criterion_abort_test() { std::abort(); }

void criterion_skip_test(const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    std::vprintf(format, arguments);
    va_end(arguments);
    std::puts(": skipped");
    throw skipped{};
}

int main() {
    unsigned run = 0, left_out = 0;
    for (auto* const* t = __start_cr_tst; t != __stop_cr_tst; ++t) {
        if (*t == nullptr) continue;  // what a sanitizer puts between variables
        if (ends_its_process(**t)) {
            ++left_out;
            continue;
        }
        std::printf("%s: %s\n", (*t)->category, (*t)->name);
        std::fflush(stdout);
        (*t)->test();
        ++run;
    }
    std::printf("%u tests; %u left out, which are to end their process\n", run, left_out);
    return run == 0;
}
