/// \file
/// The store of many machines: a Redis server, 7.0 or later, or one that does as it does.
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

/// How a connection is protected.
struct redis_tls {
    bool on = false;          ///< whether by TLS
    std::string ca_file{};    ///< PEM: who may vouch for the server; "": whom the system trusts
    std::string cert_file{};  ///< PEM: our own certificate, if the server asks for one,
    std::string key_file{};   ///< and its key
};

/// Where the server is, and what is asked of it. Times are 1 ms to a day. `claim_ahead` may be 0.
struct redis_options {
    std::string host = "127.0.0.1";  ///< a name is looked up once, by the constructor
    std::uint16_t port = 6379;       ///< of `host`
    std::string socket{};            ///< a socket in the file system instead, if not ""
    std::string user{};              ///< for ACLs; "": the default user
    std::string password{};          ///< "": none
    redis_tls tls{};                 ///< the certificate must be for `host`

    /// The name of a set of timers: keys begin with it, and processes with the same name share
    /// them. No braces.
    std::string name = "tvec";
    /// Into how many shards they are divided, if there are none yet; else it is as it was. More
    /// than processes that will share them, and less than 10000.
    unsigned shards = 16;

    /// So many replicas must have a write before it is answered (WAIT); what they have not within
    /// `replica_limit` is `unknown`. 0: the primary alone.
    unsigned wait_replicas = 0;
    duration replica_limit{1'000};  ///< how long replicas are waited for: less than `silence`

    duration claim_ahead{100};    ///< store_traits::claim_ahead: longer than an answer takes
    duration silence{5'000};      ///< a server that sends no byte for so long has gone
    duration slowest{5'000};      ///< how long to wait, at most, before connecting again
    duration look_again{10'000};  ///< time between two looks at the server's settings
    /// Bytes that wait to be sent: no more is taken. At least 2 MiB.
    std::size_t max_unsent_bytes = 64'000'000;
};

class client;

}  // namespace redis

using redis::redis_options;
using redis::redis_tls;

/// A link to a Redis server. Processes on any machines that connect to the same server with the
/// same `name` share its timers: each owns some of the shards, and takes over those of one that
/// died.
///
///     tvec::durable::redis_store store({.host = "timers.example", .password = secret});
///     if (!store.warning().empty()) log(store.warning());
///     tvec::durable::timers orders(wheel, store, handler);
///
/// **How safe `stored` is** depends on the server: with `appendfsync always` it survives a power
/// cut; with `everysec` the last second or two may be gone. A replica that is behind loses what it
/// has not got when it takes over, unless `wait_replicas` says that nothing is answered before.
/// durable/docs/durable.md has figures. A server whose `appendonly` is `no`, or that throws keys
/// away when memory is short (maxmemory-policy allkeys-...), is refused.
///
/// **A broken link** is made again, at first after 50 ms, then after twice as long each time, up to
/// `slowest`. Requests in flight are `unknown`. Requests made while there is no link have `failed`
/// (or are `unknown`, where an answer has no such word), and so have requests beyond
/// `max_unsent_bytes` bytes. last_failure() describes the fault. A server that has become another
/// one (no password fits, older than needed, a replica, other shards) is tried again in the same
/// way. The store looks at the server's settings every `look_again`. A server that the constructor
/// would refuse by now is left in the same way, and warning() changes with `appendfsync`.
/// broken_links() counts the breaks, by a few reasons.
///
/// **Silence** counts from the last byte that came, so a long answer over a slow link is waited
/// for.
///
/// **A fork**: the child must not use the store. Its destructor returns at once in a child, and
/// sends nothing on the parent's connections.
///
/// **Out of memory** (maxmemory): puts and revivals have `failed`; all else works, so that what is
/// there can be delivered and ended.
///
/// **A cluster** is not supported. Timers of one `name` are on one primary, or behind a proxy that
/// looks like one. A request that a node answers with MOVED has failed.
///
/// **What the server must allow**: FUNCTION LOAD, FCALL, INFO, WAIT, SUBSCRIBE of the channels
/// `name:*`; and CONFIG GET, else the warning says that it does not tell. Its functions are loaded
/// by the first that connects. Functions of an older version are replaced, and a server that has
/// newer ones is refused. Timers of an older version are upgraded by the constructor, which takes
/// longer than `silence` if there are many. A process of an older version fails from then on, and
/// does no harm.
///
/// **A record that cannot be read** (a body is missing, a deadline is no whole number) is set
/// aside in a key of its own, `{name:k}:damaged`. It does not come again, and others do.
///
/// **Cost**: what is asked in one turn of the loop is sent at once, puts of one shard in one
/// command. A list reads the bodies of its page, and looks at all timers that are being delivered.
/// About 320 bytes of the server's memory for a timer with an id of 20 bytes and a body of 64.
///
/// One thread owns it.
class TVEC_API redis_store final : public store {
public:
    /// Connects, and waits for that, for `silence` at most. Throws std::system_error, which says
    /// what was tried and why the server is refused:
    ///  * what connecting says: connection_refused, no_such_file_or_directory, timed_out, ...
    ///  * permission_denied: no password, or a wrong one, or it may not do what it must
    ///  * protocol_error: it is no Redis server
    ///  * not_supported: too old; or its functions or timers are of a newer version
    ///  * resource_unavailable_try_again: it is loading
    ///  * operation_not_permitted: timers would not be safe there, or it is a replica
    ///  * invalid_argument: options, or files for TLS, that cannot be right
    explicit redis_store(redis_options o);
    ~redis_store() override;

    /// Returns what can be lost on this server, in one line; "" if nothing.
    const std::string& warning() const noexcept;

    /// \cond
    int fd() const noexcept override;
    std::size_t run() override;
    reading now() const override;
    const store_traits& traits() const noexcept override;
    unsigned shard_of(std::string_view id) const noexcept override;
    std::size_t unanswered() const noexcept override;
    std::string last_failure() const override;
    std::map<std::string, std::uint64_t> broken_links() const override;
    void listen(store_listener listener) override;
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
    /// \endcond

private:
    struct inner;

    void show(timer_set set, std::size_t limit, std::vector<place> places,
              completion<standing, std::vector<stored_timer>> then);

    std::unique_ptr<redis::client> client_;
    std::unique_ptr<inner> inner_;
};

}  // namespace tvec::durable
