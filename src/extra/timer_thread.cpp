#include "tvec/extra/timer_thread.hpp"

#ifndef _WIN32
#include <pthread.h>
#endif

#include <cassert>
#include <csignal>
#include <thread>
#include <utility>

#include "sleeper.hpp"
#include "tvec/core/detail/broken_promise.hpp"
#include "tvec/pool/detail/timeout_core.hpp"

namespace tvec::detail {

namespace {

/// The engine whose thread this is. Ids of threads are reused.
thread_local const void* run_here = nullptr;

/// The number of this process: 1 for the program's first, and one more in each child of fork.
constinit std::atomic<unsigned> process = 1;

#ifndef _WIN32
/// Registered when the program starts: a child of a first use would wait for the end of that use.
[[maybe_unused]] const int counts_forks =
    pthread_atfork(nullptr, nullptr, [] { process.fetch_add(1, std::memory_order_relaxed); });
#endif

unsigned this_process() noexcept { return process.load(std::memory_order_relaxed); }

#ifdef _WIN32
struct without_signals {};  // no signal is sent to a thread there
#else
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
#endif

}  // namespace

class timer_thread_core::engine {
public:
    explicit engine(timer_thread_core& core)
        : timers_(runtime_tick_clock(core.options_.tick)),
          mailbox_(timers_, core.options_.max_pending, sleeper_.bell()), core_(core),
          may_linger_(core.options_.tick >= std::chrono::milliseconds(1)) {
        [[maybe_unused]] const without_signals blocked;
        thread_ = std::thread([this] { run(); });
        mailbox_.core_->give_to(thread_.get_id());
    }

    bool is_in_this_process() const noexcept { return process_ == this_process(); }
    bool is_this_thread() const noexcept { return run_here == this; }
    const sender& mail() const noexcept { return sender_; }

    /// Waits for the end of the thread.
    void join() {
        assert(core_.stopping_ && "the thread was told to end");
        if (!thread_.joinable()) return;
        sleeper_.bell()();
        thread_.join();
    }

    /// Shows nothing more in a child that the visitor makes.
    std::size_t stop(function_ref<void(unprocessed&)> visit) {
        core_.pending_.store(0, std::memory_order_relaxed);
        return mailbox_.stop([&](unprocessed& u) {
            if (is_in_this_process()) visit(u);
        });
    }

private:
    /// In a child that a function makes, the thread ends when the function returns.
    void run() noexcept {
        run_here = this;
        while (goes_on()) {
            core_.pending_.store(mailbox_.pending(), std::memory_order_relaxed);
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
        }
    }

    /// Does not look at the timer in a child, which may have destroyed it. The load may be relaxed,
    /// because the bell orders it: who sleeps is rung after the store, and looks again.
    bool goes_on() const noexcept {
        return is_in_this_process() && !core_.stopping_.load(std::memory_order_relaxed);
    }

    /// A busy thread sleeps for a millisecond at most, and need not be woken: threads that send
    /// meanwhile make no system call. That delays a function by less than a tick.
    void sleep() {
        if (!busy_) mailbox_.rearm();
        sleeper_.sleep(busy_);
    }

    void turn() {
        busy_ = mailbox_.run() != 0 && may_linger_;
        if (!goes_on()) return;
        const auto until_stopped = [this](const timer_wheel::due_callback& fire) {
            fire();
            return goes_on();
        };
        busy_ |= timers_.run_watched(until_stopped).fired != 0 && may_linger_;
    }

    wheel timers_;
    sleeper<wheel> sleeper_{timers_};
    mailbox<wheel> mailbox_;
    const sender sender_{mailbox_.sender()};
    timer_thread_core& core_;
    const unsigned process_ = this_process();
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
    if (!is_at_home()) {
        static_cast<void>(engine_.release());
        return;
    }
    if (engine_ && engine_->is_this_thread())
        broken_promise("a tvec::timer_thread is destroyed by one of its own functions: it must "
                       "outlive them");
    const auto drop = [](unprocessed&) {};
    stop(drop);
}

/// Returns whether the calling process is the timer's. Makes it so if there is none. Requires a
/// call before each lock: in a child no thread will release what is locked.
bool timer_thread_core::is_at_home() noexcept {
    unsigned home = 0;
    return home_.compare_exchange_strong(home, this_process(), std::memory_order_relaxed) ||
           home == this_process();
}

auto timer_thread_core::running() const noexcept -> const sender* {
    const engine* const e = started_.load(std::memory_order_acquire);
    return e && e->is_in_this_process() ? &e->mail() : nullptr;
}

auto timer_thread_core::start() -> const sender* {
    if (started_.load(std::memory_order_relaxed)) return running();
    if (!is_at_home()) return nullptr;
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
    if (!is_at_home()) return 0;
    engine* const started = started_.load(std::memory_order_acquire);
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
