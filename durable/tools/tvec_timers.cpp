// tvec-timers: looks into a store of durable timers, and changes what is there, by hand.
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "../../support/command_line.hpp"
#include "../../support/program.hpp"
#include "../support/open_store.hpp"

namespace {

using namespace tvec::durable;

constexpr std::size_t page = 1'000;

struct settings {
    std::string store, command, id, body;
    std::optional<std::uint64_t> in_ms, due_ms;
    std::uint64_t every_ms = 0, limit = 100, shards = 16;
    bool replace = false;
};

// Submits an operation, and waits for the answer.
template <class Operation, class... Answer>
std::tuple<Answer...> answer_to(store& s, Operation o, completion<Answer...> Operation::*then) {
    std::optional<std::tuple<Answer...>> got;
    o.*then = [&](Answer... a) { got.emplace(std::move(a)...); };
    s.submit(std::move(o));
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!got) {
        if (std::chrono::steady_clock::now() > limit)
            throw std::runtime_error("the store does not answer");
        pollfd watched{s.fd(), POLLIN, 0};
        poll(&watched, 1, 1'000);
        s.run();
    }
    return *got;
}

[[noreturn]] void fail(const store& s) {
    throw std::runtime_error("the store could not: " + s.last_failure());
}

template <class Operation> auto result_of(store& s, Operation o) {
    return std::get<0>(answer_to(s, std::move(o), &Operation::then));
}

template <class Operation> auto known(store& s, Operation o) {
    auto [how, answer] = answer_to(s, std::move(o), &Operation::then);
    if (how != standing::done) fail(s);
    return answer;
}

// Ids and bodies are any bytes: what is no printable ASCII is shown by its number.
std::string shown(const std::string& bytes) {
    std::string text;
    for (const char c : bytes)
        if (c >= ' ' && c <= '~' && c != '\\')
            text += c;
        else
            text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    return text;
}

std::string shown(time_point t) {
    const auto second = std::chrono::floor<std::chrono::seconds>(t);
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                       fmt::gmtime(std::chrono::system_clock::to_time_t(second)),
                       (t - second).count());
}

void print(const stored_timer& t) {
    fmt::print("{}\t{}\tevery {} ms\t{} attempts\t{} bytes\n", shown(t.due), shown(t.id),
               t.every.count(), t.attempt, t.body.size());
}

// Page by page, so that a store of any size is listed in little memory.
int list(store& s, timer_set set, std::uint64_t limit) {
    place after;
    while (limit > 0) {
        const auto timers =
            known(s, operations::list{set, after, std::min<std::uint64_t>(limit, page)});
        for (const stored_timer& t : timers) print(t);
        limit -= timers.size();
        if (timers.size() < page) break;
        after = {timers.back().due, timers.back().id};
    }
    return 0;
}

int get(store& s, const std::string& id) {
    const auto t = known(s, operations::find{id});
    if (!t) throw std::runtime_error("no timer waits that has the id " + shown(id));
    print(*t);
    fmt::print("{}\n", shown(t->body));
    return 0;
}

int stats(store& s) {
    const auto all = known(s, operations::count{});
    const auto first = known(s, operations::list{timer_set::waiting, {}, 1});
    fmt::print("waiting {}\ndead {}\n", all.waiting, all.dead);
    if (all.damaged != 0) fmt::print("damaged {}\n", all.damaged);
    fmt::print("next {}\n", first.empty() ? "none" : shown(first.front().due));
    for (const auto& [why, times] : s.broken_connections())
        fmt::print("connection broken {}: {}\n", times, why);
    return 0;
}

// Prints the outcome. Returns status 0 if it is the wanted one.
int say(const char* outcome, bool is_wanted) {
    fmt::print("{}\n", outcome);
    return is_wanted ? 0 : 1;
}

time_point due_of(store& s, const settings& o) {
    if (o.due_ms) return time_point(duration(*o.due_ms));
    return std::chrono::ceil<duration>(s.now()) + duration(o.in_ms.value_or(0));
}

int put(store& s, const settings& o) {
    const record r{o.id, due_of(s, o), o.body, duration(o.every_ms)};
    const auto how = o.replace ? existing::replace : existing::keep;
    switch (result_of(s, operations::put{{r}, how}).front()) {
    case put_result::stored:
        return say("stored", true);
    case put_result::there_already:
        return say("there already", false);
    case put_result::dead:
        return say("a dead timer has that id: revive, cancel or replace it", false);
    case put_result::unknown:
        return say("unknown: put it again", false);
    case put_result::failed:
        break;
    }
    fail(s);
}

