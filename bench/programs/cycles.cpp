// Measures single operations of the wheel in cycles of the core, beside the processor's own
// counters. Batches of an operation are timed, each on a new wheel. The least and the median of the
// batches are shown, per operation.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "../../support/command_line.hpp"
#include "../../support/program.hpp"
#include "../report/machine.hpp"
#include "../report/perf_counters.hpp"
#include "../report/report.hpp"
#include "../report/tsc.hpp"
#include "../workloads/clocked_operations.hpp"
#include "../workloads/game_operations.hpp"
#include "../workloads/single_operations.hpp"

namespace {

using namespace bench;

struct options {
    std::size_t timers = 1'000;
    unsigned batches = 200;
    std::optional<unsigned> cpu;
    std::string clocks;
};

options parse(int argc, char** argv) {
    options o;
    example::command_line line{"What operations of the wheel take, in cycles of the core.",
                               "cycles"};
    line.add_number("--timers", o.timers, 1, 10'000'000,
                    "timers in the wheel, and operations in a batch");
    line.add_number("--batches", o.batches, 1, 1'000'000, "batches of each operation");
    line.add_number("--cpu", o.cpu, 0, last_cpu, "run on this CPU only");
    line.add_text("--clocks", o.clocks, "compare real clocks only, and write this CSV");
    line.parse_or_exit(argc, argv);
    return o;
}

// The TSC's counts of each batch, sorted.
using counts = std::vector<std::uint64_t>;

template <class F> counts time_batches(const options& o, const plan& p, F batch) {
    counts all;
    for (unsigned k = 0; k < o.batches; ++k) all.push_back(batch(p));
    std::sort(all.begin(), all.end());
    return all;
}

counts empty_batches(const options& o, const plan& p) {
    return time_batches(o, p, [](const plan&) {
        const std::uint64_t begin = tsc_begin();
        return tsc_end() - begin;
    });
}

template <class Exercise>
counts batches_of(const options& o, const plan& p, const typename Exercise::named& e) {
    return time_batches(o, p, [&](const plan& what) {
        Exercise wheel(what);
        (wheel.*e.prepare)();
        const std::uint64_t begin = tsc_begin();
        (wheel.*e.run)(what.size());
        return tsc_end() - begin;
    });
}

// Converts counts of the TSC.
struct scale {
    double cycle = counts_per_core_cycle();
    double nanoseconds = nanoseconds_per_count();
    std::uint64_t empty;  // what a measurement takes in which nothing is done
};

template <class Exercise> void print_each(const options& o, const plan& p, const scale& s) {
    for (const auto& e : Exercise::all) {
        const counts all = batches_of<Exercise>(o, p, e);
        const auto each = [&](std::uint64_t batch) {
            return static_cast<double>(batch - std::min(batch, s.empty)) /
                   static_cast<double>(p.size());
        };
        const double least = each(all.front()), median = each(all[all.size() / 2]);
        fmt::print("{:<16}{:>12.2f}{:>12.2f}{:>10.2f}{:>10.2f}\n", e.name, least / s.cycle,
                   median / s.cycle, least * s.nanoseconds, median * s.nanoseconds);
    }
}

void print_times(const options& o, const plan& p) {
    const scale s{.empty = empty_batches(o, p)[o.batches / 2]};
    fmt::print("TSC {:.3f} GHz, core {:.3f} GHz ({:.4f} counts per cycle); an empty measurement "
               "takes {} counts and is subtracted\n"
               "per operation, in batches of {}\n\n",
               1 / s.nanoseconds, 1 / (s.nanoseconds * s.cycle), s.cycle, s.empty, p.size());
    fmt::print("{:<16}{:>12}{:>12}{:>10}{:>10}\n", "", "cycles, min", "cycles, p50", "ns, min",
               "ns, p50");
    print_each<exercise>(o, p, s);
    fmt::print("\npush back on a wheel with a clock\n");
    print_each<clocked_exercise>(o, p, s);
    fmt::print("\nall timers of a game at once, per timer\n");
    print_each<game_exercise>(o, p, s);
}

// Counts with a counter of the processor that is available.
double per_operation(const options& o, const plan& p, const exercise::named& e,
                     const perf_counter::kind& k) {
    perf_counter counter(k);
    for (unsigned i = 0; i < o.batches; ++i) {
        exercise wheel(p);
        (wheel.*e.prepare)();
        counter.run();
        (wheel.*e.run)(p.size());
        counter.pause();
    }
    const auto n = static_cast<double>(counter.count().value());
    return n / o.batches / static_cast<double>(p.size());
}

void print_counters(const options& o, const plan& p) {
    std::vector<perf_counter::kind> here;
    fmt::print("\nthe processor's counters, per operation\n\n");
    for (const auto& k : perf_counter::kinds)
        if (perf_counter(k).count())
            here.push_back(k);
        else
            fmt::print("{}: not available here\n", k.name);
    if (here.empty()) return;
    fmt::print("{:<16}", "");
    for (const auto& k : here) fmt::print("{:>14}", k.name);
    for (const auto& e : exercise::all) {
        fmt::print("\n{:<16}", e.name);
        for (const auto& k : here) fmt::print("{:>14.3f}", per_operation(o, p, e, k));
    }
    fmt::print("\n");
}

struct clock_row {
    std::string clock;
    std::array<samples, 3> ns{};  // arm, push back, run with nothing due
};

// Adds a batch of each operation, in nanoseconds per operation.
template <class Clock> void measure_clock(clock_row& row, const plan& p, const scale& s) {
    turn_exercise<Clock> turns(p);
    const auto measure = [&](samples& to, auto batch) {
        const std::uint64_t begin = tsc_begin();
        batch();
        const std::uint64_t passed = tsc_end() - begin;
        to.add(static_cast<double>(passed - std::min(passed, s.empty)) * s.nanoseconds /
               static_cast<double>(p.size()));
    };
    turns.unlink_all();
    measure(row.ns[0], [&] { turns.arm_all(); });
    measure(row.ns[1], [&] { turns.arm_all(); });
    measure(row.ns[2], [&] { turns.run_with_nothing_due(); });
}

void compare_clocks(const options& o, const plan& p) {
    const scale s{.empty = empty_batches(o, p)[o.batches / 2]};
    std::array<clock_row, 5> rows{{{"none: the bare wheel"},
                                   {"`turn_clock<>`"},
                                   {"`turn_clock<tsc_clock>`"},
                                   {"`tsc_clock`"},
                                   {"`steady_clock`"}}};
    for (unsigned k = 0; k < o.batches; ++k) {
        measure_clock<void>(rows[0], p, s);
        measure_clock<tvec::turn_clock<>>(rows[1], p, s);
        measure_clock<tvec::turn_clock<tvec::tsc_clock>>(rows[2], p, s);
        measure_clock<tvec::tsc_clock>(rows[3], p, s);
        measure_clock<std::chrono::steady_clock>(rows[4], p, s);
    }
    std::string csv = fmt::format("# {}\nclock", machine());
    for (const char* work : {"arm_unlinked", "push_back", "run"})
        csv += fmt::format(",{0}_ns,{0}_ratio", work);
    for (const clock_row& r : rows) {
        csv += "\n" + r.clock;
        for (std::size_t i = 0; i < r.ns.size(); ++i)
            csv += fmt::format(",{:.3g},{:.3g}", r.ns[i].median(), r.ns[i].over(rows[0].ns[i]));
    }
    example::output_file file(o.clocks);
    fmt::print(file.get(), "{}\n", csv);
    file.finish();
    fmt::print("{}\n", csv);
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("cycles", [&] {
        const options o = parse(argc, argv);
        pin_to(o.cpu);
        const plan p(o.timers);
        fmt::print("{}\n", machine());
        if (!o.clocks.empty()) {
            compare_clocks(o, p);
            return 0;
        }
        print_times(o, p);
        print_counters(o, p);
        return 0;
    });
}
