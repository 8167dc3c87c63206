// The way of waking that is chosen where the kernel refuses something, and the reason that is
// given.
#include <dlfcn.h>
#include <sys/syscall.h>

#include <fstream>

#include "support/appointment.hpp"
#include "support/check.hpp"
#include "support/forbid.hpp"
#include "support/readable.hpp"
#include "support/ring.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/drivers/uring_doorbell.hpp"
#include "tvec/drivers/uring_timeout.hpp"
#include "tvec/drivers/uring_wait.hpp"
#include "tvec/extra/choose_waking.hpp"

using namespace std::chrono_literals;
using support::ring;
using tvec::choose_waking;
using way = tvec::waking::way;

TestSuite(choosing, .timeout = 60);

namespace {

int timeouts_end_with = 0;  // instead of ETIME, if it is not 0

}  // namespace

// Stands before liburing's function of this name.
extern "C" int io_uring_submit_and_wait(io_uring* r, unsigned wanted) {
    static const auto real = reinterpret_cast<decltype(&io_uring_submit_and_wait)>(
        dlsym(RTLD_NEXT, "io_uring_submit_and_wait"));
    const int result = real(r, wanted);
    unsigned head = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(r, head, cqe) {
        if (timeouts_end_with != 0 && cqe->res == -ETIME) cqe->res = -timeouts_end_with;
    }
    return result;
}

namespace {

void chooses(const tvec::waking& w, way expected, const char* because) {
    cr_expect(w.chosen == expected, "chose %s: %s", name_of(w.chosen), w.reason.c_str());
    cr_expect(support::says(w.reason, because), "%s does not say %s", w.reason.c_str(), because);
}

tvec::waking choose_after_set_up(unsigned entries, unsigned flags) {
    io_uring r{};
    const int set_up = io_uring_queue_init(entries, &r, flags);
    tvec::waking w = choose_waking(set_up, r);
    if (set_up >= 0) io_uring_queue_exit(&r);
    return w;
}

}  // namespace

Test(choosing, the_rings_own_wait_is_chosen_where_possible) {
    for (const unsigned flags : {0u, support::deferred, unsigned{IORING_SETUP_SQPOLL}}) {
        if (!support::ring_exists(flags)) continue;
        ring r(8, flags);
        if (!(r.get().features & IORING_FEAT_EXT_ARG)) cr_skip("no IORING_FEAT_EXT_ARG here");
        const tvec::waking w = choose_waking(0, r.get());
        chooses(w, way::uring_wait, "IORING_FEAT_EXT_ARG");
        CHECK_EQ(w.timeouts, (flags & IORING_SETUP_SQPOLL) == 0);
    }
}

Test(choosing, a_filter_against_timeout_requests_is_reported) {  // Linux 7.0
    for (const int error : {EACCES, EPERM}) {
        ring r;
        if (!(r.get().features & IORING_FEAT_EXT_ARG)) cr_skip("no IORING_FEAT_EXT_ARG here");
        timeouts_end_with = error;
        const tvec::waking w = choose_waking(0, r.get());
        timeouts_end_with = 0;
        chooses(w, way::uring_wait, "refuses timeout requests");
        CHECK(!w.timeouts);
    }
}

Test(choosing, timerfd_is_chosen_without_timed_waits) {
    ring r;
    r.get().features &= ~unsigned{IORING_FEAT_EXT_ARG};
    chooses(choose_waking(0, r.get()), way::timerfd_alarm, "IORING_FEAT_EXT_ARG");
}

Test(choosing, the_descriptor_is_chosen_beside_polled_devices) {
    ring r(8, IORING_SETUP_IOPOLL);
    chooses(choose_waking(0, r.get()), way::timerfd_alarm, "IORING_SETUP_IOPOLL");
}

Test(choosing, the_descriptor_is_chosen_where_rings_are_forbidden) {  // as containers do
    support::forbid(SYS_io_uring_setup, EPERM);
    chooses(choose_after_set_up(8, 0), way::timerfd_alarm, "io_uring_queue_init: Operation not");
}

