#include "deliveries.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "beats.hpp"

namespace tvec::durable::detail {

using std::chrono::microseconds;

namespace {

// Suspects that are on trial at a time.
constexpr std::size_t max_trials = 8;

// Returns the size of the next claim. Large bodies come a few at a time.
std::size_t next_claim_size(std::size_t size, const std::vector<claimed>& got) {
    const auto is_later = [](const claimed& c) { return c.what == claimed::kind::later; };
    const auto later = static_cast<std::size_t>(std::ranges::count_if(got, is_later));
    const std::size_t served = got.size() - later;
    if (later != 0) return std::max<std::size_t>(served, 1);
    return std::min(2 * std::max(served, size), batch_size);
}

// Returns the timer if it waits for the answer to a claim, or nullptr.
near_timer* claiming(shard& s, const std::string& id) {
    near_timer* const t = s.find(id);
    return t != nullptr && t->phase == timer_phase::claiming ? t : nullptr;
}

// Returns the timer if this delivery of it is with its handler, or nullptr.
near_timer* delivered(shard& s, const token& which) {
    near_timer* const t = s.find(which.id);
    const bool is = t != nullptr && t->phase == timer_phase::delivered && t->has_claim(which);
    return is ? t : nullptr;
}

// Returns the text of an exception.
std::string words_of(const std::exception_ptr& thrown) {
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception& e) {
        return e.what();
    } catch (...) {
        return "an exception that is no std::exception";
    }
}

}  // namespace

// --- claims -------------------------------------------------------------------------------------

void deliveries::on_alarm(near_timer& t) {
    if (t.phase == timer_phase::parked) return;
    if (t.phase == timer_phase::held)
        on_held(t);
    else
        queue_for_claim(t);
}

void deliveries::on_held(near_timer& t) {
    if (t.due > all_.storage.now()) return near_.set_alarm(t);
    t.wait_in(ready_);
}

// A delivery that was not ended within its lease counts as spent. A store counts an attempt once.
void deliveries::queue_for_claim(near_timer& t) {
    assert(t.home.is_owned() && "only the owner of a shard claims its timers");
    if (t.phase == timer_phase::delivered && calls_count())
        all_.storage.submit(operations::spend{t.home.number, t.home.owned_as, t.claim.token});
    t.leave_queue();
    t.move_to(timer_phase::queued);
    t.home.to_claim.push_back(*t.id);
}

void deliveries::claim(shard& s) {
    while (claim_batch(s)) continue;
}

// Returns how many timers of a shard may be claimed now. The due timers that wait for a handler are
// at most those of one turn, so a process that ends leaves few open attempts. Each claim in flight
// counts with the bodies that it may bring.
std::size_t deliveries::claimable(const shard& s) const {
    const std::size_t per_turn = all_.settings.max_deliveries_per_turn;
    const std::size_t waiting = std::min(per_turn, timers_in_flight_ + ready_.size());
    const std::size_t half = all_.window_share() / 2;
    const std::size_t share = half - std::min(half, s.being_delivered);
    const std::size_t bytes = all_.load.held_bytes + claims_in_flight_ * terms().bytes;
    if (bytes != 0 && bytes + terms().bytes > all_.settings.max_held_bytes) return 0;
    return std::min({share, s.claim_size, per_turn - waiting});
}

// Takes ids from the list of the shard, and skips those whose timers are gone. Those whose claims
// were lost at another time are for another claim.
std::vector<std::string> deliveries::next_to_claim(shard& s, std::size_t at_most) {
    std::vector<std::string> ids;
    while (ids.size() < at_most && !s.to_claim.empty()) {
        if (!ids.empty() && s.lost_since(s.to_claim.front()) != s.lost_since(ids.front())) break;
        near_timer* const t = s.find(s.to_claim.front());
        if (t != nullptr && t->phase == timer_phase::queued && limiter_.admit(*t)) {
            t->move_to(timer_phase::claiming);
            ids.push_back(std::move(s.to_claim.front()));
        }
        s.to_claim.pop_front();
    }
    return ids;
}

