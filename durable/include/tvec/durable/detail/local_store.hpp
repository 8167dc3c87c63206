/// \file
/// The common base of the stores that do their operations in this process.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tvec/core/detail/export.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

enum class outcome;
struct job;

/// Turns each operation into a job, for a thread that holds the timers.
class TVEC_API local_store : public store {
public:
    void put(std::vector<record> timers, existing how,
             completion<std::vector<put_result>> then) override;
    void cancel(std::string id, completion<cancel_result> then) override;
    void end(unsigned shard, std::vector<ending> endings,
             completion<standing, std::vector<end_reply>> then) override;
    void find(std::string id, completion<standing, std::optional<stored_timer>> then) override;
    void list(timer_set set, place after, std::size_t limit,
              completion<standing, std::vector<stored_timer>> then) override;
    void count(completion<standing, totals> then) override;
    void revive(std::string id, time_point due, completion<revive_result> then) override;
    void join(duration lease, completion<standing, std::size_t> then) override;
    void own(unsigned shard, duration lease, completion<standing, epoch> then) override;
    void release(unsigned shard, epoch mine, completion<standing> then) override;
    void take(unsigned shard, epoch mine, place after, time_point until, std::size_t limit,
              completion<standing, std::vector<place>> then) override;
    void claim(unsigned shard, epoch mine, claim_terms terms, std::vector<std::string> ids,
               completion<standing, std::vector<claimed>> then) override;
    void spend(unsigned shard, epoch mine, token t, completion<standing, bool> then) override;

private:
    /// Has the job done, and answered later.
    virtual void post(std::unique_ptr<job> j) = 0;
};

}  // namespace tvec::durable::detail
