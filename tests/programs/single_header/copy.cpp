// A shared library that carries tvec. It hides nothing itself: the single header has to.
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