claim_terms deliveries::terms() const {
    const claim_terms usual{all_.settings.claim_lease};
    const std::size_t part = std::max<std::size_t>(all_.settings.max_held_bytes / 16, 1);
    return {usual.lease, std::min(usual.bytes, part)};
}

// Returns true if there was a timer to claim.
bool deliveries::claim_batch(shard& s) {
    const std::vector<std::string> ids = next_to_claim(s, claimable(s));
    if (ids.empty()) return false;
    assert(ids.size() <= batch_size && "one command must not keep a server busy for long");
    timers_in_flight_ += ids.size();
    ++claims_in_flight_;
    claim_terms t = terms();
    t.since = s.lost_since(ids.front());
    const auto on_reply = [this, &s, ids, resets = s.resets,
                           sent = all_.now()](standing how, std::vector<claimed> got) {
        timers_in_flight_ -= ids.size();
        --claims_in_flight_;
        if (how == standing::done) forget_lost(s, ids, got);
        if (resets == s.resets) return on_answer(s, ids, sent, how, got);
        for (std::size_t i = 0; how == standing::done && i < ids.size(); ++i)
            return_if_granted(ids[i], got[i]);
    };
    all_.storage.submit(operations::claim{s.number, s.owned_as, t, ids, all_.guarded(on_reply)});
    return true;
}

// A claim that is answered early may be done once more by a server that has not come to it yet.
void deliveries::forget_lost(shard& s, const std::vector<std::string>& ids,
                             const std::vector<claimed>& got) {
    using enum claimed::kind;
    for (std::size_t i = 0; i < ids.size() && !s.lost.empty(); ++i)
        if (got[i].what != early && got[i].what != later) s.lost.erase(ids[i]);
}

void deliveries::return_if_granted(const std::string& id, const claimed& c) {
    if (c.what == claimed::kind::granted) ends_.return_claim({id, c.timer.attempt});
}

void deliveries::on_answer(shard& s, const std::vector<std::string>& ids, time_point sent,
                           standing how, std::vector<claimed>& got) {
    if (how == standing::fenced) return all_.up.on_fenced(s);
    if (how == standing::unknown) return retry(s, ids, sent);
    assert(got.size() == ids.size() && "a store answers every claim");
    s.claim_size = next_claim_size(s.claim_size, got);
    on_claims(s, ids, sent, got);
}

void deliveries::on_claims(shard& s, const std::vector<std::string>& ids, time_point sent,
                           std::vector<claimed>& got) {
    std::vector<std::string> later;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        near_timer* const t = claiming(s, ids[i]);
        if (t == nullptr) {
            return_if_granted(ids[i], got[i]);
        } else if (got[i].what == claimed::kind::later) {
            t->move_to(timer_phase::queued);
            later.push_back(ids[i]);
        } else {
            on_claimed(*t, got[i], sent);
        }
    }
    s.to_claim.insert(s.to_claim.begin(), later.begin(), later.end());
}

// The claims may have been granted. A store that is not shared keeps no lease of them.
void deliveries::retry(shard& s, const std::vector<std::string>& ids, time_point sent) {
    for (const std::string& id : ids) {
        if (all_.storage.traits().shared) s.lost.try_emplace(id, sent);
        near_timer* const t = claiming(s, id);
        if (t == nullptr) continue;
        t->move_to(timer_phase::waiting);
        all_.arm(t->alarm, all_.settings.retry);
    }
}

void deliveries::on_claimed(near_timer& t, claimed& c, time_point sent) {
    if (c.what == claimed::kind::granted) return on_granted(t, c.timer, sent);
    all_.count.too_early += c.what == claimed::kind::early;
    all_.count.damaged += c.what == claimed::kind::damaged;
    const std::string id = *t.id;
    shard& s = t.home;
    s.forget(id);
    if (c.what == claimed::kind::early) near_.on_known(s, id, c.timer.due);
}

