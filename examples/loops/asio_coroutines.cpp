// A wheel as a guest of Boost.Asio, awaited in Asio's own coroutines.
#include <utility>  // Boost 1.74 forgets it

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "conversation.hpp"
#include "tvec/guests/asio_sleep.hpp"

using namespace std::chrono_literals;
using boost::asio::use_awaitable;

namespace {

using asio_timers = tvec::asio_guest<boost::asio::io_context>;

boost::asio::awaitable<void> listen(boost::asio::posix::stream_descriptor& socket,
                                    example::conversation& talk) {
    for (;;) {
        co_await socket.async_wait(socket.wait_read, use_awaitable);
        talk.on_readable();
    }
}

// Counts its wake-ups and checks that none is early.
boost::asio::awaitable<void> naps(asio_timers& timers, int& in_time) {
    for (;;) {
        const auto deadline = timers->after(30ms);
        co_await tvec::async_sleep_until(timers, deadline, use_awaitable);
        if (timers->now() >= deadline) ++in_time;
    }
}

}  // namespace

int main() {
    boost::asio::io_context io;
    asio_timers timers{io};
    example::conversation talk(*timers);
    boost::asio::posix::stream_descriptor socket(io, ::dup(talk.fd()));
    int in_time = 0;
    boost::asio::co_spawn(io, listen(socket, talk), boost::asio::detached);
    boost::asio::co_spawn(io, naps(timers, in_time), boost::asio::detached);
    talk.when_over([&] { io.stop(); });
    io.run();
    return talk.verdict("asio_coroutines") != 0 || in_time < 5;
}
