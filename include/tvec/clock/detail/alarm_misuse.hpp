/// \file
/// Messages of debug builds for programs that set no alarm, or do not acknowledge one.
///
/// All functions are inline, and exist only with assertions, as those of core/detail/misuse.hpp.
#pragma once

#ifndef NDEBUG

#include <cstdio>

namespace tvec::detail {

/// Counts how often something happened in a row with one wheel or one alarm.
class streak {
public:
    void end() noexcept { length_ = 0; }
    void begin(const void* whose) noexcept {
        whose_ = whose;
        length_ = 0;
    }
    bool is_of(const void* whose) const noexcept { return whose_ == whose; }
    /// Counts once more. Returns whether the streak has reached `length` for the first time.
    bool reaches(unsigned length) noexcept {
        if (has_reached_ || ++length_ != length) return false;
        return has_reached_ = true;
    }

private:
    const void* whose_ = nullptr;
    unsigned length_ = 0;
    bool has_reached_ = false;
};

inline thread_local streak late_runs, ringing_turns;

/// Notes that `wheel` has its wake-up: an alarm was set, or the loop sleeps until then.
inline void wakeup_was_set(const void* wheel) noexcept { late_runs.begin(wheel); }

/// Notes that `wheel` runs, and whether timers were due before. Prints a message once per thread if
/// that was so three times in a row, and no alarm was set in between. A machine that was suspended
/// makes one run late.
inline void wheel_runs(const void* wheel, bool is_late) noexcept {
    if (!late_runs.is_of(wheel)) return;
    if (!is_late) return late_runs.end();
    if (late_runs.reaches(3))
        std::fputs("tvec: timers ran late three times in a row, and their alarm was not set in "
                   "between. An alarm rings once: call rearm() before each sleep (of a "
                   "uring_timeout, prepare())\n",
                   stderr);
}

/// Notes a turn of a loop, and whether `alarm` has gone off and was not acknowledged. Prints a
/// message once per thread after a thousand such turns in a row. A loop that reaps a few events at
/// a time needs fewer.
inline void alarm_turns(const void* alarm, bool is_ringing) noexcept {
    if (!is_ringing || !ringing_turns.is_of(alarm)) ringing_turns.begin(alarm);
    if (is_ringing && ringing_turns.reaches(1000))
        std::fputs("tvec: an alarm has gone off and was not acknowledged for 1000 turns of its "
                   "loop. It rings until then: call acknowledge() when its descriptor is readable "
                   "(of a uring_timeout, complete() for each completion)\n",
                   stderr);
}

}  // namespace tvec::detail

#endif
