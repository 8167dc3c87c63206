// says: a wheel that outlives it
// lines: 6
#include "tvec/drivers/uring_timeout.hpp"

void serve(io_uring& ring) { tvec::uring_timeout alarm(ring, tvec::clocked_wheel<>{}); }
