// A wheel in an io_context, of Boost.Asio or of standalone Asio: the promises of every guest, and
// its own about exceptions, run_one, poll, stop, and the end of either.
#include "tvec/guests/asio_guest.hpp"  // first, so that it chooses the Asio

#ifdef ASIO_STANDALONE
#include <asio.hpp>
#if defined(ASIO_HAS_IO_URING) && !defined(ASIO_HAS_IO_URING_AS_DEFAULT)
#error "Asio waits in something else than its ring"
#endif
namespace net = asio;
#else
#include <boost/asio.hpp>
namespace net = boost::asio;
#endif

#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace {

struct host {
    template <class Ticks> using guest_on = tvec::asio_guest<net::io_context, Ticks>;
    template <class Ticks = tvec::tick_clock<std::chrono::milliseconds>>
    std::unique_ptr<guest_on<Ticks>> guest_in(Ticks ticks = {}) {
        return std::make_unique<guest_on<Ticks>>(io, ticks);
    }
    std::size_t run() {
        io.restart();
        return io.run();
    }
    void stop() { io.stop(); }
    void post(std::function<void()> f) { net::post(io, std::move(f)); }
    void after(std::chrono::milliseconds d, std::function<void()> f) {
        auto own = std::make_unique<net::steady_timer>(io, d);
        auto& timer = *own;
        timer.async_wait([own = std::move(own), f = std::move(f)](auto) { f(); });
    }
    void watch(int fd, std::function<void()> f) {
        sockets.emplace_back(io, ::dup(fd));
        wait(sockets.size() - 1, std::move(f));
    }
    void unwatch() {
        for (auto& s : sockets) s.cancel();
    }

    net::io_context io;
    std::vector<net::posix::stream_descriptor> sockets;

private:
    void wait(std::size_t s, std::function<void()> f) {
        auto& socket = sockets[s];
        socket.async_wait(socket.wait_read, [this, s, f = std::move(f)](auto error) {
            if (error) return;
            f();
            wait(s, f);
        });
    }
};

}  // namespace

#include "every_guest.hpp"

Test(guests, exceptions_leave_other_timers_due) {
    host h;
    const auto timers = h.guest_in();
    probe bad([](auto&) { throw 42; }), good;
    (*timers)->arm_after(bad.t, 5ms);
    (*timers)->arm_after(good.t, 5ms);
    auto work = net::make_work_guard(h.io);
    int thrown = 0;
    try {
        h.io.run();
    } catch (int n) {
        thrown = n;
    }
    CHECK_EQ(thrown, 42);
    work.reset();
    run_until(h, [&] { return good.fired() == 1; });
    CHECK_EQ(bad.fired(), 1);
}

Test(guests, run_one_and_poll_run_turns) {
    host h;
    const auto timers = h.guest_in();
    timers->keep_running();
    probe p;
    (*timers)->arm_after(p.t, 10ms);
    std::size_t handlers = 0;
    while (p.fired() == 0 && handlers < 20) handlers += h.io.run_one();
    CHECK_EQ(p.fired(), 1);
    (*timers)->arm_after(p.t, 1ms);
    for (handlers = 0; p.fired() == 1 && handlers < 20; std::this_thread::yield())
        handlers += h.io.poll();
    CHECK_EQ(p.fired(), 2);
}

Test(guests, a_run_within_a_callback_fires_nothing) {
    host h;
    const auto timers = h.guest_in();
    timers->keep_running();
    probe other;
    bool posted = false;
    probe p([&](auto&) {
        (*timers)->arm_after(other.t, 0ms);
        std::this_thread::sleep_for(20ms);
        h.post([&] { posted = true; });
        while (h.io.poll() != 0) continue;
        CHECK(posted);
        CHECK_EQ(other.fired(), 0);
    });
    (*timers)->arm_after(p.t, 1ms);
    run_until(h, [&] { return other.fired() == 1; });
}

Test(guests, a_stopped_io_context_may_go_on) {
    host h;
    const auto timers = h.guest_in();
    timers->keep_running();
    probe later([&](auto&) { timers->keep_running(false); }), stops([&](auto&) {
        h.stop();
        (*timers)->arm_after(later.t, 5ms);
    });
    (*timers)->arm_after(stops.t, 5ms);
    h.io.run();
    CHECK_EQ(later.fired(), 0);
    h.run();
    CHECK_EQ(later.fired(), 1);
}

Test(guests, handlers_posted_before_the_first_run_are_run) {
    host h;
    bool first = false, second = false;
    const auto timers = h.guest_in();
    h.post([&] { first = true; });
    h.io.run();  // not stopped by the guest
    CHECK(first);
    h.post([&] { second = true; });
    h.run();
    CHECK(second);
}

Test(guests, a_guest_may_outlive_its_io_context) {
    probe p;
    auto h = std::make_unique<host>();
    auto timers = h->guest_in(), never_ran = h->guest_in();
    (*timers)->arm_after(p.t, 1ms);
    h->post([] {});
    h->io.poll();
    h.reset();
    timers->keep_running();
    timers->keep_running(false);
    (*timers)->arm_after(p.t, 0ms);  // arms, and nobody runs it
    (*never_ran)->arm_after(p.t, 1ms);
    CHECK(p.t.pending());
    timers.reset();
    never_ran.reset();
    CHECK(!p.t.pending());
}

Test(guests, an_io_context_may_end_after_its_guest) {
    host h;
    h.guest_in();
    auto timers = h.guest_in();
    h.run();
    timers.reset();
}

Test(guests, a_guest_gives_back_its_work) {
    host h;
    auto timers = h.guest_in();
    timers->keep_running();
    h.post([&] { timers.reset(); });
    h.run();  // hangs if the work was not given back
    bool posted = false;
    h.post([&] { posted = true; });
    h.run();
    CHECK(posted);
}

Test(guests, a_wheel_may_have_other_ticks) {
    host h;
    using tick = tvec::tick_clock<std::chrono::microseconds>;
    tvec::asio_guest timers(h.io, tick{});
    probe p;
    timers->arm_after(p.t, 300us);
    run_until(h, [&] { return p.fired() == 1; });
}
