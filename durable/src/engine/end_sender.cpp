#include "end_sender.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "engine_parts.hpp"

namespace tvec::durable::detail {

using std::chrono::microseconds;

// Gives back what was claimed and not delivered, so that nobody waits for the end of its lease.
void end_sender::return_claim(token t) { end({{std::move(t), {}, true}, {}}); }

void end_sender::end(pending_end e) {
    shard& s = all_.of(e.what.token.id);
    const auto n = s.near.find(e.what.token.id);
    if (n != s.near.end() && n->second.at == phase::delivered &&
        n->second.held.token == e.what.token) {
        n->second.set_phase(phase::ending);
        n->second.alarm.cancel();
    }
    ++unstored_;
    s.endings.push_back(std::move(e));
    if (!s.flusher.pending()) all_.arm(s.flusher, microseconds::zero());
}

void end_sender::flush(shard& s) {
    if (s.endings.empty()) return;
    s.flusher.cancel();
    std::vector<ending> ends;
    ends.reserve(s.endings.size());
    for (const pending_end& e : s.endings) ends.push_back(e.what);
    all_.storage.end(s.number, std::move(ends),
                     all_.guarded([this, &s, asked = std::exchange(s.endings, {})](
                                      standing how, const std::vector<end_reply>& got) mutable {
                         on_ends(s, asked, how, got);
                     }));
}

// If the link broke, it is unknown whether an end arrived. It is sent again, which is idempotent.
void end_sender::on_ends(shard& s, std::vector<pending_end>& asked, standing how,
                         const std::vector<end_reply>& got) {
    if (how == standing::done) {
        for (std::size_t i = 0; i < asked.size(); ++i) on_ended(s, asked[i], got[i]);
        return;
    }
    std::ranges::move(asked, std::back_inserter(s.endings));
    s.backs_off = true;
    all_.arm(s.flusher, all_.settings.retry);
}

// A timer that was given back may have been claimed anew before the store's answer was heard.
bool end_sender::is_claimed_again(const shard& s, const std::string& id) {
    const auto n = s.near.find(id);
    return n != s.near.end() && n->second.at != phase::waiting;
}

void end_sender::on_ended(shard& s, pending_end& e, const end_reply& r) {
    --unstored_;
    if (e.what.returned)
        all_.count.returned += r.was_current;
    else if (!r.was_current)
        ++all_.count.stale;
    else
        ++(e.what.again ? all_.count.again : all_.count.done);
    const std::string& id = e.what.token.id;
    const auto n = s.near.find(id);
    if (n != s.near.end() && n->second.at == phase::ending && n->second.held.token == e.what.token)
        all_.near->forget(s, id);
    if (r.next && !(e.what.returned && is_claimed_again(s, id)))
        all_.near->on_known(s, id, *r.next);
    all_.contain(e.then, r.was_current);
}

}  // namespace tvec::durable::detail
