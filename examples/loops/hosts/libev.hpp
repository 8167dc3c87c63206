// A host for tvec::guest in a loop of libev: to be copied.
//
//     tvec::guest<example::libev_host> timers{loop};
//     timers->arm_after(session.idle, 30s);
//     ev_run(loop, 0);  // ends when nothing else is left: see keep_running
//
// Destroy the guest before the loop. Exceptions of callbacks end the program.
#pragma once

#include <ev.h>

#include <chrono>
#include <utility>

#include "tvec/guests/guest.hpp"

namespace example {

// One ev_timer, which the loop does not count.
class libev_host {
public:
    libev_host(tvec::guest_turn turn, struct ev_loop* loop) noexcept : turn_(turn), loop_(loop) {
        ev_init(&alarm_, &ring);
        alarm_.data = this;
    }
    ~libev_host() {
        stop();
        keep_running(false);
    }
    libev_host(const libev_host&) = delete;
    libev_host& operator=(const libev_host&) = delete;

    void set_alarm(std::chrono::steady_clock::time_point t) noexcept {
        stop();
        if (t == t.max()) return;
        // It counts from the loop's time, which stands still while callbacks run.
        const std::chrono::duration<double> left = t - std::chrono::steady_clock::now();
        ev_timer_set(&alarm_, left.count() + (ev_time() - ev_now(loop_)), 0.);
        ev_timer_start(loop_, &alarm_);
        ev_unref(loop_);
        is_set_ = true;
    }
    void keep_running(bool on) noexcept {
        if (std::exchange(keeps_running_, on) != on) (on ? ev_ref : ev_unref)(loop_);
    }

private:
    void stop() noexcept {
        if (std::exchange(is_set_, false)) ev_ref(loop_);
        ev_timer_stop(loop_, &alarm_);
    }
    static void ring(struct ev_loop*, ev_timer* alarm, int) noexcept {
        auto& self = *static_cast<libev_host*>(alarm->data);
        self.stop();
        self.turn_();
    }

    tvec::guest_turn turn_;
    struct ev_loop* loop_;
    ev_timer alarm_{};
    bool is_set_ = false;
    bool keeps_running_ = false;
};

}  // namespace example
