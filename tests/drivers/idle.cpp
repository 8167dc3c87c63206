// The cost of idleness: the system calls of a loop that has nothing to do, counted by tracing it.
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <csignal>
#include <map>
#include <optional>

#include "support/appointment.hpp"
#include "support/check.hpp"
#include "support/child.hpp"
#include "support/loops.hpp"

using namespace std::chrono_literals;
using wheel = tvec::clocked_wheel<>;

TestSuite(idle, .timeout = 60);

namespace {

volatile std::sig_atomic_t rung = 0;

void mark() { syscall(SYS_getppid); }

// Sleeps until a signal comes after half a second, between two marks in its system calls.
template <template <class> class Loop> const char* do_nothing(bool with_cancelled_timers) {
    wheel timers;
    Loop<wheel> loop{timers};
    const auto all = support::appointments(100);
    if (with_cancelled_timers)
        for (const auto& a : all) {
            a->arm(timers, 10min);
            a->t.cancel();
        }
    struct sigaction ring {};
    ring.sa_handler = [](int) { rung = 1; };
    sigaction(SIGALRM, &ring, nullptr);
    const itimerval once{{0, 0}, {0, 500'000}};
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return "cannot be traced";
    raise(SIGSTOP);
    setitimer(ITIMER_REAL, &once, nullptr);
    mark();
    int turns = 0;
    for (; rung == 0; ++turns) {
        loop.sleep();
        timers.run();
    }
    mark();
    return turns == 1 ? nullptr : "woke without a reason";
}

using calls = std::map<std::uint64_t, int>;

// The number of the call that a stopped child enters; none if it leaves one.
std::optional<std::uint64_t> entered(pid_t child) {
    __ptrace_syscall_info info{};
    ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) return std::nullopt;
    return info.entry.nr;
}

// Counts the child's system calls between its two marks, by their numbers.
calls count_calls(pid_t child) {
    calls counted;
    int marks = 0;
    for (int status = 0, signal = 0; waitpid(child, &status, 0) == child && WIFSTOPPED(status);) {
        const bool at_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
        const auto number = at_call ? entered(child) : std::nullopt;
        if (number == SYS_getppid)
            ++marks;
        else if (number && marks == 1)
            ++counted[*number];
        signal = at_call || WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status);
        ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD);
        ptrace(PTRACE_SYSCALL, child, nullptr, signal);
    }
    CHECK_EQ(marks, 2);
    counted.erase(SYS_rt_sigreturn);
    return counted;
}

bool tracing_works() {
    const pid_t child = support::start_child([] {
        return ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? nullptr : "cannot be traced";
    });
    return support::ended_well(child);
}

int sum(const calls& counted) {
    int all = 0;
    for (const auto& [number, count] : counted) all += count;
    return all;
}

}  // namespace

EACH_DRIVER(idle, a_sleep_without_timers_costs_one_system_call) {
    if (!tracing_works()) cr_skip("no ptrace here");
    const pid_t child = support::start_child([] { return do_nothing<Loop>(false); });
    CHECK_EQ(sum(count_calls(child)), 1);
}

EACH_DRIVER(idle, cancelled_timers_cost_one_alarm_at_most) {
    if (!tracing_works()) cr_skip("no ptrace here");
    const pid_t child = support::start_child([] { return do_nothing<Loop>(true); });
    CHECK_LE(sum(count_calls(child)), 2);
}
