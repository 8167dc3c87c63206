// Durable timers, beside what people write instead, on each store that is there. Prints CSV, a line
// for each figure. Rows: puts (stored per second), drain (due at once: ended per second), lateness
// (at a rate), many (bytes per timer, and what waiting for the next one costs), open (until what
// `many` has stored is in the wheel, as far as it is due soon).
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "../../examples/support/command_line.hpp"
#include "../../examples/support/figures.hpp"
#include "../../examples/support/program.hpp"
#include "load.hpp"
#include "sqlite_file.hpp"
#ifdef TVEC_HAS_REDIS
#include "redis_server.hpp"
#endif
#ifdef TVEC_HAS_POSTGRES
#include "postgres_server.hpp"
#endif

namespace {

using namespace std::chrono_literals;
using namespace bench;

struct settings {
    std::string folder;
    std::vector<std::string> stores{"sqlite"}, sides{"tvec", "hand"},
        rows{"puts", "drain", "lateness", "many", "open"};
    std::uint64_t puts = 100'000, under_way = 20'000, batch = 1'000, drained = 50'000,
                  stored = 100'000;
    unsigned rate = 10'000, seconds = 3, days = 365, repetitions = 3;
    std::vector<unsigned> poll_ms{100, 1};
    bool in_order = false, keep = false;
};

// --- report -------------------------------------------------------------------------------------

void print_head() { fmt::print("row,store,side,figure,unit,value\n"); }

// The lines of one row, on one store, of tvec or of what is written by hand.
class lines {
public:
    lines(const char* row, const backend& on, const std::string& side)
        : begin_(fmt::format("{},{},{}", row, on.name(), side)) {}
    void print(const std::string& figure, const char* unit, double value) const {
        fmt::print("{},{},{},{:.6g}\n", begin_, figure, unit, value);
        example::flush_output();
    }

private:
    std::string begin_;
};

// The time since it was made, and the processor time here and in the server.
class stretch {
public:
    explicit stretch(backend& on) : on_(on) {}
    double seconds() const { return seconds_of(steady::now() - begun_); }
    double client() const { return example::cpu_seconds(RUSAGE_SELF) - client_; }
    double server() const { return on_.server_cpu() - server_; }

