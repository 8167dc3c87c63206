// A server that is not to be relied on: it answers datagrams, but some late, some not at all, and
// at times nothing. It has a thread, a ring and a wheel of its own; late answers wait on that
// wheel.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>

#include <deque>
#include <exception>
#include <random>
#include <thread>
#include <vector>

#include "datagrams.hpp"
#include "timer_books.hpp"
#include "tvec/drivers/uring_wait.hpp"

namespace example {

struct flaws {
    double drop = 0.2;   // share of datagrams that are not answered
    double delay = 0.3;  // share of answers that come late
    std::chrono::milliseconds longest_delay{400};
    std::chrono::milliseconds sleep{500};  // how long it answers nothing
    std::chrono::milliseconds sleeps_every{1500};
};

struct server_totals {
    std::uint64_t received = 0;
    std::uint64_t answered = 0;
    std::uint64_t dropped = 0;
    std::uint64_t slept_through = 0;  // not answered because asleep
    std::uint64_t undelivered = 0;    // answers that were still waiting at the end
    bool sound = false;               // the timers' books
    bool balanced() const {
        return sound && received == answered + dropped + slept_through + undelivered;
    }
};

// The part that runs in the thread.
class flaky_worker {
public:
    flaky_worker(int socket, int stop, const flaws& f)
        : socket_(socket), flaws_(f), receiver_(ring_, socket, receiving) {
        ring_.queue(stopping, io_uring_prep_poll_add, stop, unsigned{POLLIN});
        books_.arm(sleep_, sleep_deadline_, flaws_.sleeps_every);
    }

    server_totals run() {
        while (!stopping_ || sending_ > 0 || receiver_.in_flight()) turn();
        totals_.undelivered = answers_.size() - free_.size();
        books_.drain();
        totals_.sound = books_.sound();
        return totals_;
    }

private:
    // Sends of answers are tagged with their index.
    enum own_tag : std::uint64_t { receiving = 1ull << 32, stopping };

    // Waits, perhaps, and is sent. Its buffer is in use until that has completed.
    struct answer {
        explicit answer(flaky_worker& w) : home(&w) {}
        void on_due() {
            home->books_.fired(due, deadline);
            home->deliver(*this);
        }
        flaky_worker* home;
        std::uint64_t index = 0;
        datagram content{};
        time_point deadline;
        tvec::timer due{tvec::call<&answer::due, &answer::on_due>};
    };

    void turn() {
        wait_();
        ring_.reap([this](std::uint64_t tag, int result, bool) { complete(tag, result); });
        timers_.run(256);
    }

    void complete(std::uint64_t tag, int result) {
        if (tag == receiving)
            return receiver_.complete(result, [this](const datagram& d) { received(d); });
        if (tag == stopping) return stop();
        --sending_;
        free_.push_back(tag);
    }

    void stop() {
        stopping_ = true;
        receiver_.stop();
    }

    void received(const datagram& d) {
        ++totals_.received;
        if (asleep_) {
            ++totals_.slept_through;
        } else if (chance(flaws_.drop)) {
            ++totals_.dropped;
        } else {
            answer& a = unused_answer();
            a.content = d;
            if (chance(flaws_.delay))
                delay(a);
            else
                send(a);
        }
    }

    void delay(answer& a) {
        const auto most = static_cast<double>(flaws_.longest_delay.count());
        books_.arm(a.due, a.deadline,
                   std::chrono::milliseconds(static_cast<int>(uniform_(random_) * most)));
    }

    void deliver(answer& a) {
        if (!asleep_) return send(a);
        ++totals_.slept_through;
        free_.push_back(a.index);
    }

    void send(answer& a) {
        ++totals_.answered;
        ++sending_;
        ring_.queue(a.index, io_uring_prep_send, socket_, &a.content, sizeof a.content,
                    MSG_NOSIGNAL);
    }

    answer& unused_answer() {
        if (free_.empty()) {
            free_.push_back(answers_.size());
            answers_.emplace_back(*this).index = free_.back();
        }
        answer& a = answers_[free_.back()];
        free_.pop_back();
        return a;
    }

    void on_sleep() {
        books_.fired(sleep_, sleep_deadline_);
        asleep_ = !asleep_;
        books_.arm(sleep_, sleep_deadline_, asleep_ ? flaws_.sleep : flaws_.sleeps_every);
    }

    bool chance(double share) { return uniform_(random_) < share; }

    int socket_;
    flaws flaws_;
    std::mt19937 random_{7};
    std::uniform_real_distribution<double> uniform_;
    ring ring_{1024};
    timers timers_;
    tvec::uring_wait<timers> wait_{ring_.get(), timers_};
    timer_books books_{timers_};
    receiver receiver_;
    server_totals totals_;
    unsigned sending_ = 0;
    bool asleep_ = false;
    bool stopping_ = false;
    time_point sleep_deadline_;
    tvec::timer sleep_{tvec::call<&flaky_worker::sleep_, &flaky_worker::on_sleep>};
    std::deque<answer> answers_;
    std::vector<std::uint64_t> free_;
};

// The thread, from the outside. Nothing is shared with it but an eventfd; what it has counted is
// handed over when it has ended.
class flaky_server {
public:
    flaky_server(descriptor socket, const flaws& f) : socket_(std::move(socket)) {
        if (stop_.get() < 0) fail("cannot make an eventfd");
        thread_ = std::thread([this, f] { run(f); });
    }
    ~flaky_server() {
        if (thread_.joinable()) join();
    }
    flaky_server(const flaky_server&) = delete;
    flaky_server& operator=(const flaky_server&) = delete;

    // Ends it. Throws what it has thrown.
    server_totals stop() {
        join();
        if (failure_) std::rethrow_exception(failure_);
        return totals_;
    }

private:
    void run(const flaws& f) try {
        totals_ = flaky_worker(socket_.get(), stop_.get(), f).run();
    } catch (...) {
        failure_ = std::current_exception();
    }

    void join() {
        eventfd_write(stop_.get(), 1);
        thread_.join();
    }

    descriptor socket_;
    descriptor stop_{eventfd(0, EFD_CLOEXEC)};
    server_totals totals_;
    std::exception_ptr failure_;
    std::thread thread_;
};

}  // namespace example
