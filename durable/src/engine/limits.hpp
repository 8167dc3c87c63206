// Limits on deliveries in flight, by prefixes of ids.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine_state.hpp"
#include "window.hpp"

namespace tvec::durable::detail {

// A due timer whose id has a limit is claimed when it gets a permit, which it keeps until its
// delivery ends. The first ones without a permit wait in a queue of the limit. The window forgets
// the others, so they take no room from timers of other prefixes. Each shard notes the place before
// the first forgotten timer of a limit, and asks the store for those after it when the queue gets
// short.
class limits {
public:
    limits(engine_state& all, window& near);
    limits(const limits&) = delete;
    limits& operator=(const limits&) = delete;

    // Returns the limit with the longest prefix of an id, or nullptr.
    limit* of(const std::string& id);
    // Returns true if the timer has a permit now, or needs none. If not, it waits, or is destroyed.
    bool admit(near_timer& t);
    // Enters a timer into the window, unless it was forgotten and will be asked for. Returns true
    // if it has entered.
    bool let_in(shard& s, const place& p);
    // Has waiting timers claimed for permits that are free.
    void grant_permits();
    // Asks for timers that were forgotten, where queues are short.
    void refill_queues(shard& s);

private:
    std::size_t longest_queue() const;
    bool has_left_out(shard& s, const place& p);
    void leave_out(near_timer& t, const limit& l);
    void ask(shard& s, left_out& l, std::size_t number);
    void on_asked(shard& s, left_out& l, const place& from, std::size_t number, standing how,
                  const std::vector<place>& got);
    left_out& left_out_of(shard& s, const limit& l) const;
    void do_nothing() {}

    engine_state& all_;
    window& near_;
    std::vector<limit> limits_;  // those with the longest prefixes first
    timer retry_{call<&limits::retry_, &limits::do_nothing>};  // causes a turn
};

}  // namespace tvec::durable::detail
