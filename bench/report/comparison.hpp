// Every structure does every work, in turn, again and again; all must fire the same.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "../structures/contender.hpp"
#include "../workloads/memory_floors.hpp"
#include "agreement.hpp"
#include "progress_line.hpp"
#include "report.hpp"
#include "timetable.hpp"

namespace bench {

struct rules {
    std::vector<std::string> rows;  // only those whose names contain one of these, if any is given
    std::vector<std::string> with;  // only these structures, if any are named
    report* counts = nullptr;       // receives the events of each operation, if wanted
    double cycle_ns = 0;            // of a cycle of the core, for machines that count none
    bool huge_pages = false;
    std::FILE* samples = nullptr;  // receives each single operation, if wanted

    bool takes(const contender& c) const {
        return with.empty() || std::find(with.begin(), with.end(), c.name) != with.end();
    }
};

// A row of the table.
struct event {
    scenario in;
    figure what;
    const char* name;
    const char* unit;
    double (*floor)(const stage&) = nullptr;
};

constexpr std::array<event, all_figures> events{{
    {living, arming, "arm unlinked", "ns", floors::store},
    {living_shortly, arming_in_memory_order, "arm in memory order", "ns",
     floors::store_in_memory_order},
    {living, arming_cancelled, "arm cancelled later", "ns", floors::load_compare_store},
    {living, cancelling, "cancel", "ns", floors::load_compare_store},
    {living_shortly, destroying, "cancel and destroy", "ns"},
    {rearming_and_asking, rearming, "re-arm random", "ns"},
    {keeping_alive, pushing_back, "push back", "ns", floors::load_compare_store},
    {firing, expiring, "expire", "ns", floors::fire_sorted},
    {firing_when_due, expiring_when_due, "expire due ticks only", "ns", floors::fire_sorted},
    {serving_connections, serving, "mixed server", "ns", floors::serve_nothing},
    {answering, requesting, "request", "ns"},
    {answering_from_pool, requesting_from_pool, "request from pool", "ns"},
    {waiting, idling, "idle tick", "ns"},
    {waiting, jumping, "jump 1e6 ticks", "ns"},
    {rearming_and_asking, asking, "next wake-up", "ns"},
    {connecting, connection_arming, "connection arm", "ns"},
    {connecting, connection_pushing_back, "connection push back", "ns"},
    {connecting, connection_expiring, "connection expire", "ns"},
    {living, remembering, "memory per timer", "bytes"},
}};

constexpr std::array<const char*, all_counted> names_of_counted{"cycles", "instructions",
                                                                "branch misses", "cache misses"};

// What one structure has measured in the rounds of a repetition.
struct rounds {
    samples value;
    std::array<samples, all_counted> counts;

    void add(const measured& m) {
        value.add(m.value);
        for (std::size_t k = 0; k < all_counted; ++k) counts[k].add(m.counts[k]);
    }
    measured median() const {
        measured m{value.median()};
        for (std::size_t k = 0; k < all_counted; ++k) m.counts[k] = counts[k].median();
        return m;
    }
};

// These take long by themselves, however few the timers.
constexpr bool is_slow(scenario s) {
    return s == waiting || s == firing || s == firing_when_due || s == connecting;
}

// Those that do one operation for each object.
constexpr std::array<scenario, 5> of_single_operations{living, living_shortly, rearming_and_asking,
                                                       keeping_alive, connecting};

struct quantile {
    const char* name;
    double share;
};

constexpr std::array<quantile, 6> tick_quantiles{{{"p50", 0.5},
                                                  {"p90", 0.9},
                                                  {"p99", 0.99},
                                                  {"p99.9", 0.999},
                                                  {"p99.99", 0.9999},
                                                  {"worst", 1.0}}};
constexpr std::array<quantile, 1> loop_quantiles{{{"worst", 1.0}}};
constexpr std::array<quantile, 2> load_quantiles{{{"p99.9", 0.999}, {"worst", 1.0}}};
constexpr std::array<quantile, 5> operation_quantiles{
    {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"worst", 1.0}}};

// All works with one number of timers.
class tournament {
public:
    tournament(std::size_t n, const rules& r, report& into, timetable& times)
        : rules_(r), report_(into), times_(times), plan_(n), ground_(n, r.huge_pages) {
        std::erase_if(order_, [&](const contender& c) { return !r.takes(c); });
    }

    void run() {
        nanoseconds_per_count();       // calibrates before anything is measured
        for (const event& e : events)  // so that the table has their order
            if (is_held(e)) report_.row(e.name, e.unit, plan_.size());
        times_.begin_part();
        hold_all();
        while (times_.begin_repetition()) {
            ++repetition_;
            hold_all();
            hold_floors();
            std::rotate(order_.begin(), order_.begin() + 1, order_.end());
            times_.end_repetition();
        }
        times_.end_part();
        report_least(least_ticks_, tick_quantiles);
        for (const loop& l : loops)  // so that the table has their order
            if (wanted(l.name))
                report_.row(fmt::format("{} worst", l.name), "us", plan_.size(), true);
        report_least(least_calls_, loop_quantiles);
        report_least(least_load_calls_, load_quantiles);
        line_.end();
    }

private:
    bool is_first() const { return repetition_ == 1; }

