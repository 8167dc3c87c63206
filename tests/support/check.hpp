// Checks: CHECK(...) and its comparisons print the expression and both values, and go on.
// REQUIRE(...) ends the test. Criterion's own asserts print either no values or take minutes to
// compile, because each expands its whole failure path in place. These call a function.
#pragma once

#include <criterion/criterion.h>

#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

namespace support {

template <class T> std::string show(const T& value) {
    std::ostringstream out;
    out << std::boolalpha << value;
    return out.str();
}
template <class T> std::string show(const std::optional<T>& value) {
    return value ? show(*value) : "none";
}

template <class T>
concept plain_integer =
    std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>;

// Integers compare by value, whatever their signs.
struct equal {
    template <class A, class B> bool operator()(const A& a, const B& b) const {
        if constexpr (plain_integer<A> && plain_integer<B>)
            return std::cmp_equal(a, b);
        else
            return a == b;
    }
};
struct less {
    template <class A, class B> bool operator()(const A& a, const B& b) const {
        if constexpr (plain_integer<A> && plain_integer<B>)
            return std::cmp_less(a, b);
        else
            return a < b;
    }
};

// Prints what failed, and where.
[[gnu::cold]] void report(const char* file, unsigned line, const std::string& what);

inline std::string said(const char* claim) { return claim; }
template <class A, class B> std::string said(const char* claim, const A& a, const B& b) {
    return std::string(claim) + ": " + show(a) + ", " + show(b);
}

// The values become text only when a check fails: a test may compare millions of times.
template <class... Values>
[[gnu::noinline, gnu::cold]] void fail(const char* file, unsigned line, const char* claim,
                                       const Values&... values) {
    report(file, line, said(claim, values...));
    criterion_continue_test();
}
template <class... Values>
[[noreturn, gnu::noinline, gnu::cold]] void
fail_and_end(const char* file, unsigned line, const char* claim, const Values&... values) {
    report(file, line, said(claim, values...));
    criterion_abort_test();
}

}  // namespace support

#define SUPPORT_VERIFY(failure, condition, ...)                                                    \
    do {                                                                                           \
        if (!(condition)) support::failure(__FILE__, __LINE__, __VA_ARGS__);                       \
    } while (false)

#define CHECK(condition) SUPPORT_VERIFY(fail, condition, #condition)
#define REQUIRE(condition) SUPPORT_VERIFY(fail_and_end, condition, #condition)

#define SUPPORT_COMPARE(failure, holds, a, b, sign)                                                \
    do {                                                                                           \
        const auto lhs_ = (a);                                                                     \
        const auto rhs_ = (b);                                                                     \
        SUPPORT_VERIFY(failure, holds, #a " " sign " " #b, lhs_, rhs_);                            \
    } while (false)

#define CHECK_EQ(a, b) SUPPORT_COMPARE(fail, support::equal{}(lhs_, rhs_), a, b, "==")
#define CHECK_NE(a, b) SUPPORT_COMPARE(fail, !support::equal{}(lhs_, rhs_), a, b, "!=")
#define CHECK_LT(a, b) SUPPORT_COMPARE(fail, support::less{}(lhs_, rhs_), a, b, "<")
#define CHECK_LE(a, b) SUPPORT_COMPARE(fail, !support::less{}(rhs_, lhs_), a, b, "<=")
#define CHECK_GE(a, b) SUPPORT_COMPARE(fail, !support::less{}(lhs_, rhs_), a, b, ">=")
#define REQUIRE_EQ(a, b) SUPPORT_COMPARE(fail_and_end, support::equal{}(lhs_, rhs_), a, b, "==")
#define REQUIRE_LE(a, b) SUPPORT_COMPARE(fail_and_end, !support::less{}(rhs_, lhs_), a, b, "<=")
