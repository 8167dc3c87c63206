// A TCP echo server on one io_uring, with every timeout on one tvec wheel. A connection has an idle
// timeout that every read pushes back, and a write timeout. Other timers print statistics every
// second, and end the run. The driver that carries the next wake-up is an option (drivers.hpp).
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "../support/command_line.hpp"
#include "../support/descriptors.hpp"
#include "../support/figures.hpp"
#include "../support/program.hpp"
#include "../support/ring.hpp"
#include "drivers.hpp"
#include "echo_connection.hpp"
#include "listener.hpp"
#include "signals.hpp"
#include "timer_books.hpp"

namespace {

using example::connection;
using example::time_point;
using std::chrono::milliseconds;

struct options {
    std::string address = "127.0.0.1";
    std::uint16_t port = 0;
    std::string port_file;
    std::string driver = "wait";
    unsigned connections = 4000;
    unsigned idle_ms = 2000;
    unsigned write_ms = 1000;
    unsigned grace_ms = 500;
    unsigned seconds = 60;
};

class server {
public:
    explicit server(const options& wanted);

    int run();

private:
    // Small numbers tag the server's own requests; any other tag is a connection's.
    enum own_tag : std::uint64_t { accepting = 1, signalled = 2, cancelling = 3, waking = 4 };

    bool over() const;
    void turn();
    unsigned hear();
    void complete(std::uint64_t tag, int result, bool more);
    void admit(int socket);
    void stop();
    void on_second();
    void on_end();
    void print_live();
    int print_summary();

    options options_;
    example::ring ring_{4096};
    example::timers timers_;
    std::unique_ptr<example::driver> driver_;
    example::timer_books books_{timers_};
    tvec::stall_watch<example::timers> stalls_{timers_, milliseconds(options_.grace_ms)};
    example::echo_home home_{ring_, books_, stalls_, milliseconds(options_.idle_ms),
                             milliseconds(options_.write_ms)};
    example::echo_totals& totals_ = home_.count;
    example::echo_totals last_;
    example::listener listener_{options_.address, options_.port};
    example::acceptor acceptor_{ring_, listener_, accepting};
    example::signals signals_;
    bool stopping_ = false;
    bool gave_up_ = false;
    time_point started_ = example::timers::clock::now();
    time_point second_deadline_;
    time_point end_deadline_;
    tvec::timer second_{tvec::call<&server::second_, &server::on_second>};
    tvec::timer end_{tvec::call<&server::end_, &server::on_end>};
    std::unordered_map<std::uint64_t, std::unique_ptr<connection>> open_;  // by tag
};

server::server(const options& wanted)
    : options_(wanted), driver_(example::make_driver(options_.driver, ring_, timers_, waking)) {
    example::require_descriptors(options_.connections + 64);
    signals_.watch(ring_, signalled);
    listener_.announce(options_.port_file);
    books_.arm(second_, second_deadline_, std::chrono::seconds(1));
    books_.arm(end_, end_deadline_, std::chrono::seconds(options_.seconds));
}

bool server::over() const {
    const bool all_closed = open_.empty() && !acceptor_.accepting();
    return stopping_ && (gave_up_ || all_closed);
}

int server::run() {
    while (!over()) turn();
    books_.cancel(second_, second_deadline_);
    books_.cancel(end_, end_deadline_);
    books_.drain();
    return print_summary();
}

void server::turn() {
    ++totals_.wakeups;
    driver_->sleep();
    stalls_.listen([this] { return hear(); });  // handles what has completed
    stalls_.run(256);                           // what is due by the time it listened
}

unsigned server::hear() {
    home_.heard = example::timers::clock::now();  // once for all that has completed
    unsigned heard = 0;
    ring_.reap([&](std::uint64_t tag, int result, bool more) {
        if (driver_->complete(tag, result)) return;
        complete(tag, result, more);
        ++heard;
    });
    return heard;
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
        break;
    }
    const auto found = open_.find(tag);
    if (found->second->complete(result)) return;
    open_.erase(found);
    acceptor_.closed_one();
}

void server::admit(int socket) {
    if (socket < 0) return;
    ++totals_.accepted;
    auto c = std::make_unique<connection>(home_, socket);
    c->start();
    if (stopping_) c->shut_down();
    open_.emplace(c->tag(), std::move(c));
}

