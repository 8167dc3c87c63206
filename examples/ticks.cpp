// The code of docs/ticks.md: the same thousand delays on wheels of different ticks. The time is
// simulated, so the result depends on the tick and not on the machine. Exits with 1 if a timer is
// early, or more than a tick late.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

#include "tvec/extra/lateness_histogram.hpp"
#include "tvec/tvec.hpp"

namespace {

using hundred_us = std::chrono::duration<std::int64_t, std::ratio<1, 10'000>>;
using ten_ms = std::chrono::duration<std::int64_t, std::ratio<1, 100>>;
using frame = std::chrono::duration<std::int64_t, std::ratio<1, 60>>;

tvec::clocked_wheel<tvec::tick_clock<hundred_us>> precise;
tvec::clocked_wheel<> usual;  // a millisecond
tvec::clocked_wheel<tvec::tick_clock<ten_ms>> coarse;
tvec::clocked_wheel<tvec::tick_clock<frame>> game;  // exact, though no whole number of ns

using std::chrono::nanoseconds;
using tvec::manual_clock;

struct settings {
    std::chrono::microseconds tick{250};
};

struct service {
    explicit service(const settings& from) : timers(tvec::runtime_tick_clock<>(from.tick)) {}

    tvec::clocked_wheel<tvec::runtime_tick_clock<>> timers;
};

bool has_the_tick_it_was_given(std::chrono::microseconds tick) {
    const service s(settings{tick});
    return s.timers.ticks().start_of(4) - s.timers.ticks().origin() == 4 * tick;
}

struct delay {
    // [record]
    void on_due() { late->record(manual_clock::now() - deadline); }
    // [record]
    tvec::lateness_histogram* late;
    manual_clock::time_point deadline;
    tvec::timer due{tvec::call<&delay::due, &delay::on_due>};
};

// A thousand delays of up to ten seconds, in a loop that wakes exactly when it should.
template <class Tick> bool try_out(const char* name) {
    tvec::clocked_wheel<tvec::tick_clock<Tick, manual_clock>> timers;
    tvec::lateness_histogram late;
    unsigned wakeups = 0;
    std::vector<delay> delays(1000);
    std::mt19937 random(7);
    for (delay& d : delays) {
        d.late = &late;
        d.deadline = timers.after(nanoseconds(random() % 10'000'000'000));
        timers.arm_at(d.due, d.deadline);
    }
    for (auto next = timers.next_wakeup(); next; next = timers.next_wakeup(), ++wakeups) {
        manual_clock::set(*next);
        timers.run();
    }
    const auto us = [](nanoseconds t) { return static_cast<double>(t.count()) / 1000; };
    std::printf("%-8s%12.0f%12.0f%12u\n", name, us(late.quantile(0.5)), us(late.max()), wakeups);
    return late.count() == delays.size() && late.early() == 0 && late.max() < Tick(1);
}

}  // namespace

int main() {
    std::puts("tick    late: half       all    wake-ups     (us)");
    const bool fine[] = {try_out<hundred_us>("100 us"), try_out<std::chrono::milliseconds>("1 ms"),
                         try_out<ten_ms>("10 ms"), try_out<frame>("1/60 s")};
    const bool empty = !precise.next_wakeup() && !usual.next_wakeup() && !coarse.next_wakeup() &&
                       !game.next_wakeup();
    const bool chosen = has_the_tick_it_was_given(std::chrono::microseconds(250)) &&
                        has_the_tick_it_was_given(std::chrono::microseconds(1));
    const bool all = std::all_of(std::begin(fine), std::end(fine), [](bool b) { return b; });
    return all && empty && chosen ? 0 : 1;
}
