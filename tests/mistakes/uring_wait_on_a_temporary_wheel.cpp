// says: a wheel that outlives it
// lines: 6
#include "tvec/drivers/uring_wait.hpp"

void serve(io_uring& ring) { tvec::uring_wait wait(ring, tvec::clocked_wheel<>{}); }
