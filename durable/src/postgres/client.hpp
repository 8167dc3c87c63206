/// \file
/// The conversation with a PostgreSQL server: greeting, statements and answers. It begins again
/// when the connection has broken.
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

#include "../local/server_client.hpp"
#include "../local/server_clock.hpp"
#include "connection.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/durable/postgres_store.hpp"
#include "tvec/extra/eventfd_doorbell.hpp"
#include "values.hpp"

namespace tvec::durable::postgres {

/// Returns the options. Throws std::system_error if one is out of range.
postgres_options checked(postgres_options o);

/// Returns the name of a function in the schema.
std::string function_name(const postgres_options& o, std::string_view function);

[[noreturn]] void fail(std::errc code, const std::string& what);

using fate = detail::fate_at_server;

/// A function of the schema whose calls are prepared, and a letter for the type of each argument.
/// Capitals are arrays, with an element for each item of a batch.
struct prepared {
    std::string_view function;
    const char* types;
};
inline constexpr prepared all_prepared[] = {
    {"puts", "ttyIYBBYY"}, {"cancels", "Y"},        {"touches", "tYB"},  {"ends", "tYBTBYY"},
    {"spends", "IBYB"},    {"claims", "bbbbbBIBY"}, {"takes", "IBBYBB"}, {"beat", "tbIB"},
    {"releases", "ib"},    {"leaves", "t"},         {"finds", "y"},      {"lists", "ibyby"},
    {"counts", ""}};

/// A function of the schema, and its arguments.
struct question_for {
    std::string_view function;
    std::vector<value> arguments;
    std::size_t items = 1;  // requests in it
};

/// The client of a server. It calls completions and receivers from within `receive` and `flush`.
class client {
public:
    /// Receives the fate of a statement, and its result if there is one.
    using answer = std::function<void(fate, const PGresult*)>;

    /// Connects, and waits until the server is ready.
    explicit client(postgres_options o);
    ~client();
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    int fd() const noexcept { return epoll_; }
    const postgres_options& options() const noexcept { return options_; }
    unsigned shards() const noexcept { return shards_; }
    bool is_ready() const noexcept { return is_ready_; }
    reading now() const { return clock_.at(std::chrono::steady_clock::now()); }
    const std::string& warning() const noexcept { return warning_; }
    const std::string& failure() const noexcept { return failure_; }
    /// Returns how often the connection broke, by reason.
    const std::map<std::string, std::uint64_t>& broken_connections() const noexcept {
        return broken_;
    }
    /// Returns true in the process that made it: a forked child shares its connection.
    bool is_ours() const noexcept;
    /// Returns the name of this process, which is the channel of its hints.
    const std::string& me() const noexcept { return me_; }

    /// Sets the receivers of hints and of the news that the connection is there again.
    void listen(std::function<void(std::string_view)> hint, std::function<void()> reconnected);

    /// Queues a call of a function for the next `flush`. Calls `then` once in every case.
    void ask(question_for q, answer then);
    /// Calls `then` in the next `flush`, with fate::refused.
    void refuse(answer then);
    /// Calls `then` after a short pause.
    void ask_later(std::function<void()> then);
    /// Makes the descriptor readable if the next `flush` would send. `waiting` counts bytes that
    /// wait besides the queued statements.
    void touch(std::size_t waiting = 0);
    /// Notes the time of the server, in us. For answers.
    void learn(std::int64_t us);
    /// Notes whether the server syncs commits, whether it syncs at all, and whether another process
    /// has other terms. For answers.
    void judge(bool commits_are_synced, bool is_synced, bool others_differ);
    /// Notes whether the server's queue of notifications is half full. For answers.
    void notice_queue(bool is_half_full);
    /// Notes that an answer had the wrong form. For answers.
    void protest() { failure_ = "an answer is not as it should be: run `install`"; }
    /// Notes a failure. For answers.
    void note(std::string failure) { failure_ = std::move(failure); }

    /// Reads what has come, and calls completions.
    void receive();
    /// Returns true if `flush` sends queued statements now, and false if it waits for answers.
    bool may_send(std::size_t waiting = 0) const;
    /// Sends queued statements.
    void flush();
    /// Leaves the other processes. Calls nothing any more.
    void leave();

private:
    struct pending {
        answer then;
        std::chrono::steady_clock::time_point asked;
        bool is_greeting, ends_flight;
    };
    using greeted = std::function<void(const PGresult&)>;

    void wait_until_ready();
    void connect();
    void retry();
    void on_silence();
    void on_soon();
    void on_lost(trouble why);
    void abandon();
    void do_nothing() {}

    // the greeting
    void say(const std::string& sql, const std::vector<value>& arguments, greeted then);
    void expect(greeted then);
    void greet();
    void on_facts(const PGresult& r);
    void prepare_all();
    void on_opened(const PGresult& r);
    void on_ready();

    void send(const question_for& q);
    void on_answer(result_ptr r, bool is_in_doubt);

    const postgres_options options_;
    const std::string me_;
    const pid_t maker_;
    eventfd_doorbell bell_{};
    clocked_wheel<> wheel_{};
    timerfd_alarm<clocked_wheel<>> alarm_{wheel_};
    const int epoll_;
    timer retry_{call<&client::retry_, &client::connect>};
    timer silence_{call<&client::silence_, &client::on_silence>};
    timer soon_{call<&client::soon_, &client::on_soon>};
    timer gathering_{call<&client::gathering_, &client::do_nothing>};  // requests, until it fires
    detail::back_off back_off_{};
    connection talk_;

    struct queued {
        question_for what;
        pending who;
    };
    std::vector<queued> unsent_{};
    std::size_t unsent_bytes_ = 0;
    std::deque<pending> pending_{};
    std::vector<answer> refused_{};
    std::vector<std::function<void()>> later_{};
    unsigned flights_ = 0;  // groups of statements in flight
    bool is_ready_ = false, was_ready_ = false, has_rung_ = false, is_queue_half_full_ = false;
    std::optional<trouble> trouble_{};
    std::string failure_{}, warning_{};
    std::map<std::string, std::uint64_t> broken_{};
    unsigned shards_ = 0;
    detail::server_clock clock_{};
    // when the statement was sent that is being answered
    std::chrono::steady_clock::time_point asked_{};

    std::function<void(std::string_view)> hint_{};
    std::function<void()> reconnected_{};
};

}  // namespace tvec::durable::postgres
