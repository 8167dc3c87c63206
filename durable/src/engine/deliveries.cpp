#include "deliveries.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine_parts.hpp"

namespace tvec::durable::detail {

using std::chrono::microseconds;

namespace {

// Suspects that are claimed at a time. They are delivered one by one: if more were claimed, their
// leases would lapse while they wait, and all of them would be claimed again and again.
constexpr std::size_t most_trials = 8;

}  // namespace

void deliveries::on_alarm(near_timer& t) {
    if (t.is_parked) return;
    t.at == phase::held ? on_held(t) : ask_for(t);
}

void deliveries::on_held(near_timer& t) {
    if (t.due > all_.storage.now()) return all_.near->set_alarm(t);
    t.wait_in(ready_);
}

// For it to be claimed: at its deadline, or because the lease of its claim is over. A delivery that
// was not ended within its lease is spent.
void deliveries::ask_for(near_timer& t) {
    if (t.at == phase::delivered && all_.settings.attempts != 0 && !t.is_spent)
        all_.storage.spend(t.home.number, t.home.mine, t.held.token, {});
    t.leave_queue();
    t.take_body();
    t.set_phase(phase::asked);
    t.home.to_claim.push_back(*t.id);
}

// Returns how many timers of the shard can be claimed now. At most a turn's share is due and waits
// for its handler, so a process that ends leaves few open attempts behind. Each claim in flight
// counts with the bodies that it may bring.
std::size_t deliveries::claimable(const shard& s) const {
    const std::size_t taken =
        std::min(all_.settings.max_deliveries_per_turn, claiming_ + ready_.size());
    const std::size_t half = all_.room() / 2 - std::min(all_.room() / 2, s.claimed);
    const std::size_t bytes = all_.held_bytes + claims_ * terms().bytes;
    if (bytes != 0 && bytes + terms().bytes > all_.settings.max_held_bytes) return 0;
    return std::min({half, s.claim_size, all_.settings.max_deliveries_per_turn - taken});
}

// Takes ids from the shard's list, but for those that have gone since.
std::vector<std::string> deliveries::next_to_claim(shard& s, std::size_t most) {
    std::vector<std::string> ids;
    while (ids.size() < most && !s.to_claim.empty()) {
        const auto t = s.near.find(s.to_claim.front());
        if (t != s.near.end() && t->second.at == phase::asked) {
            t->second.set_phase(phase::claiming);
            ids.push_back(std::move(s.to_claim.front()));
        }
        s.to_claim.pop_front();
    }
    return ids;
}

claim_terms deliveries::terms() const {
    const claim_terms usual{all_.settings.claim_lease, all_.settings.attempts};
    const std::size_t part = std::max<std::size_t>(all_.settings.max_held_bytes / 16, 1);
    return {usual.lease, usual.attempts, std::min(usual.bytes, part)};
}

// Claims some of what the shard has to claim. Returns whether there was any.
bool deliveries::claim(shard& s) {
    const std::vector<std::string> ids = next_to_claim(s, claimable(s));
    if (ids.empty()) return false;
    claiming_ += ids.size();
    ++claims_;
    const auto on_answer = [this, &s, ids, term = s.term, asked = all_.now()](standing how,
                                                                              auto got) {
        claiming_ -= ids.size();
        --claims_;
        if (term == s.term) return on_claims(s, ids, asked, how, got);
        for (std::size_t i = 0; how == standing::done && i < ids.size(); ++i)
            return_if_granted(ids[i], got[i]);
    };
    all_.storage.claim(s.number, s.mine, terms(), ids, all_.guarded(on_answer));
    return true;
}

// The claimed timer of that id that waits for its answer, or nullptr if it has gone.
near_timer* deliveries::claiming(shard& s, const std::string& id) {
    const auto t = s.near.find(id);
    return t != s.near.end() && t->second.at == phase::claiming ? &t->second : nullptr;
}

void deliveries::return_if_granted(const std::string& id, const claimed& c) {
    if (c.what == claimed::kind::granted) all_.ends->return_claim({id, c.timer.attempt});
}

void deliveries::on_claims(shard& s, const std::vector<std::string>& ids, time_point asked,
                           standing how, std::vector<claimed>& got) {
    if (how == standing::fenced) return all_.owners->fence(s);
    if (how == standing::unknown) return claim_later(s, ids);
    resize_claims(s, got);
    std::vector<std::string> left;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        near_timer* const t = claiming(s, ids[i]);
        if (t == nullptr) {
            return_if_granted(ids[i], got[i]);
        } else if (got[i].what == claimed::kind::later) {
            t->set_phase(phase::asked);
            left.push_back(ids[i]);
        } else {
            on_claimed(*t, got[i], asked);
        }
    }
    s.to_claim.insert(s.to_claim.begin(), left.begin(), left.end());
}

// The store could not.
void deliveries::claim_later(shard& s, const std::vector<std::string>& ids) {
    for (const std::string& id : ids) {
        near_timer* const t = claiming(s, id);
        if (t == nullptr) continue;
        t->set_phase(phase::waiting);
        all_.arm(t->alarm, all_.settings.retry);
    }
}

// Large bodies come a few at a time.
void deliveries::resize_claims(shard& s, const std::vector<claimed>& got) {
    const auto is_later = [](const claimed& c) { return c.what == claimed::kind::later; };
    const auto later = static_cast<std::size_t>(std::ranges::count_if(got, is_later));
    const std::size_t served = got.size() - later;
    s.claim_size = later != 0 ? std::max<std::size_t>(served, 1)
                              : std::min(2 * std::max(served, s.claim_size), together);
}

