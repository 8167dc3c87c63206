// The window: the timers of the owned shards that are due before the horizon.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine_state.hpp"

namespace tvec::durable::detail {

// Brings timers from the store into the wheel, and drops those that it has no room for.
class window {
public:
    explicit window(engine_state& all) : all_(all) {}
    window(const window&) = delete;
    window& operator=(const window&) = delete;

    // Asks the store for the timers after the end of the window, up to the horizon.
    void take(shard& s);
    // Enters timers whose claims had no answer, to be claimed again at once.
    void enter_lost(shard& s);
    // Extends a partial window once half of it is free.
    void take_if_half_empty(shard& s);
    // Asks the store for overdue timers. Those that are not near had a hint that was lost.
    void sweep(shard& s);
    // Arms the first sweep of a shard.
    void begin_sweeps(shard& s);
    // Notes that the store holds a timer, due then. It enters the window if it belongs there.
    void on_known(shard& s, const std::string& id, time_point due);
    // Enters a timer, if it belongs into the window and is not near. Returns true if it does.
    bool on_found(shard& s, const place& p);
    // Notes that another process has put a timer into a shard.
    void on_hint(unsigned number, const std::string& id, time_point due);
    // Arms the alarm for the deadline of a held timer, or for the claim of any other.
    void set_alarm(near_timer& t);
    // Sets the alarms anew if the clock of the store was set.
    void heed_clock();
    // Returns true if the window of every owned shard reaches the horizon or is half full.
    bool is_filled() const noexcept;

private:
    duration sweep_period() const;
    void on_taken(shard& s, std::size_t limit, const std::vector<place>& all);
    void on_swept(shard& s, const std::vector<place>& all);
    bool enter(shard& s, const std::string& id, time_point due);
    void evict(shard& s);
    time_point claim_time(const near_timer& t) const;
    void reset_alarms(shard& s, duration set_back);

    engine_state& all_;
    std::optional<std::chrono::microseconds> offset_{};  // of the store's clock to the wheel's
};

}  // namespace tvec::durable::detail
