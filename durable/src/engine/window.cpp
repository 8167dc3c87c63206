#include "window.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine_parts.hpp"

namespace tvec::durable::detail {

namespace {

using std::chrono::microseconds;

// Timers in one page of the window: see `together`.
constexpr std::size_t page = 2'000;
// Drift of the clocks after which the window is placed anew.
constexpr microseconds drift{5'000};
// A timer that a sweep finds is overdue for longer than a claim takes.
constexpr duration grace{100};

}  // namespace

void window::take(shard& s) {
    if (s.taking_until || s.mine == 0) return;
    const std::size_t left = all_.room() - std::min(all_.room(), s.near.size());
    const std::size_t limit = std::clamp<std::size_t>(left, 1, page);
    const time_point until = std::min(all_.now() + all_.settings.horizon, latest_due);
    s.taking_until = until;
    s.was_lowered = false;
    all_.storage.take(
        s.number, s.mine, s.taken.value_or(place{}), until, limit,
        all_.guarded([this, &s, limit, term = s.term](standing how, std::vector<place> got) {
            if (term != s.term) return;
            if (how == standing::done) return on_taken(s, limit, std::move(got));
            if (how == standing::fenced) return all_.owners->fence(s);
            s.taking_until.reset();
            s.partial = false;  // or run() would ask again at once
            all_.arm(s.refill, all_.settings.retry);
        }));
}

void window::on_taken(shard& s, std::size_t limit, std::vector<place> got) {
    const place end{*std::exchange(s.taking_until, {}) + duration(1), ""};
    if (s.was_lowered) return;  // between its end and what this begins with is what was sent back
    s.partial = got.size() == limit;
    s.taken = std::max(s.taken.value_or(place{}), s.partial ? got.back() : end);
    all_.count.taken += got.size();
    for (const place& p : got) all_.count.duplicates += !enter(s, p.id, p.due);
    if (s.partial) return;  // run() goes on when there is room
    const auto ahead = s.taken->due - all_.now();
    all_.arm(s.refill, std::max(ahead - all_.settings.horizon / 2, duration::zero()));
}

// A timer that is overdue in the store and not in the window was hinted at, and the hint was lost.
void window::sweep(shard& s) {
    all_.arm(s.sweeper, all_.settings.sweep);
    if (s.mine == 0) return;
    all_.storage.take(
        s.number, s.mine, place{}, std::max(all_.now() - grace, earliest_due), together,
        all_.guarded([this, &s, term = s.term](standing how, const std::vector<place>& got) {
            if (term != s.term) return;
            if (how == standing::done) on_swept(s, got);
            if (how == standing::fenced) all_.owners->fence(s);
        }));
}

void window::on_swept(shard& s, const std::vector<place>& got) {
    for (const place& p : got) {
        const bool is_new = s.covers(p.due, p.id) && enter(s, p.id, p.due);
        all_.count.swept += is_new;
        all_.count.taken += is_new;
    }
}

// Returns whether it was not there.
bool window::enter(shard& s, const std::string& id, time_point due) {
    const auto [n, is_new] = s.near.try_emplace(id, s, due);
    if (!is_new) return false;
    n->second.id = &n->first;
    set_alarm(n->second);
    if (s.near.size() > all_.room()) evict(s);
    return true;
}

// Sends the latest quarter of what waits back to the store.
void window::evict(shard& s) {
    std::vector<near_timer*> waiting;
    for (auto& [id, t] : s.near)
        if (t.at == phase::waiting) waiting.push_back(&t);
    if (!s.taken || waiting.size() < 2) return;
    const std::size_t kept = waiting.size() - (waiting.size() + 3) / 4;
    const auto last_kept = waiting.begin() + static_cast<std::ptrdiff_t>(kept - 1);
    std::ranges::nth_element(waiting, last_kept, {}, &near_timer::position);
    s.taken = std::min(*s.taken, (*last_kept)->position());
    s.partial = true;
    s.was_lowered = true;
    all_.count.evicted += waiting.size() - kept;
    for (auto t = last_kept + 1; t != waiting.end(); ++t) s.near.erase(s.near.find(*(*t)->id));
}

// The store has it, due then: it belongs into the window, or not.
void window::on_known(shard& s, const std::string& id, time_point due) {
    const auto n = s.near.find(id);
    if (n != s.near.end()) {
        if (n->second.at == phase::asked || n->second.at == phase::claiming) return;
        if (n->second.is_parked) return;  // a claim will tell when it is due now
        forget(s, id);
    }
    if (s.covers(due, id)) enter(s, id, due);
}

void window::on_hint(unsigned number, const std::string& id, time_point due) {
    ++all_.count.hints;
    shard& s = *all_.shards[number];
    const auto n = s.near.find(id);
    if (n != s.near.end() && n->second.at >= phase::held && n->second.held.due == due) return;
    if (s.taking_until && due <= *s.taking_until && n == s.near.end())
        enter(s, id, due);  // the answer may not show it
    else
        on_known(s, id, due);
}

void window::set_alarm(near_timer& t) {
    const time_point at = t.at == phase::held ? t.due : claim_time(t);
    all_.arm(t.alarm, at - all_.storage.now());
}

// When it is claimed: claim_ahead before its deadline, and up to an eighth of that later, so that
// claims gather and the store is asked for many at once.
time_point window::claim_time(const near_timer& t) const {
    const duration ahead = all_.storage.traits().claim_ahead, grid = ahead / 8;
    const auto since_1970 = (t.due - ahead).time_since_epoch();
    if (grid <= duration(1)) return t.due - ahead;
    return time_point((since_1970 + grid - duration(1)) / grid * grid);
}

// Deadlines are points of the store's time, and the wheel's clock is steady: when the one is set,
// the window is placed anew.
void window::heed_clock() {
    const microseconds offset = all_.storage.now().time_since_epoch() - all_.clock.reading();
    if (offset_ && offset - *offset_ < drift && *offset_ - offset < drift) return;
    all_.count.clock_set += offset_.has_value();
    offset_ = offset;
    for (auto& s : all_.shards) {
        for (auto& [id, t] : s->near)
            if (t.at == phase::waiting || t.at == phase::held) set_alarm(t);
        if (s->taken && !s->partial) take(*s);
    }
}

void window::forget(shard& s, const std::string& id) {
    const auto n = s.near.find(id);
    if (n == s.near.end()) return;
    n->second.set_phase(phase::waiting);
    s.near.erase(n);
}

}  // namespace tvec::durable::detail
