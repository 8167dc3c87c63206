/// \file
/// TLS for a program that reads and writes the socket itself.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tvec/durable/redis_store.hpp"

typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;

namespace tvec::durable::redis {

/// A TLS session. Bytes go in and come out on either side. It touches no socket.
class tls_session {
public:
    /// Begins a session with that host, and sends nothing. Throws std::system_error if a file is
    /// missing or unusable.
    tls_session(const redis_tls& how, const std::string& host);

    /// Takes bytes of the other side, and appends the decrypted text to `plain`. Returns false
    /// after an error, which `failure` describes.
    bool receive(std::string_view sent, std::string& plain);
    /// Encrypts a text for the other side. Precondition: the handshake is over.
    bool say(std::string_view plain);
    /// Returns the bytes to send now.
    std::string to_send();

    /// Returns true once the handshake is over.
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
