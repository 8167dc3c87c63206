#include "tvec/tvec_uring.h"

#include <cassert>
#include <new>
#include <optional>

#include "clock.hpp"
#include "own.hpp"
#include "tvec/drivers/uring_timeout.hpp"
#include "tvec/drivers/uring_wait.hpp"

namespace {

using std::chrono::nanoseconds;
using tvec::c::not_set;
using tvec::c::own;
using tvec::detail::kernel_result;
using tvec::detail::ring_alarm;
using tvec::detail::timed_ring;

/// Returns the time for which an alarm is set: `wakeup` itself, or the time left until then.
nanoseconds alarm_time(const tvec_clock& clock, int64_t wakeup, bool absolute) {
    const auto now = [&] { return tvec::c::point(tvec_clock_read(&clock)); };
    return tvec::detail::alarm_time(tvec::c::point(wakeup), absolute, now);
}

struct wait_of_c {
    timed_ring ring;
    tvec_wheel* wheel;
    const tvec_clock* clock;

    std::optional<nanoseconds> limit() const {
        tvec::detail::note_sleep(wheel);
        const auto time_of = [this](uint64_t tick) {
            return alarm_time(*clock, tvec_clock_start_of(clock, tick), ring.absolute());
        };
        return tvec::detail::wait_limit(tvec_next_wakeup(wheel), tvec_now(wheel), time_of);
    }
};

tvec_uring_wait* wait_of(tvec_loop* loop) { return &own<tvec_uring_wait>(&loop->library); }

struct timeout_of_c {
    timeout_of_c(io_uring& ring, tvec_wheel* w, const tvec_clock* c, std::uint8_t tag) noexcept
        : alarm(ring, tvec::c::alarm_clock_of(*c), tag), wheel(w), clock(c) {}

    ring_alarm alarm;
    tvec_wheel* wheel;
    const tvec_clock* clock;
    int64_t set_for = not_set;

    kernel_result prepare() {
        const auto set = [this](nanoseconds time) { return alarm.set(time); };
        return tvec::c::only_earlier(*this, alarm.absolute(), set);
    }

    kernel_result complete(uint64_t user_data, int result) {
        const kernel_result ours = alarm.complete(user_data, result);
        if (!alarm.is_set()) set_for = not_set;
        return ours;
    }

    template <class F> kernel_result detach(F foreign) {
        kernel_result out = alarm.queue_removal();
        for (; out.error == 0 && !out.yes; out = alarm.queue_removal())
            if (out = take_completion(foreign); out.error != 0) return out;
        while (out.error == 0 && alarm.in_ring()) out = take_completion(foreign);
        return out;  // each timeout that ended is not set any more
    }

private:
    template <class F> kernel_result take_completion(F& foreign) {
        io_uring_cqe* cqe = nullptr;
        if (const kernel_result found = alarm.wait_for_completion(cqe); found.error != 0)
            return found;
        const kernel_result ours = complete(cqe->user_data, cqe->res);
        if (ours.error == 0 && !ours.yes) foreign(*cqe);
        alarm.consume_completion();
        return ours;
    }
};

}  // namespace

int tvec_uring_wait_init(tvec_uring_wait* wait, io_uring* ring, tvec_wheel* wheel,
                         const tvec_clock* clock) {
    assert(wait && ring && wheel && clock && "no pointer is null");
    const kernel_result accepted = timed_ring::accepts(*ring);
    if (accepted.error == 0)
        new (wait) wait_of_c{timed_ring(*ring, tvec::c::alarm_clock_of(*clock)), wheel, clock};
    return tvec::c::result_of(accepted);
}

int tvec_uring_submit_and_wait(tvec_uring_wait* wait) {
    auto& w = own<wait_of_c>(wait);
    return tvec::c::result_of(w.ring.submit_and_wait(w.limit()));
}

int tvec_loop_uring_init(tvec_loop* loop, io_uring* ring, int clock, int64_t tick) {
    const kernel_result accepted =
        timed_ring::accepts(*ring);  // before there is a wheel to destroy
    if (accepted.error != 0) return tvec::c::result_of(accepted);
    if (const int result = tvec_loop_init(loop, clock, tick); result != 0) return result;
    return tvec_uring_wait_init(wait_of(loop), ring, &loop->wheel, &loop->clock);
}

int tvec_loop_uring_wait(tvec_loop* loop) {
    const int result = tvec_uring_submit_and_wait(wait_of(loop));
    tvec_stall_watch_listen(&loop->watch);
    return result;
}

int tvec_uring_submit_and_poll(tvec_uring_wait* wait) {
    auto& w = own<wait_of_c>(wait);
    tvec::detail::note_sleep(w.wheel);
    return tvec::c::result_of(w.ring.submit_and_wait(nanoseconds::zero()));
}

int tvec_uring_timeout_init(tvec_uring_timeout* alarm, io_uring* ring, tvec_wheel* wheel,
                            const tvec_clock* clock, uint8_t tag) {
    assert(alarm && ring && wheel && clock && "no pointer is null");
    const kernel_result accepted = ring_alarm::accepts(*ring);
    if (accepted.error == 0) new (alarm) timeout_of_c(*ring, wheel, clock, tag);
    return tvec::c::result_of(accepted);
}

int tvec_uring_timeout_prepare(tvec_uring_timeout* alarm) {
    return tvec::c::answer_of(own<timeout_of_c>(alarm).prepare());
}

int tvec_uring_timeout_complete(tvec_uring_timeout* alarm, uint64_t user_data, int result) {
    return tvec::c::answer_of(own<timeout_of_c>(alarm).complete(user_data, result));
}

int tvec_uring_timeout_detach(tvec_uring_timeout* alarm,
                              void (*foreign)(void*, const io_uring_cqe*), void* context) {
    assert(foreign && "a function for the completions of others");
    const auto hand_over = [=](const io_uring_cqe& cqe) { foreign(context, &cqe); };
    return tvec::c::result_of(own<timeout_of_c>(alarm).detach(hand_over));
}

bool tvec_is_uring_timeout(uint64_t user_data, uint8_t tag) {
    return tvec::is_uring_timeout(user_data, tag);
}
