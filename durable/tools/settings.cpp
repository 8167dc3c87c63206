#include "settings.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "../../examples/support/command_line.hpp"
#include "../support/open_store.hpp"
#include "tvec/version.hpp"

namespace timers_tool {

namespace {

using namespace tvec::durable;

// The highest deadline, the longest delay or period, and the longest list.
constexpr auto last = static_cast<std::uint64_t>(latest_due.time_since_epoch().count());
constexpr std::uint64_t longest = last / 2, most_listed = 1'000'000'000;

// The names that a command takes: of one timer, of all with a prefix, or one of the two.
enum class naming { none, id, prefix, either };

naming naming_of(const std::string& command) {
    for (const char* const word : {"list", "near", "overdue", "dead"})
        if (command == word) return naming::prefix;
    if (command == "purge") return naming::either;
    naming found = command == "get" || command == "put" ? naming::id : naming::none;
    for_each_change([&]<class Operation>(Operation) {
        if (command == Operation::name)
            found = tvec::durable::detail::changes_many<Operation> ? naming::either : naming::id;
    });
    return found;
}

// Returns the lines of help on the operations that change one timer.
std::string help_on_changes() {
    std::string lines;
    for_each_change([&]<class Operation>(Operation o) {
        lines += "  " + (o.name + std::string(" ID")).append(21, ' ').substr(0, 21) + o.about;
        lines += tvec::durable::detail::changes_many<Operation> ? ", or all of a --prefix\n" : "\n";
    });
    return lines;
}

std::string fault_of_name(const settings& o) {
    if (o.command == "next")
        return o.id.empty() ? "a plan is needed" : o.prefix.empty() ? "" : "no prefix is needed";
    const naming by = naming_of(o.command);
    if (o.all) {
        if (o.command != "purge") return "--all is for purge";
        return o.id.empty() && o.prefix.empty() ? "" : "--all needs no id and no prefix";
    }
    if (by == naming::id || (by == naming::either && o.prefix.empty())) {
        if (o.id.empty() || o.id.size() > longest_id) return "an id of 1 to 255 bytes is needed";
        return o.prefix.empty() ? "" : "no prefix is needed";
    }
    if (!o.id.empty())
        return by == naming::either ? "an id and a prefix are two names" : "no id is needed";
    return !o.prefix.empty() && by == naming::none ? "no prefix is needed" : "";
}

// Splits `--name=` without a value into the name and an empty word, because CLI11 would take the
// next word as the value. What it returns is valid for as long as `kept`.
std::vector<char*> with_empty_values(int argc, char** argv, std::vector<std::string>& kept) {
    kept.reserve(2 * static_cast<std::size_t>(argc));
    std::vector<char*> words;
    for (char** word = argv; word != argv + argc; ++word) {
        const std::string_view text = *word;
        if (text == "--") {  // no option follows
            words.insert(words.end(), word, argv + argc);
            break;
        }
        if (!text.starts_with("--") || text.find('=') != text.size() - 1) {
            words.push_back(*word);
            continue;
        }
        for (const std::string_view part : {text.substr(0, text.size() - 1), std::string_view()})
            words.push_back(kept.emplace_back(part).data());
    }
    return words;
}

// Makes an object of a message. It stops at the first value inside another, because the parser of
// the library calls itself for each level of nesting.
class flat_reader final : public nlohmann::json_sax<nlohmann::json> {
public:
    nlohmann::json object = nlohmann::json::object();

    bool null() override { return false; }
    bool boolean(bool b) override { return enter(b); }
    bool number_integer(number_integer_t n) override { return enter(n); }
    bool number_unsigned(number_unsigned_t n) override { return enter(n); }
    bool number_float(number_float_t, const string_t&) override { return false; }
    bool string(string_t& s) override { return enter(std::move(s)); }
    bool binary(binary_t&) override { return false; }
    bool start_object(std::size_t) override { return !std::exchange(is_begun_, true); }
    bool key(string_t& k) override {
        key_ = std::move(k);
        return true;
    }
    bool end_object() override { return true; }
    bool start_array(std::size_t) override { return false; }
    bool end_array() override { return false; }
    bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
        return false;
    }

private:
    bool enter(nlohmann::json value) {
        object[key_] = std::move(value);
        return is_begun_;
    }

