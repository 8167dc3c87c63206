/// \file
/// A connection to a Redis server, which never waits.
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

#include "reply.hpp"
#include "tls_session.hpp"
#include "tvec/durable/redis_store.hpp"

namespace tvec::durable::redis {

/// Where a server listens.
struct address {
    sockaddr_storage name{};
    socklen_t length = 0;
};

/// The addresses of a host, or of a socket in the file system. Waits for the name server, if there
/// is one to be asked. Throws std::system_error.
std::vector<address> addresses_of(const redis_options& o);

/// A fault: its code, and more words if the code does not say it all.
struct trouble {
    explicit trouble(int error) : code(error, std::system_category()) {}
    trouble(std::error_code c, std::string words) : code(c), why(std::move(words)) {}
    trouble(std::errc c, std::string words) : trouble(std::make_error_code(c), std::move(words)) {}

    std::string text() const { return why.empty() ? code.message() : why; }

    std::error_code code;
    std::string why{};
};

/// One connection after the other to the same server, in an epoll set.
class link {
public:
    /// Events for its owner, from within `on_ready` and `flush`. The owner may call it then.
    struct listener {
        std::function<void()> opened;
        std::function<void(reply_ptr)> replied;
        std::function<void(trouble)> lost;
        std::function<void()> heard{};  // the server has sent bytes, or made room for more of ours
    };

    link(int epoll, const redis_options& o, listener l);
    ~link() { close(); }
    link(const link&) = delete;
    link& operator=(const link&) = delete;

    /// Begins to connect. It must be closed. Returns 0, and what comes of it is told, or the error
    /// at once.
    int open(const address& to);
    /// Ends the connection; nothing is told.
    void close();

    bool is_closed() const noexcept { return fd_ < 0; }
    /// The descriptor by which its events are known.
    int fd() const noexcept { return fd_; }

    /// Has these bytes sent, by `flush`.
    void send(std::string_view bytes);
    /// How much of it has not been sent.
    std::size_t unsent() const noexcept { return said_.size() + raw_.size() - sent_; }

    /// To be called with what epoll says.
    void on_ready(std::uint32_t events);
    /// Sends what the socket takes.
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
    int fd_ = -1;
    std::uint32_t watched_ = 0;
    bool is_connected_ = false, is_open_ = false;
    bool was_full_ = false;  // the socket did not take all
    std::string said_;       // what is to be said
    std::string raw_;        // what is being sent: the same, if there is no TLS
    std::size_t sent_ = 0;   // of that
    std::string plain_;
    std::optional<tls_session> tls_;
    std::unique_ptr<redisReader, reader_deleter> reader_;
};

}  // namespace tvec::durable::redis
