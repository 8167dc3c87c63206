// The code of docs/testing-your-code.md: a login that locks after three failures within a minute,
// and its tests, which take no time. Exits with 1 if one of them fails.
#include <algorithm>
#include <cstdio>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

namespace {

// [code]
template <class Timers> class login {
public:
    explicit login(Timers& timers) : timers_(timers) {}

    void failed() {
        if (++failures_ == 3) locked_ = true;
        timers_.arm_after(forget_, 60s);
    }
    bool locked() const { return locked_; }

private:
    void on_forget() { failures_ = 0, locked_ = false; }

    Timers& timers_;
    int failures_ = 0;
    bool locked_ = false;
    tvec::timer forget_{tvec::call<&login::forget_, &login::on_forget>};
};
// [code]

using test_timers =
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>>;

bool is_locked_for_a_minute_and_no_longer() {
    test_timers timers;
    login user(timers);
    for (int i = 0; i < 3; ++i) user.failed();
    tvec::manual_clock::advance(60s - 1ns);
    timers.run();
    const bool until_then = user.locked();
    tvec::manual_clock::advance(1ns);
    timers.run();
    return until_then && !user.locked();
}

// [pass]
// Lets time pass as a loop sees it: it wakes when the wheel asks for it, and at the end.
void pass(test_timers& timers, std::chrono::nanoseconds time) {
    const auto end = tvec::manual_clock::now() + time;
    for (auto next = timers.next_wakeup(); next && *next < end; next = timers.next_wakeup()) {
        tvec::manual_clock::set(std::max(*next, tvec::manual_clock::now()));
        timers.run();
    }
    tvec::manual_clock::set(end);
    timers.run();
}
// [pass]

bool counts_only_failures_that_are_close() {
    test_timers timers;
    login user(timers);
    for (int i = 0; i < 100; ++i, pass(timers, 61s)) user.failed();
    return !user.locked();
}

struct beacon {
    explicit beacon(test_timers& w) : timers(w) { timers.arm_after(beat, 1s); }
    void on_beat() { missed += timers.arm_next(beat, 1s); }

    test_timers& timers;
    tvec::jiffies missed = 0;
    tvec::timer beat{tvec::call<&beacon::beat, &beacon::on_beat>};
};

bool a_loop_that_was_held_up_knows_what_it_missed() {
    test_timers timers;
    beacon light(timers);
    tvec::manual_clock::advance(5500ms);  // nobody calls run
    timers.run();
    return light.missed == 4;
}

bool a_shield_lasts_three_seconds_of_sixty_frames() {
    tvec::timer_wheel frames;
    bool shielded = true;
    tvec::callback_timer shield([&] { shielded = false; });
    frames.arm_after(shield, 3 * 60);
    frames.advance(179);
    const bool until_then = shielded;
    frames.advance(180);
    return until_then && !shielded;
}

int failures = 0;

void expect(bool passed, const char* sentence) {
    std::printf("%-8s%s\n", passed ? "ok" : "FAILED", sentence);
    if (!passed) ++failures;
}

}  // namespace

int main() {
    expect(is_locked_for_a_minute_and_no_longer(), "is locked for a minute and no longer");
    expect(counts_only_failures_that_are_close(), "counts only failures that are close");
    expect(a_loop_that_was_held_up_knows_what_it_missed(), "a loop knows what it missed");
    expect(a_shield_lasts_three_seconds_of_sixty_frames(), "a shield lasts three seconds");
    return failures != 0;
}