    bool is_begun_ = false;
    string_t key_;
};

// Returns a number of a message. Throws if it is out of range.
std::uint64_t number_of(const nlohmann::json& m, const char* name, std::uint64_t least,
                        std::uint64_t most) {
    const auto n = m.at(name).get<std::uint64_t>();
    if (n >= least && n <= most) return n;
    throw std::runtime_error(fmt::format("{} is {}: expected {} to {}", name, n, least, most));
}

}  // namespace

std::uint64_t most_in_flight(const settings& o) {
    const bool is_hook = o.to.starts_with("http:") || o.to.starts_with("unix:");
    return o.in_flight.value_or(is_hook ? 32 : 1'000);
}

std::string fault_of(const settings& o) {
    if (std::string fault = fault_of_name(o); !fault.empty()) return fault;
    if (o.in_ms && o.due_ms) return "--in-ms and --due-ms are two deadlines";
    if (o.wait_replicas != 0 && !example::is_redis(o.store))
        return "--wait-replicas is for redis:...";
    if (o.command == "serve" && o.to.empty()) return "serve needs --to: where workers wait";
    if (o.command != "serve" && !(o.to + o.page).empty()) return "--to and --page are for serve";
    return "";
}

settings parse(int argc, char** argv) {
    settings o;
    const std::string help =
        "Looks into a store of durable timers, changes what is there, and serves it:\n"
        "  stats                how many there are, the next one, the one that is late longest\n"
        "  list, near, overdue  those that wait: all, those of the future, those that are late\n"
        "  dead                 those that were given up, and why\n"
        "  get ID               one that waits, and its body\n"
        "  put ID               stores one, and makes the file if need be\n" +
        help_on_changes() +
        "  purge ID             removes a dead letter, or all of a --prefix, or --all\n"
        "  next PLAN            the next ten times of the rule of a plan; needs no store\n"
        "  install              puts tables and functions for any language on a server\n"
        "  serve                delivers what comes due to workers of any language, until SIGTERM\n"
        "Exits with 1 if the store says no.";
    std::vector<std::string> commands{"stats", "list",  "near", "overdue", "dead", "get",
                                      "put",   "purge", "next", "install", "serve"};
    for_each_change([&](const auto& asked) { commands.emplace_back(asked.name); });
    example::command_line line{help.c_str(), "tvec-timers"};
    line.add_choice("command", o.command, commands, "what to do");
    line.require("command");
    line.add_text("id", o.id, "of which timer; next: the plan");
    line.add_text("--store", o.store, example::store_help);
    if (std::find(argv, argv + argc, std::string_view("next")) == argv + argc)
        line.require("--store");
    line.add_text("--prefix", o.prefix, "lists, and in place of an ID: ids that begin so");
    line.add_number("--in-ms", o.in_ms, 0, longest, "its deadline: in so many ms (0)");
    line.add_number("--due-ms", o.due_ms, 0, last, "the same: due then, in ms since 1970");
    line.add_number("--every-ms", o.every_ms, 0, longest, "put: its period in ms; 0: once");
    line.add_text("--body", o.body, "put: what is delivered with it");
    line.add_text("--plan", o.plan, "put: its plan; serve: that of timers without one");
    line.add_flag("--replace", o.replace, "put: also if the id is there");
    line.add_number("--limit", o.limit, 1, most_listed, "lists: how many at most");
    line.add_flag("--all", o.all, "purge: all dead letters");
    line.add_flag("--json", o.json, "for scripts: a JSON document, in lists one in each line");
    line.add_number("--shards", o.shards, 1, 9'999,
                    "install: of new timers on a server; others keep theirs");
    line.add_number("--wait-replicas", o.wait_replicas, 0, 1'000,
                    "redis: replicas that must have a write before it is answered (0)");
    line.add_text("--to", o.to,
                  "serve: where workers wait: stream:NAME, stream:HOST:PORT/NAME, table, "
                  "http://127.0.0.1:PORT/PATH or unix:SOCKET:/PATH");
    line.add_text("--page", o.page,
                  "serve: /metrics and /health at 127.0.0.1:PORT or a socket's path");
    line.add_number("--lease-ms", o.lease_ms, 100, 86'400'000,
                    "serve: a delivery that has no end by then comes again");
    line.add_number("--overdue-ms", o.overdue_ms, 1, 86'400'000,
                    "serve: /health is 503 if a timer is overdue by more, and nobody is at work "
                    "on it (15000)");
    line.add_number("--attempts", o.attempts, 0, 1'000'000,
                    "serve: deliveries without an end that make a dead letter; 0: no limit");
    line.add_number(
        "--in-flight", o.in_flight, 1, 1'000'000,
        "serve: deliveries that wait for workers at most (1000), or are with a hook (32)");
    line.add_number("--drain-ms", o.drain_ms, 0, 600'000, "serve: how long SIGTERM waits for them");
    line.add_version("tvec-timers " TVEC_VERSION_STRING);
    line.add_rule([&o] { return fault_of(o); });
    std::vector<std::string> kept;
    std::vector<char*> words = with_empty_values(argc, argv, kept);
    std::string fault = line.parse(static_cast<int>(words.size()), words.data());
    if (!fault.empty()) {
        for (const char* const sign : {"redis", "postgres", "pass", "@"})
            if (fault.find(sign) != fault.npos)
                fault = "an argument is not known, and may have a password: expected --store "
                        "STORE, with quotes around a STORE that has blanks";
        fmt::print(stderr, "tvec-timers: {} (see --help)\n", fault);
        std::exit(2);
    }
    return o;
}

void hide_passwords(int argc, char** argv) {
    const auto is_place = [](std::string_view option) {
        return option == "--store" || option == "--to";
    };
    for (int n = 1; n < argc; ++n) {
        const std::string_view text = argv[n];
        if (!is_place(argv[n - 1]) && !is_place(text.substr(0, text.find('=')))) continue;
        const auto colon = text.find(':'), at = text.rfind('@'), word = text.find("pass");
        if (colon < at && at != text.npos) std::fill(argv[n] + colon + 1, argv[n] + at, 'x');
        if (word != text.npos) std::fill(argv[n] + word, argv[n] + text.size(), 'x');
    }
}

std::string to_message(const settings& o) {
    nlohmann::json m = {{"command", o.command}, {"id", o.id},           {"prefix", o.prefix},
                        {"body", o.body},       {"plan", o.plan},       {"every_ms", o.every_ms},
                        {"limit", o.limit},     {"replace", o.replace}, {"json", o.json},
                        {"all", o.all}};
    if (o.in_ms) m["in_ms"] = *o.in_ms;
    if (o.due_ms) m["due_ms"] = *o.due_ms;
    std::string bytes;
    nlohmann::json::to_msgpack(m, bytes);  // unlike JSON, it takes ids of any bytes
    return bytes;
}

settings from_message(const std::string& bytes) {
    flat_reader reader;
    if (!nlohmann::json::sax_parse(bytes, &reader, nlohmann::json::input_format_t::msgpack))
        throw std::runtime_error("the message is no map of words and numbers");
    const nlohmann::json& m = reader.object;
    settings o;
    for (auto [name, text] : {std::pair("command", &o.command),
                              {"id", &o.id},
                              {"prefix", &o.prefix},
                              {"body", &o.body},
                              {"plan", &o.plan}})
        *text = m.at(name).get<std::string>();
    o.every_ms = number_of(m, "every_ms", 0, longest);
    o.limit = number_of(m, "limit", 1, most_listed);
    o.replace = m.at("replace").get<bool>();
    o.json = m.at("json").get<bool>();
    o.all = m.value("all", false);
    if (m.contains("in_ms")) o.in_ms = number_of(m, "in_ms", 0, longest);
    if (m.contains("due_ms")) o.due_ms = number_of(m, "due_ms", 0, last);
    if (const std::string fault = fault_of(o); !fault.empty()) throw std::runtime_error(fault);
    return o;
}

}  // namespace timers_tool
