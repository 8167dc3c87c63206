// A TCP echo server on one io_uring, with every timeout on one tvec wheel. A connection has an idle
// timeout that every read pushes back, and a write timeout. Other timers print statistics every
// second, and end the run. The driver that carries the next wake-up is an option (drivers.hpp). On
// SIGUSR1 it prints what is in its wheel, and --metrics serves the same (prometheus.hpp,
// text_port.hpp). With --workers threads prepare the echoes, and time themselves out on the same
// wheel (workers.hpp).
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "../support/descriptors.hpp"
#include "../support/figures.hpp"
#include "../support/program.hpp"
#include "../support/ring.hpp"
#include "disturbance.hpp"
#include "drivers.hpp"
#include "echo_connection.hpp"
#include "listener.hpp"
#include "prometheus.hpp"
#include "server_options.hpp"
#include "signals.hpp"
#include "text_port.hpp"
#include "timer_books.hpp"
#include "workers.hpp"

namespace {

using example::connection;
using example::time_point;
using std::chrono::milliseconds;

struct options : example::server_options {
    std::string driver = "wait";
    bool plain_accept = false;
    std::optional<unsigned> least_idle_ms;
    std::optional<std::uint16_t> metrics;
    unsigned workers = 0;
    unsigned work_ms = 5;
    example::disturbance::extent disturbance;
};

class server {
public:
    explicit server(const options& wanted);

    int run();

private:
    // Small numbers tag the server's own requests; any other tag is a connection's.
    enum own_tag : std::uint64_t {
        accepting = 1,
        signalled = 2,
        cancelling = 3,
        waking = 4,
        working = 5,
        reading = 6
    };
    static_assert(reading + example::text_port::tags < 1024);

