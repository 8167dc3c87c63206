// An echo server on io_uring: one request accepts all connections, and one receives all data of a
// connection into provided buffers. The kernel works only when the loop waits (DEFER_TASKRUN).
// Silent connections are closed, and at the end the server drains. Skipped before Linux 6.0.
#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "../support/ring.hpp"
#include "tvec/clock/stall_watch.hpp"
#include "tvec/drivers/uring_wait.hpp"
#include "tvec/tvec.hpp"

namespace {
using timers = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::turn_clock<>>>;
constexpr std::chrono::milliseconds patience{200}, lifetime{600}, pause{10};

// Buffers of which the kernel takes one when data has arrived, not when the request begins.
class provided_buffers {
public:
    explicit provided_buffers(io_uring& ring) {
        io_uring_buf_reg reg{};
        reg.ring_addr = reinterpret_cast<std::uintptr_t>(ring_);
        reg.ring_entries = count;
        if (io_uring_register_buf_ring(&ring, &reg, 0) != 0) std::exit(77);  // before Linux 5.19
        for (std::uint16_t i = 0; i < count; ++i) give_back(i);
    }
    const char* operator[](unsigned id) const { return buffers_[id].data(); }
    void give_back(std::uint16_t id) {
        io_uring_buf_ring_add(ring_, buffers_[id].data(), size, id, count - 1, 0);
        io_uring_buf_ring_advance(ring_, 1);
    }

private:
    static constexpr unsigned count = 64, size = 4096;
    io_uring_buf_ring* const ring_ = static_cast<io_uring_buf_ring*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::vector<std::array<char, size>> buffers_{count};
};

struct connection {
    int fd = -1;
    bool receiving = true, sending = false;
    std::string unsent, in_flight;
    void give_up() {
        unsent.clear();
        shutdown(fd, SHUT_RDWR);  // which ends the receive, and that the connection
    }
    tvec::timer idle{tvec::call<&connection::idle, &connection::give_up>};
};

class server {
public:
    explicit server(int listener) : listener_(listener) {}
    void run() {
        accept();
        timers_.arm_after(stop_, lifetime);
        while (accepting_ || !connections_.empty()) {
            wait_();  // submits and sleeps, then begins a turn: its calls share a reading
            watch_.listen([this] { return handle_completions(); });
            watch_.run(256);
        }
    }

private:
    enum kind : std::uint64_t { accepted, received, sent, cancelled };
    static std::uint64_t tag(kind k, int fd) { return static_cast<std::uint64_t>(fd) << 2 | k; }

    unsigned handle_completions() {
        unsigned head = 0, n = 0;
        io_uring_cqe* cqe = nullptr;
        io_uring_for_each_cqe(&ring_.get(), head, cqe) handle(*cqe), ++n;
        io_uring_cq_advance(&ring_.get(), n);
        return n;
    }
    void accept() {
        ring_.queue(accepted, io_uring_prep_multishot_accept, listener_, nullptr, nullptr, 0);
    }
    void receive(const connection& c) {
        const auto prepare = [](io_uring_sqe* sqe, int fd) {
            io_uring_prep_recv_multishot(sqe, fd, nullptr, 0, 0);
            sqe->flags |= IOSQE_BUFFER_SELECT;
        };
        ring_.queue(tag(received, c.fd), prepare, c.fd);
    }
    void handle(const io_uring_cqe& cqe) {
        const auto k = static_cast<kind>(cqe.user_data & 3);
        const bool more = (cqe.flags & IORING_CQE_F_MORE) != 0;
        if (k == accepted) return on_accepted(cqe.res, more);
        if (k == cancelled) return;
        connection& c = connections_.at(static_cast<int>(cqe.user_data >> 2));
        if (k == received) on_received(c, cqe, more);
        if (k == sent) c.sending = false;
        if (cqe.res < 0 && cqe.res != -ENOBUFS) c.give_up();
        if (!c.sending && !c.unsent.empty()) {
            c.in_flight = std::exchange(c.unsent, {});
            c.sending = true;
            ring_.queue(tag(sent, c.fd), io_uring_prep_send, c.fd, c.in_flight.data(),
                        c.in_flight.size(), MSG_WAITALL | MSG_NOSIGNAL);
        }
        if (c.sending || c.receiving) return;
        close(c.fd);  // no request of it is in flight: its number may come again
        connections_.erase(c.fd);
    }
    void on_accepted(int result, bool more) {
        if (result >= 0) {
            connection& c = connections_[result];
            c.fd = result;
            timers_.arm_after(c.idle, patience);
            receive(c);
            if (draining_) shutdown(c.fd, SHUT_RD);
        }
        if (!more && !draining_) accept();  // an error, or too many completions at a time
        accepting_ = more || !draining_;
    }
    void on_received(connection& c, const io_uring_cqe& cqe, bool more) {
        if ((cqe.flags & IORING_CQE_F_BUFFER) != 0) {
            const auto id = static_cast<std::uint16_t>(cqe.flags >> IORING_CQE_BUFFER_SHIFT);
            c.unsent.append(buffers_[id], static_cast<std::size_t>(cqe.res));
            buffers_.give_back(id);
            timers_.arm_after(c.idle, patience);
        }
        if (cqe.res == -EINVAL) std::exit(77);                     // before Linux 6.0
        c.receiving = more || cqe.res > 0 || cqe.res == -ENOBUFS;  // which was short: not now
        if (c.receiving && !more) receive(c);
    }
    // Accepts no more, and answers what has arrived. Idle timeouts bound how long that takes.
    void on_stop() {
        draining_ = true;
        ring_.queue(cancelled, io_uring_prep_cancel64, std::uint64_t{accepted}, 0);
        for (auto& [fd, c] : connections_) shutdown(fd, SHUT_RD);
    }

    int listener_;
    bool accepting_ = true, draining_ = false;
    timers timers_;
    example::ring ring_{64};
    provided_buffers buffers_{ring_.get()};
    tvec::uring_wait<timers> wait_{ring_.get(), timers_};
    tvec::stall_watch<timers> watch_{timers_};
    std::map<int, connection> connections_;
    tvec::timer stop_{tvec::call<&server::stop_, &server::on_stop>};
};

// Talks `times` times, then waits for the end. Returns how often it was answered.
int talk(sockaddr_in to, int times) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    std::array<char, 2000> said{}, heard{};
    int answered = connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0 ? 0 : -1;
    for (; answered >= 0 && answered < times; ++answered, std::this_thread::sleep_for(pause)) {
        said.fill(static_cast<char>(answered));
        if (send(fd, said.data(), said.size(), MSG_NOSIGNAL) != 2000) break;
        if (recv(fd, heard.data(), heard.size(), MSG_WAITALL) != 2000 || heard != said) break;
    }
    while (recv(fd, heard.data(), heard.size(), 0) > 0) continue;
    close(fd);
    return answered;
}

}  // namespace
int main() {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const a = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (bind(listener, a, size) != 0 || listen(listener, 64) != 0) return 1;
    if (getsockname(listener, a, &size) != 0) return 1;
    std::vector<std::future<int>> clients;
    for (const int times : {0, 1, 2, 5, 1'000})  // the last still talks when the server stops
        clients.push_back(std::async(std::launch::async, talk, address, times));
    server(listener).run();
    std::vector<int> answers;
    for (auto& c : clients) answers.push_back(c.get());
    std::printf("reactor: the last client was answered %d times\n", answers.back());
    return answers == std::vector{0, 1, 2, 5, answers.back()} && answers.back() > 0 ? 0 : 1;
}
