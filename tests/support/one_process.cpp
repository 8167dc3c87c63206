// Runs Criterion's tests one after the other in this process, in place of its own runner, which
// gives each a child. Valgrind and the leak checkers judge a process by its exit: here there is
// one, and it is honest. The first failure aborts. A test that is to end its process is left out.
//
// All that Criterion's macros call is defined here, and its library is not needed: that is how the
// tests run on machines for which there is none.
#include <criterion/alloc.h>
#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <criterion/options.h>

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

struct criterion_options criterion_options;  // all off

int cr_asprintf(char** text, const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    const int length = vasprintf(text, format, arguments);
    va_end(arguments);
    return length;
}

void* cr_malloc(std::size_t size) { return std::malloc(size); }
void* cr_calloc(std::size_t count, std::size_t size) { return std::calloc(count, size); }
void* cr_realloc(void* block, std::size_t size) { return std::realloc(block, size); }
void cr_free(void* block) { std::free(block); }

void cr_asprintf_free(char* text) { std::free(text); }

/// What failed, as it stands in the source. Assertions that say more say it in a format of theirs.
char* cr_translate_assert_msg(int, ...) { return strdup("failed"); }

void cr_log(criterion_severity, const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    std::vfprintf(stderr, format, arguments);
    va_end(arguments);
}

void criterion_internal_test_setup() {}
void criterion_internal_test_teardown() {}

void criterion_internal_test_main(void (*test)()) try { test(); } catch (const skipped&) {
}

void criterion_send_assert(criterion_assert_stats* assertion) {
    if (assertion->passed) return;
    std::fprintf(stderr, "%s:%u: %s\n", assertion->file, assertion->line, assertion->message);
    std::abort();
}

void cri_asserts_passed_incr() {}
void criterion_continue_test() {}  // the first failure has ended it
void criterion_abort_test() { std::abort(); }

void criterion_test_die(const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    std::vfprintf(stderr, format, arguments);
    va_end(arguments);
    std::abort();
}

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
