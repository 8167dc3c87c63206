// libev's timers through its public interface, in virtual time. Re-arming is ev_timer_again, which
// moves the timer within the heap. The loop cannot be asked when it has something to do: each tick
// is a turn of it, with waiting that costs nothing.
//
// libev fires when the deadline is before the present, so its clock stands in the middle of the
// tick.
#pragma once

#include <cstdint>
#include <stdexcept>

#include <ev.h>

#include "../workloads/test_bed.hpp"
#include "virtual_time.hpp"

namespace bench {

struct libev_adapter {
    static constexpr const char* name = "libev";
    static constexpr description is{.what = "a 4-ary heap with the deadlines in its array",
                                    .order = "unspecified",
                                    .allocation = "an array of entries",
                                    .cancel = "takes out of the heap"};

    struct node {
        ev_timer timer;
    };

    std::uint64_t now() const { return now_; }

    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) {
        const double after = (static_cast<double>(at - now_) - 0.5) * 1e-3;
        if (ev_is_active(&n.timer)) {
            n.timer.repeat = after;
            ev_timer_again(loop_, &n.timer);
        } else {
            ev_timer_set(&n.timer, after, 0.);
            ev_timer_start(loop_, &n.timer);
        }
    }
    [[gnu::always_inline]] void cancel(node& n) { ev_timer_stop(loop_, &n.timer); }

    [[gnu::always_inline]] void advance(std::uint64_t until) {
        now_ = until;
        set_virtual_time(until, nanoseconds_per_tick / 2);
        ev_run(loop_, EVRUN_NOWAIT);
    }

    void adopt(node& n) {
        ev_init(&n.timer, fire);
        n.timer.data = this;
    }
    void release(node& n) { ev_timer_stop(loop_, &n.timer); }

    libev_adapter() {
        set_virtual_time(start, nanoseconds_per_tick / 2);
        loop_ = ev_loop_new(unsigned{EVBACKEND_EPOLL} | unsigned{EVFLAG_NOENV});
        if (loop_ == nullptr) throw std::runtime_error("libev: no loop");
    }
    ~libev_adapter() { ev_loop_destroy(loop_); }
    libev_adapter(const libev_adapter&) = delete;
    libev_adapter& operator=(const libev_adapter&) = delete;

private:
    static void fire(struct ev_loop* loop, ev_timer* t, int) {
        ev_timer_stop(loop, t);  // one that was re-armed would repeat
        seen.note(reinterpret_cast<node&>(*t), static_cast<libev_adapter*>(t->data)->now_);
    }

    std::uint64_t now_ = start;
    struct ev_loop* loop_;
};

}  // namespace bench