void server::stop() {
    if (stopping_) return;
    stopping_ = true;
    books_.compare();
    acceptor_.stop(cancelling);
    for (const auto& [tag, c] : open_) c->shut_down();
    books_.arm(end_, end_deadline_, std::chrono::seconds(5));
}

void server::on_end() {
    books_.fired(end_deadline_);
    if (stopping_) gave_up_ = true;
    stop();
}

void server::on_second() {
    books_.fired(second_deadline_);
    for (const auto& [tag, c] : open_) c->look_after();
    books_.compare();
    print_live();
    acceptor_.accept();
    books_.arm_next(second_, second_deadline_, std::chrono::seconds(1));
}

// summary

void server::print_live() {
    const double since = example::seconds_of(example::timers::clock::now() - started_);
    fmt::print("{:5.0f} s  {:6} open  {:7} echoes/s  {:6} closed  {:7} timers pending  {:6} "
               "wake-ups/s{}",
               since, open_.size(), totals_.echoes - last_.echoes, totals_.closed, books_.pending(),
               totals_.wakeups - last_.wakeups, isatty(STDOUT_FILENO) ? '\r' : '\n');
    example::flush_output();
    last_ = totals_;
}

int server::print_summary() {
    const double ran = example::seconds_of(example::timers::clock::now() - started_);
    const auto& visits = timers_.wheel().count();
    const tvec::lateness_histogram& late = books_.late();
    fmt::print("\nserver, {:.1f} s, woken by {}\n", ran, options_.driver);
    using example::print_line;
    print_clients(totals_, ran);
    print_line("timers armed", books_.armed());
    print_line("push-backs", books_.pushed_back());
    print_line("cancelled", books_.cancelled());
    print_line("fires", late.count());
    print_line("pending timers",
               fmt::format("{} at most, {} at the end", books_.most_pending(), books_.drained()));
    print_line("visits", fmt::format("{} fired, {} moved, {} dropped", visits.fired, visits.moved,
                                     visits.dropped));
    print_line("wake-ups", fmt::format("{}, {:.0f}/s", totals_.wakeups,
                                       static_cast<double>(totals_.wakeups) / ran));
    print_line("CPU time", fmt::format("{:.2f} s", example::cpu_seconds(RUSAGE_SELF)));
    print_line("lateness", example::spread(late));
    print_line("early fires", late.early());
    print_line("stalls", stalls_.stalls());
    print_line("lost timers", books_.lost());
    print_line("books", books_.balanced() ? "balanced" : "NOT BALANCED");
    return totals_.leaked() == 0 && books_.sound() ? 0 : 1;
}

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "A TCP echo server: io_uring, and every timeout on one timer wheel.\n"
        "Ends on SIGINT, SIGTERM or after --seconds, with a summary. Exits non-zero if a timer "
        "fired\n"
        "early or was lost, or a connection leaked.",
        "echo_server"};
    constexpr unsigned day_ms = 86'400'000;
    line.add_text("--address", o.address, "IPv4 address to listen on");
    line.add_number("--port", o.port, 0, 65'535, "port to listen on; 0: any free one");
    line.add_text("--port-file", o.port_file, "write the port to this file once listening");
    line.add_choice("--driver", o.driver, {"wait", "timeout", "timerfd"},
                    "what wakes the server for a timer: its own wait, a timeout in the ring, or a "
                    "timerfd");
    line.add_number("--connections", o.connections, 1, 1'000'000,
                    "connections at a time to have descriptors for");
    line.add_number("--idle-ms", o.idle_ms, 1, day_ms,
                    "close a connection that says nothing for this long, in ms");
    line.add_number("--write-ms", o.write_ms, 1, day_ms,
                    "close a connection that does not take its echo in this many ms");
    line.add_number("--grace-ms", o.grace_ms, 0, day_ms,
                    "after a stall of the server nobody is closed for this long, in ms");
    line.add_number("--seconds", o.seconds, 1, 86'400,
                    "end after this many seconds, if no signal comes first");
    line.parse_or_exit(argc, argv);
    return o;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("echo_server", [&] {
        server s(parse(argc, argv));
        return s.run();
    });
}
