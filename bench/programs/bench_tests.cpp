// Tests of the benchmarks themselves. A structure that fires a timer a tick early is found out,
// also if it tells the tick of the deadline. Events are counted, spreads and repetitions are as
// said, noise is named, and a run ends in time.
#include <sys/mman.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "../report/noise.hpp"
#include "../report/report.hpp"
#include "../report/timetable.hpp"
#include "../workloads/test_bed.hpp"

namespace {

template <std::uint64_t early> struct one_timer {
    static constexpr const char* name = "one timer";
    static constexpr bench::description is{"", "", "", ""};
    struct node {
        std::uint64_t deadline = 0;
    };

    std::uint64_t now() const { return now_; }
    void arm(node& n, std::uint64_t at) {
        n.deadline = at;
        armed_ = &n;
    }
    void cancel(node&) { armed_ = nullptr; }
    void advance(std::uint64_t until) {
        if (armed_ != nullptr && armed_->deadline <= until + early) {
            bench::seen.note(*armed_, armed_->deadline);
            armed_ = nullptr;
        }
        now_ = until;
    }

private:
    std::uint64_t now_ = bench::start;
    node* armed_ = nullptr;
};

template <std::uint64_t early> bool is_refused() {
    bench::seen.restart(nullptr, 0);
    bench::observed<one_timer<early>> wheel;
    typename one_timer<early>::node n;
    wheel.arm(n, bench::start + 10);
    while (wheel.now() < bench::start + 20) wheel.advance(wheel.now() + 1);
    return bench::seen.fired() == 1 && bench::seen.fault() != nullptr;
}

// Few machines have the processor's counters, and each has those of the kernel.
constexpr bench::event_counters::kinds page_faults{
    {{~0u, 0},  // no machine has this one
     {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
     {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY},
     {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS}}};

void touch(char* memory, std::size_t pages) {
    for (std::size_t i = 0; i < pages; ++i) static_cast<volatile char*>(memory)[i * 4096] = 1;
}

// A batch of 64 operations with a page fault each, between others that do not count.
bool counts_events() {
    constexpr std::size_t pages = 64, bytes = 2 * pages * 4096;
    bench::event_counters counters(page_faults);
    if (!counters.has(bench::instructions)) return true;  // not permitted here
    char* const memory = static_cast<char*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    bench::counting = &counters;
    bench::batch().each_of(1);  // fetches its own code
    bool right = true;
    for (const std::size_t faults : {pages, std::size_t{0}}) {
        touch(memory, pages);
        const bench::batch all;
        touch(memory + pages * 4096, pages);
        const bench::event_counts each = all.each_of(pages).counts;
        const double expected = static_cast<double>(faults) / pages;
        right = right && std::isnan(each[bench::cycles]) && each[bench::branch_misses] == 0 &&
                std::abs(each[bench::instructions] - expected) < 0.5 &&
                each[bench::cache_misses] == each[bench::instructions];
    }
    bench::counting = nullptr;
    munmap(memory, bytes);
    return right;
}

bool spread_is_right() {
    bench::samples s;
    for (const double x : {5., 1., 2., 90., 3.}) s.add(x);
    return s.median() == 3 && s.spread() == 2;
}

// A workload of five objects, in which every operation takes as long as its number says.
bool operations_are_measured_singly() {
    struct nothing : one_timer<0> {};
    const bench::plan five(5);
    const bench::ground where(5, false);
    bench::field<nothing> f({five, where, false, true});
    unsigned between = 0;
    const bench::measured m = f.time([&] {
        f.each(
            five.order,
            [](bench::observed<nothing>&, auto&, std::size_t i) {
                for (const bench::stopwatch watch; watch.nanoseconds() < 1e5 * double(i + 1);)
                    continue;
            },
            [&](bench::observed<nothing>&) { ++between; });
    });
    bool right = m.singly.size() == 5 && between == 5;
    for (std::size_t i = 0; right && i < 5; ++i) right = m.singly[i] >= 1e5 * double(i + 1);
    return right;
}

// 10^5 timers have as many repetitions as few, and several rounds in each.
bool repetitions_are_those_said() {
    const auto said = [](std::vector<bench::part> all) { return bench::say_repetitions(all); };
    return said({{1'000'000, 2, 1}}) == "medians of 1 repetition" &&
           said({{1'000, 3, 3}, {1'000'000, 2, 2}}) ==
               "medians of 3 repetitions with 1000 timers, 2 with 1000000" &&
           said({{1'000, 3, 3}, {100'000, 3, 3}}) == "medians of 3 repetitions" &&
           bench::repetitions_of(3, 100'000) == 3 && bench::repetitions_of(3, 1'000'000) == 2 &&
           bench::rounds_of(1'000) == 100 && bench::rounds_of(100'000) == 3;
}

// A run in which each structure's turn in its one work takes so many seconds, however many timers.
struct timed_run {
    std::map<std::string, double> turns;
    double now = 0;
    std::vector<double> left{};  // what was said before each turn

    bench::timetable operator()(std::vector<bench::part> parts, std::optional<double> limit) {
        bench::timetable times(parts, limit, [this] { return now; });
        for (std::size_t i = 0; i < parts.size(); ++i) {
            times.begin_part();
            take_turns(times);
            while (times.begin_repetition()) {
                take_turns(times);
                times.end_repetition();
            }
            times.end_part();
        }
        return times;
    }
    void take_turns(bench::timetable& times) {
        for (const auto& [who, seconds] : turns) {
            if (!times.begin_turn({"work", who})) continue;
            left.push_back(times.left().value_or(-1));
            now += seconds;
            times.end_turn({"work", who});
        }
    }
};

// The size of 24 timers is 1024, so that nothing is rounded.
bool time_left_is_told() {
    timed_run run{{{"a", 3}, {"b", 1}}};
    const bench::timetable times = run({{24, 2}}, std::nullopt);
    return run.now == 8 && run.left == std::vector<double>{-1, 9, 4, 1} &&
           times.who_gave_way().empty() && times.done().front().done == 2;
}

// Of ten repetitions of 4 s seven are made within 30 s. The rest of the time is too short for one.
bool repetitions_end_in_time() {
    timed_run run{{{"tvec", 3}, {"b", 1}}};
    return run({{1'000, 10}}, 30).done().front().done == 7 && run.now == 28;
}

// With 9 times as many timers its turn would take 180 of 1000 seconds. A turn with very few timers
// tells nothing.
bool a_slow_rival_gives_way() {
    timed_run run{{{"tvec", 1}, {"slow", 20}}}, free_run = run;
    const bench::timetable times = run({{99'000, 1}, {899'000, 1}}, 1'000);
    return run.now == 22 &&
           times.who_gave_way() ==
               std::vector<std::string>{
                   "slow gave way with 899000 timers, so that the run ends in time: work"} &&
           free_run({{99, 1}, {899'000, 1}}, 1'000).who_gave_way().empty();
}

// Once the time is over tvec goes on alone.
bool rivals_give_way_in_the_end() {
    timed_run run{{{"rival", 20}, {"tvec", 2}, {"zeroth", 3}}};
    const bench::timetable times = run({{1'000, 5}}, 10);
    return run.now == 22 && times.who_gave_way().size() == 1 && times.done().front().done == 1;
}

// The run took ten seconds, with a TSC of 2 GHz.
bool noise_is_named() {
    const auto named = [](double switches, double stolen, double counts_per_cycle, double tsc) {
        const bench::conditions begin{100, 5e9, 1, 7, 3};
        const bench::conditions end{110, 5e9 + tsc, counts_per_cycle, 7 + switches, 3 + stolen};
        return bench::noise_between(begin, end, 0.5).size();
    };
    return named(5, 0.01, 1.001, 20e9) == 0 && named(50, 0, 1, 20e9) == 1 &&
           named(0, 0.1, 1, 20e9) == 1 && named(0, 0, 1.1, 20e9) == 1 &&
           named(0, 0, 1, 20.1e9) == 1 && named(50, 1, 0.9, 19e9) == 4;
}

}  // namespace

int main() {
    int failed = 0;
    const auto expect = [&](bool passed, const char* fault) {
        if (passed) return;
        std::fprintf(stderr, "bench_tests: %s\n", fault);
        failed = 1;
    };
    expect(is_refused<1>() && !is_refused<0>(), "the test bed believes what a structure tells");
    expect(counts_events(), "events are not counted as they happen");
    expect(operations_are_measured_singly(), "an operation is missing among those measured singly");
    expect(spread_is_right(), "a spread is no median absolute deviation");
    expect(repetitions_are_those_said(), "more repetitions are told than done, or too few rounds");
    expect(time_left_is_told(), "a run says wrongly how long it still takes");
    expect(repetitions_end_in_time(), "repetitions are made for which there is no time");
    expect(a_slow_rival_gives_way(), "a slow rival holds up a row");
    expect(rivals_give_way_in_the_end(), "rivals hold up a run whose time is over");
    expect(noise_is_named(), "a run that was disturbed is called quiet");
    return failed;
}
