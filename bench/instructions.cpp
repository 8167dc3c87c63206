// Repeats one operation of the wheel, for callgrind to count its instructions: scripts/instructions
// runs it twice, and what differs is the operation's.
#include <cstdlib>
#include <string>
#include <vector>

#include "../examples/support/command_line.hpp"
#include "../examples/support/program.hpp"
#include "exercises.hpp"
#include "machine.hpp"

namespace {

using namespace bench;

struct options {
    std::string operation;
    std::size_t times = 1'000;
    bool list = false;
    bool compiler = false;
};

constexpr std::size_t timers = 32'768;

options parse(int argc, char** argv) {
    options o;
    std::vector<std::string> names;
    for (const auto& e : exercise::all) names.emplace_back(e.name);
    example::command_line line{
        "Repeats one operation of the wheel, for callgrind to count its instructions.",
        "instructions"};
    line.add_choice("operation", o.operation, names, "what to do");
    line.add_number("--times", o.times, 1, timers, "how often, on as many timers");
    line.add_flag("--list", o.list, "list the operations");
    line.add_flag("--compiler", o.compiler, "say which compiler built this, and how");
    line.add_rule([&o] {
        return o.operation.empty() == (o.list || o.compiler)
                   ? ""
                   : "an operation is needed, or --list or --compiler";
    });
    line.parse_or_exit(argc, argv);
    return o;
}

// The set-up is the same however often the operation is done, and nothing is torn down, so that
// the count grows by the operation alone.
[[noreturn]] void repeat(const options& o) {
    const plan p(timers);
    exercise wheel(p);
    for (const auto& e : exercise::all) {
        if (e.name != o.operation) continue;
        (wheel.*e.prepare)();
        (wheel.*e.run)(o.times);
    }
    std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("instructions", [&] {
        const options o = parse(argc, argv);
        if (o.compiler) fmt::print("{} {}\n", compiler(), BENCH_FLAGS);
        if (o.list)
            for (const auto& e : exercise::all) fmt::print("{}\n", e.name);
        if (!o.operation.empty()) repeat(o);
        return 0;
    });
}
