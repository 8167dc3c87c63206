#include "ownership.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>

namespace tvec::durable::detail {

std::size_t ownership::owned() const noexcept {
    return static_cast<std::size_t>(
        std::ranges::count_if(all_.shards, [](const auto& s) { return s->is_owned(); }));
}

std::size_t ownership::renewed() const noexcept {
    const bool may_be_lost = all_.storage.traits().shared;
    const std::chrono::microseconds now = all_.clock.reading();
    return static_cast<std::size_t>(std::ranges::count_if(all_.shards, [&](const auto& s) {
        return s->is_owned() && (!may_be_lost || s->leased_until > now);
    }));
}

void ownership::join() {
    if (all_.is_stopping) return;
    if (!all_.storage.traits().shared) {
        for (auto& s : all_.shards) own(*s);
        return;
    }
    all_.arm(heartbeat_, all_.settings.shard_lease / 3);
    const auto on_answer = [this](standing how, std::size_t processes) {
        if (how == standing::done) share(std::max<std::size_t>(processes, 1));
    };
    all_.storage.submit(operations::join{all_.settings.shard_lease, all_.guarded(on_answer)});
}

// Releases shards beyond the fair share, renews the others, and seeks missing ones.
void ownership::share(std::size_t processes) {
    assert(processes > 0 && "this process is one of those that share");
    if (all_.is_stopping) return;
    fair_share_ = (all_.shards.size() + processes - 1) / processes;
    std::size_t left = owned();
    for (auto& s : all_.shards) {
        if (!s->is_owned()) continue;
        if (left > fair_share_) {
            --left;
            release(*s);
        } else {
            own(*s);
        }
    }
    shards_to_try_ = all_.shards.size();
    // Begins anywhere. Otherwise all processes would ask for the same shards.
    next_to_try_ = static_cast<std::size_t>(all_.storage.now().time_since_epoch().count());
    seek();
}

// Asks for all missing shards at once. If one belongs to another process, tries the next.
void ownership::seek() {
    while (!all_.is_stopping && shards_to_try_ > 0 && owned() + tries_in_flight_ < fair_share_) {
        shard& s = *all_.shards[next_to_try_++ % all_.shards.size()];
        if (!s.is_owned()) own(s);
        --shards_to_try_;
    }
}

// Acquires a shard, or renews its lease.
void ownership::own(shard& s) {
    const bool is_try = !s.is_owned();
    tries_in_flight_ += is_try;
    const std::chrono::microseconds until = all_.clock.reading() + all_.settings.shard_lease;
    const auto on_answer = [this, &s, is_try, until](standing how, epoch e) {
        assert((!is_try || tries_in_flight_ > 0) && "every try is counted until it is answered");
        tries_in_flight_ -= is_try;
        if (how == standing::done) {
            s.leased_until = until;
            on_owned(s, e);
        } else if (!all_.storage.traits().shared) {
            all_.arm(heartbeat_, all_.settings.retry);
        }
        if (is_try) seek();
    };
    all_.storage.submit(
        operations::own{s.number, all_.settings.shard_lease, all_.guarded(on_answer)});
}

void ownership::on_owned(shard& s, epoch e) {
    if (e == s.owned_as) return;
    if (s.is_owned()) fence(s);
    assert(s.near.empty() && !s.taken && "a new epoch begins with an empty window");
    if (e == 0) return;
    s.own(e);
    if (all_.is_stopping) return release(s);
    near_.take(s);
    near_.enter_lost(s);
    if (all_.storage.traits().shared) near_.begin_sweeps(s);
}

void ownership::fence(shard& s) {
    ++all_.count.leases_lost;
    lose(s);
}

void ownership::rejoin() {
    for (auto& s : all_.shards) lose(*s);
    join();
}

void ownership::lose(shard& s) {
    for (const auto& [id, t] : s.near)
        if (t.is_claimed()) ends_.return_claim(t.claim.token);
    s.reset();
}

void ownership::release(shard& s) {
    assert(s.is_owned() && "only an owned shard is released");
    const epoch owned_as = s.owned_as;
    lose(s);
    ends_.flush(s);
    ++releases_in_flight_;
    all_.storage.submit(operations::release{
        s.number, owned_as, all_.guarded([this](standing) { --releases_in_flight_; })});
}

void ownership::stop() {
    assert(all_.is_stopping && "the engine is stopping first");
    all_.arm(heartbeat_, std::chrono::microseconds::zero());  // causes a turn, which may report
    for (auto& s : all_.shards) {
        ends_.flush(*s);
        if (s->is_owned()) release(*s);
    }
}

}  // namespace tvec::durable::detail
