#include "connection.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "../local/printable.hpp"

namespace tvec::durable::redis {

namespace {

// Bytes read in one turn of the loop at most: some thousands of answers. More would make due timers
// late.
constexpr std::size_t part_size = 16'384;

address address_of_file(const std::string& path, const std::string& host) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    if (path.size() >= sizeof name.sun_path)
        throw std::system_error(std::make_error_code(std::errc::filename_too_long),
                                "redis_store: " + path);
    std::memcpy(name.sun_path, path.data(), path.size());
    address a;
    std::memcpy(&a.name, &name, sizeof name);
    a.length = sizeof name;
    a.host = host;
    a.where = path;
    return a;
}

// A server that vanished is noticed after a quarter of a minute.
void set_options(int fd) {
    const auto set = [fd](int level, int name, int value) {
        setsockopt(fd, level, name, &value, sizeof value);  // fails for a socket in the file system
    };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 3);
    set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace

std::vector<address> addresses_of(const redis_options& o) {
    if (!o.socket.empty()) return {address_of_file(o.socket, o.host)};
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = getaddrinfo(o.host.c_str(), std::to_string(o.port).c_str(), &hints, &found);
    if (error != 0)
        throw std::system_error(std::make_error_code(std::errc::host_unreachable),
                                "redis_store: " + o.host + ": " + gai_strerror(error));
    std::vector<address> all;
    for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
        all.emplace_back();
        std::memcpy(&all.back().name, a->ai_addr, a->ai_addrlen);
        all.back().length = a->ai_addrlen;
        all.back().host = o.host;
        all.back().where = o.host + ':' + std::to_string(o.port);
    }
    freeaddrinfo(found);
    return all;
}

connection::connection(int epoll, const redis_options& o, listener l)
    : epoll_(epoll), options_(o), listener_(std::move(l)) {}

// A forked child shares the epoll set, and leaves it as it is.
connection::~connection() {
    if (fd_ >= 0) ::close(fd_);
}

int connection::open(const address& to) {
    assert(is_closed() && "an open connection is closed before it is opened again");
    fd_ = socket(to.name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd_ < 0) return errno;
    set_options(fd_);
    const int result = connect(fd_, reinterpret_cast<const sockaddr*>(&to.name), to.length);
    const int error = result == 0 || errno == EINPROGRESS ? 0 : errno;
    if (error != 0) {
        close();
        return error;
    }
    reader_.reset(redisReaderCreate());
    host_ = to.host;
    watch(EPOLLIN | EPOLLOUT);
    return 0;
}

void connection::close() {
    if (watched_ != 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, fd_, nullptr);  // a child may have a copy
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
    watched_ = 0;
    is_connected_ = is_open_ = was_full_ = false;
    said_.clear();
    raw_.clear();
    sent_ = 0;
    tls_.reset();
    reader_.reset();
}

void connection::lose(trouble why) {
    close();
    listener_.lost(std::move(why));
}

void connection::hear() const {
    if (listener_.heard) listener_.heard();
}

void connection::watch(std::uint32_t events) {
    assert(!is_closed() && "only an open connection is watched");
    if (events == watched_) return;
    epoll_event e{};
    e.events = events;
    e.data.fd = fd_;
    epoll_ctl(epoll_, watched_ == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd_, &e);
    watched_ = events;
}

void connection::send(std::string_view bytes) {
    if (is_closed()) return;
    said_ += bytes;
    watch(EPOLLIN | EPOLLOUT);
}

void connection::on_ready(std::uint32_t events) {
    if (!is_connected_) on_connected();
    if (!is_closed() && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive();
    if (!is_closed()) flush();
}

void connection::on_connected() {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return lose(trouble(error));
    is_connected_ = true;
    if (!options_.tls.on) return say_opened();
    try {
        tls_.emplace(options_.tls, host_);
    } catch (const std::system_error& e) {
        lose({e.code(), e.what()});
    }
}

void connection::say_opened() {
    is_open_ = true;
    listener_.opened();
}

void connection::receive() {
    char part[part_size];
    const ssize_t n = recv(fd_, part, sizeof part, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) return lose(trouble(errno));
    if (n == 0) return lose({std::errc::connection_reset, "the connection was closed"});
    hear();
    decode({part, static_cast<std::size_t>(n)});
}

void connection::decode(std::string_view bytes) {
    if (tls_) {
        plain_.clear();
        const bool is_right = tls_->receive(bytes, plain_);
        if (!is_right) {
            flush();  // sends an alert with the reason
            if (!is_closed()) lose({std::errc::protocol_error, tls_->failure()});
            return;
        }
        if (!is_open_ && tls_->is_established()) say_opened();
        bytes = plain_;
    }
    if (is_closed()) return;
    redisReaderFeed(reader_.get(), bytes.data(), bytes.size());
    show_replies();
}

void connection::show_replies() {
    while (!is_closed()) {
        void* r = nullptr;
        if (redisReaderGetReply(reader_.get(), &r) != REDIS_OK)
            return lose({std::errc::protocol_error,
                         "what answers is no Redis server: " + std::string(reader_->errstr)});
        if (r == nullptr) return;
        reply_ptr reply(static_cast<redisReply*>(r));
        if (reply->type == REDIS_REPLY_ERROR) detail::make_printable(reply->str, reply->len);
        listener_.replied(std::move(reply));
    }
}

// Moves on to the bytes to send next.
bool connection::refill() {
    raw_.clear();
    sent_ = 0;
    if (!tls_) {
        if (is_open_) raw_.swap(said_);
        return true;
    }
    if (is_open_ && !tls_->say(said_)) return false;
    if (is_open_) said_.clear();
    raw_ = tls_->to_send();
    return true;
}

void connection::flush() {
    if (is_closed() || !is_connected_) return;
    while (sent_ < raw_.size() || refill()) {
        if (raw_.empty()) return watch(EPOLLIN);
        const ssize_t n = ::send(fd_, raw_.data() + sent_, raw_.size() - sent_, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            was_full_ = true;
            return watch(EPOLLIN | EPOLLOUT);
        }
        if (n < 0) return lose(trouble(errno == EPIPE ? ECONNRESET : errno));
        sent_ += static_cast<std::size_t>(n);
        assert(sent_ <= raw_.size() && "no more is sent than there is");
        if (std::exchange(was_full_, false)) hear();
    }
    lose({std::errc::protocol_error, tls_->failure()});
}

}  // namespace tvec::durable::redis
