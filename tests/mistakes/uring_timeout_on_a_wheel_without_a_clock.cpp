// says: uring_timeout wakes for a tvec::clocked_wheel
// lines: 3
#include "tvec/drivers/uring_timeout.hpp"

void serve(io_uring& ring) {
    tvec::timer_wheel w;
    tvec::uring_timeout alarm(ring, w);
}
