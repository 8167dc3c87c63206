// Cases for tests/programs/mistakes.py, which compiles each by itself.

// --- stall_watch_on_a_temporary_wheel
// says: a wheel that outlives it
// lines: 6
#include "tvec/extra/stall_watch.hpp"

tvec::stall_watch watch(tvec::clocked_wheel<>{});

// --- stall_watch_on_a_wheel_without_a_clock
// says: stall_watch watches over a tvec::clocked_wheel
// lines: 3
#include "tvec/extra/stall_watch.hpp"

tvec::timer_wheel w;
tvec::stall_watch watch(w);

// --- stall_watch_on_a_game_clock
// says: stall_watch wants a wheel on a clock of real time
// lines: 3
#include "tvec/extra/game_clock.hpp"
#include "tvec/extra/stall_watch.hpp"

void play(tvec::clocked_wheel<tvec::game_ticks<std::chrono::milliseconds>>& timers) {
    tvec::stall_watch watch(timers);
}

// --- listening_to_a_function_without_a_result
// says: listen wants a function that returns how many messages it has handled
// lines: 3
#include "tvec/extra/stall_watch.hpp"

void turn(tvec::stall_watch<tvec::clocked_wheel<>>& watch) {
    watch.listen([] {});
}
