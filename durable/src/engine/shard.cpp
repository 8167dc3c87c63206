#include "shard.hpp"

#include <cassert>
#include <utility>

#include "engine_parts.hpp"

namespace tvec::durable::detail {

near_timer::~near_timer() {
    leave_queue();
    take_body();
    set_trial(false);
}

void near_timer::on_alarm() { home.all.deliverer->on_alarm(*this); }

void near_timer::set_phase(phase to) {
    const bool was_claimed = at >= phase::claiming, is_claimed = to >= phase::claiming;
    if (is_claimed && !was_claimed) ++home.claimed;
    if (was_claimed && !is_claimed) {
        assert(home.claimed != 0 && "a claimed timer is counted");
        --home.claimed;
    }
    at = to;
}

// The claimed body counts as held until it is taken.
std::string near_timer::take_body() {
    assert(home.all.held_bytes >= held.body.size() && "a held body is counted");
    home.all.held_bytes -= held.body.size();
    return std::exchange(held.body, {});
}

void near_timer::wait_in(queue& q) {
    leave_queue();
    place_in_queue = q.insert(q.end(), this);
    queued = &q;
}

void near_timer::leave_queue() {
    if (queued != nullptr) std::exchange(queued, nullptr)->erase(place_in_queue);
}

void near_timer::set_trial(bool to) {
    assert((home.all.trials != 0 || !is_on_trial) && "a suspect on trial is counted");
    home.all.trials -= is_on_trial;
    home.all.trials += to;
    is_on_trial = to;
}

void shard::on_refill() { all.near->take(*this); }

void shard::on_flush() {
    backs_off = false;
    all.ends->flush(*this);
}

void shard::on_sweep() { all.near->sweep(*this); }

bool shard::covers(time_point due, const std::string& id) const {
    return mine != 0 && taken && place{due, id} <= *taken;
}

}  // namespace tvec::durable::detail
