// Measures how late each driver wakes its loop, and the cost. A few dozen timers are re-armed at
// random, so that most ticks have one due. Each notes how long after the start of its tick it
// fires. The rounding up to a tick is not counted: it is known, and at most a tick. With I/O,
// another thread writes to a descriptor that the loop reads beside its timers.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "../../examples/support/command_line.hpp"
#include "../../examples/support/descriptors.hpp"
#include "../../examples/support/figures.hpp"
#include "../../examples/support/program.hpp"
#include "../../examples/support/ring.hpp"
#include "../report/machine.hpp"
#include "tvec/drivers/uring_timeout.hpp"
#include "tvec/drivers/uring_wait.hpp"
#include "tvec/extra/lateness_histogram.hpp"
#include "tvec/tvec.hpp"

namespace {

using std::chrono::microseconds;

template <int Microseconds>
using wheel_of = tvec::clocked_wheel<
    tvec::tick_clock<std::chrono::duration<std::int64_t, std::ratio<Microseconds, 1'000'000>>>>;

// --- the drivers: sleep until something has happened, then handle the I/O of that
// -----------------

// Common to both rings: one read in flight, if there is anything to read.
class reading_ring {
public:
    explicit reading_ring(int fd) : fd_(fd) { read(); }

protected:
    // Calls alarm(tag, result) for completions that are not of the read.
    template <class F> void handle(F alarm) {
        ring_.reap([&](std::uint64_t tag, int result, bool) {
            if (tag == reading)
                read();
            else
                alarm(tag, result);
        });
    }

    static constexpr std::uint64_t reading = 1;
    example::ring ring_{64};

private:
    void read() {
        if (fd_ >= 0)
            ring_.queue(reading, io_uring_prep_read, fd_, &buffer_,
                        static_cast<unsigned>(sizeof buffer_), 0u);
    }

    int fd_;
    std::uint64_t buffer_ = 0;
};

template <class Timers> class by_uring_wait : reading_ring {
public:
    by_uring_wait(Timers& timers, int fd) : reading_ring(fd), wait_(ring_.get(), timers) {}
    void sleep() { wait_(); }
    void handle_io() {
        handle([](std::uint64_t, int) {});
    }

protected:
    tvec::uring_wait<Timers> wait_;
};

// The same with reads that gather for a while, where the kernel can.
template <class Timers> class by_gathering_wait : public by_uring_wait<Timers> {
public:
    by_gathering_wait(Timers& timers, int fd) : by_uring_wait<Timers>(timers, fd) {
        this->wait_.gather(microseconds(500), 16);
    }
};

template <class Timers> class by_uring_timeout : reading_ring {
public:
    by_uring_timeout(Timers& timers, int fd) : reading_ring(fd), alarm_(ring_.get(), timers) {}
    void sleep() {
        if (alarm_.prepare())
            ring_.submit_and_wait();
        else
            ring_.submit_and_poll();
    }
    void handle_io() {
        handle([this](std::uint64_t tag, int result) { alarm_.complete(tag, result); });
    }

private:
    tvec::uring_timeout<Timers> alarm_;
};

// Common to both loops on epoll: a descriptor to read, if there is one.
class reading_epoll {
public:
    // Reads what is readable, and calls alarm() for descriptors other than that.
    template <class F> void handle(F alarm) {
        for (int i = 0; i < readable_; ++i) {
            eventfd_t count = 0;
            if (events_[static_cast<unsigned>(i)].data.fd == fd_)
                eventfd_read(fd_, &count);
            else
                alarm();
        }
    }

protected:
    explicit reading_epoll(int fd) : fd_(fd), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
        if (fd >= 0) watch(fd);
    }
    void watch(int fd) {
        epoll_event wanted{};
        wanted.events = EPOLLIN;
        wanted.data.fd = fd;
        if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wanted) != 0) example::fail("epoll_ctl");
    }

    int fd_;
    example::descriptor epoll_;
    std::array<epoll_event, 4> events_{};
    int readable_ = 0;
};

