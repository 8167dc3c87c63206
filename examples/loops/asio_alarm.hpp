// Wakes a loop on Boost.Asio: one steady_timer carries the next wake-up of the wheel. It takes a
// time_point, and Asio keeps a timerfd behind it.
#pragma once

#include <utility>  // Boost 1.74 forgets it

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "conversation.hpp"

namespace example {

class alarm_timer {
public:
    alarm_timer(boost::asio::io_context& loop, timers& wheel)
        : timer_(loop, not_set), timers_(wheel) {}

    // Sees to it that the loop wakes at the next wake-up, or before. Only ever moved earlier.
    void rearm() {
        const auto wakeup = timers_.next_wakeup();
        if (!wakeup || *wakeup >= timer_.expiry()) return;
        timer_.expires_at(*wakeup);
        timer_.async_wait([this](auto error) {
            if (!error) timer_.expires_at(not_set);  // else it was moved
        });
    }

private:
    static constexpr auto not_set = timers::time_point::max();

    boost::asio::steady_timer timer_;
    timers& timers_;
};

}  // namespace example
