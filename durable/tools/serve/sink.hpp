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
    // Returns how many deliveries it refuses for now, with its last answer to one; "" if it does
    // not.
    virtual std::string refusals() const { return ""; }

    // Shows each delivery that it has taken and that no worker has ended, and whether a worker has
    // taken it. `show` is called from the loop, later. A sink whose workers tell the store shows
    // none.
    using shown = std::function<void(const tvec::durable::token&, bool is_with_worker)>;
    virtual void look_through(shown /*show*/) {}
    // A delivery that no worker has taken, as far as the sink knows.
    struct untaken_delivery {
        tvec::durable::token token;
        tvec::durable::time_point due;
        std::string why{};  // if it is known
    };
    // Returns the one of those with a prefix that waits longest, if it knows of any.
    virtual std::optional<untaken_delivery> untaken(const std::string& prefix) const = 0;
};

// Replaces `first` by a delivery with the prefix that was due before it.
inline void keep_first(std::optional<sink::untaken_delivery>& first, const std::string& prefix,
                       const tvec::durable::token& t, tvec::durable::time_point due,
                       const std::string& why = {}) {
    if (t.id.starts_with(prefix) && (!first || due < first->due)) first = {t, due, why};
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
