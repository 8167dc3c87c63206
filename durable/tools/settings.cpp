#include "settings.hpp"

#include <stdexcept>

#include <nlohmann/json.hpp>

#include "../../support/command_line.hpp"
#include "../support/open_store.hpp"

namespace timers_tool {

namespace {

using namespace tvec::durable;

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
    for (const char* const w : words)
        if (word == w) return true;
    return false;
}

std::string fault_of_name(const settings& o) {
    const bool needs_id = is_one_of(o.command, {"get", "put", "touch"});
    const bool takes_either = is_one_of(o.command, {"cancel", "revive", "purge"});
    if (needs_id || (takes_either && o.prefix.empty())) {
        if (o.id.empty() || o.id.size() > longest_id) return "an id of 1 to 255 bytes is needed";
        return o.prefix.empty() ? "" : "no prefix is needed";
    }
    if (!o.id.empty()) return takes_either ? "an id and a prefix are two names" : "no id is needed";
    if (!o.prefix.empty() && !takes_either &&
        !is_one_of(o.command, {"list", "near", "overdue", "dead"}))
        return "no prefix is needed";
    return "";
}

}  // namespace

std::uint64_t most_in_flight(const settings& o) {
    const bool is_hook = o.to.starts_with("http:") || o.to.starts_with("unix:");
    return o.in_flight.value_or(is_hook ? 32 : 1'000);
}

std::string fault_of(const settings& o) {
    if (std::string fault = fault_of_name(o); !fault.empty()) return fault;
    if (o.in_ms && o.due_ms) return "--in-ms and --due-ms are two deadlines";
    if (o.command == "serve" && o.to.empty()) return "serve needs --to: where workers wait";
    if (o.command != "serve" && !(o.to + o.page).empty()) return "--to and --page are for serve";
    return "";
}

settings parse(int argc, char** argv) {
    settings o;
    example::command_line line{
        "Looks into a store of durable timers, changes what is there, and serves it:\n"
        "  stats                how many there are, the next one, the one that is late longest\n"
        "  list, near, overdue  those that wait: all, those of the future, those that are late\n"
        "  dead                 those that were given up, and why\n"
        "  get ID               one that waits, and its body\n"
        "  put ID, touch ID     stores one, and makes the file if need be; gives it a new "
        "deadline\n"
        "  cancel ID            takes one away, or all of a --prefix\n"
        "  revive ID, purge ID  has a dead one wait again, takes it away; or all of a --prefix\n"
        "  install              puts tables and functions for any language on a server\n"
        "  serve                delivers what comes due to workers of any language, until SIGTERM\n"
        "Exits with 1 if the store says no.",
        "tvec-timers"};
    line.add_choice<std::string>("command", o.command,
                                 {"stats", "list", "near", "overdue", "dead", "get", "put", "touch",
                                  "cancel", "revive", "purge", "install", "serve"},
                                 "what to do");
    line.require("command");
    line.add_text("id", o.id, "of which timer");
    line.add_text("--store", o.store, example::store_help);
    line.require("--store");
    constexpr auto last = static_cast<std::uint64_t>(latest_due.time_since_epoch().count());
    line.add_text("--prefix", o.prefix, "lists, cancel, revive, purge: ids that begin so");
    line.add_number("--in-ms", o.in_ms, 0, last / 2, "put, touch, revive: due in so many ms (0)");
    line.add_number("--due-ms", o.due_ms, 0, last, "the same: due then, in ms since 1970");
    line.add_number("--every-ms", o.every_ms, 0, last / 2, "put: its period in ms; 0: once");
    line.add_text("--body", o.body, "put: what is delivered with it");
    line.add_text("--plan", o.plan, "put: its plan; serve: that of timers without one");
    line.add_flag("--replace", o.replace, "put: also if the id is there");
    line.add_number("--limit", o.limit, 1, 1'000'000'000, "lists: how many at most");
    line.add_flag("--json", o.json, "for scripts: a JSON document, in lists one in each line");
    line.add_number("--shards", o.shards, 1, 9'999,
                    "install: of new timers on a server; others keep theirs");
    line.add_text("--to", o.to,
                  "serve: where workers wait: stream:NAME, stream:HOST:PORT/NAME, table, "
                  "http://127.0.0.1:PORT/PATH or unix:SOCKET:/PATH");
    line.add_text("--page", o.page,
                  "serve: a page, /metrics and /health at 127.0.0.1:PORT or a socket's path");
    line.add_number("--lease-ms", o.lease_ms, 100, 86'400'000,
                    "serve: a delivery that has no end by then comes again");
    line.add_number("--attempts", o.attempts, 0, 1'000'000,
                    "serve: deliveries without an end that make a dead letter; 0: no limit");
    line.add_number(
        "--in-flight", o.in_flight, 1, 1'000'000,
        "serve: deliveries that wait for workers at most (1000), or are with a hook (32)");
    line.add_number("--drain-ms", o.drain_ms, 0, 600'000, "serve: how long SIGTERM waits for them");
    line.add_rule([&o] { return fault_of(o); });
    line.parse_or_exit(argc, argv);
    return o;
}

std::string to_message(const settings& o) {
    nlohmann::json m = {{"command", o.command}, {"id", o.id},           {"prefix", o.prefix},
                        {"body", o.body},       {"plan", o.plan},       {"every_ms", o.every_ms},
                        {"limit", o.limit},     {"replace", o.replace}, {"json", o.json}};
    if (o.in_ms) m["in_ms"] = *o.in_ms;
    if (o.due_ms) m["due_ms"] = *o.due_ms;
    std::string bytes;
    nlohmann::json::to_msgpack(m, bytes);  // unlike JSON, it takes ids of any bytes
    return bytes;
}

settings from_message(const std::string& bytes) {
    const nlohmann::json m = nlohmann::json::from_msgpack(bytes);
    settings o;
    for (auto [name, text] : {std::pair("command", &o.command),
                              {"id", &o.id},
                              {"prefix", &o.prefix},
                              {"body", &o.body},
                              {"plan", &o.plan}})
        *text = m.at(name).get<std::string>();
    o.every_ms = m.at("every_ms").get<std::uint64_t>();
    o.limit = m.at("limit").get<std::uint64_t>();
    o.replace = m.at("replace").get<bool>();
    o.json = m.at("json").get<bool>();
    if (m.contains("in_ms")) o.in_ms = m["in_ms"].get<std::uint64_t>();
    if (m.contains("due_ms")) o.due_ms = m["due_ms"].get<std::uint64_t>();
    if (const std::string fault = fault_of(o); !fault.empty()) throw std::runtime_error(fault);
    return o;
}

}  // namespace timers_tool
