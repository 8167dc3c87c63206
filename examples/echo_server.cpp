// A TCP echo server on one io_uring, with every timeout on one tvec wheel: per connection an idle
// timeout that every read pushes back, and a write timeout; a statistics line every second; and
// the end of the run. Who carries the next wake-up can be chosen: drivers.hpp.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "command_line.hpp"
#include "descriptors.hpp"
#include "drivers.hpp"
#include "ring.hpp"
#include "signals.hpp"
#include "timer_books.hpp"

namespace {

using example::descriptor;
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
    unsigned seconds = 60;
    bool plain_accept = false;
};

struct totals {
    std::uint64_t accepted = 0;
    std::uint64_t closed = 0;
    std::uint64_t echoes = 0;
    std::uint64_t bytes = 0;
    std::uint64_t idle_closes = 0;
    std::uint64_t write_closes = 0;
    std::uint64_t wakeups = 0;
};

class server;

// One socket. It has exactly one request in flight, a receive or a send, and lives until that has
// completed: closing means to shut the socket down, which completes it.
class connection {
public:
    connection(server& home, int fd);
    ~connection();
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;

    // The user data of its requests: its address, which is never a small number.
    std::uint64_t tag() const { return reinterpret_cast<std::uint64_t>(this); }
    void start() { receive(); }
    // Returns false when the connection is over and may be destroyed.
    bool complete(int result);
    void shut_down();
    void look_after();

private:
    void receive();
    void send();
    bool received(int result);
    bool sent(int result);
    void on_idle();
    void on_write_stalled();
    void cancel_timers();

    server& server_;
    descriptor socket_;
    bool sending_ = false;
    bool closing_ = false;
    std::uint32_t filled_ = 0;
    std::uint32_t written_ = 0;
    time_point idle_deadline_;
    time_point write_deadline_;
    tvec::timer idle_{tvec::call<&connection::idle_, &connection::on_idle>};
    tvec::timer write_{tvec::call<&connection::write_, &connection::on_write_stalled>};
    std::array<char, 2048> buffer_;
};

class server {
public:
    explicit server(const options& wanted);

    int run();

    // What connections need of it.
    example::ring& ring() { return ring_; }
    example::timer_books& books() { return books_; }
    totals& count() { return totals_; }
    milliseconds idle() const { return milliseconds(options_.idle_ms); }
    milliseconds write() const { return milliseconds(options_.write_ms); }

private:
    // Small numbers tag the server's own requests; any other tag is a connection's address.
    enum own_tag : std::uint64_t { accepting = 1, signalled = 2, cancelling = 3, waking = 4 };

    void listen();
    void announce() const;
    void accept();
    void turn();
    void complete(std::uint64_t tag, int result, bool more);
    void accepted(int result, bool more);
    void admit(std::unique_ptr<connection> c);
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
    totals totals_;
    totals last_;
    descriptor listener_;
    example::signals signals_;
    bool multishot_ = true;
    bool accepting_ = false;
    bool stopping_ = false;
    bool gave_up_ = false;
    time_point started_ = example::timers::clock::now();
    time_point second_deadline_;
    time_point end_deadline_;
    tvec::timer second_{tvec::call<&server::second_, &server::on_second>};
    tvec::timer end_{tvec::call<&server::end_, &server::on_end>};
    std::unordered_map<std::uint64_t, std::unique_ptr<connection>> open_;  // by tag
};

// --- connection ---------------------------------------------------------------------------------

connection::connection(server& home, int fd) : server_(home), socket_(fd) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int small = 64 * 1024;  // a peer that does not read is noticed after this much
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    server_.books().arm(idle_, idle_deadline_, server_.idle());
}

connection::~connection() {
    cancel_timers();
    ++server_.count().closed;
}

void connection::receive() {
    sending_ = false;
    server_.ring().queue(tag(), io_uring_prep_recv, socket_.get(), buffer_.data(), buffer_.size(),
                         0);
}

void connection::send() {
    sending_ = true;
    server_.ring().queue(tag(), io_uring_prep_send, socket_.get(), buffer_.data() + written_,
                         filled_ - written_, MSG_NOSIGNAL);
}

bool connection::complete(int result) { return sending_ ? sent(result) : received(result); }

bool connection::received(int result) {
    if (result <= 0 || closing_) return false;
    filled_ = static_cast<std::uint32_t>(result);
    written_ = 0;
    server_.books().arm(idle_, idle_deadline_, server_.idle());  // a push-back: one store
    server_.books().arm(write_, write_deadline_, server_.write());
    send();
    return true;
}

