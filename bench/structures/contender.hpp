// A structure that is ready to run: each workload, instantiated for it.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "../workloads/loads.hpp"
#include "../workloads/loops.hpp"
#include "../workloads/requests.hpp"
#include "../workloads/supervised.hpp"
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
    connecting,
    all_scenarios
};

// By scenario.
constexpr std::array<effort, all_scenarios> efforts{{{0, 0, false},
                                                     {200, 200, false},
                                                     {100, 100, true},
                                                     {20'000, 1'020'000, true},
                                                     {plan::longest, plan::longest, false},
                                                     {plan::longest, plan::longest, false},
                                                     {100, 100, false},
                                                     {1, 1, false},
                                                     {100, 100, true},
                                                     {100, 100, true},
                                                     {plan::longest, 2 * plan::longest, false}}};
constexpr effort effort_of(const loop& l) {
    const double ticks = 33'000.0 * static_cast<double>(l.fine);
    return {ticks / static_cast<double>(l.every == 0 ? 2 : l.every), ticks, false};
}
constexpr effort effort_of_orders{order_book::ticks, order_book::ticks, true};

struct contender {
    std::string_view name;
    description is;
    const contender* supervised;  // null: it is exact
    double (*expected_seconds)(double timers, const effort&);
    std::array<figures (*)(const stage&), all_scenarios> play;
    std::array<load_figures (*)(const stage&), loads.size()> run;  // by load
    durations (*ticks_while_expiring)(const stage&);
    durations (*ticks_of_server)(const stage&);
    durations (*calls_of_loop)(const stage&, const loop&);
    single_operations (*order_timeouts)(const stage&);
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

template <class A> constexpr double expected_seconds_of(double timers, const effort& e) {
    if constexpr (expects<A>) return A::expected_seconds(timers, e);
    return 0;
}

template <structure A> constexpr contender exact_contender_of() {
    return {A::name,
            A::is,
            nullptr,
            expected_seconds_of<A>,
            {perform_scenario<A, live<A>>, perform_scenario<A, rearm<A>>,
             perform_scenario<A, push_back<A>>, perform_scenario<A, wait<A>>,
             perform_scenario<A, expire<A>>, perform_scenario<A, expire_awake_when_due<A>>,
             perform_scenario<A, serve<A>>, perform_scenario<A, live_shortly<A>>,
             perform_scenario<A, request<A>>, perform_scenario<A, request_from_pool<A>>,
             perform_scenario<A, connect<A>>},
            {perform<A, burst_load::run<A>>, perform<A, two_timeouts_load::run<A>>,
             perform<A, quic_load::run<A>>, perform<A, game_load::run<A>>},
            perform<A, ticks_while_expiring<A>>,
            perform<A, ticks_of_server<A>>,
            perform<A, calls_of_loop<A>, loop>,
            perform<A, order_timeouts<A>>,
            perform<A, serve_day<A>, day>};
}
template <class A> inline constexpr contender exact_contender = exact_contender_of<A>();

template <structure A> constexpr contender contender_of() {
    contender c = exact_contender<A>;
    if constexpr (coarse<A>) c.supervised = &exact_contender<supervised<A>>;
    return c;
}

// A structure is left out of a work that would take it over three seconds.
constexpr double longest_expected = 3;
inline bool is_left_out(const contender& c, std::size_t timers, const effort& e) {
    return c.expected_seconds(static_cast<double>(timers), e) > longest_expected;
}

// All structures in the build, tvec first (all.cpp.in).
const std::vector<contender>& contenders();

}  // namespace bench