template <class Timers> class by_epoll_wait : public reading_epoll {
public:
    by_epoll_wait(Timers& timers, int fd) : reading_epoll(fd), timers_(timers) {
        prctl(PR_SET_TIMERSLACK, 1);
    }
    ~by_epoll_wait() { prctl(PR_SET_TIMERSLACK, 0); }
    by_epoll_wait(const by_epoll_wait&) = delete;
    by_epoll_wait& operator=(const by_epoll_wait&) = delete;

    void sleep() { readable_ = tvec::epoll_wait(epoll_.get(), events_.data(), 4, timers_); }
    void handle_io() {
        handle([] {});
    }

private:
    Timers& timers_;
};

// What loops do that know epoll's milliseconds alone.
template <class Timers> class by_milliseconds : public reading_epoll {
public:
    by_milliseconds(Timers& timers, int fd) : reading_epoll(fd), timers_(timers) {}
    void sleep() { readable_ = ::epoll_wait(epoll_.get(), events_.data(), 4, timers_.wait_ms()); }
    void handle_io() {
        handle([] {});
    }

private:
    Timers& timers_;
};

template <class Timers> class by_timerfd : public reading_epoll {
public:
    by_timerfd(Timers& timers, int fd) : reading_epoll(fd), alarm_(timers) { watch(alarm_.fd()); }
    void sleep() {
        alarm_.rearm();
        readable_ = epoll_wait(epoll_.get(), events_.data(), 4, -1);
    }
    void handle_io() {
        handle([this] { alarm_.acknowledge(); });
    }

private:
    tvec::timerfd_alarm<Timers> alarm_;
};

// --- the load -----------------------------------------------------------------------------------

template <class Timers> class workload {
public:
    workload(Timers& timers, std::chrono::milliseconds length) : timers_(timers) {
        for (int i = 0; i < count; ++i) arm(notes_.emplace_back(*this).due);
        timers_.arm_after(end_, length);
    }

    bool over() const { return over_; }
    tvec::lateness_histogram& late() { return late_; }

private:
    static constexpr int count = 64;

    struct note {
        explicit note(workload& w) : home(&w) {}
        void on_due() { home->fired(due); }
        workload* home;
        tvec::timer due{tvec::call<&note::due, &note::on_due>};
    };

    void arm(tvec::timer& t) {
        timers_.wheel().arm_after(t, 1 + random_() % (2 * static_cast<unsigned>(count)));
    }
    void fired(tvec::timer& t) {
        late_.record(timers_.now() - timers_.deadline(t));
        arm(t);
    }
    void on_end() { over_ = true; }

    Timers& timers_;
    std::mt19937 random_{1};
    tvec::lateness_histogram late_;
    bool over_ = false;
    tvec::timer end_{tvec::call<&workload::end_, &workload::on_end>};
    std::deque<note> notes_;
};

// Another thread that writes to an eventfd at a steady rate, as long as this lives.
class pinger {
public:
    explicit pinger(bool wanted) {
        if (!wanted) return;
        fd_ = example::descriptor(eventfd(0, EFD_CLOEXEC));
        if (fd_.get() < 0) example::fail("cannot make an eventfd");
        thread_ = std::thread([this] { run(); });
    }
    ~pinger() {
        stop_ = true;
        if (thread_.joinable()) thread_.join();
    }
    pinger(const pinger&) = delete;
    pinger& operator=(const pinger&) = delete;

    static constexpr unsigned per_second = 5000;
    int fd() const { return fd_.get(); }  // -1: there is none

private:
    void run() {
        auto next = std::chrono::steady_clock::now();
        while (!stop_) {
            std::this_thread::sleep_until(next += microseconds(1'000'000 / per_second));
            eventfd_write(fd_.get(), 1);
        }
    }

    example::descriptor fd_;
    std::atomic<bool> stop_ = false;
    std::thread thread_;
};

// --- measuring ----------------------------------------------------------------------------------

struct row {
    std::string driver;
    int tick_us;
    bool io;
    double p50_us, p99_us, max_us;
    double fires, wakeups, cpu_ms;  // per second
    std::uint64_t early;
};

