// Ways to set and to cancel timers on a loop from other threads: through a tvec::mailbox, through a
// mutex around a wheel, and as users of Asio and of libuv do it. And two timers with a thread of
// their own: tvec::timer_thread, and a heap under a mutex with a condition variable.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>
#include <utility>
#include <vector>

#ifdef BENCH_ASIO
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#endif
#ifdef BENCH_LIBUV
#include <uv.h>
#endif

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/drivers/eventfd_doorbell.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/extra/lateness_histogram.hpp"
#include "tvec/extra/timer_thread.hpp"
#include "tvec/mailbox/mailbox.hpp"

namespace bench {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using wheel = tvec::clocked_wheel<>;

inline constexpr milliseconds beat_period{1};

// A loop on a thread of its own, with places for the timers of its producers, each used by one of
// them. Cancelling what was cancelled before, or has fired, does nothing.
class way {
public:
    virtual ~way() = default;
    virtual void schedule(std::size_t place, milliseconds delay) = 0;
    virtual void cancel(std::size_t place) = 0;
    // Calls `f` on the loop's thread, after what the calling thread has asked for before.
    virtual void post(std::function<void()>* f) = 0;
    // Ends the loop. Then nobody calls any more.
    virtual void end() = 0;

    tvec::lateness_histogram late;  // to be looked at after the end
};

// Common to the ways whose loop is on a wheel.
class on_a_wheel : public way {
protected:
    void start_beat() { timers_.arm_after(beat_, beat_period); }
    // `alarm_` is set.
    void sleep() {
        pollfd watched[] = {{alarm_.fd(), POLLIN, 0}, {bell_.fd(), POLLIN, 0}};
        ::poll(watched, 2, -1);
        if (watched[0].revents != 0) alarm_.acknowledge();
        if (watched[1].revents != 0) bell_.acknowledge();
    }

    wheel timers_;
    tvec::timerfd_alarm<wheel> alarm_{timers_};
    tvec::eventfd_doorbell bell_;
    bool over_ = false;

private:
    void on_beat() {
        late.record(clock::now() - timers_.ticks().start_of(beat_.expires()));
        timers_.arm_next(beat_, beat_period);
    }

    tvec::timer beat_{tvec::call<&on_a_wheel::beat_, &on_a_wheel::on_beat>};
};

// --- tvec ---------------------------------------------------------------------------------------

class by_mailbox final : public on_a_wheel {
public:
    explicit by_mailbox(std::size_t places)
        : handles_(places), mailbox_(timers_, 2 * places + 64, bell_), sender_(mailbox_.sender()),
          thread_([this] { run(); }) {}

    void schedule(std::size_t place, milliseconds delay) override {
        handles_[place] = sender_.schedule(delay, [this] { ++fired_; }).handle;
    }
    void cancel(std::size_t place) override { sender_.cancel(handles_[place]); }
    void post(std::function<void()>* f) override {
        (void)sender_.post([f] { (*f)(); });
    }
    void end() override {
        (void)sender_.post([this] { over_ = true; });
        thread_.join();
    }

private:
    void run() {
        start_beat();
        while (!over_) {
            mailbox_.rearm();
            alarm_.rearm();
            sleep();
            mailbox_.run(128);
            timers_.run(256);
        }
    }

    std::vector<tvec::mailbox_handle> handles_;
    tvec::mailbox<wheel> mailbox_;
    tvec::mailbox_sender<wheel> sender_;
    std::uint64_t fired_ = 0;
    std::thread thread_;
};

// --- a timer with a thread of its own -----------------------------------------------------------

class by_timer_thread final : public way {
public:
    explicit by_timer_thread(std::size_t places)
        : handles_(places), timers_({.max_pending = 2 * places + 64}) {
        due_ = clock::now();
        arm_beat();
    }

    void schedule(std::size_t place, milliseconds delay) override {
        handles_[place] = timers_.schedule(delay, [this] { ++fired_; }).handle;
    }
    void cancel(std::size_t place) override { timers_.cancel(handles_[place]); }
    void post(std::function<void()>* f) override {
        (void)timers_.schedule(milliseconds(0), [f] { (*f)(); });
    }
    void end() override { timers_.stop(); }

private:
    void arm_beat() {
        due_ += beat_period;
        (void)timers_.schedule_at(due_, [this] {
            late.record(clock::now() - due_);
            while (due_ + beat_period <= clock::now()) due_ += beat_period;
            arm_beat();
        });
    }

