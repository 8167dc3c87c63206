// The TCP echo server again, in coroutines: each connection is a loop that reads as if it blocked.
// Timeouts are with_timeout around awaited requests. Their timers live in the frame, on the same
// wheel. Destroying a connection's coroutine cancels all of it.
#include <cstdio>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "../support/figures.hpp"
#include "../support/program.hpp"
#include "../support/task.hpp"
#include "echo_connection.hpp"
#include "listener.hpp"
#include "server_options.hpp"
#include "signals.hpp"
#include "tvec/coroutines/sleep.hpp"
#include "tvec/drivers/uring_wait.hpp"
#include "tvec/extra/stall_watch.hpp"
#include "uring_requests.hpp"

namespace {

using example::requests;
using example::stream;
using example::task;
using example::time_point;
using std::chrono::milliseconds;

using options = example::server_options;

class server {
public:
    explicit server(const options& wanted);

    int run();

private:
    // Small numbers tag the server's own requests; any other tag belongs to a connection's.
    enum own_tag : std::uint64_t { accepting = 1, signalled = 2, cancelling = 3 };

    task<> talk(std::uint64_t id, std::shared_ptr<stream> client);
    task<std::optional<int>> hear_from(std::shared_ptr<stream> client);
    task<std::optional<int>> wait_for(requests::transfer& what, std::chrono::nanoseconds limit);
    task<bool> echo(std::shared_ptr<stream> client, std::uint32_t size);
    task<> report_every_second();
    task<> stop_after(std::chrono::seconds delay);
    task<> give_up_after(std::chrono::seconds delay);

    void turn();
    unsigned hear();
    void complete(std::uint64_t tag, int result, bool more);
    void admit(int socket);
    void sweep();
    void stop();
    void begin(task<> chore);
    void woken(time_point deadline) { late_.record(example::timers::clock::now() - deadline); }
    bool balanced();
    void print_live();
    int print_summary();

