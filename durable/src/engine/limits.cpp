#include "limits.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

namespace tvec::durable::detail {

namespace {

// Returns the last place before that of a timer.
place before(place p) {
    assert(!p.id.empty() && "a timer has an id");
    if (p.id.back() == '\0') {
        p.id.pop_back();
        return p;
    }
    --p.id.back();
    p.id.resize(longest_id + 1, '\xff');
    return p;
}

}  // namespace

limits::limits(engine_state& all, window& near) : all_(all), near_(near) {
    for (const auto& [prefix, most] : all.settings.limits) limits_.emplace_back(prefix, most);
    std::ranges::stable_sort(limits_, std::ranges::greater(),
                             [](const limit& l) { return l.prefix.size(); });
    for (auto& s : all.shards) s->left_out_by.resize(limits_.size());
}

limit* limits::of(const std::string& id) {
    const auto found =
        std::ranges::find_if(limits_, [&id](const limit& l) { return id.starts_with(l.prefix); });
    return found == limits_.end() ? nullptr : &*found;
}

left_out& limits::left_out_of(shard& s, const limit& l) const {
    return s.left_out_by[static_cast<std::size_t>(&l - limits_.data())];
}

// All queues together take at most a quarter of the window of any shard.
std::size_t limits::longest_queue() const {
    return std::max<std::size_t>(all_.window_share() / (4 * limits_.size()), 1);
}

bool limits::admit(near_timer& t) {
    assert(t.permit_of == nullptr && "a timer has a permit from its claim on");
    limit* const l = of(*t.id);
    if (l == nullptr) return true;
    if (l->in_flight < l->most) {
        ++l->in_flight;
        t.permit_of = l;
        return true;
    }
    t.set_trial(false);  // suspects of other prefixes have their turn
    if (l->waiting.size() < longest_queue())
        t.wait_in(l->waiting);
    else
        leave_out(t, *l);
    return false;
}

void limits::leave_out(near_timer& t, const limit& l) {
    if (t.home.covers(t.due, *t.id)) {  // else the next take finds it
        left_out& missing = left_out_of(t.home, l);
        missing.note(before({t.due, *t.id}));
        missing.until = std::max(missing.until, t.due);
    }
    t.home.forget(*t.id);
}

// Returns true if the window has forgotten a timer of that place, and will ask for it.
bool limits::has_left_out(shard& s, const place& p) {
    const limit* const l = of(p.id);
    if (l == nullptr) return false;
    const left_out& missing = left_out_of(s, *l);
    return missing.after && p > *missing.after && p.due <= missing.until;
}

bool limits::let_in(shard& s, const place& p) {
    return !has_left_out(s, p) && near_.on_found(s, p);
}

void limits::grant_permits() {
    for (limit& l : limits_)
        for (std::size_t n = l.most - l.in_flight; n > 0 && !l.waiting.empty(); --n) {
            near_timer& t = *l.waiting.front();
            t.leave_queue();
            t.home.to_claim.push_back(*t.id);
        }
}

void limits::refill_queues(shard& s) {
    for (const limit& l : limits_) {
        left_out& missing = left_out_of(s, l);
        const std::size_t length = longest_queue(), there = l.waiting.size();
        const bool is_due = !missing.is_asked && all_.clock.reading() >= missing.not_before;
        if (missing.after && is_due && there <= length / 2)
            ask(s, missing, std::clamp<std::size_t>(length - there, 1, batch_size));
    }
}

// Asks up to now, because a timer that was claimed before shows when the lease of that claim ends.
void limits::ask(shard& s, left_out& l, std::size_t number) {
    assert(s.is_owned() && "a shard that is not owned has left out nothing");
    l.is_asked = true;
    const place from = *std::exchange(l.after, {});
    const auto on_answer = [this, &s, &l, from, number](standing how,
                                                        const std::vector<place>& got) {
        on_asked(s, l, from, number, how, got);
    };
    const time_point until = std::max(l.until, all_.now());
    all_.storage.submit(
        operations::take{s.number, s.owned_as, from, until, number, all_.of_owner(s, on_answer)});
}

void limits::on_asked(shard& s, left_out& l, const place& from, std::size_t number, standing how,
                      const std::vector<place>& got) {
    l.is_asked = false;
    if (how == standing::unknown) {
        l.note(from);
        l.not_before = all_.clock.reading() + all_.settings.retry;
        return all_.arm(retry_, all_.settings.retry);
    }
    if (got.size() == number) l.note(got.back());
    for (const place& p : got) let_in(s, p);
}

}  // namespace tvec::durable::detail
