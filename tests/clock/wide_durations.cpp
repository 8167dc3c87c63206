// The compiler refuses durations that count in more than 64 bits, because they could wrap. They
// exist only in the GNU dialect, in which this file is built.
#include <concepts>
#include <tuple>
#include <type_traits>

#include "support/check.hpp"
#include "support/coroutines.hpp"
#include "support/pooled.hpp"
#include "tvec/coroutines/sleep.hpp"

TestSuite(wide_durations, .timeout = 60);

namespace {

using support::manual_wheel, support::signal;
using pool = support::pooled::pool_type;
using function = void (*)();
using namespace std::chrono_literals;

template <class T> T& some();  // used unevaluated

// The calls that take a duration.
constexpr std::tuple calls{
    [](auto d) -> decltype(void(some<manual_wheel>().arm_after(some<tvec::timer>(), d))) {},
    [](auto d) -> decltype(void(some<manual_wheel>().arm_within(some<tvec::timer>(), d, 1s))) {},
    [](auto d) -> decltype(void(some<manual_wheel>().arm_within(some<tvec::timer>(), 1s, d))) {},
    [](auto d) -> decltype(void(some<manual_wheel>().arm_next(some<tvec::timer>(), d))) {},
    [](auto d) -> decltype(void(manual_wheel::after(d))) {},
    [](auto d) -> decltype(void(some<manual_wheel>().ticks().ticks_to_cover(d))) {},
    [](auto d) -> decltype(void(some<pool>().schedule(d, some<function>()))) {},
    [](auto d) -> decltype(void(some<pool>().schedule_every(d, some<function>()))) {},
    [](auto d) -> decltype(void(some<pool>().reschedule(tvec::timeout_handle(), d))) {},
    [](auto d) -> decltype(void(sleep_for(some<manual_wheel>(), d))) {},
    [](auto d) -> decltype(void(with_timeout(some<manual_wheel>(), some<signal>(), d))) {},
};

// Counts the calls that accept a duration of `Rep`.
template <class Rep> std::size_t taken() {
    using duration = std::chrono::duration<Rep, std::milli>;
    return std::apply(
        [](auto... call) { return (std::size_t{std::invocable<decltype(call), duration>} + ...); },
        calls);
}

__extension__ using wide = __int128;
__extension__ using unsigned_wide = unsigned __int128;

}  // namespace

Test(wide_durations, every_call_refuses_durations_beyond_64_bits) {
    static_assert(std::integral<wide> && std::integral<unsigned_wide>, "or nothing is tested");
    CHECK_EQ(taken<wide>(), 0);
    CHECK_EQ(taken<unsigned_wide>(), 0);
}

Test(wide_durations, durations_up_to_64_bits_are_accepted) {
    CHECK_EQ(taken<std::int64_t>(), std::tuple_size_v<decltype(calls)>);
    CHECK_EQ(taken<std::uint64_t>(), std::tuple_size_v<decltype(calls)>);
    CHECK_EQ(taken<int>(), std::tuple_size_v<decltype(calls)>);
    CHECK_EQ(taken<unsigned char>(), std::tuple_size_v<decltype(calls)>);
}
