// Load for echo_server, on one io_uring and one tvec wheel as well. Most clients talk: they send a
// message, wait for its echo, compare it, think, and send the next. Some are silent, and wait to be
// closed. Some are half open: they send and never read, until the server's writes stall. A client
// that was closed comes back after a while.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "../support/command_line.hpp"
#include "../support/descriptors.hpp"
#include "../support/program.hpp"
#include "../support/ring.hpp"
#include "signals.hpp"
#include "timer_books.hpp"
#include "tvec/clock/stall_watch.hpp"
#include "tvec/drivers/uring_wait.hpp"

namespace {

using example::descriptor;
using example::time_point;
using std::chrono::milliseconds;

struct options {
    std::string address = "127.0.0.1";
    std::uint16_t port = 0;
    unsigned connections = 4000;
    unsigned seconds = 20;
    unsigned think_ms = 500;
    unsigned reply_ms = 10'000;
    double silent = 0.05;
    double half_open = 0.02;
};

struct totals {
    std::uint64_t connected = 0;
    std::uint64_t echoes = 0;
    std::uint64_t wrong_echoes = 0;
    std::uint64_t late_echoes = 0;
    std::uint64_t refused = 0;
    int last_refusal = 0;  // its errno
    std::uint64_t silent_closed = 0;
    std::uint64_t half_open_closed = 0;
    std::uint64_t talkers_closed = 0;
};

enum class manner { talking, silent, half_open };

class load;

// One client. It has at most one request in flight.
class client {
public:
    client(load& home, manner how, std::uint64_t tag) : load_(home), manner_(how), tag_(tag) {}
    ~client();
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    void start(milliseconds delay);
    void complete(int result);
    void shut_down();
    void look_after();

private:
    static constexpr std::uint32_t longest = 1024;  // message, in bytes
    enum class state { away, connecting, sending, receiving };

    void connect();
    void send();
    void receive();
    void connected(int result);
    void sent(int result);
    void received(int result);
    void thrown_out();
    void leave();
    void on_pause_over();
    void on_no_reply();
    void compose();

    load& load_;
    manner manner_;
    std::uint64_t tag_;
    state state_ = state::away;
    descriptor socket_;
    std::uint32_t length_ = 0;
    std::uint32_t done_ = 0;
    tvec::second_chance chance_;
    time_point pause_deadline_;
    time_point reply_deadline_;
    tvec::timer pause_{tvec::call<&client::pause_, &client::on_pause_over>};
    tvec::timer reply_{tvec::call<&client::reply_, &client::on_no_reply>};
    std::array<char, longest> message_;
    std::array<char, longest> echo_;
};

class load {
public:
    explicit load(const options& wanted);

    int run();

    // Used by clients.
    example::ring& ring() { return ring_; }
    example::timer_books& books() { return books_; }
    const tvec::stall_watch<example::timers>& stalls() const { return stalls_; }
    totals& count() { return totals_; }
    const sockaddr_in& server() const { return server_; }
    bool stopping() const { return stopping_; }
    milliseconds reply() const { return milliseconds(options_.reply_ms); }
    milliseconds think() { return milliseconds(below(2 * options_.think_ms + 1)); }
    unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
    void in_flight(int change) { in_flight_ += change; }

private:
    // A client's requests are tagged with its index.
    static constexpr std::uint64_t signalled = ~std::uint64_t{0};

    void populate();
    manner next_manner(unsigned i) const;
    void turn();
    void complete(std::uint64_t tag, int result);
    void stop();
    void on_second();
    void on_end();
    bool served() const;
    int print_summary();

    options options_;
    sockaddr_in server_{};
    std::mt19937 random_{20};  // the same load every time
    example::ring ring_{4096};
    example::timers timers_;
    tvec::uring_wait<example::timers> wait_{ring_.get(), timers_};
    example::timer_books books_{timers_};
    tvec::stall_watch<example::timers> stalls_{timers_, milliseconds(500)};
    totals totals_;
    example::signals signals_;
    time_point started_ = example::timers::clock::now();
    bool interrupted_ = false;
    bool stopping_ = false;
    bool gave_up_ = false;
    int in_flight_ = 0;
    time_point second_deadline_;
    time_point end_deadline_;
    tvec::timer second_{tvec::call<&load::second_, &load::on_second>};
    tvec::timer end_{tvec::call<&load::end_, &load::on_end>};
    std::vector<std::unique_ptr<client>> clients_;
};

client::~client() {
    load_.books().cancel(pause_, pause_deadline_);
    load_.books().cancel(reply_, reply_deadline_);
}

void client::start(milliseconds delay) { load_.books().arm(pause_, pause_deadline_, delay); }

void client::on_pause_over() {
    load_.books().fired(pause_deadline_);
    if (load_.stopping()) return;
    if (state_ == state::away) return connect();
    compose();
    send();
}

void client::connect() {
    socket_ = descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket_.get() < 0) example::fail("cannot make a socket");
    const int small = 4096;  // of a half-open client: it is full soon
    if (manner_ == manner::half_open)
        setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    const int on = 1;
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    state_ = state::connecting;
    load_.in_flight(+1);
    load_.ring().queue(tag_, io_uring_prep_connect, socket_.get(),
                       reinterpret_cast<const sockaddr*>(&load_.server()),
                       socklen_t{sizeof(sockaddr_in)});
}

