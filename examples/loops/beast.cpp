// A server of HTTP on Boost.Beast, whose timeouts are on a wheel. A session has a tcp::socket in
// the place of the tcp_stream, and one timer, which bounds a request from the silence before it to
// the last byte of its answer. Clients that ask are answered, and the others are closed.
#include <utility>  // Boost 1.74 forgets it

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "tvec/guests/asio_guest.hpp"

namespace beast = boost::beast;
namespace http = beast::http;
namespace net = boost::asio;
using net::ip::tcp;
using namespace std::chrono_literals;

namespace {

constexpr auto limit = 300ms;  // a real server has 30 s

// [session]
class session : public std::enable_shared_from_this<session> {
public:
    session(tvec::asio_guest<net::io_context>& timers, tcp::socket socket)
        : timers_(timers), socket_(std::move(socket)) {}

    void read() {
        request_ = {};
        timers_->arm_after(limit_, limit);  // in the place of stream_.expires_after
        http::async_read(socket_, buffer_, request_,
                         beast::bind_front_handler(&session::on_read, shared_from_this()));
    }

private:
    void on_limit() { socket_.close(); }  // what is read or written ends with an error
    // [session]

    void on_read(beast::error_code error, std::size_t) {
        if (error) return;  // the last who owns the session goes: its timer is cancelled
        answer_ = {http::status::ok, request_.version(), "hello\n"};
        answer_.keep_alive(request_.keep_alive());
        answer_.prepare_payload();
        http::async_write(socket_, answer_,
                          beast::bind_front_handler(&session::on_write, shared_from_this()));
    }
    void on_write(beast::error_code error, std::size_t) {
        if (!error && answer_.keep_alive()) read();
    }

    tvec::asio_guest<net::io_context>& timers_;
    tcp::socket socket_;
    beast::flat_buffer buffer_;
    http::request<http::string_body> request_;
    http::response<http::string_body> answer_;
    tvec::timer limit_{tvec::call<&session::limit_, &session::on_limit>};
};

void accept(tcp::acceptor& acceptor, tvec::asio_guest<net::io_context>& timers) {
    acceptor.async_accept([&](auto error, tcp::socket socket) {
        if (error) return;
        std::make_shared<session>(timers, std::move(socket))->read();
        accept(acceptor, timers);
    });
}

// --- clients -------------------------------------------------------------------------------------

class client {
public:
    explicit client(tcp::endpoint server) { socket_.connect(server); }

    // Returns whether it was answered.
    bool asks() {
        std::string answer(256, ' ');
        beast::error_code error;
        net::write(socket_, net::buffer(std::string("GET / HTTP/1.1\r\n\r\n")), error);
        if (!error) answer.resize(socket_.read_some(net::buffer(answer), error));
        return !error && answer.starts_with("HTTP/1.1 200 OK");
    }
    // Sends a byte of a header now and then, until the server has closed. Returns whether it did so
    // although the client was never silent for as long as the limit.
    bool is_cut_off() {
        using clock = std::chrono::steady_clock;
        clock::duration silence{};
        beast::error_code error;
        net::write(socket_, net::buffer(std::string("GET / HTTP/1.1\r\nX: ")), error);
        for (auto last = clock::now(); !error;) {
            std::this_thread::sleep_for(20ms);
            net::write(socket_, net::buffer("x", 1), error);
            const auto now = clock::now();
            silence = std::max(silence, now - std::exchange(last, now));
        }
        return silence < limit;
    }
    // Returns whether the server closed.
    bool hears_the_end() {
        char more = 0;
        beast::error_code error;
        socket_.read_some(net::buffer(&more, 1), error);
        return error == net::error::eof;
    }

private:
    net::io_context io_;
    tcp::socket socket_{io_};
};

// Returns whether a client who asks every 50 ms is answered each time. One that this machine kept
// from asking for as long as the limit begins again.
bool is_answered(tcp::endpoint server) {
    client c(server);
    auto last = std::chrono::steady_clock::now();
    for (int i = 0; i < 10; ++i) {
        std::this_thread::sleep_for(50ms);
        if (!c.asks())
            return std::chrono::steady_clock::now() - last > limit && is_answered(server);
        last = std::chrono::steady_clock::now();
    }
    return c.hears_the_end();
}

bool are_served(tcp::endpoint server) {
    client silent(server);
    while (!client(server).is_cut_off()) continue;  // this machine kept it silent
    return is_answered(server) && silent.hears_the_end();
}

}  // namespace

int main() {
    net::io_context io;
    tvec::asio_guest timers{io};
    tcp::acceptor acceptor(io, {net::ip::address_v4::loopback(), 0});
    const tcp::endpoint server = acceptor.local_endpoint();
    accept(acceptor, timers);
    bool served = false;
    std::thread clients([&] {
        served = are_served(server);
        net::post(io, [&] { io.stop(); });
    });
    io.run();
    clients.join();
    std::printf("beast: %s\n", served ? "served" : "did not serve as it should");
    return served ? 0 : 1;
}
