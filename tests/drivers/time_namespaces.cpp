// Processes whose clocks are shifted, as containers restored from a checkpoint have it. Up
// to Linux 7.0, absolute timeouts of io_uring ignore the shift.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <fstream>
#include <optional>
#include <string>

#include "support/appointment.hpp"
#include "support/check.hpp"
#include "support/child.hpp"
#include "support/loops.hpp"

using namespace std::chrono_literals;
using wheel = tvec::clocked_wheel<>;
using std::chrono::nanoseconds, std::chrono::steady_clock;

TestSuite(time_namespaces, .timeout = 60);

namespace {

// In a shifted namespace: on time, and without spinning until then.
template <template <class> class Loop, class Wheel = wheel> const char* keep_appointments() {
    alarm(15);  // ends a sleep that is too long
    Wheel timers;
    Loop<Wheel> loop{timers};
    int turns = 0;
    for (int i = 0; i < 5; ++i) {
        support::appointment a;
        a.deadline = steady_clock::now() + 20ms;
        timers.arm_after(a.t, 20ms);
        for (; !a.fired; ++turns) {
            loop.sleep();
            timers.run();
        }
        if (a.early) return "early";
    }
    return turns <= 20 ? nullptr : "spins";
}

// Moves the children to come into a namespace whose clocks are `offset` ahead.
const char* shift(std::chrono::nanoseconds offset) {
    if (unshare(CLONE_NEWTIME) != 0) return "no time namespaces";
    std::ofstream file("/proc/self/timens_offsets");
    const auto seconds = std::chrono::floor<std::chrono::seconds>(offset);
    for (const char* const clock : {"monotonic", "boottime"})
        file << clock << ' ' << seconds.count() << ' ' << (offset - seconds).count() << '\n';
    file << std::flush;
    return file ? nullptr : "cannot set the offset";
}

// Runs `body` in a process whose clock is `offset` ahead.
template <class F> const char* shifted_by(std::chrono::nanoseconds offset, F body) {
    const auto before = steady_clock::now();
    if (const char* const wrong = shift(offset)) return wrong;
    const pid_t child = support::start_child([&]() -> const char* {
        const auto shifted = steady_clock::now() - before - offset;
        if (shifted < 0s || shifted > 5s) return "is not shifted";
        return body();
    });
    return support::ended_well(child) ? nullptr : "wrong in a shifted namespace";
}

bool may_shift() {
    return support::ended_well(support::start_child([] { return shift(1000s); }));
}

// Puts another /proc in place of the kernel's, for this process: with nothing in it but `offsets`.
const char* replace_proc(const std::optional<std::string>& offsets) {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/proc", nullptr, MS_PRIVATE, nullptr) != 0)
        return "no mount namespaces";
    if (mount("none", "/proc", "tmpfs", 0, nullptr) != 0) return "cannot replace /proc";
    if (!offsets) return nullptr;
    mkdir("/proc/self", 0700);
    std::ofstream file("/proc/self/timens_offsets");
    file << *offsets << std::flush;
    return file ? nullptr : "cannot write there";
}

}  // namespace

EACH_DRIVER(time_namespaces, timers_are_punctual_in_shifted_time_namespaces) {
    if (!may_shift()) cr_skip("may not make a time namespace here");
    for (const auto offset : {nanoseconds(1000s), nanoseconds(-5s), nanoseconds(500ms)})
        CHECK(support::ended_well(
            support::start_child([&] { return shifted_by(offset, keep_appointments<Loop>); })));
}

EACH_DRIVER(time_namespaces, boot_time_timers_are_punctual_in_shifted_namespaces) {
    using since_boot =
        tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::boottime_clock>>;
    if (!may_shift()) cr_skip("may not make a time namespace here");
    for (const auto offset : {nanoseconds(1000s), nanoseconds(-5s), nanoseconds(500ms)})
        CHECK(support::ended_well(support::start_child(
            [&] { return shifted_by(offset, keep_appointments<Loop, since_boot>); })));
}

// A file that cannot be read must not be taken for "no offset".
EACH_DRIVER(time_namespaces, timers_are_punctual_without_readable_proc_offsets) {
    if (!may_shift()) cr_skip("may not make a time namespace here");
    const std::optional<std::string> texts[] = {std::nullopt, "", "monotonic 0 0\n", "nothing"};
    for (const auto& offsets : texts)
        CHECK(support::ended_well(support::start_child([&] {
            return shifted_by(1000s, [&]() -> const char* {
                if (const char* const wrong = replace_proc(offsets)) return wrong;
                return keep_appointments<Loop>();
            });
        })));
}

// The kernel's answer is about children to come.
EACH_DRIVER(time_namespaces, a_later_namespace_for_children_changes_nothing) {
    if (!may_shift()) cr_skip("may not make a time namespace here");
    CHECK(support::ended_well(support::start_child([&] {
        return shifted_by(1000s, []() -> const char* {
            if (const char* const wrong = shift(0s)) return wrong;
            return keep_appointments<Loop>();
        });
    })));
}