void client::compose() {
    length_ = 1 + load_.below(longest);
    for (std::uint32_t i = 0; i < length_; ++i)
        message_[i] = static_cast<char>(tag_ * 31 + i + load_.below(2));
    done_ = 0;
    chance_.renew();
    load_.books().arm(reply_, reply_deadline_, load_.reply());
}

void client::send() {
    state_ = state::sending;
    load_.in_flight(+1);
    load_.ring().queue(tag_, io_uring_prep_send, socket_.get(), message_.data() + done_,
                       length_ - done_, MSG_NOSIGNAL);
}

void client::receive() {
    state_ = state::receiving;
    load_.in_flight(+1);
    load_.ring().queue(tag_, io_uring_prep_recv, socket_.get(), echo_.data() + done_,
                       echo_.size() - done_, 0);
}

void client::complete(int result) {
    load_.in_flight(-1);
    switch (state_) {
    case state::away:
        break;
    case state::connecting:
        return connected(result);
    case state::sending:
        return sent(result);
    case state::receiving:
        return received(result);
    }
}

void client::connected(int result) {
    if (result < 0) {
        ++load_.count().refused;
        load_.count().last_refusal = -result;
        return leave();
    }
    ++load_.count().connected;
    done_ = 0;
    if (load_.stopping()) return leave();
    if (manner_ == manner::silent) return receive();
    compose();
    send();
}

void client::sent(int result) {
    if (result <= 0 || load_.stopping()) return thrown_out();
    done_ += static_cast<std::uint32_t>(result);
    if (done_ < length_) return send();
    if (manner_ == manner::half_open) {  // and on, without ever reading
        done_ = 0;
        length_ = longest;
        return send();
    }
    done_ = 0;
    receive();
}

void client::received(int result) {
    if (result <= 0 || load_.stopping()) return thrown_out();
    done_ += static_cast<std::uint32_t>(result);
    if (done_ < length_) return receive();
    ++load_.count().echoes;
    load_.count().wrong_echoes +=
        done_ != length_ || std::memcmp(message_.data(), echo_.data(), length_) != 0;
    load_.books().cancel(reply_, reply_deadline_);
    load_.books().arm(pause_, pause_deadline_, load_.think());
}

void client::on_no_reply() {
    load_.books().fired(reply_deadline_);
    if (chance_.take(load_.stalls()))
        return load_.books().arm(reply_, reply_deadline_, load_.stalls().grace());
    if (manner_ == manner::talking) ++load_.count().late_echoes;
    shut_down();
}

void client::thrown_out() {
    if (!load_.stopping()) {
        if (manner_ == manner::silent) ++load_.count().silent_closed;
        if (manner_ == manner::half_open) ++load_.count().half_open_closed;
        if (manner_ == manner::talking) ++load_.count().talkers_closed;
    }
    leave();
}

// Closes, and comes back after a while.
void client::leave() {
    socket_ = descriptor();
    state_ = state::away;
    load_.books().cancel(reply_, reply_deadline_);
    if (!load_.stopping()) start(load_.think());
}

// Completes what is in flight; closing the descriptor would not.
void client::shut_down() {
    if (state_ != state::away) ::shutdown(socket_.get(), SHUT_RDWR);
}

void client::look_after() {
    load_.books().look_after(pause_, pause_deadline_);
    load_.books().look_after(reply_, reply_deadline_);
}

load::load(const options& wanted) : options_(wanted) {
    example::require_descriptors(options_.connections + 64);
    server_.sin_family = AF_INET;
    server_.sin_port = htons(options_.port);
    if (inet_pton(AF_INET, options_.address.c_str(), &server_.sin_addr) != 1)
        throw std::runtime_error("not an IPv4 address: " + options_.address);
    signals_.watch(ring_, signalled);
    populate();
    books_.arm(second_, second_deadline_, std::chrono::seconds(1));
    books_.arm(end_, end_deadline_, std::chrono::seconds(options_.seconds));
}

