#include "tvec/thread/timer_thread.hpp"

#include <poll.h>
#include <pthread.h>

#include <cassert>
#include <csignal>
#include <thread>
#include <utility>

#include "tvec/core/detail/broken_promise.hpp"
#include "tvec/drivers/eventfd_doorbell.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/pool/detail/timeout_core.hpp"

namespace tvec::detail {

namespace {

/// The timer whose thread this is. Ids of threads are reused.
thread_local const timer_thread_core* run_here = nullptr;

/// Returns the number of forks between the program's first process and this one.
unsigned count_forks() noexcept {
    static std::atomic<unsigned> forks = 0;
    [[maybe_unused]] static const int registered =
        pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
    return forks.load(std::memory_order_relaxed);
}

/// Blocks all signals for the calling thread. A thread that starts meanwhile never has one.
class without_signals {
public:
    without_signals() noexcept {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~without_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    without_signals(const without_signals&) = delete;
    without_signals& operator=(const without_signals&) = delete;

private:
    sigset_t before_;
};

}  // namespace

class timer_thread_core::engine {
public:
    explicit engine(timer_thread_core& core)
        : timers_(runtime_tick_clock(core.options_.tick)),
          mailbox_(timers_, core.options_.max_pending, bell_), core_(core),
          may_linger_(core.options_.tick >= std::chrono::milliseconds(1)) {
        const without_signals blocked;
        thread_ = std::thread([this] { run(); });
    }

    bool is_in_this_process() const noexcept { return forks_ == count_forks(); }
    bool is_this_thread() const noexcept { return run_here == &core_; }
    const sender& mail() const noexcept { return sender_; }

    /// Waits for the end of the thread. The caller owns the mailbox from then on.
    void join() {
        assert(core_.stopping_ && "the thread was told to end");
        if (!thread_.joinable()) return;
        bell_();
        thread_.join();
        mailbox_.run(0);
    }

    std::size_t stop(function_ref<void(unprocessed&)> visit) {
        core_.pending_.store(0, std::memory_order_relaxed);
        return mailbox_.stop([&](unprocessed& u) { visit(u); });
    }

private:
    void run() noexcept {
        run_here = &core_;
        while (!core_.stopping_.load(std::memory_order_relaxed)) {
            sleep();
#ifdef __cpp_exceptions
            try {
                turn();
            } catch (...) {
                core_.failed_.fetch_add(1, std::memory_order_relaxed);
                const auto& hook = core_.options_.on_exception;
                if (hook) hook(std::current_exception());
            }
#else
            turn();
#endif
            core_.pending_.store(mailbox_.pending(), std::memory_order_relaxed);
        }
    }

    /// A busy thread sleeps for a millisecond at most, and need not be woken: threads that send
    /// meanwhile make no system call. That delays a function by less than a tick.
    void sleep() {
        if (!busy_) mailbox_.rearm();
        alarm_.rearm();
        pollfd watched[] = {{alarm_.fd(), POLLIN, 0}, {bell_.fd(), POLLIN, 0}};
        poll(watched, 2, busy_ ? 1 : -1);
        if (watched[0].revents != 0) alarm_.acknowledge();
        if (watched[1].revents != 0) bell_.acknowledge();
    }

    void turn() {
        busy_ = mailbox_.run() != 0 && may_linger_;
        const auto until_stopped = [this](const timer_wheel::due_callback& fire) {
            fire();
            return !core_.stopping_.load(std::memory_order_relaxed);
        };
        busy_ |= timers_.run_watched(until_stopped).fired != 0 && may_linger_;
    }

    wheel timers_;
    timerfd_alarm<wheel> alarm_{timers_};
    eventfd_doorbell bell_;
    remote<wheel> mailbox_;
    const sender sender_{mailbox_.sender()};
    timer_thread_core& core_;
    const unsigned forks_ = count_forks();
    const bool may_linger_;
    bool busy_ = false;
    std::thread thread_;
};

timer_thread_core::timer_thread_core(timer_thread_options options) : options_(std::move(options)) {
#ifndef NDEBUG
    if (!options_.on_exception)
        options_.on_exception = std::bind_front(tell_of_exception, timeout_handle());
#endif
}

/// In a child of fork there is no thread to join, and its last state is unknown: the memory is left
/// alone.
timer_thread_core::~timer_thread_core() {
    if (engine_ && !engine_->is_in_this_process()) {
        static_cast<void>(engine_.release());
        return;
    }
    if (engine_ && engine_->is_this_thread())
        broken_promise("a tvec::timer_thread is destroyed by one of its own functions: it must "
                       "outlive them");
    const auto drop = [](unprocessed&) {};
    stop(drop);
}

auto timer_thread_core::running() const noexcept -> const sender* {
    const engine* const e = started_.load(std::memory_order_acquire);
    return e && e->is_in_this_process() ? &e->mail() : nullptr;
}

auto timer_thread_core::start() -> const sender* {
    if (started_.load(std::memory_order_relaxed)) return running();
    const std::lock_guard lock(ends_);
    if (!engine_ && !stopping_.load(std::memory_order_relaxed)) {
        engine_ = std::make_unique<engine>(*this);
        started_.store(engine_.get(), std::memory_order_release);
    }
    return running();
}

/// A function that stops its own timer must not wait for itself. The thread ends when the function
/// has returned, and is joined by the destructor.
std::size_t timer_thread_core::stop(function_ref<void(unprocessed&)> visit) {
    engine* const started = started_.load(std::memory_order_acquire);
    if (started && !started->is_in_this_process()) return 0;
    if (started && started->is_this_thread()) {
        stopping_.store(true, std::memory_order_relaxed);
        return started->stop(visit);
    }
    const std::lock_guard lock(ends_);
    stopping_.store(true, std::memory_order_relaxed);
    if (!engine_) return 0;
    engine_->join();
    return engine_->stop(visit);
}

}  // namespace tvec::detail