// The store counts the lease from some time after the claim was sent. The clock may have been ahead
// then.
void deliveries::on_granted(near_timer& t, stored_timer& granted, time_point sent) {
    assert(t.phase == timer_phase::claiming && "a claim is granted once");
    t.move_to(timer_phase::held);
    t.due = granted.due;
    const time_point now = all_.now();
    t.leased_until = std::max(std::min(sent, now), t.due) + all_.settings.claim_lease;
    t.is_first = granted.attempt == granted.ended + 1;
    t.was_hinted = false;
    const std::uint32_t most = all_.settings.attempts;
    if (granted.verdict.empty() && most != 0 && granted.spent >= most) granted.verdict = spent_all;
    if (!granted.verdict.empty()) return apply_plan(t, granted);
    t.hold(granted.body.size());
    t.claim = {{*t.id, granted.attempt}, granted.due, granted.every, std::move(granted.body)};
    if (t.due <= latest_claim()) return on_held(t);
    all_.up.on_ahead(t.due);
    ends_.return_claim(t.claim.token);
    t.home.forget(*t.id);
}

// A timer with a verdict is not delivered: its claim ends at once with what its plan decides.
void deliveries::apply_plan(near_timer& t, const stored_timer& granted) {
    t.claim = {{*t.id, granted.attempt}, granted.due, granted.every};
    t.set_trial(false);
    t.move_to(timer_phase::delivered);
    decision d = plans_.decide(t.claim.token, granted);
    if (d.letter) return bury(t, std::move(d));
    ends_.end({std::move(d.how), {}, true});
}

// Stores the dead letter of a beat, and has the timer go on after that. If the store fails, or the
// process ends in between, the timer is claimed again when its lease ends, and the letter has the
// same id. The beat counts as dead also if that is taken: nothing else would tell of it then.
void deliveries::bury(near_timer& t, decision d) {
    t.move_to(timer_phase::burying);
    all_.arm(t.alarm, all_.settings.claim_lease);
    const auto on_answer = [this, how = std::move(d.how), id = d.letter->id,
                            why = history::parse(d.letter->history).reason](standing stored,
                                                                            bool /*is_new*/) {
        if (stored != standing::done) return;
        ++all_.count.died;
        all_.contain(all_.settings.on_dead, id, why);
        ends_.end({how, {}, true});
    };
    all_.storage.submit(operations::bury{std::move(*d.letter), all_.guarded(on_answer)});
}

// --- turns --------------------------------------------------------------------------------------

bool deliveries::may_deliver() const { return !ends_.is_full(); }

// Returns true if a call of the handler is an attempt.
bool deliveries::calls_count() const {
    return all_.settings.attempts != 0 && !all_.settings.hands_over;
}

bool deliveries::is_suspect(const near_timer& t) const { return calls_count() && !t.is_first; }

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
    if (!ready_.empty() && may_deliver()) all_.arm(next_turn_, microseconds::zero());
}

// Returns true if the timer cannot be delivered now. The clock of the store was set back, or the
// lease of the claim may have ended, and another owner may hold the timer. Then the claim is
// returned, because the store may count its lease from later on, and the timer is destroyed.
bool deliveries::must_wait(near_timer& t) {
    assert(t.phase == timer_phase::held && "only a claimed timer is delivered");
    const reading now = all_.storage.now();
    if (t.due > now) {
        near_.set_alarm(t);
        return true;
    }
    if (!all_.storage.traits().shared || now < t.leased_until) return false;
    ends_.return_claim(t.claim.token);
    t.home.forget(*t.id);
    return true;
}

void deliveries::on_ready(near_timer& t) {
    if (must_wait(t)) return;
    if (!is_suspect(t)) return deliver(t);
    if (!t.is_on_trial && all_.load.trials >= max_trials) return park(t);
    t.set_trial(true);
    t.wait_in(suspects_);
}

// --- suspects -----------------------------------------------------------------------------------

void deliveries::park(near_timer& t) {
    assert(!t.is_on_trial && "a suspect on trial is delivered and not parked");
    t.move_to(timer_phase::parked);
    ends_.return_claim(t.claim.token);
    t.wait_in(parked_);
}

void deliveries::begin_trials() {
    while (all_.load.trials < max_trials && !parked_.empty()) {
        near_timer& t = *parked_.front();
        assert(t.phase == timer_phase::parked && "the queue of parked timers holds no others");
        t.set_trial(true);
        queue_for_claim(t);
    }
}

