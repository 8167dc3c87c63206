// says: uring_wait waits for a tvec::clocked_wheel
// lines: 3
#include "tvec/drivers/uring_wait.hpp"

void serve(io_uring& ring) {
    tvec::timer_wheel w;
    tvec::uring_wait wait(ring, w);
}
