// A server's day in virtual time: the timers of its connections and requests, on one structure.
// docs/benchmarks.md compares whole programs with it, by hyperfine.
#include <string>
#include <vector>

#include "../../examples/support/command_line.hpp"
#include "../../examples/support/program.hpp"
#include "../report/agreement.hpp"
#include "../report/machine.hpp"
#include "../report/noise.hpp"
#include "../structures/contender.hpp"
#include "../workloads/memory_floors.hpp"

namespace {

using namespace bench;

constexpr const char* floor_name = "floor";

struct options {
    std::string with = "tvec";
    std::size_t connections = 10'000;
    day length{86'400, 10'000'000};
    placement place;
};

options parse(int argc, char** argv) {
    options o;
    std::vector<std::string> names{floor_name, "all"};
    for (const contender& c : contenders()) names.emplace_back(c.name);
    example::command_line line{
        "A day of a server in virtual time, its timers on one structure. Each message "
        "pushes an idle timeout\nback, and arms or cancels the timer of a request.",
        "server_day"};
    line.add_choice(
        "--with", o.with, names,
        "the structure; all: each in turn, and they must agree, without those that would "
        "take too long; floor: each operation "
        "a load, a compare and a store");
    line.add_number("--connections", o.connections, 1, 10'000'000,
                    "connections, of two timers each");
    line.add_number("--seconds", o.length.seconds, 1, 86'400, "how long the day is");
    line.add_number("--messages", o.length.messages, 0, 2'000'000'000, "messages in this time");
    o.place.offer_with_pages(line);
    line.parse_or_exit(argc, argv);
    return o;
}

void print(const options& o, std::string_view who, double spent) {
    const double messages = static_cast<double>(o.length.messages);
    const double seconds = static_cast<double>(o.length.seconds);
    fmt::print("{:<9} {} connections, {:.3g} messages/s for {} s; {} timers fired; CPU {:.3f} s, "
               "{:.1f} ns per message, {:.3g} % of a core\n",
               who, o.connections, messages / seconds, o.length.seconds, seen.fired(), spent * 1e-9,
               messages > 0 ? spent / messages : 0, spent * 1e-7 / seconds);
}

void serve(const options& o) {
    const plan p(2 * o.connections);
    const ground g(p.size(), o.place.huge_pages);
    const stage s{p, g, false};
    agreement all("server day");
    const double ticks = 1e3 * static_cast<double>(o.length.seconds);
    for (const contender& c : contenders()) {
        if (o.with == "all" ? is_left_out(c, p.size(), {ticks, ticks, false}) : o.with != c.name)
            continue;
        const double spent = c.serve_day(s, o.length);
        print(o, c.name, spent);
        if (c.supervised != nullptr) c.supervised->serve_day(s, o.length);
        all.require_equal(c.name);
    }
    if (o.with == "all" || o.with == floor_name)
        print(o, floor_name, floors::serve_day_nothing(s, o.length));
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("server_day", [&] {
        const options o = parse(argc, argv);
        o.place.take();
        const noise_watch noise;
        serve(o);
        fmt::print(stderr, "the run was {}\n", noise.verdict());
        return 0;
    });
}
