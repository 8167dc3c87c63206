// A loop for durable timers: the wheel, its alarm, and an end by SIGINT or SIGTERM.
#pragma once

#include <poll.h>

#include <cerrno>

#include "../../examples/support/descriptors.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/durable/timers.hpp"

namespace example {

// Construct it before any thread begins.
class loop {
public:
    tvec::clocked_wheel<>& wheel() { return wheel_; }

    // Sleeps until there is work, and does it. Returns false once a signal has come.
    bool turn(tvec::durable::timers<>& timers) {
        alarm_.rearm();  // the last thing before the sleep
        pollfd watched[] = {
            {alarm_.fd(), POLLIN, 0}, {timers.fd(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
        if (poll(watched, 3, -1) < 0 && errno != EINTR) fail("poll");
        if (watched[0].revents != 0) alarm_.acknowledge();
        wheel_.run(1024);  // always, whatever woke us
        timers.run();      // after the wheel: what has come due is asked for, and answers are read
        return watched[2].revents == 0;
    }

private:
    tvec::clocked_wheel<> wheel_;
    tvec::timerfd_alarm<tvec::clocked_wheel<>> alarm_{wheel_};
    descriptor signals_ = signal_descriptor();
};

}  // namespace example
