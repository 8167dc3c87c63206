// The common part of the loops: one side of a socket pair sends for a while and falls silent. The
// other side reads, and gives up after a silence. Both have a timer on the wheel that the loop
// drives, and the loop has a descriptor to watch. A third party on another thread, if let in, asks
// now and then whether they are done.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

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
        if (third_.joinable()) third_.join();  // its mailbox is gone, because it was made later
        for (const int side_fd : ends_) ::close(side_fd);
    }
    conversation(const conversation&) = delete;
    conversation& operator=(const conversation&) = delete;

    // The descriptor to watch for reading. Call on_readable when it is readable.
    int fd() const { return ends_[listener]; }

    void on_readable() {
        std::array<char, 64> buffer;
        const ssize_t n = ::read(fd(), buffer.data(), buffer.size());
        if (n <= 0) return;
        heard_ += static_cast<int>(n);
        wait_for_more();  // a push-back: one store, no system call
    }

    // Starts the third party's thread. Once the other two are silent, only its messages wake the
    // loop.
    void let_in(tvec::mailbox_sender<timers> loop) {
        third_ = std::thread([this, loop = std::move(loop)] { ask_until_they_are_done(loop); });
    }

    bool over() const { return done_ && !third_.joinable(); }

    // Returns the exit status: 0 if everything was heard, no answer was early, and the silence was
    // detected neither too early nor much too late (a machine may be busy).
    int verdict(const char* loop) const {
        const auto silence = given_up_ - last_heard_;
        std::printf("%s: heard %d of %d, gave up after %.1f ms of silence", loop, heard_, words,
                    std::chrono::duration<double, std::milli>(silence).count());
        if (asked_ != 0) std::printf("; another thread asked %d times", asked_);
        std::printf("\n");
        const bool in_time = silence >= patience && silence < patience + std::chrono::seconds(5);
        return heard_ == words && in_time && !answered_early_ ? 0 : 1;
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
        done_ = true;
    }

    // On the third party's thread. Posted functions run on the loop's.
    void ask_until_they_are_done(const tvec::mailbox_sender<timers>& loop) try {
        while (!ask(loop)) continue;
        loop.post([this] { third_.join(); });  // the thread only has to return
    } catch (const std::future_error&) {
        // The loop has ended without an answer.
    }

    bool ask(const tvec::mailbox_sender<timers>& loop) {
        std::promise<bool> answer;
        std::future<bool> are_done = answer.get_future();
        const auto due = timers::after(pause);
        loop.schedule_at(due, [this, due, answer = std::move(answer)]() mutable {
            ++asked_;
            answered_early_ |= timers::clock::now() < due;
            answer.set_value(done_);
        });
        return are_done.get();
    }

    timers& timers_;
    std::array<int, 2> ends_{};
    int said_ = 0;
    int heard_ = 0;
    int asked_ = 0;
    bool answered_early_ = false;
    bool done_ = false;
    timers::time_point last_heard_;
    timers::time_point given_up_;
    tvec::timer talk_{tvec::call<&conversation::talk_, &conversation::on_talk>};
    tvec::timer silence_{tvec::call<&conversation::silence_, &conversation::on_silence>};
    std::thread third_;
};

}  // namespace example
