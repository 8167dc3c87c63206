// Deliveries: claims, the trials of suspects, and calls of the handler.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "shard.hpp"

namespace tvec::durable::detail {

class deliveries {
public:
    deliveries(engine_state& all, engine::handler h) : all_(all), handler_(std::move(h)) {}
    deliveries(const deliveries&) = delete;
    deliveries& operator=(const deliveries&) = delete;

    void on_alarm(near_timer& t);
    bool claim(shard& s);
    void deliver_ready();
    void begin_trials();
    void claim_all();
    bool is_claiming() const noexcept { return claiming_ != 0; }

private:
    bool may_deliver() const;
    bool is_suspect(const near_timer& t) const;
    void do_nothing() {}
    void on_held(near_timer& t);
    void ask_for(near_timer& t);
    std::size_t claimable(const shard& s) const;
    std::vector<std::string> next_to_claim(shard& s, std::size_t most);
    claim_terms terms() const;
    static near_timer* claiming(shard& s, const std::string& id);
    void return_if_granted(const std::string& id, const claimed& c);
    void on_claims(shard& s, const std::vector<std::string>& ids, time_point asked, standing how,
                   std::vector<claimed>& got);
    void claim_later(shard& s, const std::vector<std::string>& ids);
    void resize_claims(shard& s, const std::vector<claimed>& got);
    void on_claimed(near_timer& t, claimed& c, time_point asked);
    void on_granted(near_timer& t, stored_timer& granted, time_point asked);
    bool must_wait(near_timer& t);
    void on_ready(near_timer& t);
    void park(near_timer& t);
    void spend_next();
    void spend(near_timer& t);
    void on_spent(shard& s, const token& spent, standing how, bool is_current);
    void deliver(near_timer& t);

    engine_state& all_;
    engine::handler handler_;
    queue ready_;     // due, for their handlers
    queue suspects_;  // due, one by one, since an earlier attempt may have ended a process
    queue parked_;    // suspects that were given back until those have been delivered
    bool is_spending_ = false;  // a suspect is being counted as spent
    timer more_{call<&deliveries::more_, &deliveries::do_nothing>};  // there is more to deliver
    std::size_t claims_ = 0;                                         // in flight,
    std::size_t claiming_ = 0;                                       // and the timers in them
    std::size_t first_shard_ = 0;  // whose turn it is to claim first
};

}  // namespace tvec::durable::detail
