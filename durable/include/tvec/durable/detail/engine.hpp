/// \file
/// The engine of durable timers, in ticks. tvec/durable/timers.hpp puts types and a clock around
/// it, and documents its operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tvec/core/timer_wheel.hpp"
#include "tvec/durable/delivery.hpp"
#include "tvec/durable/detail/wheel_clock.hpp"
#include "tvec/durable/metrics.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

/// Accepts the calls of users, and runs the parts that move timers between a store and a wheel.
class TVEC_API engine {
public:
    using handler = std::function<void(delivery)>;

    engine(timer_wheel& wheel, wheel_clock clock, store& from, handler h, options o);
    engine(const engine&) = delete;
    engine& operator=(const engine&) = delete;
    ~engine();

    refusal submit(operation o);
    refusal submit_all(timer_set set, std::string prefix, operation one,
                       completion<standing, std::uint64_t> then);
    void done(token t, completion<bool> then);
    refusal again(token t, time_point due, completion<bool> then);
    void failed(token t, std::string_view reason, completion<bool> then);
    void hand_over(const token& t);
    void taken(const token& t);
    void stop(std::function<void(const unfinished&)> then, duration at_most);

    int fd() const noexcept;
    void run();
    time_point now() const;
    bool ready() const noexcept;
    const durable::counters& counters() const noexcept;
    durable::gauges gauges() const noexcept;
    const lateness_histogram& late() const noexcept;

private:
    struct parts;

    template <class... Answer, class F>
    auto answering(std::size_t calls, completion<Answer...> then, F look_at);
    template <class Operation, class F> refusal ask(refusal fault, Operation& o, F look_at);
    refusal begin(operations::put o);
    refusal begin(operations::extend o);
    refusal begin(operations::find o);
    refusal begin(operations::list o);
    refusal begin(operations::oldest o);
    refusal begin(operations::count o);
    template <changes_one Operation> refusal begin(Operation o);
    template <class Other> refusal begin(Other o);
    template <changes_one Operation>
    refusal begin_all(timer_set set, std::string prefix, Operation one,
                      completion<standing, std::uint64_t> then);
    refusal admit(std::size_t calls, refusal fault = refusal::none, std::size_t put_bytes = 0);
    refusal accept(record& r) const;
    void on_put(put_result r, const place& p);
    void on_changed(const operations::cancel& o, cancel_result& r);
    template <sets_deadline Operation, class Result> void on_changed(const Operation& o, Result& r);
    unfinished left() const;
    void report_if_stopped();
    void report();

    std::unique_ptr<parts> parts_;
    std::size_t calls_in_flight_ = 0;
    std::size_t put_bytes_in_flight_ = 0;
    timer stop_limit_{call<&engine::stop_limit_, &engine::report>};
    std::function<void(const unfinished&)> on_stopped_{};
    std::size_t first_shard_ = 0;  // claims first in the next turn
};

}  // namespace tvec::durable::detail
