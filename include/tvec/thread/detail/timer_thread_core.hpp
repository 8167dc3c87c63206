/// \file
/// A timer_thread without its executor: the wheel, the mailbox and the thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/clock/tick_clock.hpp"
#include "tvec/core/detail/export.hpp"
#include "tvec/core/detail/function_ref.hpp"
#include "tvec/remote/remote.hpp"

namespace tvec {

/// The settings of a `timer_thread`.
struct timer_thread_options {
    /// The most functions that are pending, being called, or cancelled and not yet destroyed. Each
    /// has 128 bytes, which are allocated when the thread starts.
    std::size_t max_pending = 65'536;
    /// The length of a tick. A shorter one makes functions less late, and costs nothing while none
    /// is due.
    std::chrono::nanoseconds tick = std::chrono::milliseconds(1);
    /// Called on the thread with each exception of a function or the executor. It must not throw.
    /// Without it exceptions are only counted. A debug build reports the first of them on the
    /// standard error output.
    std::function<void(std::exception_ptr)> on_exception = {};
};

namespace detail {

/// The life of the thread. The thread owns the wheel and the mailbox until it has been joined. Then
/// the thread that joined it owns them.
class TVEC_API timer_thread_core {
public:
    using wheel = clocked_wheel<runtime_tick_clock<>>;
    using sender = remote_sender<wheel>;
    using unprocessed = remote<wheel>::unprocessed;

    explicit timer_thread_core(timer_thread_options options);
    ~timer_thread_core();
    timer_thread_core(const timer_thread_core&) = delete;
    timer_thread_core& operator=(const timer_thread_core&) = delete;

    /// Returns the sender of the running thread, and starts it if it has not run yet. Null if it
    /// was stopped, or belongs to the parent of this process.
    const sender* start();
    /// Returns the sender of the running thread. Null if there is none in this process.
    const sender* running() const noexcept;

    std::size_t stop(function_ref<void(unprocessed&)> visit);
    bool stopped() const noexcept { return stopping_.load(std::memory_order_relaxed); }
    std::size_t pending() const noexcept { return pending_.load(std::memory_order_relaxed); }
    std::uint64_t failed() const noexcept { return failed_.load(std::memory_order_relaxed); }

private:
    class engine;

    const sender* start_engine();
    void report(std::exception_ptr thrown) noexcept;

    timer_thread_options options_;
    std::recursive_mutex ends_;  ///< held to start the thread and to join it
    std::unique_ptr<engine> engine_;
    std::atomic<engine*> started_{nullptr};
    std::atomic<bool> stopping_{false};
    std::atomic<std::size_t> pending_{0};
    std::atomic<std::uint64_t> failed_{0};
};

}  // namespace detail

}  // namespace tvec
