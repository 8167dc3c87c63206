// Cases for tests/programs/mistakes.py, which compiles each by itself.

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

// --- collect_into_what_takes_nothing
// says: `take` is called with a tvec::timer&
// lines: 4
void run(tvec::timer_wheel& w) {
    w.collect(5, 10, [] {});
}

// --- copy_of_a_clocked_wheel
// says: a reference: a wheel stays where it is
// lines: 6
void copy(tvec::clocked_wheel<>& w) { auto v = w; }

// --- copy_of_a_wheel
// says: a reference: a wheel stays where it is
// lines: 6
void copy(tvec::timer_wheel& w) { auto v = w; }

// --- order_of_one_timer
// says: the order is a function of two tvec::timer&: is one before the other?
// lines: 4
void run(tvec::timer_wheel& w) {
    w.advance_in_order(5, [](tvec::timer&) { return 1; });
}

// --- run_for_a_while
// says: a budget of visits; it reads the clock itself
// lines: 4
void run(tvec::clocked_wheel<>& w) { w.run(5ms); }

// --- run_until_a_duration
// says: a time_point: after(2ms)
// lines: 4
void run(tvec::clocked_wheel<>& w) { w.run_until(5ms); }

// --- run_watched_by_what_takes_nothing
// says: the watch is called with a const tvec::timer_wheel::due_callback&
// lines: 4
void run(tvec::clocked_wheel<>& w) {
    w.run_watched([] {});
}

// --- run_with_a_budget_of_minus_one
// legal: it is timer_wheel::unlimited
void run(tvec::clocked_wheel<>& w) { w.run(-1); }

// --- snapshot_of_a_clocked_wheel
// says: its wheel: capture(timers.wheel(), id_of)
// lines: 4
void save(tvec::snapshot& s, const tvec::clocked_wheel<>& timers) {
    s.capture(timers, [](const tvec::timer&) { return 0; });
}

// --- snapshot_put_into_a_clocked_wheel
// says: its wheel: restore(timers.wheel(), timer_of)
// lines: 4
void load(const tvec::snapshot& s, tvec::clocked_wheel<>& timers) {
    s.restore(timers, [](std::uint64_t) -> tvec::timer* { return nullptr; });
}

// --- walk_that_cancels_on_a_const_wheel
// says: the visitor is called with a const tvec::timer&, for the wheel is const
// lines: 5
void cancel_all(const tvec::timer_wheel& wheel) {
    wheel.for_each_pending([](tvec::timer& t) { t.cancel(); });
}

// --- walk_with_a_visitor_that_returns_a_number
// says: it returns nothing, or a bool: false to end here
// lines: 5
int count(tvec::timer_wheel& wheel) {
    int n = 0;
    wheel.for_each_pending([&](tvec::timer&) { return ++n; });
    return n;
}

// --- wheel_member_without_its_template_arguments
// g++ says: without an argument list
// clang++ says: template arguments
// lines: 1
struct server {
    tvec::clocked_wheel timers;
};

// --- wheel_parameter_without_its_template_arguments
// g++ says: clocked_wheel
// clang++ says: clocked_wheel
// lines: 1
void serve(tvec::clocked_wheel& timers);

// --- wheel_that_is_asked_to_cancel
// says: instead of cancel: a timer cancels itself, t.cancel()
// lines: 4
bool end(tvec::timer_wheel& w, tvec::timer& t) { return w.cancel(t); }

// --- wheel_that_is_asked_to_run
// says: instead of run: advance(tick, budget)
// lines: 4
void run(tvec::timer_wheel& w) { w.run(256); }

// --- wheel_that_is_asked_to_schedule
// says: instead of schedule: arm_after(t, 30); functions are scheduled in a timeout_pool
// lines: 4
void begin(tvec::timer_wheel& w) {
    w.schedule(20, [] {});
}

// --- wheel_that_is_asked_whether_it_is_empty
// says: instead of empty: any_pending(), or count_pending()
// lines: 4
bool over(const tvec::timer_wheel& w) { return w.empty(); }

// --- wheel_that_is_returned_by_name
// says: a reference: a wheel stays where it is
// lines: 6
tvec::clocked_wheel<> make() {
    tvec::clocked_wheel<> w;
    return w;
}