    bool wanted(const std::string& name) const {
        return rules_.rows.empty() ||
               std::any_of(rules_.rows.begin(), rules_.rows.end(), [&](const std::string& part) {
                   return name.find(part) != std::string::npos;
               });
    }
    bool is_held(const event& e) const {
        // With a timer due on nearly every tick the two ways to expire are the same.
        const bool dense = plan_.due.size() > plan::longest * 9 / 10;
        return wanted(e.name) && !(dense && e.in == firing_when_due);
    }
    bool is_held(const load& l) const { return wanted(l.name) && plan_.size() <= l.most_timers; }
    std::vector<event> rows_of(scenario s) const {
        std::vector<event> rows;
        for (const event& e : events)
            if (e.in == s && is_held(e)) rows.push_back(e);
        return rows;
    }

    // Playing out is a check of its own; with many timers the workloads that expire do it.
    stage stage_of(bool last_round, bool singly = false, std::size_t round = 0) const {
        return {plan_, ground_, last_round && plan_.size() <= 10'000, singly,
                1'000 * repetition_ + round};
    }

    std::size_t rounds_of(scenario s) const {
        return is_slow(s) ? 1 : bench::rounds_of(plan_.size());
    }
    std::array<rounds, all_figures> play(const contender& c, scenario s) const {
        std::array<rounds, all_figures> played;
        for (std::size_t i = 1; i <= rounds_of(s); ++i) {
            const figures one = c.play[s](stage_of(i == rounds_of(s), false, i));
            for (std::size_t k = 0; k < one.size(); ++k) played[k].add(one[k]);
        }
        return played;
    }
    double play_floor(const event& e) const {
        samples played;
        for (std::size_t i = 0; i < rounds_of(e.in); ++i) played.add(e.floor(stage_of(false)));
        return played.median();
    }

    void hold_all() {
        for (unsigned s = 0; s < all_scenarios; ++s) hold(static_cast<scenario>(s));
        for (std::size_t l = 0; l < loads.size(); ++l)
            if (is_held(loads[l])) hold_load(l);
        if (wanted("expiry tick")) hold_ticks("expiry tick", &contender::ticks_while_expiring);
        if (wanted("server tick")) hold_ticks("server tick", &contender::ticks_of_server);
        for (const loop& l : loops)
            if (wanted(l.name)) hold_loop(l);
        for (const scenario s : of_single_operations) hold_singly(s);
        if (wanted("order")) hold_orders();
    }
    void hold_floors() {
        for (const event& e : events)
            if (is_held(e) && e.floor != nullptr) add(e.name, e.unit, "floor", {play_floor(e)});
        if (wanted("empty measurement")) add_empty_measurement();
    }

    // Lets each structure that can do the work take its turn.
    template <class Turn>
    void each_in_turn(const std::string& work, const effort& asked, Turn turn) {
        for (const contender& c : order_) {
            const timetable::name of{work, c.name};
            if (is_left_out(c, plan_.size(), asked) || !times_.begin_turn(of)) continue;
            line_.show(times_.share_done(), times_.progress(), times_.seconds());
            turn(c);
            times_.end_turn(of);
        }
    }

    void hold(scenario s) {
        const std::vector<event> rows = rows_of(s);
        if (rows.empty()) return;
        agreement all(rows.front().name);
        each_in_turn(rows.front().name, efforts[s], [&](const contender& c) {
            const auto played = play(c, s);
            compare(all, c,
                    [&](const contender& w) { w.play[s](stage_of(true, false, rounds_of(s))); });
            for (const event& e : rows) add(e.name, e.unit, c.name, played[e.what].median());
        });
    }

    // Plays once more, and measures each operation of the rows in which an object is one operation.
    void hold_singly(scenario s) {
        std::vector<event> rows = rows_of(s);
        std::erase_if(rows, [](const event& e) { return e.unit != std::string_view("ns"); });
        if (rows.empty()) return;
        agreement all(rows.front().name);
        const std::string work = fmt::format("one {}", rows.front().name);
        each_in_turn(work, efforts[s], [&](const contender& c) {
            figures played = c.play[s](stage_of(true, true));
            compare(all, c, [&](const contender& w) { w.play[s](stage_of(true, true)); });
            for (const event& e : rows) {
                durations& singly = played[e.what].singly;
                if (singly.empty()) continue;
                write_samples(e.name, c.name, singly);
                add_quantiles(fmt::format("one {}", e.name), "ns", c.name, singly,
                              operation_quantiles, 1);
            }
        });
    }

    // In the order of the operations.
    void write_samples(const char* work, std::string_view who, const durations& singly) const {
        if (rules_.samples == nullptr) return;
        for (const float ns : singly)
            fmt::print(rules_.samples, "{},{},{},{},{:.4g}\n", work, plan_.size(), who, repetition_,
                       ns);
    }

    // Compares what was just played. A coarse structure plays it once more, supervised.
    template <class Play> void compare(agreement& all, const contender& c, Play play_again) const {
        if (c.supervised != nullptr) {
            if (!is_first()) return;
            play_again(*c.supervised);
        }
        all.require_equal(c.name);
    }

    void add(const char* work, const char* unit, std::string_view who, const measured& m) {
        add_to(report_, work, unit, who, m.value);
        if (rules_.counts == nullptr || unit != std::string_view("ns")) return;
        event_counts counts = m.counts;
        if (std::isnan(counts[cycles])) counts[cycles] = m.value / rules_.cycle_ns;
        for (std::size_t k = 0; k < all_counted; ++k)
            add_to(*rules_.counts, fmt::format("{} {}", work, names_of_counted[k]), "", who,
                   counts[k]);
        add_to(*rules_.counts, fmt::format("{} IPC", work), "", who,
               counts[instructions] / counts[cycles]);
    }
    void add_to(report& r, const std::string& work, const char* unit, std::string_view who,
                double value) const {
        if (!std::isnan(value)) r.row(work, unit, plan_.size()).by[std::string(who)].add(value);
    }

    void hold_load(std::size_t index) {
        const load& l = loads[index];
        const std::string calls = fmt::format("{} advance", l.name);
        agreement all(l.name);
        each_in_turn(l.name, l.asks, [&](const contender& c) {
            load_figures played = c.run[index](stage_of(is_first()));
            add(l.name, "ns", c.name, played.per_operation);
            keep_least(least_load_calls_[{calls, std::string(c.name)}], std::move(played.calls));
            compare(all, c, [&](const contender& w) { w.run[index](stage_of(true)); });
            if (is_first())
                report_.row(fmt::format("{} error", l.name), "ticks", plan_.size())
                    .by[std::string(c.name)]
                    .add(static_cast<double>(seen.lateness()));
        });
    }

    // The run is the same each time, so the least that a tick took is the least noise.
    void hold_ticks(const char* name, durations (*contender::*ticks)(const stage&)) {
        agreement all(name);
        each_in_turn(name, efforts[firing], [&](const contender& c) {
            keep_least(least_ticks_[{name, std::string(c.name)}], (c.*ticks)(stage_of(true)));
            compare(all, c, [&](const contender& w) { (w.*ticks)(stage_of(true)); });
        });
    }

    // Timers on fine ticks are too far away to be played out tick by tick: nothing may have fired.
    void hold_loop(const loop& l) {
        agreement all(l.name);
        each_in_turn(l.name, effort_of(l), [&](const contender& c) {
            keep_least(least_calls_[{l.name, std::string(c.name)}],
                       c.calls_of_loop(stage_of(l.fine == 1), l));
            compare(all, c, [&](const contender& w) { w.calls_of_loop(stage_of(l.fine == 1), l); });
        });
    }

    void hold_orders() {
        agreement all("orders");
        each_in_turn("orders", effort_of_orders, [&](const contender& c) {
            single_operations spent = c.order_timeouts(stage_of(true));
            compare(all, c, [&](const contender& w) { w.order_timeouts(stage_of(true)); });
            write_samples("order arm", c.name, spent.arm);
            write_samples("order cancel", c.name, spent.cancel);
            write_samples("order advance", c.name, spent.advance);
            add_quantiles("order arm", "ns", c.name, spent.arm, operation_quantiles, 1);
            add_quantiles("order cancel", "ns", c.name, spent.cancel, operation_quantiles, 1);
            add_quantiles("order advance", "ns", c.name, spent.advance, operation_quantiles, 1);
        });
    }

    void add_empty_measurement() {
        report_.row("empty measurement", "ns", plan_.size(), true)
            .by["floor"]
            .add(floors::empty_measurement(stage_of(false)));
    }

    // By work and structure, in the order of calls.
    using least_durations = std::map<std::pair<std::string, std::string>, durations>;

    template <class Quantiles> void report_least(least_durations& all, const Quantiles& quantiles) {
        for (auto& [what, least] : all)
            add_quantiles(what.first, "us", what.second, least, quantiles, 1e3);
    }

    template <class Quantiles>
    void add_quantiles(const std::string& name, const char* unit, std::string_view who,
                       durations& all, const Quantiles& quantiles, double divisor) {
        std::sort(all.begin(), all.end());
        for (const quantile& q : quantiles) {
            const auto i = static_cast<std::size_t>(q.share * static_cast<double>(all.size() - 1));
            report_.row(name + " " + q.name, unit, plan_.size(), true)
                .by[std::string(who)]
                .add(static_cast<double>(all[i]) / divisor);
        }
    }

    static void keep_least(durations& least, durations ticks) {
        if (least.empty())
            least.swap(ticks);
        else
            std::transform(least.begin(), least.end(), ticks.begin(), least.begin(),
                           [](float a, float b) { return std::min(a, b); });
    }

    const rules& rules_;
    report& report_;
    timetable& times_;
    progress_line line_;
    plan plan_;
    ground ground_;
    // The first structure fetches memory that the others then find in the caches: each is first in
    // turn.
    std::vector<contender> order_ = contenders();
    unsigned repetition_ = 0;
    least_durations least_ticks_;
    least_durations least_calls_;
    least_durations least_load_calls_;
};

}  // namespace bench
