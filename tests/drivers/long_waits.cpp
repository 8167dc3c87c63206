// Seconds of real time: no drift, and a process that is stopped.
#include <algorithm>
#include <csignal>
#include <thread>

#include "support/appointment.hpp"
#include "support/check.hpp"
#include "support/child.hpp"
#include "support/loops.hpp"

using namespace std::chrono_literals;
using wheel = tvec::clocked_wheel<>;
using std::chrono::steady_clock;
using support::appointment;

TestSuite(long_waits, .timeout = 100);

// --- drift --------------------------------------------------------------------------------------

namespace {

// A period of 10 ms, by the wheel's count and by the clock.
class metronome {
public:
    explicit metronome(wheel& timers) : timers_(timers), origin_(timers.wheel().now() + 10) {
        timers_.wheel().arm_at(t_, origin_);
    }

    tvec::jiffies periods() const { return fired + missed; }
    steady_clock::time_point next() const { return timers_.deadline(t_); }
    bool on_phase() const { return t_.expires() == origin_ + 10 * periods(); }

    tvec::jiffies fired = 0;
    tvec::jiffies missed = 0;
    unsigned early = 0;

private:
    void on_fire() {
        early += steady_clock::now() < next();
        ++fired;
        missed += timers_.arm_next(t_, 10ms);
    }

    wheel& timers_;
    tvec::jiffies origin_;
    tvec::timer t_{tvec::call<&metronome::t_, &metronome::on_fire>};
};

struct drift {
    tvec::jiffies fired, periods;
    unsigned early;
    bool on_phase;
    std::chrono::nanoseconds ahead;  // the next beat, as seen from the end of the run
};

template <template <class> class Loop> drift run_for(std::chrono::seconds duration) {
    wheel timers;
    Loop<wheel> loop{timers};
    metronome m(timers);
    const auto end = steady_clock::now() + duration;
    while (steady_clock::now() < end) {
        loop.sleep();
        timers.run();
    }
    timers.run();  // up to the end, even if this thread was not scheduled for a while
    return {m.fired, m.periods(), m.early, m.on_phase(), m.next() - steady_clock::now()};
}

void check_drift(const drift& d) {
    CHECK_EQ(d.early, 0);
    CHECK(d.on_phase);
    CHECK_GE(d.periods, 999);
    CHECK_GE(d.fired, 100);
    CHECK(d.ahead <= 10ms);
}

}  // namespace

// In one test: they share the ten seconds.
Test(long_waits, a_period_does_not_drift_in_ten_seconds) {
    if (!support::ring_exists(0)) cr_skip("no io_uring here");
    drift by_wait{}, by_timeout{};
    std::thread one([&] { by_wait = run_for<support::wait_loop>(10s); });
    std::thread two([&] { by_timeout = run_for<support::timeout_loop>(10s); });
    check_drift(run_for<support::timerfd_loop>(10s));
    one.join();
    two.join();
    check_drift(by_wait);
    check_drift(by_timeout);
}

// --- stopped ------------------------------------------------------------------------------------

namespace {

// Five hundred timers within two seconds. Most are due while the process is stopped.
template <template <class> class Loop> const char* live_through_a_stop(int ready) {
    wheel timers;
    Loop<wheel> loop{timers};
    metronome m(timers);
    const auto all = support::appointments(500);
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i]->arm(timers, std::chrono::milliseconds(1 + 4 * i));
    auto last = steady_clock::now();  // before the stop, which may follow at once
    eventfd_write(ready, 1);
    std::chrono::nanoseconds longest_gap{};
    std::size_t longest_burst = 0;
    const auto waits = [](const auto& a) { return !a->fired; };
    while (std::any_of(all.begin(), all.end(), waits)) {
        loop.sleep();
        const auto now = steady_clock::now();
        longest_gap = std::max<std::chrono::nanoseconds>(longest_gap, now - last);
        last = now;
        longest_burst = std::max(longest_burst, timers.run(64).fired);
    }
    if (longest_gap < 1s) return "was not stopped";
    if (longest_burst > 64) return "a burst of more than 64";
    for (const auto& a : all)
        if (a->early) return "a timer was early";
    if (m.early != 0 || !m.on_phase() || m.missed < 50) return "the period is out of phase";
    return nullptr;
}

}  // namespace

Test(long_waits, a_stopped_process_catches_up_in_bounded_bursts) {
    if (!support::ring_exists(0)) cr_skip("no io_uring here");
    const int ready = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    const pid_t children[] = {
        support::start_child([&] { return live_through_a_stop<support::wait_loop>(ready); }),
        support::start_child([&] { return live_through_a_stop<support::timeout_loop>(ready); }),
        support::start_child([&] { return live_through_a_stop<support::timerfd_loop>(ready); })};
    eventfd_t one = 0;
    for (std::size_t i = 0; i < std::size(children); ++i) eventfd_read(ready, &one);
    for (const pid_t child : children) kill(child, SIGSTOP);
    usleep(3'000'000);
    for (const pid_t child : children) kill(child, SIGCONT);
    for (const pid_t child : children) CHECK(support::ended_well(child));
    close(ready);
}
