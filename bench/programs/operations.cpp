// Measures each operation on tvec and on its rivals, all in one run. Repetitions are interleaved,
// so that a busy neighbour hurts all of them: read the ratios. A run fails if two structures did
// not fire the same objects on the same ticks. docs/benchmarks.md says more.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "../../examples/support/command_line.hpp"
#include "../../examples/support/program.hpp"
#include "../report/comparison.hpp"
#include "../report/machine.hpp"
#include "../report/noise.hpp"

namespace {

using namespace bench;

struct options {
    std::vector<std::size_t> sizes{1'000, 100'000, 1'000'000};
    rules how;
    unsigned repetitions = 5;
    std::optional<unsigned> seconds;
    std::string counters;
    std::string csv;
    std::string structures;
    std::string samples;
    placement place;
};

std::vector<std::string> columns(const rules& how) {
    std::vector<std::string> names;
    for (const contender& c : contenders())
        if (c.name != "tvec" && how.takes(c)) names.emplace_back(c.name);
    names.emplace_back("floor");
    return names;
}

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "What timer operations cost, on tvec and on what people use instead.", "operations"};
    line.add_numbers("--sizes", o.sizes, std::size_t{3}, std::size_t{100'000'000},
                     "numbers of timers");
    line.add_number("--repetitions", o.repetitions, 1, 1'000,
                    "interleaved repetitions of each row; half of them above 100000 timers");
    line.add_number("--seconds", o.seconds, 1, 1'000'000,
                    "end by then: first repetitions give way, then rivals that are slow in a row");
    line.add_texts("--rows", o.how.rows, "only rows whose names contain one of these");
    std::vector<std::string> names;
    for (const contender& c : contenders()) names.emplace_back(c.name);
    line.add_choices("--with", o.how.with, names, "these structures only");
    line.add_text("--counters", o.counters,
                  "count cycles, instructions, their ratio (IPC) and misses, too, into this CSV");
    line.add_text("--csv", o.csv, "write medians, ratios and spreads to this file");
    line.add_text("--structures", o.structures,
                  "write what each structure is to this file, as CSV");
    line.add_text("--samples", o.samples,
                  "write every single operation that is measured to this file, as CSV: megabytes");
    o.place.offer_with_pages(line);
    line.parse_or_exit(argc, argv);
    o.how.huge_pages = o.place.huge_pages;
    return o;
}

std::optional<example::output_file> open(const std::string& file) {
    if (file.empty()) return std::nullopt;
    return example::output_file(file);
}

report measure(const options& o, timetable& times) {
    report r;
    for (const std::size_t n : o.sizes) std::make_unique<tournament>(n, o.how, r, times)->run();
    if (r.empty())
        throw std::runtime_error(
            fmt::format("no row's name contains '{}'", fmt::join(o.how.rows, "' or '")));
    return r;
}

void write_structures(example::output_file& file) {
    fmt::print(file.get(), "structure,what,deadlines,order,allocation,cancel\n");
    for (const contender& c : contenders())
        fmt::print(file.get(), "\"{}\",\"{}\",\"{}\",\"{}\",\"{}\",\"{}\"\n", c.name, c.is.what,
                   c.supervised == nullptr ? "exact" : "coarse", c.is.order, c.is.allocation,
                   c.is.cancel);
    file.finish();
}

constexpr const char* left_out =
    "Left out of each row: setting up, waking the loop, reading a clock, system calls, and what "
    "the program does between.\n"
    "A row in ns is a batch, which hides its slowest operations. It runs the same orders again and "
    "again, and the processor learns them; \"connection\" rows do not.\n"
    "\"one ...\" and \"order\" measure each operation by itself: reading the counter is in it "
    "(row \"empty measurement\"), and no operation overlaps the next.\n"
    "Their worst contains interruptions; of ticks and loops each call is the least of the "
    "repetitions.\n\n";

// Counts into `counts`, and says what the machine cannot count.
void count_into(report& counts, event_counters& counters, rules& how) {
    std::vector<const char*> missing;
    for (const counted k : {cycles, instructions, branch_misses, cache_misses})
        if (!counters.has(k)) missing.push_back(names_of_counted[k]);
    if (!missing.empty())
        fmt::print(stderr, "not counted here: {} (cycles are the clock's instead)\n",
                   fmt::join(missing, ", "));
    counting = &counters;
    how.counts = &counts;
    how.cycle_ns = nanoseconds_per_count() * counts_per_core_cycle();
}

void run(options& o) {
    auto csv = open(o.csv), structures = open(o.structures), counters = open(o.counters),
         samples = open(o.samples);
    o.place.take();
    for (const contender& c : contenders())
        if (c.supervised != nullptr) coarse_structures.emplace(c.name);
    report counts;
    event_counters events;
    if (counters) count_into(counts, events, o.how);
    if (samples) {
        o.how.samples = samples->get();
        fmt::print(o.how.samples, "work,timers,structure,repetition,ns\n");
    }
    const noise_watch noise;
    const double begin = system_nanoseconds(CLOCK_MONOTONIC);
    timetable times(parts_of(o.repetitions, o.sizes), o.seconds,
                    [&] { return (system_nanoseconds(CLOCK_MONOTONIC) - begin) / 1e9; });
    const report r = measure(o, times);
    const std::string from = fmt::format("{}; the run was {}", machine(), noise.verdict());
    fmt::print("{}\n{}, ± their median absolute deviation; ratio: tvec / best "
               "rival; -: cannot do it, or would take over {} s\n\n",
               from, say_repetitions(times.done()), longest_expected);
    for (const std::string& line : times.who_gave_way()) fmt::print("{}\n", line);
    r.print(columns(o.how));
    counts.print(columns(o.how));
    fmt::print("{}", left_out);
    if (samples) samples->finish();
    if (csv) r.write_csv(*csv, from);
    if (counters) counts.write_csv(*counters, from);
    if (structures) write_structures(*structures);
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("operations", [&] {
        options o = parse(argc, argv);
        run(o);
        return 0;
    });
}
