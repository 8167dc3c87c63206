// A wheel in a loop of libuv: the promises of every guest, and its end with and before the loop's.
#include <uv.h>

#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "tvec/guests/libuv_guest.hpp"

namespace {

struct host {
    template <class Ticks> using guest_on = tvec::libuv_guest<Ticks>;

    host() {
        uv_loop_init(&loop);
        uv_prepare_init(&loop, &turn);
        turn.data = this;
        uv_prepare_start(&turn, [](uv_prepare_t* t) { ++static_cast<host*>(t->data)->turns; });
        uv_unref(reinterpret_cast<uv_handle_t*>(&turn));
    }
    ~host() {
        uv_walk(
            &loop, [](uv_handle_t* t, void*) { close(t); }, nullptr);
        uv_run(&loop, UV_RUN_DEFAULT);
        uv_loop_close(&loop);
    }
    template <class Ticks = tvec::tick_clock<std::chrono::milliseconds>>
    std::unique_ptr<guest_on<Ticks>> guest_in(Ticks ticks = {}) {
        return std::make_unique<guest_on<Ticks>>(&loop, ticks);
    }
    std::size_t run() {
        turns = 0;
        uv_run(&loop, UV_RUN_DEFAULT);
        return turns;
    }
    void stop() { uv_stop(&loop); }
    void post(std::function<void()> f) {  // timers that set each other for now never end
        auto* const own = new task<uv_idle_t>{{}, std::move(f)};
        uv_idle_init(&loop, &own->handle);
        uv_idle_start(&own->handle, [](uv_idle_t* t) {
            const auto f = std::move(reinterpret_cast<task<uv_idle_t>*>(t)->call);
            close(reinterpret_cast<uv_handle_t*>(t));
            f();
        });
    }
    void after(std::chrono::milliseconds d, std::function<void()> f) {
        auto* const own = new task<uv_timer_t>{{}, std::move(f)};
        uv_timer_init(&loop, &own->handle);
        uv_timer_start(
            &own->handle,
            [](uv_timer_t* t) {
                reinterpret_cast<task<uv_timer_t>*>(t)->call();
                close(reinterpret_cast<uv_handle_t*>(t));
            },
            static_cast<std::uint64_t>(d.count()), 0);
    }
    void watch(int fd, std::function<void()> f) {
        auto* const own = new task<uv_poll_t>{{}, std::move(f)};
        uv_poll_init(&loop, &own->handle, fd);
        const auto call = [](uv_poll_t* t, int, int) {
            reinterpret_cast<task<uv_poll_t>*>(t)->call();
        };
        uv_poll_start(&own->handle, UV_READABLE, call);
        watched.push_back(&own->handle);
    }
    void unwatch() {
        for (uv_poll_t* const w : watched) close(reinterpret_cast<uv_handle_t*>(w));
        watched.clear();
    }

    uv_loop_t loop;
    uv_prepare_t turn;
    std::size_t turns = 0;

private:
    template <class Handle> struct task {
        Handle handle;
        std::function<void()> call;
    };
    static void close(uv_handle_t* t) {
        if (uv_is_closing(t) != 0) return;
        uv_close(t, [](uv_handle_t* h) {
            const uv_handle_type type = h->type;
            if (type == UV_TIMER) delete reinterpret_cast<task<uv_timer_t>*>(h);
            if (type == UV_IDLE) delete reinterpret_cast<task<uv_idle_t>*>(h);
            if (type == UV_POLL) delete reinterpret_cast<task<uv_poll_t>*>(h);
        });
    }

    std::vector<uv_poll_t*> watched;
};

}  // namespace

#include "every_guest.hpp"

Test(guests, handles_are_closed_by_the_next_turn) {
    uv_loop_t loop;
    uv_loop_init(&loop);
    { const tvec::libuv_guest timers(&loop); }
    CHECK_EQ(uv_loop_close(&loop), UV_EBUSY);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&loop), 0);
}

Test(guests, a_guest_may_outlive_its_closed_handles) {
    probe p;
    uv_loop_t loop;
    uv_loop_init(&loop);
    tvec::libuv_guest timers(&loop);
    timers->arm_after(p.t, 1ms);
    uv_run(&loop, UV_RUN_NOWAIT);
    uv_walk(
        &loop, [](uv_handle_t* h, void*) { uv_close(h, nullptr); }, nullptr);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&loop), 0);
    timers->arm_after(p.t, 0ms);
    CHECK_EQ(p.fired(), 0);
}
