// That the tests are written for Criterion is the project's choice: this makes it quick.
// Criterion starts a process for each test. With TVEC_TOGETHER=1 a program starts one for each
// promise (a suite), whose tests run in turn in it. A process costs milliseconds, and on some
// machines more than most tests. Tests that a signal is to end, or that bring fixtures, keep a
// process each.
#include <criterion/criterion.h>
#include <criterion/internal/ordered-set.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
extern criterion_test* const __start_cr_tst[];
extern criterion_test* const __stop_cr_tst[];

void __real_criterion_internal_test_setup();
void __real_criterion_internal_test_main(void (*test)());
void __real_criterion_internal_test_teardown();
}

namespace {

struct skipped {};

bool inside = false;  // a promise's process runs the tests of the promise

bool needs_a_process(const criterion_test& t) {
    const auto& d = *t.data;
    return d.signal != 0 || d.exit_code != 0 || d.init || d.fini || d.kind_ != CR_TEST_NORMAL;
}

void run_each_test() {
    inside = true;
    for (auto* const* t = __start_cr_tst; t != __stop_cr_tst; ++t) {
        if (*t == nullptr || std::strcmp((*t)->category, criterion_current_test->category) != 0)
            continue;
        if (!needs_a_process(**t)) (*t)->test();
    }
}

void run_promise() {
    __real_criterion_internal_test_setup();
    __real_criterion_internal_test_main(run_each_test);
    __real_criterion_internal_test_teardown();
}

// Leaves the first test of the suite that may share a process, as one that runs all of these.
void join(criterion_test_set& all, criterion_ordered_set& tests) {
    criterion_test* promise = nullptr;
    for (auto** link = &tests.first; *link;) {
        auto* const t = reinterpret_cast<criterion_test*>(*link + 1);
        if (needs_a_process(*t)) {
            link = &(*link)->next;
        } else if (!promise) {
            promise = t;
            promise->name = "each_test";
            promise->test = run_promise;
            promise->data->timeout = 3600;
            link = &(*link)->next;
        } else {
            *link = (*link)->next;
            --tests.size;
            --all.tests;
        }
    }
}

}  // namespace

// The linker calls these in place of Criterion's.
extern "C" {

void __wrap_criterion_internal_test_setup() {
    if (!inside) __real_criterion_internal_test_setup();
}

void __wrap_criterion_internal_test_main(void (*test)()) {
    if (!inside) return __real_criterion_internal_test_main(test);
    try {
        test();
    } catch (const skipped&) {
    }
}

void __wrap_criterion_internal_test_teardown() {
    if (!inside) __real_criterion_internal_test_teardown();
}

void __real_criterion_skip_test(const char* format, ...);

void __wrap_criterion_skip_test(const char* format, ...) {
    char text[200];
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!inside) __real_criterion_skip_test("%s", text);
    std::fprintf(stderr, "skipped: %s\n", text);
    throw skipped{};
}
}

int main(int argc, char** argv) {
    criterion_test_set* const all = criterion_initialize();
    if (std::getenv("TVEC_TOGETHER")) {
        for (auto* node = all->suites->first; node; node = node->next) {
            auto* const tests = reinterpret_cast<criterion_suite_set*>(node + 1)->tests;
            if (tests) join(*all, *tests);
        }
    }
    const bool runs = criterion_handle_args(argc, argv, true);
    const int failed = runs && !criterion_run_all_tests(all);
    criterion_finalize(all);
    return failed;
}
