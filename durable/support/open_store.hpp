// A store by its name, as programs are told it.
#pragma once

#include <charconv>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>

#include "tvec/durable/sqlite_store.hpp"
#ifdef TVEC_HAS_REDIS
#include "tvec/durable/redis_store.hpp"
#endif
#ifdef TVEC_HAS_POSTGRES
#include "tvec/durable/postgres_store.hpp"
#endif

namespace example {

#ifdef TVEC_HAS_REDIS
#define TVEC_REDIS_HELP ", or redis:HOST:PORT or redis:SOCKET, whose password is in REDISCLI_AUTH"
#else
#define TVEC_REDIS_HELP
#endif
#ifdef TVEC_HAS_POSTGRES
#define TVEC_POSTGRES_HELP ", or postgres:CONNINFO or postgresql://..., as libpq takes them"
#else
#define TVEC_POSTGRES_HELP
#endif

inline constexpr const char* store_help =
    "where the timers are: a file" TVEC_REDIS_HELP TVEC_POSTGRES_HELP;

inline bool is_redis(const std::string& where) { return where.starts_with("redis:"); }
inline bool is_postgres(const std::string& where) {
    return where.starts_with("postgres:") || where.starts_with("postgresql:");
}

#ifdef TVEC_HAS_REDIS

// Of what stands behind "redis:". A URL, redis://..., would be taken for a socket.
inline tvec::durable::redis_options redis_at(const std::string& where) {
    if (where.empty() || where.starts_with(':') || where.starts_with("//"))
        throw std::runtime_error("redis:" + where + ": expected redis:HOST:PORT or redis:SOCKET");
    // [redis]
    tvec::durable::redis_options o;
    const auto colon = where.rfind(':');
    if (where.starts_with('/')) {
        o.socket = where;
    } else if (colon == where.npos) {
        o.host = where;
    } else {
        o.host = where.substr(0, colon);
        const char* const end = where.data() + where.size();
        const auto port = std::from_chars(where.data() + colon + 1, end, o.port);
        if (port.ptr != end || port.ec != std::errc() || o.port == 0)
            throw std::runtime_error("redis:" + where + ": expected a port from 1 to 65535 after " +
                                     "the last colon");
    }
    if (const char* password = std::getenv("REDISCLI_AUTH")) o.password = password;
    // [redis]
    return o;
}

#endif

#ifdef TVEC_HAS_POSTGRES

// Both `postgres://` and `postgresql://` begin a URI of libpq.
inline tvec::durable::postgres_options postgres_at(const std::string& where) {
    const bool is_uri = where.starts_with("postgres://") || where.starts_with("postgresql:");
    // [postgres]
    tvec::durable::postgres_options o;
    o.conninfo = is_uri ? where : where.substr(where.find(':') + 1);
    // [postgres]
    return o;
}

#endif

// Returns true if the store is on a server, which programs share.
inline bool is_server(const std::string& where) { return is_redis(where) || is_postgres(where); }

// Opens that store. Throws where a server is named whose store was not built in.
inline std::unique_ptr<tvec::durable::store> open_store(const std::string& where) {
#ifdef TVEC_HAS_REDIS
    if (is_redis(where))
        return std::make_unique<tvec::durable::redis_store>(redis_at(where.substr(6)));
#endif
#ifdef TVEC_HAS_POSTGRES
    if (is_postgres(where))
        return std::make_unique<tvec::durable::postgres_store>(postgres_at(where));
#endif
    if (is_redis(where) || is_postgres(where))
        throw std::runtime_error(where +
                                 ": this program was built without that server. A file of that "
                                 "name is meant by ./" +
                                 where);
    return std::make_unique<tvec::durable::sqlite_store>(where);
}

// Returns in one line which timers that store can lose; "" if none.
inline std::string warning_of([[maybe_unused]] const tvec::durable::store& s) {
#ifdef TVEC_HAS_REDIS
    if (const auto* redis = dynamic_cast<const tvec::durable::redis_store*>(&s))
        return redis->warning();
#endif
#ifdef TVEC_HAS_POSTGRES
    if (const auto* postgres = dynamic_cast<const tvec::durable::postgres_store*>(&s))
        return postgres->warning();
#endif
    return "";
}

}  // namespace example
