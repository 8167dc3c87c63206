/// \file
/// The store in a PostgreSQL database, 14 or later, where programs put timers in transactions.
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

namespace postgres {

/// Address and options of a database. Durations are from 1 ms to a day. `claim_ahead` may be 0.
struct postgres_options {
    /// A connection string or URI of libpq, such as "host=db.example dbname=shop user=timers". "":
    /// what the PG... variables of the environment say. A host name is looked up at each connect,
    /// which waits for the name server: `hostaddr` avoids that.
    std::string conninfo{};
    /// The schema that holds the timers: lower-case letters, digits and underscores.
    std::string name = "tvec";
    /// For `install`: the number of shards of new timers. More than the processes that will share
    /// them, and less than 10000. Existing timers keep their number.
    unsigned shards = 16;
    /// What the processes that share the timers should agree on, as any text, such as the options
    /// of a program. While another process has other terms, `warning` says so. "": none to compare.
    std::string terms{};

    duration claim_ahead{100};  ///< store_traits::claim_ahead; longer than an answer takes
    duration silence{5'000};    ///< without a byte for so long the connection is broken
    duration slowest{5'000};    ///< longest delay before a new connection
};

/// Creates the schema with its tables and functions, or upgrades it. Does no harm if it is there.
/// Waits for the server. Throws std::system_error as the constructor of `postgres_store` does.
TVEC_API void install(const postgres_options& o);

class client;

}  // namespace postgres

using postgres::postgres_options;

/// A connection to a PostgreSQL database. All processes that connect to the same schema share its
/// timers. Each owns some of the shards, and takes over those of a process that died. Programs in
/// any language put timers by SQL functions, in their own transactions:
/// durable/docs/using.md.
///
///     tvec::durable::postgres_store store({.conninfo = "dbname=shop user=timers"});
///     if (!store.warning().empty()) log(store.warning());
///     tvec::durable::timers orders(wheel, store, handler);
///
/// `stored` is as safe as a commit of the server. A standby, a server with `fsync = off` and a
/// pooler such as PgBouncer are refused. Claims and ends do not wait for a transaction of another
/// program: they are tried again after 20 ms, and an end delays those that were sent with it. A
/// put, cancel, touch or revival of a locked timer waits for 100 ms with the others of its
/// statement, then for 100 ms alone, and then it has `failed`. A statement that meets a deadlock or
/// a serialization failure is asked again in two halves, and for one timer up to ten times.
///
/// **Cost.** After a flight of several requests the next one is sent a millisecond later at the
/// earliest, and ends gather for 20 ms: a server with a fast disk would otherwise commit thousands
/// of small transactions a second. A single put is sent at once. An idle process asks one statement
/// for each heartbeat and each half of a horizon, and one for each shard and sweep. A statement
/// takes at most four fifths of `silence`. Each function finds its rows by an index and is not
/// compiled (`jit`), whatever the settings and statistics are. Ids and bodies are `bytea`, so the
/// encoding of the database does not matter.
///
/// A broken connection is made again. Requests in flight are `unknown` then, and requests without a
/// connection have `failed`. A forked child must not use the store, and may destroy it. One thread
/// owns it.
///
/// durable/docs/operating.md says how safe timers are, and which rights are needed.
class TVEC_API postgres_store final : public store {
public:
    /// Connects, and waits for `silence` at most. Throws std::system_error, which names the reason:
    ///  * connection_refused: there is no connection, and libpq says why
    ///  * permission_denied: the password or a right is missing
    ///  * timed_out: the server does not answer
    ///  * not_supported: the server is too old, a pooler is in between, the schema is missing, or
    ///    it has another version
    ///  * operation_not_permitted: timers would not be safe there, or it is a standby
    ///  * invalid_argument: an option is out of range, or `conninfo` cannot be read. No message
    ///    shows `conninfo`, because it may have a password
    explicit postgres_store(postgres_options o);
    ~postgres_store() override;

    /// Returns in one line which timers this server can lose, or else that another process has
    /// other terms; "" if neither. Follows the settings of the server.
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

    std::unique_ptr<postgres::client> client_;
    std::unique_ptr<inner> inner_;
};

}  // namespace tvec::durable
