// The commands of tvec-timers. The tool runs them on a store, and `serve` on its timers.
#pragma once

#include "../../examples/support/task.hpp"
#include "output.hpp"
#include "settings.hpp"
#include "view.hpp"

namespace timers_tool {

// Runs a command other than `serve`. Returns the exit status, or throws std::runtime_error. All
// arguments outlive the task.
example::task<int> run_command(const settings& o, view& v, output& out);

// Prints the next ten times of the rule of a plan. Throws if there is none.
void print_times(const settings& o, output& out);

}  // namespace timers_tool
