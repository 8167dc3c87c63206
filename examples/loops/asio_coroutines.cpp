// A wheel in a loop on Boost.Asio, awaited in Asio's own coroutines. A sleep is an asynchronous
// operation with a completion token. Its handler is a function in a pool.
#include <memory>
#include <utility>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "asio_alarm.hpp"
#include "conversation.hpp"

using namespace std::chrono_literals;
using boost::asio::use_awaitable;
using timeout_pool = tvec::timeout_pool<example::timers>;
using time_point = example::timers::time_point;

namespace {

// Completes when the clock has reached `deadline`, by Asio's rules: on the handler's executor.
template <class Token>
auto async_sleep_until(timeout_pool& pool, time_point deadline, Token&& token) {
    using boost::system::error_code;
    const auto initiate = [&pool, deadline](auto handler) {
        // A pool's function has 48 bytes at most, and a handler may have more.
        auto kept = std::make_unique<decltype(handler)>(std::move(handler));
        auto complete = [kept = std::move(kept)](error_code error = {}) {
            const auto executor = boost::asio::get_associated_executor(*kept);
            boost::asio::post(executor, [h = std::move(*kept), error]() mutable { h(error); });
        };
        if (!pool.schedule_at(deadline, std::move(complete)))  // too many; then it is not moved
            complete(boost::asio::error::no_buffer_space);
    };
    return boost::asio::async_initiate<Token, void(error_code)>(initiate, token);
}

boost::asio::awaitable<void> listen(boost::asio::posix::stream_descriptor& socket,
                                    example::conversation& talk) {
    for (;;) {
        co_await socket.async_wait(socket.wait_read, use_awaitable);
        talk.on_readable();
    }
}

// Counts its wake-ups and checks that none is early.
boost::asio::awaitable<void> naps(timeout_pool& pool, int& in_time) {
    for (;;) {
        const time_point deadline = example::timers::after(30ms);
        co_await async_sleep_until(pool, deadline, use_awaitable);
        if (example::timers::clock::now() >= deadline) ++in_time;
    }
}

boost::asio::awaitable<void> asks_too_much(timeout_pool& full, bool& refused) {
    try {
        co_await async_sleep_until(full, example::timers::after(1h), use_awaitable);
    } catch (const boost::system::system_error&) {
        refused = true;
    }
}

}  // namespace

int main() {
    boost::asio::io_context loop;  // outlives the pools, whose functions it destroys
    example::timers timers;
    timeout_pool pool(timers), full(timers, 0);
    example::conversation talk(timers);
    example::alarm_timer alarm(loop, timers);
    boost::asio::posix::stream_descriptor socket(loop, ::dup(talk.fd()));
    int in_time = 0;
    bool refused = false;
    boost::asio::co_spawn(loop, listen(socket, talk), boost::asio::detached);
    boost::asio::co_spawn(loop, naps(pool, in_time), boost::asio::detached);
    boost::asio::co_spawn(loop, asks_too_much(full, refused), boost::asio::detached);
    while (!talk.over()) {
        alarm.rearm();    // the last thing before the sleep
        loop.run_one();   // sleeps
        loop.poll();      // what else is ready
        timers.run(256);  // always, whatever woke us
    }
    const bool napped = in_time >= 5 && refused;
    return talk.verdict("asio_coroutines") != 0 || !napped;
}
