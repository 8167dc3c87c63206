// Coroutines on a manual clock, and awaitables that a test completes by hand.
//
// The tests' coroutines are functions, not lambdas: g++ 12 gives two lambdas the same name within
// Criterion's extern "C" functions.
#pragma once

#include <chrono>
#include <coroutine>
#include <exception>
#include <stdexcept>
#include <utility>

#include "../../examples/support/task.hpp"
#include "tvec/coroutines/sleep.hpp"

namespace support {

using example::task;

using manual_ticks = tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>;

// A wheel at the beginning of time.
struct manual_timers : tvec::clocked_wheel<manual_ticks> {
    manual_timers() : clocked_wheel((tvec::manual_clock::set({}), manual_ticks())) {}
};

inline std::chrono::milliseconds elapsed() {
    return std::chrono::floor<std::chrono::milliseconds>(
        tvec::manual_clock::now().time_since_epoch());
}

// Starts a coroutine.
inline task<> started(task<> t) {
    t.start();
    return t;
}

// Lets the clock tick, and runs the timers at each tick.
inline void pass(manual_timers& timers, std::chrono::milliseconds d) {
    for (; d.count() > 0; --d) {
        tvec::manual_clock::advance(std::chrono::milliseconds(1));
        timers.run();
    }
}

// An operation in flight that one coroutine at a time awaits. Counts waiting and cancelled awaits.
class signal {
public:
    class awaiter {
    public:
        explicit awaiter(signal& of) : signal_(of) {}
        awaiter(const awaiter&) = delete;
        awaiter& operator=(const awaiter&) = delete;
        ~awaiter() {
            if (!waiting_) return;
            ++signal_.given_up;
            signal_.waiting_ = nullptr;
        }
        bool await_ready() const noexcept { return signal_.value_ != 0; }
        void await_suspend(std::coroutine_handle<> waiting) noexcept {
            signal_.waiting_ = waiting;
            waiting_ = true;
        }
        int await_resume() {
            waiting_ = false;
            if (signal_.value_ < 0) throw std::runtime_error("failed");
            return std::exchange(signal_.value_, 0);
        }

    private:
        signal& signal_;
        bool waiting_ = false;
    };

    awaiter operator co_await() noexcept { return awaiter(*this); }

    // Completes the current await, or the next one, with `value`. A negative value makes it throw.
    void complete(int value) {
        value_ = value;
        if (waiting_) std::exchange(waiting_, nullptr).resume();
    }
    bool awaited() const { return waiting_ != nullptr; }

    int given_up = 0;

private:
    int value_ = 0;
    std::coroutine_handle<> waiting_;
};

// A detached coroutine: it begins at once, and frees itself at its end.
struct unowned {
    struct promise_type {
        unowned get_return_object() const noexcept { return {}; }
        std::suspend_never initial_suspend() const noexcept { return {}; }
        std::suspend_never final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
    };
};

// A coroutine whose exceptions propagate to its resumer. It begins at once.
class reckless {
public:
    struct promise_type {
        reckless get_return_object() {
            return reckless(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_never initial_suspend() const noexcept { return {}; }
        std::suspend_always final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        [[noreturn]] void unhandled_exception() const { throw; }
    };

    reckless(reckless&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
    reckless& operator=(reckless&&) = delete;
    ~reckless() {
        if (coroutine_) coroutine_.destroy();
    }

private:
    explicit reckless(std::coroutine_handle<promise_type> c) : coroutine_(c) {}

    std::coroutine_handle<promise_type> coroutine_;
};

}  // namespace support
