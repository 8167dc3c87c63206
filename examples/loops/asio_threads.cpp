// A server for several cores: each thread has an io_context with a guest, and each session belongs
// to one of them, so that sessions and timers need no strand and no lock. Clients that talk are
// answered, and the others are closed.
#include <utility>  // Boost 1.74 forgets it

#include <boost/asio.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <list>
#include <memory>
#include <thread>

#include "asio_clients.hpp"
#include "tvec/guests/asio_guest.hpp"

namespace net = boost::asio;
using net::ip::tcp;
using namespace std::chrono_literals;

namespace {

// [worker]
struct worker {
    net::io_context io{1};
    tvec::asio_guest<net::io_context> timers{io};
    decltype(net::make_work_guard(io)) work = net::make_work_guard(io);
    std::jthread thread{[this] { io.run(); }};
};
// [worker]

class session : public std::enable_shared_from_this<session> {
public:
    session(worker& of, tcp::socket socket) : timers_(of.timers), socket_(std::move(socket)) {}
    void read() {
        timers_->arm_after(idle_, 300ms);  // a push-back: one store
        socket_.async_read_some(net::buffer(words_), [self = shared_from_this()](auto e, auto n) {
            if (!e) self->answer(n);
        });
    }

private:
    void answer(std::size_t n) {
        net::async_write(socket_, net::buffer(words_, n),
                         [self = shared_from_this()](auto e, auto) {
                             if (!e) self->read();
                         });
    }
    void on_idle() { socket_.close(); }  // ends the read, and with it the session

    tvec::asio_guest<net::io_context>& timers_;
    tcp::socket socket_;
    std::array<char, 64> words_{};
    tvec::timer idle_{tvec::call<&session::idle_, &session::on_idle>};
};

// Accepts each session into the io_context of the next worker, and begins it on its thread.
void accept(tcp::acceptor& acceptor, std::list<worker>& workers, std::list<worker>::iterator next) {
    acceptor.async_accept(next->io, [&acceptor, &workers, next](auto error, tcp::socket socket) {
        if (error) return;
        net::post(next->io, [&w = *next, s = std::move(socket)]() mutable {
            std::make_shared<session>(w, std::move(s))->read();
        });
        accept(acceptor, workers,
               std::next(next) == workers.end() ? workers.begin() : std::next(next));
    });
}

}  // namespace

int main() {
    int served = 0;
    constexpr int clients = 8;
    {
        std::list<worker> workers(2);
        tcp::acceptor acceptor(workers.front().io,
                               tcp::endpoint(net::ip::address_v4::loopback(), 0));
        accept(acceptor, workers, workers.begin());
        served = example::clients_served(acceptor.local_endpoint(), clients);
        net::post(acceptor.get_executor(), [&] { acceptor.close(); });
        for (worker& w : workers) w.work.reset();  // which lets run() end
        for (worker& w : workers) w.thread.join();
    }
    std::printf("asio_threads: served %d of %d clients on two threads\n", served, clients);
    return served == clients ? 0 : 1;
}
