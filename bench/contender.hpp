// A structure, ready to be run: each workload instantiated for it.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "workloads.hpp"

namespace bench {

using scalar_work = double (*)(const stage&);

// Workloads that yield one figure. Null: the structure cannot do it.
enum scalar {
    arming,
    arming_cancelled,
    cancelling,
    rearming,
    pushing_back,
    expiring,
    expiring_when_due,
    serving,
    idling,
    jumping,
    asking,
    remembering,
    scalars
};

struct contender {
    std::string_view name;
    std::array<scalar_work, scalars> work;
    durations (*ticks_while_expiring)(const stage&);
    durations (*ticks_of_server)(const stage&);
    single_operations (*order_timeouts)(const stage&);
};

// Sets up, measures, and, if so asked, lets everything fire that is armed.
template <class A, auto Work> auto perform(const stage& s) {
    field<A> f(s);
    const auto result = Work(f);
    if (s.play_out) f.play_out();
    return result;
}

template <class A> constexpr scalar_work asking_of() {
    if constexpr (tells_wakeup<A>)
        return perform<A, next_wakeup<A>>;
    else
        return nullptr;
}

template <structure A> constexpr contender contender_of() {
    contender c{A::name,
                {},
                perform<A, ticks_while_expiring<A>>,
                perform<A, ticks_of_server<A>>,
                perform<A, order_timeouts<A>>};
    c.work[arming] = perform<A, arm_unlinked<A>>;
    c.work[arming_cancelled] = perform<A, arm_cancelled_later<A>>;
    c.work[cancelling] = perform<A, cancel<A>>;
    c.work[rearming] = perform<A, rearm_random<A>>;
    c.work[pushing_back] = perform<A, push_back<A>>;
    c.work[expiring] = perform<A, expire<A>>;
    c.work[expiring_when_due] = perform<A, expire_awake_when_due<A>>;
    c.work[serving] = perform<A, mixed_server<A>>;
    c.work[idling] = perform<A, idle_tick<A>>;
    c.work[jumping] = perform<A, jump<A>>;
    c.work[asking] = asking_of<A>();
    c.work[remembering] = memory<A>;
    return c;
}

// All that were built, tvec first (roll.cpp.in).
const std::vector<contender>& contenders();

}  // namespace bench
