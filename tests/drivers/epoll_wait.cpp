// The wait of epoll that ends when a timer is due: what it asks the kernel for, and what it does on
// kernels that lack that. Tests of all drivers are in every_driver.cpp.
#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <optional>

#include "support/appointment.hpp"
#include "support/check.hpp"
#include "support/forbid.hpp"
#include "support/probe.hpp"
#include "support/readable.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/extra/turn_clock.hpp"

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using tvec::manual_clock;
using manual_wheel = tvec::clocked_wheel<tvec::tick_clock<std::chrono::microseconds, manual_clock>>;

TestSuite(epoll_wait, .timeout = 60);

namespace {

// What the last wait on `asking` asked the kernel for. Criterion has a thread that waits, too.
int asking = -1;
std::optional<nanoseconds> asked_exactly;
std::optional<int> asked_ms;

template <class F> F real(const char* name) { return reinterpret_cast<F>(dlsym(RTLD_NEXT, name)); }

}  // namespace

// These two stand before the functions of the C library.
extern "C" long syscall(long number, ...) noexcept {
    static const auto next = real<long (*)(long, ...)>("syscall");
    long a[6];
    va_list given;
    va_start(given, number);
    for (long& each : a) each = va_arg(given, long);
    va_end(given);
    if (number == SYS_epoll_pwait2 && a[0] == asking) {
        const auto* const time = reinterpret_cast<const timespec*>(a[3]);
        asked_exactly = std::chrono::seconds(time->tv_sec) + nanoseconds(time->tv_nsec);
    }
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

extern "C" int epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
    static const auto next = real<decltype(&::epoll_wait)>("epoll_wait");
    if (epoll == asking) asked_ms = timeout;
    return next(epoll, events, most, timeout);
}

namespace {

// An epoll instance with descriptors that are readable, or not.
class watched {
public:
    explicit watched(int readable) : fd_(epoll_create1(EPOLL_CLOEXEC)) {
        for (int& each : event_) {
            each = eventfd(readable-- > 0, EFD_CLOEXEC);
            epoll_event wanted{};
            wanted.events = EPOLLIN;
            epoll_ctl(fd_, EPOLL_CTL_ADD, each, &wanted);
        }
    }
    ~watched() {
        for (const int each : event_) close(each);
        close(fd_);
    }
    watched(const watched&) = delete;
    watched& operator=(const watched&) = delete;

    template <class Wheel> int wait(Wheel& timers, int most = 4) const {
        asking = fd_;
        asked_exactly.reset();
        asked_ms.reset();
        epoll_event events[4];
        return tvec::epoll_wait(fd_, events, most, timers);
    }

private:
    int fd_;
    int event_[3];
};

// Runs timers with waits of real time, none of which may end the program or be early.
void timers_fire() {
    tvec::clocked_wheel<> timers;
    const watched nothing(0);
    for (const auto delay : {1ms, 7ms, 20ms}) {
        support::appointment a;
        a.arm(timers, delay);
        for (; !a.fired; timers.run()) nothing.wait(timers);
        CHECK(a.kept());
    }
}

}  // namespace

Test(epoll_wait, a_wait_returns_as_many_events_as_fit) {
    manual_wheel timers;
    CHECK_EQ(watched(1).wait(timers), 1);  // an empty wheel: no limit
    CHECK_EQ(watched(3).wait(timers), 3);
    CHECK_EQ(watched(3).wait(timers, 2), 2);
    CHECK_EQ(asked_ms.value_or(0), -1);
}

Test(epoll_wait, a_deadline_is_asked_for_in_nanoseconds) {
    manual_wheel timers;
    support::probe p;
    timers.arm_after(p.t, 200us);
    CHECK_EQ(watched(0).wait(timers), 0);
    CHECK(asked_exactly == 200us);
    CHECK(!asked_ms);  // one system call
}

Test(epoll_wait, a_wait_with_due_timers_only_polls) {
    manual_wheel timers;
    support::probe p;
    timers.arm_after(p.t, 200us);
    manual_clock::advance(1h);
    CHECK_EQ(watched(0).wait(timers), 0);
    CHECK_EQ(watched(2).wait(timers), 2);
    CHECK_EQ(asked_ms.value_or(-1), 0);
}

// The kernel delays waits by a thousandth, or a two hundredth, and a tenth of a second at most.
Test(epoll_wait, a_long_wait_ends_before_the_kernels_delay) {
    using tvec::detail::before_the_delay;
    for (nanoseconds left = 1us; left < 10h; left += left / 7 + 1ns) {
        const nanoseconds cut = before_the_delay(left);
        const auto late = std::min<nanoseconds>(cut / 200, 100ms);
        if (left > 256ms)
            CHECK(cut + late < left);
        else
            CHECK(cut == left);
        CHECK(left - cut <= 256ms);  // the next wait is exact
    }
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::seconds, manual_clock>> timers;
    support::probe p;
    timers.arm_after(p.t, 100s);
    CHECK_EQ(watched(1).wait(timers), 1);
    CHECK(asked_exactly == before_the_delay(100s));
}

Test(epoll_wait, no_wait_lasts_more_than_an_hour) {
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::hours, manual_clock>> timers;
    support::probe p;
    timers.arm_after(p.t, 24h);
    CHECK_EQ(watched(1).wait(timers), 1);
    CHECK(asked_exactly && *asked_exactly > 59min && *asked_exactly <= 1h);
}

Test(epoll_wait, a_wait_begins_a_turn) {
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::turn_clock<manual_clock>>>
        timers;
    timers.begin_turn();
    manual_clock::advance(30ms);
    CHECK_EQ(watched(1).wait(timers), 1);
    const auto turn = timers.now();
    CHECK(turn.time_since_epoch() == manual_clock::now().time_since_epoch());
    manual_clock::advance(30ms);
    CHECK(timers.now() == turn);
}

Test(epoll_wait, an_error_names_the_call) {
    manual_wheel timers;
    epoll_event event;
    const auto wait = [&] { tvec::epoll_wait(-1, &event, 1, timers); };
    CHECK(support::says(support::refusal(wait), "epoll_wait: Bad file descriptor"));
    support::probe p;
    timers.arm_after(p.t, 200us);
    CHECK(support::says(support::refusal(wait), "epoll_wait: Bad file descriptor"));
}

namespace {

// As on an old kernel, or under a filter that does not know the call.
void goes_on_in_milliseconds(int error) {
    support::forbid(SYS_epoll_pwait2, error);
    timers_fire();
    support::forbid(SYS_epoll_pwait2, EINVAL);  // which would be told
    timers_fire();
    manual_wheel timers;
    support::probe p;
    for (const auto delay : {1us, 100us, 200us}) {  // rounded up
        timers.arm_after(p.t, delay);
        CHECK_EQ(watched(1).wait(timers), 1);
        CHECK_EQ(asked_ms.value_or(0), 1);
        CHECK(!asked_exactly);
    }
}

}  // namespace

Test(epoll_wait, milliseconds_are_used_without_the_exact_call) { goes_on_in_milliseconds(ENOSYS); }

Test(epoll_wait, timers_go_on_in_milliseconds_under_a_filter) { goes_on_in_milliseconds(EPERM); }
