// Plays a recording of a program's timers through each structure. A structure that does not fire
// what the program's wheel fired, on the same ticks, fails the run.
#include <algorithm>
#include <string>
#include <vector>

#include "../../support/command_line.hpp"
#include "../../support/program.hpp"
#include "../report/machine.hpp"
#include "../report/report.hpp"
#include "../structures/contender.hpp"
#include "../workloads/recording.hpp"

namespace {

using namespace bench;

struct options {
    std::string file;
    std::vector<std::string> with;
    unsigned repetitions = 11;
    std::optional<unsigned> cpu;
};

options parse(int argc, char** argv) {
    options o;
    std::vector<std::string> all;
    for (const contender& c : contenders()) all.emplace_back(c.name);
    example::command_line line{
        "Plays a recording of a program's timers (echo_server --record) through each "
        "structure.",
        "replay"};
    line.add_text("file", o.file, "the recording");
    line.require("file");
    line.add_choices("--with", o.with, all, "only these structures");
    line.add_number("--repetitions", o.repetitions, 1, 1'000, "interleaved repetitions");
    line.add_number("--cpu", o.cpu, 0, last_cpu, "run on this CPU only");
    line.parse_or_exit(argc, argv);
    if (o.with.empty()) o.with = all;
    return o;
}

void require_same_fires(const recording& r, std::string_view who) {
    const auto& h = r.header();
    if (seen.fault() != nullptr) throw std::runtime_error(fmt::format("{} {}", who, seen.fault()));
    if (seen.fired() == h.fired && seen.checksum() == h.checksum) return;
    throw std::runtime_error(fmt::format(
        "the recorded wheel fired {} timers, {} fired {}; checksums of what fired when: {:x} and "
        "{:x}",
        h.fired, who, seen.fired(), h.checksum, seen.checksum()));
}

effort effort_of(const recording& r) {
    constexpr std::size_t few = 16;
    return {static_cast<double>(r.advances()), static_cast<double>(r.ticks()),
            r.distinct_delays() <= few};
}

// A coarse structure plays it once more, supervised, and that is compared.
double play(const contender& c, const stage& s, const recording& r) {
    const double spent = c.replay(s, r);
    if (c.supervised != nullptr) c.supervised->replay(s, r);
    require_same_fires(r, c.name);
    return spent;
}

void describe(const recording& r) {
    const auto& h = r.header();
    fmt::print("{} operations on {} timers over {} ticks of {} us; {} different delays; {} fired\n",
               h.operations, h.timers, r.ticks(), static_cast<double>(h.tick_nanoseconds) / 1e3,
               r.distinct_delays(), h.fired);
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("replay", [&] {
        options o = parse(argc, argv);
        pin_to(o.cpu);
        const recording recorded(o.file);
        const plan p(recorded.header().timers);
        const ground g(p.size(), false);
        report r;
        for (unsigned k = 0; k < o.repetitions; ++k)
            for (const contender& c : contenders()) {
                if (std::find(o.with.begin(), o.with.end(), c.name) == o.with.end()) continue;
                if (is_left_out(c, p.size(), effort_of(recorded))) continue;
                const double spent = play(c, {p, g, false}, recorded);
                r.row("replay, per operation", "ns", p.size()).by[std::string(c.name)].add(spent);
            }
        fmt::print("{}\n", machine());
        describe(recorded);
        fmt::print("medians of {} repetitions; ratio: tvec / best rival\n\n", o.repetitions);
        std::erase(o.with, "tvec");
        r.print(o.with);
        return 0;
    });
}
