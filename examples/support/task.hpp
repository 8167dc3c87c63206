// A minimal coroutine type for these programs: it is started or awaited, returns a value or throws,
// and ends with its owner.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace example {

namespace detail {

// Resumes the coroutine that awaits this task, if there is one.
struct final_awaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
        return ended.promise().outer ? ended.promise().outer : std::noop_coroutine();
    }
    void await_resume() const noexcept {}
};

struct promise_base {
    std::suspend_always initial_suspend() const noexcept { return {}; }
    final_awaiter final_suspend() const noexcept { return {}; }
    void unhandled_exception() noexcept { failure = std::current_exception(); }
    void rethrow() const {
        if (failure) std::rethrow_exception(failure);
    }

    std::coroutine_handle<> outer;
    std::exception_ptr failure;
};

template <class T> struct promise_of : promise_base {
    void return_value(T v) { value.emplace(std::move(v)); }
    T result() {
        rethrow();
        return std::move(*value);
    }
    std::optional<T> value;
};
template <> struct promise_of<void> : promise_base {
    void return_void() const noexcept {}
    void result() const { rethrow(); }
};

}  // namespace detail

// Owns its coroutine, which begins when it is started or awaited. Destroying the task destroys the
// suspended coroutine and everything that it awaits: timers, requests, other tasks.
template <class T = void> class [[nodiscard]] task {
public:
    struct promise_type : detail::promise_of<T> {
        task get_return_object() {
            return task(std::coroutine_handle<promise_type>::from_promise(*this));
        }
    };

    task(task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
    task& operator=(task&& other) noexcept {
        std::swap(coroutine_, other.coroutine_);
        return *this;
    }
    ~task() {
        if (coroutine_) coroutine_.destroy();
    }

    // Starts a task that no coroutine awaits. Call it once.
    void start() { coroutine_.resume(); }
    bool done() const { return coroutine_.done(); }
    // Returns the value of a finished task, once, or rethrows its exception.
    T result() { return coroutine_.promise().result(); }

    auto operator co_await() && noexcept { return awaiter{coroutine_}; }

private:
    struct awaiter {
        bool await_ready() const noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<> outer) const noexcept {
            inner.promise().outer = outer;
            return inner;
        }
        T await_resume() const { return inner.promise().result(); }

        std::coroutine_handle<promise_type> inner;
    };

    explicit task(std::coroutine_handle<promise_type> c) : coroutine_(c) {}

    std::coroutine_handle<promise_type> coroutine_;
};

}  // namespace example