Test(choosing, the_descriptor_is_chosen_without_rings) {
    support::forbid(SYS_io_uring_setup, ENOSYS);
    chooses(choose_after_set_up(8, 0), way::timerfd_alarm, "Function not implemented");
}

Test(choosing, the_descriptor_is_chosen_where_entering_is_forbidden) {
    for (const int error : {EPERM, ENOSYS}) {
        ring r;
        support::forbid(SYS_io_uring_enter, error);
        chooses(choose_waking(0, r.get()), way::timerfd_alarm, "io_uring_enter");
    }
}

Test(choosing, other_errors_of_set_up_are_reported) {
    io_uring none{};
    chooses(choose_waking(-EMFILE, none), way::timerfd_alarm, "RLIMIT_NOFILE");
    chooses(choose_waking(-ENOMEM, none), way::timerfd_alarm, "RLIMIT_MEMLOCK");
    chooses(choose_waking(-ENXIO, none), way::timerfd_alarm, "No such device");
    chooses(choose_after_set_up(8, 1u << 31), way::timerfd_alarm, "does not know");
}

Test(choosing, the_administrators_switch_is_named) {
    const char* const path = "/proc/sys/kernel/io_uring_disabled";
    std::string was;
    std::ifstream(path) >> was;
    if (was.empty() || was == "0") cr_skip("io_uring is not disabled here");
    chooses(choose_after_set_up(8, 0), way::timerfd_alarm, "kernel.io_uring_disabled");
}

Test(choosing, the_descriptor_works_where_rings_are_forbidden) {
    support::forbid(SYS_io_uring_setup, EPERM);
    REQUIRE(choose_after_set_up(8, 0).chosen == way::timerfd_alarm);
    tvec::clocked_wheel<> timers;
    tvec::timerfd_alarm alarm{timers};
    support::appointment a;
    a.arm(timers, 10ms);
    while (!a.fired) {
        alarm.rearm();
        support::wait_readable(alarm.fd(), 30s);
        alarm.acknowledge();
        timers.run();
    }
    CHECK(a.kept());
}

Test(choosing, a_ring_forbidden_after_setup_throws) {
    ring r;
    tvec::clocked_wheel<> timers;
    tvec::uring_wait wait{r.get(), timers};
    tvec::uring_timeout alarm{r.get(), timers};
    support::appointment a;
    a.arm(timers, 10ms);
    support::forbid(SYS_io_uring_enter, EPERM);
    CHECK(support::says(support::refusal([&] { wait(); }), "Operation not permitted"));
    REQUIRE(alarm.prepare());
    const std::string why = support::refusal([&] { alarm.detach([](const io_uring_cqe&) {}); });
    CHECK(support::says(why, "Operation not permitted"));
}

Test(choosing, uring_doorbell_is_refused_where_rings_are_forbidden) {
    ring r;
    support::forbid(SYS_io_uring_setup, EPERM);
    const std::string why = support::refusal([&] { tvec::uring_doorbell(r.get(), 0); });
    CHECK(support::says(why, "no messages between rings"));
}

// It lists what the kernel knows. This one lists nothing.
Test(choosing, a_doorbell_is_refused_before_messages) {
    ring r;
    support::forbid(SYS_io_uring_register, 0);
    const std::string why = support::refusal([&] { tvec::uring_doorbell(r.get(), 0); });
    CHECK(support::says(why, "no messages between rings"));
}

Test(choosing, a_refused_descriptor_is_an_error) {
    tvec::clocked_wheel<> timers;
    support::forbid(SYS_timerfd_create, EMFILE);
    const std::string why = support::refusal([&] { tvec::timerfd_alarm alarm{timers}; });
    CHECK(support::says(why, "timerfd_create"));
    CHECK(support::says(why, "Too many open files"));
}