    void print_rate(const lines& to, const std::string& figure, std::uint64_t n) const {
        const auto count = static_cast<double>(n);
        to.print(figure, "1/s", count / seconds());
        to.print(figure + " client", "us", client() / count * 1e6);
        to.print(figure + " server", "us", server() / count * 1e6);
    }
    void print_share(const lines& to) const {
        const double all = seconds();
        to.print("client", "% of a core", client() / all * 100);
        to.print("server", "% of a core", server() / all * 100);
    }

private:
    backend& on_;
    double server_ = on_.server_cpu(), client_ = example::cpu_seconds(RUSAGE_SELF);
    steady::time_point begun_ = steady::now();
};

// A question without an answer for too long has been lost.
class patience {
public:
    explicit patience(std::chrono::seconds limit) : end_(steady::now() + limit) {}
    void check() const {
        if (steady::now() > end_) throw std::runtime_error("not all timers have come");
    }

private:
    steady::time_point end_;
};

// Of who polls: every so many milliseconds, or at once if that time is over.
class rhythm {
public:
    explicit rhythm(unsigned ms) : period_(ms) {}
    void sleep() {
        next_ = std::max(next_ + period_, steady::now());
        std::this_thread::sleep_until(next_);
    }

private:
    std::chrono::milliseconds period_;
    steady::time_point next_ = steady::now();
};

// --- puts ---------------------------------------------------------------------------------------

// Due from in an hour on, fifty in each millisecond.
class puts_to_come {
public:
    explicit puts_to_come(bool in_order) : in_order_(in_order) {}
    std::vector<item> next(std::uint64_t n) {
        std::vector<item> all;
        for (; n > 0; --n, ++made_)
            all.push_back({id_of(made_, in_order_), begin_ + duration(made_ / 50)});
        return all;
    }

private:
    bool in_order_;
    time_point begin_ = today() + std::chrono::hours(1);
    std::uint64_t made_ = 0;
};

// `put` is given as many at a time, and `wait` is called at the end.
template <class Put, class Wait>
void measure_together(const settings& s, backend& b, const lines& l, bool in_order, Put put,
                      Wait wait) {
    puts_to_come come(in_order);
    const stretch took(b);
    for (std::uint64_t n = 0; n < s.puts; n += s.batch)
        put(come.next(std::min(s.batch, s.puts - n)));
    wait();
    took.print_rate(l, in_order ? "together" : "together random", s.puts);
}

// One, and the next when that is stored, for a second.
template <class Put> void measure_one_by_one(backend& b, const lines& l, Put put) {
    puts_to_come come(false);
    const stretch took(b);
    std::uint64_t n = 0;
    for (; took.seconds() < 1; ++n) put(come.next(1));
    took.print_rate(l, "one by one", n);
}

void measure_puts_of_tvec(const settings& s, backend& b) {
    const lines l("puts", b, "tvec");
    for (const bool in_order : {true, false}) {
        b.clear();
        on_tvec t(b.open());
        const auto put = [&](const std::vector<item>& items) {
            t.wait_for_puts(s.under_way - s.batch);
            t.put(items);
        };
        measure_together(s, b, l, in_order, put, [&] { t.wait_for_puts(); });
        t.leave();
    }
    b.clear();
    on_tvec t(b.open());
    measure_one_by_one(b, l, [&](const std::vector<item>& items) {
        t.put(items);
        t.wait_for_puts();
    });
    t.leave();
}

void measure_puts_by_hand(const settings& s, backend& b) {
    const lines l("puts", b, "by hand");
    for (const bool in_order : {true, false}) {
        b.clear();
        const auto c = b.connect();
        measure_together(
            s, b, l, in_order, [&](const auto& items) { c->put(items); }, [] {});
    }
    b.clear();
    const auto c = b.connect();
    measure_one_by_one(b, l, [&](const auto& items) { c->put(items); });
}

void measure_bare_puts(const settings& s, backend& b) {
    b.clear();
    const auto c = b.connect_bare();
    if (c == nullptr) return;
    measure_together(
        s, b, lines("puts", b, "ZADD alone"), false, [&](const auto& items) { c->put(items); },
        [] {});
}

// --- drain --------------------------------------------------------------------------------------

// Measured from when the first can be claimed until the last has ended.
void measure_drain_of_tvec(const settings& s, backend& b) {
    b.clear();
    on_tvec t(b.open());
    t.wait_for_window();
    const time_point due = t.all().now() + std::chrono::seconds(3);
    for (std::uint64_t n = 0; n < s.drained; ++n) {
        t.wait_for_puts(s.under_way - 1);
        t.put({id_of(n, false), due});
    }
    t.wait_for_puts();
    if (t.all().now() > due - t.traits().claim_ahead)
        throw std::runtime_error("storing them took too long: less of them, by --drained");
    while (t.all().now() < due - t.traits().claim_ahead) t.turn(1);
    const stretch took(b);
    for (const patience p(std::chrono::minutes(1)); t.all().counters().done < s.drained; p.check())
        t.turn();
    took.print_rate(lines("drain", b, "tvec"), "ended", s.drained);
    t.leave();
}

void measure_drain_by_hand(const settings& s, backend& b) {
    b.clear();
    const auto c = b.connect();
    std::vector<item> all;
    for (std::uint64_t n = 0; n < s.drained; ++n) all.push_back({id_of(n, false), today()});
    c->put(all);
    std::uint64_t came = 0;
    const stretch took(b);
    for (const patience p(std::chrono::minutes(1)); came < s.drained; p.check())
        c->poll([&](time_point) { ++came; });
    took.print_rate(lines("drain", b, "by hand"), "ended", s.drained);
}

// --- lateness -----------------------------------------------------------------------------------

class lateness {
public:
    lateness(const settings& s, backend& b, const std::string& side)
        : limit_(std::chrono::seconds(60 + s.seconds)), took_(b), lines_("lateness", b, side) {}

