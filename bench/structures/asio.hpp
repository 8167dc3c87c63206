// Boost.Asio's timers through its public interface, with a clock type of their own, in virtual
// time. One thread uses them, so they take no locks. Cancelling and re-arming complete the old wait
// with an error: the loop takes a turn for every 64 of these.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "../workloads/test_bed.hpp"

namespace bench {

struct asio_clock {
    using duration = std::chrono::milliseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<asio_clock>;
    static constexpr bool is_steady = true;

    static time_point now() noexcept { return at(ticks); }
    static time_point at(std::uint64_t tick) {
        return time_point(duration(static_cast<rep>(tick)));
    }

    static inline std::uint64_t ticks = start;
};

struct asio_adapter {
    static constexpr const char* name = "asio";
    static constexpr description is{.what = "a binary heap with the deadlines in its array",
                                    .order = "unspecified",
                                    .allocation = "one for each arm, recycled",
                                    .cancel = "takes out of the heap, and completes the wait"};

    using executor = boost::asio::io_context::executor_type;
    using timer = boost::asio::basic_waitable_timer<asio_clock,
                                                    boost::asio::wait_traits<asio_clock>, executor>;
    struct node {
        std::optional<timer> t;
    };

    std::uint64_t now() const { return asio_clock::ticks; }

    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) {
        const std::size_t aborted = n.t->expires_at(asio_clock::at(at));
        n.t->async_wait([&n](const boost::system::error_code& error) {
            if (!error) seen.note(n, asio_clock::ticks);
        });
        complete(aborted);
    }
    [[gnu::always_inline]] void cancel(node& n) { complete(n.t->cancel()); }

    [[gnu::always_inline]] void advance(std::uint64_t until) {
        asio_clock::ticks = until;
        take_turn();
    }

    void adopt(node& n) { n.t.emplace(context_); }
    void release(node& n) { n.t.reset(); }

    asio_adapter() { asio_clock::ticks = start; }

private:
    [[gnu::always_inline]] void complete(std::size_t aborted) {
        aborted_ += aborted;
        if (aborted_ >= 64) [[unlikely]]
            take_turn();
    }
    [[gnu::noinline]] void take_turn() {
        aborted_ = 0;
        context_.poll();
    }

    boost::asio::io_context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
    boost::asio::executor_work_guard<executor> stays_{context_.get_executor()};
    std::size_t aborted_ = 0;
};

}  // namespace bench
