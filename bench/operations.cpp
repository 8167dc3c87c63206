// One table: what each operation costs on tvec, on the kernel's classic wheel, and at the memory's
// floor, all in one run. Repetitions are interleaved, so that a busy neighbour hurts everybody;
// read the ratios. A run in which the two wheels did not fire the same timers on the same ticks
// fails.
#include <sched.h>

#include <array>
#include <cstdlib>
#include <string>

#include <CLI/CLI.hpp>

#include "floors.hpp"
#include "report.hpp"

namespace {

using namespace bench;
using tvec_field = field<tvec_adapter>;
using classic_field = field<classic_adapter>;

struct options {
    std::vector<std::size_t> sizes{1'000, 100'000, 1'000'000};
    unsigned repetitions = 5;
    std::string rows;
    std::string csv;
    std::string json;
    int cpu = -1;
    bool huge_pages = false;
};

struct operation {
    const char* name;
    double (*on_tvec)(tvec_field&);
    double (*on_classic)(classic_field&);
    double (floors::*floor)();
    bool slow;  // a round takes long by itself, however few the timers
};

constexpr std::array<operation, 10> operations{{
    {"arm, unlinked", arm_unlinked, arm_unlinked, &floors::store, false},
    {"arm, cancelled, later", arm_cancelled_later, arm_cancelled_later, nullptr, false},
    {"cancel", cancel, cancel, &floors::load_compare_store, false},
    {"re-arm, random", rearm_random, rearm_random, nullptr, false},
    {"push back", push_back, push_back, &floors::load_compare_store, false},
    {"expire", expire, expire, &floors::fire_sorted, true},
    {"mixed server", mixed_server, mixed_server, nullptr, false},
    {"idle tick", idle_tick, idle_tick, nullptr, true},
    {"next wake-up", next_wakeup, next_wakeup, nullptr, true},
    {"jump over 1e6 ticks", jump, jump, nullptr, true},
}};

void require_equal(const tally& a, const tally& b, const char* what) {
    if (a == b && a.off_time == 0) return;
    throw std::runtime_error(
        fmt::format("{}: tvec fired {} timers, classic {}; off their tick: {} and "
                    "{}; checksums {:x} and {:x}",
                    what, a.fired, b.fired, a.off_time, b.off_time, a.checksum, b.checksum));
}

// Everything of one size.
class run {
public:
    run(std::size_t n, const options& o, report& r)
        : options_(o), report_(r), plan_(n), tvec_(plan_, o.huge_pages),
          classic_(plan_, o.huge_pages), floors_(plan_, o.huge_pages) {}

    void all() {
        for (unsigned rep = 0; rep < options_.repetitions; ++rep) {
            fmt::print(stderr, "\r{} timers, repetition {} of {}   ", size(), rep + 1,
                       options_.repetitions);
            for (const operation& op : operations) measure(op);
            if (wanted("ticks while expiring")) measure_ticks();
        }
        if (!tvec_ticks_.empty()) report_ticks();
        fmt::print(stderr, "\n");
    }

private:
    std::size_t size() const { return plan_.order.size(); }
    bool wanted(const std::string& name) const {
        return name.find(options_.rows) != std::string::npos;
    }

