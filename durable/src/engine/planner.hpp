// Decisions of plans: what comes after a delivery that was done or has failed.
#pragma once

#include <random>
#include <string>
#include <string_view>

#include "engine_state.hpp"
#include "plan.hpp"

namespace tvec::durable::detail {

// The verdict on a timer whose handler was called for all attempts without an end. The engine gives
// it, and no store has it.
inline constexpr std::string_view spent_all = "spent";

// What a plan decides: the end of the claim, and the dead letter of a beat that is given up, which
// is stored before that.
struct decision {
    ending how;
    std::optional<stored_timer> letter{};
};

// Applies the plan of a claimed timer that has a verdict. Every decision is an end of that claim. A
// plan that cannot be read makes a dead letter, with the fault as its reason.
class planner {
public:
    explicit planner(const engine_state& all);
    planner(const planner&) = delete;
    planner& operator=(const planner&) = delete;

    decision decide(token t, const stored_timer& timer);

private:
    ending begin(token t, const stored_timer& timer, const plan& p) const;
    ending go_on(token t, const stored_timer& timer, const plan& p) const;
    decision retry(token t, const stored_timer& timer, const plan& p, std::string_view reason);
    decision give_up(token t, const stored_timer& timer, const plan& p, history h) const;
    history history_of_spent(const stored_timer& timer) const;
    ending bury(token t, const stored_timer& timer, std::string_view reason) const;
    static history after_beat(const stored_timer& timer, const plan& p);
    std::optional<time_point> next_beat_of(const stored_timer& timer, const plan& p,
                                           const history& after) const;
    double luck();

    const engine_state& all_;
    const plan default_;
    std::minstd_rand random_;
};

}  // namespace tvec::durable::detail
