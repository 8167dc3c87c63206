#include "beats.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

#include "plan.hpp"

namespace tvec::durable::detail {

namespace {

// Timers in one look, with their bodies.
constexpr std::size_t timers_together = 100;

}  // namespace

void beats::on_clock_set(time_point before, time_point since) {
    const time_point now = all_.now();
    shown_ = std::max(shown_, before);
    if (shown_ - now < least) {
        since_ = now - before < least ? std::min(since_, since) : since;
        return;
    }
    note(std::max(std::exchange(since_, since), now), std::exchange(shown_, {}));
    look_again();
}

void beats::look_again() {
    for (span& s : ahead_) s.looks = 2;
    begins_anew_ = true;
    all_.arm(again_, all_.settings.retry);
}

void beats::note(time_point from, time_point to) {
    std::erase_if(ahead_, [now = all_.now()](const span& s) { return s.to <= now; });
    if (ahead_.empty() || from < ahead_.back().from || from > ahead_.back().to)
        return ahead_.push_back({from, to});
    ahead_.back() = {ahead_.back().from, std::max(ahead_.back().to, to)};
}

void beats::on_next(const std::string& id, time_point due) {
    if (std::ranges::none_of(ahead_, [due](const span& s) { return due > s.from; })) return;
    const auto on_answer = [this](standing how, const std::optional<stored_timer>& t) {
        if (how != standing::done) return look_again();
        if (t) plan_anew(*t);
    };
    all_.storage.submit(operations::find{id, all_.guarded(on_answer)});
}

// Looks at the timers that are due after a clock was ahead, page by page.
void beats::look() {
    if (all_.is_stopping) return;
    if (is_asked_) return all_.arm(again_, all_.settings.retry);
    if (std::exchange(begins_anew_, false)) after_ = {first_to_look_at(), ""};
    is_asked_ = true;
    const auto on_answer = [this](standing how, const std::vector<stored_timer>& page) {
        is_asked_ = false;
        if (how != standing::done) return all_.arm(again_, all_.settings.retry);
        on_page(page);
    };
    all_.storage.submit(
        operations::list{timer_set::waiting, after_, timers_together, "", all_.guarded(on_answer)});
}

time_point beats::first_to_look_at() const {
    time_point first = latest_due;
    for (const span& s : ahead_)
        if (s.looks != 0) first = std::min(first, s.from);
    return first;
}

void beats::on_page(const std::vector<stored_timer>& page) {
    for (const stored_timer& t : page)
        if (t.attempt == t.ended && all_.shard_of(t.id).is_owned()) plan_anew(t);
    if (begins_anew_) return;  // `again_` has its look
    if (page.size() == timers_together) {
        after_ = {page.back().due, page.back().id};
        return look();
    }
    for (span& s : ahead_) s.looks -= s.looks != 0;
    if (std::ranges::all_of(ahead_, [](const span& s) { return s.looks == 0; })) return;
    begins_anew_ = true;
    all_.arm(again_, all_.settings.claim_lease);
}

void beats::plan_anew(const stored_timer& t) {
    for (const span& s : ahead_)
        if (const auto due = planned_anew(s, t)) return touch(t.id, *due);
}

// Returns another deadline for a timer whose deadline was planned by that clock.
std::optional<time_point> beats::planned_anew(const span& ahead, const stored_timer& t) const {
    const time_point now = all_.now();
    if (t.due <= ahead.from) return std::nullopt;
    const history h = history::parse(t.history);
    const bool has_failed = h.failures != 0 && h.last >= ahead.from && h.last <= ahead.to;
    if (has_failed && h.last > now && h.last <= t.due) return now + (t.due - h.last);
    if (t.every == duration::zero()) return next_of_rule(ahead, t);
    const bool is_next = t.due <= now + t.every;
    if (t.attempt == 0 || t.due > ahead.to + t.every || is_next) return std::nullopt;
    return t.due - (t.due - now - duration(1)) / t.every * t.every;
}

// Returns the next beat of the rule of a timer that waits for a beat which was the next one then.
std::optional<time_point> beats::next_of_rule(const span& ahead, const stored_timer& t) const try {
    const plan p = parsed(t.plan);
    if (p.rule.empty()) return std::nullopt;
    const auto at = [&](time_point after) {
        return next_time_of(p, all_.settings.calendar, after);
    };
    const auto last = at(ahead.to), next = at(all_.now());
    const bool is_planned = at(t.due - duration(1)) == t.due && (!last || t.due <= *last);
    return is_planned && next && *next < t.due ? next : std::nullopt;
} catch (const std::invalid_argument&) {
    return std::nullopt;
}

void beats::touch(const std::string& id, time_point due) {
    const auto on_answer = [this, id, due](touch_result r) {
        if (r == touch_result::touched) return all_.up.on_next(all_.shard_of(id), id, due, true);
        if (r != touch_result::unknown_id) look_again();
    };
    all_.storage.submit(operations::touch{id, due, all_.guarded(on_answer)});
}

}  // namespace tvec::durable::detail
