// Cases for tests/programs/mistakes.py, which compiles each by itself.

#include <utility>

#include "tvec/tvec.hpp"

// --- callback_timer_assigned_with_a_lambda_that_captures
// says: a function that can be assigned
// lines: 6
void assign() {
    int n = 0;
    auto count = [&n] { ++n; };
    tvec::callback_timer a{count}, b{count};
    a = std::move(b);
}

// --- callback_timer_of_other_arguments
// says: function takes (tvec::timer_wheel&, tvec::timer&), or nothing
// lines: 3
tvec::callback_timer t{[](int) {}};

// --- cancel_whose_result_is_not_looked_at
// legal: not everybody wants to know
void stop(tvec::timer& t) { t.cancel(); }

// --- copy_of_a_callback_timer
// says: std::move: a timer is in one place
// lines: 5
tvec::callback_timer t{[] {}};
auto u = t;

// --- copy_of_a_timer
// says: std::move: a timer is in one place
// lines: 6
void copy(tvec::timer& t) { tvec::timer u = t; }

// --- copy_of_an_object_with_a_timer
// says: std::move: a timer is in one place
// lines: 10
struct connection {
    void on_idle();
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};
void copy(connection& c) { connection d = c; }

// --- set_callback_of_a_callback_timer
// says: another callback_timer, assigned to this one
// lines: 6
void change(tvec::timer::callback to) {
    tvec::callback_timer t{[] {}};
    t.set_callback(to);
}

// --- timer_assigned_from_a_callback_timer
// says: the whole callback_timer: its function stays behind
// lines: 6
void cut(tvec::timer& t) {
    tvec::callback_timer u{[] {}};
    t = std::move(u);
}

// --- timer_made_of_a_callback_timer
// says: the whole callback_timer: its function stays behind
// lines: 6
tvec::timer cut() {
    tvec::callback_timer t{[] {}};
    return std::move(t);
}

// --- timer_of_a_lambda
// legal: it is a function of the wheel and the timer
tvec::timer t{[](tvec::timer_wheel&, tvec::timer&) {}};

// --- timer_of_a_lambda_that_captures
// says: a function of (timer_wheel&, timer&), or callback_timer
// lines: 6
void count() {
    int n = 0;
    tvec::timer t{[&] { ++n; }};
}

// --- timer_of_a_lambda_without_arguments
// says: a function of (timer_wheel&, timer&), or callback_timer
// lines: 5
tvec::timer t{[] {}};

// --- timer_of_a_method
// says: a function of (timer_wheel&, timer&), or callback_timer
// lines: 5
struct connection {
    void on_idle() {}
    tvec::timer idle{&connection::on_idle};
};

// --- timer_that_arms_itself
// says: instead of arm_after: timers.arm_after(t, 30s)
// lines: 4
void begin(tvec::timer& t) { t.arm_after(std::chrono::seconds(30)); }

// --- timer_that_is_reset
// says: instead of reset: timers.arm_after(t, 30s) arms it anew, and t.cancel() ends it
// lines: 4
void again(tvec::timer& t) { t.reset(); }
