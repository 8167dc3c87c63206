// The common part of the loops: one side sends for a while and falls silent. The other side
// listens, and gives up after a silence. Both have a timer on the wheel that the loop drives.
// Between them is a socket pair, and the loop watches its descriptor, or else the loop's own
// events. A third party on another thread, if let in, asks now and then whether they are done.
#pragma once

#ifdef TVEC_CONVERSATION
#include TVEC_CONVERSATION  // tests put the loops under load
#else

#ifndef _WIN32
#include <sys/socket.h>
#include <unistd.h>
#endif

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "tvec/tvec.hpp"

namespace example {

using timers = tvec::clocked_wheel<>;  // ticks of one millisecond

class conversation {
public:
    // `say` sends a word, which becomes an event of the loop. Call on_words then.
    conversation(timers& wheel, std::function<bool()> say) : timers_(wheel), say_(std::move(say)) {
        timers_.arm_after(talk_, pause);
        wait_for_more();
    }
    ~conversation() {
        if (third_.joinable()) third_.join();  // its mailbox is gone, because it was made later
#ifndef _WIN32
        for (const int side_fd : ends_) ::close(side_fd);
#endif
    }
    conversation(const conversation&) = delete;
    conversation& operator=(const conversation&) = delete;

    void on_words(int n) {
        heard_ += n;
        wait_for_more();  // a push-back: one store, no system call
    }

#ifndef _WIN32
    explicit conversation(timers& wheel)
        : conversation(wheel, [this] { return ::send(ends_[0], "!", 1, 0) == 1; }) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()) != 0)
            throw std::system_error(errno, std::system_category(), "socketpair");
    }

    // The descriptor to watch for reading. Call on_readable when it is readable.
    int fd() const { return ends_[1]; }

    void on_readable() {
        std::array<char, 64> buffer;
        const ssize_t n = ::recv(fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (n > 0) on_words(static_cast<int>(n));
    }
#endif

    // Starts the third party's thread. Once the other two are silent, only its messages wake the
    // loop.
    void let_in(tvec::mailbox_sender<timers> loop) {
        third_ = std::thread([this, loop = std::move(loop)] { ask_until_they_are_done(loop); });
    }

    bool over() const { return done_ && !third_.joinable(); }
    // Calls `f` as soon as it is over, for a loop that is not asked in each turn.
    void when_over(std::function<void()> f) { when_over_ = std::move(f); }

    // Returns the exit status: 0 if everything was heard, no answer was early, and the silence was
    // detected neither too early nor much too late (a machine may be busy).
    int verdict(const char* loop) const {
        const auto silence = given_up_ - last_heard_;
        using milliseconds = std::chrono::duration<double, std::milli>;
        std::printf("%s: heard %d of %d, gave up after %.1f ms of silence, woke %.2f ms late", loop,
                    heard_, words, milliseconds(silence).count(),
                    milliseconds(late_.quantile(0.5)).count());
        if (asked_ != 0) std::printf("; another thread asked %d times", asked_);
        std::printf("\n");
        const bool in_time = silence >= patience && silence < patience + std::chrono::seconds(5);
        return heard_ == words && in_time && !answered_early_ ? 0 : 1;
    }

private:
    static constexpr int words = 10;
    static constexpr std::chrono::milliseconds pause{20};
    static constexpr std::chrono::milliseconds patience{500};

    void wait_for_more() {
        last_heard_ = timers::clock::now();
        timers_.arm_after(silence_, patience);
    }

    void on_talk() {
        late_.record(timers_.now() - timers_.deadline(talk_));
        if (say_()) ++said_;
        if (said_ < words) timers_.arm_next(talk_, pause);
    }

    void on_silence() {
        given_up_ = timers::clock::now();
        done_ = true;
        if (over() && when_over_) when_over_();
    }

    // On the third party's thread. Posted functions run on the loop's.
    void ask_until_they_are_done(const tvec::mailbox_sender<timers>& loop) try {
        while (!ask(loop)) continue;
        (void)loop.post([this] {
            third_.join();  // the thread only has to return
            if (when_over_) when_over_();
        });
    } catch (const std::future_error&) {
        // The loop has ended without an answer.
    }

    bool ask(const tvec::mailbox_sender<timers>& loop) {
        std::promise<bool> answer;
        std::future<bool> are_done = answer.get_future();
        const auto due = timers::after(pause);
        (void)loop.schedule_at(due, [this, due, answer = std::move(answer)]() mutable {
            ++asked_;
            answered_early_ |= timers::clock::now() < due;
            answer.set_value(done_);
        });
        return are_done.get();
    }

    timers& timers_;
    std::array<int, 2> ends_{-1, -1};
    std::function<bool()> say_;
    std::function<void()> when_over_;
    int said_ = 0;
    int heard_ = 0;
    int asked_ = 0;
    tvec::lateness_histogram late_;  // how much the loop overslept
    bool answered_early_ = false;
    bool done_ = false;
    timers::time_point last_heard_;
    timers::time_point given_up_;
    tvec::timer talk_{tvec::call<&conversation::talk_, &conversation::on_talk>};
    tvec::timer silence_{tvec::call<&conversation::silence_, &conversation::on_silence>};
    std::thread third_;
};

}  // namespace example

#endif
