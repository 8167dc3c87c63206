// What it costs other threads to set and to cancel timers on a loop, and how late the loop becomes:
// through a tvec::remote, through a mutex around a wheel, and as users of Asio and of libuv do it.
// Each producer sets a batch of timers of half a minute or more, and cancels them; then it waits
// until the loop has taken in all of it. Meanwhile the loop has a timer of its own, every
// millisecond, which notes how late it is.
#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#ifdef BENCH_ASIO
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#endif
#ifdef BENCH_LIBUV
#include <uv.h>
#endif

#include "../examples/support/command_line.hpp"
#include "../examples/support/descriptors.hpp"
#include "../examples/support/figures.hpp"
#include "../examples/support/program.hpp"
#include "tvec/eventfd_doorbell.hpp"
#include "tvec/lateness_histogram.hpp"
#include "tvec/remote.hpp"
#include "tvec/tvec.hpp"

namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using wheel = tvec::clocked_wheel<>;

constexpr milliseconds beat_period{1};

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

// --- tvec ---------------------------------------------------------------------------------------

class by_remote final : public way {
public:
    explicit by_remote(std::size_t places)
        : handles_(places), mailbox_(timers_, 2 * places + 64, bell_), sender_(mailbox_.sender()),
          thread_([this] { run(); }) {}

    void schedule(std::size_t place, milliseconds delay) override {
        handles_[place] = sender_.schedule(delay, [this] { ++fired_; }).handle;
    }
    void cancel(std::size_t place) override { sender_.cancel(handles_[place]); }
    void post(std::function<void()>* f) override {
        sender_.post([f] { (*f)(); });
    }
    void end() override {
        sender_.post([this] { over_ = true; });
        thread_.join();
    }

private:
    void run() {
        timers_.arm_after(beat_, beat_period);
        while (!over_) {
            mailbox_.rearm();
            alarm_.rearm();
            pollfd watched[] = {{alarm_.fd(), POLLIN, 0}, {bell_.fd(), POLLIN, 0}};
            ::poll(watched, 2, -1);
            if (watched[0].revents != 0) alarm_.acknowledge();
            if (watched[1].revents != 0) bell_.acknowledge();
            mailbox_.run(1'000);
            timers_.run(256);
        }
    }
    void on_beat() {
        late.record(clock::now() - timers_.ticks().start_of(beat_.expires()));
        timers_.arm_next(beat_, beat_period);
    }

    wheel timers_;
    tvec::timer beat_{tvec::call<&by_remote::beat_, &by_remote::on_beat>};
    tvec::eventfd_doorbell bell_;
    tvec::timerfd_alarm<wheel> alarm_{timers_};
    std::vector<tvec::remote_handle> handles_;
    tvec::remote<wheel> mailbox_;
    tvec::remote_sender<wheel> sender_;
    std::uint64_t fired_ = 0;
    bool over_ = false;
    std::thread thread_;
};

// --- a mutex around the wheel -------------------------------------------------------------------

#ifdef NDEBUG
// Who arms for something earlier than the loop sleeps for wakes it.
class by_mutex final : public way {
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
            timers_.arm_after(beat_, beat_period);
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
        pollfd watched[] = {{alarm_.fd(), POLLIN, 0}, {bell_.fd(), POLLIN, 0}};
        ::poll(watched, 2, -1);
        if (watched[0].revents != 0) alarm_.acknowledge();
        if (watched[1].revents != 0) bell_.acknowledge();
    }
    void on_beat() {
        late.record(clock::now() - timers_.ticks().start_of(beat_.expires()));
        timers_.arm_next(beat_, beat_period);
    }

    // The places go first, and the wheel knows nothing of threads when it is only destroyed.
    wheel timers_;
    tvec::timer beat_{tvec::call<&by_mutex::beat_, &by_mutex::on_beat>};
    tvec::eventfd_doorbell bell_;
    tvec::timerfd_alarm<wheel> alarm_{timers_};
    std::vector<tvec::timer> places_;
    std::mutex mutex_;
    wheel::time_point sleeps_until_;
    std::vector<std::function<void()>*> posted_;
    bool over_ = false;
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

// --- measuring ----------------------------------------------------------------------------------

struct row {
    std::string name;
    unsigned producers;
    double schedule_ns, cancel_ns, taken_in_ns;  // per call, and per call until all is taken in
    double p50_us, p99_us, max_us;               // by which the loop's own timer is late
};

struct extent {
    unsigned producers = 1;
    std::size_t batch = 1'000;
    std::size_t rounds = 200;
};

double ns_since(clock::time_point begin) {
    return std::chrono::duration<double, std::nano>(clock::now() - begin).count();
}

struct times {
    double schedule = 0, cancel = 0;
};

// By which a producer learns that the loop has come so far. It outlives the loop, which may still
// be waking it when it has gone on.
struct milestone {
    std::atomic<unsigned> passed = 0;
    std::function<void()> pass = [this] {
        ++passed;
        passed.notify_one();
    };

