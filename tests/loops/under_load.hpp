// A conversation for the programs of examples/loops that puts their loop under load, in the place
// of examples/loops/conversation.hpp: a peer that never stops talking, a function that posts
// itself, a mailbox alone, a stall, a thousand signals a second, and nothing at all.
//
// A loop fails if the wheel's timer waits for more than a turn of other events, if the loop turns
// or computes while nothing happens, or if it judges a peer before it has heard it. A timer of the
// host beats beside the wheel's. No time is judged by itself: a loop is given up when the host's
// timer has rung for long and the wheel's has not. TVEC_LOAD_BEATS and TVEC_LOAD_IDLE_MS lengthen a
// run. TVEC_LOAD_FAIR says that the loop has a stall_watch.
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tvec/tvec.hpp"

namespace example {

using timers = tvec::clocked_wheel<>;

class conversation {
public:
    explicit conversation(timers& wheel) : timers_(wheel) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()) != 0)
            throw std::system_error(errno, std::system_category(), "socketpair");
        timers_.arm_after(next_, std::chrono::milliseconds(0));
        host_ = std::thread([this] { beat_beside(); });
    }
    ~conversation() {
        for (const int side_fd : ends_) ::close(side_fd);
    }
    conversation(const conversation&) = delete;
    conversation& operator=(const conversation&) = delete;

    // --- what the loops call
    // -----------------------------------------------------------------------

    int fd() const { return ends_[1]; }
    void let_in(tvec::mailbox_sender<timers> loop) { loop_.emplace(std::move(loop)); }
    // Calls `f` when it is over, for a loop that is not asked in each turn.
    void when_over(std::function<void()> f) { when_over_ = std::move(f); }
    bool over() {
        ++turns_;
        return phase_ == phase::over;
    }
    void on_readable() {
        char word = 0;
        if (::recv(fd(), &word, 1, MSG_DONTWAIT) != 1) return;
        note_event();
        if (phase_ == phase::chat) say();
        if (phase_ != phase::stall) return;
        if (unheard_-- == 2) {
            timers_.arm_after(judge_, std::chrono::milliseconds(patience_ms));
            usleep(patience_ms * 2 * 1000);  // the peer's next word has come already
        } else {
            judge_.cancel();
            finish();
        }
    }
    int verdict(const char* loop) {
        host_.join();
        if (faults_ == 0) std::printf("%s: keeps up under load\n", loop);
        return faults_ == 0 ? 0 : 1;
    }

