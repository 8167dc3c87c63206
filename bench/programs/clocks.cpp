// Compares a wheel on real clocks with the bare wheel, in batches that take turns. A tick is a
// microsecond.
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "../../examples/support/command_line.hpp"
#include "../../examples/support/program.hpp"
#include "../report/machine.hpp"
#include "../report/noise.hpp"
#include "../report/report.hpp"
#include "../workloads/test_bed.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/extra/tsc_clock.hpp"
#include "tvec/extra/turn_clock.hpp"

namespace {

using namespace bench;

struct options {
    std::size_t timers = 1'000;
    unsigned batches = 200;
    std::string csv;
    placement place;
};

options parse(int argc, char** argv) {
    options o;
    example::command_line line{"What operations of the wheel take on each clock.", "clocks"};
    line.add_number("--timers", o.timers, 1, 10'000'000,
                    "timers in the wheel, and operations in a batch");
    line.add_number("--batches", o.batches, 1, 1'000'000, "batches of each operation");
    line.add_text("--csv", o.csv, "write medians, spreads and ratios to this file");
    o.place.offer(line);
    line.parse_or_exit(argc, argv);
    return o;
}

// The operations of a turn of a loop. Without a clock the caller knows the ticks.
template <class Clock> class turn_exercise {
public:
    explicit turn_exercise(const plan& p) : order_(p.other_order), timers_(p.size()) {
        if constexpr (!is_bare) wheel_.begin_turn();
        arm_all();
    }

    void unlink_all() {
        if constexpr (is_bare)
            wheel_.drain([](tvec::timer&) {});
        else
            wheel_.wheel().drain([](tvec::timer&) {});
    }
    void arm_all() {
        for (const std::uint32_t i : order_) wheel_.arm_after(timers_[i], delay);
    }
    void run_with_nothing_due() {
        for (std::size_t i = 0; i < timers_.size(); ++i)
            if constexpr (is_bare)
                wheel_.advance(wheel_.now() + 1);
            else
                wheel_.run();
    }

private:
    static constexpr bool is_bare = std::is_same_v<Clock, tvec::timer_wheel>;
    template <class C>
    using clocked = tvec::clocked_wheel<tvec::tick_clock<std::chrono::microseconds, C>>;
    using wheel = typename std::conditional_t<is_bare, std::type_identity<Clock>,
                                              std::type_identity<clocked<Clock>>>::type;
    using duration = std::conditional_t<is_bare, tvec::jiffies, std::chrono::microseconds>;
    static constexpr duration delay{60'000'000};

    const std::vector<std::uint32_t>& order_;
    std::vector<tvec::timer> timers_;
    wheel wheel_;
};

struct clock_row {
    std::string clock;
    std::array<samples, 3> ns{};  // arm, push back, run with nothing due
};

// Adds a batch of each operation, in nanoseconds per operation.
template <class Clock> void measure_clock(clock_row& row, const plan& p) {
    turn_exercise<Clock> turns(p);
    const auto measure = [&](samples& to, auto operations) {
        const batch all;
        operations();
        to.add(all.each_of(static_cast<double>(p.size())).value);
    };
    turns.unlink_all();
    measure(row.ns[0], [&] { turns.arm_all(); });
    measure(row.ns[1], [&] { turns.arm_all(); });
    measure(row.ns[2], [&] { turns.run_with_nothing_due(); });
}

std::string compare_clocks(const options& o, const plan& p) {
    const noise_watch noise;
    std::array<clock_row, 5> rows{{{"none: the bare wheel"},
                                   {"`turn_clock<>`"},
                                   {"`turn_clock<tsc_clock>`"},
                                   {"`tsc_clock`"},
                                   {"`steady_clock`"}}};
    nanoseconds_per_count();  // calibrates before anything is measured
    for (unsigned k = 0; k < o.batches; ++k) {
        measure_clock<tvec::timer_wheel>(rows[0], p);
        measure_clock<tvec::turn_clock<>>(rows[1], p);
        measure_clock<tvec::turn_clock<tvec::tsc_clock>>(rows[2], p);
        measure_clock<tvec::tsc_clock>(rows[3], p);
        measure_clock<std::chrono::steady_clock>(rows[4], p);
    }
    std::string csv = fmt::format("# {}; the run was {}\nclock", machine(), noise.verdict());
    for (const char* work : {"arm_unlinked", "push_back", "run"})
        csv += fmt::format(",{0}_ns,{0}_spread,{0}_ratio", work);
    for (const clock_row& r : rows) {
        csv += "\n" + r.clock;
        for (std::size_t i = 0; i < r.ns.size(); ++i)
            csv += fmt::format(",{:.3g},{:.2g},{:.3g}", r.ns[i].median(), r.ns[i].spread(),
                               r.ns[i].over(rows[0].ns[i]));
    }
    return csv + "\n";
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("clocks", [&] {
        const options o = parse(argc, argv);
        std::optional<example::output_file> file;
        if (!o.csv.empty()) file.emplace(o.csv);
        o.place.take();
        const std::string csv = compare_clocks(o, plan(o.timers));
        fmt::print("{}", csv);
        if (!file) return 0;
        fmt::print(file->get(), "{}", csv);
        file->finish();
        return 0;
    });
}
