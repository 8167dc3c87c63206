#include "shard.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tvec::durable::detail {

// --- near_timer ---------------------------------------------------------------------------------

near_timer::~near_timer() {
    if (home.load.delivering == this) home.load.delivering = nullptr;
    end_flight();
    leave_queue();
    set_trial(false);
}

void near_timer::on_alarm() { home.up.on_alarm(*this); }

void near_timer::move_to(timer_phase to) {
    const bool was = phase >= timer_phase::claiming, is = to >= timer_phase::claiming;
    assert((!was || home.being_delivered > 0) && "every timer from `claiming` on is counted");
    if (is && !was) ++home.being_delivered;
    if (was && !is) --home.being_delivered;
    if (!is || to == timer_phase::ending) end_flight();
    phase = to;
}

void near_timer::wait_in(queue& q) {
    leave_queue();
    position = q.insert(q.end(), this);
    waits_in = &q;
}

void near_timer::leave_queue() {
    if (waits_in != nullptr) std::exchange(waits_in, nullptr)->erase(position);
}

void near_timer::hold(std::size_t bytes) {
    assert(held_bytes == 0 && "a timer holds the body of one claim");
    home.load.held_bytes += held_bytes = bytes;
}

// The delivery is not in flight any more.
void near_timer::end_flight() {
    assert((permit_of == nullptr || permit_of->in_flight > 0) && "every permit in use is counted");
    assert(home.load.held_bytes >= held_bytes && "every body that is held is counted");
    if (permit_of != nullptr) --std::exchange(permit_of, nullptr)->in_flight;
    home.load.held_bytes -= std::exchange(held_bytes, 0);
    claim.body = {};
}

void near_timer::set_trial(bool to) {
    std::size_t& trials = home.load.trials;
    assert((!is_on_trial || trials > 0) && "every trial is counted");
    if (to && !is_on_trial) ++trials;
    if (!to && is_on_trial) --trials;
    is_on_trial = to;
}

// --- shard --------------------------------------------------------------------------------------

bool shard::covers(time_point due, const std::string& id) const {
    return is_owned() && taken && place{due, id} <= *taken;
}

near_timer* shard::find(const std::string& id) {
    const auto n = near.find(id);
    return n == near.end() ? nullptr : &n->second;
}

void shard::forget(const std::string& id) {
    const auto n = near.find(id);
    if (n == near.end()) return;
    n->second.move_to(timer_phase::waiting);  // no longer counted as being delivered
    near.erase(n);
}

void shard::own(epoch e) {
    if (e != last_owned && e != last_owned + 1) lost.clear();
    owned_as = last_owned = e;
}

time_point shard::lost_since(const std::string& id) const {
    const auto found = lost.find(id);
    return found == lost.end() ? claim_terms{}.since : found->second;
}

void shard::reset() {
    ++resets;
    owned_as = 0;
    taken.reset();
    taking_until.reset();
    is_partial = false;
    being_delivered = 0;
    near.clear();
    std::ranges::fill(left_out_by, left_out{});
    swept = {};
    refill.cancel();
    sweeper.cancel();
}

}  // namespace tvec::durable::detail
