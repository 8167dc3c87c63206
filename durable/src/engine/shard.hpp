// A shard and its near timers: the data that the parts of the engine work on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tvec/core/call.hpp"
#include "tvec/core/timer.hpp"
#include "tvec/durable/delivery.hpp"

namespace tvec::durable::detail {

struct near_timer;
struct shard;

using queue = std::list<near_timer*>;

// Ids in one claim or sweep. One command must not keep a server busy for long, because renewals of
// leases wait behind it.
inline constexpr std::size_t batch_size = 500;

// Events of parts and shards that concern parts above them. The engine implements them.
class events {
public:
    // The alarm of a near timer has fired.
    virtual void on_alarm(near_timer& t) = 0;
    // The timer of a shard has fired to extend its window, to sweep it, or to send its ends.
    virtual void on_refill(shard& s) = 0;
    virtual void on_sweep(shard& s) = 0;
    virtual void on_flush(shard& s) = 0;
    // Another process owns a shard.
    virtual void on_fenced(shard& s) = 0;
    // The clock of the store was set: it would show `before` now.
    virtual void on_clock_set(time_point before) = 0;
    // A deadline shows that the store has read that time from a clock that was ahead.
    virtual void on_ahead(time_point shown) = 0;
    // An end has planned this deadline.
    virtual void on_planned(const std::string& id, time_point due) = 0;
    // The timer has another deadline.
    virtual void on_next(shard& s, const std::string& id, time_point due) = 0;
    // A sweep has found an overdue timer. Returns true if it enters the window.
    virtual bool on_overdue(shard& s, const place& p) = 0;

protected:
    ~events() = default;
};

// Totals of the near timers of all shards.
struct near_load {
    std::size_t held_bytes = 0;              // bodies of deliveries in flight
    std::size_t trials = 0;                  // suspects that are claimed or being claimed
    const near_timer* delivering = nullptr;  // its handler runs; nullptr once it is destroyed
};

// The life of a near timer. From `claiming` on it counts as being delivered.
enum class timer_phase {
    waiting,    // for its deadline
    parked,     // a suspect that was returned until it has a turn
    queued,     // for a claim to be sent
    claiming,   // a claim is in flight
    held,       // claimed, and not delivered
    spending,   // its attempt is being counted before it is delivered
    burying,    // the dead letter of its beat is being stored, and no handler has it
    delivered,  // until it is ended, or its lease ends
    ending      // its end is in flight
};

// A limit on deliveries of ids with a prefix: see limits.hpp.
struct limit {
    limit(std::string p, std::size_t n) : prefix(std::move(p)), most(n) {}
    std::string prefix;
    std::size_t most;
    std::size_t in_flight = 0;
    queue waiting{};  // due, for a permit
};

// The timers of a limit that the window of a shard has forgotten.
struct left_out {
    // Notes that timers after a place are left out.
    void note(const place& p) { after = after ? std::min(*after, p) : p; }

    std::optional<place> after{};  // they come after this place; none: nothing is left out
    time_point until{};            // no deadline that was left out is later
    bool is_asked = false;         // the store is asked for them
    // The time to ask again on the wheel's clock, after a failure of the store.
    std::chrono::microseconds not_before = std::chrono::microseconds::min();
};

// A timer of the window.
struct near_timer {
    near_timer(shard& s, time_point d) : home(s), due(d) {}
    near_timer(const near_timer&) = delete;
    near_timer& operator=(const near_timer&) = delete;
    ~near_timer();

    void on_alarm();
    void move_to(timer_phase to);
    bool has_claim(const token& t) const { return claim.token == t; }
    bool awaits_end_of(const token& t) const {
        return (phase == timer_phase::burying || phase == timer_phase::delivered) && has_claim(t);
    }
    bool is_claimed() const { return phase == timer_phase::held || phase == timer_phase::spending; }
    // Appends the timer to a queue, after it has left the one that it was in.
    void wait_in(queue& q);
    void leave_queue();
    // Counts the bytes of the body of a claim, until the delivery is not in flight any more.
    void hold(std::size_t bytes);
    void set_trial(bool to);

    shard& home;
    const std::string* id = nullptr;  // the key in shard::near
    time_point due;                   // the next claim, or the deadline once it is claimed
    timer_phase phase = timer_phase::waiting;
    bool is_first = false;       // no earlier attempt is open
    bool is_on_trial = false;    // a suspect that is claimed for its turn
    bool was_hinted = false;     // another process may have ended its delivery
    limit* permit_of = nullptr;  // counts the timer among its deliveries in flight
    std::size_t held_bytes = 0;  // that near_load::held_bytes counts
    queue* waits_in = nullptr;   // nullptr, or the queue that holds it
    queue::iterator position{};
    delivery claim{};           // valid once it is held
    time_point leased_until{};  // no other process can claim it before
    timer alarm{call<&near_timer::alarm, &near_timer::on_alarm>};

private:
    void end_flight();
};

// An end that the store has not answered.
struct pending_end {
    ending how;
    completion<bool> then;
    bool is_planned = false;  // a decision of the plan of the timer
    duration every{};         // the period of the timer, if it is known
};

struct shard {
    shard(events& to, near_load& l, unsigned n) : up(to), load(l), number(n) {}
    shard(const shard&) = delete;
    shard& operator=(const shard&) = delete;

    void on_refill() { up.on_refill(*this); }
    void on_sweep() { up.on_sweep(*this); }
    void on_flush() { up.on_flush(*this); }

    bool is_owned() const { return owned_as != 0; }
    // Returns true if a timer of that place belongs into the window.
    bool covers(time_point due, const std::string& id) const;
    // Returns the near timer of an id, or nullptr.
    near_timer* find(const std::string& id);
    void forget(const std::string& id);
    // Drops the window and the ownership. Ends that wait are kept, and claims without an answer.
    void reset();
    // Begins an ownership. If another process had the shard meanwhile, it may have what this one
    // has lost.
    void own(epoch e);
    // Returns claim_terms::since of a timer.
    time_point lost_since(const std::string& id) const;

    events& up;
    near_load& load;
    const unsigned number;
    epoch owned_as = 0;  // 0: not owned
    epoch last_owned = 0;
    // Timers whose claims had no answer, with the times of the first of these: if such a claim was
    // granted, nobody has the timer.
    std::map<std::string, time_point> lost{};
    // By the last answer, on the wheel's clock. The owner goes on until it is fenced.
    std::chrono::microseconds leased_until{};
    std::uint64_t resets = 0;  // counts them: an answer to a request sent before the last is stale

    std::unordered_map<std::string, near_timer> near;
    std::optional<place> taken{};              // the end of the window
    std::optional<time_point> taking_until{};  // set while a take is in flight
    bool is_partial = false;   // the store has more before the horizon than the window can hold
    bool was_lowered = false;  // timers were evicted since the last take was sent

    std::size_t being_delivered = 0;
    std::size_t claim_size = batch_size;  // ids in the next claim: few if bodies are large
    std::deque<std::string> to_claim;     // may hold ids that are gone
    std::vector<left_out> left_out_by;    // for each limit
    place swept{};                        // the end of the last sweep, if it found a full page

    std::vector<pending_end> ends;
    bool backs_off = false;  // the store failed: ends wait for options::retry

    timer refill{call<&shard::refill, &shard::on_refill>};
    timer flusher{call<&shard::flusher, &shard::on_flush>};
    timer sweeper{call<&shard::sweeper, &shard::on_sweep>};
};

}  // namespace tvec::durable::detail
