// The line of tsc_clock, and the end of a timer_thread.
#include "atomic.hpp"
#include "tvec/extra/tsc_clock.hpp"

namespace orders {

namespace {

// Each thread reads so often. A line has the same number in all its members.
template <int Lines, int Readings, int Readers> void lines_are_read() {
    auto& line = *new tvec::detail::line_behind_a_lock<atomic>;
    add_thread("writer", [&line] {
        for (word n = 1; n <= Lines; ++n) line.store({n, n, n, static_cast<std::int64_t>(n)});
    });
    const auto read = [&line] {
        word last = 0;
        for (int i = 0; i < Readings; ++i) {
            const tvec::detail::counter_line l = line.load();
            if (l.counts == 0) continue;
            expect(l.first == l.counts && l.rate == l.counts &&
                       static_cast<word>(l.begin) == l.counts,
                   "a reading mixes two lines");
            expect(l.counts >= last, "a reading is of an older line than the last one");
            last = l.counts;
        }
    };
    for (int i = 0; i < Readers; ++i) add_thread("reader", read);
}

// As in src/extra/timer_thread.cpp: `stop` stores, rings and joins; the thread looks, and sleeps.
void thread_ends() {
    struct timer {
        atomic<word> stopping{0};
        bell doorbell;
    };
    timer& t = *new timer;
    add_thread("timer", [&t] {
        while (t.stopping.load(std::memory_order_relaxed) == 0) t.doorbell.sleep();
    });
    add_thread("stopper", [&t] {
        t.stopping.store(1, std::memory_order_relaxed);
        t.doorbell.ring();
    });
}

}  // namespace

std::vector<named_program> other_programs() {
    return {
        {"tsc_clock: a reading is of one line", lines_are_read<1, 2, 1>},
        {"tsc_clock: readings of two lines", lines_are_read<2, 2, 1>},
        {"tsc_clock: readings of two threads", lines_are_read<1, 1, 2>, 2},
        {"timer_thread: its thread ends, told by the bell", thread_ends, -1, false, true},
        {"timer_thread: a bell that carries nothing", thread_ends, -1, true},
    };
}

}  // namespace orders
