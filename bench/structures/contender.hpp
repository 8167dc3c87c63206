// A structure that is ready to run: each workload, instantiated for it.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "../workloads/loops.hpp"
#include "../workloads/recording.hpp"
#include "../workloads/requests.hpp"
#include "../workloads/workloads.hpp"

namespace bench {

enum scenario {
    living,
    rearming_and_asking,
    keeping_alive,
    waiting,
    firing,
    firing_when_due,
    serving_connections,
    living_shortly,
    answering,
    answering_from_pool,
    all_scenarios
};

struct contender {
    std::string_view name;
    std::array<figures (*)(const stage&), all_scenarios> play;
    durations (*ticks_while_expiring)(const stage&);
    durations (*ticks_of_server)(const stage&);
    durations (*calls_of_loop)(const stage&, const loop&);
    single_operations (*order_timeouts)(const stage&);
    double (*replay)(const stage&, const recording&);
    double (*serve_day)(const stage&, const day&);
};

// Sets up, measures and, if asked, lets every armed timer fire.
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
             perform_scenario<A, serve<A>>, perform_scenario<A, live_shortly<A>>,
             perform_scenario<A, request<A>>, perform_scenario<A, request_from_pool<A>>},
            perform<A, ticks_while_expiring<A>>,
            perform<A, ticks_of_server<A>>,
            perform<A, calls_of_loop<A>, loop>,
            perform<A, order_timeouts<A>>,
            perform<A, replay<A>, recording>,
            perform<A, serve_day<A>, day>};
}

// All structures in the build, tvec first (roll.cpp.in).
const std::vector<contender>& contenders();

}  // namespace bench
