// The window: the timers of our shards that are due soon, in the wheel.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "shard.hpp"

namespace tvec::durable::detail {

class window {
public:
    explicit window(engine_state& all) : all_(all) {}
    window(const window&) = delete;
    window& operator=(const window&) = delete;

    void take(shard& s);
    void sweep(shard& s);
    void on_known(shard& s, const std::string& id, time_point due);
    void on_hint(unsigned number, const std::string& id, time_point due);
    void set_alarm(near_timer& t);
    void heed_clock();
    void forget(shard& s, const std::string& id);

private:
    void on_taken(shard& s, std::size_t limit, std::vector<place> got);
    void on_swept(shard& s, const std::vector<place>& got);
    bool enter(shard& s, const std::string& id, time_point due);
    void evict(shard& s);
    time_point claim_time(const near_timer& t) const;

    engine_state& all_;
    std::optional<std::chrono::microseconds> offset_{};  // of the store's clock to the wheel's
};

}  // namespace tvec::durable::detail