private:
    enum class phase { before, chat, posts, mail, stall, signals, idle, over };
    using clock = timers::clock;
    static constexpr std::chrono::milliseconds period{20};
    static constexpr int patience_ms = 150;
    // Events that a loop may handle between the deadline of a timer and its callback: a turn's.
    static constexpr std::size_t turn_of_events = 300;

    static int setting(const char* name, int otherwise) {
        const char* const value = std::getenv(name);
        return value ? std::atoi(value) : otherwise;
    }
    static const char* name_of(phase p) {
        constexpr std::array names{"before", "chat",    "posts", "mail",
                                   "stall",  "signals", "idle",  "over"};
        return names[static_cast<std::size_t>(p)];
    }

    void fail(const char* what, double found, double limit) {
        std::printf("%s: %s: %.0f, at most %.0f are right\n", name_of(phase_), what, found, limit);
        ++faults_;
    }
    void limit(const char* what, double found, double most) {
        if (found > most) fail(what, found, most);
    }

    // --- phases
    // ------------------------------------------------------------------------------------

    bool is_possible(phase p) const {
        if (p == phase::posts || p == phase::mail) return loop_.has_value();
        return p != phase::stall || setting("TVEC_LOAD_FAIR", 0) != 0;
    }
    void begin_next() {
        do phase_ = static_cast<phase>(static_cast<int>(phase_.load()) + 1);
        while (!is_possible(phase_));
        turns_ = events_ = fires_ = messages_ = 0;
        signals_ = 0;
        late_.clear();
        lateness_ = {};
        begun_ = clock::now();
        computed_ = computing_time();
        begin(phase_);
        if (phase_ == phase::over && when_over_) when_over_();
    }
    void begin(phase p) {
        const bool beats = p == phase::chat || p == phase::posts || p == phase::signals;
        if (beats) timers_.arm_after(beat_, period);
        if (p == phase::chat) say();
        if (p == phase::posts) post_again();
        if (p == phase::stall) {
            unheard_ = 2;
            say(), say();
        }
        if (p == phase::signals) send_signals(1'000'000);
        if (p == phase::idle)
            timers_.arm_after(next_, std::chrono::milliseconds(setting("TVEC_LOAD_IDLE_MS", 300)));
    }
    void on_next() { phase_ == phase::before ? begin_next() : finish(); }
    void finish() {
        beat_.cancel();
        if (phase_ == phase::signals) send_signals(0);
        judge();
        ++progress_;
        begin_next();
    }

    void judge() {
        const double took = std::chrono::duration<double>(clock::now() - begun_).count();
        const double computed = computing_time() - computed_;
        const double busy = static_cast<double>(fires_ + messages_ + signals_);
        std::printf("  %-7s %8.0f turns/s, %3.0f %% of a processor", name_of(phase_),
                    static_cast<double>(turns_) / took, computed / took * 100);
        if (!late_.empty()) {
            std::ranges::nth_element(late_, late_.begin() + late_.size() / 2);
            const auto median = static_cast<double>(late_[late_.size() / 2]);
            std::printf(", a timer waits for %.0f events and %.2f ms (the host's: %.2f ms)", median,
                        milliseconds(lateness_.quantile(0.5)), milliseconds(host_late_.load()));
            limit("events before a timer that is due", median,
                  phase_ == phase::signals ? 5 : turn_of_events);
        }
        std::printf("\n");
        if (phase_ == phase::chat || phase_ == phase::posts || phase_ == phase::stall) return;
        // The end of idleness, and the levels through which its timer sinks, at any length of it.
        const double wakeups = phase_ == phase::idle ? 8 : 3 * busy + 20;
        limit("turns without a reason", static_cast<double>(turns_), wakeups);
        if (phase_ != phase::signals) limit("percent of a processor", computed / took * 100, 25);
    }
    static double milliseconds(std::chrono::nanoseconds t) {
        return std::chrono::duration<double, std::milli>(t).count();
    }

    // --- events
    // ------------------------------------------------------------------------------------

    void say() {
        if (::send(ends_[0], "!", 1, 0) != 1) std::abort();
    }
    void note_event() {
        ++events_;
        if (beat_.pending() && clock::now() >= timers_.deadline(beat_)) ++overdue_;
    }
    void post_again() {
        (void)loop_->post([this] {
            note_event();
            if (phase_ == phase::posts) post_again();
        });
    }
    void on_beat() {
        static const auto beats = static_cast<std::size_t>(setting("TVEC_LOAD_BEATS", 15));
        ++fires_;
        ++progress_;
        const auto late = clock::now() - timers_.deadline(beat_);
        lateness_.record(late);
        const unsigned signals = signals_;
        late_.push_back(phase_ == phase::signals ? signals - std::min(due_at_, signals) : overdue_);
        overdue_ = 0;
        timers_.arm_next(beat_, period);
        due_at_ = signals + static_cast<unsigned>(period.count());
        if (late_.size() == beats) finish();
    }
    void on_judgement() {
        if (unheard_ > 0) fail("words that were not heard before the judgement", unheard_, 0);
        finish();
    }

    // --- signals, and the time of the loop's thread
    // ------------------------------------------------

    void send_signals(long every_ns) {
        struct sigaction count {};
        count.sa_handler = [](int) { ++signals_; };
        count.sa_flags = SA_RESTART;  // which no wait of a loop heeds
        sigaction(SIGUSR2, &count, nullptr);
        sigevent how{};
        how.sigev_notify = SIGEV_THREAD_ID;
        how.sigev_signo = SIGUSR2;
        how._sigev_un._tid = static_cast<int>(syscall(SYS_gettid));
        if (every_ns == 0) {
            timer_delete(signal_timer_);
            return;
        }
        if (timer_create(CLOCK_MONOTONIC, &how, &signal_timer_) != 0) std::abort();
        const itimerspec often{{0, every_ns}, {0, every_ns}};
        timer_settime(signal_timer_, 0, &often, nullptr);
    }
    static double computing_time() {
        timespec t{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
    }

    // --- the host's own timer
    // ----------------------------------------------------------------------

    // On its thread: beats as the wheel does, sends messages, and gives up a loop that goes no
    // further.
    void beat_beside() {
        const int patience =
            250 + setting("TVEC_LOAD_IDLE_MS", 300) / static_cast<int>(period.count());
        unsigned seen = progress_;
        int beats_since = 0;
        tvec::lateness_histogram late;
        for (auto due = clock::now(); phase_ != phase::over;) {
            due += period;
            std::this_thread::sleep_until(due);
            late.record(clock::now() - due);
            host_late_ = late.quantile(0.5);
            if (phase_ == phase::mail) send_message();
            const unsigned now = progress_;
            beats_since = now == seen ? beats_since + 1 : 0;
            seen = now;
            if (beats_since < patience) continue;
            std::printf("%s: the host's timer has rung %d times since the wheel's\n",
                        name_of(phase_), beats_since);
            std::fflush(stdout);
            _exit(1);
        }
    }
    void send_message() {
        (void)loop_->post([this] {
            ++messages_;
            ++progress_;
            if (phase_ == phase::mail && messages_ == 15) finish();
        });
    }

    timers& timers_;
    std::array<int, 2> ends_{-1, -1};
    std::optional<tvec::mailbox_sender<timers>> loop_;
    std::function<void()> when_over_;
    std::thread host_;
    std::atomic<phase> phase_{phase::before};
    std::atomic<unsigned> progress_{0};
    std::atomic<std::chrono::nanoseconds> host_late_{};
    static inline std::atomic<unsigned> signals_{0};
    std::size_t turns_ = 0, events_ = 0, fires_ = 0, messages_ = 0;
    std::size_t overdue_ = 0;  // events since the timer was due
    unsigned due_at_ = 0;      // the signal at which it is due
    std::vector<std::size_t>
        late_;  // events, or signals, between a timer's deadline and its callback
    tvec::lateness_histogram lateness_;
    int unheard_ = 0;
    int faults_ = 0;
    double computed_ = 0;
    clock::time_point begun_;
    timer_t signal_timer_{};
    tvec::timer next_{tvec::call<&conversation::next_, &conversation::on_next>};
    tvec::timer beat_{tvec::call<&conversation::beat_, &conversation::on_beat>};
    tvec::timer judge_{tvec::call<&conversation::judge_, &conversation::on_judgement>};
};

}  // namespace example
