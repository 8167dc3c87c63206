#include "page.hpp"

#include <microhttpd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "../output.hpp"
#include "from_c.hpp"

namespace timers_tool {

namespace {

constexpr std::chrono::seconds patience(3);
constexpr unsigned most_connections = 64;
// libmicrohttpd keeps large requests in part, and reads them in small pieces. So many in one turn
// of the loop leave time for timers.
constexpr int pieces_together = 64;

std::string_view header(MHD_Connection* c, const char* name) {
    const char* const value = MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
    return value == nullptr ? std::string_view{} : std::string_view(value);
}

example::task<int> show_health(output& out, const page::shown_service& of, std::string prefix) {
    auto overdue = of.overdue(std::move(prefix));
    std::string why = co_await std::move(overdue);
    if (why.empty()) why = of.fault();
    if (!why.empty()) throw std::runtime_error(why);
    const std::string warning = of.warning();
    out.text = warning.empty() ? "ok\n" : "ok, but " + warning + '\n';
    co_return 0;
}

}  // namespace

// A request, from its first line to its answer.
struct page::request {
    // The answer to HEAD is that to GET, of which libmicrohttpd sends the head.
    request(MHD_Connection* c, std::string_view m, std::string_view u)
        : connection(c), method(m == "HEAD" ? "GET" : m), url(u) {}

    bool is_done() const { return is_late || !running || running->done(); }
    void on_late() { is_late = true; }

    MHD_Connection* connection;
    const std::string method, url;
    std::list<request>::iterator self;
    output out;
    std::optional<example::task<int>> running;
    tvec::timer limit{tvec::call<&request::limit, &request::on_late>};
    bool is_begun = false, is_suspended = false, is_late = false;
    unsigned status = 200;
    const char* type = "text/plain; charset=utf-8";
};

// The functions that libmicrohttpd calls.
struct page::calls {
    static MHD_Result access(void* of, MHD_Connection* c, const char* url, const char* method,
                             const char*, const char*, std::size_t* size, void** state) {
        return example::from_c(
            MHD_NO, [=] { return go_on(*static_cast<page*>(of), c, url, method, size, state); });
    }

    static MHD_Result go_on(page& p, MHD_Connection* c, const char* url, const char* method,
                            std::size_t* size, void** state) {
        if (*state == nullptr) {
            request& r = p.requests_.emplace_back(c, method, url);
            r.self = std::prev(p.requests_.end());
            *state = &r;
            return MHD_YES;
        }
        request& r = *static_cast<request*>(*state);
        if (*size != 0) {
            *size = 0;  // a body says nothing here
            return MHD_YES;
        }
        return p.answer(r) ? MHD_YES : MHD_NO;
    }

    static void ended(void* of, MHD_Connection*, void** state, MHD_RequestTerminationCode) {
        if (*state == nullptr) return;
        static_cast<page*>(of)->requests_.erase(static_cast<request*>(*state)->self);
        *state = nullptr;
    }

    static void connection(void* of, MHD_Connection* c, void** /*unused*/,
                           MHD_ConnectionNotificationCode what) {
        page& p = *static_cast<page*>(of);
        if (what == MHD_CONNECTION_NOTIFY_STARTED)
            p.connections_.push_back({c, p.loop_.wheel().now()});
        else
            p.connections_.remove_if([c](const link& l) { return l.connection == c; });
    }
};

page::page(loop& in, const std::string& address, shown_service of)
    : loop_(in), service_(std::move(of)), socket_(listen_for_page(address)) {
    daemon_ = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET, 0, nullptr, nullptr,
        &calls::access, this, MHD_OPTION_NOTIFY_COMPLETED, &calls::ended, this,
        MHD_OPTION_NOTIFY_CONNECTION, &calls::connection, this, MHD_OPTION_CONNECTION_LIMIT,
        2 * most_connections, MHD_OPTION_CONNECTION_TIMEOUT, 30U, MHD_OPTION_END);
    if (daemon_ == nullptr)
        throw std::runtime_error("--page " + address + ": libmicrohttpd failed");
    epoll_ = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    loop_.watch(epoll_, EPOLLIN, [this](auto) { has_work_ = true; });
    acceptor_.emplace(
        loop_, listener_.get(), [this](int fd) { take(fd); },
        [this] {  // the socket beside a file needs a descriptor as well
            return connections_.size() >= most_connections || !has_descriptors(listener_.get());
        },
        [this] { return make_room(); });
}