bool connection::sent(int result) {
    if (result <= 0 || closing_) return false;
    server_.count().bytes += static_cast<std::uint64_t>(result);
    written_ += static_cast<std::uint32_t>(result);
    if (written_ < filled_) {
        send();
        return true;
    }
    server_.books().cancel(write_, write_deadline_);
    ++server_.count().echoes;
    receive();
    return true;
}

void connection::on_idle() {
    server_.books().fired(idle_deadline_);
    if (sending_) {  // not idle but stalled: the write timeout judges that
        server_.books().arm(idle_, idle_deadline_, server_.idle());
        return;
    }
    ++server_.count().idle_closes;
    shut_down();
}

void connection::on_write_stalled() {
    server_.books().fired(write_deadline_);
    ++server_.count().write_closes;
    shut_down();
}

// Not close(): a request in flight would survive that, and the descriptor could be reused.
void connection::shut_down() {
    closing_ = true;
    cancel_timers();
    ::shutdown(socket_.get(), SHUT_RDWR);
}

void connection::cancel_timers() {
    server_.books().cancel(idle_, idle_deadline_);
    server_.books().cancel(write_, write_deadline_);
}

void connection::look_after() {
    server_.books().look_after(idle_, idle_deadline_);
    server_.books().look_after(write_, write_deadline_);
}

// --- server -------------------------------------------------------------------------------------

server::server(const options& wanted)
    : options_(wanted), driver_(example::make_driver(options_.driver, ring_, timers_, waking)),
      multishot_(!wanted.plain_accept) {
    example::require_descriptors(options_.connections + 64);
    listen();
    signals_.watch(ring_, signalled);
    accept();
    announce();
    books_.arm(second_, second_deadline_, std::chrono::seconds(1));
    books_.arm(end_, end_deadline_, std::chrono::seconds(options_.seconds));
}

void server::listen() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(options_.port);
    const std::string where = fmt::format("{}:{}", options_.address, options_.port);
    if (inet_pton(AF_INET, options_.address.c_str(), &address.sin_addr) != 1)
        throw std::runtime_error("not an IPv4 address: " + options_.address);
    listener_ = descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (listener_.get() < 0) example::fail("cannot make a socket");
    const int on = 1;
    setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_.get(), generic, size) != 0 || ::listen(listener_.get(), SOMAXCONN) != 0)
        example::fail("cannot listen on " + where);
    getsockname(listener_.get(), generic, &size);
    options_.port = ntohs(address.sin_port);
}

void server::announce() const {
    fmt::print("listening on {}:{}\n", options_.address, options_.port);
    std::fflush(stdout);
    if (options_.port_file.empty()) return;
    std::ofstream file(options_.port_file);
    file << options_.port << std::endl;
    if (!file) throw std::runtime_error("cannot write the port to " + options_.port_file);
}

