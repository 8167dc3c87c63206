// A store by its name, as programs are told it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "tvec/durable/sqlite_store.hpp"
#ifdef TVEC_HAS_REDIS
#include "tvec/durable/redis_store.hpp"
#endif
#ifdef TVEC_HAS_POSTGRES
#include "tvec/durable/postgres_store.hpp"
#endif

namespace example {

#ifdef TVEC_HAS_REDIS
#define TVEC_REDIS_HELP                                                                            \
    ", or redis:USER@HOST:PORT or redis:USER@SOCKET, or rediss:... with TLS, where USER@ may be "  \
    "missing and the password is in REDISCLI_AUTH"
#else
#define TVEC_REDIS_HELP ""
#endif
#ifdef TVEC_HAS_POSTGRES
#define TVEC_POSTGRES_HELP ", or postgres:CONNINFO or postgresql://..., as libpq takes them"
#else
#define TVEC_POSTGRES_HELP ""
#endif
#define TVEC_STORE_FORMS "a file" TVEC_REDIS_HELP TVEC_POSTGRES_HELP

inline constexpr const char* store_help = "where the timers are: " TVEC_STORE_FORMS;

inline bool is_redis(const std::string& where) {
    return where.starts_with("redis:") || where.starts_with("rediss:");
}
inline bool is_postgres(const std::string& where) {
    return where.starts_with("postgres:") || where.starts_with("postgresql:");
}

#ifdef TVEC_HAS_REDIS

// Splits HOST:PORT. An IPv6 address may have brackets, and has to without a port. Returns no host
// if brackets are wrong.
inline std::pair<std::string, std::string> host_and_port(const std::string& where) {
    const auto bracket = where.rfind(']');
    const auto colon = where.rfind(':');
    const bool has_port = colon != where.npos && (bracket == where.npos || colon > bracket);
    std::string host = where.substr(0, has_port ? colon : where.npos);
    std::string port = has_port ? where.substr(colon + 1) : "6379";
    if (bracket == where.npos) return {host, port};
    if (!host.starts_with('[') || !host.ends_with(']')) return {"", port};
    return {host.substr(1, host.size() - 2), port};
}

// Throws if this is no HOST, HOST:PORT or SOCKET. The message does not show it: it may be a URL
// with a password.
inline void require_redis_place(const std::string& where, bool has_tls) {
    const auto [host, port] = host_and_port(where);
    in6_addr parsed{};
    const bool is_address =
        inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &parsed) == 1;
    const bool is_name = !host.empty() && host.find_first_of("@/:") == host.npos;
    const bool is_port =
        !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == port.npos;
    const bool is_socket = where.starts_with('/') && !where.starts_with("//") && !has_tls;
    if (!is_socket && !((is_address || is_name) && is_port))
        throw std::runtime_error("redis:...: expected redis:HOST:PORT, redis:SOCKET or "
                                 "rediss:HOST:PORT, USER@ before it for a user of ACLs, and the "
                                 "password in REDISCLI_AUTH");
}

inline void set_if(std::string& option, const char* variable) {
    if (const char* const value = std::getenv(variable)) option = value;
}

// Reads redis:PLACE or rediss:PLACE.
inline tvec::durable::redis_options redis_at(const std::string& name) {
    tvec::durable::redis_options o;
    o.tls.on = name.starts_with("rediss:");
    std::string where = name.substr(name.find(':') + 1);
    const auto at = where.substr(0, where.find('/')).find('@');
    if (at != where.npos && at != 0 && where.find(':') > at) {
        o.user = where.substr(0, at);
        where.erase(0, at + 1);
    }
    require_redis_place(where, o.tls.on);
    if (where.starts_with('/')) {
        o.socket = where;
    } else {
        std::string digits;
        std::tie(o.host, digits) = host_and_port(where);
        const char* const end = digits.data() + digits.size();
        const auto port = std::from_chars(digits.data(), end, o.port);
        if (port.ptr != end || port.ec != std::errc() || o.port == 0)
            throw std::runtime_error("redis:" + where + ": expected a port from 1 to 65535 after " +
                                     "the last colon");
    }
    set_if(o.password, "REDISCLI_AUTH");
    set_if(o.tls.cert_file, "TVEC_TLS_CERT");
    set_if(o.tls.key_file, "TVEC_TLS_KEY");
    return o;
}

#endif

#ifdef TVEC_HAS_POSTGRES

// Both `postgres://` and `postgresql://` begin a URI of libpq.
inline tvec::durable::postgres_options postgres_at(const std::string& where) {
    const bool is_uri = where.starts_with("postgres://") || where.starts_with("postgresql:");
    tvec::durable::postgres_options o;
    o.conninfo = is_uri ? where : where.substr(where.find(':') + 1);
    return o;
}

#endif

// Returns true if the store is on a server, which programs share.
inline bool is_server(const std::string& where) { return is_redis(where) || is_postgres(where); }

// Throws if a name looks like a server of another kind, and not like a file. The message does not
// show it: it may have a password.
inline void require_store_name(const std::string& where) {
    const auto has = [&where](const char* part) { return where.find(part) != where.npos; };
    if (is_server(where) || where.starts_with('/') || where.starts_with('.')) return;
    const bool has_kind = where.substr(0, where.find('/')).find(':') != where.npos;
    const bool is_kind = where == "redis" || where == "rediss" || where == "valkey" ||
                         where == "postgres" || where == "postgresql" || where == "sqlite";
    if (has_kind || is_kind || (has("//") && (has("@") || has("="))))
        throw std::runtime_error("the store: expected " TVEC_STORE_FORMS
                                 ". A file of that name is meant by ./NAME");
}

// Opens that store. Throws where a server is named whose store was not built in. So many replicas
// of a Redis server must have each write, and the processes of a server should have the same terms.
inline std::unique_ptr<tvec::durable::store>
open_store(const std::string& where, [[maybe_unused]] unsigned wait_replicas = 0,
           [[maybe_unused]] const std::string& terms = "") {
    require_store_name(where);
#ifdef TVEC_HAS_REDIS
    if (is_redis(where)) {
        auto o = redis_at(where);
        o.wait_replicas = wait_replicas;
        o.terms = terms;
        return std::make_unique<tvec::durable::redis_store>(o);
    }
#endif
#ifdef TVEC_HAS_POSTGRES
    if (is_postgres(where)) {
        auto o = postgres_at(where);
        o.terms = terms;
        return std::make_unique<tvec::durable::postgres_store>(o);
    }
#endif
    if (is_redis(where) || is_postgres(where))
        throw std::runtime_error("the store: this program was built without that server. A file "
                                 "of that name is meant by ./NAME");
    return std::make_unique<tvec::durable::sqlite_store>(where);
}

}  // namespace example
