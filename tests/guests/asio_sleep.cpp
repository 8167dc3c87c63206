// Sleeps on a guest's wheel by Asio's rules: they count as work, complete on the handler's executor
// with memory of its allocator, and end early by its cancellation slot or with the guest.
#include <utility>  // Boost 1.74 forgets it

#ifdef TVEC_TESTS_STANDALONE_ASIO
#include <asio.hpp>
#ifdef ASIO_HAS_CO_AWAIT
#include <asio/experimental/awaitable_operators.hpp>
#endif
namespace net = asio;
using asio::error_code;
#define HAS_SLOTS 1
#else
#include <boost/asio.hpp>
namespace net = boost::asio;
using boost::system::error_code;
#define HAS_SLOTS 0
#endif

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "tvec/guests/asio_sleep.hpp"

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

TestSuite(asio_sleeps, .timeout = 120);

namespace {

struct host {
    net::io_context io;
    std::optional<tvec::asio_guest<net::io_context>> timers{std::in_place, io};
};

// Counts what is allocated from it, and what is not given back.
struct account {
    int taken = 0;
    int held = 0;
};
template <class T> struct counting {
    using value_type = T;
    explicit counting(account& a) : to(&a) {}
    template <class U> counting(const counting<U>& other) : to(other.to) {}
    T* allocate(std::size_t n) {
        ++to->taken, ++to->held;
        return std::allocator<T>().allocate(n);
    }
    void deallocate(T* p, std::size_t n) {
        --to->held;
        std::allocator<T>().deallocate(p, n);
    }
    template <class U> bool operator==(const counting<U>& other) const { return to == other.to; }
    account* to;
};
struct counting_handler {
    using allocator_type = counting<int>;
    allocator_type get_allocator() const { return allocator_type(*to); }
    void operator()(error_code) const { held_in_call = to->held; }
    account* to;
    int& held_in_call;
};

}  // namespace

Test(asio_sleeps, asio_sleeps_are_work_until_they_complete) {
    host h;
    const auto deadline = clock_type::now() + 20ms;
    int completed = 0;
    for (int i = 0; i < 1000; ++i)
        async_sleep_until(*h.timers, deadline, [&](error_code error) {
            CHECK(!error);
            CHECK(clock_type::now() >= deadline);
            ++completed;
        });
    h.io.run();
    CHECK_EQ(completed, 1000);
}

Test(asio_sleeps, asio_sleeps_never_complete_in_their_call) {
    host h;
    bool completed = false;
    async_sleep_for(*h.timers, -1h, [&](error_code) { completed = true; });
    CHECK(!completed);
    h.io.run();
    CHECK(completed);
}

Test(asio_sleeps, asio_sleeps_complete_on_the_handlers_executor) {
    host h;
    auto strand = net::make_strand(h.io);
    bool completed = false;
    async_sleep_for(*h.timers, 5ms, net::bind_executor(strand, [&](error_code) {
        completed = strand.running_in_this_thread();
    }));
    h.io.run();
    CHECK(completed);
}

Test(asio_sleeps, a_sleep_completes_on_its_handlers_executor) {
    host h;
    net::io_context other;
    bool completed = false;
    async_sleep_for(*h.timers, 5ms,
                    net::bind_executor(other, [&](error_code) { completed = true; }));
    h.io.run();
    CHECK(!completed);
    other.run();  // the sleep was work of it
    CHECK(completed);
}

Test(asio_sleeps, asio_sleeps_use_the_handlers_allocator) {
    host h;
    account a;
    int held = -1;
    async_sleep_for(*h.timers, 5ms, counting_handler{&a, held});
    CHECK_EQ(a.held, 1);
    h.io.run();
    CHECK_EQ(held, 0);
    CHECK_EQ(a.held, 0);
    CHECK_LE(a.taken, 4);  // the sleep, and what Asio posts
}

Test(asio_sleeps, asio_sleeps_end_with_the_guest) {
    host h;
    error_code result;
    async_sleep_for(*h.timers, 1h, [&](error_code error) { result = error; });
    net::post(h.io, [&] { h.timers.reset(); });
    h.io.run();
    CHECK(result == net::error::operation_aborted);
}

Test(asio_sleeps, the_io_context_destroys_asio_sleeps_uncalled) {
    const auto owned = std::make_shared<int>();
    bool called = false;
    std::optional<tvec::asio_guest<net::io_context>> timers;
    {
        net::io_context io;
        timers.emplace(io);
        for (const auto d : {1h, 2h})
            async_sleep_for(*timers, d, [owned, &called](error_code) { called = true; });
        io.poll();
        CHECK_EQ(owned.use_count(), 3);
    }
    CHECK_EQ(owned.use_count(), 1);
    CHECK(!called);
}

