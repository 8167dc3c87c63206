#include "ownership.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine_parts.hpp"

namespace tvec::durable::detail {

std::size_t ownership::owned() const noexcept {
    return static_cast<std::size_t>(
        std::ranges::count_if(all_.shards, [](const auto& s) { return s->mine != 0; }));
}

// Renews what is ours; asks how many processes there are to share with.
void ownership::join() {
    if (all_.stopping) return;
    if (!all_.storage.traits().shared) {
        for (auto& s : all_.shards) own(*s);
        return;
    }
    all_.arm(beat_, all_.settings.shard_lease / 3);
    all_.storage.join(all_.settings.shard_lease,
                      all_.guarded([this](standing how, std::size_t processes) {
                          if (how == standing::done) share(std::max<std::size_t>(processes, 1));
                      }));
}

// Gives back what is beyond our share of the shards, and looks for more if it is less.
void ownership::share(std::size_t processes) {
    if (all_.stopping) return;
    fair_ = (all_.shards.size() + processes - 1) / processes;
    std::size_t mine = owned();
    for (auto& s : all_.shards) {
        if (s->mine == 0) continue;
        if (mine > fair_) {
            --mine;
            give_back(*s);
        } else {
            own(*s);
        }
    }
    to_try_ = all_.shards.size();
    // Begins anywhere, lest all processes ask for the same.
    try_next_ = static_cast<std::size_t>(all_.storage.now().time_since_epoch().count());
    seek();
}

// Asks for as many shards as are missing at once; instead of one that is another's, for the next.
void ownership::seek() {
    for (; !all_.stopping && to_try_ > 0 && owned() + sought_ < fair_; --to_try_) {
        shard& s = *all_.shards[try_next_++ % all_.shards.size()];
        if (s.mine == 0) own(s);
    }
}

void ownership::own(shard& s) {
    const bool is_sought = s.mine == 0;
    sought_ += is_sought;
    all_.storage.own(s.number, all_.settings.shard_lease,
                     all_.guarded([this, &s, is_sought](standing how, epoch e) {
                         sought_ -= is_sought;
                         if (how == standing::done)
                             on_owned(s, e);
                         else if (!all_.storage.traits().shared)
                             all_.arm(beat_, all_.settings.retry);
                         if (is_sought) seek();
                     }));
}

void ownership::on_owned(shard& s, epoch e) {
    if (e == s.mine) return;
    if (s.mine != 0) fence(s);
    s.mine = e;
    if (e == 0) return;
    if (all_.stopping) return give_back(s);
    all_.near->take(s);
    if (all_.storage.traits().shared) all_.arm(s.sweeper, all_.settings.sweep);
}

// The shard is another's.
void ownership::fence(shard& s) {
    ++all_.count.leases_lost;
    lose(s);
}

void ownership::lose(shard& s) {
    for (const auto& [id, t] : s.near)
        if (t.at == phase::held || t.at == phase::spending) all_.ends->return_claim(t.held.token);
    ++s.term;
    s.mine = 0;
    s.taken.reset();
    s.taking_until.reset();
    s.partial = false;
    s.claimed = 0;
    s.to_claim.clear();
    s.near.clear();
    s.refill.cancel();
    s.sweeper.cancel();
}

void ownership::give_back(shard& s) {
    const epoch mine = s.mine;
    lose(s);
    all_.ends->flush(s);
    ++releases_;
    all_.storage.release(s.number, mine, all_.guarded([this](standing) { --releases_; }));
}

void ownership::lose_all() {
    for (auto& s : all_.shards) lose(*s);
}

void ownership::wake() { all_.arm(beat_, std::chrono::microseconds::zero()); }

}  // namespace tvec::durable::detail
