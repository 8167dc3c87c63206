// A host for tvec::guest in an event loop of systemd: to be copied.
//
//     tvec::guest<example::sd_event_host> timers{event};
//     timers->arm_after(session.idle, 30s);
//     sd_event_loop(event);
//
// The guest holds a reference to the loop. Exceptions of callbacks end the program.
#pragma once

#include <systemd/sd-event.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <system_error>

#include "tvec/guests/guest.hpp"

namespace example {

// One time source. A deferred source that is always on, of the same priority, starves it and all
// other timers.
class sd_event_host {
public:
    sd_event_host(tvec::guest_turn turn, sd_event* loop) : turn_(turn) {
        const int e = sd_event_add_time(loop, &alarm_, CLOCK_MONOTONIC, UINT64_MAX, 1, &ring, this);
        if (e < 0) throw std::system_error(-e, std::generic_category(), "sd_event_add_time");
    }
    ~sd_event_host() { sd_event_source_disable_unref(alarm_); }
    sd_event_host(const sd_event_host&) = delete;
    sd_event_host& operator=(const sd_event_host&) = delete;

    void set_alarm(std::chrono::steady_clock::time_point t) noexcept {
        const auto at = std::chrono::ceil<std::chrono::microseconds>(t.time_since_epoch());
        const auto us = t == t.max() ? UINT64_MAX : static_cast<std::uint64_t>(at.count());
        if (sd_event_source_set_time(alarm_, us) < 0 ||
            sd_event_source_set_enabled(alarm_, SD_EVENT_ONESHOT) < 0)
            std::terminate();  // only in a child that fork has made
    }

private:
    static int ring(sd_event_source*, std::uint64_t, void* host) noexcept {
        static_cast<sd_event_host*>(host)->turn_();
        return 0;
    }

    tvec::guest_turn turn_;
    sd_event_source* alarm_ = nullptr;
};

}  // namespace example
