// Cases for tests/programs/mistakes.py, which compiles each by itself.

#include <functional>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

// --- arm_a_const_timer
// says: a timer& and a duration: 1500ms, not 1.5s
// lines: 4
void arm(tvec::clocked_wheel<>& w, const tvec::timer& t) { w.arm_after(t, 20ms); }

// --- arm_a_const_timer_in_ticks
// g++ says: discards qualifiers
// clang++ says: drops 'const' qualifier
// lines: 2
void arm(tvec::timer_wheel& w, const tvec::timer& t) { w.arm_after(t, 20); }

// --- arm_a_pointer
// says: a timer, not its owner or address: c.idle
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer* t) { w.arm_after(t, 20ms); }

// --- arm_a_pointer_at_a_time_point
// says: a timer, not its owner or address: c.idle
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_at(&t, w.after(20ms)); }

// --- arm_a_pointer_to_an_object
// says: a timer, not its owner or address: c.idle
// lines: 4
struct connection {
    tvec::timer idle;
};
void arm(tvec::clocked_wheel<>& w, connection* c) { w.arm_after(c, 20ms); }

// --- arm_a_temporary
// says: a timer& and a duration: 1500ms, not 1.5s
// lines: 4
void arm(tvec::clocked_wheel<>& w) { w.arm_after(tvec::timer{}, 20ms); }

// --- arm_a_timer_that_is_derived
// legal: it is a timer all the same
void arm(tvec::clocked_wheel<>& w) {
    static tvec::callback_timer t{[] {}};
    w.arm_after(t, 20ms);
    w.arm_at(t, w.after(20ms));
    w.arm_if_earlier(t, w.after(20ms));
    w.arm_if_pending(t, w.after(20ms));
    w.arm_within(t, 20ms, 1s);
    w.arm_next(t, 20ms);
    w.wheel().arm_after(t, 20);
}

// --- arm_after_a_number
// says: a timer& and a duration: 1500ms, not 1.5s
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_after(t, 20); }

// --- arm_after_floating_seconds
// says: a timer& and a duration: 1500ms, not 1.5s
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_after(t, 1.5s); }

// --- arm_an_object
// says: a timer, not its owner or address: c.idle
// lines: 4
struct connection {
    tvec::timer idle;
};
void arm(tvec::clocked_wheel<>& w, connection& c) { w.arm_after(c, 20ms); }

// --- arm_at_a_duration
// says: a timer& and a time_point: after(20ms)
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_at(t, 20ms); }

// --- arm_at_a_point_of_another_clock
// says: its own clock: after(t - system_clock::now())
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) {
    w.arm_at(t, std::chrono::system_clock::now());
}

// --- arm_at_half_seconds
// says: a timer& and a time_point: after(20ms)
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) {
    w.arm_at(t, std::chrono::steady_clock::now() + 0.5s);
}

// --- arm_by_a_reference_wrapper
// legal: it converts to a reference to the timer
void arm(tvec::clocked_wheel<>& w, std::reference_wrapper<tvec::timer> t) {
    w.arm_after(t, 20ms);
    w.arm_at(t, w.after(20ms));
    w.arm_within(t, 20ms, 1s);
}

// --- arm_for_seconds_minutes_and_days
// legal: durations that count in integers
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) {
    w.arm_at(t,
             std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::steady_clock::now()));
    w.arm_after(t, 2min);
    w.arm_after(t, std::chrono::days(400));
}

// --- arm_if_earlier_of_an_object
// says: a timer, not its owner or address: c.idle
// lines: 4
struct connection {
    tvec::timer idle;
};
void arm(tvec::clocked_wheel<>& w, connection& c) { w.arm_if_earlier(c, w.after(1s)); }

// --- arm_if_earlier_than_a_duration
// says: a timer& and a time_point: after(20ms)
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_if_earlier(t, 20ms); }

// --- arm_if_earlier_than_a_point_of_another_clock
// says: its own clock: after(t - system_clock::now())
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) {
    w.arm_if_earlier(t, std::chrono::system_clock::now());
}

// --- arm_if_pending_after_a_duration
// says: a timer& and a time_point: after(20ms)
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_if_pending(t, 20ms); }

// --- arm_if_pending_at_a_point_of_another_clock
// says: its own clock: after(t - system_clock::now())
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) {
    w.arm_if_pending(t, std::chrono::system_clock::now());
}

// --- arm_if_pending_of_an_object
// says: a timer, not its owner or address: c.idle
// lines: 4
struct connection {
    tvec::timer idle;
};
void arm(tvec::clocked_wheel<>& w, connection& c) { w.arm_if_pending(c, w.after(1s)); }

// --- arm_in_ticks_by_another_name
// says: instead of arm: arm_after(t, 30), or arm_at(t, tick)
// lines: 4
bool arm(tvec::timer_wheel& w, tvec::timer& t) { return w.arm(t, 20); }

// --- arm_next_after_a_number
// says: a timer& and a duration: 1500ms, not 1.5s
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_next(t, 20); }

// --- arm_next_of_an_object
// says: a timer, not its owner or address: c.idle
// lines: 4
struct connection {
    tvec::timer idle;
};
void arm(tvec::clocked_wheel<>& w, connection& c) { w.arm_next(c, 1s); }

// --- arm_on_a_const_wheel
// says: a wheel that is not const
// lines: 4
void arm(const tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_after(t, 20ms); }

// --- arm_unless_pending_after_a_duration
// says: a timer& and a time_point: after(20ms)
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_unless_pending(t, 20ms); }

// --- arm_unless_pending_at_a_point_of_another_clock
// says: its own clock: after(t - system_clock::now())
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) {
    w.arm_unless_pending(t, std::chrono::system_clock::now());
}

// --- arm_unless_pending_of_an_object
// says: a timer, not its owner or address: c.idle
// lines: 4
struct connection {
    tvec::timer idle;
};
void arm(tvec::clocked_wheel<>& w, connection& c) { w.arm_unless_pending(c, w.after(1s)); }

// --- arm_within_numbers
// says: a timer&, and two durations: 60s, 90s
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_within(t, 5, 10); }

// --- arm_within_of_an_object
// says: a timer, not its owner or address: c.idle
// lines: 4
struct connection {
    tvec::timer idle;
};
void arm(tvec::clocked_wheel<>& w, connection& c) { w.arm_within(c, 1s, 2s); }

// --- arm_within_one_duration
// says: a timer&, and two durations: 60s, 90s
// lines: 4
void arm(tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_within(t, 5ms); }

// --- ticks_that_are_a_duration
// says: whole ticks: durations are for a tvec::clocked_wheel
// lines: 6
void arm(tvec::timer_wheel& w, tvec::timer& t) { w.arm_after(t, 20ms); }

// --- ticks_that_are_negative
// legal: they lie in the past
void arm(tvec::timer_wheel& w, tvec::timer& t) {
    w.arm_after(t, -5);
    w.arm_at(t, -5);
    w.advance(-1);
}

// --- ticks_that_are_not_whole
// says: whole ticks: durations are for a tvec::clocked_wheel
// lines: 6
void arm(tvec::timer_wheel& w, tvec::timer& t) { w.arm_after(t, 1.5); }
