// Casts between the C and C++ types of wheels and timers: the same bytes.
#pragma once

#include <cassert>

#include "tvec/core/timer_wheel.hpp"
#include "tvec/tvec.h"

namespace tvec::c {

inline timer& seen(tvec_timer* t) noexcept {
    assert(t && "a timer");
    return *reinterpret_cast<timer*>(t);
}
inline timer_wheel& seen(tvec_wheel* w) noexcept {
    assert(w && "a wheel");
    return *reinterpret_cast<timer_wheel*>(w);
}
inline const timer_wheel& seen(const tvec_wheel* w) noexcept {
    assert(w && "a wheel");
    return *reinterpret_cast<const timer_wheel*>(w);
}
inline tvec_timer* shown(timer& t) noexcept { return reinterpret_cast<tvec_timer*>(&t); }

}  // namespace tvec::c
