// Measures a timer of the kernel for each timer of the program: a timerfd each, an io_uring timeout
// each, and a timeout linked to each operation. They run in real time, so they are not among the
// structures of `operations`. In each turn of a loop 32 timers are armed, armed again or cancelled,
// and the loop makes the one system call that it makes anyway. Loops without timers are rows of
// their own.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "../../examples/support/command_line.hpp"
#include "../../examples/support/descriptors.hpp"
#include "../../examples/support/program.hpp"
#include "../../examples/support/ring.hpp"
#include "../report/report.hpp"
#include "../workloads/plan.hpp"
#include "tvec/drivers/uring_wait.hpp"
#include "tvec/tvec.hpp"

namespace {

using std::chrono::milliseconds;

constexpr std::size_t batch = 32;  // operations in a turn of the loop

// Each way has arm(i, delay) for a timer that is not pending, rearm(i, delay) and cancel(i) for one
// that is, turn(), and calls(), the number of system calls so far.

[[noreturn]] void fail_way(const char* what) { throw std::runtime_error(what); }

// --- on a ring ----------------------------------------------------------------------------------

// A turn submits what was queued, and a no-op that ends its wait.
class ring_loop {
public:
    void arm(std::size_t, milliseconds) {}
    void rearm(std::size_t, milliseconds) {}
    void cancel(std::size_t) {}
    void turn() {
        queue_nop();
        ring_.submit_and_wait();
        ++calls_;
        reap();
    }
    std::size_t calls() const { return calls_; }

protected:
    // The lowest bit of a tag: how the request has to end. None ends as a timeout.
    enum end : std::uint64_t { success, cancelled };

    void queue_nop() { ring_.queue(success, io_uring_prep_nop); }
    void reap() {
        while (ring_.reap([](std::uint64_t what, int result, bool) {
            if (result != (what % 2 == cancelled ? -ECANCELED : 0))
                fail_way("a timer has fired, or was not there to be armed or cancelled");
        }) > 0) {
        }
    }

    example::ring ring_{256};
    std::size_t calls_ = 0;
};

class no_timers_on_a_ring : public ring_loop {
public:
    explicit no_timers_on_a_ring(std::size_t) {}
};

class tvec_with_uring_wait : public ring_loop {
public:
    explicit tvec_with_uring_wait(std::size_t n) : alarms_(n) {}
    void arm(std::size_t i, milliseconds delay) { timers_.arm_after(alarms_[i].due, delay); }
    void rearm(std::size_t i, milliseconds delay) {
        if (!timers_.arm_after(alarms_[i].due, delay)) fail_way("a timer was not pending");
    }
    void cancel(std::size_t i) {
        if (!alarms_[i].due.cancel()) fail_way("a timer was not pending");
    }
    void turn() {
        queue_nop();
        wait_();
        ++calls_;
        reap();
        timers_.run(256);
    }

private:
    struct alarm {
        tvec::timer due{
            [](tvec::timer_wheel&, tvec::timer&) { fail_way("a timer has fired early"); }};
    };

    tvec::clocked_wheel<> timers_;
    std::vector<alarm> alarms_;
    tvec::uring_wait<tvec::clocked_wheel<>> wait_{ring_.get(), timers_};
};

// Requests that wait until they are cancelled. The upper bits of a tag are the request's number.
class requests_on_a_ring : public ring_loop {
protected:
    explicit requests_on_a_ring(std::size_t n) : limits_(n) {}

    static std::uint64_t name_of(std::size_t number) { return number * 2 + cancelled; }