    void record(time_point due) { late_.record(std::chrono::system_clock::now() - due); }
    bool have_come(std::uint64_t n) const {
        limit_.check();
        return late_.count() >= n;
    }
    void print() const {
        took_.print_share(lines_);
        lines_.print("p50", "ms", seconds_of(late_.quantile(0.5)) * 1e3);
        lines_.print("p99", "ms", seconds_of(late_.quantile(0.99)) * 1e3);
        lines_.print("max", "ms", seconds_of(late_.max()) * 1e3);
        lines_.print("early", "timers", static_cast<double>(late_.early()));
    }

private:
    tvec::lateness_histogram late_;
    patience limit_;
    stretch took_;
    lines lines_;
};

void measure_lateness_of_tvec(const settings& s, backend& b) {
    b.clear();
    std::optional<lateness> late;
    on_tvec t(b.open(), [&](time_point due) { late->record(due); });
    t.wait_for_window();
    late.emplace(s, b, "tvec");
    arrivals a(s.rate, s.seconds);
    while (!a.over() || !late->have_come(a.sent())) {
        t.put(a.more());
        t.turn(2);
    }
    late->print();
    t.leave();
}

// Puts what comes every two milliseconds. Returns how many.
std::uint64_t put_by_hand(const settings& s, by_hand& c) {
    arrivals a(s.rate, s.seconds);
    for (; !a.over(); std::this_thread::sleep_for(2ms))
        if (const auto come = a.more(); !come.empty()) c.put(come);
    return a.sent();
}

// One thread puts, another one polls.
void measure_lateness_of_polling(const settings& s, backend& b, unsigned poll_ms) {
    b.clear();
    const auto putting = b.connect(), polling = b.connect();
    lateness late(s, b, fmt::format("polled every {} ms", poll_ms));
    auto sent = std::async(std::launch::async, put_by_hand, std::ref(s), std::ref(*putting));
    std::optional<std::uint64_t> all;
    for (rhythm every(poll_ms); !all || !late.have_come(*all); every.sleep()) {
        polling->poll([&](time_point due) { late.record(due); });
        if (!all && sent.wait_for(0s) == std::future_status::ready) all = sent.get();
    }
    late.print();
}

// --- many ---------------------------------------------------------------------------------------

// The nth of them: due in half a minute and later, at random over so many days, or one after the
// other.
time_point due_of_many(const settings& s, time_point begin, std::uint64_t n) {
    const auto span = static_cast<std::uint64_t>(duration(std::chrono::days(s.days)).count());
    const std::uint64_t after = s.in_order ? n * (span / s.stored) : n * 11400714819323198485ULL;
    return begin + duration(after % span);
}

std::vector<item> many_from(const settings& s, time_point begin, std::uint64_t n) {
    std::vector<item> all;
    for (std::uint64_t i = n; i < std::min(n + s.batch, s.stored); ++i)
        all.push_back({id_of(i, true), due_of_many(s, begin, i)});
    return all;
}

void print_bytes(const settings& s, backend& b, const lines& l) {
    l.print(
        fmt::format("{} stored over {} days{}", s.stored, s.days, s.in_order ? " in order" : ""),
        "bytes", b.bytes() / static_cast<double>(s.stored));
}

void measure_many_of_tvec(const settings& s, backend& b) {
    const lines l("many", b, "tvec");
    b.clear();
    {
        const time_point begin = today() + std::chrono::seconds(30);
        on_tvec t(b.open());
        for (std::uint64_t n = 0; n < s.stored; n += s.batch) {
            t.wait_for_puts(s.under_way - s.batch);
            t.put(many_from(s, begin, n));
        }
        t.wait_for_puts();
        t.leave();
    }
    print_bytes(s, b, l);
    on_tvec t(b.open());
    t.wait_for_window();
    const stretch took(b);
    while (took.seconds() < s.seconds) t.turn(500);
    took.print_share(lines("idle", b, "tvec"));
    t.leave();
}

void measure_many_by_hand(const settings& s, backend& b) {
    b.clear();
    {
        const time_point begin = today() + std::chrono::hours(24);  // a poll finds nothing
        const auto c = b.connect();
        for (std::uint64_t n = 0; n < s.stored; n += s.batch) c->put(many_from(s, begin, n));
    }
    print_bytes(s, b, lines("many", b, "by hand"));
    for (const unsigned ms : s.poll_ms) {
        const auto c = b.connect();
        const stretch took(b);
        for (rhythm every(ms); took.seconds() < s.seconds; every.sleep())
            c->poll([](time_point) {});
        took.print_share(lines("idle", b, fmt::format("polled every {} ms", ms)));
    }
}

void measure_opening(backend& b, const lines& l, const char* figure) {
    const auto begun = steady::now();
    on_tvec t(b.open());
    t.wait_for_window();
    l.print(figure, "ms", seconds_of(steady::now() - begun) * 1e3);
    l.print("near", "timers", static_cast<double>(t.all().gauges().near));
    t.leave();
}

void measure_open(const settings& s, backend& b) {
    const lines l("open", b, "tvec");
    for (unsigned i = 0; i < s.repetitions; ++i) {
        if (b.forget()) measure_opening(b, l, "cold");
        measure_opening(b, l, "warm");
    }
}

// ------------------------------------------------------------------------------------------------

std::unique_ptr<backend> made(const settings& s, const std::string& store) {
    if (store == "sqlite") return std::make_unique<sqlite_file>(s.folder);
#ifdef TVEC_HAS_REDIS
    if (store == "always" || store == "everysec")
        return std::make_unique<redis_server>(s.folder + "/" + store);
#endif
#ifdef TVEC_HAS_POSTGRES
    if (store == "postgres") return std::make_unique<postgres_server>(s.folder + "/postgres");
#endif
    throw std::runtime_error(store + ": it was built without");
}

void run_on(const settings& s, backend& b) {
    const auto has = [](const auto& names, const char* name) {
        return std::ranges::count(names, name) != 0;
    };
    const auto wanted = [&](const char* row, const char* side) {
        return has(s.rows, row) && has(s.sides, side);
    };
    if (wanted("puts", "tvec")) measure_puts_of_tvec(s, b);
    if (wanted("puts", "hand")) {
        measure_puts_by_hand(s, b);
        measure_bare_puts(s, b);
    }
    if (wanted("drain", "tvec")) measure_drain_of_tvec(s, b);
    if (wanted("drain", "hand")) measure_drain_by_hand(s, b);
    if (wanted("lateness", "tvec")) measure_lateness_of_tvec(s, b);
    if (wanted("lateness", "hand"))
        for (const unsigned ms : s.poll_ms) measure_lateness_of_polling(s, b, ms);
    if (wanted("many", "hand")) measure_many_by_hand(s, b);
    if (wanted("many", "tvec")) measure_many_of_tvec(s, b);
    if (wanted("open", "tvec")) measure_open(s, b);
}

int run(settings s) {
    if (s.folder.empty()) s.folder = std::filesystem::temp_directory_path().string();
    std::vector<std::unique_ptr<backend>> all;
    for (const std::string& store : s.stores) all.push_back(made(s, store));
    print_head();
    for (const auto& b : all) {
        run_on(s, *b);
        if (!s.keep) b->clear();
    }
    return 0;
}

settings parse(int argc, char** argv) {
    settings s;
    example::command_line line{
        "Measures durable timers beside what people write instead, on each of the stores.\nThe "
        "servers are given, and cleared: `make bench` starts some. The disk decides.",
        "durable"};
    line.add_text("--folder", s.folder,
                  "where files are made and removed (the system's), and the servers' sockets: "
                  "always, everysec, postgres/.s.PGSQL.5432");
    line.add_choices("--stores", s.stores, {"sqlite", "always", "everysec", "postgres"},
                     "which stores (sqlite)");
    line.add_choices("--sides", s.sides, {"tvec", "hand"}, "who is measured");
    line.add_choices("--rows", s.rows, {"puts", "drain", "lateness", "many", "open"},
                     "what is measured; open: what many has stored");
    line.add_number("--puts", s.puts, 1'000, 100'000'000, "puts: how many");
    line.add_number("--drained", s.drained, 1'000, 100'000, "drain: how many are due at once");
    line.add_number("--rate", s.rate, 1, 1'000'000, "lateness: timers per second");
    line.add_number("--seconds", s.seconds, 1, 3'600, "lateness, waiting: how long");
    line.add_numbers("--poll-ms", s.poll_ms, 1U, 10'000U, "how often it is polled by hand");
    line.add_number("--stored", s.stored, 1, 1'000'000'000, "many: how many are stored");
    line.add_number("--days", s.days, 1, 36'500, "many: over how many days they are due");
    line.add_flag("--in-order", s.in_order,
                  "many: put in the order in which they are due: sooner done");
    line.add_number("--repetitions", s.repetitions, 1, 1'000, "open: how often");
    line.add_flag("--keep", s.keep, "leaves in the servers what was stored last");
    line.parse_or_exit(argc, argv);
    return s;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("durable", [&] { return run(parse(argc, argv)); });
}
