// says: the watch is called with a const tvec::timer_wheel::due_callback&
// lines: 6
#include "tvec/tvec.hpp"

void run(tvec::clocked_wheel<>& w) {
    w.run_watched([] {});
}