    std::vector<tvec::mailbox_handle> handles_;
    clock::time_point due_;
    std::uint64_t fired_ = 0;
    tvec::timer_thread<> timers_;
};

// --- a heap under a mutex, and a condition variable ---------------------------------------------

// Cancelling is a store: the thread drops a cancelled timer when its time has come.
class by_heap final : public way {
public:
    explicit by_heap(std::size_t places) : generations_(places), thread_([this] { run(); }) {}

    void schedule(std::size_t place, milliseconds delay) override {
        const auto due = clock::now() + delay;
        push({due, place, nullptr});
    }
    void cancel(std::size_t place) override {
        const std::lock_guard lock(mutex_);
        ++generations_[place];
    }
    void post(std::function<void()>* f) override { push({clock::now(), no_place, f}); }
    void end() override {
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
        }
        earlier_.notify_one();
        thread_.join();
    }

private:
    static constexpr std::size_t no_place = ~std::size_t{0};
    struct entry {
        clock::time_point due;
        std::size_t place;
        std::function<void()>* f;
        std::uint64_t generation = 0;
        bool operator<(const entry& other) const { return due > other.due; }
    };

    void push(entry e) {
        bool is_first = false;
        {
            const std::lock_guard lock(mutex_);
            if (e.place != no_place) e.generation = ++generations_[e.place];
            is_first = heap_.empty() || e.due < heap_.top().due;
            heap_.push(e);
        }
        if (is_first) earlier_.notify_one();
    }
    void run() {
        std::unique_lock lock(mutex_);
        auto beat = clock::now() + beat_period;
        while (!over_) {
            earlier_.wait_until(lock, heap_.empty() ? beat : std::min(beat, heap_.top().due));
            const auto now = clock::now();
            if (beat <= now) {
                late.record(now - beat);
                while (beat <= now) beat += beat_period;
            }
            while (!heap_.empty() && heap_.top().due <= now) call_first(lock);
        }
    }
    void call_first(std::unique_lock<std::mutex>& lock) {
        const entry first = heap_.top();
        heap_.pop();
        lock.unlock();
        if (first.f) (*first.f)();
        lock.lock();
        if (!first.f) fired_ += generations_[first.place] == first.generation;
    }

    std::mutex mutex_;
    std::condition_variable earlier_;
    std::priority_queue<entry> heap_;
    std::vector<std::uint64_t> generations_;
    std::uint64_t fired_ = 0;
    bool over_ = false;
    std::thread thread_;
};

// --- a mutex around the wheel -------------------------------------------------------------------

#ifdef NDEBUG
// A thread that arms a timer earlier than the loop's wake-up wakes the loop.
class by_mutex final : public on_a_wheel {
public:
    explicit by_mutex(std::size_t places) : places_(places), thread_([this] { run(); }) {}

    void schedule(std::size_t place, milliseconds delay) override {
        bool earlier = false;
        {
            const std::lock_guard lock(mutex_);
            timers_.arm_after(places_[place], delay);
            earlier = timers_.ticks().start_of(places_[place].expires()) < sleeps_until_;
        }
        if (earlier) bell_();
    }
    void cancel(std::size_t place) override {
        const std::lock_guard lock(mutex_);
        places_[place].cancel();
    }
    void post(std::function<void()>* f) override {
        {
            const std::lock_guard lock(mutex_);
            posted_.push_back(f);
        }
        bell_();
    }
    void end() override {
        std::function<void()> last = [this] { over_ = true; };
        post(&last);
        thread_.join();
    }

private:
    void run() {
        {
            const std::lock_guard lock(mutex_);
            start_beat();
        }
        while (!over_) {
            wait();
            const std::lock_guard lock(mutex_);
            sleeps_until_ = {};
            for (std::function<void()>* f : posted_) (*f)();
            posted_.clear();
            timers_.run(256);
        }
    }
    void wait() {
        {
            const std::lock_guard lock(mutex_);
            const auto wakeup = timers_.next_wakeup();
            sleeps_until_ = wakeup ? *wakeup : wheel::time_point::max();
            alarm_.rearm();
        }
        sleep();
    }

    // They go before the wheel, which knows nothing of threads when it is only destroyed.
    std::vector<tvec::timer> places_;
    std::mutex mutex_;
    wheel::time_point sleeps_until_;
    std::vector<std::function<void()>*> posted_;
    std::thread thread_;
};
#endif

