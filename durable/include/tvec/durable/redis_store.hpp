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
    std::string user{};              ///< user of ACLs, also without a password; "": `default`
    std::string password{};          ///< "": no password
    redis_tls tls{};                 ///< the certificate must be for `host`, or the cluster's node

    /// The name of a set of timers. Their keys begin with it, and processes with the same name
    /// share them. Must not contain braces.
    std::string name = "tvec";
    /// The number of shards of a new set of timers. An existing set keeps its number. More than
    /// the processes that will share them, and less than 10000.
    unsigned shards = 16;

    /// What the processes that share the timers should agree on, as any text, such as the options
    /// of a program. While another process has other terms, `warning` says so. "": none to compare.
    std::string terms{};

    /// The number of replicas that must have a write before it is answered (WAIT). A write that
    /// they lack after `replica_limit` is `unknown`. 0: the primary alone.
    unsigned wait_replicas = 0;
    duration replica_limit{1'000};  ///< wait for replicas; less than `silence`

    duration claim_ahead{100};   ///< store_traits::claim_ahead; longer than an answer takes
    duration silence{5'000};     ///< without a byte for so long the connection is broken
    duration slowest{5'000};     ///< longest delay before a new connection
    duration look_again{5'000};  ///< time between two checks of the settings, and of the set
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
/// **Cost.** The requests of one turn of the loop are sent at once, with the puts of one shard in
/// one command. `list` reads the bodies of its page, and looks at all timers that are being
/// delivered. A shard is seven keys `{name:k}:...` in one hash slot. Bodies above 1 KiB are kept in
/// a hash of their own.
///
/// **Marks.** The set is opened again every `look_again`, and the owner of a shard renews its marks
/// with its lease. If a shard has more timers than places in its sorted sets, each renewal looks at
/// 5000 entries, and gives back their places.
///
/// **A cluster.** `host` is the seed: any node that answers, which tells the hash slots. Later any
/// announced node can take its place. The constructor throws if the cluster is down, if the primary
/// of the common keys cannot be reached, or if any primary is unfit for timers. Another primary
/// that cannot be reached is tried again, and its shards fail meanwhile.
///  * A process has two connections to one node, for the map of hash slots and for hints, and one
///    to each primary that holds one of its shards or common keys.
///  * Operations on one shard are done in the order of the calls, also while its hash slot moves. A
///    request that a node has certainly not done (MOVED, ASK, TRYAGAIN, CLUSTERDOWN) is sent again
///    every 50 ms, and later requests about the shard wait for it. After `silence` it has failed.
///    If a later request was done nevertheless, because the slot came back, the earlier one has
///    failed. A shard has keys that do not exist, so Redis answers TRYAGAIN until a move is
///    complete.
///  * A primary that works tells by itself that a slot has moved. The map of another node counts
///    only if a primary does not answer or is no primary any more, and that node says
///    `cluster_state:ok`. The map is asked for every `look_again`, and in doubt after 50 ms, then
///    after pauses of up to a second. The shards of a replaced primary are taken anew, because it
///    may lack writes.
///  * Each primary judges deadlines and leases by its own clock, and `now` is the earliest of them.
///  * Functions of another version are replaced on each primary when the store connects to it. A
///    user who may not load functions needs those of this version there.
///
/// durable/docs/operating.md says how safe timers are, and which rights are needed.
class TVEC_API redis_store final : public store {
public:
    /// The version of the functions on the server, which every program may call: see
    /// durable/docs/using.md.
    static constexpr int functions_version = 8;

    /// Connects, and waits for `silence` at most, or three times that in a cluster. Throws
    /// std::system_error, which names the server and the reason:
    ///  * errors of connecting: connection_refused, no_such_file_or_directory, timed_out, ...
    ///  * permission_denied: no password or a wrong one, or a permission is missing, such as that
    ///  to
    ///    load functions of this version where there are others or none
    ///  * protocol_error: no Redis server answers
    ///  * not_supported: the server is too old, or its functions or timers have a newer version
    ///  * resource_unavailable_try_again: the server is loading its data, or the cluster is down
    ///  * operation_not_permitted: timers would not be safe there, or it is a replica
    ///  * invalid_argument: an option is out of range, or a file for TLS is unusable
    explicit redis_store(redis_options o);
    ~redis_store() override;

    /// Returns in one line which timers this server can lose, or else that another process has
    /// other terms; "" if neither.
    std::string warning() const override;

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