page::~page() {
    loop_.forget(epoll_);
    for (request& r : requests_) {
        r.running.reset();
        if (std::exchange(r.is_suspended, false)) MHD_resume_connection(r.connection);
    }
    MHD_stop_daemon(daemon_);
    if (!socket_.path.empty()) unlink(socket_.path.c_str());
}

void page::take(int fd) {
    const sockaddr_storage unknown{};
    MHD_add_connection(daemon_, fd, reinterpret_cast<const sockaddr*>(&unknown), sizeof unknown);
    has_work_ = true;
}

// Closes the oldest connection whose request is not whole, that waits for the next one, or that
// does not read, if it has had its time.
bool page::make_room() {
    const auto is_half = [this](const link& l) {
        return std::ranges::none_of(requests_, [&l](const request& r) {
            return r.connection == l.connection && r.is_suspended;
        });
    };
    const auto half = std::ranges::find_if(connections_, is_half);
    if (half == connections_.end() || loop_.wheel().now() - half->since < acceptor::grace)
        return false;
    const auto* const info =
        MHD_get_connection_info(half->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    shutdown(info->connect_fd, SHUT_RDWR);
    connections_.erase(half);
    has_work_ = true;
    return true;
}

void page::run() {
    for (request& r : requests_)
        if (r.is_suspended && r.is_done()) {
            r.is_suspended = false;
            has_work_ = true;
            MHD_resume_connection(r.connection);
        }
    if (!std::exchange(has_work_, false)) return;
    MHD_UNSIGNED_LONG_LONG ms = 0;
    bool is_waiting = true;
    for (int i = 0; i < pieces_together && ms == 0 && is_waiting; ++i) {
        MHD_run(daemon_);
        is_waiting = MHD_get_timeout(daemon_, &ms) == MHD_YES;
    }
    const auto pause = std::chrono::milliseconds(std::min<MHD_UNSIGNED_LONG_LONG>(ms, 1'000));
    if (is_waiting) loop_.wheel().arm_after(idle_, pause);
}

bool page::answer(request& r) {
    if (!std::exchange(r.is_begun, true)) {
        begin(r);
        if (r.running) r.running->start();
        if (!r.is_done()) {
            loop_.wheel().arm_after(r.limit, patience);
            r.is_suspended = true;
            MHD_suspend_connection(r.connection);
            return true;
        }
    }
    finish(r);
    MHD_Response* const response = MHD_create_response_from_buffer(
        r.out.text.size(), r.out.text.data(), MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(response, "Content-Type", r.type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    const MHD_Result queued = MHD_queue_response(r.connection, r.status, response);
    MHD_destroy_response(response);
    return queued == MHD_YES;
}

// Refuses a request: with words for people.
void page::refuse(request& r, unsigned status, const std::string& why) {
    r.status = status;
    r.out.text = why + "\n";
}

// Another site can have a browser ask for this address under a name of its own, and read the
// answer. Returns the fault of such a request, or "". A port says nothing: it may be forwarded.
std::string page::fault_of_host(const request& r) const {
    const std::string_view host = header(r.connection, "Host");
    const auto digits = host.find_last_not_of("0123456789");  // of a port, if there is one
    const bool has_port = digits != host.npos && host[digits] == ':';
    const std::string_view name = has_port ? host.substr(0, digits) : host;
    const bool is_here = name == "127.0.0.1" || name == "localhost" || name == "[::1]";
    return is_here || !socket_.path.empty() ? "" : "the Host is not this page";
}

void page::begin(request& r) {
    if (const std::string why = fault_of_host(r); !why.empty()) return refuse(r, 403, why);
    if (r.method != "GET") return refuse(r, 405, "this page changes nothing: use GET");
    if (r.url == "/health") return begin_health(r);
    if (r.url != "/metrics") return refuse(r, 404, "there is no " + r.url);
    r.type = "text/plain; version=0.0.4";
    r.out.text = service_.metrics();
}

void page::begin_health(request& r) {
    const char* const prefix =
        MHD_lookup_connection_value(r.connection, MHD_GET_ARGUMENT_KIND, "prefix");
    r.running = show_health(r.out, service_, prefix == nullptr ? "" : prefix);
}

// Notes how the question went.
void page::finish(request& r) {
    if (!r.running) return;
    if (!r.running->done()) {
        const std::string why = service_.fault();
        return refuse(r, 503, why.empty() ? "the store does not answer" : why);
    }
    try {
        static_cast<void>(r.running->result());
    } catch (const std::exception& e) {
        refuse(r, 503, e.what());
    }
}

}  // namespace timers_tool
