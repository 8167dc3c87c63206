// Assertions that C and C++ lay out shared structures alike, and that the inline functions of both
// know the same constants.
#pragma once

#include <cstddef>
#include <type_traits>

#include "casts.hpp"

namespace tvec::detail {

// A class with access to private members.
class layout {
public:
    static bool is_linked(const timer& t) noexcept { return t.linked(); }
    static bool is_busy(const timer_wheel& wheel) noexcept {
        return wheel.busy_ != timer_wheel::activity::none;
    }

private:
    template <class T> static constexpr bool is_plain = std::is_standard_layout_v<T>;

    static_assert(is_plain<tvec_timer> && is_plain<tvec_wheel> && is_plain<timer_wheel>);

    static_assert(sizeof(tvec_timer) == sizeof(timer) && alignof(tvec_timer) == alignof(timer));
    static_assert(offsetof(tvec_timer, next) == offsetof(detail::link, next));
    static_assert(offsetof(tvec_timer, back) == offsetof(detail::link, back));
    // Both compilers' C++ ABI allow no other order: the deadline and the callback follow the link,
    // which fills its last byte.
    static_assert(offsetof(tvec_timer, expires) == sizeof(detail::link));
    static_assert(offsetof(tvec_timer, fire) == sizeof(detail::link) + sizeof(timer::expires_));
    static_assert(sizeof(timer) - offsetof(tvec_timer, fire) <
                  sizeof(timer::fire_) + alignof(timer));
    static_assert(TVEC_NEVER == never && ~TVEC_NEVER == timer::idle_bit);
    static_assert(detail::wheel_tag_shift == 48);
    static_assert(std::is_same_v<detail::wheel_id, TVEC_NUMBER_>);

    static_assert(sizeof(tvec_wheel) == TVEC_WHEEL_SIZE);
    static_assert(alignof(tvec_wheel) == TVEC_WHEEL_ALIGNMENT);
    static_assert(sizeof(void*) == 8 ? sizeof(timer_wheel) == TVEC_WHEEL_SIZE
                                     : sizeof(timer_wheel) <= TVEC_WHEEL_SIZE);
    static_assert(alignof(timer_wheel) <= TVEC_WHEEL_ALIGNMENT);
    static_assert(offsetof(tvec_wheel, in_place) == offsetof(timer_wheel, in_place_));
    static_assert(offsetof(tvec_wheel, now) == offsetof(timer_wheel, now_));
    static_assert(TVEC_UNLIMITED == timer_wheel::unlimited);
};

}  // namespace tvec::detail
