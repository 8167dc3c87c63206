// Measures the cost of timers that other threads set and cancel on a loop, and the lateness of that
// loop, in each of the ways of other_threads.hpp. Each producer sets a batch of timers of half a
// minute or more, and cancels them. Then it waits until the loop has taken in all of it. A timer of
// the loop's own, every millisecond, notes how late it is.
#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "../../examples/support/command_line.hpp"
#include "../../examples/support/descriptors.hpp"
#include "../../examples/support/figures.hpp"
#include "../../examples/support/program.hpp"
#include "../workloads/other_threads.hpp"
#include "tvec/drivers/eventfd_doorbell.hpp"

namespace {

using namespace bench;

// --- measuring ----------------------------------------------------------------------------------

struct row {
    std::string name;
    unsigned producers;
    double schedule_ns, cancel_ns, taken_in_ns;  // per call, and per call until all is taken in
    double p50_us, p99_us, max_us;               // by which the loop's own timer is late
};

struct extent {
    unsigned producers = 1;
    std::size_t batch = 1'000;
    std::size_t rounds = 2'000;
};

double ns_since(clock::time_point begin) {
    return std::chrono::duration<double, std::nano>(clock::now() - begin).count();
}

struct times {
    double schedule = 0, cancel = 0;
};

// By which a producer learns that the loop has come so far. It outlives the loop, which may still
// be waking it when it has gone on.
struct milestone {
    std::atomic<unsigned> passed = 0;
    std::function<void()> pass = [this] {
        ++passed;
        passed.notify_one();
    };

    void wait_for(way& w) {
        const unsigned before = passed;
        w.post(&pass);
        passed.wait(before);
    }
};

// Runs one producer.
times produce(way& w, const extent& e, std::size_t first_place, milestone& taken_in) {
    times t;
    for (std::size_t round = 0; round < e.rounds; ++round) {
        const auto begin = clock::now();
        for (std::size_t i = 0; i < e.batch; ++i)
            w.schedule(first_place + i, milliseconds(30'000 + 37 * i % 30'000));
        t.schedule += ns_since(begin);
        const auto middle = clock::now();
        for (std::size_t i = 0; i < e.batch; ++i) w.cancel(first_place + i);
        t.cancel += ns_since(middle);
        taken_in.wait_for(w);
    }
    return t;
}

template <class Way> row measure(const char* name, const extent& e) {
    std::vector<milestone> taken_in(e.producers);
    Way w(e.producers * e.batch);
    std::vector<times> all(e.producers);
    std::vector<std::thread> threads;
    const auto begin = clock::now();
    for (unsigned p = 0; p < e.producers; ++p)
        threads.emplace_back([&, p] { all[p] = produce(w, e, p * e.batch, taken_in[p]); });
    for (std::thread& t : threads) t.join();
    const double elapsed = ns_since(begin);
    w.end();
    const double calls = static_cast<double>(e.batch * e.rounds) * e.producers;
    times sum;
    for (const times& t : all) {
        sum.schedule += t.schedule;
        sum.cancel += t.cancel;
    }
    const auto us = example::microseconds_of;
    return {name,
            e.producers,
            sum.schedule / calls,
            sum.cancel / calls,
            elapsed / (2 * calls),
            us(w.late.quantile(0.5)),
            us(w.late.quantile(0.99)),
            us(w.late.max())};
}

template <class F> void measure_all(extent e, F show) {
    for (const unsigned producers : {1u, 2u, 4u, 8u}) {
        e.producers = producers;
        show(measure<by_mailbox>("tvec::mailbox", e));
        show(measure<by_timer_thread>("tvec::timer_thread", e));
        show(measure<by_heap>("mutex and heap", e));
#ifdef NDEBUG  // else a wheel does not let other threads arm, whatever they hold
        show(measure<by_mutex>("mutex and wheel", e));
#endif
#ifdef BENCH_ASIO
        show(measure<by_asio>("Asio", e));
#endif
#ifdef BENCH_LIBUV
        show(measure<by_libuv>("libuv", e));
#endif
    }
}

// --- report -------------------------------------------------------------------------------------

struct options {
    std::size_t batch = 1'000;
    std::size_t rounds = 3'000;
    std::string csv;
};

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "What it costs 1 to 8 threads to set and to cancel timers on a loop, in ns per call;\n"
        "what both together take per call until the loop has taken them in; and by how many us\n"
        "the loop's own timer is late meanwhile.",
        "mailbox"};
    line.add_number("--batch", o.batch, 1, 100'000, "timers that each thread sets, then cancels");
    line.add_number("--rounds", o.rounds, 1, 1'000'000, "how often");
    line.add_text("--csv", o.csv, "write this CSV to this file, too");
    line.parse_or_exit(argc, argv);
    return o;
}

int run(const options& o) {
    std::optional<example::output_file> csv;
    if (!o.csv.empty()) csv.emplace(o.csv);
    const auto say = [&](const std::string& line) {
        fmt::print("{}\n", line);
        example::flush_output();
        if (csv) fmt::print(csv->get(), "{}\n", line);
    };
    say("producers,way,schedule_ns,cancel_ns,taken_in_ns,p50_us,p99_us,max_us");
    measure_all({1, o.batch, o.rounds}, [&](const row& r) {
        say(fmt::format("{},{},{:.1f},{:.1f},{:.1f},{:.1f},{:.1f},{:.1f}", r.producers, r.name,
                        r.schedule_ns, r.cancel_ns, r.taken_in_ns, r.p50_us, r.p99_us, r.max_us));
    });
    if (csv) csv->finish();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("mailbox", [&] { return run(parse(argc, argv)); });
}
