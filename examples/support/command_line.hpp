// The command line of a program, and the lines of its summary.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

namespace CLI {
class App;
}

namespace example {

// The options of a program. A name without dashes is an argument by position; of an option that is
// given twice the last one counts. CLI11 does the work, apart from here (command_line.cpp), because
// it takes longer to compile than the programs themselves.
class command_line {
public:
    // `about` is what --help says first.
    command_line(const char* about, const char* program);
    ~command_line();
    command_line(const command_line&) = delete;
    command_line& operator=(const command_line&) = delete;

    void add_text(const char* name, std::string& value, const char* what);
    void add_flag(const char* name, bool& value, const char* what);
    // --version, which prints this.
    void add_version(const char* version);

    // A number from `least` to `most`; whole ones in decimal digits.
    template <class Number>
    void add_number(const char* name, Number& value, std::type_identity_t<Number> least,
                    std::type_identity_t<Number> most, const char* what);
    template <class Number>
    void add_number(const char* name, std::optional<Number>& value,
                    std::type_identity_t<Number> least, std::type_identity_t<Number> most,
                    const char* what);

    // One of these.
    template <class Value>
    void add_choice(const char* name, Value& value, const std::vector<Value>& choices,
                    const char* what);

    // Several: with commas between them, or each by itself.
    void add_texts(const char* name, std::vector<std::string>& values, const char* what);
    void add_choices(const char* name, std::vector<std::string>& values,
                     const std::vector<std::string>& choices, const char* what);
    template <class Number>
    void add_numbers(const char* name, std::vector<Number>& values, Number least, Number most,
                     const char* what);

    // Makes an option mandatory.
    void require(const char* name);
    // Adds a rule over several options: it returns the fault, or "". It is asked when each option
    // by itself is right.
    void add_rule(std::function<std::string()> fault) { rules_.push_back(std::move(fault)); }

    // Parses the arguments. Returns the fault in a line, or "". Prints the help, or the
    // version, and ends the program if it was asked for.
    std::string parse(int argc, char** argv);
    // The same, or ends the program with one line about what is wrong, and status 2.
    void parse_or_exit(int argc, char** argv);

private:
    std::unique_ptr<CLI::App> app_;
    std::vector<std::function<std::string()>> rules_;
};

// One line of a summary.
template <class Value> void print_line(const char* what, const Value& value) {
    fmt::print("  {:<22}{}\n", what, value);
}

}  // namespace example