void deliveries::spend_next() {
    while (!is_spending_ && !suspects_.empty() && may_deliver()) {
        near_timer& t = *suspects_.front();
        t.leave_queue();
        if (!must_wait(t)) spend(t);
    }
}

// Counts the attempt of a suspect in the store. The answer leads to its handler.
void deliveries::spend(near_timer& t) {
    assert(!is_spending_ && "suspects are delivered one by one");
    is_spending_ = true;
    t.move_to(timer_phase::spending);
    shard& s = t.home;
    const auto on_answer = [this, &s, spent = t.claim.token, resets = s.resets](standing how,
                                                                                bool is_current) {
        is_spending_ = false;
        if (resets == s.resets) on_spent(s, spent, how, is_current);
    };
    all_.storage.submit(
        operations::spend{s.number, s.owned_as, t.claim.token, all_.guarded(on_answer)});
}

void deliveries::on_spent(shard& s, const token& spent, standing how, bool is_current) {
    if (how == standing::fenced) return all_.up.on_fenced(s);
    near_timer* const t = s.find(spent.id);
    if (t == nullptr || t->phase != timer_phase::spending || !t->has_claim(spent)) return;
    if (how == standing::unknown) {
        t->move_to(timer_phase::held);
        all_.arm(t->alarm, all_.settings.retry);
    } else if (is_current) {
        t->move_to(timer_phase::held);
        if (!must_wait(*t)) deliver(*t);
    } else {
        s.forget(spent.id);
    }
}

// --- handlers -----------------------------------------------------------------------------------

void deliveries::deliver(near_timer& t) {
    assert(t.is_claimed() && "a claim is delivered once");
    t.set_trial(false);
    t.move_to(timer_phase::delivered);
    all_.arm(t.alarm, all_.settings.claim_lease);
    ++all_.count.delivered;
    all_.count.retries += !t.is_first;
    if (t.is_first) late_.record(all_.storage.now() - t.claim.due);
    delivery d{t.claim.token, t.claim.due, t.claim.every, std::exchange(t.claim.body, {})};
    all_.load.delivering = &t;
    const std::exception_ptr thrown = all_.contain(handler_, std::move(d));  // may destroy `t`
    const bool is_open = all_.load.delivering == &t && t.phase == timer_phase::delivered;
    all_.load.delivering = nullptr;
    if (thrown && is_open)
        ends_.end({{t.claim.token, outcome::failed, {}, line_of(words_of(thrown))}, {}});
}

time_point deliveries::latest_claim() const {
    return all_.now() + all_.storage.traits().claim_ahead + beats::least;
}

void deliveries::return_claims_of_a_clock_ahead() {
    const time_point latest = latest_claim();
    for (auto& s : all_.shards) {
        std::vector<token> early;
        for (const auto& [id, t] : s->near)
            if (t.phase == timer_phase::held && t.due > latest) early.push_back(t.claim.token);
        for (const token& t : early) {
            ends_.return_claim(t);
            s->forget(t.id);
        }
    }
}

void deliveries::hand_over(const token& token) {
    assert(all_.storage.traits().shared && "another process can end a delivery of a shared store");
    shard& s = all_.shard_of(token.id);
    const near_timer* const t = delivered(s, token);
    if (t == nullptr) return;
    const bool was_hinted = t->was_hinted;
    const time_point due = t->claim.due;
    s.forget(token.id);
    if (was_hinted) near_.on_known(s, token.id, due);
    all_.arm(next_turn_, microseconds::zero());  // fills the slot of a limit
}

std::optional<time_point> deliveries::move_lease(const token& token, time_point to,
                                                 std::optional<time_point> from) {
    near_timer* const t = delivered(all_.shard_of(token.id), token);
    if (t == nullptr || (from && t->leased_until != *from)) return std::nullopt;
    all_.arm(t->alarm, to - all_.storage.now());
    return std::exchange(t->leased_until, to);
}

}  // namespace tvec::durable::detail
