#include "tvec/durable/metrics.hpp"

#include <locale>
#include <sstream>
#include <string_view>

namespace tvec::durable {

namespace {

class page {
public:
    page() { out_.imbue(std::locale::classic()); }

    void metric(std::string_view name, std::string_view type, std::string_view help) {
        name_ = name;
        out_ << "# HELP tvec_durable_" << name << ' ' << help << "\n# TYPE tvec_durable_" << name
             << ' ' << type << '\n';
    }
    template <class Number> void sample(std::string_view label, Number value) {
        out_ << "tvec_durable_" << name_ << label << ' ' << value << '\n';
    }
    template <class Number>
    void single(std::string_view name, std::string_view type, std::string_view help, Number value) {
        metric(name, type, help);
        sample("", value);
    }
    std::string text() const { return out_.str(); }

private:
    std::ostringstream out_;
    std::string name_;
};

// Escapes a value of a label, which may hold any text.
std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\' || c == '"') out += '\\';
        out += c == '\n' ? ' ' : c;
    }
    return out;
}

double seconds_of(std::chrono::nanoseconds d) { return std::chrono::duration<double>(d).count(); }

void write_asked(page& out, const counters& c) {
    out.metric("puts_total", "counter", "Puts and cancels that were answered, by the answer.");
    out.sample("{answer=\"stored\"}", c.stored);
    out.sample("{answer=\"there_already\"}", c.there_already);
    out.sample("{answer=\"dead\"}", c.dead_already);
    out.sample("{answer=\"cancelled\"}", c.cancelled);
    out.sample("{answer=\"unknown\"}", c.unknown);
    out.sample("{answer=\"failed\"}", c.failed);
    out.single("refused_total", "counter", "Calls that were not sent.", c.refused);
}

void write_delivered(page& out, const counters& c) {
    out.single("delivered_total", "counter", "Calls of the handler.", c.delivered);
    out.single("retries_total", "counter", "Deliveries that came again.", c.retries);
    out.metric("ends_total", "counter", "Deliveries that were ended, by how.");
    out.sample("{how=\"done\"}", c.done);
    out.sample("{how=\"again\"}", c.again);
    out.sample("{how=\"failed\"}", c.failures);
    out.sample("{how=\"stale\"}", c.stale);
    out.single("planned_total", "counter", "Decisions of plans.", c.planned);
    out.single("returned_total", "counter", "Claims given back before any handler.", c.returned);
    out.single("died_total", "counter", "Timers and beats that had all their attempts.", c.died);
    out.single("damaged_total", "counter", "Timers set aside: unreadable records.", c.damaged);
    out.single("thrown_total", "counter", "Exceptions of handlers and completions.", c.thrown);
}

void write_window(page& out, const counters& c) {
    out.single("taken_total", "counter", "Timers brought into the window.", c.taken);
    out.single("swept_total", "counter", "Of them, those that a sweep found.", c.swept);
    out.single("hints_total", "counter", "Hints of what others have put.", c.hints);
    out.single("duplicates_total", "counter", "Timers brought that were there.", c.duplicates);
    out.single("too_early_total", "counter", "Claims before the deadline.", c.too_early);
    out.single("evicted_total", "counter", "Timers sent back to the store.", c.evicted);
    out.single("leases_lost_total", "counter", "Shards that somebody took.", c.leases_lost);
    out.single("clock_set_total", "counter", "Times that the clock jumped.", c.clock_set);
}

void write_gauges(page& out, const gauges& g) {
    out.single("near", "gauge", "Timers in the window.", g.near);
    out.single("being_delivered", "gauge", "Of them, those being delivered.", g.being_delivered);
    out.single("asked", "gauge", "Calls that are unanswered.", g.asked);
    out.single("shards", "gauge", "Shards that this process owns, and whose lease is renewed.",
               g.shards);
    out.metric("broken_connections_total", "counter",
               "Times that the connection to the store broke.");
    for (const auto& [reason, times] : g.broken_connections)
        out.sample("{reason=\"" + escaped(reason) + "\"}", times);
}

void write_lateness(page& out, const lateness_histogram& late) {
    out.metric("lateness_seconds", "summary", "From a deadline to its first delivery.");
    for (const double share : {0.5, 0.9, 0.99, 0.999}) {
        std::ostringstream label;
        label.imbue(std::locale::classic());
        label << "{quantile=\"" << share << "\"}";
        out.sample(label.str(), seconds_of(late.quantile(share)));
    }
    out.sample("_sum", seconds_of(late.sum()));
    out.sample("_count", late.count());
    out.single("early_total", "counter", "Deliveries before their deadline.", late.early());
}

}  // namespace

std::string to_prometheus(const counters& count, const gauges& now,
                          const lateness_histogram& late) {
    page out;
    write_asked(out, count);
    write_delivered(out, count);
    write_window(out, count);
    write_gauges(out, now);
    write_lateness(out, late);
    return out.text();
}

}  // namespace tvec::durable
