/// \file
/// TLS between a program and a socket that it reads and writes itself.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tvec/durable/redis_store.hpp"

typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;

namespace tvec::durable::redis {

/// The TLS of a connection. Bytes go in and come out on either side. It touches no socket.
class tls_session {
public:
    /// A session with that host, of which nothing is sent. Throws std::system_error if files are
    /// not there, or are not what they should be.
    tls_session(const redis_tls& how, const std::string& host);

    /// Takes what the other side has sent; adds to `plain` what it means. Returns whether that was
    /// right so far; else `failure` says what is wrong.
    bool receive(std::string_view sent, std::string& plain);
    /// Takes what is to be said to the other side.
    bool say(std::string_view plain);
    /// Returns the bytes that are to be sent now.
    std::string to_send();

    /// Returns whether the handshake is over, and `say` works.
    bool is_established() const;
    const std::string& failure() const noexcept { return failure_; }

private:
    struct deleter {
        void operator()(SSL_CTX* c) const noexcept;
        void operator()(SSL* s) const noexcept;
    };
    bool is_fine(int result, const char* tried);

    std::unique_ptr<SSL_CTX, deleter> context_;
    std::unique_ptr<SSL, deleter> session_;
    std::string failure_;
};

}  // namespace tvec::durable::redis
