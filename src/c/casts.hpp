// Casts between the C and C++ types of wheels and timers: the same bytes.
#pragma once

#include <cassert>

#include "tvec/core/timer_wheel.hpp"
#include "tvec/tvec.h"

namespace tvec::c {

inline timer& as_cpp(tvec_timer* t) noexcept {
    assert(t && "a timer");
    return *reinterpret_cast<timer*>(t);
}
inline timer_wheel& as_cpp(tvec_wheel* w) noexcept {
    assert(w && "a wheel");
    return *reinterpret_cast<timer_wheel*>(w);
}
inline const timer_wheel& as_cpp(const tvec_wheel* w) noexcept {
    assert(w && "a wheel");
    return *reinterpret_cast<const timer_wheel*>(w);
}
inline tvec_timer* as_c(timer& t) noexcept { return reinterpret_cast<tvec_timer*>(&t); }

}  // namespace tvec::c
