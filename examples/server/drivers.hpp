// The ways in which the server can sleep. Each submits what is queued, and wakes for a completion
// or for the wheel; the server cannot tell them apart.
#pragma once

#include <poll.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "../support/ring.hpp"
#include "timer_books.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/drivers/uring_timeout.hpp"
#include "tvec/drivers/uring_wait.hpp"

namespace example {

class driver {
public:
    virtual ~driver() = default;
    // Submits, and sleeps until a completion has come or a timer is due.
    virtual void sleep() = 0;
    // Returns whether a completion was the driver's own.
    virtual bool complete(std::uint64_t tag, int result) = 0;
};

// The deadline rides in the wait: nothing in the ring.
class wait_driver final : public driver {
public:
    wait_driver(ring& r, timers& wheel) : wait_(r.get(), wheel) {}
    void sleep() override { wait_(); }
    bool complete(std::uint64_t, int) override { return false; }

private:
    tvec::uring_wait<timers> wait_;
};

// One timeout request in the ring; it finds its completions by their tag.
class timeout_driver final : public driver {
public:
    timeout_driver(ring& r, timers& wheel) : ring_(r), alarm_(r.get(), wheel) {}
    void sleep() override {
        if (alarm_.prepare())
            ring_.submit_and_wait();
        else
            ring_.submit_and_poll();
    }
    bool complete(std::uint64_t tag, int result) override { return alarm_.complete(tag, result); }

private:
    ring& ring_;
    tvec::uring_timeout<timers> alarm_;
};

// A timerfd that the ring polls. A loop without a ring would give it to epoll.
class timerfd_driver final : public driver {
public:
    timerfd_driver(ring& r, timers& wheel, std::uint64_t tag)
        : ring_(r), tag_(tag), alarm_(wheel) {}
    void sleep() override {
        alarm_.rearm();
        if (!polled_) ring_.queue(tag_, io_uring_prep_poll_add, alarm_.fd(), unsigned{POLLIN});
        polled_ = true;
        ring_.submit_and_wait();
    }
    bool complete(std::uint64_t tag, int) override {
        if (tag != tag_) return false;
        polled_ = false;
        alarm_.acknowledge();
        return true;
    }

private:
    ring& ring_;
    std::uint64_t tag_;
    bool polled_ = false;
    tvec::timerfd_alarm<timers> alarm_;
};

// `tag` is for a request of the driver's own, if it makes one.
inline std::unique_ptr<driver> make_driver(const std::string& name, ring& r, timers& wheel,
                                           std::uint64_t tag) {
    if (name == "wait") return std::make_unique<wait_driver>(r, wheel);
    if (name == "timeout") return std::make_unique<timeout_driver>(r, wheel);
    if (name == "timerfd") return std::make_unique<timerfd_driver>(r, wheel, tag);
    throw std::invalid_argument("no driver " + name);
}

}  // namespace example
