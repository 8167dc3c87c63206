// libevent's timers through its public interface, in virtual time. The workloads' two repeated
// timeouts are "common timeouts", queues beside the heap. All others go to the heap. The loop
// cannot tell its next wake-up: each tick is a turn of it, and its waiting costs nothing.
#pragma once

#include <cstdint>
#include <stdexcept>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "../workloads/test_bed.hpp"
#include "virtual_time.hpp"

namespace bench {

struct libevent_adapter {
    static constexpr const char* name = "libevent";
    static constexpr description is{.what = "a binary heap, and a list for each common timeout",
                                    .order = "unspecified; oldest first in a list",
                                    .allocation = "an array of entries",
                                    .cancel = "takes out of the heap or list"};

    struct node {
        event timer;
    };

    std::uint64_t now() const { return now_; }

    void arm(node& n, std::uint64_t at) {
        const std::uint64_t delay = at - now_;
        if (delay == plan::longest) {
            event_add(&n.timer, keepalive_);
        } else if (delay == plan::request) {
            event_add(&n.timer, request_);
        } else {
            const timeval t = of(delay);
            event_add(&n.timer, &t);
        }
    }
    void cancel(node& n) { event_del(&n.timer); }

    void advance(std::uint64_t until) {
        now_ = until;
        set_virtual_time(until);
        event_base_loop(base_, EVLOOP_NONBLOCK);
    }

    void adopt(node& n) { event_assign(&n.timer, base_, -1, 0, fire, &n); }
    void release(node& n) { event_del(&n.timer); }

    libevent_adapter() {
        set_virtual_time(start);
        current = this;
        base_ = event_base_new();
        if (base_ == nullptr) throw std::runtime_error("libevent: no base");
        keepalive_ = common(plan::longest);
        request_ = common(plan::request);
    }
    ~libevent_adapter() { event_base_free(base_); }
    libevent_adapter(const libevent_adapter&) = delete;
    libevent_adapter& operator=(const libevent_adapter&) = delete;

private:
    static void fire(evutil_socket_t, short, void* n) {
        seen.note(*static_cast<node*>(n), current->now_);
    }

    static timeval of(std::uint64_t ticks) {
        return {static_cast<time_t>(ticks / 1'000),
                static_cast<suseconds_t>(ticks % 1'000 * 1'000)};
    }
    const timeval* common(std::uint64_t ticks) {
        const timeval t = of(ticks);
        return event_base_init_common_timeout(base_, &t);
    }

    static inline libevent_adapter* current = nullptr;
    std::uint64_t now_ = start;
    event_base* base_;
    const timeval* keepalive_;
    const timeval* request_;
};

}  // namespace bench
