// An echo server's timers and figures in Prometheus' text format, version 0.0.4.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "../support/figures.hpp"
#include "echo_connection.hpp"
#include "timer_books.hpp"

namespace example {

inline constexpr const char* prometheus_type = "text/plain; version=0.0.4; charset=utf-8";

class prometheus_text {
public:
    // Begins a metric: the samples that follow are of it. `type` is counter, gauge or summary.
    void metric(std::string_view name, std::string_view type, std::string_view help) {
        name_ = name;
        all_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
    }
    // `labels` in braces, or "", or a suffix of the name.
    template <class Number> void sample(std::string_view labels, Number value) {
        all_ += fmt::format("{}{} {}\n", name_, labels, value);
    }
    template <class Number>
    void single(std::string_view name, std::string_view type, std::string_view help, Number value) {
        metric(name, type, help);
        sample("", value);
    }
    std::string take() { return std::move(all_); }

private:
    std::string name_;
    std::string all_;
};

inline std::string level_label(std::size_t level, std::string_view more = "") {
    if (level == tvec::census::overflow) return fmt::format("{{level=\"overflow\"{}}}", more);
    return fmt::format("{{level=\"{}\"{}}}", level, more);
}

inline void write_census(prometheus_text& out, const tvec::census& all) {
    out.metric("tvec_timers", "gauge", "Timers that hang in the wheel.");
    for (std::size_t i = 0; i < all.levels.size(); ++i) {
        out.sample(level_label(i, ",state=\"pending\""), all.levels[i].pending);
        out.sample(level_label(i, ",state=\"idle\""), all.levels[i].idle);
    }
    out.metric("tvec_slots_used", "gauge", "Slots of the wheel that hold a timer.");
    for (std::size_t i = 0; i < all.levels.size(); ++i)
        out.sample(level_label(i), all.levels[i].slots_used);
    out.metric("tvec_longest_slot", "gauge", "Timers in the fullest slot of a level.");
    for (std::size_t i = 0; i < all.levels.size(); ++i)
        out.sample(level_label(i), all.levels[i].longest);
}

inline void write_counters(prometheus_text& out, const tvec::timer_wheel::counters& visits) {
    out.metric("tvec_visits_total", "counter", "Timers that the wheel came by, by what it did.");
    out.sample("{done=\"fired\"}", visits.fired);
    out.sample("{done=\"moved\"}", visits.moved);
    out.sample("{done=\"dropped\"}", visits.dropped);
    out.single("tvec_clock_backward_total", "counter", "Times the clock was seen to go back.",
               visits.clock_backward);
}

inline void write_lateness(prometheus_text& out, const tvec::lateness_histogram& late) {
    out.metric("tvec_lateness_seconds", "summary", "From a timer's deadline to its callback.");
    for (const double share : {0.5, 0.9, 0.99, 0.999})
        out.sample(fmt::format("{{quantile=\"{}\"}}", share), seconds_of(late.quantile(share)));
    out.sample("_sum", seconds_of(late.sum()));
    out.sample("_count", late.count());
    out.single("tvec_lateness_max_seconds", "gauge", "The latest callback so far.",
               seconds_of(late.max()));
    out.single("tvec_early_fires_total", "counter", "Callbacks before their deadline.",
               late.early());
}

inline void write_totals(prometheus_text& out, const echo_totals& t) {
    out.single("echo_connections_open", "gauge", "Connections that are open.",
               t.accepted - t.closed);
    out.single("echo_connections_total", "counter", "Connections that were accepted.", t.accepted);
    out.single("echo_messages_total", "counter", "Messages echoed.", t.echoes);
    out.single("echo_bytes_total", "counter", "Bytes echoed.", t.bytes);
    out.metric("echo_timeouts_total", "counter", "Connections closed by a timer.");
    out.sample("{kind=\"idle\"}", t.idle_closes);
    out.sample("{kind=\"write\"}", t.write_closes);
    out.single("echo_wakeups_total", "counter", "Turns of the server's loop.", t.wakeups);
}

inline std::string prometheus(const tvec::timer_wheel& wheel, const timer_books& books,
                              const echo_totals& totals) {
    prometheus_text out;
    write_census(out, take_census(wheel));
    write_counters(out, wheel.count());
    write_lateness(out, books.late());
    out.single("tvec_lost_timers_total", "counter", "Pending timers whose tick has gone by.",
               books.lost());
    write_totals(out, totals);
    return out.take();
}

}  // namespace example