template <template <class> class Driver, int TickMicroseconds>
row measure(const char* name, bool io, std::chrono::milliseconds length) {
    using timers_type = wheel_of<TickMicroseconds>;
    const pinger pings(io);
    timers_type timers;
    Driver<timers_type> driver(timers, pings.fd());
    workload<timers_type> load(timers, length);
    const double cpu_before = example::cpu_seconds(RUSAGE_THREAD);
    double wakeups = 0;
    for (; !load.over(); ++wakeups) {
        driver.sleep();
        timers.run(256);
        driver.handle_io();
    }
    const double cpu = example::cpu_seconds(RUSAGE_THREAD) - cpu_before;
    const auto seconds = static_cast<double>(length.count()) * 1e-3;
    tvec::lateness_histogram& late = load.late();
    const auto us = example::microseconds_of;
    return {name,
            TickMicroseconds,
            io,
            us(late.quantile(0.5)),
            us(late.quantile(0.99)),
            us(late.max()),
            static_cast<double>(late.count()) / seconds,
            wakeups / seconds,
            cpu * 1e3 / seconds,
            late.early()};
}

template <int TickMicroseconds, class F>
void measure_tick(bool io, std::chrono::milliseconds length, F show) {
    show(measure<by_uring_wait, TickMicroseconds>("uring_wait", io, length));
    if (io) show(measure<by_gathering_wait, TickMicroseconds>("uring_wait, gathering", io, length));
    show(measure<by_uring_timeout, TickMicroseconds>("uring_timeout", io, length));
    show(measure<by_epoll_wait, TickMicroseconds>("epoll_wait", io, length));
    show(measure<by_timerfd, TickMicroseconds>("timerfd_alarm", io, length));
    show(measure<by_milliseconds, TickMicroseconds>("wait_ms", io, length));
}

template <class F> void measure_all(std::chrono::milliseconds length, F show) {
    for (const bool io : {false, true}) {
        measure_tick<100>(io, length, show);
        measure_tick<1000>(io, length, show);
        measure_tick<10'000>(io, length, show);
    }
}

// --- report -------------------------------------------------------------------------------------

using csv_file = std::optional<example::output_file>;

void print_heading(csv_file& csv) {
    fmt::print(
        "I/O: up to {} reads per second. Lateness in us from the start of the tick; the rest per "
        "second.\n\n",
        pinger::per_second);
    fmt::print("| tick | I/O | driver | p50 | p99 | max | fires | wake-ups | CPU, ms |\n"
               "|---|---|---|---|---|---|---|---|---|\n");
    example::flush_output();
    if (!csv) return;
    fmt::print(csv->get(),
               "tick_us,io,driver,p50_us,p99_us,max_us,fires_per_s,wakeups_per_s,cpu_ms_per_s\n");
    csv->flush();
}

void print_row(const row& r, csv_file& csv) {
    const std::string tick =
        r.tick_us < 1000 ? fmt::format("{} us", r.tick_us) : fmt::format("{} ms", r.tick_us / 1000);
    fmt::print("| {} | {} | {} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.1f} |\n", tick,
               r.io ? "yes" : "no", r.driver, r.p50_us, r.p99_us, r.max_us, r.fires, r.wakeups,
               r.cpu_ms);
    example::flush_output();
    if (!csv) return;
    fmt::print(csv->get(), "{},{:d},\"{}\",{:.1f},{:.1f},{:.1f},{:.0f},{:.0f},{:.2f}\n", r.tick_us,
               r.io, r.driver, r.p50_us, r.p99_us, r.max_us, r.fires, r.wakeups, r.cpu_ms);
}

struct options {
    double seconds = 5;
    std::string csv;
    bench::placement place;
};

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "How late each driver wakes its loop, and what that costs: for ticks of 100 us, 1 ms "
        "and 10 ms,\nwithout and with I/O. Prints a table; exits non-zero if a timer fired "
        "early.",
        "drivers"};
    line.add_number("--seconds", o.seconds, 0.1, 600, "how long to measure each of the 27 rows");
    line.add_text("--csv", o.csv, "write the table to this file, too");
    o.place.offer(line);
    line.parse_or_exit(argc, argv);
    return o;
}

int run(const options& o) {
    csv_file csv;
    if (!o.csv.empty()) csv.emplace(o.csv);
    o.place.take();
    std::uint64_t early = 0;
    print_heading(csv);
    measure_all(std::chrono::milliseconds(std::lround(o.seconds * 1e3)), [&](const row& r) {
        print_row(r, csv);
        early += r.early;
    });
    if (csv) csv->finish();
    if (early > 0) fmt::print("\n{} FIRED EARLY\n", early);
    return early == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("drivers", [&] { return run(parse(argc, argv)); });
}
