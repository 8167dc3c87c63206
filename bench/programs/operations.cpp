// Measures each operation on tvec and on its rivals, all in one run. Repetitions are interleaved,
// so that a busy neighbour hurts all of them: read the ratios. A run fails if two structures did
// not fire the same objects on the same ticks. docs/benchmarks.md says more.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "../../support/command_line.hpp"
#include "../../support/program.hpp"
#include "../report/comparison.hpp"
#include "../report/machine.hpp"

namespace {

using namespace bench;

struct options {
    std::vector<std::size_t> sizes{1'000, 100'000, 1'000'000};
    rules how;
    std::vector<std::string> also;
    std::string csv;
    std::string json;
    std::string structures;
    std::optional<unsigned> cpu;
};

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "What timer operations cost, on tvec and on what people use instead.", "operations"};
    line.add_numbers("--sizes", o.sizes, std::size_t{3}, std::size_t{100'000'000},
                     "numbers of timers");
    line.add_number("--repetitions", o.how.repetitions, 1, 1'000,
                    "interleaved repetitions of each row");
    line.add_text("--rows", o.how.rows, "only rows whose name contains this");
    line.add_texts("--also", o.also, "add the rows of this file: work,timers,unit,structure,value");
    line.add_text("--csv", o.csv, "write medians and ratios to this file");
    line.add_text("--json", o.json, "the same as JSON, with minima and maxima");
    line.add_text("--structures", o.structures,
                  "write what each structure is to this file, as CSV");
    line.add_number("--cpu", o.cpu, 0, last_cpu, "run on this CPU only");
    line.add_flag("--huge-pages", o.how.huge_pages, "ask for huge pages for the objects");
    line.parse_or_exit(argc, argv);
    return o;
}

std::vector<std::string> columns(const options& o) {
    std::vector<std::string> names;
    for (const contender& c : contenders())
        if (c.name != "tvec") names.emplace_back(c.name);
    if (!o.also.empty()) names.emplace_back("netty");
    names.emplace_back("floor");
    return names;
}

std::optional<example::output_file> open(const std::string& file) {
    if (file.empty()) return std::nullopt;
    return example::output_file(file);
}

std::vector<foreign_sample> read_all(const std::vector<std::string>& files) {
    std::vector<foreign_sample> all;
    for (const std::string& file : files)
        for (const foreign_sample& s : read_samples(file)) all.push_back(s);
    return all;
}

report measure(const options& o, const std::vector<foreign_sample>& foreign) {
    report r;
    for (const std::size_t n : o.sizes) std::make_unique<tournament>(n, o.how, r)->run();
    if (r.empty()) throw std::runtime_error(fmt::format("no row's name contains '{}'", o.how.rows));
    for (const foreign_sample& s : foreign) r.add(s);
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

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("operations", [&] {
        const options o = parse(argc, argv);
        auto csv = open(o.csv), json = open(o.json), structures = open(o.structures);
        const std::vector<foreign_sample> foreign = read_all(o.also);
        pin_to(o.cpu);
        for (const contender& c : contenders())
            if (c.supervised != nullptr) coarse_structures.emplace(c.name);
        const report r = measure(o, foreign);
        fmt::print("{}\nmedians of {} repetitions; ratio: tvec / best rival; -: cannot do it, or "
                   "would take over {} s\n\n",
                   machine(), o.how.repetitions, longest_expected);
        r.print(columns(o));
        if (csv) r.write_csv(*csv, machine());
        if (json) r.write_json(*json, machine());
        if (structures) write_structures(*structures);
        return 0;
    });
}
