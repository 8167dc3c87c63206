// What a server shows of its timers: metrics for Prometheus, which its HTTP port answers to
// /metrics, and the census that scripts/wheel_view draws, for /census. docs/observing.md quotes it.
#include <chrono>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "tvec/extra/lateness_histogram.hpp"
#include "tvec/inspect/inspect.hpp"
#include "tvec/tvec.hpp"

namespace {

using timers = tvec::clocked_wheel<>;

// [export]
std::string metrics(const tvec::timer_wheel& wheel, const tvec::lateness_histogram& late) {
    using seconds = std::chrono::duration<double>;
    std::ostringstream out;
    const tvec::census all = take_census(wheel);
    out << "# TYPE tvec_timers gauge\n";
    for (unsigned i = 0; i < all.levels.size(); ++i)
        out << "tvec_timers{level=\"" << i << "\",state=\"pending\"} " << all.levels[i].pending
            << "\ntvec_timers{level=\"" << i << "\",state=\"idle\"} " << all.levels[i].idle << '\n';
    out << "# TYPE tvec_lateness_seconds summary\n";
    for (const double share : {0.5, 0.99, 0.999})
        out << "tvec_lateness_seconds{quantile=\"" << share << "\"} "
            << seconds(late.quantile(share)).count() << '\n';
    out << "tvec_lateness_seconds_sum " << seconds(late.sum()).count()
        << "\ntvec_lateness_seconds_count " << late.count()
        << "\n# TYPE tvec_early_fires_total counter\ntvec_early_fires_total " << late.early()
        << '\n';
    return out.str();
}

std::string census(const tvec::timer_wheel& wheel) { return to_text(take_census(wheel)); }
// [export]

}  // namespace

int main() {
    timers wheel;
    tvec::lateness_histogram late;
    late.record(std::chrono::milliseconds(2));
    std::vector<tvec::timer> connections(3);
    for (tvec::timer& idle : connections) wheel.arm_after(idle, std::chrono::hours(1));
    connections[0].cancel();
    const std::string shown = metrics(wheel.wheel(), late);
    std::printf("%s%s", shown.c_str(), census(wheel.wheel()).c_str());
    const bool is_whole = shown.find("state=\"pending\"} 2\n") != std::string::npos &&
                          shown.find("state=\"idle\"} 1\n") != std::string::npos &&
                          shown.find("tvec_lateness_seconds_sum 0.002\n") != std::string::npos &&
                          shown.find("tvec_early_fires_total 0\n") != std::string::npos;
    return is_whole ? 0 : 1;
}