// Everybody arrives within the first second.
void load::populate() {
    for (unsigned i = 0; i < options_.connections; ++i) {
        clients_.push_back(std::make_unique<client>(*this, next_manner(i), i));
        clients_.back()->start(milliseconds(below(1000)));
    }
}

manner load::next_manner(unsigned i) const {
    const double share = (i + 0.5) / options_.connections;
    if (share < options_.silent) return manner::silent;
    return share < options_.silent + options_.half_open ? manner::half_open : manner::talking;
}

int load::run() {
    while (!stopping_ || (in_flight_ > 0 && !gave_up_)) turn();
    books_.cancel(second_, second_deadline_);
    books_.cancel(end_, end_deadline_);
    for (const auto& c : clients_) c->look_after();
    books_.drain();
    return print_summary();
}

void load::turn() {
    wait_();
    stalls_.listen([this] {
        return ring_.reap([this](std::uint64_t tag, int result, bool) { complete(tag, result); });
    });
    stalls_.run(256);
}

void load::complete(std::uint64_t tag, int result) {
    if (tag != signalled) return clients_[tag]->complete(result);
    interrupted_ = true;
    stop();
}

void load::stop() {
    if (stopping_) return;
    stopping_ = true;
    books_.compare();
    for (const auto& c : clients_) c->shut_down();
    books_.arm(end_, end_deadline_, std::chrono::seconds(5));
}

void load::on_second() {
    books_.fired(second_deadline_);
    for (const auto& c : clients_) c->look_after();
    books_.compare();
    books_.arm_next(second_, second_deadline_, std::chrono::seconds(1));
}

void load::on_end() {
    books_.fired(end_deadline_);
    gave_up_ = stopping_;
    stop();
}

// Returns whether all echoes were right, and clients that asked got any.
bool load::served() const {
    const bool asked = next_manner(options_.connections - 1) == manner::talking && !interrupted_;
    const bool answered = totals_.echoes > 0 || !asked;
    return answered && totals_.wrong_echoes == 0 && in_flight_ == 0;
}

int load::print_summary() {
    using example::print_line;
    const std::chrono::duration<double> ran = example::timers::clock::now() - started_;
    fmt::print("\nclient, {:.1f} s, {} connections\n", ran.count(), options_.connections);
    print_line("connected",
               fmt::format("{} times, {} refused", totals_.connected, totals_.refused));
    print_line("echoes", fmt::format("{}, {} wrong, {} too late", totals_.echoes,
                                     totals_.wrong_echoes, totals_.late_echoes));
    print_line("thrown out",
               fmt::format("{} silent, {} half open, {} talking", totals_.silent_closed,
                           totals_.half_open_closed, totals_.talkers_closed));
    print_line("timers",
               fmt::format("{} armed, {} fires, {} early, {} lost, books {}", books_.armed(),
                           books_.late().count(), books_.late().early(), books_.lost(),
                           books_.balanced() ? "balanced" : "NOT BALANCED"));
    if (totals_.connected == 0 && totals_.refused > 0)
        throw std::system_error(
            totals_.last_refusal, std::system_category(),
            fmt::format("cannot connect to {}:{}", options_.address, options_.port));
    return served() && books_.sound() ? 0 : 1;
}

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "Clients for echo_server. Ends after --seconds with a summary; exits non-zero if an "
        "echo was\nwrong, or a timer fired early or was lost.",
        "load_client"};
    line.add_text("--address", o.address, "IPv4 address of the server");
    line.add_number("--port", o.port, 1, 65'535, "port of the server");
    line.add_number("--connections", o.connections, 1, 1'000'000, "clients at a time");
    line.add_number("--seconds", o.seconds, 1, 86'400, "how long to go on, in seconds");
    line.add_number("--think-ms", o.think_ms, 0, 3'600'000,
                    "mean pause between an echo and the next message, in ms; each is "
                    "picked from 0 to twice that");
    line.add_number("--reply-ms", o.reply_ms, 1, 3'600'000,
                    "an echo that takes more ms than this counts as too late");
    line.add_number("--silent", o.silent, 0, 1, "share of clients that never say anything");
    line.add_number("--half-open", o.half_open, 0, 1, "share of clients that send and never read");
    line.require("--port");
    line.add_rule([&o] {
        return o.silent + o.half_open > 1 ? "--silent and --half-open are more than 1 together"
                                          : "";
    });
    line.parse_or_exit(argc, argv);
    return o;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("load_client", [&] {
        load l(parse(argc, argv));
        return l.run();
    });
}