    // Lives until it is submitted.
    __kernel_timespec* limit(std::size_t i, milliseconds delay) {
        limits_[i] = {delay.count() / 1'000, delay.count() % 1'000 * 1'000'000};
        return &limits_[i];
    }

private:
    std::vector<__kernel_timespec> limits_;
};

class uring_each : public requests_on_a_ring {
public:
    explicit uring_each(std::size_t n) : requests_on_a_ring(n) {}
    void arm(std::size_t i, milliseconds delay) {
        ring_.queue(name_of(i), io_uring_prep_timeout, limit(i, delay), 0u, 0u);
    }
    void rearm(std::size_t i, milliseconds delay) {
        ring_.queue(success, io_uring_prep_timeout_update, limit(i, delay), name_of(i), 0u);
    }
    void cancel(std::size_t i) {
        ring_.queue(success, io_uring_prep_timeout_remove, name_of(i), 0u);
    }
};

// An operation that ends when it is cancelled: a poll of a descriptor on which nothing happens.
class operations_alone : public requests_on_a_ring {
public:
    explicit operations_alone(std::size_t n)
        : requests_on_a_ring(n), silent_(eventfd(0, EFD_CLOEXEC)) {
        if (silent_.get() < 0) example::fail("cannot make an eventfd");
    }
    void arm(std::size_t i, milliseconds) { begin(i, 0); }
    void cancel(std::size_t i) { ring_.queue(success, io_uring_prep_poll_remove, operation(i)); }

protected:
    static std::uint64_t operation(std::size_t i) { return name_of(2 * i); }
    void begin(std::size_t i, std::uint8_t flags) {
        ring_.queue(operation(i), [&](io_uring_sqe* sqe) {
            io_uring_prep_poll_add(sqe, silent_.get(), POLLIN);
            sqe->flags |= flags;
        });
    }

private:
    example::descriptor silent_;
};

class uring_linked : public operations_alone {
public:
    explicit uring_linked(std::size_t n) : operations_alone(n) {}
    void arm(std::size_t i, milliseconds delay) {
        begin(i, IOSQE_IO_LINK);
        ring_.queue(timeout(i), io_uring_prep_link_timeout, limit(i, delay), 0u);
    }
    void rearm(std::size_t i, milliseconds delay) {
        ring_.queue(success, io_uring_prep_timeout_update, limit(i, delay), timeout(i),
                    unsigned{IORING_LINK_TIMEOUT_UPDATE});
    }

private:
    static std::uint64_t timeout(std::size_t i) { return name_of(2 * i + 1); }
};

// --- with epoll ---------------------------------------------------------------------------------

// A turn is a wait that ends at once, because a descriptor is readable.
class no_timers_with_epoll {
public:
    explicit no_timers_with_epoll(std::size_t)
        : epoll_(epoll_create1(EPOLL_CLOEXEC)), readable_(eventfd(1, EFD_CLOEXEC)) {
        if (epoll_.get() < 0 || readable_.get() < 0) example::fail("cannot make an eventfd");
        watch(readable_.get());
    }
    void arm(std::size_t, milliseconds) {}
    void rearm(std::size_t, milliseconds) {}
    void cancel(std::size_t) {}
    void turn() {
        ++calls_;
        std::array<epoll_event, 2> events{};
        if (epoll_wait(epoll_.get(), events.data(), 2, -1) != 1)
            fail_way("a timer has fired early");
    }
    std::size_t calls() const { return calls_; }

protected:
    void watch(int fd) {
        epoll_event wanted{};
        wanted.events = EPOLLIN;
        if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wanted) != 0) example::fail("epoll_ctl");
    }
    std::size_t calls_ = 0;

private:
    example::descriptor epoll_;
    example::descriptor readable_;
};

// The descriptors are made beforehand: a program that makes one with each timer makes three system
// calls more.
class timerfd_each : public no_timers_with_epoll {
public:
    explicit timerfd_each(std::size_t n) : no_timers_with_epoll(n) {
        example::require_descriptors(n + 64);
        for (std::size_t i = 0; i < n; ++i) {
            const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
            if (fd < 0) example::fail("cannot make a timerfd");
            timers_.emplace_back(fd);
            watch(fd);
        }
    }
    void arm(std::size_t i, milliseconds delay) { set(i, delay, false); }
    void rearm(std::size_t i, milliseconds delay) { set(i, delay, true); }
    void cancel(std::size_t i) { set(i, milliseconds(0), true); }

private:
    void set(std::size_t i, milliseconds delay, bool is_pending) {
        ++calls_;
        itimerspec next{}, before{};
        next.it_value = {delay.count() / 1'000, delay.count() % 1'000 * 1'000'000};
        if (timerfd_settime(timers_[i].get(), 0, &next, &before) != 0)
            example::fail("timerfd_settime");
        if ((before.it_value.tv_sec > 0) != is_pending) fail_way("a timer was not as it should be");
    }

    std::vector<example::descriptor> timers_;
};

