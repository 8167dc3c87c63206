// Cases for tests/programs/mistakes.py, which compiles each by itself.

#include <array>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

// --- mailbox_in_another_thread
// says: a sender: the mailbox itself stays where it is
// lines: 12
void work(tvec::mailbox<> mailbox);

void start(tvec::mailbox<>& mailbox) { work(mailbox); }

// --- mailbox_on_a_wheel_without_a_clock
// says: a mailbox is on a tvec::clocked_wheel
// lines: 4
void make(tvec::timer_wheel& wheel) {
    tvec::mailbox mailbox(wheel, 64, [] {});
}

// --- mailbox_that_cancels_what_schedule_returned
// says: the handle in what `schedule` returned: .handle
// lines: 12
void add(const tvec::mailbox_sender<>& sender) {
    const auto late = sender.schedule(1ms, [] {});
    sender.cancel(late);
}

// --- mailbox_whose_refusal_is_not_looked_at
// says: it tells a refusal, such as full: check it, or cast it to void
// lines: 3
void add(const tvec::mailbox_sender<>& sender) {
    sender.schedule(1ms, [] {});
}

// --- mailbox_with_a_duration_for_a_deadline
// says: a time_point of its clock, then a function
// lines: 9
void add(const tvec::mailbox_sender<>& sender) {
    sender.schedule_at(1ms, [] {});
}

// --- mailbox_with_a_function_of_48_bytes_and_more
// says: capture a pointer to
// lines: 99
void add(const tvec::mailbox_sender<>& sender) {
    std::array<char, 64> many{};
    sender.post([many] { static_cast<void>(many); });
}

// --- mailbox_with_a_number_for_a_delay
// says: a duration: 1500ms, not 1.5s; then a function
// lines: 9
void add(const tvec::mailbox_sender<>& sender) {
    sender.schedule(100, [] {});
}

// --- timer_thread_with_a_number_for_a_delay
// says: a duration: 1500ms, not 1.5s; then a function
// lines: 9
void add(tvec::timer_thread<>& timers) {
    timers.schedule(100, [] {});
}

// --- timer_thread_with_an_executor_of_another_function
// says: the executor of a timer_thread takes this function object
// lines: 30
struct task {
    void operator()() const {}
};

void add() {
    tvec::timer_thread timers({}, [](task) {});
    timers.schedule(1ms, [] {});
}

// --- timer_thread_that_is_copied
// says: a reference: a timer stays where it is
// lines: 12
void work(tvec::timer_thread<> timers);

void start(tvec::timer_thread<>& timers) { work(timers); }
