// Every structure does every work, in turn, again and again; all must fire the same.
#pragma once

#include <array>
#include <map>
#include <string>

#include "contender.hpp"
#include "floors.hpp"
#include "report.hpp"

namespace bench {

struct rules {
    unsigned repetitions = 5;
    std::string rows;  // only those whose name contains this
    bool huge_pages = false;
};

// A work that yields one figure.
struct event {
    scalar what;
    const char* name;
    const char* unit;
    scalar_work floor;
    bool slow;  // a round takes long by itself, however few the timers
};

constexpr std::array<event, scalars> events{{
    {arming, "arm unlinked", "ns", floors::store, false},
    {arming_cancelled, "arm cancelled later", "ns", floors::load_compare_store, false},
    {cancelling, "cancel", "ns", floors::load_compare_store, false},
    {rearming, "re-arm random", "ns", nullptr, false},
    {pushing_back, "push back", "ns", floors::load_compare_store, false},
    {expiring, "expire", "ns", floors::fire_sorted, true},
    {expiring_when_due, "expire due ticks only", "ns", floors::fire_sorted, true},
    {serving, "mixed server", "ns", nullptr, false},
    {idling, "idle tick", "ns", nullptr, true},
    {jumping, "jump 1e6 ticks", "ns", nullptr, true},
    {asking, "next wake-up", "ns", nullptr, true},
    {remembering, "memory per timer", "bytes", nullptr, true},
}};

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
constexpr std::array<quantile, 3> operation_quantiles{
    {{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}}};

// All works with one number of timers.
class tournament {
public:
    tournament(std::size_t n, const rules& r, report& into)
        : rules_(r), report_(into), plan_(n), ground_(n, r.huge_pages) {}

    void run() {
        for (unsigned k = 1; k <= rules_.repetitions; ++k) {
            fmt::print(stderr, "\r{} timers, repetition {} of {}   ", plan_.size(), k,
                       rules_.repetitions);
            for (const event& e : events)
                if (wanted(e.name)) hold(e);
            if (wanted("expiry tick")) hold_ticks("expiry tick", &contender::ticks_while_expiring);
            if (wanted("server tick")) hold_ticks("server tick", &contender::ticks_of_server);
            if (wanted("order")) hold_orders();
        }
        for (const auto& [what, least] : least_ticks_) report_ticks(what.first, what.second, least);
        fmt::print(stderr, "\n");
    }

private:
    bool wanted(const std::string& name) const {
        return name.find(rules_.rows) != std::string::npos;
    }

    // Playing out is a check of its own; with many timers the workloads that expire do it.
    stage stage_of(bool last_round) const {
        return {plan_, ground_, last_round && plan_.size() <= 10'000};
    }

    // A round of few timers is over too soon to be measured: the median of many.
    double play(const event& e, scalar_work work) {
        const std::size_t rounds = e.slow ? 1 : std::max<std::size_t>(1, 100'000 / plan_.size());
        samples s;
        for (std::size_t i = 1; i <= rounds; ++i) s.add(work(stage_of(i == rounds)));
        return s.median();
    }

    void hold(const event& e) {
        row_result& r = report_.row(e.name, e.unit, plan_.size());
        agreement all(e.name);
        for (const contender& c : contenders()) {
            if (c.work[e.what] == nullptr) continue;
            r.by[std::string(c.name)].add(play(e, c.work[e.what]));
            all.require_equal(c.name);
        }
        if (e.floor != nullptr) r.by["floor"].add(play(e, e.floor));
    }

    // The run is the same each time, so the least that a tick took is the least noise.
    void hold_ticks(const char* name, durations (*contender::*ticks)(const stage&)) {
        agreement all(name);
        for (const contender& c : contenders()) {
            keep_least(least_ticks_[{name, std::string(c.name)}], (c.*ticks)(stage_of(true)));
            all.require_equal(c.name);
        }
    }

    void hold_orders() {
        agreement all("orders");
        for (const contender& c : contenders()) {
            single_operations spent = c.order_timeouts(stage_of(true));
            all.require_equal(c.name);
            add_quantiles("order arm", "ns", c.name, spent.arm, operation_quantiles, 1);
            add_quantiles("order cancel", "ns", c.name, spent.cancel, operation_quantiles, 1);
            add_quantiles("order advance", "ns", c.name, spent.advance, operation_quantiles, 1);
        }
        report_.row("order arm p50", "ns", plan_.size(), true)
            .by["floor"]
            .add(floors::empty_measurement(stage_of(false)));
    }

    void report_ticks(const std::string& name, const std::string& who, durations least) {
        add_quantiles(name, "us", who, least, tick_quantiles, 1e3);
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

    // Compares what was seen last with what the first structure has seen.
    class agreement {
    public:
        explicit agreement(const char* work) : work_(work) {}

        void require_equal(std::string_view who) {
            if (first_name_.empty()) {
                first_ = seen;
                first_name_ = who;
            }
            if (first_ == seen) return;
            throw std::runtime_error(fmt::format(
                "{}: {} fired {} timers, {} fired {}; checksums of what fired when: {:x} and {:x}",
                work_, first_name_, first_.fired(), who, seen.fired(), first_.checksum(),
                seen.checksum()));
        }

    private:
        const char* work_;
        std::string_view first_name_;
        tally first_;
    };

    const rules& rules_;
    report& report_;
    plan plan_;
    ground ground_;
    std::map<std::pair<std::string, std::string>, durations> least_ticks_;  // by work and structure
};

}  // namespace bench
