// Cases for tests/programs/mistakes.py, which compiles each by itself.

#include <array>
#include <memory>
#include <vector>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

// --- function_too_large_for_a_group
// says: in a group, a timeout's function object has at most 32 bytes
// lines: 12
void add(tvec::timeout_pool<>& pool, tvec::timer_group& group) {
    const std::array<char, 40> much{};
    (void)pool.schedule(1ms, group.add([much] { static_cast<void>(much); }));
}

// --- grouped_timer_without_its_group
// says: its group first: {effects, call<...>}
// lines: 6
struct hero {
    void on_poison() {}
    tvec::grouped_timer poison{tvec::call<&hero::poison, &hero::on_poison>};
};

// --- group_that_is_copied
// says: std::move: a timer is in one group
// lines: 5
tvec::timer_group one;
tvec::timer_group other = one;

// --- pool_in_a_vector
// g++ says: static assertion failed: result type must be constructible
// clang++ says: deleted
// lines: 22
void add(std::vector<tvec::timeout_pool<>>& pools, tvec::clocked_wheel<>& w) {
    pools.emplace_back(w);
}

// --- pool_on_a_temporary_wheel
// says: a wheel that outlives it
// lines: 5
tvec::timeout_pool pool(tvec::clocked_wheel<>{});

// --- pool_on_a_wheel_without_a_clock
// says: a timeout_pool is on a tvec::clocked_wheel
// lines: 3
tvec::timer_wheel w;
tvec::timeout_pool pool(w);

// --- pool_that_cancels_what_schedule_returned
// says: the handle in what `schedule` returned
// lines: 6
void cancel(tvec::timeout_pool<>& pool) {
    const auto reply = pool.schedule(1ms, [] {});
    pool.cancel(reply);
}

// --- pool_that_reschedules_at_a_duration
// says: a time_point of its clock
// lines: 4
void move(tvec::timeout_pool<>& pool, tvec::timeout_handle h) { pool.reschedule_at(h, 5ms); }

// --- pool_that_reschedules_by_a_number
// says: a duration: 1500ms, not 1.5s
// lines: 4
void move(tvec::timeout_pool<>& pool, tvec::timeout_handle h) { pool.reschedule(h, 100); }

// --- pool_that_takes_a_const_function
// says: take gives a function object
// lines: 12
struct mail {
    void operator()() const {}
};

auto take(tvec::timeout_pool<>& pool, tvec::timeout_handle h) { return pool.take<const mail>(h); }

// --- pool_whose_answers_are_thrown_away
// legal: a timeout may be nobody's
void add(tvec::timeout_pool<>& pool, tvec::mailbox_sender<>& sender) {
    (void)pool.schedule(1ms, [] {});
    (void)sender.schedule(1ms, [] {});
    pool.cancel({});
}

// --- pool_whose_refusal_is_not_looked_at
// says: it tells a refusal, such as too_many: check it, or cast it to void
// lines: 3
void add(tvec::timeout_pool<>& pool) {
    pool.schedule(1ms, [] {});
}

// --- pool_with_a_duration_for_a_deadline
// says: a time_point of its clock, then a function
// lines: 4
void add(tvec::timeout_pool<>& pool) {
    pool.schedule_at(1ms, [] {});
}

// --- pool_with_a_function_of_48_bytes_and_more
// says: capture a pointer to
// lines: 99
void add(tvec::timeout_pool<>& pool) {
    std::array<char, 64> many{};
    (void)pool.schedule(1ms, [many] { static_cast<void>(many); });
}

// --- pool_with_a_function_of_other_arguments
// says: a timeout's function is called with nothing, or with a const timeout_call&
// lines: 4
void add(tvec::timeout_pool<>& pool) {
    (void)pool.schedule(1ms, [](int) {});
}

// --- pool_with_a_function_that_only_moves
// legal: it is moved
void add(tvec::timeout_pool<>& pool) {
    (void)pool.schedule(1ms, [u = std::make_unique<int>(1)] {});
}

// --- pool_with_a_number_for_a_delay
// says: a duration: 1500ms, not 1.5s; then a function
// lines: 4
void add(tvec::timeout_pool<>& pool) {
    pool.schedule(100, [] {});
}

// --- pool_with_a_number_for_a_period
// says: a duration: 1500ms, not 1.5s
// lines: 4
void add(tvec::timeout_pool<>& pool) {
    pool.schedule_every(100, [] {});
}

// --- pool_with_a_start_and_a_number_for_a_period
// says: a start, a duration
// lines: 4
void add(tvec::timeout_pool<>& pool) {
    pool.schedule_every(std::chrono::steady_clock::now(), 100, [] {});
}

// --- pool_with_function_and_delay_swapped
// says: a duration: 1500ms, not 1.5s; then a function
// lines: 4
void add(tvec::timeout_pool<>& pool) {
    pool.schedule([] {}, 1ms);
}

// --- pool_with_its_start_after_its_period
// says: a start, a duration
// lines: 4
void add(tvec::timeout_pool<>& pool) {
    pool.schedule_every(100ms, std::chrono::steady_clock::now(), [] {});
}
