/// \file
/// The engine of durable timers, in ticks. tvec/durable/timers.hpp puts types and a clock around
/// it, and documents its operations.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tvec/core/timer_wheel.hpp"
#include "tvec/durable/delivery.hpp"
#include "tvec/durable/metrics.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

/// The clock of a wheel.
struct wheel_clock {
    std::function<jiffies(std::chrono::microseconds)> tick_after;  ///< the tick that ends a delay
    std::function<std::chrono::microseconds()> reading;            ///< steady, from any origin
};

struct engine_parts;  // in durable/src/engine

/// Accepts the calls of users, and runs the parts that move timers between a store and a wheel.
class TVEC_API engine {
public:
    using handler = std::function<void(delivery)>;

    engine(timer_wheel& wheel, wheel_clock clock, store& from, handler h, options o);
    engine(const engine&) = delete;
    engine& operator=(const engine&) = delete;
    ~engine();

    refusal put_all(std::vector<record> timers, existing how,
                    completion<std::vector<put_result>> then);
    refusal cancel(const std::string& id, completion<cancel_result> then);
    void done(token t, completion<bool> then);
    refusal again(token t, time_point due, completion<bool> then);
    void failed(token t, std::string_view reason, completion<bool> then);
    refusal extend(token t, duration lease, completion<standing, bool> then);
    void hand_over(const token& t);
    refusal touch(const std::string& id, time_point due, completion<touch_result> then);
    refusal find(std::string id, completion<standing, std::optional<stored_timer>> then);
    refusal list(timer_set set, place after, std::size_t limit,
                 completion<standing, std::vector<stored_timer>> then, std::string prefix);
    refusal count(completion<standing, totals> then);
    refusal revive(const std::string& id, time_point due, completion<revive_result> then);
    refusal cancel_all(timer_set set, std::string prefix, completion<standing, std::uint64_t> then);
    refusal revive_all(std::string prefix, time_point due,
                       completion<standing, std::uint64_t> then);
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
    auto answering(std::size_t calls, completion<Answer...> then, F look_at);
    refusal admit(std::size_t calls, refusal fault = refusal::none, std::size_t put_bytes = 0);
    refusal accept(record& r) const;
    void on_put(put_result r, const place& p);
    void on_revived(const std::string& id, time_point due, revive_result r);
    cancel_result on_cancelled(const std::string& id, cancel_result r);
    unfinished left() const;
    void report_if_stopped();
    void report();

    std::unique_ptr<engine_parts> parts_;
    std::size_t calls_in_flight_ = 0;
    std::size_t put_bytes_in_flight_ = 0;
    timer stop_limit_{call<&engine::stop_limit_, &engine::report>};
    std::function<void(const unfinished&)> on_stopped_{};
    std::size_t first_shard_ = 0;  // claims first in the next turn
};

}  // namespace tvec::durable::detail