    options options_;
    example::echo_totals totals_;
    example::ring ring_{4096};
    example::timers timers_;
    tvec::uring_wait<example::timers> wait_{ring_.get(), timers_};
    tvec::stall_watch<example::timers> stalls_{timers_, milliseconds(options_.grace_ms)};
    requests requests_{ring_, cancelling};
    example::listener listener_{options_.address, options_.port, false};
    example::acceptor acceptor_{ring_, listener_, accepting, true};
    example::signals signals_;
    tvec::lateness_histogram late_;
    example::echo_totals last_;
    std::uint64_t closed_before_ = 0;
    time_point started_ = example::timers::clock::now();
    bool stopping_ = false;
    bool gave_up_ = false;
    std::vector<task<>> chores_;
    std::unordered_map<std::uint64_t, task<>> open_;
    std::vector<std::uint64_t> ended_;
};

// --- coroutines ---------------------------------------------------------------------------------

// Until the client says nothing for too long, does not take its echo, or goes.
task<> server::talk(std::uint64_t id, std::shared_ptr<stream> client) {
    const milliseconds write(options_.write_ms);
    for (std::uint64_t echoes = 0;; ++echoes) {
        const auto heard = co_await hear_from(client);
        if (!heard) ++totals_.idle_closes;
        if (!heard || *heard <= 0) break;

        const time_point write_end = timers_.after(write);
        const auto size = static_cast<std::uint32_t>(*heard);
        const auto taken = co_await tvec::with_timeout(timers_, echo(client, size), write);
        if (!taken) woken(write_end), ++totals_.write_closes;
        if (!taken || !*taken) {
            totals_.unread += echoes;
            break;
        }
    }
    ended_.push_back(id);
}

// Empty if it says nothing for too long. If the server was away itself, the same receive has a
// second chance.
task<std::optional<int>> server::hear_from(std::shared_ptr<stream> client) {
    auto receiving = requests_.receive(std::move(client));
    auto heard = co_await wait_for(receiving, milliseconds(options_.idle_ms));
    if (!heard && stalls_.just_back()) heard = co_await wait_for(receiving, stalls_.grace());
    co_return heard;
}

task<std::optional<int>> server::wait_for(requests::transfer& what,
                                          std::chrono::nanoseconds limit) {
    const time_point end = timers_.after(limit);
    const auto done = co_await tvec::with_timeout(timers_, what, limit);
    if (!done) woken(end);
    co_return done;
}

// All of it, in as many pieces as the socket likes. Gives false if the client is gone.
task<bool> server::echo(std::shared_ptr<stream> client, std::uint32_t size) {
    for (std::uint32_t sent = 0; sent < size;) {
        const int n = co_await requests_.send(client, sent, size - sent);
        if (n <= 0) co_return false;
        sent += static_cast<std::uint32_t>(n);
        totals_.bytes += static_cast<std::uint64_t>(n);
    }
    ++totals_.echoes;
    co_return true;
}

task<> server::report_every_second() {
    for (time_point next = timers_.after(std::chrono::seconds(1));;
         next += std::chrono::seconds(1)) {
        co_await tvec::sleep_until(timers_, next);
        woken(next);
        print_live();
        acceptor_.accept();
    }
}

task<> server::stop_after(std::chrono::seconds delay) {
    const time_point end = timers_.after(delay);
    co_await tvec::sleep_until(timers_, end);
    woken(end);
    stop();
}

task<> server::give_up_after(std::chrono::seconds delay) {
    const time_point end = timers_.after(delay);
    co_await tvec::sleep_until(timers_, end);
    woken(end);
    gave_up_ = true;
}

// --- server -------------------------------------------------------------------------------------

server::server(const options& wanted) : options_(wanted) {
    example::require_descriptors(options_.connections + 64);
    signals_.watch(ring_, signalled);
    listener_.announce(options_.port_file);
    begin(report_every_second());
    begin(stop_after(std::chrono::seconds(options_.seconds)));
}

void server::begin(task<> chore) {
    chores_.push_back(std::move(chore));
    chores_.back().start();
}

int server::run() {
    while (!gave_up_ && (!stopping_ || acceptor_.accepting() || requests_.in_flight() != 0)) turn();
    chores_.clear();
    return print_summary();
}

void server::turn() {
    wait_();
    ++totals_.wakeups;
    stalls_.listen([this] { return hear(); });
    stalls_.run(256);
    sweep();
}

unsigned server::hear() {
    return ring_.reap(
        [this](std::uint64_t tag, int result, bool more) { complete(tag, result, more); });
}

void server::complete(std::uint64_t tag, int result, bool more) {
    switch (tag) {
    case accepting:
        return admit(acceptor_.complete(result, more));
    case signalled:
        return stop();
    case cancelling:
        return;
    default:
        return requests_.complete(tag, result);
    }
}

void server::admit(int socket) {
    if (socket < 0) return;
    example::set_up_client(socket);
    auto client = std::make_shared<stream>(socket, totals_.closed);
    const std::uint64_t id = totals_.accepted++;
    task<>& t = open_.emplace(id, talk(id, std::move(client))).first->second;
    t.start();
    if (stopping_) ended_.push_back(id);
}

// A coroutine cannot destroy itself, so coroutines that have ended wait for `sweep`. A socket may
// be closed only later, when the kernel has let go of its requests.
void server::sweep() {
    for (const std::uint64_t id : ended_) open_.erase(id);
    ended_.clear();
    if (std::exchange(closed_before_, totals_.closed) != totals_.closed) acceptor_.closed_one();
}

// Destroying the coroutines is all: it cancels their timers and their requests.
void server::stop() {
    if (stopping_) return;
    stopping_ = true;
    acceptor_.stop(cancelling);
    for (const auto& [id, t] : open_) ended_.push_back(id);
    begin(give_up_after(std::chrono::seconds(5)));
}

// --- what it says -------------------------------------------------------------------------------

void server::print_live() {
    const double since = example::seconds_of(example::timers::clock::now() - started_);
    fmt::print("{:5.0f} s  {:6} open  {:7} echoes/s  {:6} closed  {:6} requests  {:6} "
               "wake-ups/s{}",
               since, open_.size(), totals_.echoes - last_.echoes, totals_.closed,
               requests_.in_flight(), totals_.wakeups - last_.wakeups,
               isatty(STDOUT_FILENO) ? '\r' : '\n');
    example::flush_output();
    last_ = totals_;
}

// Every fire has woken a coroutine that says so, and no timer has outlived its coroutine.
bool server::balanced() {
    const std::uint64_t left = timers_.wheel().drain([](tvec::timer&) {});
    return left == 0 && timers_.wheel().count().fired == late_.count() &&
           requests_.in_flight() == 0;
}

int server::print_summary() {
    using example::print_line;
    const double ran = example::seconds_of(example::timers::clock::now() - started_);
    const bool fine = balanced();
    fmt::print("\ncoroutine server, {:.1f} s\n", ran);
    print_clients(totals_, ran);
    print_line("requests", fmt::format("{} at the end", requests_.in_flight()));
    print_line("fires", late_.count());
    print_line("CPU time", fmt::format("{:.2f} s", example::cpu_seconds(RUSAGE_SELF)));
    print_line("lateness", example::spread(late_));
    print_line("early fires", late_.early());
    print_line("stalls", stalls_.stalls());
    print_line("books", fine ? "balanced" : "NOT BALANCED");
    return totals_.leaked() == 0 && late_.early() == 0 && fine ? 0 : 1;
}

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "A TCP echo server in coroutines: io_uring, and every timeout on one timer wheel.\n"
        "Ends on SIGINT, SIGTERM or after --seconds, with a summary; exits non-zero if a "
        "timer\nfired early, or a timer, a request or a connection leaked.",
        "coroutine_server"};
    example::add_server_options(line, o);
    line.parse_or_exit(argc, argv);
    return o;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("coroutine_server", [&] {
        server s(parse(argc, argv));
        return s.run();
    });
}
