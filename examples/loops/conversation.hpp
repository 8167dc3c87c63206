// What happens in each of the loops: one side of a socket pair talks a while and falls silent, the
// other waits for it, and gives up when nothing has come for some time. Both sides have a timer, on
// the wheel that the loop is to drive; and the loop has a descriptor of its own to watch.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <system_error>

#include "tvec/tvec.hpp"

namespace example {

using timers = tvec::clocked_wheel<>;  // ticks of one millisecond

class conversation {
public:
    explicit conversation(timers& wheel) : timers_(wheel) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends_.data()) != 0)
            throw std::system_error(errno, std::system_category(), "socketpair");
        timers_.arm_after(talk_, pause);
        wait_for_more();
    }
    ~conversation() {
        for (const int side_fd : ends_) ::close(side_fd);
    }
    conversation(const conversation&) = delete;
    conversation& operator=(const conversation&) = delete;

    // To be watched for reading; then call on_readable.
    int fd() const { return ends_[listener]; }

    void on_readable() {
        std::array<char, 64> buffer;
        const ssize_t n = ::read(fd(), buffer.data(), buffer.size());
        if (n <= 0) return;
        heard_ += static_cast<int>(n);
        wait_for_more();  // a push-back: one store, no system call
    }

    bool over() const { return over_; }

    // What a program returns: 0 if everything was heard, and silence was neither called too early
    // nor much too late (a machine may be busy).
    int verdict(const char* loop) const {
        const auto silence = given_up_ - last_heard_;
        std::printf("%s: heard %d of %d, gave up after %.1f ms of silence\n", loop, heard_, words,
                    std::chrono::duration<double, std::milli>(silence).count());
        const bool in_time = silence >= patience && silence < patience + std::chrono::seconds(5);
        return heard_ == words && in_time ? 0 : 1;
    }

private:
    enum side { talker, listener };
    static constexpr int words = 10;
    static constexpr std::chrono::milliseconds pause{20};
    static constexpr std::chrono::milliseconds patience{500};

    void wait_for_more() {
        last_heard_ = timers::clock::now();
        timers_.arm_after(silence_, patience);
    }

    void on_talk() {
        if (::write(ends_[talker], "!", 1) == 1) ++said_;
        if (said_ < words) timers_.arm_next(talk_, pause);
    }

    void on_silence() {
        given_up_ = timers::clock::now();
        over_ = true;
    }

    timers& timers_;
    std::array<int, 2> ends_{};
    int said_ = 0;
    int heard_ = 0;
    bool over_ = false;
    timers::time_point last_heard_;
    timers::time_point given_up_;
    tvec::timer talk_{tvec::call<&conversation::talk_, &conversation::on_talk>};
    tvec::timer silence_{tvec::call<&conversation::silence_, &conversation::on_silence>};
};

}  // namespace example
