#include "tvec/detail/core/misuse.hpp"

#include <cstdio>
#include <cstdlib>

namespace tvec::detail {

namespace {

/// More than a loop needs that reaps its events a few at a time.
constexpr unsigned many_turns = 1000;
/// A machine that stands still makes one run late.
constexpr unsigned many_runs = 3;

/// How often something happened in a row with one wheel or one alarm.
class streak {
public:
    void end() noexcept { length_ = 0; }
    void begin(const void* whose) noexcept {
        whose_ = whose;
        length_ = 0;
    }
    bool is_of(const void* whose) const noexcept { return whose_ == whose; }
    /// Returns whether it has reached `length` for the first time.
    bool reaches(unsigned length) noexcept {
        if (has_reached_ || ++length_ != length) return false;
        return has_reached_ = true;
    }

private:
    const void* whose_ = nullptr;
    unsigned length_ = 0;
    bool has_reached_ = false;
};

thread_local streak late_runs, ringing_turns;

}  // namespace

void damaged_timer(const void* timer, const void* neighbour) noexcept {
    std::fprintf(stderr, "tvec: the timer at %p", timer);
    if (neighbour != nullptr) std::fprintf(stderr, ", or its neighbour at %p,", neighbour);
    std::fputs(" was freed, overwritten or copied while a wheel had it linked. Its bytes must stay "
               "as they are until it is unlinked: destroy it or call unlink() first (in C "
               "tvec_unlink)\n",
               stderr);
    std::abort();
}

void wakeup_was_set(const void* wheel) noexcept { late_runs.begin(wheel); }

void wheel_runs(const void* wheel, bool is_late) noexcept {
    if (!late_runs.is_of(wheel)) return;
    if (!is_late) return late_runs.end();
    if (late_runs.reaches(many_runs))
        std::fputs("tvec: timers ran late three times in a row, and no alarm was set for them; an "
                   "alarm rings once: call rearm() (of a uring_timeout, prepare()) before each "
                   "sleep\n",
                   stderr);
}

void alarm_is_ringing(const void* alarm) noexcept {
    if (!ringing_turns.is_of(alarm)) ringing_turns.begin(alarm);
    if (ringing_turns.reaches(many_turns))
        std::fputs("tvec: an alarm has gone off and was not acknowledged for 1000 turns of its "
                   "loop, which cannot sleep, or sleeps too long; call acknowledge() when its "
                   "descriptor is readable (of a uring_timeout, complete() for each completion)\n",
                   stderr);
}

}  // namespace tvec::detail
