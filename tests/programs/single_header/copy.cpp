// A shared library with a copy of tvec. It hides no symbols itself: the single header must.
#define TVEC_IMPLEMENTATION
#include "copy.hpp"
#include "tvec.hpp"

extern "C" copy COPY() {
    using tvec::timer_wheel;
    return {.make = []() -> void* { return new timer_wheel; },
            .destroy = [](void* wheel) { delete static_cast<timer_wheel*>(wheel); },
            .arm =
                [](void* wheel, void* timer, unsigned long at) {
                    auto& t = *static_cast<tvec::timer*>(timer);
                    static_cast<timer_wheel*>(wheel)->arm_at(t, at);
                },
            .fire = [](void* wheel, unsigned long until) -> unsigned long {
                return static_cast<timer_wheel*>(wheel)->advance(until).fired;
            }};
}
