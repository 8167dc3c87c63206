#include <cstdio>

#include "tvec/tvec.hpp"

int main() {
    using frame = std::chrono::duration<std::int64_t, std::ratio<1, 60>>;  // exactly 1/60 s
    tvec::clocked_wheel<tvec::tick_clock<frame>> timers;
    tvec::callback_timer blink{[](auto&, auto&) { std::puts("six frames have passed"); }};
    timers.arm_after(blink, frame(6));
    while (timers.any_pending()) timers.run();  // once per turn of the loop
}
