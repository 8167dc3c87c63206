// Cases for tests/programs/mistakes.py, which compiles each by itself.

#include <thread>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

// --- interval_from_a_start_on_every_number
// says: a wheel, a start, a period
// lines: 6
tvec::interval beat(tvec::clocked_wheel<>& w) {
    return tvec::interval(w, std::chrono::steady_clock::now(), 100);
}

// --- interval_of_a_number
// says: a wheel, perhaps a start, a period
// lines: 6
tvec::interval beat(tvec::clocked_wheel<>& w) { return tvec::interval(w, 100); }

// --- interval_of_half_seconds
// says: a wheel, perhaps a start, a period
// lines: 6
tvec::interval beat(tvec::clocked_wheel<>& w) {
    return tvec::interval(w, std::chrono::duration<double>(0.5));
}

// --- interval_whose_beat_is_not_awaited
// says: it waits for nothing before it is awaited
// lines: 4
void beat(tvec::interval& every) { every.next(); }

// --- sleep_for_a_number
// says: a wheel, then a delay: sleep_for(timers, 1500ms)
// lines: 4
tvec::sleeper nap(tvec::clocked_wheel<>& w) { return tvec::sleep_for(w, 5); }

// --- sleep_for_with_its_arguments_swapped
// says: a wheel, then a delay: sleep_for(timers, 1500ms)
// lines: 4
tvec::sleeper nap(tvec::clocked_wheel<>& w) { return tvec::sleep_for(1ms, w); }

// --- sleep_for_without_a_wheel
// says: a wheel, then a delay: sleep_for(timers, 1500ms)
// lines: 4
tvec::sleeper nap() { return tvec::sleep_for(20ms); }

// --- sleep_for_of_the_thread
// legal: its own function takes a duration alone
void nap() {
    using namespace std::this_thread;
    using namespace tvec;
    sleep_for(1ms);
    sleep_until(std::chrono::steady_clock::now());
}

// --- sleep_that_is_not_awaited
// says: it waits for nothing before it is awaited: co_await it
// lines: 2
void nap(tvec::clocked_wheel<>& w) { tvec::sleep_for(w, 1ms); }

// --- sleep_until_a_duration
// says: a wheel, then a point of its time
// lines: 4
tvec::sleeper nap(tvec::clocked_wheel<>& w) { return tvec::sleep_until(w, 5ms); }

// --- sleep_until_without_a_wheel
// says: a wheel, then a point of its time
// lines: 4
tvec::sleeper nap() { return tvec::sleep_until(std::chrono::steady_clock::now()); }

// --- sleeper_that_is_assigned
// says: reset: nap.reset
// lines: 6
void heard(tvec::sleeper& nap, tvec::clocked_wheel<>& w) { nap = tvec::sleep_for(w, 30s); }

// --- stoppable_sleep_for_a_number
// says: a wheel, 1500ms, a token
// lines: 4
auto nap(tvec::clocked_wheel<>& w, std::stop_token t) { return tvec::sleep_for(w, 100, t); }

// --- with_timeout_of_what_cannot_be_abandoned
// says: what is awaited cannot be abandoned: its destructor does nothing
// lines: 4
struct awaiter {
    bool await_ready() { return false; }
    void await_suspend(std::coroutine_handle<>) {}
    int await_resume() { return 1; }
};
auto ask(tvec::clocked_wheel<>& w) { return tvec::with_timeout(w, awaiter{}, 1ms); }

// --- with_timeout_of_what_cannot_be_awaited
// says: with_timeout is given a wheel, what to await, and a duration or ticks
// lines: 4
auto ask(tvec::clocked_wheel<>& w) { return tvec::with_timeout(w, 5, 1ms); }

// --- with_timeout_until_a_duration
// says: a wheel, what to await, a time_point
// lines: 4
auto ask(tvec::clocked_wheel<>& w) {
    return tvec::with_timeout_until(w, tvec::sleep_for(w, 5ms), 1ms);
}

// --- with_timeout_with_its_arguments_swapped
// says: a wheel, what to await, a delay: 1500ms
// lines: 4
auto ask(tvec::clocked_wheel<>& w) { return tvec::with_timeout(w, 1ms, tvec::sleep_for(w, 5ms)); }

// --- when_any_of_what_cannot_be_cancelled
// says: give the awaiter a destructor after which it resumes nobody
// lines: 12
struct answer {
    bool await_ready() const;
    void await_suspend(std::coroutine_handle<>);
    int await_resume();
};

void ask(tvec::clocked_wheel<>& w, answer a) {
    (void)tvec::when_any(std::move(a), tvec::sleep_for(w, 1s));
}

// --- when_all_of_a_duration
// says: when_any and when_all are given what to await
// lines: 12
void ask(tvec::clocked_wheel<>& w) { (void)tvec::when_all(tvec::sleep_for(w, 1s), 5s); }

// --- when_any_that_is_not_awaited
// says: it waits for nothing before it is awaited
// lines: 9
void ask(tvec::clocked_wheel<>& w) { tvec::when_any(tvec::sleep_for(w, 1s)); }
