// Four threads send to one loop as fast as they can. Nothing is lost and nothing comes twice. Posts
// of one thread keep their order, no timer is early, and every cancel has one answer, which is
// true. The loop sleeps when there is nothing to do, and misses nothing.
//
//     mailbox_stress MESSAGES      each of four threads sends so many
#include <poll.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tvec/drivers/eventfd_doorbell.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/mailbox/mailbox.hpp"

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using wheel = tvec::clocked_wheel<tvec::tick_clock<std::chrono::microseconds>>;

constexpr unsigned threads = 4;

// The functions that one thread has sent, and those that have arrived.
struct alignas(128) books {
    // the thread's
    std::uint64_t posted = 0, scheduled = 0, cancelled = 0, rescheduled = 0, refused = 0;
    // the owner's
    alignas(128) std::uint64_t next = 0;  // of what was posted
    std::uint64_t out_of_order = 0, fired = 0, early = 0, answers = 0, cancelled_later = 0;
};

class producer {
public:
    producer(const tvec::mailbox_sender<wheel>& s, books& b, std::uint64_t seed)
        : sender_(s), books_(b), random_(seed * 2 + 1) {}

    void run(std::uint64_t messages) {
        while (messages-- != 0) {
            const std::uint64_t choice = next() % 1024;
            if (choice < 512)
                post();
            else
                schedule(choice);
        }
    }

private:
    std::uint64_t next() {
        return (random_ = random_ * 6364136223846793005u + 1442695040888963407u) >> 33;
    }

    // Sends again and again, as long as there is no room.
    template <class Send> tvec::mailbox_handle insist(Send send) {
        for (;;) {
            if (const tvec::sent made = send()) return made.handle;
            ++books_.refused;
            std::this_thread::yield();
        }
    }

    void post() {
        books* const b = &books_;
        insist([&] {
            return sender_.post([b, number = books_.posted] {
                b->out_of_order += b->next != number;
                b->next = number + 1;
            });
        });
        ++books_.posted;
    }

    void schedule(std::uint64_t choice) {
        books* const b = &books_;
        const auto due = clock::now() + std::chrono::microseconds(next() % 500);
        const auto h = insist([&] {
            return sender_.schedule_at(due, [b, due] {
                ++b->fired;
                b->early += clock::now() < due;
            });
        });
        ++books_.scheduled;
        if (choice < 768) books_.cancelled += sender_.cancel(h);
        if (choice == 768) books_.cancelled += sender_.cancel_and_wait(h);
        if (choice >= 769 && choice < 840) books_.rescheduled += sender_.reschedule(h, 700us);
        if (choice >= 840 && choice < 900) ask(h);
    }

    void ask(tvec::mailbox_handle h) {
        books* const b = &books_;
        insist([&] {
            return sender_.cancel_then(h, [b](bool was_pending) {
                ++b->answers;
                b->cancelled_later += was_pending;
            });
        });
        ++asked;
    }

public:
    std::uint64_t asked = 0;

private:
    tvec::mailbox_sender<wheel> sender_;
    books& books_;
    std::uint64_t random_;
};

class loop {
public:
    loop() : mailbox_(timers_, 4096, bell_) {}

    tvec::mailbox_sender<wheel> sender() const { return mailbox_.sender(); }

    void turn() {
        mailbox_.rearm();
        alarm_.rearm();
        pollfd watched[] = {{alarm_.fd(), POLLIN, 0}, {bell_.fd(), POLLIN, 0}};
        poll(watched, 2, -1);
        ++turns;
        if (watched[0].revents != 0) alarm_.acknowledge();
        if (watched[1].revents != 0) bell_.acknowledge();
        mailbox_.run(1'000);
        timers_.run(256);
    }

    bool idle() const { return mailbox_.pending() == 0; }
    std::size_t stop() { return mailbox_.stop(); }

    std::uint64_t turns = 0;

private:
    wheel timers_;
    tvec::eventfd_doorbell bell_;
    tvec::mailbox<wheel> mailbox_;
    tvec::timerfd_alarm<wheel> alarm_{timers_};
};

unsigned faults = 0;

void expect(bool holds, const char* what, unsigned thread) {
    if (holds) return;
    std::printf("thread %u: %s\n", thread, what);
    ++faults;
}

void judge(const books& b, std::uint64_t asked, unsigned thread) {
    expect(b.next == b.posted, "what was posted has not all come", thread);
    expect(b.out_of_order == 0, "what was posted came out of order", thread);
    expect(b.early == 0, "a timer was early", thread);
    expect(b.answers == asked, "a cancel has no answer, or two", thread);
    expect(b.fired + b.cancelled + b.cancelled_later == b.scheduled,
           "what was scheduled has neither fired nor been cancelled, or both", thread);
}

int run(std::uint64_t messages) {
    loop l;
    std::array<books, threads> all{};
    std::array<std::uint64_t, threads> asked{};
    std::atomic<unsigned> running{threads};
    std::vector<std::thread> producers;
    const auto began = clock::now();
    for (unsigned i = 0; i < threads; ++i)
        producers.emplace_back([&, i, s = l.sender()] {
            producer p(s, all[i], i);
            p.run(messages);
            asked[i] = p.asked;
            while (!s.post([&running] { --running; })) std::this_thread::yield();
        });
    while (running != 0) l.turn();
    for (std::thread& t : producers) t.join();
    const double seconds = std::chrono::duration<double>(clock::now() - began).count();
    while (!l.idle()) l.turn();
    expect(l.stop() == 0, "something is left in the end", 0);
    std::uint64_t posted = 0, scheduled = 0, cancelled = 0, refused = 0;
    for (unsigned i = 0; i < threads; ++i) {
        judge(all[i], asked[i], i);
        posted += all[i].posted;
        scheduled += all[i].scheduled;
        cancelled += all[i].cancelled + all[i].cancelled_later;
        refused += all[i].refused;
    }
    std::printf("%llu messages of %u threads in %.1f s: %llu posted, %llu scheduled, of which %llu "
                "cancelled; %llu refused, %llu turns\n",
                static_cast<unsigned long long>(messages * threads), threads, seconds,
                static_cast<unsigned long long>(posted), static_cast<unsigned long long>(scheduled),
                static_cast<unsigned long long>(cancelled),
                static_cast<unsigned long long>(refused), static_cast<unsigned long long>(l.turns));
    return faults == 0 ? 0 : 1;
}

// Threads race where they run at once: also if who starts this has been given one processor.
void use_all_processors() {
    cpu_set_t all;
    std::memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
}

}  // namespace

int main(int argc, char** argv) {
    use_all_processors();
    return run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000);
}