void server::accept() {
    const auto prepare = multishot_ ? io_uring_prep_multishot_accept : io_uring_prep_accept;
    ring_.queue(accepting, prepare, listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    accepting_ = true;
}

int server::run() {
    while (!stopping_ || !(gave_up_ || (open_.empty() && !accepting_))) turn();
    books_.cancel(second_, second_deadline_);
    books_.cancel(end_, end_deadline_);
    books_.drain();
    return print_summary();
}

void server::turn() {
    driver_->sleep();
    ++totals_.wakeups;
    timers_.run(256);
    ring_.reap([this](std::uint64_t tag, int result, bool more) { complete(tag, result, more); });
}

void server::complete(std::uint64_t tag, int result, bool more) {
    if (driver_->complete(tag, result)) return;
    switch (tag) {
    case accepting:
        return accepted(result, more);
    case signalled:
        return stop();
    case cancelling:
        return;
    default:
        break;
    }
    const auto found = open_.find(tag);
    if (!found->second->complete(result)) open_.erase(found);
}

void server::accepted(int result, bool more) {
    accepting_ = more;
    if (result >= 0) {
        ++totals_.accepted;
        admit(std::make_unique<connection>(*this, result));
    } else if (result == -EINVAL && multishot_) {
        multishot_ = false;  // an older kernel: one request per connection
    } else {
        return;  // no descriptors, say: on_second tries again
    }
    if (!accepting_ && !stopping_) accept();
}

void server::admit(std::unique_ptr<connection> c) {
    c->start();
    if (stopping_) c->shut_down();
    open_.emplace(c->tag(), std::move(c));
}

void server::stop() {
    if (stopping_) return;
    stopping_ = true;
    books_.compare();
    ring_.queue(cancelling, io_uring_prep_cancel64, std::uint64_t{accepting}, 0);
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
    if (!accepting_ && !stopping_) accept();
    books_.arm_next(second_, second_deadline_, std::chrono::seconds(1));
}

// --- what it says -------------------------------------------------------------------------------

double seconds_of(std::chrono::nanoseconds d) { return std::chrono::duration<double>(d).count(); }

double microseconds_of(std::chrono::nanoseconds d) { return seconds_of(d) * 1e6; }

double cpu_seconds() {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto of = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return of(used.ru_utime) + of(used.ru_stime);
}

void server::print_live() {
    const double since = seconds_of(example::timers::clock::now() - started_);
    fmt::print("{:5.0f} s  {:6} open  {:7} echoes/s  {:6} closed  {:7} timers pending  {:6} "
               "wake-ups/s{}",
               since, open_.size(), totals_.echoes - last_.echoes, totals_.closed, books_.pending(),
               totals_.wakeups - last_.wakeups, isatty(STDOUT_FILENO) ? '\r' : '\n');
    std::fflush(stdout);
    last_ = totals_;
}

int server::print_summary() {
    const double ran = seconds_of(example::timers::clock::now() - started_);
    const std::uint64_t leaked = totals_.accepted - totals_.closed;
    const auto& visits = timers_.wheel().count();
    example::lateness& late = books_.late();
    fmt::print("\nserver, {:.1f} s, woken by {}\n", ran, options_.driver);
    using example::print_line;
    print_line("connections", fmt::format("{} accepted, {} closed, {} leaked", totals_.accepted,
                                          totals_.closed, leaked));
    print_line("echoes", fmt::format("{}, {:.0f}/s, {:.1f} MB", totals_.echoes,
                                     static_cast<double>(totals_.echoes) / ran,
                                     static_cast<double>(totals_.bytes) * 1e-6));
    print_line("idle closes", totals_.idle_closes);
    print_line("stalled writes closed", totals_.write_closes);
    print_line("timers armed", books_.armed());
    print_line("push-backs", books_.pushed_back());
    print_line("cancelled", books_.cancelled());
    print_line("fires", late.fired());
    print_line("pending timers",
               fmt::format("{} at most, {} at the end", books_.most_pending(), books_.drained()));
    print_line("visits", fmt::format("{} fired, {} moved, {} dropped", visits.fired, visits.moved,
                                     visits.dropped));
    print_line("wake-ups", fmt::format("{}, {:.0f}/s", totals_.wakeups,
                                       static_cast<double>(totals_.wakeups) / ran));
    print_line("CPU time", fmt::format("{:.2f} s", cpu_seconds()));
    print_line("lateness",
               fmt::format("p50 {:.0f} us, p99 {:.0f} us, max {:.0f} us",
                           microseconds_of(late.quantile(0.5)),
                           microseconds_of(late.quantile(0.99)), microseconds_of(late.max())));
    print_line("early fires", late.early());
    print_line("lost timers", books_.lost());
    print_line("books", books_.balanced() ? "balanced" : "NOT BALANCED");
    return leaked == 0 && books_.sound() ? 0 : 1;
}

options parse(int argc, char** argv) {
    options o;
    CLI::App app{"A TCP echo server: io_uring, and every timeout on one timer wheel.\n"
                 "Ends on SIGINT, SIGTERM or after --seconds, with a summary; exits non-zero if a "
                 "timer\nfired early or was lost, or a connection leaked.",
                 "echo_server"};
    app.add_option("--address", o.address, "IPv4 address to listen on")->capture_default_str();
    app.add_option("--port", o.port, "port to listen on; 0: any free one")
        ->check(CLI::Range(0, 65'535))
        ->capture_default_str();
    app.add_option("--port-file", o.port_file, "write the port to this file once listening");
    app.add_option("--driver", o.driver,
                   "what wakes the server for a timer: its own wait, a timeout in the ring, or a "
                   "timerfd")
        ->check(CLI::IsMember({"wait", "timeout", "timerfd"}))
        ->capture_default_str();
    app.add_option("--connections", o.connections, "connections at a time to have descriptors for")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_option("--idle-ms", o.idle_ms,
                   "close a connection that says nothing for this long, in ms")
        ->check(CLI::Range(1, 86'400'000))
        ->capture_default_str();
    app.add_option("--write-ms", o.write_ms,
                   "close a connection that does not take its echo in this many ms")
        ->check(CLI::Range(1, 86'400'000))
        ->capture_default_str();
    app.add_option("--seconds", o.seconds, "end after this many seconds, if no signal comes first")
        ->check(CLI::Range(1, 86'400))
        ->capture_default_str();
    app.add_flag("--plain-accept", o.plain_accept,
                 "one request for each connection, as on kernels without multishot accept");
    example::parse_or_exit(app, argc, argv);
    return o;
}

}  // namespace

int main(int argc, char** argv) try {
    server s(parse(argc, argv));
    return s.run();
} catch (const std::exception& e) {
    fmt::print(stderr, "echo_server: {}\n", e.what());
    return 1;
}
