/// \file
/// The conversation with a Redis server: greeting, requests and answers. It begins again when the
/// connection has broken.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "../link/event_set.hpp"
#include "../link/reconnecting.hpp"
#include "command.hpp"
#include "connection.hpp"
#include "opening.hpp"
#include "reply.hpp"
#include "slot_map.hpp"
#include "tvec/durable/redis_store.hpp"

namespace tvec::durable::redis {

using fate = detail::fate_at_server;

/// Maps the first word of an error of a server to its meaning.
std::errc code_of(std::string_view error);

/// The part that a server plays.
enum class part {
    seed,    ///< the only server. If it is a node of a cluster, it guides: it tells the slots
    primary  ///< a node of a cluster, which holds slots
};

/// The client of a server. It calls completions and receivers from within `receive` and `flush`.
class client {
public:
    using request = std::string;  // the bytes of a command
    using reply = const redisReply;
    using link = detail::reconnecting<client>;
    /// Receives the fate of a command, and the reply if there is one. A command that was refused
    /// has a reply if the server has refused it.
    using answer = link::answer;

    /// The server is at one of the addresses, of which there is at least one.
    client(redis_options o, part p, std::vector<address> at, detail::faults& f);
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    /// Begins to connect.
    void connect() { link_.connect(); }
    /// Connects, and waits until the server is ready. Throws std::system_error.
    void wait_until_ready();

    int fd() const noexcept { return events_.fd(); }
    const redis_options& options() const noexcept { return options_; }
    unsigned shards() const noexcept { return opening_.shards(); }
    bool is_ready() const noexcept { return link_.is_ready(); }
    /// Returns true until the first attempt to connect has succeeded or failed.
    bool is_new() const noexcept { return link_.is_new(); }
    /// Returns true if no command waits for its answer.
    bool is_idle() const noexcept { return link_.is_idle() && held_.empty(); }
    /// Returns the last trouble, if the server was not ready since.
    const std::optional<trouble>& fault() const noexcept { return link_.fault(); }
    /// Returns its clock, which is the beginning of 1970 if it is not known.
    reading now_at(std::chrono::steady_clock::time_point t) const { return link_.now_at(t); }
    const std::string& warning() const noexcept { return warning_; }
    /// Returns true in the process that made it: a forked child shares its connections.
    bool is_ours() const noexcept;
    /// Returns the address that it is connected to, or tries.
    const address& at() const noexcept { return at_; }

    /// Returns the name of this process, which is the channel of its hints.
    const std::string& me() const noexcept { return me_; }

    /// Sets the receivers of hints ("due id"), and of the news that the server is ready. A guide
    /// also tells each new map by `ready`.
    void listen(std::function<void(std::string_view)> hint, std::function<void()> ready);

    /// Returns true if the server has told that it is a node of a cluster.
    bool is_guide() const noexcept { return is_guide_; }
    /// Returns the last map that a guide has told. Precondition: it was ready once.
    const slot_map& map() const { return *map_; }
    /// Asks a guide for a new map. A no-op if it is not ready.
    void ask_map();
    /// Sets addresses to try besides those of the seed, when the connection has broken.
    void try_also(const std::vector<address>& others);

    /// Queues a command for the next `flush`. Calls `then` once in every case.
    void ask(const command& c, answer then);
    /// Calls `then` with fate::refused in the next `flush`.
    void refuse(answer then) { link_.refuse(std::move(then)); }
    /// Makes the descriptor readable if the next `flush` would send. `waiting` counts bytes that
    /// wait besides the queued commands.
    void touch(std::size_t waiting) { link_.touch(waiting); }
    /// Notes the time of the server, in us. For answers.
    void learn(long long us) { link_.learn(us); }
    /// Notes that an answer had the wrong form. For answers.
    void protest();

    /// Reads what has come, and calls completions.
    void receive();
    /// Returns true if `flush` sends queued commands now, and false if it waits for answers.
    bool may_send(std::size_t waiting) const { return link_.may_send(waiting); }
    /// Sends queued commands.
    void flush();
    /// Sends what can be sent at once, and calls nothing any more.
    void leave();

private:
    friend link;
    struct held {
        answer then;
        reply_ptr reply;
        link::local_time asked;
    };
    using greeted = std::function<void(const redisReply&)>;

    // for the link
    std::optional<trouble> open();
    void close();
    void send(const std::string& bytes) { talk_.send(bytes); }
    void end_flight();
    void try_again();
    duration slowest() const;
    void on_lost();
    std::string place() const { return at_.where + ": "; }
    void wake() { events_.ring(); }

    void look_again();

    // the greeting
    bool has_credentials() const;
    command credentials() const;
    void greet();
    void ask_facts();
    void ask_time();
    bool accept();
    void try_to_say(const command& c, greeted then);
    void say(const command& c, greeted then);
    void on_version(const redisReply& r);
    void load_functions(long long found);
    void on_functions();
    void guide();
    void request_map();
    void on_map(const redisReply& r);
    void on_ready();

    // answers
    void on_reply(reply_ptr r);
    void wait_for_replicas();
    void on_replicas(const redisReply& r);
    bool is_followed(const redisReply& r) const;
    void give(const answer& then, const redisReply& r);
    void on_message(const redisReply& r);

    const redis_options options_;
    const part part_;
    detail::faults& faults_;
    const std::string me_;
    const pid_t maker_;
    detail::event_set events_{"redis_store"};
    link link_;
    timer look_{call<&client::look_, &client::look_again>};
    std::vector<address> addresses_;
    std::size_t next_address_ = 0;
    const std::size_t seeds_;  // the first addresses
    address at_;

    connection talk_, hints_;
    std::vector<held> held_;
    bool is_guide_ = false;
    std::string warning_, info_, appendfsync_;
    opening opening_;
    std::optional<slot_map> map_;

    std::function<void(std::string_view)> hint_;
    std::function<void()> ready_;
};

}  // namespace tvec::durable::redis
