// A structure, ready to be run: each workload instantiated for it.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "recording.hpp"
#include "workloads.hpp"

namespace bench {

enum scenario {
    living,
    rearming_and_asking,
    keeping_alive,
    waiting,
    firing,
    firing_when_due,
    serving_connections,
    all_scenarios
};

struct contender {
    std::string_view name;
    std::array<figures (*)(const stage&), all_scenarios> play;
    durations (*ticks_while_expiring)(const stage&);
    durations (*ticks_of_server)(const stage&);
    single_operations (*order_timeouts)(const stage&);
    double (*replay)(const stage&, const recording&);
    double (*serve_day)(const stage&, const day&);
};

// Sets up, measures, and, if so asked, lets everything fire that is armed.
template <class A, auto Work, class... Given> auto perform(const stage& s, const Given&... given) {
    field<A> f(s);
    const auto result = Work(f, given...);
    if (s.play_out) f.play_out();
    return result;
}

template <class A, void (*Scenario)(field<A>&, figures&)> figures perform_scenario(const stage& s) {
    return perform<A, [](field<A>& f) {
        figures out;
        Scenario(f, out);
        return out;
    }>(s);
}

template <structure A> constexpr contender contender_of() {
    return {A::name,
            {perform_scenario<A, live<A>>, perform_scenario<A, rearm<A>>,
             perform_scenario<A, push_back<A>>, perform_scenario<A, wait<A>>,
             perform_scenario<A, expire<A>>, perform_scenario<A, expire_awake_when_due<A>>,
             perform_scenario<A, serve<A>>},
            perform<A, ticks_while_expiring<A>>,
            perform<A, ticks_of_server<A>>,
            perform<A, order_timeouts<A>>,
            perform<A, replay<A>, recording>,
            perform<A, serve_day<A>, day>};
}

// All that were built, tvec first (roll.cpp.in).
const std::vector<contender>& contenders();

}  // namespace bench
