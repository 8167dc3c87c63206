/// \file
/// A connection to a PostgreSQL server. It never waits, except for a name server.
#pragma once

#include <libpq-fe.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "../link/trouble.hpp"
#include "values.hpp"

namespace tvec::durable::postgres {

using detail::trouble;

/// Returns the code of a connection that failed: a password is missing or wrong, or any other.
std::errc code_of(PGconn* c);

/// Returns the first line of a message, without the last full stop or space, and with question
/// marks in place of control characters.
std::string first_line(std::string_view message);

/// Returns a connection string with which libpq looks for the primary among several hosts.
std::string to_primary(const std::string& conninfo);

/// A statement that sets what a session needs, whatever the settings of the database and the role
/// are. Its arguments are the limits of a statement and of a lock, in ms as texts.
extern const char* const session_settings;

/// One connection after another to the same database, in an epoll set.
class connection {
public:
    /// Events for its owner, from within `on_ready`. The owner may call the connection then.
    struct listener {
        std::function<void()> opened;
        /// A statement was done, and its transaction is over. In doubt: it was done here, and
        /// perhaps not on the standbys that it waits for.
        std::function<void(result_ptr, bool is_in_doubt)> answered;
        std::function<void(trouble)> lost;
        std::function<void(std::string_view)> notified;  // the payload
    };

    connection(int epoll, std::string conninfo, listener l)
        : epoll_(epoll), conninfo_(std::move(conninfo)), listener_(std::move(l)) {}
    ~connection() { close(); }
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;

    /// Begins to connect. Returns an error, or "".
    std::string open();
    /// Closes it. Nothing is told any more.
    void close();
    /// Forgets it in a forked child, and says nothing to the server.
    void forget();
    bool is_closed() const noexcept { return raw_ == nullptr; }
    int fd() const noexcept { return fd_; }
    int backend_pid() const { return PQbackendPID(raw_); }

    /// Sends a statement, which is a transaction of its own. A fault is told by `on_ready`.
    void send(const std::string& sql, const std::vector<value>& arguments);
    /// Prepares a statement.
    void prepare(const std::string& name, const std::string& sql, const std::vector<Oid>& types);
    /// Sends a statement that was prepared.
    void send_prepared(const std::string& name, const std::vector<value>& arguments);
    /// Writes what the socket takes.
    void flush();
    /// Reads and writes what is possible. The descriptor was ready.
    void on_ready();

private:
    void go_on_connecting();
    void receive();
    void notice(const PGresult& r);
    void end_statement(int was_sent);
    void watch(std::uint32_t events);
    void unwatch();
    void lose(trouble why);

    const int epoll_;
    const std::string conninfo_;
    const listener listener_;
    PGconn* raw_ = nullptr;
    int fd_ = -1;  // a copy of that of libpq
    bool is_open_ = false, is_broken_ = false;
    std::size_t in_flight_ = 0;  // statements
    result_ptr current_{};       // the result of the first of them
    bool is_in_doubt_ = false;
};

}  // namespace tvec::durable::postgres
