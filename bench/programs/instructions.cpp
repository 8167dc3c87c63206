// Repeats operations of the wheel, for callgrind to count their instructions:
// scripts/checks/instructions has it count from each call of `counted` to its end.
#include <functional>
#include <string>
#include <vector>

#include "../../examples/support/command_line.hpp"
#include "../../examples/support/program.hpp"
#include "../report/machine.hpp"
#include "../workloads/awaiting.hpp"
#include "../workloads/operations_in_c.hpp"
#include "../workloads/single_operations.hpp"
#include "../workloads/worst_calls.hpp"

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
    for (const auto& e : awaiting::all) names.emplace_back(e.name);
    for (const auto& e : exercise_in_c::all) names.emplace_back(e.name);
    for (const auto& w : worst_call::all) names.emplace_back(w.name);
    return names;
}

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "Repeats operations of the wheel, for callgrind to count their instructions.",
        "instructions"};
    line.add_choice("operation", o.operation, all_names(), "what to do (all in turn)");
    line.add_number("--times", o.times, 1, timers, "how often, on as many timers");
    line.add_flag("--list", o.list, "list the operations");
    line.add_flag("--compiler", o.compiler, "say which compiler built this, and how");
    line.parse_or_exit(argc, argv);
    return o;
}

// Callgrind writes what it has counted before and after.
[[gnu::noinline]] void counted(const std::function<void()>& run) {
    run();
    asm volatile("");  // it ends here: no jump into `run`
}

template <class Exercise> void repeat_those_of(const options& o, const plan& p) {
    for (const auto& e : Exercise::all) {
        if (!o.operation.empty() && e.name != o.operation) continue;
        const auto exercise = std::make_unique<Exercise>(p);
        (*exercise.*e.prepare)();
        counted([&] { (*exercise.*e.run)(o.times); });
    }
}

void call_the_worst(const options& o) {
    for (const auto& w : worst_call::all)
        if (o.operation.empty() || w.name == o.operation)
            (*std::make_unique<worst_call>(counted).*w.run)();
}

void repeat(const options& o) {
    const plan p(timers);
    repeat_those_of<exercise>(o, p);
    repeat_those_of<awaiting>(o, p);
    repeat_those_of<exercise_in_c>(o, p);
    call_the_worst(o);
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("instructions", [&] {
        const options o = parse(argc, argv);
        if (o.compiler)
            fmt::print("{} {}\n", compiler(), BENCH_FLAGS);
        else if (o.list)
            fmt::print("{}\n", fmt::join(all_names(), "\n"));
        else
            repeat(o);
        return 0;
    });
}
