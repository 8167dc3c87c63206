/* What a test in C says, as tests/support/check.hpp: CHECK(...) goes on after it has failed. */
#ifndef TESTS_C_CHECK_H
#define TESTS_C_CHECK_H

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>

static inline void check_failed(const char* file, unsigned line, const char* what) {
    struct criterion_assert_stats failed = {0};
    failed.file = file;
    failed.line = line;
    failed.message = what;
    criterion_send_assert(&failed);
    criterion_continue_test();
}

static inline void check_equal(const char* file, unsigned line, const char* claim, uint64_t a,
                               uint64_t b) {
    char what[256];
    if (a == b) return;
    snprintf(what, sizeof what, "%s: %" PRIu64 ", %" PRIu64, claim, a, b);
    check_failed(file, line, what);
}

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

/* Of whole numbers that are not negative. */
#define CHECK_EQ(a, b) check_equal(__FILE__, __LINE__, #a " == " #b, (uint64_t)(a), (uint64_t)(b))

#endif
