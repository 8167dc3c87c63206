/// \file
/// The primaries of a Redis Cluster that hold the keys of a set of timers.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "../link/event_set.hpp"
#include "../local/server_clock.hpp"
#include "client.hpp"
#include "opening.hpp"
#include "route.hpp"
#include "slot_map.hpp"

namespace tvec::durable::redis {

/// A cluster. It has a guide, which tells the slots and receives the hints, a client of each
/// primary that holds a key of the set, and a route of each shard. Another primary is followed when
/// a node says so, or when the guide does and the old one does not answer.
class cluster final : nodes {
public:
    /// Connects to the primaries, and opens the set. Throws std::system_error. A node that cannot
    /// be reached is tried again, unless it has the common keys. `guide` is ready.
    cluster(client& guide, detail::faults& f);
    cluster(const cluster&) = delete;
    cluster& operator=(const cluster&) = delete;

    int fd() const noexcept { return events_.fd(); }
    unsigned shards() const noexcept { return opening_.shards(); }
    /// Returns the earliest time of the primaries.
    reading now() const;
    /// Returns the time of the primary of a shard: the beginning of 1970 if it is not known.
    reading now(unsigned shard) const;
    const std::string& warning() const noexcept;
    /// Sets the receiver of the news that a primary is there again, or has been replaced.
    void listen(std::function<void()> reconnected) { reconnected_ = std::move(reconnected); }
    /// Notes a map that the guide has learnt.
    void on_map();

    /// Sends a command about a shard, or about the common keys.
    void ask(std::optional<unsigned> shard, const command& c, client::answer then);
    void touch(std::size_t waiting);
    /// Returns the node that is answering.
    client& answering() noexcept { return *answering_; }

    void receive();
    bool may_send(unsigned shard, std::size_t waiting) const;
    void flush();
    void leave();

private:
    client* node_at(const endpoint& e) override;
    void doubt() override;
    void answers(client& from) override { answering_ = &from; }
    void refuse(client::answer then, const std::string& why) override;
    bool reserve(std::size_t bytes) override;
    void free(std::size_t bytes) noexcept override;

    void open();
    void connect_all();
    bool wait_until(const std::function<bool()>& is_so);
    void look_again();
    void learn() { guide_.ask_map(); }
    void say(std::optional<unsigned> shard, const command& c, opening::replied then);
    void on_failed(const route& way, const redisReply* r);
    void on_refused(std::errc code, std::string why);
    void on_opened();
    void on_ready(const client& c, bool again);
    const std::vector<address>& addresses_at(const endpoint& e);
    route& route_of(std::optional<unsigned> shard);
    void follow_map(route& r);
    bool forget_nodes();
    void keep_time();
    bool is_settled() const;

    client& guide_;
    detail::faults& faults_;
    detail::event_set events_{"redis_store"};
    timer learn_{call<&cluster::learn_, &cluster::learn>};
    timer look_{call<&cluster::look_, &cluster::look_again>};
    unsigned doubts_ = 0;
    std::map<endpoint, std::unique_ptr<client>> nodes_;
    std::map<endpoint, std::vector<address>> addresses_;
    std::vector<std::unique_ptr<route>> routes_;  // of the common keys, and of each shard
    opening opening_;
    bool lacks_node_ = false, is_open_ = false;
    std::optional<trouble> refusal_;  // of the set of timers
    std::size_t reserved_ = 0;
    detail::server_clock kept_time_;
    client* answering_ = &guide_;
    std::function<void()> reconnected_;
};

}  // namespace tvec::durable::redis
