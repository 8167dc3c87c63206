// A shard that this process may own, and the timers of its window.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tvec/durable/detail/engine.hpp"

namespace tvec::durable::detail {

struct engine_state;
struct shard;

// The phase of a timer of the window. From `claiming` on it counts as being delivered.
enum class phase {
    waiting,    // for its deadline
    asked,      // for a claim to be sent
    claiming,   // for the answer
    held,       // claimed, and not delivered
    spending,   // being counted as spent before it is delivered
    delivered,  // until it is ended, or its lease is over
    ending      // its end is in flight
};

struct near_timer;
using queue = std::list<near_timer*>;

// A timer of the window.
struct near_timer {
    near_timer(shard& s, time_point d) : home(s), due(d) {}
    near_timer(const near_timer&) = delete;
    near_timer& operator=(const near_timer&) = delete;
    ~near_timer();
    void on_alarm();
    void set_phase(phase to);
    void wait_in(queue& q);
    void leave_queue();
    void set_trial(bool to);
    std::string take_body();
    place position() const { return {due, *id}; }

    shard& home;
    const std::string* id = nullptr;  // of the table
    time_point due;                   // while it waits, its deadline; once claimed, the granted one
    phase at = phase::waiting;
    bool first = false;        // no earlier attempt is open
    bool is_spent = false;     // the attempt was counted
    bool is_on_trial = false;  // a suspect that is claimed for its turn
    bool is_parked = false;    // a suspect that was given back until it has a turn
    queue* queued = nullptr;   // in which it waits for its handler,
    queue::iterator place_in_queue{};
    delivery held{};            // the granted delivery,
    time_point leased_until{};  // which no other process can claim before this
    timer alarm{call<&near_timer::alarm, &near_timer::on_alarm>};
};

// An end that the store has not answered.
struct pending_end {
    ending what;
    store::completion<bool> then;
};

struct shard {
    shard(engine_state& all_parts, unsigned n) : all(all_parts), number(n) {}
    shard(const shard&) = delete;
    shard& operator=(const shard&) = delete;
    void on_refill();
    void on_flush();
    void on_sweep();
    bool covers(time_point due, const std::string& id) const;

    engine_state& all;
    unsigned number;
    epoch mine = 0;
    std::uint64_t term = 0;                    // counts losses, to any owner
    std::optional<place> taken{};              // timers up to this place are in the window
    std::optional<time_point> taking_until{};  // while a take is in flight
    bool partial = false;                      // there is more before the horizon, and no room
    bool was_lowered = false;  // the end of the window was lowered since the last take was sent
    std::size_t claimed = 0;
    std::size_t claim_size = 500;  // ids in the next claim: few if bodies are large
    std::unordered_map<std::string, near_timer> near;
    std::deque<std::string> to_claim;
    std::vector<pending_end> endings;
    bool backs_off = false;  // the store could not take them: they wait for options::retry
    timer refill{call<&shard::refill, &shard::on_refill>};
    timer flusher{call<&shard::flusher, &shard::on_flush>};
    timer sweeper{call<&shard::sweeper, &shard::on_sweep>};
};

}  // namespace tvec::durable::detail
