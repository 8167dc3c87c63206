/// \file
/// The conversation with a Redis server: greeting, requests and answers. It begins again when the
/// connection has broken.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "../local/server_client.hpp"
#include "../local/server_clock.hpp"
#include "command.hpp"
#include "connection.hpp"
#include "opening.hpp"
#include "reply.hpp"
#include "slot_map.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
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

/// The faults of all clients of a store.
struct faults {
    std::string last{};  ///< the last one, in one line
    /// How often a connection broke, by reason.
    std::map<std::string, std::uint64_t> broken{};
};

/// The client of a server. It calls completions and receivers from within `receive` and `flush`.
class client {
public:
    /// Receives the fate of a command, and the reply if there is one. A command that was refused
    /// has a reply if the server has refused it.
    using answer = std::function<void(fate, const redisReply*)>;

    /// The server is at one of the addresses, of which there is at least one.
    client(redis_options o, part p, std::vector<address> at, faults& f);
    ~client();
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    /// Begins to connect.
    void connect();
    /// Connects, and waits until the server is ready. Throws std::system_error.
    void wait_until_ready();

    int fd() const noexcept { return epoll_; }
    const redis_options& options() const noexcept { return options_; }
    unsigned shards() const noexcept { return opening_.shards(); }
    bool is_ready() const noexcept { return is_ready_; }
    /// Returns true until the first attempt to connect has succeeded or failed.
    bool is_new() const noexcept { return !was_ready_ && !back_off_.has_begun(); }
    /// Returns true if no command waits for its answer.
    bool is_idle() const noexcept;
    /// Returns the last trouble, if the server was not ready since.
    const std::optional<trouble>& fault() const noexcept { return trouble_; }
    /// Returns its clock, which is the beginning of 1970 if it is not known.
    reading now_at(std::chrono::steady_clock::time_point t) const { return clock_.at(t); }
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
    void refuse(answer then);
    /// Makes the descriptor readable if the next `flush` would send. `waiting` counts bytes that
    /// wait besides the queued commands.
    void touch(std::size_t waiting = 0);
    /// Notes the time of the server, in us. For answers.
    void learn(long long us);
    /// Notes that an answer had the wrong form. For answers.
    void protest();

    /// Reads what has come, and calls completions.
    void receive();
    /// Returns true if `flush` sends queued commands now, and false if it waits for answers.
    bool may_send(std::size_t waiting = 0) const;
    /// Sends queued commands.
    void flush();
    /// Sends what can be sent at once, and calls nothing any more.
    void leave();

private:
    struct pending {
        answer then;
        std::chrono::steady_clock::time_point asked;
        bool is_greeting, ends_flight;
    };
    struct held {
        answer then;
        reply_ptr reply;
        std::chrono::steady_clock::time_point asked;
    };
    using greeted = std::function<void(const redisReply&)>;

    std::string place() const { return at_.where; }
    void retry();
    void try_again();
    void on_silence();
    void on_heard();
    void look_again();
    void on_lost(trouble why);
    void abandon();
    void do_nothing() {}

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

    redis_options options_;
    const part part_;
    faults& faults_;
    std::string me_;
    const pid_t maker_;
    int epoll_;
    clocked_wheel<> wheel_;
    timerfd_alarm<clocked_wheel<>> alarm_{wheel_};
    timer retry_{call<&client::retry_, &client::try_again>};
    timer silence_{call<&client::silence_, &client::on_silence>};
    timer look_{call<&client::look_, &client::look_again>};
    timer soon_{call<&client::soon_, &client::do_nothing>};
    detail::back_off back_off_{};
    std::vector<address> addresses_;
    std::size_t next_address_ = 0;
    const std::size_t seeds_;  // the first addresses
    address at_;

    connection talk_, hints_;
    std::string unsent_;            // commands for the next `flush` that sends
    std::vector<pending> waiting_;  // their completions
    std::deque<pending> pending_;   // completions of commands in flight
    std::vector<held> held_;
    std::vector<answer> refused_;
    unsigned flights_ = 0;  // groups of commands in flight
    bool is_ready_ = false, was_ready_ = false, is_guide_ = false;
    std::optional<trouble> trouble_;
    std::string warning_, info_, appendfsync_;
    opening opening_;
    std::optional<slot_map> map_;
    detail::server_clock clock_;
    std::chrono::steady_clock::time_point
        asked_{};  // when the command was sent that is being answered

    std::function<void(std::string_view)> hint_;
    std::function<void()> ready_;
};

}  // namespace tvec::durable::redis
