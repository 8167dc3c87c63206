// Ends of deliveries, on their way to the store.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine_state.hpp"

namespace tvec::durable::detail {

// Sends ends in batches, and repeats those that the store has not answered. That is idempotent.
class end_sender {
public:
    explicit end_sender(engine_state& all) : all_(all) {}
    end_sender(const end_sender&) = delete;
    end_sender& operator=(const end_sender&) = delete;

    // Ends a delivery, and calls its `then` with whether the attempt was the current one.
    void end(pending_end e);
    // Returns a claim to the store before its handler was called, so that no process waits for the
    // end of its lease.
    void return_claim(token t);
    // Sends the ends of a shard that wait.
    void flush(shard& s);

    std::size_t in_flight() const noexcept { return in_flight_; }
    // Back-pressure: no handler is called while this many ends are in flight.
    bool is_full() const noexcept;

private:
    void on_answer(shard& s, std::vector<pending_end>& sent, standing how,
                   const std::vector<end_reply>& got);
    void on_ended(shard& s, const pending_end& e, const end_reply& r);
    void on_next(shard& s, const pending_end& e, time_point next);
    void count(const pending_end& e, bool was_current);

    engine_state& all_;
    std::size_t in_flight_ = 0;
};

}  // namespace tvec::durable::detail
