// A wheel in a base of libevent: the promises of every guest, and the end of either.
#include <event2/event.h>

#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "tvec/guests/libevent_guest.hpp"

namespace {

struct host {
    template <class Ticks> using guest_on = tvec::libevent_guest<Ticks>;

    ~host() {
        unwatch();
        for (event* const e : own) event_free(e);
        event_base_free(base);
    }
    template <class Ticks = tvec::tick_clock<std::chrono::milliseconds>>
    std::unique_ptr<guest_on<Ticks>> guest_in(Ticks ticks = {}) {
        return std::make_unique<guest_on<Ticks>>(base, ticks);
    }
    std::size_t run() {
        event_base_dispatch(base);
        return 0;  // it does not tell how often it has turned
    }
    void stop() { event_base_loopbreak(base); }
    void post(std::function<void()> f) { after({}, std::move(f)); }
    void after(std::chrono::milliseconds d, std::function<void()> f) {
        event* const e = made(-1, EV_TIMEOUT, std::move(f));
        own.push_back(e);
        const timeval t{0, static_cast<suseconds_t>(d.count()) * 1000};
        event_add(e, &t);
    }
    void watch(int fd, std::function<void()> f) {
        watched.push_back(made(fd, EV_READ | EV_PERSIST, std::move(f)));
        event_add(watched.back(), nullptr);
    }
    void unwatch() {
        for (event* const e : watched) event_free(e);
        watched.clear();
    }

    event_base* base = event_base_new();

private:
    event* made(int fd, int events, std::function<void()> f) {
        calls.push_back(std::make_unique<std::function<void()>>(std::move(f)));
        const auto call = [](evutil_socket_t, short, void* function) {
            (*static_cast<std::function<void()>*>(function))();
        };
        return event_new(base, fd, static_cast<short>(events), call, calls.back().get());
    }

    std::vector<event*> own, watched;
    std::vector<std::unique_ptr<std::function<void()>>> calls;
};

}  // namespace

#include "every_guest.hpp"

Test(guests, a_guest_may_outlive_its_base) {
    probe p;
    event_base* const base = event_base_new();
    tvec::libevent_guest timers(base), never_ran(base);
    timers->arm_after(p.t, 1ms);
    event_base_loop(base, EVLOOP_NONBLOCK);
    event_base_free(base);
    timers.keep_running();
    timers.keep_running(false);
    timers->arm_after(p.t, 0ms);  // arms, and nobody runs it
    never_ran->arm_after(p.t, 1ms);
    CHECK(p.t.pending());
}

Test(guests, keep_running_ends_loops_of_one_turn) {
    event_base* const base = event_base_new();
    tvec::libevent_guest timers(base);
    timers.keep_running();
    probe p;
    timers->arm_after(p.t, 10ms);
    for (int turns = 0; p.fired() == 0 && turns < 20; ++turns) event_base_loop(base, EVLOOP_ONCE);
    CHECK_EQ(p.fired(), 1);
    event_base_free(base);
}
