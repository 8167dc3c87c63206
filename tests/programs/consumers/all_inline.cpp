// All inline code of the headers, compiled with -fkeep-inline-functions. It links if the libraries
// export every function that this code calls. WANT_URING: libtvec-uring is
// installed beside libtvec.
#include <tvec/tvec.hpp>

template class tvec::clocked_wheel<>;
template class tvec::mailbox<>;
template class tvec::mailbox_sender<>;
template class tvec::timeout_pool<>;
template class tvec::timerfd_alarm<tvec::clocked_wheel<>>;
template int tvec::epoll_wait(int, epoll_event*, int, tvec::clocked_wheel<>&);

#ifdef WANT_URING
#include <tvec/drivers/uring_doorbell.hpp>
#include <tvec/drivers/uring_timeout.hpp>
#include <tvec/drivers/uring_wait.hpp>
#include <tvec/extra/choose_waking.hpp>

template class tvec::uring_timeout<tvec::clocked_wheel<>>;
template class tvec::uring_wait<tvec::clocked_wheel<>>;
#endif

int main() {
    tvec::clocked_wheel<> timers;
    timers.run_watched([](const tvec::timer_wheel::due_callback& fire) { fire(); });
    timers.run_in_order([](tvec::timer& a, tvec::timer& b) { return &a < &b; });
    timers.wheel().drain([](tvec::timer&) {});

    tvec::timeout_pool<> pool(timers);
    (void)pool.schedule_every(std::chrono::seconds(1), [] {});
    auto nothing = [] {};
    const auto timeout = pool.schedule(std::chrono::seconds(1), nothing);
    const bool taken = pool.take<decltype(nothing)>(timeout.handle).has_value();
    pool.stop([](auto&&...) {});

    tvec::mailbox<> mailbox(timers, 16, [] {});
    (void)mailbox.sender().schedule(std::chrono::seconds(1), [] {});
    mailbox.stop([](auto&&...) {});
    return taken ? 0 : 1;
}