// Asio's usual idiom: a handler keeps the session, and the session has the guest. Sanitizers see
// whether the guest is used after its end.
Test(asio_sleeps, asio_sleeps_may_own_their_guest) {
    struct session {
        session(net::io_context& io, int& count) : timers(io), gone(count) {}
        ~session() { ++gone; }
        tvec::asio_guest<net::io_context> timers;
        int& gone;
    };
    int gone = 0;
    {
        net::io_context io;
        for (const int sleeps : {1, 3}) {
            const auto s = std::make_shared<session>(io, gone);
            for (int i = 0; i < sleeps; ++i)
                tvec::async_sleep_for(s->timers, 1h, [s](error_code) {});
        }
        io.poll();
        CHECK_EQ(gone, 0);
    }
    CHECK_EQ(gone, 2);
}

Test(asio_sleeps, handlers_of_asio_sleeps_may_throw) {
    host h;
    int completed = 0;
    for (int i = 0; i < 3; ++i)
        async_sleep_for(*h.timers, 1ms, [&](error_code) {
            if (++completed == 1) throw 1;
        });
    bool thrown = false;
    try {
        h.io.run();
    } catch (int) {
        thrown = true;
    }
    CHECK(thrown);
    h.io.run();
    CHECK_EQ(completed, 3);
}

Test(asio_sleeps, asio_sleeps_may_give_a_future) {
    host h;
    auto done = async_sleep_for(*h.timers, 5ms, net::use_future);
    h.io.run();
    CHECK(done.wait_for(0s) == std::future_status::ready);
}

#if defined(ASIO_HAS_CO_AWAIT) || defined(BOOST_ASIO_HAS_CO_AWAIT)

namespace {

net::awaitable<void> nap_thrice(host& h, int& naps) {
    for (; naps != 3; ++naps) co_await async_sleep_for(*h.timers, 2ms, net::use_awaitable);
}

}  // namespace

Test(asio_sleeps, asio_sleeps_may_be_awaited) {
    host h;
    int naps = 0;
    net::co_spawn(h.io, nap_thrice(h, naps), net::detached);
    h.io.run();
    CHECK_EQ(naps, 3);
}

#endif

#if HAS_SLOTS

Test(asio_sleeps, asio_sleeps_end_by_their_cancellation_slot) {
    for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
                            asio::cancellation_type::total}) {
        host h;
        asio::cancellation_signal signal;
        int calls = 0;
        error_code result;
        async_sleep_for(*h.timers, 1h,
                        asio::bind_cancellation_slot(signal.slot(), [&](error_code error) {
                            result = error;
                            ++calls;
                        }));
        asio::post(h.io, [&] {
            signal.emit(asio::cancellation_type::none);
            signal.emit(type);
            CHECK_EQ(calls, 0);
            signal.emit(type);  // too late, and harmless
        });
        h.io.run();
        CHECK_EQ(calls, 1);
        CHECK(result == asio::error::operation_aborted);
    }
}

Test(asio_sleeps, completed_asio_sleeps_leave_their_slot) {
    host h;
    asio::cancellation_signal signal;
    bool slept = false;
    async_sleep_for(*h.timers, 1ms, asio::bind_cancellation_slot(signal.slot(), [&](error_code e) {
        slept = !e;
        signal.emit(asio::cancellation_type::all);
    }));
    h.io.run();
    CHECK(slept);
}

#ifdef ASIO_HAS_CO_AWAIT

namespace {

using asio::experimental::awaitable_operators::operator||;
using asio::use_awaitable;

// Reads while nothing but the first word comes.
asio::awaitable<void> race(host& h, std::array<std::size_t, 2>& winners) {
    asio::local::stream_protocol::socket a(h.io), b(h.io);
    asio::local::connect_pair(a, b);
    a.write_some(asio::buffer("hello", 5));
    std::array<char, 9> text{};
    winners[0] = (co_await (b.async_read_some(asio::buffer(text), use_awaitable) ||
                            tvec::async_sleep_for(*h.timers, 1h, use_awaitable)))
                     .index();
    winners[1] = (co_await (b.async_read_some(asio::buffer(text), use_awaitable) ||
                            tvec::async_sleep_for(*h.timers, 5ms, use_awaitable)))
                     .index();
}

}  // namespace

// A sleep without a slot would take its hour.
Test(asio_sleeps, asio_sleeps_lose_against_an_immediate_read) {
    host h;
    std::array<std::size_t, 2> winners{9, 9};
    asio::co_spawn(h.io, race(h, winners), asio::detached);
    h.io.run();
    CHECK_EQ(winners[0], 0);
    CHECK_EQ(winners[1], 1);
}

#endif

#endif