int cancel(store& s, const std::string& id) {
    switch (result_of(s, operations::cancel{id})) {
    case cancel_result::cancelled:
        return say("cancelled", true);
    case cancel_result::had_begun:
        return say("gone, but a delivery had begun", true);
    case cancel_result::unknown_id:
        return say("unknown id", false);
    case cancel_result::unknown:
        return say("unknown: cancel it again", false);
    case cancel_result::failed:
        break;
    }
    fail(s);
}

int revive(store& s, const settings& o) {
    switch (result_of(s, operations::revive{o.id, due_of(s, o)})) {
    case revive_result::revived:
        return say("revived", true);
    case revive_result::unknown_id:
        return say("nothing of that id is dead", false);
    case revive_result::unknown:
        return say("unknown: do it again", false);
    case revive_result::failed:
        break;
    }
    fail(s);
}

// Puts tables and functions on a server.
int install(const settings& o) {
#ifdef TVEC_HAS_REDIS
    if (example::is_redis(o.store)) {
        example::open_store(o.store);  // loads the functions
        fmt::print("functions of version {}\n", redis_store::functions_version);
        return 0;
    }
#endif
#ifdef TVEC_HAS_POSTGRES
    if (example::is_postgres(o.store)) {
        postgres_options to = example::postgres_at(o.store);
        to.shards = static_cast<unsigned>(o.shards);
        postgres::install(to);
        return say("installed", true);
    }
#endif
    throw std::runtime_error(o.store + ": has no functions: expected redis:... or postgres:...");
}

// Only a put makes a file: a mistyped name must not look like an empty store.
void refuse_new_file(const settings& o) {
    if (o.command == "put" || o.store.empty() || example::is_redis(o.store) ||
        example::is_postgres(o.store))
        return;
    std::error_code none;
    const auto size = std::filesystem::file_size(o.store, none);
    if (size != 0 && none != std::errc::no_such_file_or_directory) return;
    throw std::runtime_error(o.store + (size == 0 ? ": is empty" : ": is not there") +
                             ": expected is a store, and only put makes one");
}

int run(const settings& o) {
    refuse_new_file(o);
    if (o.command == "install") return install(o);
    const auto s = example::open_store(o.store);
    if (o.command == "list") return list(*s, timer_set::waiting, o.limit);
    if (o.command == "dead") return list(*s, timer_set::dead, o.limit);
    if (o.command == "get") return get(*s, o.id);
    if (o.command == "put") return put(*s, o);
    if (o.command == "cancel") return cancel(*s, o.id);
    if (o.command == "revive") return revive(*s, o);
    return stats(*s);
}

std::string fault_of(const settings& o) {
    const bool needs_id =
        o.command == "get" || o.command == "put" || o.command == "cancel" || o.command == "revive";
    if (needs_id && (o.id.empty() || o.id.size() > longest_id))
        return "an id of 1 to 255 bytes is needed";
    if (!needs_id && !o.id.empty()) return "no id is needed";
    if (o.in_ms && o.due_ms) return "--in-ms and --due-ms are two deadlines";
    return "";
}

settings parse(int argc, char** argv) {
    settings o;
    example::command_line line{
        "Looks into a store of durable timers, and changes what is there:\n"
        "  list, dead           those that wait, those that had all their attempts: in order of "
        "their deadlines\n"
        "  get ID               one that waits, and its body\n"
        "  put ID, cancel ID    stores one, and makes the file if need be; takes one away\n"
        "  revive ID            has a dead timer wait again\n"
        "  stats                how many there are\n"
        "  install              puts tables and functions on a server\n"
        "Exits with 1 if the store says no.",
        "tvec-timers"};
    line.add_choice<std::string>(
        "command", o.command,
        {"list", "get", "put", "cancel", "dead", "revive", "stats", "install"}, "what to do");
    line.require("command");
    line.add_text("id", o.id, "of which timer");
    line.add_text("--store", o.store, example::store_help);
    line.require("--store");
    constexpr auto last = static_cast<std::uint64_t>(latest_due.time_since_epoch().count());
    line.add_number("--in-ms", o.in_ms, 0, last / 2, "put, revive: due in so many ms (0)");
    line.add_number("--due-ms", o.due_ms, 0, last, "the same: due then, in ms since 1970");
    line.add_number("--every-ms", o.every_ms, 0, last / 2, "put: its period in ms; 0: once");
    line.add_text("--body", o.body, "put: what is delivered with it");
    line.add_flag("--replace", o.replace, "put: also if the id is there");
    line.add_number("--limit", o.limit, 1, 1'000'000'000, "list, dead: how many at most");
    line.add_number("--shards", o.shards, 1, 9'999, "install: of new timers (16)");
    line.add_rule([&o] { return fault_of(o); });
    line.parse_or_exit(argc, argv);
    return o;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("tvec-timers", [&] { return run(parse(argc, argv)); });
}
