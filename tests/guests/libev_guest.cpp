// A wheel in a loop of libev: the promises of every guest.
#include "loops/hosts/libev.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace {

struct host {
    template <class Ticks> using guest_on = tvec::guest<example::libev_host, Ticks>;

    host() {
        ev_prepare_init(&turn, [](struct ev_loop*, ev_prepare* t, int) {
            ++static_cast<host*>(t->data)->turns;
        });
        turn.data = this;
        ev_prepare_start(loop, &turn);
        ev_unref(loop);
    }
    ~host() {
        unwatch();
        for (const auto& t : own) ev_timer_stop(loop, &t->handle);
        ev_ref(loop);
        ev_prepare_stop(loop, &turn);
        ev_loop_destroy(loop);
    }
    template <class Ticks = tvec::tick_clock<std::chrono::milliseconds>>
    std::unique_ptr<guest_on<Ticks>> guest_in(Ticks ticks = {}) {
        return std::make_unique<guest_on<Ticks>>(loop, ticks);
    }
    std::size_t run() {
        turns = 0;
        ev_run(loop, 0);
        return turns;
    }
    void stop() { ev_break(loop, EVBREAK_ALL); }
    void post(std::function<void()> f) { after({}, std::move(f)); }
    void after(std::chrono::milliseconds d, std::function<void()> f) {
        own.push_back(std::make_unique<task<ev_timer>>());
        own.back()->call = std::move(f);
        auto& t = own.back()->handle;
        const auto call = [](struct ev_loop*, ev_timer* t, int) {
            (*static_cast<std::function<void()>*>(t->data))();
        };
        ev_timer_init(&t, call, static_cast<double>(d.count()) / 1000 + (ev_time() - ev_now(loop)),
                      0.);
        t.data = &own.back()->call;
        ev_timer_start(loop, &t);
    }
    void watch(int fd, std::function<void()> f) {
        watched.push_back(std::make_unique<task<ev_io>>());
        watched.back()->call = std::move(f);
        auto& t = watched.back()->handle;
        const auto call = [](struct ev_loop*, ev_io* t, int) {
            (*static_cast<std::function<void()>*>(t->data))();
        };
        ev_io_init(&t, call, fd, EV_READ);
        t.data = &watched.back()->call;
        ev_io_start(loop, &t);
    }
    void unwatch() {
        for (const auto& t : watched) ev_io_stop(loop, &t->handle);
    }

    struct ev_loop* loop = ev_loop_new(0);
    ev_prepare turn;
    std::size_t turns = 0;

private:
    template <class Handle> struct task {
        Handle handle;
        std::function<void()> call;
    };
    std::vector<std::unique_ptr<task<ev_timer>>> own;
    std::vector<std::unique_ptr<task<ev_io>>> watched;
};

}  // namespace

#include "every_guest.hpp"
