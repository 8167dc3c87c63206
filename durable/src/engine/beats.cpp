#include "beats.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tvec::durable::detail {

namespace {

// Timers in one look, with their bodies.
constexpr std::size_t timers_together = 100;

}  // namespace

void beats::on_clock_set(time_point before) {
    latest_ = std::max(latest_, before);
    shown_ = std::max(shown_, before);
    if (shown_ - all_.now() >= least) look_again();
}

// Until a clock that was ahead has passed, ends that were under way may have planned by it.
void beats::on_planned(const std::string& id, time_point due) {
    if (std::min(latest_, due) < all_.now() + least) return;
    const auto on_answer = [this](standing how, const std::optional<stored_timer>& t) {
        if (how != standing::done) return look_again();
        if (t) plan_anew(*t);
    };
    all_.storage.submit(operations::find{id, all_.guarded(on_answer)});
}

void beats::look_again() {
    looks_ = 2;
    begins_anew_ = true;
    all_.arm(again_, all_.settings.retry);
}

// Looks at the timers that a clock ahead may have planned, page by page.
void beats::look() {
    if (all_.is_stopping) return;
    if (is_asked_) return all_.arm(again_, all_.settings.retry);
    if (std::exchange(begins_anew_, false)) {
        const time_point now = all_.now();
        after_ = {std::min(now + least, latest_due), ""};
        std::erase_if(moved_, [now](const auto& m) { return m.second.due < now; });
    }
    is_asked_ = true;
    const auto on_answer = [this](standing how, const std::vector<stored_timer>& page) {
        is_asked_ = false;
        if (how != standing::done) return all_.arm(again_, all_.settings.retry);
        on_page(page);
    };
    all_.storage.submit(
        operations::list{timer_set::waiting, after_, timers_together, "", all_.guarded(on_answer)});
}

void beats::on_page(const std::vector<stored_timer>& page) {
    for (const stored_timer& t : page)
        if (t.attempt == t.ended && all_.shard_of(t.id).is_owned()) plan_anew(t);
    if (begins_anew_) return;  // `again_` has its look
    if (page.size() == timers_together) {
        after_ = {page.back().due, page.back().id};
        return look();
    }
    if (--looks_ == 0) {
        shown_ = {};
        return;
    }
    begins_anew_ = true;
    all_.arm(again_, all_.settings.claim_lease);
}

void beats::plan_anew(const stored_timer& t) {
    if (const auto due = planned_anew(t)) touch(t.id, *due);
}

// Returns another deadline for a timer whose deadline was planned by a clock ahead.
std::optional<time_point> beats::planned_anew(const stored_timer& t) const {
    const history h = history::parse(t.history);
    if (!is_planned_ahead(t, h)) return std::nullopt;
    const time_point now = all_.now();
    if (h.failures != 0) return now + h.delay;
    if (t.every == duration::zero()) return next_of_rule(t);
    return t.due - (t.due - now - duration(1)) / t.every * t.every;
}

bool beats::is_planned_ahead(const stored_timer& t, const history& h) const {
    const time_point late = all_.now() + least;
    const auto m = moved_.find(t.id);
    if (m != moved_.end() && m->second.due == t.due) return m->second.by >= late;
    return h.delay != duration::zero() && h.last + h.delay == t.due && h.last >= late;
}

std::optional<time_point> beats::next_of_rule(const stored_timer& t) const try {
    const plan p = parsed(t.plan);
    return p.rule.empty() ? std::nullopt : next_time_of(p, all_.settings.calendar, all_.now());
} catch (const std::invalid_argument&) {
    return std::nullopt;
}

void beats::touch(const std::string& id, time_point due) {
    const auto on_answer = [this, id, due, by = all_.now()](touch_result r) {
        if (r == touch_result::touched) {
            moved_.insert_or_assign(id, moved{due, by});
            return all_.up.on_next(all_.shard_of(id), id, due);
        }
        if (r != touch_result::unknown_id) look_again();
    };
    all_.storage.submit(operations::touch{id, due, all_.guarded(on_answer)});
}

}  // namespace tvec::durable::detail
