#include "window.hpp"

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>

namespace tvec::durable::detail {

using std::chrono::microseconds;

namespace {

// Timers in one take.
constexpr std::size_t page_size = 2'000;
// Drift between the clocks of store and wheel after which the alarms are set anew.
constexpr microseconds max_drift{5'000};
// A sweep finds timers that are overdue for longer than a claim takes.
constexpr duration sweep_grace{100};

place place_of(const near_timer& t) { return {t.due, *t.id}; }

// Returns the places behind those of records that were set aside, which the store answers first.
std::span<const place> readable(const std::vector<place>& got, std::uint64_t& damaged) {
    const auto first = std::ranges::find_if(got, [](const place& p) { return !p.id.empty(); });
    damaged += static_cast<std::uint64_t>(first - got.begin());
    return {first, got.end()};
}

std::vector<near_timer*> waiting_of(shard& s) {
    std::vector<near_timer*> waiting;
    for (auto& [id, t] : s.near)
        if (t.phase <= timer_phase::parked) waiting.push_back(&t);
    return waiting;
}

}  // namespace

// --- answers of the store -----------------------------------------------------------------------

void window::take(shard& s) {
    if (s.taking_until || !s.is_owned()) return;
    const std::size_t room = all_.window_share() - std::min(all_.window_share(), s.near.size());
    const std::size_t limit = std::clamp<std::size_t>(room, 1, page_size);
    const time_point until = std::min(all_.now() + all_.settings.horizon, latest_due);
    s.taking_until = until;
    s.was_lowered = false;
    const auto on_answer = [this, &s, limit](standing how, const std::vector<place>& got) {
        if (how == standing::done) return on_taken(s, limit, got);
        s.taking_until.reset();
        s.is_partial = false;  // else the next turn would ask again at once
        all_.arm(s.refill, all_.settings.retry);
    };
    all_.storage.submit(operations::take{s.number, s.owned_as, s.taken.value_or(place{}), until,
                                         limit, all_.of_owner(s, on_answer)});
}

void window::on_taken(shard& s, std::size_t limit, const std::vector<place>& all) {
    assert(s.taking_until && "an answer belongs to a take in flight");
    const place horizon{*std::exchange(s.taking_until, {}) + duration(1), ""};
    const std::span got = readable(all, all_.count.damaged);
    if (s.was_lowered) return;  // the answer begins after timers that were evicted meanwhile
    s.is_partial = got.size() == limit;
    s.taken = std::max(s.taken.value_or(place{}), s.is_partial ? got.back() : horizon);
    all_.count.taken += got.size();
    for (const place& p : got) all_.count.duplicates += !enter(s, p.id, p.due);
    if (s.is_partial) return;  // run() continues when there is room
    const duration ahead = s.taken->due - all_.now();
    all_.arm(s.refill, std::max(ahead - all_.settings.horizon / 2, duration::zero()));
}

void window::enter_lost(shard& s) {
    for (const auto& [id, sent] : s.lost) enter(s, id, all_.now());
}

void window::take_if_half_empty(shard& s) {
    if (s.is_partial && s.near.size() <= all_.window_share() / 2) take(s);
}

void window::sweep(shard& s) {
    all_.arm(s.sweeper, sweep_period());
    if (!s.is_owned()) return;
    const auto on_answer = [this, &s](standing how, const std::vector<place>& got) {
        if (how == standing::done) on_swept(s, got);
    };
    const time_point until = std::max(all_.now() - sweep_grace, earliest_due);
    all_.storage.submit(operations::take{s.number, s.owned_as, s.swept, until, batch_size,
                                         all_.of_owner(s, on_answer)});
}

duration window::sweep_period() const {
    const duration by_store = all_.storage.traits().sweep;
    return by_store != duration::zero() ? by_store : all_.settings.sweep;
}

// Sweeps of different shards come at different times, because a server may have to walk over many
// dead rows for each: claims in between wait for a part of them.
void window::begin_sweeps(shard& s) {
    constexpr int phases = 16;
    const int phase = phases - static_cast<int>(s.number % phases);
    all_.arm(s.sweeper, sweep_period() * phase / phases);
}

// The next sweep goes on after a full page, because overdue timers may wait for a limit. It comes
// at once if the page had new timers: there may be many more of a transaction that was open for
// long.
void window::on_swept(shard& s, const std::vector<place>& all) {
    const std::span got = readable(all, all_.count.damaged);
    const bool is_full = got.size() == batch_size;
    s.swept = is_full ? got.back() : place{};
    std::uint64_t found = 0;
    for (const place& p : got) found += all_.up.on_overdue(s, p);
    all_.count.swept += found;
    all_.count.taken += found;
    if (is_full && found != 0) all_.arm(s.sweeper, std::chrono::microseconds::zero());
}

// --- entering and leaving -----------------------------------------------------------------------

// Returns true if the timer was not near before.
bool window::enter(shard& s, const std::string& id, time_point due) {
    assert(s.is_owned() && "only the owner of a shard keeps its timers near");
    const auto [n, is_new] = s.near.try_emplace(id, s, due);
    if (!is_new) return false;
    n->second.id = &n->first;
    set_alarm(n->second);
    if (s.near.size() > all_.window_share()) evict(s);
    return true;
}

// Leaves the latest quarter of the waiting timers to the store, and lowers the end of the window.
void window::evict(shard& s) {
    std::vector<near_timer*> waiting = waiting_of(s);
    if (!s.taken || waiting.size() < 2) return;
    const std::size_t kept = waiting.size() - (waiting.size() + 3) / 4;
    assert(kept > 0 && kept < waiting.size() && "some timers stay and some go");
    const auto last_kept = waiting.begin() + static_cast<std::ptrdiff_t>(kept - 1);
    std::ranges::nth_element(waiting, last_kept, {}, [](auto* t) { return place_of(*t); });
    s.taken = std::min(*s.taken, place_of(**last_kept));
    s.is_partial = true;
    s.was_lowered = true;
    all_.count.evicted += waiting.size() - kept;
    for (auto t = last_kept + 1; t != waiting.end(); ++t) s.near.erase(s.near.find(*(*t)->id));
}

void window::on_known(shard& s, const std::string& id, time_point due) {
    if (near_timer* const t = s.find(id)) {
        t->due = due;
        const bool will_be_claimed =
            t->phase > timer_phase::waiting && t->phase < timer_phase::held;
        if (will_be_claimed) return;
        s.forget(id);
    }
    if (s.covers(due, id)) enter(s, id, due);
}

bool window::on_found(shard& s, const place& p) {
    return s.covers(p.due, p.id) && enter(s, p.id, p.due);
}

void window::on_hint(unsigned number, const std::string& id, time_point due) {
    assert(number < all_.shards.size() && "a hint is for a shard of the store");
    ++all_.count.hints;
    shard& s = *all_.shards[number];
    near_timer* const t = s.find(id);
    if (t != nullptr && t->phase >= timer_phase::held && t->claim.due == due) {
        t->was_hinted = true;
        return;
    }
    if (s.taking_until && due <= *s.taking_until && t == nullptr)
        enter(s, id, due);  // the answer of the take in flight may not show it
    else
        on_known(s, id, due);
}

// --- alarms -------------------------------------------------------------------------------------

void window::set_alarm(near_timer& t) {
    const time_point at = t.phase == timer_phase::held ? t.due : claim_time(t);
    all_.arm(t.alarm, at - all_.storage.now());
}

// Returns the time of the claim: claim_ahead before the deadline, and up to an eighth of that
// later. Claims gather at these times, so one request serves many.
time_point window::claim_time(const near_timer& t) const {
    const duration ahead = all_.storage.traits().claim_ahead, grid = ahead / 8;
    const auto since_1970 = (t.due - ahead).time_since_epoch();
    if (grid <= duration(1)) return t.due - ahead;
    return time_point((since_1970 + grid - duration(1)) / grid * grid);
}

// Deadlines are times of the store, and the clock of the wheel is steady.
void window::heed_clock() {
    const microseconds steady = all_.clock.reading();
    const reading now = all_.storage.now();
    const microseconds offset = now.time_since_epoch() - steady;
    const time_point today = std::chrono::floor<duration>(now);
    const time_point latest = std::exchange(all_.latest, today);
    const bool is_same = offset_ && offset - *offset_ < max_drift && *offset_ - offset < max_drift;
    if (is_same && latest - now < max_drift) return;
    const bool is_first = !offset_;
    const auto shown = [](microseconds t) { return std::chrono::floor<duration>(reading(t)); };
    const time_point before =
        std::max(latest, shown(std::exchange(offset_, offset).value_or(offset) + steady));
    for (auto& s : all_.shards) reset_alarms(*s, std::max(before - today, duration::zero()));
    if (is_first) return;
    ++all_.count.clock_set;
    all_.up.on_clock_set(before);
}

// Leases end as much sooner as the clock was set back by.
void window::reset_alarms(shard& s, duration set_back) {
    for (auto& [id, t] : s.near) {
        t.leased_until -= set_back;
        if (t.phase == timer_phase::waiting || t.phase == timer_phase::held) set_alarm(t);
    }
    if (!s.is_partial) take(s);
}

bool window::is_filled() const noexcept {
    return std::ranges::all_of(all_.shards, [this](const auto& s) {
        if (!s->is_owned()) return true;
        return s->taken && (!s->is_partial || s->near.size() > all_.window_share() / 2);
    });
}

}  // namespace tvec::durable::detail
