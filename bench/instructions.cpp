// Repeats one operation of the wheel, for callgrind to count its instructions: scripts/instructions
// runs it twice, and what differs is the operation's.
#include <cstdlib>
#include <string>
#include <vector>

#include "../examples/support/command_line.hpp"
#include "../examples/support/program.hpp"
#include "exercises.hpp"
#include "exercises_in_c.hpp"
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

std::vector<std::string> all_names() {
    std::vector<std::string> names;
    for (const auto& e : exercise::all) names.emplace_back(e.name);
    for (const auto& e : exercise_in_c::all) names.emplace_back(e.name);
    return names;
}

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "Repeats one operation of the wheel, for callgrind to count its instructions.",
        "instructions"};
    line.add_choice("operation", o.operation, all_names(), "what to do");
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
template <class Exercise> void repeat_if_it_has(const options& o, const plan& p) {
    for (const auto& e : Exercise::all) {
        if (e.name != o.operation) continue;
        auto* const wheel = new Exercise(p);
        (wheel->*e.prepare)();
        (wheel->*e.run)(o.times);
        std::_Exit(0);
    }
}

void repeat(const options& o) {
    const plan p(timers);
    repeat_if_it_has<exercise>(o, p);
    repeat_if_it_has<exercise_in_c>(o, p);
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("instructions", [&] {
        const options o = parse(argc, argv);
        if (o.compiler) fmt::print("{} {}\n", compiler(), BENCH_FLAGS);
        if (o.list)
            for (const std::string& name : all_names()) fmt::print("{}\n", name);
        if (!o.operation.empty()) repeat(o);
        return 0;
    });
}
