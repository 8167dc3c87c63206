/// \file
/// A store in memory: for tests of programs that use durable timers, and the model of all stores.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tvec/drivers/eventfd_doorbell.hpp"
#include "tvec/durable/detail/local_store.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable {

/// A database in memory that several `memory_store`s share, as processes share a server. One thread
/// owns it.
class TVEC_API memory_database {
public:
    /// Returns the time.
    using clock = std::function<reading()>;

    /// Makes an empty database. `time` is its clock, by default std::chrono::system_clock.
    explicit memory_database(unsigned shards = 1, clock time = {});
    ~memory_database();

    /// Returns the time of the database.
    reading now() const;
    /// Returns the number of shards.
    unsigned shards() const noexcept;
    /// Returns the shard of an id (FNV-1a).
    unsigned shard_of(std::string_view id) const noexcept;

private:
    friend class memory_store;
    struct inner;

    std::unique_ptr<inner> inner_;
};

/// A connection to a memory_database, by the name of one process. Requests wait until `run`, which
/// does them and calls the completions. A test can do both itself, step by step, and cut the
/// connection:
///
///     tvec::durable::memory_database all(8, [] { return my_time(); });
///     tvec::durable::memory_store store(all, "process 1");
///
/// The database must outlive it.
class TVEC_API memory_store : public detail::local_store {
public:
    /// Makes a connection. Connections with the same name are one process. `claim_ahead`: see
    /// store_traits.
    memory_store(memory_database& all, std::string name, duration claim_ahead = {});
    ~memory_store() override;

    /// Returns true if a request has not been done.
    bool is_asked() const noexcept { return !requests_.empty(); }
    /// Returns true if there are answers or hints.
    bool has_answers() const noexcept { return !replies_.empty() || !hints_.empty(); }
    /// Does the first request that has not been done. Returns true if there was one.
    bool serve();
    /// Hands over the first hint, or calls the completion of the first request that was done.
    /// Returns true if there was either.
    bool answer();
    /// Drops the first hint. Returns true if there was one.
    bool lose_hint();
    /// Breaks the connection. Requests that have not been done are dropped, and all that are not
    /// answered are `unknown`. `answer` calls their completions, and then
    /// store_listener::reconnected.
    void cut();
    /// Makes the next operations fail, as a full disk does: puts, cancels and revivals answer
    /// `failed`, and others `unknown`.
    void fail(std::size_t operations) noexcept { failing_ = operations; }

    /// \cond
    int fd() const noexcept override { return bell_.fd(); }
    std::size_t run() override;
    reading now() const override { return all_.now(); }
    const store_traits& traits() const noexcept override { return traits_; }
    unsigned shard_of(std::string_view id) const noexcept override { return all_.shard_of(id); }
    std::size_t unanswered() const noexcept override;
    std::string last_failure() const override { return failure_; }
    void listen(store_listener listener) override { listener_ = std::move(listener); }
    /// \endcond

private:
    class member;
    struct reply {
        detail::fate how;
        std::unique_ptr<detail::job> to;  // empty: the connection is there again
    };
    struct hint {
        unsigned shard;
        std::string id;
        time_point due;
    };

    void enqueue(std::unique_ptr<detail::job> j) override;

    memory_database& all_;
    std::string name_;
    store_traits traits_;
    eventfd_doorbell bell_;
    store_listener listener_;
    std::deque<std::unique_ptr<detail::job>> requests_;
    std::deque<reply> replies_;
    std::deque<hint> hints_;
    std::size_t failing_ = 0;
    std::string failure_;
};

}  // namespace tvec::durable
