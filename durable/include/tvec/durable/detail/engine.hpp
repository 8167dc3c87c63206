/// \file
/// The life of durable timers between the store and the wheel, in ticks. tvec/durable/timers.hpp
/// puts types and a clock around it, and documents its operations.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tvec/core/timer_wheel.hpp"
#include "tvec/durable/delivery.hpp"
#include "tvec/durable/metrics.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

/// The wheel's clock: in which tick a delay ends, and its reading.
struct wheel_clock {
    std::function<jiffies(std::chrono::microseconds)> tick_after;
    std::function<std::chrono::microseconds()> reading;
};

struct engine_parts;  // shards, the window, deliveries and their ends: durable/src/engine

/// The operations of `timers`, which documents them.
class TVEC_API engine {
public:
    /// Called with a timer that is due.
    using handler = std::function<void(delivery)>;
    /// Called with an answer.
    template <class... Answer> using completion = store::completion<Answer...>;

    engine(timer_wheel& wheel, wheel_clock clock, store& from, handler h, options o);
    engine(const engine&) = delete;
    engine& operator=(const engine&) = delete;
    ~engine();

    refusal put_all(std::vector<record> timers, existing how,
                    completion<std::vector<put_result>> then);
    refusal cancel(const std::string& id, completion<cancel_result> then);
    void done(token t, completion<bool> then);
    refusal again(token t, time_point due, completion<bool> then);
    refusal find(std::string id, completion<standing, std::optional<stored_timer>> then);
    refusal list(timer_set set, place after, std::size_t limit,
                 completion<standing, std::vector<stored_timer>> then);
    refusal count(completion<standing, totals> then);
    refusal revive(const std::string& id, time_point due, completion<revive_result> then);
    void stop(std::function<void(const unfinished&)> then, duration at_most);

    int fd() const noexcept;
    void run();
    time_point now() const;
    bool ready() const noexcept;
    const durable::counters& counters() const noexcept;
    durable::gauges gauges() const noexcept;
    const lateness_histogram& late() const noexcept;

private:
    template <class... Answer, class F>
    auto answering(std::size_t calls, completion<Answer...> then, F f);
    refusal admit(std::size_t calls, refusal fault = refusal::none, std::size_t bytes = 0);
    void on_put(put_result r, const place& p);
    cancel_result on_cancelled(const std::string& id, cancel_result r);
    unfinished left() const;
    void settle();
    void give_up();

    std::unique_ptr<engine_parts> parts_;
    std::size_t calls_ = 0;                                 // in flight
    std::size_t put_bytes_ = 0;                             // of their puts
    timer limit_{call<&engine::limit_, &engine::give_up>};  // of `stop`
    std::function<void(const unfinished&)> stopped_{};
};

}  // namespace tvec::durable::detail
