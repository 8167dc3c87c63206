// A server of HTTP on Boost.Beast, whose timeouts are on a wheel. A session has a tcp::socket in
// the place of the tcp_stream, and two timers: one for silence, which bounds the answer as well,
// and one for a header, from its first byte to its last. Clients that ask are answered, and those
// that are silent or drip a header are closed.
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
#include <optional>
#include <string>
#include <thread>

#include "tvec/guests/asio_guest.hpp"

namespace beast = boost::beast;
namespace http = beast::http;
namespace net = boost::asio;
using net::ip::tcp;
using namespace std::chrono_literals;

namespace {

constexpr auto idle_limit = 600ms, header_limit = 200ms;  // a real server has 30 s and 10 s

// [session]
class session : public std::enable_shared_from_this<session> {
public:
    session(tvec::asio_guest<net::io_context>& timers, tcp::socket socket)
        : timers_(timers), socket_(std::move(socket)) {}

    void read() {
        parser_.emplace();
        parse();  // what has come behind the request before
    }

private:
    void parse() {
        beast::error_code error;
        timers_->arm_after(idle_, idle_limit);  // in the place of stream_.expires_after
        if (buffer_.size() != 0 && !parser_->got_some())
            timers_->arm_after(header_, header_limit);  // once, from its first byte on
        while (!error && buffer_.size() != 0 && !parser_->is_done())
            buffer_.consume(parser_->put(buffer_.data(), error));
        if (parser_->is_header_done()) header_.cancel();
        if (error && error != http::error::need_more) return;  // the session ends
        if (parser_->is_done()) return answer();
        socket_.async_read_some(buffer_.prepare(4096),
                                beast::bind_front_handler(&session::on_read, shared_from_this()));
    }
    void on_read(beast::error_code error, std::size_t n) {
        if (error) return;  // the last who owns the session goes, and its timers are cancelled
        buffer_.commit(n);
        parse();
    }
    void on_limit() { socket_.close(); }  // what is read or written ends with an error
    // [session]

    void answer() {
        const auto& request = parser_->get();
        answer_ = {http::status::ok, request.version(), "hello\n"};
        answer_.keep_alive(request.keep_alive());
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
    std::optional<http::request_parser<http::string_body>> parser_;
    http::response<http::string_body> answer_;
    tvec::timer idle_{tvec::call<&session::idle_, &session::on_limit>};
    tvec::timer header_{tvec::call<&session::header_, &session::on_limit>};
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
    // although the client was never silent for as long as the idle limit.
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
        return silence < idle_limit;
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

// Returns whether a client is answered each time who asks more seldom than the limit of a header,
// and is then silent. One that this machine kept from asking for as long as the idle limit begins
// again.
bool is_answered(tcp::endpoint server) {
    using clock = std::chrono::steady_clock;
    auto last = clock::now();
    client c(server);
    for (int i = 0; i < 4; ++i) {
        std::this_thread::sleep_for(250ms);
        const auto now = clock::now();
        if (!c.asks()) return clock::now() - last > idle_limit && is_answered(server);
        last = now;
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
