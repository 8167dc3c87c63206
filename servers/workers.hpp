// Threads that work for a server, each at many things at a time, and are late now and then. They
// time themselves out on the server's wheel, through a tvec::mailbox: what a worker has not done in
// time the server does without it.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "../support/ring.hpp"
#include "timer_books.hpp"
#include "tvec/drivers/eventfd_doorbell.hpp"
#include "tvec/mailbox/mailbox.hpp"

namespace example {

// The results of the work. `asked` is the server's own, the rest is counted where it happens.
struct work_totals {
    std::uint64_t asked = 0, answered = 0, given_up = 0;                     // by the server
    std::uint64_t scheduled = 0, cancelled = 0, more_time = 0, refused = 0;  // by the workers
    std::uint64_t left = 0;                                                  // shown by `stop`
    tvec::lateness_histogram late;

    // Each is answered once, by the worker or in its place, and each timer fires or is cancelled.
    bool balanced() const {
        return asked == answered + given_up && scheduled == cancelled + given_up &&
               late.count() == given_up && refused == 0;
    }
};

// One thread. It does nothing but wait, for several pieces of work at a time.
class worker {
public:
    using sender = tvec::mailbox_sender<timers>;
    // The functions that the server runs on its own thread, with the number of a piece of work.
    struct server_side {
        std::function<void(std::uint64_t)> answered;
        std::function<void(std::uint64_t, time_point)> given_up;
    };

    worker(sender loop, const server_side& home, std::chrono::milliseconds takes, unsigned seed)
        : loop_(std::move(loop)), home_(home), takes_(takes), random_(seed),
          thread_([this] { run(); }) {}
    ~worker() { join(); }
    worker(const worker&) = delete;
    worker& operator=(const worker&) = delete;

    void put(std::uint64_t number) {
        const std::lock_guard lock(mutex_);
        arrived_.push_back(number);
        woken_.notify_one();
    }

    // Ends when all that was put is done.
    void join() {
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
            woken_.notify_one();
        }
        if (thread_.joinable()) thread_.join();
    }

    // After `join`.
    std::uint64_t scheduled = 0, cancelled = 0, more_time = 0, refused = 0;

private:
    struct piece {
        time_point done;
        std::uint64_t number;
        tvec::mailbox_handle limit;
        bool later(const piece& other) const { return done > other.done; }
    };
    struct later {
        bool operator()(const piece& a, const piece& b) const { return a.later(b); }
    };

    void run() {
        std::unique_lock lock(mutex_);
        while (!over_ || !arrived_.empty() || !at_work_.empty()) {
            std::deque<std::uint64_t> arrived;
            arrived.swap(arrived_);
            lock.unlock();
            for (const std::uint64_t number : arrived) begin(number);
            finish();
            lock.lock();
            if (!arrived_.empty()) continue;
            if (!at_work_.empty())
                woken_.wait_until(lock, at_work_.top().done);
            else if (!over_)
                woken_.wait(lock);
        }
    }

    // One in sixteen takes too long, and one in eight asks for more time.
    void begin(std::uint64_t number) {
        const auto now = timers::clock::now();
        const time_point limit = now + 4 * takes_;
        const tvec::sent timeout = loop_.schedule_at(
            limit, [home = &home_, number, limit] { home->given_up(number, limit); });
        if (!timeout) return refuse(number);
        ++scheduled;
        const bool is_slow = random_() % 16 == 0;
        at_work_.push({now + (is_slow ? 8 * takes_ : pause()), number, timeout.handle});
    }

    std::chrono::nanoseconds pause() {
        return takes_ * static_cast<long>(random_() % 2'000) / 1'000;
    }

    void finish() {
        const auto now = timers::clock::now();
        while (!at_work_.empty() && at_work_.top().done <= now) {
            const piece done = at_work_.top();
            at_work_.pop();
            if (random_() % 8 == 0) more_time += loop_.reschedule(done.limit, 4 * takes_);
            if (!loop_.cancel(done.limit)) continue;  // too late: the server has done without
            ++cancelled;
            answer(done.number);
        }
    }

    void answer(std::uint64_t number) {
        while (!loop_.post([home = &home_, number] { home->answered(number); })) {
            ++refused;
            if (loop_.stopped()) return;
            std::this_thread::yield();
        }
    }

    void refuse(std::uint64_t number) {
        ++refused;
        answer(number);
    }

    sender loop_;
    const server_side& home_;
    const std::chrono::milliseconds takes_;
    std::minstd_rand random_;
    std::priority_queue<piece, std::vector<piece>, later> at_work_;
    std::mutex mutex_;
    std::condition_variable woken_;
    std::deque<std::uint64_t> arrived_;
    bool over_ = false;
    std::thread thread_;
};

// All of them, and the server's end of the mailbox.
class crew {
public:
    // `done(number)` is called on the server's thread when something that was asked is done, be it
    // by the server itself. `tag` is for the request by which the ring watches the doorbell.
    crew(ring& r, timers& wheel, timer_books& books, std::uint64_t tag, unsigned workers,
         std::chrono::milliseconds takes, std::size_t most_at_a_time,
         std::function<void(std::uint64_t)> done)
        : ring_(r), tag_(tag), mailbox_(wheel, 2 * most_at_a_time + 64, bell_),
          done_(std::move(done)) {
        books.leave_out([this] {
            const auto& count = mailbox_.count();
            return guests{mailbox_.pending(), count.fired + count.overtaken};
        });
        for (unsigned i = 0; i < workers; ++i)
            workers_.push_back(std::make_unique<worker>(mailbox_.sender(), home_, takes, i + 1));
    }
    // The workers end before what they call.
    ~crew() { workers_.clear(); }
    crew(const crew&) = delete;
    crew& operator=(const crew&) = delete;

    void ask(std::uint64_t number) { workers_[count_.asked++ % workers_.size()]->put(number); }

    // Before each sleep.
    void rearm() {
        if (!watched_) ring_.queue(tag_, io_uring_prep_poll_add, bell_.fd(), unsigned{POLLIN});
        watched_ = true;
        mailbox_.rearm();
    }

    // Returns whether a completion was the doorbell's.
    bool complete(std::uint64_t tag) {
        if (tag != tag_) return false;
        watched_ = false;
        bell_.acknowledge();
        return true;
    }

    // After each.
    void run() { mailbox_.run(); }

    // Waits for the workers, and takes what they have left.
    void stop() {
        for (const auto& w : workers_) {
            w->join();
            count_.scheduled += w->scheduled;
            count_.cancelled += w->cancelled;
            count_.more_time += w->more_time;
            count_.refused += w->refused;
        }
        count_.left = mailbox_.stop([](auto& function) { function.run(); });
    }

    const work_totals& count() const { return count_; }
    bool sound() const { return count_.balanced() && count_.late.early() == 0; }

private:
    void answered(std::uint64_t number) {
        ++count_.answered;
        done_(number);
    }
    void given_up(std::uint64_t number, time_point limit) {
        ++count_.given_up;
        count_.late.record(timers::clock::now() - limit);
        done_(number);
    }

    ring& ring_;
    std::uint64_t tag_;
    bool watched_ = false;
    tvec::eventfd_doorbell bell_;
    tvec::mailbox<timers> mailbox_;
    std::function<void(std::uint64_t)> done_;
    work_totals count_;
    const worker::server_side home_{[this](std::uint64_t n) { answered(n); },
                                    [this](std::uint64_t n, time_point l) { given_up(n, l); }};
    std::vector<std::unique_ptr<worker>> workers_;
};

}  // namespace example
