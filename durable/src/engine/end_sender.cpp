#include "end_sender.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <iterator>
#include <utility>

#include "beats.hpp"

namespace tvec::durable::detail {

using std::chrono::microseconds;

void end_sender::end(pending_end e) {
    const token& which = e.how.token;
    shard& s = all_.shard_of(which.id);
    near_timer* const t = s.find(which.id);
    if (t != nullptr && t->awaits_end_of(which)) {
        e.every = t->claim.every;
        t->move_to(timer_phase::ending);
        t->alarm.cancel();
    }
    ++in_flight_;
    s.ends.push_back(std::move(e));
    if (!s.flusher.pending()) all_.arm(s.flusher, microseconds::zero());
}

void end_sender::return_claim(token t) {
    assert(t.attempt != 0 && "a claim has an attempt");
    end({{std::move(t), outcome::returned}, {}});
}

bool end_sender::is_full() const noexcept {
    return in_flight_ >= all_.settings.max_deliveries_per_turn;
}

void end_sender::flush(shard& s) {
    if (s.ends.empty()) return;
    s.flusher.cancel();
    std::vector<ending> batch;
    batch.reserve(s.ends.size());
    for (const pending_end& e : s.ends) batch.push_back(e.how);
    auto on_reply = [this, &s, sent = std::exchange(s.ends, {})](
                        standing how, const std::vector<end_reply>& got) mutable {
        on_answer(s, sent, how, got);
    };
    all_.storage.submit(
        operations::end{s.number, std::move(batch), all_.guarded(std::move(on_reply))});
}

// After a broken connection nobody knows if the ends arrived: they are sent again.
void end_sender::on_answer(shard& s, std::vector<pending_end>& sent, standing how,
                           const std::vector<end_reply>& got) {
    if (how == standing::done) {
        assert(got.size() == sent.size() && "a store answers every end");
        for (std::size_t i = 0; i < sent.size(); ++i) on_ended(s, sent[i], got[i]);
        return;
    }
    std::ranges::move(sent, std::back_inserter(s.ends));
    s.backs_off = true;
    all_.arm(s.flusher, all_.settings.retry);
}

void end_sender::on_ended(shard& s, const pending_end& e, const end_reply& r) {
    assert(in_flight_ > 0 && "every end is counted until it is answered");
    --in_flight_;
    count(e, r.was_current);
    const std::string& id = e.how.token.id;
    const near_timer* t = s.find(id);
    if (t != nullptr && t->phase == timer_phase::ending && t->has_claim(e.how.token)) {
        s.forget(id);
        t = nullptr;
    }
    // A returned timer may have been claimed anew before this answer came.
    const bool is_claimed_anew =
        e.how.how == outcome::returned && t != nullptr && t->phase > timer_phase::claiming;
    if (r.next && !is_claimed_anew) on_next(s, e, *r.next);
    all_.contain(e.then, r.was_current);
    if (e.is_planned && e.how.how == outcome::dead && r.was_current)
        all_.contain(all_.settings.on_dead, id, e.how.reason);
}

// The store plans the next beat of a period, perhaps by a clock that no part of the engine has
// seen.
void end_sender::on_next(shard& s, const pending_end& e, time_point next) {
    const bool is_beat = e.how.how == outcome::done && e.every != duration::zero();
    const time_point shown = next - e.every;
    if (is_beat && shown >= all_.now() + beats::least) all_.up.on_ahead(shown);
    const bool is_of_user = e.how.how == outcome::again && !e.is_planned;
    if (!is_of_user) all_.up.on_planned(e.how.token.id, next);
    all_.up.on_next(s, e.how.token.id, next);
}

void end_sender::count(const pending_end& e, bool was_current) {
    counters& c = all_.count;
    const outcome how = e.how.how;
    if (how == outcome::returned)
        c.returned += was_current;
    else if (!was_current)
        ++c.stale;
    else if (e.is_planned)
        ++c.planned;
    else
        ++(how == outcome::done ? c.done : how == outcome::again ? c.again : c.failures);
    c.died += was_current && how == outcome::dead;
}

}  // namespace tvec::durable::detail
