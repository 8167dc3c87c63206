/// \file
/// The conversation with a PostgreSQL server: greeting, statements and answers. It begins again
/// when the connection has broken.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../link/event_set.hpp"
#include "../link/reconnecting.hpp"
#include "connection.hpp"
#include "tvec/durable/postgres_store.hpp"
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
    {"puts", "ttyIYBBYY"}, {"cancels", "Y"},         {"touches", "tYB"},  {"ends", "tYBTBYY"},
    {"spends", "IBYB"},    {"claims", "bbbbbbBIBY"}, {"takes", "IBBYBB"}, {"beat", "tbIB"},
    {"releases", "ib"},    {"leaves", "t"},          {"finds", "y"},      {"lists", "ibyby"},
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
    using request = question_for;
    using reply = const PGresult;
    using link = detail::reconnecting<client>;
    /// Receives the fate of a statement, and its result if there is one.
    using answer = link::answer;

    /// Connects, and waits until the server is ready.
    explicit client(postgres_options o);
    ~client();
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    int fd() const noexcept { return events_.fd(); }
    const postgres_options& options() const noexcept { return options_; }
    unsigned shards() const noexcept { return shards_; }
    reading now() const { return link_.now_at(std::chrono::steady_clock::now()); }
    const std::string& warning() const noexcept { return warning_; }
    const detail::faults& faults() const noexcept { return faults_; }
    /// Returns true in the process that made it: a forked child shares its connection.
    bool is_ours() const noexcept;
    /// Returns the name of this process, which is the channel of its hints.
    const std::string& me() const noexcept { return me_; }

    /// Sets the receivers of hints and of the news that the connection is there again.
    void listen(std::function<void(std::string_view)> hint, std::function<void()> reconnected);

    /// Queues a call of a function for the next `flush`. Calls `then` once in every case.
    void ask(question_for q, answer then);
    /// Calls `then` in the next `flush`, with fate::refused.
    void refuse(answer then) { link_.refuse(std::move(then)); }
    /// Calls `then` after a short pause.
    void ask_later(std::function<void()> then);
    /// Makes the descriptor readable if the next `flush` would send. `waiting` counts bytes that
    /// wait besides the queued statements.
    void touch(std::size_t waiting) { link_.touch(waiting); }
    /// Notes the time of the server, in us. For answers.
    void learn(std::int64_t us) { link_.learn(us); }
    /// Notes whether the server syncs commits, whether it syncs at all, and whether another process
    /// has other terms. For answers.
    void judge(bool commits_are_synced, bool is_synced, bool others_differ);
    /// Notes whether the server's queue of notifications is half full. For answers.
    void notice_queue(bool is_half_full);
    /// Notes that an answer had the wrong form. For answers.
    void protest() { note("an answer is not as it should be: run `install`"); }
    /// Notes a failure. For answers.
    void note(std::string failure) { faults_.last = std::move(failure); }

    /// Reads what has come, and calls completions.
    void receive();
    /// Returns true if `flush` sends queued statements now, and false if it waits for answers.
    bool may_send(std::size_t waiting) const { return link_.may_send(waiting); }
    /// Sends queued statements.
    void flush();
    /// Leaves the other processes. Calls nothing any more.
    void leave();

private:
    friend link;
    using greeted = std::function<void(const PGresult&)>;

    // for the link
    std::optional<trouble> open();
    void close() { talk_.close(); }
    void send(const question_for& q);
    void end_flight() { talk_.flush(); }
    void try_again() { link_.connect(); }
    duration slowest() const { return options_.slowest; }
    void on_lost() {}
    std::string place() const { return {}; }
    void wake() { events_.ring(); }

    void wait_until_ready();
    void on_soon();

    // the greeting
    void say(const std::string& sql, const std::vector<value>& arguments, greeted then);
    void expect(greeted then);
    void greet();
    void on_facts(const PGresult& r);
    void prepare_all();
    void on_opened(const PGresult& r);
    void on_ready();

    void on_answer(result_ptr r, bool is_in_doubt);

    const postgres_options options_;
    const std::string me_;
    const pid_t maker_;
    detail::event_set events_{"postgres_store"};
    detail::faults faults_{};
    link link_;
    connection talk_;
    timer soon_{call<&client::soon_, &client::on_soon>};
    std::vector<std::function<void()>> later_{};
    bool is_queue_half_full_ = false;
    std::string warning_{};
    unsigned shards_ = 0;

    std::function<void(std::string_view)> hint_{};
    std::function<void()> reconnected_{};
};

}  // namespace tvec::durable::postgres
