// The macros of Criterion that tests use here, for systems that have neither Criterion nor
// processes like Linux. The first failure ends the program. Skips tests that a signal is to end.
#pragma once

#define SUPPORT_EVERYWHERE

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct criterion_assert_stats {
    const char* file;
    unsigned line;
    const char* message;
};

namespace support::everywhere {

struct skipped {};

struct test {
    const char* name;
    void (*body)();
    struct {
        int signal = 0;
        double timeout = 0;
    } wanted;
};

inline std::vector<test>& tests() {
    static std::vector<test> all;
    return all;
}

struct listed {
    explicit listed(const test& t) { tests().push_back(t); }
};

}  // namespace support::everywhere

[[noreturn]] inline void criterion_abort_test() { std::exit(1); }
inline void criterion_continue_test() { criterion_abort_test(); }
inline void criterion_send_assert(const criterion_assert_stats* failed) {
    std::fprintf(stderr, "%s:%u: %s\n", failed->file, failed->line, failed->message);
}

#define TestSuite(suite, ...) static_assert(true)
#define Test(suite, test, ...)                                                                     \
    static void suite##_##test();                                                                  \
    static const support::everywhere::listed suite##_##test##_listed{                              \
        {#suite ": " #test, suite##_##test, {__VA_ARGS__}}};                                       \
    static void suite##_##test()

#define cr_assert_fail(...)                                                                        \
    (std::fprintf(stderr, __VA_ARGS__), std::fputc('\n', stderr), criterion_abort_test())
#define cr_expect_fail cr_assert_fail
