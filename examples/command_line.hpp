// What both programs do with their arguments.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace example {

// Parses, or ends the program: with the help if it was asked for, else with one line and status 2.
inline void parse_or_exit(CLI::App& app, int argc, char** argv) {
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& e) {
        std::exit(app.exit(e));
    } catch (const CLI::ParseError& e) {
        fmt::print(stderr, "{}: {} (see --help)\n", app.get_name(), e.what());
        std::exit(2);
    }
}

// One line of a summary.
template <class Value> void print_line(const char* what, const Value& value) {
    fmt::print("  {:<22}{}\n", what, value);
}

}  // namespace example
