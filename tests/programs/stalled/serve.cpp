// The loop of README.md, with an idle timeout for each client.
#include "serve.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <list>

#include "../../../examples/support/ring.hpp"
#include "tvec/clock/stall_watch.hpp"
#include "tvec/drivers/uring_wait.hpp"

namespace {

using namespace std::chrono_literals;

struct client {
    explicit client(int socket) : fd(socket) {}
    ~client() { close(fd); }
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    void on_silence() { shutdown(fd, SHUT_RDWR); }  // its receive completes

    int fd;
    std::array<char, 64> said{};
    std::list<client>::iterator place{};
    tvec::timer silence{tvec::call<&client::silence, &client::on_silence>};
};

class server {
public:
    explicit server(int listener) : listener_(listener) {}

    void run() {
        accept();
        tvec::uring_wait wait(ring_.get(), timers_);
        tvec::stall_watch watch(timers_);
        const auto handle = [this](std::uint64_t tag, int result, bool) { complete(tag, result); };
        while (!over_) {
            wait();
            watch.listen([&] { return ring_.reap(handle); });
            watch.run(256);
        }
    }

private:
    void accept() { ring_.queue(0, io_uring_prep_accept, listener_, nullptr, nullptr, 0); }
    void receive(client& c) {
        ring_.queue(reinterpret_cast<std::uintptr_t>(&c), io_uring_prep_recv, c.fd, c.said.data(),
                    c.said.size(), 0);
    }
    void complete(std::uint64_t tag, int result) {
        if (tag != 0) return on_said(*reinterpret_cast<client*>(tag), result);
        if (result >= 0) {
            client& c = clients_.emplace_back(result);
            c.place = std::prev(clients_.end());
            timers_.arm_after(c.silence, std::chrono::milliseconds(idle_ms));
            receive(c);
        }
        accept();
    }
    void on_said(client& c, int n) {
        if (n <= 0) {
            clients_.erase(c.place);
            return;
        }
        timers_.arm_after(c.silence, std::chrono::milliseconds(idle_ms));
        for (int i = 0; i < n; ++i) {
            const char said = c.said[static_cast<unsigned>(i)];
            if (said == block) usleep(blocked_ms * 1000);
            over_ |= said == end;
        }
        receive(c);
    }

    int listener_;
    bool over_ = false;
    tvec::clocked_wheel<> timers_;
    example::ring ring_{1024};
    std::list<client> clients_;
};

}  // namespace

void serve(int listener) { server(listener).run(); }
