/// \file
/// The store of many machines: a Redis server or a Redis Cluster, 7.0 or later, or a compatible
/// one.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tvec/durable/store.hpp"

namespace tvec::durable {

namespace redis {

/// TLS of a connection.
struct redis_tls {
    bool on = false;          ///< true: the connection uses TLS
    std::string ca_file{};    ///< PEM: trusted authorities; "": those of the system
    std::string cert_file{};  ///< PEM: client certificate, or ""
    std::string key_file{};   ///< PEM: its key, or ""
};

/// Address and options of a server. Durations are from 1 ms to a day. `claim_ahead` may be 0.
struct redis_options {
    std::string host = "127.0.0.1";  ///< looked up once, by the constructor; any node of a cluster
    std::uint16_t port = 6379;       ///< port of `host`
    std::string socket{};            ///< path of a socket to use instead, or ""
    std::string user{};              ///< user of ACLs; "": the default one
    std::string password{};          ///< "": no password
    redis_tls tls{};                 ///< the certificate must be for `host`, or the cluster's node

    /// The name of a set of timers. Their keys begin with it, and processes with the same name
    /// share them. Must not contain braces.
    std::string name = "tvec";
    /// The number of shards of a new set of timers. An existing set keeps its number. More than
    /// the processes that will share them, and less than 10000.
    unsigned shards = 16;

    /// The number of replicas that must have a write before it is answered (WAIT). A write that
    /// they lack after `replica_limit` is `unknown`. 0: the primary alone.
    unsigned wait_replicas = 0;
    duration replica_limit{1'000};  ///< wait for replicas; less than `silence`

    duration claim_ahead{100};    ///< store_traits::claim_ahead; longer than an answer takes
    duration silence{5'000};      ///< without a byte for so long the connection is broken
    duration slowest{5'000};      ///< longest delay before a new connection
    duration look_again{10'000};  ///< time between two checks of the settings
    /// Bytes that wait to be sent. Requests beyond it fail. At least 2 MiB.
    std::size_t max_unsent_bytes = 64'000'000;
};

class servers;

}  // namespace redis

using redis::redis_options;
using redis::redis_tls;

/// A connection to a Redis server, or connections to the primaries of a Redis Cluster. Processes on
/// any machines that connect to the same server with the same `name` share its timers. Each owns
/// some of the shards, and takes over those of a process that died.
///
///     tvec::durable::redis_store store({.host = "timers.example", .password = secret});
///     if (!store.warning().empty()) log(store.warning());
///     tvec::durable::timers orders(wheel, store, handler);
///
/// The safety of `stored` depends on the server. With `appendfsync always` it survives a power cut,
/// and with `everysec` the last second or two may be lost. A server that would lose timers in
/// normal operation is refused.
///
/// A broken connection is made again. Requests in flight are `unknown` then, and requests without a
/// connection have `failed`. A forked child must not use the store, and may destroy it. One thread
/// owns it.
///
/// A node of a cluster tells the store where each shard is. The store follows hash slots that move,
/// and replicas that take over. Each primary judges deadlines by its own clock, and `now` is the
/// earliest of them: timers on the others are late by the difference.
///
/// durable/docs/durable.md has the contract in full: broken connections, clusters, permissions,
/// versions and cost.
class TVEC_API redis_store final : public store {
public:
    /// The version of the functions on the server, which every program may call: see
    /// durable/docs/any-language.md.
    static constexpr int functions_version = 4;

    /// Connects, and waits for `silence` at most, or three times that in a cluster. Throws
    /// std::system_error, which names the server and the reason:
    ///  * errors of connecting: connection_refused, no_such_file_or_directory, timed_out, ...
    ///  * permission_denied: no password or a wrong one, or a permission is missing
    ///  * protocol_error: no Redis server answers
    ///  * not_supported: the server is too old, or its functions or timers have a newer version
    ///  * resource_unavailable_try_again: the server is loading its data, or the cluster is down
    ///  * operation_not_permitted: timers would not be safe there, or it is a replica
    ///  * invalid_argument: an option is out of range, or a file for TLS is unusable
    explicit redis_store(redis_options o);
    ~redis_store() override;

    /// Returns in one line which timers this server can lose; "" if none.
    const std::string& warning() const noexcept;

    /// \cond
    int fd() const noexcept override;
    std::size_t run() override;
    reading now() const override;
    const store_traits& traits() const noexcept override;
    unsigned shard_of(std::string_view id) const noexcept override;
    std::size_t unanswered() const noexcept override;
    std::string last_failure() const override;
    std::map<std::string, std::uint64_t> broken_connections() const override;
    void listen(store_listener listener) override;
    void submit(operation o) override;
    /// \endcond

private:
    struct inner;

    std::unique_ptr<redis::servers> servers_;
    std::unique_ptr<inner> inner_;
};

}  // namespace tvec::durable
