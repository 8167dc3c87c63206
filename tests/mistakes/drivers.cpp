// Cases for tests/programs/mistakes.py, which compiles each by itself.

// --- timerfd_alarm_on_a_temporary_wheel
// says: a wheel that outlives it
// lines: 5
#include "tvec/drivers/timerfd_alarm.hpp"

tvec::timerfd_alarm wake_up(tvec::clocked_wheel<>{});

// --- timerfd_alarm_on_a_wheel_without_a_clock
// says: timerfd_alarm rings for a tvec::clocked_wheel
// lines: 3
#include "tvec/drivers/timerfd_alarm.hpp"

tvec::timer_wheel w;
tvec::timerfd_alarm wake_up(w);

// --- uring_timeout_on_a_temporary_wheel
// says: a wheel that outlives it
// lines: 6
#include "tvec/drivers/uring_timeout.hpp"

void serve(io_uring& ring) { tvec::uring_timeout alarm(ring, tvec::clocked_wheel<>{}); }

// --- uring_timeout_on_a_wheel_without_a_clock
// says: uring_timeout wakes for a tvec::clocked_wheel
// lines: 3
#include "tvec/drivers/uring_timeout.hpp"

void serve(io_uring& ring) {
    tvec::timer_wheel w;
    tvec::uring_timeout alarm(ring, w);
}

// --- uring_timeout_on_the_address_of_a_ring
// says: the ring, not its address: alarm(ring, timers)
// lines: 6
#include "tvec/drivers/uring_timeout.hpp"

void wait(io_uring& ring, tvec::clocked_wheel<>& timers) {
    tvec::uring_timeout alarm(&ring, timers);
}

// --- uring_timeout_whose_refusal_is_not_looked_at
// says: nodiscard
// lines: 2
#include "tvec/drivers/uring_timeout.hpp"

void serve(tvec::uring_timeout<tvec::clocked_wheel<>>& alarm) { alarm.prepare(); }

// --- uring_wait_on_a_temporary_wheel
// says: a wheel that outlives it
// lines: 6
#include "tvec/drivers/uring_wait.hpp"

void serve(io_uring& ring) { tvec::uring_wait wait(ring, tvec::clocked_wheel<>{}); }

// --- uring_wait_on_a_wheel_without_a_clock
// says: uring_wait waits for a tvec::clocked_wheel
// lines: 3
#include "tvec/drivers/uring_wait.hpp"

void serve(io_uring& ring) {
    tvec::timer_wheel w;
    tvec::uring_wait wait(ring, w);
}

// --- uring_wait_on_the_address_of_a_ring
// says: the ring, not its address: wait(ring, timers)
// lines: 6
#include "tvec/drivers/uring_wait.hpp"

void wait(io_uring& ring, tvec::clocked_wheel<>& timers) { tvec::uring_wait wait(&ring, timers); }
