// Deliveries: claims of due timers, and calls of their handlers.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "end_sender.hpp"
#include "engine_state.hpp"
#include "limits.hpp"
#include "planner.hpp"
#include "window.hpp"

namespace tvec::durable::detail {

// A due timer is claimed, held in memory until its deadline, and handed to its handler.
//
// A suspect is a timer with an earlier attempt that is open: the handler of that attempt may have
// ended a process. Suspects are delivered one by one. Each is counted as spent in the store right
// before its handler, and no other handler is called in between, because that one might end the
// process. Only a few suspects are on trial, which means claimed for their turn: the leases of more
// would end while they wait. The others are parked, which means returned to the store.
class deliveries {
public:
    using handler = std::function<void(delivery)>;

    deliveries(engine_state& all, end_sender& ends, window& near, limits& limiter, handler h)
        : all_(all), ends_(ends), near_(near), limiter_(limiter), handler_(std::move(h)) {}
    deliveries(const deliveries&) = delete;
    deliveries& operator=(const deliveries&) = delete;

    // Handles an alarm: a held timer is due, or any other is to be claimed, at its deadline or at
    // the end of its lease.
    void on_alarm(near_timer& t);
    // Calls handlers until the turn is over.
    void deliver_ready();
    // Claims parked suspects for which there is a turn soon.
    void begin_trials();
    // Claims timers of a shard, as many as may be held.
    void claim(shard& s);

    // Returns the claims that a clock ahead has given, when it was set back.
    void return_claims_of_a_clock_ahead();
    // Forgets a delivery, if it is the current one: another process will end it.
    void hand_over(const token& t);
    // Moves the end of the lease of a delivery, if it is the current one, and if its lease ends at
    // `from` or that is empty. Returns the old end.
    std::optional<time_point> move_lease(const token& t, time_point to,
                                         std::optional<time_point> from = {});

    // How late first deliveries were.
    const lateness_histogram& late() const noexcept { return late_; }
    bool is_claiming() const noexcept { return timers_in_flight_ != 0; }

private:
    // A claim with a later deadline was given by a clock that was ahead.
    time_point latest_claim() const;
    // claims
    void on_held(near_timer& t);
    void queue_for_claim(near_timer& t);
    std::size_t claimable(const shard& s) const;
    std::vector<std::string> next_to_claim(shard& s, std::size_t at_most);
    claim_terms terms() const;
    static void forget_lost(shard& s, const std::vector<std::string>& ids,
                            const std::vector<claimed>& got);
    bool claim_batch(shard& s);
    void on_answer(shard& s, const std::vector<std::string>& ids, time_point sent, standing how,
                   std::vector<claimed>& got);
    void on_claims(shard& s, const std::vector<std::string>& ids, time_point sent,
                   std::vector<claimed>& got);
    void return_if_granted(const std::string& id, const claimed& c);
    void retry(shard& s, const std::vector<std::string>& ids, time_point sent);
    void on_claimed(near_timer& t, claimed& c, time_point sent);
    void on_granted(near_timer& t, stored_timer& granted, time_point sent);
    void apply_plan(near_timer& t, const stored_timer& granted);
    void bury(near_timer& t, decision d);

    // handlers
    bool may_deliver() const;
    bool calls_count() const;
    bool is_suspect(const near_timer& t) const;
    bool must_wait(near_timer& t);
    void on_ready(near_timer& t);
    void park(near_timer& t);
    void spend_next();
    void spend(near_timer& t);
    void on_spent(shard& s, const token& spent, standing how, bool is_current);
    void deliver(near_timer& t);
    void do_nothing() {}

    engine_state& all_;
    end_sender& ends_;
    window& near_;
    limits& limiter_;
    planner plans_{all_};
    const handler handler_;
    lateness_histogram late_{};
    queue ready_;     // held, and due
    queue suspects_;  // due, delivered one by one
    queue parked_;    // returned to the store until they have a turn
    timer next_turn_{call<&deliveries::next_turn_, &deliveries::do_nothing>};  // more is ready
    std::size_t claims_in_flight_ = 0;
    std::size_t timers_in_flight_ = 0;  // in these claims
    bool is_spending_ = false;          // a suspect
};

}  // namespace tvec::durable::detail
