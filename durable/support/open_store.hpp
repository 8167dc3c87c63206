// A store by its name, as programs are told it.
#pragma once

#include <charconv>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "tvec/durable/sqlite_store.hpp"
#ifdef TVEC_HAS_REDIS
#include "tvec/durable/redis_store.hpp"
#endif

namespace example {

#ifdef TVEC_HAS_REDIS

inline constexpr const char* store_help =
    "where the timers are: a file, or redis:HOST:PORT or redis:SOCKET, whose password is in "
    "REDISCLI_AUTH";

// Of what stands behind "redis:".
inline tvec::durable::redis_options redis_at(const std::string& where) {
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
        if (std::from_chars(where.data() + colon + 1, end, o.port).ptr != end)
            throw std::runtime_error("redis:" + where + ": expected a port after the last colon");
    }
    if (const char* password = std::getenv("REDISCLI_AUTH")) o.password = password;
    // [redis]
    return o;
}

#else

inline constexpr const char* store_help = "where the timers are: a file";

#endif

inline bool is_redis(const std::string& where) { return where.starts_with("redis:"); }

// Opens that store. Throws where a Redis server is named and Redis was not built in.
inline std::unique_ptr<tvec::durable::store> open_store(const std::string& where) {
#ifdef TVEC_HAS_REDIS
    if (is_redis(where))
        return std::make_unique<tvec::durable::redis_store>(redis_at(where.substr(6)));
#else
    if (is_redis(where))
        throw std::runtime_error(where +
                                 ": this program was built without Redis. A file of that "
                                 "name is meant by ./" +
                                 where);
#endif
    return std::make_unique<tvec::durable::sqlite_store>(where);
}

}  // namespace example
