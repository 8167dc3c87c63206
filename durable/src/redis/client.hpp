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
#include <vector>

#include "../local/server_clock.hpp"
#include "command.hpp"
#include "connection.hpp"
#include "reply.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/durable/redis_store.hpp"

namespace tvec::durable::redis {

/// The fate of a command.
enum class fate {
    replied,  ///< it was done, and there is a reply
    refused,  ///< it was not done
    lost      ///< it may have been done or not
};

/// The client of a server. It calls completions and receivers from within `receive` and `flush`.
class client {
public:
    /// Receives the fate of a command, and the reply if there is one.
    using answer = std::function<void(fate, const redisReply*)>;

    /// Connects, and waits until the server is ready.
    explicit client(redis_options o);
    ~client();
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    int fd() const noexcept { return epoll_; }
    const redis_options& options() const noexcept { return options_; }
    unsigned shards() const noexcept { return shards_; }
    bool is_ready() const noexcept { return is_ready_; }
    reading now() const { return clock_.at(std::chrono::steady_clock::now()); }
    const std::string& warning() const noexcept { return warning_; }
    const std::string& failure() const noexcept { return failure_; }
    /// Returns how often the connection broke, by reason.
    const std::map<std::string, std::uint64_t>& broken_connections() const noexcept {
        return broken_;
    }
    /// Returns true in the process that made it: a forked child shares its connections.
    bool is_ours() const noexcept;

    /// Returns the name of this process, which is the channel of its hints.
    const std::string& me() const noexcept { return me_; }
    /// Returns the name of a common key, or of a key of a shard.
    std::string key(std::string_view what) const;
    std::string key(unsigned shard, std::string_view what) const;

    /// Sets the receivers of hints ("due id") and of the news that the connection is there again.
    void listen(std::function<void(std::string_view)> hint, std::function<void()> reconnected);

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

    void wait_until_ready();
    void connect();
    void retry();
    void try_again();
    void on_silence();
    void on_heard();
    void look_again();
    void on_lost(trouble why);
    void abandon();
    void do_nothing() {}

    // the greeting
    command credentials() const;
    void greet();
    void ask_facts();
    bool accept();
    void try_to_say(const command& c, greeted then);
    void say(const command& c, greeted then);
    void on_version(const redisReply& r);
    void on_opened(const redisReply& r);
    void upgrade(unsigned shard);
    void on_ready();

    // answers
    void on_reply(reply_ptr r);
    void wait_for_replicas();
    void on_replicas(const redisReply& r);
    void give(const answer& then, const redisReply& r);
    void on_message(const redisReply& r);

    redis_options options_;
    std::string me_;
    const pid_t maker_;
    int epoll_;
    clocked_wheel<> wheel_;
    timerfd_alarm<clocked_wheel<>> alarm_{wheel_};
    timer retry_{call<&client::retry_, &client::try_again>};
    timer silence_{call<&client::silence_, &client::on_silence>};
    timer look_{call<&client::look_, &client::look_again>};
    timer soon_{call<&client::soon_, &client::do_nothing>};
    unsigned failures_ = 0;
    std::vector<address> addresses_;
    std::size_t next_address_ = 0;

    connection talk_, hints_;
    std::string unsent_;            // commands for the next `flush` that sends
    std::vector<pending> waiting_;  // their completions
    std::deque<pending> pending_;   // completions of commands in flight
    std::vector<held> held_;
    std::vector<answer> refused_;
    unsigned flights_ = 0;  // groups of commands in flight
    bool is_ready_ = false, was_ready_ = false, is_upgrading_ = false;
    std::optional<trouble> trouble_;
    std::string failure_, warning_, info_, appendfsync_;
    std::map<std::string, std::uint64_t> broken_;
    unsigned shards_ = 0;
    detail::server_clock clock_;
    std::chrono::steady_clock::time_point
        asked_{};  // when the command was sent that is being answered

    std::function<void(std::string_view)> hint_;
    std::function<void()> reconnected_;
};

}  // namespace tvec::durable::redis