    void serve_metrics();
    void hire();
    void shrink();
    void press();
    bool over() const;
    void turn();
    unsigned hear();
    void complete(std::uint64_t tag, int result, bool more);
    void use_room();
    void on_signal();
    void admit(int socket);
    void worked(std::uint64_t tag);
    void stop();
    void on_second();
    void on_end();
    void print_live();
    void print_wheel();
    void print_work();
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
    example::listener listener_{options_.address, options_.port, false};
    example::acceptor acceptor_{ring_, listener_, accepting, !options_.plain_accept};
    std::optional<example::text_port> metrics_;
    std::optional<example::crew> crew_;
    std::optional<example::shrinking_idle> shrinking_;
    example::disturbance disturbance_{books_, options_.disturbance};
    example::signals signals_{SIGUSR1};
    bool stopping_ = false;
    bool gave_up_ = false;
    time_point started_ = example::timers::clock::now();
    time_point second_deadline_;
    time_point end_deadline_;
    tvec::timer second_{tvec::call<&server::second_, &server::on_second>};
    tvec::timer end_{tvec::call<&server::end_, &server::on_end>};
    std::unordered_map<std::uint64_t, std::unique_ptr<connection>> open_;  // by tag
};

// --- server -------------------------------------------------------------------------------------

server::server(const options& wanted)
    : options_(wanted), driver_(example::make_driver(options_.driver, ring_, timers_, waking)) {
    example::require_descriptors(options_.connections + 64);
    serve_metrics();
    hire();
    shrink();
    signals_.watch(ring_, signalled);
    listener_.announce(options_.port_file);
    books_.arm(second_, second_deadline_, std::chrono::seconds(1));
    books_.arm(end_, end_deadline_, std::chrono::seconds(options_.seconds));
}

void server::serve_metrics() {
    if (!options_.metrics) return;
    const tvec::timer_wheel& wheel = timers_.wheel();
    metrics_.emplace(
        ring_, books_, *options_.metrics, reading,
        std::vector<example::page>{
            {"/metrics", example::prometheus_type,
             [this, &wheel] { return example::prometheus(wheel, books_, totals_); }},
            {"/census", "text/plain", [&wheel] { return to_text(take_census(wheel)); }}},
        [this] { use_room(); });
}

void server::hire() {
    if (options_.workers == 0) return;
    crew_.emplace(ring_, timers_, books_, working, options_.workers, milliseconds(options_.work_ms),
                  options_.connections, [this](std::uint64_t tag) { worked(tag); });
    home_.work = [this](std::uint64_t tag) { crew_->ask(tag); };
}

void server::shrink() {
    if (!options_.least_idle_ms) return;
    home_.idle = milliseconds(*options_.least_idle_ms);
    const milliseconds most(options_.idle_ms);
    home_.shrinking = &shrinking_.emplace(timers_, books_, home_.idle, std::max(most, home_.idle));
}

// The number of connections has changed.
void server::press() {
    if (shrinking_) shrinking_->use(open_.size(), options_.connections);
}

bool server::over() const {
    const bool all_closed =
        open_.empty() && !acceptor_.accepting() && (!metrics_ || metrics_->done());
    return stopping_ && (gave_up_ || all_closed);
}

int server::run() {
    while (!over()) turn();
    if (crew_) crew_->stop();
    books_.cancel(second_, second_deadline_);
    books_.cancel(end_, end_deadline_);
    books_.drain();
    return print_summary();
}

void server::turn() {
    ++totals_.wakeups;
    if (crew_) crew_->rearm();
    // [turn]
    driver_->sleep();
    stalls_.listen([this] { return hear(); });  // handles what has completed
    if (crew_) crew_->run();                    // what other threads have sent
    books_.advance(stalls_.heard(), 256);       // whose time was up when it listened
    // [turn]
}

unsigned server::hear() {
    // [hear]
    home_.heard = example::timers::clock::now();  // once for all that has completed
    unsigned heard = 0;
    ring_.reap([&](std::uint64_t tag, int result, bool more) {
        if (driver_->complete(tag, result)) return;
        complete(tag, result, more);
        ++heard;
    });
    return heard;
    // [hear]
}

void server::complete(std::uint64_t tag, int result, bool more) {
    if (crew_ && crew_->complete(tag)) return;
    if (metrics_ && metrics_->complete(tag, result)) return;
    switch (tag) {
    case accepting:
        return admit(acceptor_.complete(result, more));
    case signalled:
        return on_signal();
    case cancelling:
        return;
    default:
        break;
    }
    const auto found = open_.find(tag);
    if (found->second->complete(result)) return;
    open_.erase(found);
    use_room();
}

void server::worked(std::uint64_t tag) {
    const auto found = open_.find(tag);
    if (found->second->worked()) return;
    open_.erase(found);
    use_room();
}

// A descriptor has been closed.
void server::use_room() {
    acceptor_.closed_one();
    if (metrics_) metrics_->closed_one();
    press();
}

void server::on_signal() {
    if (signals_.take() != SIGUSR1) return stop();
    print_wheel();
    signals_.watch(ring_, signalled);
}

void server::admit(int socket) {
    if (socket < 0) return;
    ++totals_.accepted;
    auto c = std::make_unique<connection>(home_, socket);
    c->start();
    if (stopping_) c->shut_down();
    open_.emplace(c->tag(), std::move(c));
    press();
}

void server::stop() {
    if (stopping_) return;
    stopping_ = true;
    books_.compare();
    acceptor_.stop(cancelling);
    if (metrics_) metrics_->stop(cancelling);
    disturbance_.stop();
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
    if (metrics_) metrics_->look_after();
    disturbance_.look_after();
    books_.compare();
    print_live();
    acceptor_.accept();
    books_.arm_next(second_, second_deadline_, std::chrono::seconds(1));
}

// --- what it says -------------------------------------------------------------------------------

void server::print_live() {
    const double since = example::seconds_of(example::timers::clock::now() - started_);
    fmt::print("{:5.0f} s  {:6} open  {:7} echoes/s  {:6} closed  {:7} timers pending  {:6} "
               "wake-ups/s{}",
               since, open_.size(), totals_.echoes - last_.echoes, totals_.closed, books_.pending(),
               totals_.wakeups - last_.wakeups, isatty(STDOUT_FILENO) ? '\r' : '\n');
    example::flush_output();
    last_ = totals_;
}

void server::print_wheel() {
    const tvec::lateness_histogram& late = books_.late();
    fmt::print("\n{}", dump(timers_.wheel()));
    fmt::print("lateness of {} fires: {}, {} early\n", late.count(), example::spread(late),
               late.early());
    example::flush_output();
}

void server::print_work() {
    const example::work_totals& work = crew_->count();
    using example::print_line;
    print_line("asked of workers", fmt::format("{}: {} answered, {} given up, {} left", work.asked,
                                               work.answered, work.given_up, work.left));
    print_line("mailbox timers",
               fmt::format("{} scheduled, {} cancelled, {} rescheduled, {} refused", work.scheduled,
                           work.cancelled, work.more_time, work.refused));
    print_line("given up late by",
               fmt::format("{}; {} early", example::spread(work.late), work.late.early()));
    print_line("workers' books", crew_->sound() ? "balanced" : "NOT BALANCED");
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
    if (shrinking_)
        print_line("idle class",
                   fmt::format("{} wake-ups, {} early, {} lost", shrinking_->wakeups(),
                               shrinking_->early(), shrinking_->lost()));
    if (crew_) print_work();
    print_line("books", books_.balanced() ? "balanced" : "NOT BALANCED");
    const bool work_is_sound = !crew_ || crew_->sound();
    const bool idle_is_sound = !shrinking_ || shrinking_->sound();
    return totals_.leaked() == 0 && books_.sound() && work_is_sound && idle_is_sound ? 0 : 1;
}

void add_soak_options(example::command_line& line, example::disturbance::extent& d) {
    line.add_number("--stall-ms", d.stall_ms, 0, 10'000,
                    "for soaks: block the loop this long in a callback, in ms");
    line.add_number("--stall-every-ms", d.stall_every_ms, 1, 86'400'000, "how often, in ms");
    line.add_number("--restless", d.restless, 0, 1'000'000,
                    "for soaks: timers that move each other about from their callbacks");
}

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "A TCP echo server: io_uring, and every timeout on one timer wheel.\n"
        "Ends on SIGINT, SIGTERM or after --seconds, with a summary; on SIGUSR1 prints what is in\n"
        "its wheel. Exits non-zero if a timer fired early or was lost, or a connection leaked.",
        "echo_server"};
    example::add_server_options(line, o);
    line.add_choice("--driver", o.driver, {"wait", "timeout", "timerfd"},
                    "what wakes the server for a timer: its own wait, a timeout in the ring, or a "
                    "timerfd");
    line.add_flag("--plain-accept", o.plain_accept,
                  "one request for each connection, as on kernels without multishot accept");
    line.add_number("--least-idle-ms", o.least_idle_ms, 1, 86'400'000,
                    "shrink the time of --idle-ms to this many ms as --connections are reached");
    line.add_number("--metrics", o.metrics, 0, 65'535,
                    "serve /metrics (for Prometheus) and /census on this port of 127.0.0.1; 0: any "
                    "free one");
    line.add_number("--workers", o.workers, 0, 64,
                    "threads that prepare the echoes, and time themselves out on the same wheel");
    line.add_number("--work-ms", o.work_ms, 1, 10'000,
                    "how long that takes, in ms; after four times that the server does without");
    add_soak_options(line, o.disturbance);
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
