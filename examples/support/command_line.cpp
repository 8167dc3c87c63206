#include "command_line.hpp"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include <CLI/CLI.hpp>

#include "program.hpp"

namespace example {

namespace {

// All options are declared here, so that they behave alike.
template <class Value>
CLI::Option& add_one(CLI::App& app, const char* name, Value& value, const char* what) {
    return *app.add_option(name, value, what)->take_last();
}

template <class Value>
CLI::Option& add_several(CLI::App& app, const char* name, Value& values, const char* what) {
    return *app.add_option(name, values, what)->delimiter(',')->capture_default_str();
}

// Whole numbers are decimal. CLI11 takes 010 for 8, and what is below 0 or too large for 64 bits
// for some other number.
template <class Number> bool read(const std::string& text, Number& value) {
    if constexpr (std::is_floating_point_v<Number>) {
        return CLI::detail::lexical_cast(text, value);
    } else {
        const char* const end = text.data() + text.size();
        const auto [stopped, error] = std::from_chars(text.data(), end, value);
        return error == std::errc() && stopped == end;
    }
}

// As CLI::Range, which takes "not a number" for a number in every range. Rewrites the number as
// CLI11 reads it.
template <class Number> CLI::Validator range(Number least, Number most) {
    CLI::Validator all = CLI::Range(least, most);
    all.operation([least, most](std::string& text) -> std::string {
        Number value;
        if (!read(text, value) || !(value >= least && value <= most))
            return fmt::format("Value {} not in range {} to {}", text, least, most);
        if (!std::is_floating_point_v<Number>) text = fmt::to_string(value);
        return "";
    });
    return all;
}

}  // namespace

command_line::command_line(const char* about, const char* program)
    : app_(std::make_unique<CLI::App>(about, program)) {}
command_line::~command_line() = default;

void command_line::add_text(const char* name, std::string& value, const char* what) {
    add_one(*app_, name, value, what).capture_default_str();
}

void command_line::add_flag(const char* name, bool& value, const char* what) {
    app_->add_flag(name, value, what);
}

void command_line::add_version(const char* version) {
    app_->set_version_flag("--version", version);
}

template <class Number>
void command_line::add_number(const char* name, Number& value, std::type_identity_t<Number> least,
                              std::type_identity_t<Number> most, const char* what) {
    add_one(*app_, name, value, what).transform(range(least, most))->capture_default_str();
}

template <class Number>
void command_line::add_number(const char* name, std::optional<Number>& value,
                              std::type_identity_t<Number> least, std::type_identity_t<Number> most,
                              const char* what) {
    add_one(*app_, name, value, what).transform(range(least, most));
}

template <class Value>
void command_line::add_choice(const char* name, Value& value, const std::vector<Value>& choices,
                              const char* what) {
    add_one(*app_, name, value, what).check(CLI::IsMember(choices))->capture_default_str();
}

void command_line::add_texts(const char* name, std::vector<std::string>& values, const char* what) {
    add_several(*app_, name, values, what);
}

void command_line::add_choices(const char* name, std::vector<std::string>& values,
                               const std::vector<std::string>& choices, const char* what) {
    add_several(*app_, name, values, what).check(CLI::IsMember(choices));
}

template <class Number>
void command_line::add_numbers(const char* name, std::vector<Number>& values, Number least,
                               Number most, const char* what) {
    add_several(*app_, name, values, what).transform(range(least, most));
}

void command_line::require(const char* name) {
    app_->get_option(name)->required()->default_str("");  // what is required has no default
}

std::string command_line::parse(int argc, char** argv) {
    try {
        app_->parse(argc, argv);
    } catch (const CLI::Success& e) {
        std::exit(run_program(app_->get_name().c_str(), [&] { return app_->exit(e); }));
    } catch (const CLI::ParseError& e) {
        return e.what();
    }
    for (const auto& rule : rules_)
        if (std::string fault = rule(); !fault.empty()) return fault;
    return "";
}

void command_line::parse_or_exit(int argc, char** argv) {
    const std::string fault = parse(argc, argv);
    if (fault.empty()) return;
    fmt::print(stderr, "{}: {} (see --help)\n", app_->get_name(), fault);
    std::exit(2);
}

// The number types of the programs: each takes long to compile.
#define INSTANTIATE(Number)                                                                        \
    template void command_line::add_number(const char*, Number&, Number, Number, const char*);
#define INSTANTIATE_OPTIONAL(Number)                                                               \
    INSTANTIATE(Number)                                                                            \
    template void command_line::add_number(const char*, std::optional<Number>&, Number, Number,    \
                                           const char*);
#define INSTANTIATE_SEVERAL(Number)                                                                \
    INSTANTIATE_OPTIONAL(Number)                                                                   \
    template void command_line::add_numbers(const char*, std::vector<Number>&, Number, Number,     \
                                            const char*);
#define INSTANTIATE_CHOICE(Value)                                                                  \
    template void command_line::add_choice(const char*, Value&, const std::vector<Value>&,         \
                                           const char*);

INSTANTIATE(int)
INSTANTIATE(double)
INSTANTIATE_OPTIONAL(unsigned short)
INSTANTIATE_SEVERAL(unsigned)
INSTANTIATE_SEVERAL(std::uint64_t)
INSTANTIATE_CHOICE(unsigned)
INSTANTIATE_CHOICE(std::string)

}  // namespace example
