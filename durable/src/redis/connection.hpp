/// \file
/// A connection to a Redis server. It never waits.
#pragma once

#include <hiredis/read.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "../link/trouble.hpp"
#include "reply.hpp"
#include "tls_session.hpp"
#include "tvec/durable/redis_store.hpp"

namespace tvec::durable::redis {

/// The address of a server.
struct address {
    sockaddr_storage name{};
    socklen_t length = 0;
    std::string host{};   ///< for TLS: the certificate must name it
    std::string where{};  ///< for messages: host:port, or the path of a socket
};

/// Returns the addresses of a host, or of a socket in the file system. Waits for the name server,
/// if a name is to be looked up. Throws std::system_error.
std::vector<address> addresses_of(const redis_options& o);

using detail::trouble;

/// One connection after another to the same server, in an epoll set.
class connection {
public:
    /// Events for its owner, from within `on_ready` and `flush`. The owner may call it then.
    struct listener {
        std::function<void()> opened;
        std::function<void(reply_ptr)> replied;
        std::function<void(trouble)> lost;
        std::function<void()> heard{};  // the server has sent or taken bytes
    };

    connection(int epoll, const redis_options& o, listener l);
    ~connection();
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;

    /// Begins to connect. Precondition: the connection is closed. Returns 0, and tells the listener
    /// the outcome, or returns an error at once.
    int open(const address& to);
    /// Ends the connection. Calls nothing.
    void close();

    bool is_closed() const noexcept { return fd_ < 0; }
    /// Returns the descriptor in the epoll set.
    int fd() const noexcept { return fd_; }

    /// Queues bytes for `flush`.
    void send(std::string_view bytes);
    /// Returns how many bytes are queued and not sent.
    std::size_t unsent() const noexcept { return said_.size() + raw_.size() - sent_; }

    /// Handles events of epoll.
    void on_ready(std::uint32_t events);
    /// Sends as much as the socket takes.
    void flush();

private:
    struct reader_deleter {
        void operator()(redisReader* r) const noexcept { redisReaderFree(r); }
    };

    void lose(trouble why);
    void hear() const;
    void watch(std::uint32_t events);
    void on_connected();
    void say_opened();
    void receive();
    void decode(std::string_view bytes);
    void show_replies();
    bool refill();

    const int epoll_;
    const redis_options& options_;
    const listener listener_;
    std::string host_;
    int fd_ = -1;
    std::uint32_t watched_ = 0;
    bool is_connected_ = false, is_open_ = false;
    bool was_full_ = false;  // the socket did not take everything
    std::string said_;       // queued bytes
    std::string raw_;        // bytes being sent: the same, without TLS
    std::size_t sent_ = 0;   // of raw_
    std::string plain_;
    std::optional<tls_session> tls_;
    std::unique_ptr<redisReader, reader_deleter> reader_;
};

}  // namespace tvec::durable::redis
