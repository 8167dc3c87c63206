// A request to a store in this process: the work, and its answer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

// The timers of a store: its operations, done at once. A failure throws.
class database {
public:
    virtual std::vector<put_result> put(const std::vector<record>& timers, existing how) = 0;
    virtual cancel_result cancel(const std::string& id) = 0;
    virtual std::vector<end_reply> end(const std::vector<ending>& endings) = 0;
    virtual std::optional<stored_timer> find(const std::string& id) = 0;
    virtual std::vector<stored_timer> list(timer_set set, const place& after,
                                           std::size_t limit) = 0;
    virtual totals count() = 0;
    virtual revive_result revive(const std::string& id, time_point due) = 0;
    virtual std::size_t join(duration lease) = 0;
    virtual epoch own(unsigned shard, duration lease) = 0;
    virtual void release(unsigned shard, epoch mine) = 0;
    // The following return nothing if another process owns the shard.
    virtual std::optional<std::vector<place>> take(unsigned shard, epoch mine, const place& after,
                                                   time_point until, std::size_t limit) = 0;
    virtual std::optional<std::vector<claimed>> claim(unsigned shard, epoch mine,
                                                      const claim_terms& terms,
                                                      const std::vector<std::string>& ids) = 0;
    virtual std::optional<bool> spend(unsigned shard, epoch mine, const token& t) = 0;

protected:
    ~database() = default;
};

// The outcome of a job. An `unknown` job may have been done or not.
enum class outcome { done, failed, unknown };

// The thread of the loop makes, answers and destroys a job. Another thread may do the work.
struct job {
    virtual ~job() = default;
    virtual void work(database& db) = 0;
    virtual void answer(outcome how) = 0;
};

}  // namespace tvec::durable::detail
