// A server of the usual shape: one io_context that several threads run, and each session on a
// strand, as in Beast's examples. Its timers are in the sessions: a push-back takes no lock.
// Clients that talk are answered, and the others are closed.
#include <utility>  // Boost 1.74 forgets it

#include <boost/asio.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <list>
#include <memory>
#include <thread>

#include "asio_clients.hpp"
#include "tvec/guests/asio_shared_timer.hpp"

namespace net = boost::asio;
using net::ip::tcp;
using namespace std::chrono_literals;
using shared_wheel = tvec::asio_shared_wheel<net::io_context>;

namespace {

// [session]
class session : public std::enable_shared_from_this<session> {
public:
    session(tcp::socket socket, shared_wheel& timers)
        : socket_(std::move(socket)),
          idle_(timers, tvec::posted_call<&session::idle_, &session::on_idle>) {}
    auto get_executor() { return socket_.get_executor(); }  // the strand, where it is called
    void read() {
        idle_.arm_after(300ms);  // a push-back: the clock, and one compare-and-swap
        socket_.async_read_some(net::buffer(words_), [self = shared_from_this()](auto e, auto n) {
            if (!e) self->answer(n);
        });
    }
    // [session]

private:
    void answer(std::size_t n) {
        net::async_write(socket_, net::buffer(words_, n),
                         [self = shared_from_this()](auto e, auto) {
                             if (!e) self->read();
                         });
    }
    void on_idle() { socket_.close(); }  // ends the read, and with it the session

    tcp::socket socket_;
    std::array<char, 64> words_{};
    tvec::asio_shared_timer idle_;
};

// Accepts each session on a strand of its own.
void accept(tcp::acceptor& acceptor, net::io_context& io, shared_wheel& timers) {
    acceptor.async_accept(net::make_strand(io), [&](auto error, tcp::socket socket) {
        if (error) return;
        const auto executor = socket.get_executor();
        net::post(executor,
                  [s = std::make_shared<session>(std::move(socket), timers)] { s->read(); });
        accept(acceptor, io, timers);
    });
}

}  // namespace

int main() {
    constexpr int clients = 8;
    net::io_context io(2);
    auto& timers = net::use_service<shared_wheel>(io);  // before there are threads
    tcp::acceptor acceptor(net::make_strand(io), tcp::endpoint(net::ip::address_v4::loopback(), 0));
    accept(acceptor, io, timers);
    const tcp::endpoint server = acceptor.local_endpoint();
    std::list<std::jthread> threads;
    for (int i = 0; i < 2; ++i) threads.emplace_back([&io] { io.run(); });
    const int served = example::clients_served(server, clients);
    net::post(acceptor.get_executor(), [&] { acceptor.close(); });
    threads.clear();  // run() ends when the last session does
    std::printf("asio_shared: served %d of %d clients on two threads\n", served, clients);
    return served == clients ? 0 : 1;
}
