// Runs Criterion's tests one after the other in this process, in place of its own runner, which
// gives each a child. Valgrind and the leak checkers judge a process by its exit: here there is
// one, and it is honest. The first failure aborts. Only a test that a signal is to end has a child.
//
// With the arguments N and K, it is the K-th of N processes that share the tests.
//
// All that Criterion's macros call is defined here, and its library is not needed: that is how the
// tests run on machines for which there is none.
#include <criterion/alloc.h>
#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <criterion/options.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

extern "C" {
extern criterion_test* const __start_cr_tst[];
extern criterion_test* const __stop_cr_tst[];
}

namespace {

struct skipped {};

bool is_child = false;

// A child that failed must not look as if it had ended as it is to.
[[noreturn]] void fail() {
    if (is_child) _exit(1);
    std::abort();
}

void run_in_a_child(const criterion_test& t) {
    const pid_t child = fork();
    if (child == 0) {
        is_child = true;
        t.test();
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0) criterion_test_die("no child\n");
    if (!WIFSIGNALED(status) || WTERMSIG(status) != t.data->signal)
        criterion_test_die("signal %d did not end it\n", t.data->signal);
}

void run(const criterion_test& t) {
    std::printf("%s: %s\n", t.category, t.name);
    std::fflush(stdout);
    t.data->signal == 0 ? t.test() : run_in_a_child(t);
}

unsigned number(const char* argument) {
    return static_cast<unsigned>(std::strtoul(argument, nullptr, 10));
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

/// Returns the message of a plain assertion. Assertions that say more have a format of their own.
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
    fail();
}

void cri_asserts_passed_incr() {}
void criterion_continue_test() {}  // the first failure has ended it
void criterion_abort_test() { fail(); }

void criterion_test_die(const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    std::vfprintf(stderr, format, arguments);
    va_end(arguments);
    fail();
}

void criterion_skip_test(const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    std::vprintf(format, arguments);
    va_end(arguments);
    std::puts(": skipped");
    throw skipped{};
}

int main(int argc, char** argv) {
    const unsigned processes = argc == 3 ? number(argv[1]) : 1;
    const unsigned mine = argc == 3 ? number(argv[2]) : 0;
    if ((argc != 1 && argc != 3) || mine >= processes) {  // such as --filter
        std::fprintf(stderr, "usage: %s [N K], where K is below N\n", argv[0]);
        return 2;
    }
    unsigned all = 0, done = 0;
    for (auto* const* t = __start_cr_tst; t != __stop_cr_tst; ++t) {
        if (*t == nullptr) continue;  // what a sanitizer puts between variables
        if (all++ % processes != mine) continue;
        run(**t);
        ++done;
    }
    std::printf("%u of %u tests\n", done, all);
    return done == 0;
}