void deliveries::on_claimed(near_timer& t, claimed& c, time_point asked) {
    if (c.what == claimed::kind::granted) return on_granted(t, c.timer, asked);
    all_.count.too_early += c.what == claimed::kind::early;
    all_.count.died += c.what == claimed::kind::dead;
    all_.count.damaged += c.what == claimed::kind::damaged;
    const std::string id = *t.id;
    shard& s = t.home;
    all_.near->forget(s, id);
    if (c.what == claimed::kind::early) all_.near->on_known(s, id, c.timer.due);
}

// The store has counted the lease from then, when it was asked for, or from later.
void deliveries::on_granted(near_timer& t, stored_timer& granted, time_point asked) {
    t.set_phase(phase::held);
    t.due = granted.due;
    t.leased_until = std::max(asked, t.due) + all_.settings.claim_lease;
    t.first = granted.attempt == granted.ended + 1;
    t.is_spent = false;
    all_.held_bytes += granted.body.size();
    t.held = {{*t.id, granted.attempt}, granted.due, granted.every, std::move(granted.body)};
    on_held(t);
}

// Ends that the store has not answered hold deliveries back: a process that is killed has so many
// of its ended deliveries come again.
bool deliveries::may_deliver() const {
    return all_.ends->unstored() < all_.settings.max_deliveries_per_turn;
}

// An earlier attempt is open, and may have ended its process.
bool deliveries::is_suspect(const near_timer& t) const {
    return all_.settings.attempts != 0 && !t.first;
}

// Calls handlers until the turn's share is done. An attempt that is open from before may have ended
// a process, so its timer is counted as spent first, and alone. Until its handler is called no
// other is: that one might end the process.
void deliveries::deliver_ready() {
    if (is_spending_) return;
    const microseconds begun = all_.clock.reading();
    std::size_t delivered = 0;
    while (!ready_.empty() && may_deliver() && delivered < all_.settings.max_deliveries_per_turn) {
        near_timer& t = *ready_.front();
        t.leave_queue();
        on_ready(t);
        ++delivered;
        if (all_.clock.reading() - begun >= all_.settings.turn_length) break;
    }
    spend_next();
    if (!ready_.empty() && may_deliver()) all_.arm(more_, microseconds::zero());
}

// It is not due any more, since the clock was set, or its lease is over and another owner may have
// it by now: it is claimed anew.
bool deliveries::must_wait(near_timer& t) {
    const reading now = all_.storage.now();
    if (t.due > now) {
        all_.near->set_alarm(t);
        return true;
    }
    if (!all_.storage.traits().shared || now < t.leased_until) return false;
    ask_for(t);
    return true;
}

void deliveries::on_ready(near_timer& t) {
    if (must_wait(t)) return;
    if (!is_suspect(t)) return deliver(t);
    if (!t.is_on_trial && all_.trials >= most_trials) return park(t);
    t.set_trial(true);
    t.wait_in(suspects_);
}

// Gives a suspect back to the store until it can be delivered.
void deliveries::park(near_timer& t) {
    t.take_body();
    t.set_phase(phase::waiting);
    t.is_parked = true;
    all_.ends->return_claim(t.held.token);
    t.wait_in(parked_);
}

// Claims parked suspects again, as many as can be delivered soon.
void deliveries::begin_trials() {
    while (all_.trials < most_trials && !parked_.empty()) {
        near_timer& t = *parked_.front();
        t.is_parked = false;
        t.set_trial(true);
        ask_for(t);
    }
}

// Nothing else waits between being counted and its handler.
void deliveries::spend_next() {
    while (!is_spending_ && !suspects_.empty() && may_deliver()) {
        near_timer& t = *suspects_.front();
        t.leave_queue();
        if (!must_wait(t)) spend(t);
    }
}

// Counts the attempt of a suspect in the store. The answer leads to its handler.
void deliveries::spend(near_timer& t) {
    is_spending_ = true;
    t.set_phase(phase::spending);
    shard& s = t.home;
    const auto on_answer = [this, &s, spent = t.held.token, term = s.term](standing how,
                                                                           bool is_current) {
        is_spending_ = false;
        if (term == s.term) on_spent(s, spent, how, is_current);
    };
    all_.storage.spend(s.number, s.mine, t.held.token, all_.guarded(on_answer));
}

void deliveries::on_spent(shard& s, const token& spent, standing how, bool is_current) {
    if (how == standing::fenced) return all_.owners->fence(s);
    const auto n = s.near.find(spent.id);
    if (n == s.near.end() || n->second.at != phase::spending || n->second.held.token != spent)
        return;
    near_timer& t = n->second;
    if (how == standing::unknown) {
        t.set_phase(phase::held);
        all_.arm(t.alarm, all_.settings.retry);
    } else if (is_current) {
        t.is_spent = true;
        deliver(t);
    } else {
        all_.near->forget(s, spent.id);
    }
}

void deliveries::deliver(near_timer& t) {
    t.set_trial(false);
    t.set_phase(phase::delivered);
    all_.arm(t.alarm, all_.settings.claim_lease);
    ++all_.count.delivered;
    all_.count.retries += !t.first;
    if (t.first) all_.late.record(all_.storage.now() - t.held.due);
    delivery d{t.held.token, t.held.due, t.held.every, t.take_body()};
    all_.contain(handler_, std::move(d));  // which may end it: there may be no `t` any more
}

// The shards take turns in being first.
void deliveries::claim_all() {
    for (std::size_t i = 0; i < all_.shards.size(); ++i) {
        shard& s = *all_.shards[(first_shard_ + i) % all_.shards.size()];
        if (!s.backs_off) all_.ends->flush(s);
        while (claim(s)) continue;
        if (s.partial && s.near.size() <= all_.room() / 2) all_.near->take(s);
    }
    first_shard_ = (first_shard_ + 1) % all_.shards.size();
}

}  // namespace tvec::durable::detail
