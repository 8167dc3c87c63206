// The place where workers wait for deliveries.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "../settings.hpp"
#include "back_off.hpp"
#include "loop.hpp"
#include "tvec/durable/delivery.hpp"
#include "tvec/durable/store.hpp"

namespace timers_tool {

// The answer of a sink to a delivery.
struct sink_answer {
    enum class kind {
        taken,   // it is where workers are: one of them ends it in the store
        done,    // it is done
        again,   // it is to come again
        failed,  // it failed
    } what;
    tvec::durable::duration in{};  // `again`: so long from now
    std::string reason{};          // `failed`
};

// Takes deliveries to workers. It keeps trying while its destination is away: nothing is lost, and
// the service extends the leases meanwhile.
class sink {
public:
    using completion = std::function<void(const tvec::durable::token&, sink_answer)>;

    sink() = default;
    sink(const sink&) = delete;
    sink& operator=(const sink&) = delete;
    virtual ~sink() = default;

    // Takes a delivery. Its answer comes later, from the loop, unless it is withdrawn.
    virtual void put(tvec::durable::delivery d) = 0;
    // Forgets a delivery that is over, if no worker has it. It gets no answer then.
    virtual void withdraw(const tvec::durable::token& t) = 0;
    // Sends what was put in this turn of the loop.
    virtual void flush() = 0;
    // Returns what is wrong with the destination; "" while it works.
    virtual std::string fault() const = 0;

    // Shows each delivery that it has taken and that no worker has ended, and whether a worker has
    // taken it. `show` is called from the loop, later. A sink whose workers tell the store shows
    // none.
    using shown = std::function<void(const tvec::durable::token&, bool is_with_worker)>;
    virtual void look_through(shown /*show*/) {}
    // Returns the delivery that waits longest and that no worker has taken, if it knows of any.
    virtual std::optional<tvec::durable::overdue> untaken() const = 0;
};

// Returns the one of these deliveries that was due first.
template <class Deliveries> std::optional<tvec::durable::overdue> due_first(const Deliveries& all) {
    const auto first = std::ranges::min_element(all, {}, &tvec::durable::delivery::due);
    if (first == all.end()) return std::nullopt;
    return tvec::durable::overdue{first->token.id, first->due, first->due, true};
}

// Returns the one that waits longer.
inline std::optional<tvec::durable::overdue> longer(std::optional<tvec::durable::overdue> a,
                                                    std::optional<tvec::durable::overdue> b) {
    if (!a || !b) return a ? a : b;
    return b->since < a->since ? b : a;
}

// Returns a fault of `--to`. It shows the kind only, since the rest may have a password.
std::string fault_of_place(const std::string& to, const std::string& what);

// Connects to the place that `--to` names. Throws std::runtime_error if it cannot be one, and not
// if it is away.
std::unique_ptr<sink> open_sink(loop& in, const settings& o, sink::completion answered);

// The kinds. `spec` is the part of `--to` behind the kind.
std::unique_ptr<sink> open_stream(loop& in, const settings& o, sink::completion answered);
std::unique_ptr<sink> open_table(loop& in, const settings& o, sink::completion answered);
std::unique_ptr<sink> open_hook(loop& in, const settings& o, sink::completion answered);

}  // namespace timers_tool