    // A round of few timers is over too soon to be measured: the median of many.
    template <class F> double median_of_rounds(const operation& op, F round) {
        const std::size_t rounds = op.slow ? 1 : std::max<std::size_t>(1, 100'000 / size());
        samples s;
        for (std::size_t i = 0; i < rounds; ++i) s.add(round());
        return s.median();
    }

    void measure(const operation& op) {
        if (!wanted(op.name)) return;
        row_result& r = report_.row(op.name, "ns", size());
        r.by["tvec"].add(median_of_rounds(op, [&] { return op.on_tvec(tvec_); }));
        const tally by_tvec = seen;
        r.by["classic"].add(median_of_rounds(op, [&] { return op.on_classic(classic_); }));
        require_equal(by_tvec, seen, op.name);
        if (op.floor != nullptr)
            r.by["floor"].add(median_of_rounds(op, [&] { return (floors_.*op.floor)(); }));
    }

    // The run is the same each time, so the least that a tick took is the least noise.
    void measure_ticks() {
        keep_least(tvec_ticks_, expire_by_tick(tvec_));
        const tally by_tvec = seen;
        keep_least(classic_ticks_, expire_by_tick(classic_));
        require_equal(by_tvec, seen, "ticks while expiring");
    }

    static void keep_least(std::vector<float>& least, std::vector<float> ticks) {
        if (least.empty())
            least.swap(ticks);
        else
            std::transform(least.begin(), least.end(), ticks.begin(), least.begin(),
                           [](float a, float b) { return std::min(a, b); });
    }

    void report_ticks() {
        std::sort(tvec_ticks_.begin(), tvec_ticks_.end());
        std::sort(classic_ticks_.begin(), classic_ticks_.end());
        const auto add = [&](const char* name, double share) {
            row_result& r = report_.row(name, "us", size());
            r.by["tvec"].add(quantile(tvec_ticks_, share) / 1e3);
            r.by["classic"].add(quantile(classic_ticks_, share) / 1e3);
        };
        add("tick while expiring, p50", 0.5);
        add("tick while expiring, p99.9", 0.999);
        add("tick while expiring, worst", 1.0);
    }

    static double quantile(const std::vector<float>& sorted, double share) {
        return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
    }

    const options& options_;
    report& report_;
    plan plan_;
    tvec_field tvec_;
    classic_field classic_;
    floors floors_;
    std::vector<float> tvec_ticks_;
    std::vector<float> classic_ticks_;
};

std::string machine() {
    std::ifstream cpus("/proc/cpuinfo");
    std::string line, model = "unknown processor";
    while (std::getline(cpus, line))
        if (line.starts_with("model name")) model = line.substr(line.find(':') + 2);
#ifdef __clang__
    return fmt::format("{}, clang {}", model, __clang_version__);
#else
    return fmt::format("{}, g++ {}", model, __VERSION__);
#endif
}

void pin_to(int cpu) {
    if (cpu < 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(cpu), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        throw std::runtime_error(fmt::format("cannot run on CPU {}", cpu));
}

options parse(int argc, char** argv) {
    options o;
    CLI::App app{"What timer operations cost, beside the kernel's classic wheel and the memory's "
                 "floors.",
                 "operations"};
    app.add_option("--sizes", o.sizes, "numbers of timers")
        ->delimiter(',')
        ->check(CLI::Range(2, 100'000'000))
        ->capture_default_str();
    app.add_option("--repetitions", o.repetitions, "interleaved repetitions of each row")
        ->check(CLI::Range(1, 1'000))
        ->capture_default_str();
    app.add_option("--rows", o.rows, "only rows whose name contains this");
    app.add_option("--csv", o.csv, "write medians, minima and maxima to this file");
    app.add_option("--json", o.json, "the same as JSON");
    app.add_option("--cpu", o.cpu, "run on this CPU only");
    app.add_flag("--huge-pages", o.huge_pages, "ask for huge pages for the objects");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        std::exit(app.exit(e));
    }
    return o;
}

}  // namespace

int main(int argc, char** argv) try {
    const options o = parse(argc, argv);
    pin_to(o.cpu);
    report r;
    for (const std::size_t n : o.sizes) std::make_unique<run>(n, o, r)->all();
    fmt::print("{}; median of {} repetitions; ratio: tvec / classic\n\n", machine(), o.repetitions);
    r.print();
    if (!o.csv.empty()) r.write_csv(o.csv);
    if (!o.json.empty()) r.write_json(o.json, machine());
    return 0;
} catch (const std::exception& e) {
    fmt::print(stderr, "operations: {}\n", e.what());
    return 1;
}
