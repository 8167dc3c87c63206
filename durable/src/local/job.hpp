// An operation of a store in this process: the work, and its answer.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

// Performs the operations of a store at once, and returns their answers. A failure throws.
class database {
public:
    virtual ~database() = default;

    virtual std::vector<put_result> perform(const operations::put& o) = 0;
    virtual cancel_result perform(const operations::cancel& o) = 0;
    virtual std::vector<end_reply> perform(const operations::end& o) = 0;
    virtual std::optional<stored_timer> perform(const operations::find& o) = 0;
    virtual std::vector<stored_timer> perform(const operations::list& o) = 0;
    virtual totals perform(const operations::count& o) = 0;
    virtual touch_result perform(const operations::touch& o) = 0;
    virtual bool perform(const operations::extend& o) = 0;
    virtual revive_result perform(const operations::revive& o) = 0;
    virtual std::size_t perform(const operations::join& o) = 0;
    virtual epoch perform(const operations::own& o) = 0;
    virtual standing perform(const operations::release& o) = 0;
    // The following return nothing if another process owns the shard.
    virtual std::optional<std::vector<place>> perform(const operations::take& o) = 0;
    virtual std::optional<std::vector<claimed>> perform(const operations::claim& o) = 0;
    virtual std::optional<bool> perform(const operations::spend& o) = 0;
};

// The fate of a job. If it is `unknown`, the work may have been done or not.
enum class fate { done, failed, unknown };

// The thread of the loop makes, answers and destroys a job. Another thread may do the work.
struct job {
    virtual ~job() = default;
    virtual void work(database& db) = 0;
    virtual void answer(fate how) = 0;
};

}  // namespace tvec::durable::detail
