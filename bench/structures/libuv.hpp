// libuv's timers through its public interface, in virtual time. A deadline is relative to the
// loop's cached time. The loop takes a turn only if it reports work due now.
#pragma once

#include <cstdint>
#include <stdexcept>

#include <uv.h>

#include "../workloads/test_bed.hpp"
#include "virtual_time.hpp"

namespace bench {

struct libuv_adapter {
    static constexpr const char* name = "libuv";
    static constexpr description is{.what = "a heap of pointers",
                                    .order = "oldest first",
                                    .allocation = "none",
                                    .cancel = "takes out of the heap"};

    struct node {
        uv_timer_t timer;
    };

    std::uint64_t now() const { return uv_now(&loop_); }

    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) {
        uv_timer_start(&n.timer, fire, at - now(), 0);
    }
    [[gnu::always_inline]] void cancel(node& n) { uv_timer_stop(&n.timer); }

    [[gnu::always_inline]] void advance(std::uint64_t until) {
        set_virtual_time(until);
        uv_update_time(&loop_);
        if (uv_backend_timeout(&loop_) == 0) uv_run(&loop_, UV_RUN_NOWAIT);
    }

    [[gnu::always_inline]] std::uint64_t next_wakeup() {
        const int milliseconds = uv_backend_timeout(&loop_);
        return milliseconds < 0 ? ~0ull : now() + static_cast<std::uint64_t>(milliseconds);
    }

    void adopt(node& n) { uv_timer_init(&loop_, &n.timer); }
    void release(node& n) { uv_close(reinterpret_cast<uv_handle_t*>(&n.timer), nullptr); }
    template <class Owner> void discard(Owner* o) {
        uv_close(reinterpret_cast<uv_handle_t*>(o),
                 [](uv_handle_t* t) { delete reinterpret_cast<Owner*>(t); });
    }

    libuv_adapter() {
        set_virtual_time(start);
        if (uv_loop_init(&loop_) != 0) throw std::runtime_error("libuv: no loop");
        take_first_turn();
    }
    ~libuv_adapter() {
        uv_run(&loop_, UV_RUN_DEFAULT);  // closes released handles
        uv_loop_close(&loop_);
    }
    libuv_adapter(const libuv_adapter&) = delete;
    libuv_adapter& operator=(const libuv_adapter&) = delete;

private:
    // The loop begins to watch its own descriptor in its first turn, which it takes only with a
    // handle: that is no cost of a timer.
    void take_first_turn() {
        uv_timer_t any;
        uv_timer_init(&loop_, &any);
        uv_timer_start(
            &any, [](uv_timer_t*) {}, 1, 0);
        uv_run(&loop_, UV_RUN_NOWAIT);
        uv_close(reinterpret_cast<uv_handle_t*>(&any), nullptr);
        uv_run(&loop_, UV_RUN_NOWAIT);
    }

    static void fire(uv_timer_t* t) { seen.note(reinterpret_cast<node&>(*t), uv_now(t->loop)); }

    uv_loop_t loop_;
};

}  // namespace bench
