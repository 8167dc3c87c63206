// A wheel in a loop on Boost.Asio. One steady_timer carries the next wake-up of the wheel: it takes
// a time_point, and Asio keeps a timerfd behind it. Its descriptors own what they watch.
#include <utility>  // Boost 1.74 forgets it

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "conversation.hpp"

namespace {

// [alarm]
class alarm_timer {
public:
    alarm_timer(boost::asio::io_context& loop, example::timers& wheel)
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
    static constexpr auto not_set = example::timers::time_point::max();

    boost::asio::steady_timer timer_;
    example::timers& timers_;
};
// [alarm]

void listen(boost::asio::posix::stream_descriptor& socket, example::conversation& talk) {
    socket.async_wait(socket.wait_read, [&](auto error) {
        if (error) return;
        talk.on_readable();
        listen(socket, talk);
    });
}

}  // namespace

int main() {
    example::timers timers;
    example::conversation talk(timers);
    boost::asio::io_context loop;
    alarm_timer alarm(loop, timers);
    boost::asio::posix::stream_descriptor socket(loop, ::dup(talk.fd()));
    listen(socket, talk);
    // [loop]
    while (!talk.over()) {
        alarm.rearm();    // the last thing before the sleep
        loop.run_one();   // sleeps
        loop.poll();      // what else is ready
        timers.run(256);  // always, whatever woke us
    }
    // [loop]
    return talk.verdict("asio");
}