    void wait_for(way& w) {
        const unsigned before = passed;
        w.post(&pass);
        passed.wait(before);
    }
};

// What one producer does.
times produce(way& w, const extent& e, std::size_t first_place, milestone& taken_in) {
    times t;
    for (std::size_t round = 0; round < e.rounds; ++round) {
        const auto begin = clock::now();
        for (std::size_t i = 0; i < e.batch; ++i)
            w.schedule(first_place + i, milliseconds(30'000 + 37 * i % 30'000));
        t.schedule += ns_since(begin);
        const auto middle = clock::now();
        for (std::size_t i = 0; i < e.batch; ++i) w.cancel(first_place + i);
        t.cancel += ns_since(middle);
        taken_in.wait_for(w);
    }
    return t;
}

template <class Way> row measure(const char* name, const extent& e) {
    std::vector<milestone> taken_in(e.producers);
    Way w(e.producers * e.batch);
    std::vector<times> all(e.producers);
    std::vector<std::thread> threads;
    const auto begin = clock::now();
    for (unsigned p = 0; p < e.producers; ++p)
        threads.emplace_back([&, p] { all[p] = produce(w, e, p * e.batch, taken_in[p]); });
    for (std::thread& t : threads) t.join();
    const double elapsed = ns_since(begin);
    w.end();
    const double calls = static_cast<double>(e.batch * e.rounds) * e.producers;
    times sum;
    for (const times& t : all) {
        sum.schedule += t.schedule;
        sum.cancel += t.cancel;
    }
    const auto us = example::microseconds_of;
    return {name,
            e.producers,
            sum.schedule / calls,
            sum.cancel / calls,
            elapsed / (2 * calls),
            us(w.late.quantile(0.5)),
            us(w.late.quantile(0.99)),
            us(w.late.max())};
}

template <class F> void measure_all(extent e, F show) {
    for (const unsigned producers : {1u, 2u, 4u}) {
        e.producers = producers;
        show(measure<by_remote>("tvec::remote", e));
#ifdef NDEBUG  // else a wheel does not let other threads arm, whatever they hold
        show(measure<by_mutex>("mutex and wheel", e));
#endif
#ifdef BENCH_ASIO
        show(measure<by_asio>("Asio", e));
#endif
#ifdef BENCH_LIBUV
        show(measure<by_libuv>("libuv", e));
#endif
    }
}

// --- what it says -------------------------------------------------------------------------------

struct options {
    std::size_t batch = 1'000;
    std::size_t rounds = 300;
    std::string csv;
};

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "What it costs 1, 2 and 4 threads to set and to cancel timers on a loop, in ns per call;\n"
        "what both together take per call until the loop has taken them in; and by how many us "
        "the\n"
        "loop's own timer is late meanwhile.",
        "remote"};
    line.add_number("--batch", o.batch, 1, 100'000, "timers that each thread sets, then cancels");
    line.add_number("--rounds", o.rounds, 1, 1'000'000, "how often");
    line.add_text("--csv", o.csv, "write the table to this file, too");
    line.parse_or_exit(argc, argv);
    return o;
}

int run(const options& o) {
    std::optional<example::output_file> csv;
    if (!o.csv.empty()) csv.emplace(o.csv);
    fmt::print(
        "| producers | way | schedule, ns | cancel, ns | taken in, ns | late p50, us | p99 | "
        "max |\n|--:|---|--:|--:|--:|--:|--:|--:|\n");
    example::flush_output();
    if (csv)
        fmt::print(csv->get(),
                   "producers,way,schedule_ns,cancel_ns,taken_in_ns,p50_us,p99_us,max_us\n");
    measure_all({1, o.batch, o.rounds}, [&](const row& r) {
        fmt::print("| {} | {} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} |\n",
                   r.producers, r.name, r.schedule_ns, r.cancel_ns, r.taken_in_ns, r.p50_us,
                   r.p99_us, r.max_us);
        example::flush_output();
        if (csv)
            fmt::print(csv->get(), "{},{},{:.1f},{:.1f},{:.1f},{:.1f},{:.1f},{:.1f}\n", r.producers,
                       r.name, r.schedule_ns, r.cancel_ns, r.taken_in_ns, r.p50_us, r.p99_us,
                       r.max_us);
    });
    if (csv) csv->finish();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("remote", [&] { return run(parse(argc, argv)); });
}
