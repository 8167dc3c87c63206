// What a test says: CHECK(...) and its comparisons print the expression and both values, and go
// on; REQUIRE(...) ends the test. They stand on Criterion's own asserts, which print either no
// values or take minutes to compile.
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

}  // namespace support

#define CHECK(condition) cr_expect((condition), "%s", #condition)
#define REQUIRE(condition) cr_assert((condition), "%s", #condition)

// The values become text only when they disagree: a test may compare millions of times.
#define SUPPORT_COMPARE(verdict, holds, a, b, sign)                                                \
    do {                                                                                           \
        const auto lhs_ = (a);                                                                     \
        const auto rhs_ = (b);                                                                     \
        if (!(holds))                                                                              \
            verdict("%s %s %s: %s, %s", #a, sign, #b, support::show(lhs_).c_str(),                 \
                    support::show(rhs_).c_str());                                                  \
    } while (false)

#define CHECK_EQ(a, b) SUPPORT_COMPARE(cr_expect_fail, support::equal{}(lhs_, rhs_), a, b, "==")
#define CHECK_NE(a, b) SUPPORT_COMPARE(cr_expect_fail, !support::equal{}(lhs_, rhs_), a, b, "!=")
#define CHECK_LT(a, b) SUPPORT_COMPARE(cr_expect_fail, support::less{}(lhs_, rhs_), a, b, "<")
#define CHECK_LE(a, b) SUPPORT_COMPARE(cr_expect_fail, !support::less{}(rhs_, lhs_), a, b, "<=")
#define CHECK_GE(a, b) SUPPORT_COMPARE(cr_expect_fail, !support::less{}(lhs_, rhs_), a, b, ">=")
#define REQUIRE_EQ(a, b) SUPPORT_COMPARE(cr_assert_fail, support::equal{}(lhs_, rhs_), a, b, "==")
#define REQUIRE_LE(a, b) SUPPORT_COMPARE(cr_assert_fail, !support::less{}(rhs_, lhs_), a, b, "<=")