// --- Asio: post, and a steady_timer -------------------------------------------------------------

#ifdef BENCH_ASIO
class by_asio final : public way {
public:
    explicit by_asio(std::size_t places) : beat_(loop_), guard_(loop_.get_executor()) {
        for (std::size_t i = 0; i < places; ++i)
            places_.push_back(std::make_unique<boost::asio::steady_timer>(loop_));
        beat_.expires_after(beat_period);
        wait();
        thread_ = std::thread([this] { loop_.run(); });
    }

    void schedule(std::size_t place, milliseconds delay) override {
        const auto due = clock::now() + delay;
        boost::asio::post(loop_, [t = places_[place].get(), due] {
            t->expires_at(due);
            t->async_wait([](const boost::system::error_code&) {});
        });
    }
    void cancel(std::size_t place) override {
        boost::asio::post(loop_, [t = places_[place].get()] { t->cancel(); });
    }
    void post(std::function<void()>* f) override {
        boost::asio::post(loop_, [f] { (*f)(); });
    }
    void end() override {
        loop_.stop();
        thread_.join();
    }

private:
    void wait() {
        beat_.async_wait([this](const boost::system::error_code& error) {
            if (error) return;
            late.record(clock::now() - beat_.expiry());
            while (beat_.expiry() <= clock::now()) beat_.expires_at(beat_.expiry() + beat_period);
            wait();
        });
    }

    boost::asio::io_context loop_;
    boost::asio::steady_timer beat_;
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
    std::vector<std::unique_ptr<boost::asio::steady_timer>> places_;
    std::thread thread_;
};
#endif

// --- libuv: a queue under a mutex, and uv_async_send --------------------------------------------

#ifdef BENCH_LIBUV
class by_libuv final : public way {
public:
    explicit by_libuv(std::size_t places) : places_(places) {
        uv_loop_init(&loop_);
        uv_async_init(&loop_, &async_, [](uv_async_t* a) { home(a).take_in(); });
        uv_timer_init(&loop_, &beat_);
        async_.data = beat_.data = this;
        for (uv_timer_t& t : places_) uv_timer_init(&loop_, &t);
        due_ = clock::now() + beat_period;
        uv_timer_start(
            &beat_, [](uv_timer_t* t) { home(t).on_beat(); }, 1, 1);
        thread_ = std::thread([this] { uv_run(&loop_, UV_RUN_DEFAULT); });
    }

    void schedule(std::size_t place, milliseconds delay) override {
        const auto due = clock::now() + delay;
        add([t = &places_[place], due] {
            const auto left = std::chrono::ceil<milliseconds>(due - clock::now()).count();
            uv_timer_start(
                t, [](uv_timer_t*) {}, left > 0 ? static_cast<std::uint64_t>(left) : 0, 0);
        });
    }
    void cancel(std::size_t place) override {
        add([t = &places_[place]] { uv_timer_stop(t); });
    }
    void post(std::function<void()>* f) override {
        add([f] { (*f)(); });
    }
    void end() override {
        add([this] { uv_stop(&loop_); });
        thread_.join();
        uv_walk(
            &loop_, [](uv_handle_t* h, void*) { uv_close(h, nullptr); }, nullptr);
        uv_run(&loop_, UV_RUN_DEFAULT);
        uv_loop_close(&loop_);
    }

private:
    template <class Handle> static by_libuv& home(Handle* h) {
        return *static_cast<by_libuv*>(h->data);
    }
    void add(std::function<void()> f) {
        {
            const std::lock_guard lock(mutex_);
            waiting_.push_back(std::move(f));
        }
        uv_async_send(&async_);
    }
    void take_in() {
        {
            const std::lock_guard lock(mutex_);
            taken_.swap(waiting_);
        }
        for (const auto& f : taken_) f();
        taken_.clear();
    }
    void on_beat() {
        const auto now = clock::now();
        late.record(now - due_);
        while (due_ <= now) due_ += beat_period;
    }

    uv_loop_t loop_{};
    uv_async_t async_{};
    uv_timer_t beat_{};
    clock::time_point due_;
    std::vector<uv_timer_t> places_;
    std::mutex mutex_;
    std::vector<std::function<void()>> waiting_, taken_;
    std::thread thread_;
};
#endif

}  // namespace bench
