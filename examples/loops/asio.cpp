// A wheel in a loop on Boost.Asio, whose descriptors own what they watch.
#include <utility>  // Boost 1.74 forgets it

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "asio_alarm.hpp"
#include "conversation.hpp"

namespace {

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
    example::alarm_timer alarm(loop, timers);
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
