// HTTP for monitors: /metrics and /health.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "../../../examples/support/task.hpp"
#include "acceptor.hpp"
#include "loop.hpp"
#include "page_socket.hpp"

struct MHD_Daemon;
struct MHD_Connection;

namespace timers_tool {

// A server on a loopback address or a Unix socket. It answers:
//  * GET /metrics, the text format of Prometheus
//  * GET /health: 200, or 503 and the reason. With ?prefix= it asks for timers of that prefix
class page {
public:
    // The service as the page shows it.
    struct shown_service {
        std::function<std::string()> metrics;
        // Returns why it does not deliver, whatever the store has, or "".
        std::function<std::string()> fault;
        // Answers the fault that a timer with the prefix is overdue, with its reason, or "".
        std::function<example::task<std::string>(std::string prefix)> overdue;
        std::function<std::string()> warning;  // what the store warns of, or ""
    };

    // Throws std::runtime_error if the address is not 127.0.0.1:PORT, [::1]:PORT or a path.
    page(loop& in, const std::string& address, shown_service of);
    page(const page&) = delete;
    page& operator=(const page&) = delete;
    ~page();

    // Returns the address to look at.
    const std::string& address() const { return socket_.address; }

    // Answers what is ready. Call it in each turn of the loop.
    void run();

private:
    struct request;
    struct calls;  // of libmicrohttpd

    void take(int fd);
    bool make_room();
    bool answer(request& r);
    void begin(request& r);
    void begin_health(request& r);
    void finish(request& r);
    std::string fault_of_host(const request& r) const;
    static void refuse(request& r, unsigned status, const std::string& why);
    void on_idle() { has_work_ = true; }  // libmicrohttpd asked for it

    loop& loop_;
    const shown_service service_;
    const page_socket socket_;
    const example::descriptor listener_{socket_.fd};
    struct link {
        MHD_Connection* connection;
        std::chrono::steady_clock::time_point since;
    };
    std::list<link> connections_;  // the oldest first, without those that are being closed
    std::list<request> requests_;
    MHD_Daemon* daemon_ = nullptr;
    int epoll_ = -1;
    bool has_work_ = false;
    std::optional<acceptor> acceptor_;
    tvec::timer idle_{tvec::call<&page::idle_, &page::on_idle>};
};

}  // namespace timers_tool