// --- measuring ----------------------------------------------------------------------------------

enum operation { arming, rearming, cancelling, all_operations };

struct cost {
    bench::samples ns;
    double calls;  // system calls per operation
};
using costs = std::array<cost, all_operations>;

// CPU time of this thread.
double nanoseconds() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

// With the turns of the loop.
template <class Way, class F> void measure(Way& way, const bench::plan& p, cost& into, F act) {
    const std::size_t calls = way.calls();
    const double begin = nanoseconds();
    for (std::size_t k = 0; k < p.size();) {
        for (const std::size_t end = std::min(k + batch, p.size()); k < end; ++k) act(k);
        way.turn();
    }
    const double n = static_cast<double>(p.size());
    into.ns.add((nanoseconds() - begin) / n);
    into.calls = static_cast<double>(way.calls() - calls) / n;
}

// Delays are 30 to 60 seconds, so that nothing fires.
template <class Way> void repeat(costs& all, const bench::plan& p) {
    const auto delay = [&](std::size_t k) { return milliseconds(30'000 + p.delays[k] / 2); };
    const auto &order = p.order, &other_order = p.other_order;
    Way way(p.size());
    measure(way, p, all[arming], [&](std::size_t k) { way.arm(order[k], delay(k)); });
    measure(way, p, all[rearming], [&](std::size_t k) { way.rearm(other_order[k], delay(k)); });
    measure(way, p, all[cancelling], [&](std::size_t k) { way.cancel(order[k]); });
    way.turn();  // for what ends late
}

struct named_way {
    const char* name;
    void (*repeat)(costs&, const bench::plan&);
};
constexpr std::array<named_way, 7> ways{{
    {"io_uring, no timers", repeat<no_timers_on_a_ring>},
    {"tvec, uring_wait", repeat<tvec_with_uring_wait>},
    {"uring_each", repeat<uring_each>},
    {"io_uring, operations alone", repeat<operations_alone>},
    {"uring_linked, with its operations", repeat<uring_linked>},
    {"epoll, no timers", repeat<no_timers_with_epoll>},
    {"timerfd_each", repeat<timerfd_each>},
}};

// --- the table ----------------------------------------------------------------------------------

struct options {
    std::vector<std::size_t> timers{1'000, 10'000};
    unsigned repetitions = 11;
    std::string csv;
};

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "What a timer of the kernel for each timer of the program costs, beside tvec: ns and "
        "system calls\nper operation, with the turns of the loop, of 32 operations each.",
        "kernel_timers"};
    line.add_numbers("--timers", o.timers, std::size_t{1}, std::size_t{1'000'000},
                     "numbers of timers");
    line.add_number("--repetitions", o.repetitions, 1, 1'000, "interleaved repetitions");
    line.add_text("--csv", o.csv, "write this CSV to this file, too");
    line.parse_or_exit(argc, argv);
    return o;
}

std::string row_of(const char* name, std::size_t timers, const costs& all) {
    const auto& [arm, rearm, cancel] = all;
    return fmt::format("{},\"{}\",{:.1f},{:.1f},{:.1f},{:.4f},{:.4f},{:.4f}", timers, name,
                       arm.ns.median(), rearm.ns.median(), cancel.ns.median(), arm.calls,
                       rearm.calls, cancel.calls);
}

int run(const options& o) {
    std::optional<example::output_file> csv;
    if (!o.csv.empty()) csv.emplace(o.csv);
    const auto say = [&](const std::string& line) {
        fmt::print("{}\n", line);
        example::flush_output();
        if (csv) fmt::print(csv->get(), "{}\n", line);
    };
    say("timers,way,arm_ns,rearm_ns,cancel_ns,arm_calls,rearm_calls,cancel_calls");
    for (const std::size_t n : o.timers) {
        const bench::plan p(n);
        std::array<costs, ways.size()> all;
        for (unsigned k = 0; k < o.repetitions; ++k)
            for (std::size_t w = 0; w < ways.size(); ++w) ways[w].repeat(all[w], p);
        for (std::size_t w = 0; w < ways.size(); ++w) say(row_of(ways[w].name, n, all[w]));
    }
    if (csv) csv->finish();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("kernel_timers", [&] { return run(parse(argc, argv)); });
}
