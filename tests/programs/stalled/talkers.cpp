// A hundred clients talk five times a second, twenty say nothing, and one word blocks the server's
// loop for longer than its idle timeout. It must close the silent, and nobody who talked. A client
// that this machine kept from talking counts as neither.
#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "serve.h"

namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

void need(bool done, const char* what) {
    if (done) return;
    std::perror(what);
    std::exit(1);
}

sockaddr_in address_of(int listener) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    need(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0, "getsockname");
    return address;
}

int listen_here() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
    need(listen(fd, 256) == 0, "listen");
    return fd;
}

class client {
public:
    explicit client(sockaddr_in to) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        need(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0, "connect");
        last_ = steady_clock::now();  // before it talks, the server waits as well
    }
    client(client&& other) noexcept = default;

    // Words are in the server's socket when this returns.
    void say(char what) {
        look();
        if (is_closed_ || send(fd_, &what, 1, MSG_NOSIGNAL) != 1) return;
        ++words_;
        const auto now = steady_clock::now();
        longest_silence_ = std::max(longest_silence_, now - last_);
        last_ = now;
    }
    void look() {
        char c = 0;
        if (is_closed_) return;
        const ssize_t n = recv(fd_, &c, 1, MSG_DONTWAIT);
        if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
        is_closed_ = true;
        longest_silence_ = std::max(longest_silence_, steady_clock::now() - last_);
    }
    bool is_closed() const { return is_closed_; }
    bool was_kept_from_talking() const {
        return longest_silence_ >= std::chrono::milliseconds(idle_ms);
    }
    int words() const { return words_; }

private:
    int fd_;
    bool is_closed_ = false;
    int words_ = 0;
    steady_clock::time_point last_;
    steady_clock::duration longest_silence_{};
};

// All talk, a fifth of a second apart, until each that is open has said so many words more.
void talk(std::vector<client>& clients, int words) {
    for (int i = 0; i < words; ++i, std::this_thread::sleep_for(200ms))
        for (client& c : clients) c.say(word);
}

int judge(const std::vector<client>& talkers, std::size_t silent) {
    const auto is_unfair = [](const client& c) {
        return c.is_closed() && !c.was_kept_from_talking();
    };
    const auto was_kept = [](const client& c) { return c.was_kept_from_talking(); };
    const auto unfair = std::ranges::count_if(talkers, is_unfair);
    std::printf("closed %td of %zu who talked (%td could not talk in time), and all %zu silent\n",
                unfair, talkers.size(), std::ranges::count_if(talkers, was_kept), silent);
    return unfair == 0 ? 0 : 1;
}

}  // namespace

int main() {
    io_uring probe{};
    if (io_uring_queue_init(4, &probe, 0) < 0) return 77;  // no io_uring here
    io_uring_queue_exit(&probe);
    const int listener = listen_here();
    const sockaddr_in address = address_of(listener);
    std::thread server(serve, listener);
    std::vector<client> talkers, silent;
    for (int i = 0; i < 100; ++i) talkers.emplace_back(address);
    for (int i = 0; i < 20; ++i) silent.emplace_back(address);
    talk(talkers, 3);
    talkers.front().say(block);
    talk(talkers, 15);
    const auto is_closed = [](client& c) { return c.look(), c.is_closed(); };
    while (!std::ranges::all_of(silent, is_closed)) talk(talkers, 1);
    for (client& c : talkers) c.look();
    const int verdict = judge(talkers, silent.size());
    client(address).say(end);
    server.join();
    return verdict;
}
