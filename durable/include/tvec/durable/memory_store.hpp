/// \file
/// A store in memory: for tests of programs that use durable timers, and the model of all stores.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tvec/drivers/eventfd_doorbell.hpp"
#include "tvec/durable/detail/local_store.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable {

/// A database in memory that several `memory_store`s share, as processes share a server. Each
/// operation does at once the work of the operation of a store with that name. One thread owns it.
class TVEC_API memory_database {
public:
    /// Returns the time.
    using clock = std::function<reading()>;

    /// Makes an empty database. `time` is its clock, by default std::chrono::system_clock.
    explicit memory_database(unsigned shards = 1, clock time = {});

    /// Returns the time of the database.
    reading now() const { return clock_(); }
    /// Returns the number of shards.
    unsigned shards() const noexcept { return static_cast<unsigned>(shards_.size()); }
    /// Returns the shard of an id (FNV-1a).
    unsigned shard_of(std::string_view id) const noexcept;

    /// The result of a put, and the process that is to receive a hint.
    struct put_reply {
        put_result result;      ///< the result
        std::string hint_to{};  ///< the owner of the shard, or ""
    };

    /// The operations of `store`, for one timer and for the process `me`.
    /// @{
    put_reply put(const record& timer, existing how, const std::string& me);
    cancel_result cancel(const std::string& id);
    end_reply end(const ending& e);
    std::optional<stored_timer> find(const std::string& id) const;
    std::vector<stored_timer> list(timer_set set, const place& after, std::size_t limit) const;
    totals count() const;
    revive_result revive(const std::string& id, time_point due);
    std::size_t join(const std::string& me, duration lease);
    epoch own(const std::string& me, unsigned shard, duration lease);
    void release(unsigned shard, epoch mine);
    std::optional<std::vector<place>> take(unsigned shard, epoch mine, const place& after,
                                           time_point until, std::size_t limit);
    std::optional<claimed> claim(unsigned shard, epoch mine, const claim_terms& terms,
                                 duration ahead, const std::string& id);
    std::optional<bool> spend(unsigned shard, epoch mine, const token& t);
    /// @}

private:
    friend class memory_store;
    using teller = std::function<void(unsigned shard, const record& timer)>;

    // `visible` is the time of the next claim: the deadline, or the end of the lease of a claim.
    struct entry : stored_timer {
        time_point visible;
        duration lease{};       // of the last claim
        bool is_spent = false;  // the last attempt was counted in `spent`
        bool is_open() const { return attempt != ended; }
    };
    // A lease counts for no longer than its length from now, whatever the clock showed.
    struct lease_of {
        time_point until{};
        duration length{};
        bool holds(time_point now) const { return until > now && until - now <= length; }
    };
    struct shard {
        std::map<std::string, entry> timers, dead;
        std::set<place> order;  // of `timers`, by `visible`
        std::string owner;
        epoch last = 0;
        lease_of owned{};
        time_point taken_until{};
        time_point latest{};  // reading of the clock when it was owned
    };

    time_point today() const { return std::chrono::floor<duration>(now()); }
    shard& of(const std::string& id) { return shards_[shard_of(id)]; }
    bool is_owned(const shard& s) const { return s.last != 0 && s.owned.holds(today()); }
    void move(shard& s, entry& e, time_point to);
    void shorten(shard& s, entry& e);
    entry* current(shard& s, const token& t);
    put_reply put_anew(shard& s, const record& timer, std::uint32_t attempts,
                       const std::string& me);
    void insert(shard& s, entry e);
    void erase(shard& s, const std::string& id);

    clock clock_;
    std::vector<shard> shards_;
    std::map<std::string, lease_of> members_;
    std::map<std::string, teller> tellers_;  // by the name of the process
};

/// A link to a memory_database, by the name of one process. Requests wait until `run`, which does
/// them and calls the completions. A test can do both itself, step by step, and cut the link:
///
///     tvec::durable::memory_database all(8, [] { return my_time(); });
///     tvec::durable::memory_store store(all, "process 1");
///
/// The database must outlive it.
class TVEC_API memory_store : public detail::local_store {
public:
    /// Makes a link. Links with the same name are one process. `claim_ahead`: see store_traits.
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
    /// Breaks the link. Requests that have not been done are dropped, and all that are not answered
    /// are `unknown`. `answer` calls their completions, and then store_listener::reconnected.
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
        detail::outcome how;
        std::unique_ptr<detail::job> to;  // empty: the link is there again
    };
    struct hint {
        unsigned shard;
        std::string id;
        time_point due;
    };

    void post(std::unique_ptr<detail::job> j) override;

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
