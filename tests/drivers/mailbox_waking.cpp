// A mailbox in front of each loop: threads wake it by a descriptor, or from ring to ring, and it
// misses nothing of what they send.
#include <atomic>
#include <thread>
#include <vector>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/loops.hpp"
#include "tvec/drivers/eventfd_doorbell.hpp"
#include "tvec/mailbox/mailbox.hpp"
#ifdef TVEC_TESTS_HAVE_URING
#include "tvec/drivers/uring_doorbell.hpp"
#endif

using namespace std::chrono_literals;
using wheel = tvec::clocked_wheel<>;
using std::chrono::steady_clock;

TestSuite(mailbox_waking, .timeout = 60);

namespace {

constexpr int threads = 2, each = 200;

// The functions that arrived, and when.
struct arrivals {
    int posted = 0, fired = 0, early = 0, running = threads;
    bool over() const { return running == 0 && fired == threads * each; }
};

// Sends now and then, so that the loop sleeps in between: posts, and timers that it has to be woken
// for because they are due before anything else.
void send_some(const tvec::mailbox_sender<wheel>& s, arrivals& a) {
    for (int i = 0; i < each; ++i) {
        CHECK(s.post([&a] { ++a.posted; }));
        const auto due = steady_clock::now() + std::chrono::microseconds(i * 7);
        CHECK(s.schedule_at(due, [&a, due] {
            ++a.fired;
            a.early += steady_clock::now() < due;
        }));
        if (i % 16 == 0) std::this_thread::sleep_for(1ms);
    }
    CHECK(s.post([&a] { --a.running; }));
}

template <class Loop, class AfterSleep>
void serve(Loop& loop, wheel& timers, tvec::mailbox<wheel>& mailbox, const arrivals& a,
           AfterSleep after_sleep) {
    while (!a.over()) {
        mailbox.rearm();
        loop.sleep();
        after_sleep();
        mailbox.run();
        timers.run();
    }
}

void judge(const arrivals& a) {
    CHECK_EQ(a.posted, threads * each);
    CHECK_EQ(a.fired, threads * each);
    CHECK_EQ(a.early, 0);
}

// Valgrind 3.19 does not know that io_uring_enter waits, and lets no other thread run meanwhile.
bool who_sleeps_in_a_ring_stops_all_threads() {
    return support::from_environment("TVEC_RINGS_STOP_THREADS", 0) != 0;
}

}  // namespace

EACH_DRIVER(mailbox_waking, a_descriptor_wakes_every_loop) {
    if (who_sleeps_in_a_ring_stops_all_threads()) cr_skip("threads, under valgrind");
    wheel timers;
    Loop<wheel> loop{timers};
    const tvec::eventfd_doorbell bell;
    tvec::mailbox<wheel> mailbox(timers, 1024, bell);
    loop.watch(bell.fd());
    arrivals a;
    std::vector<std::thread> senders;
    for (int i = 0; i < threads; ++i)
        senders.emplace_back([&a, s = mailbox.sender()] { send_some(s, a); });
    serve(loop, timers, mailbox, a, [&] { bell.acknowledge(); });
    for (std::thread& t : senders) t.join();
    judge(a);
}

EACH_DRIVER(mailbox_waking, mail_to_itself_wakes_the_loop_too) {
    wheel timers;
    Loop<wheel> loop{timers};
    const tvec::eventfd_doorbell bell;
    tvec::mailbox<wheel> mailbox(timers, 4, bell);
    loop.watch(bell.fd());
    bool came = false;
    tvec::callback_timer beat{[&, s = mailbox.sender()] { s.post([&] { came = true; }); }};
    timers.arm_after(beat, 1ms);
    while (!came) {
        mailbox.rearm();
        loop.sleep();
        bell.acknowledge();
        mailbox.run();
        timers.run();
    }
}

// Eight threads send before the loop has a driver, while it makes one, and after.
EACH_DRIVER(mailbox_waking, mail_sent_before_the_loop_exists_arrives) {
    if (who_sleeps_in_a_ring_stops_all_threads()) cr_skip("threads, under valgrind");
    constexpr int senders = 8, timers_each = 1000;
    wheel timers;
    const tvec::eventfd_doorbell bell;
    tvec::mailbox<wheel> mailbox(timers, senders * timers_each, bell);
    std::atomic<int> sent = 0;
    int fired = 0;
    std::vector<std::thread> sending;
    for (int i = 0; i < senders; ++i)
        sending.emplace_back([&, s = mailbox.sender()] {
            for (int k = 0; k < timers_each; ++k, ++sent)
                CHECK(s.schedule(std::chrono::microseconds(k * 7), [&fired] { ++fired; }));
        });
    while (sent < senders * timers_each / 4) std::this_thread::yield();
    Loop<wheel> loop{timers};
    loop.watch(bell.fd());
    while (fired != senders * timers_each) {
        mailbox.rearm();
        loop.sleep();
        bell.acknowledge();
        mailbox.run();
        timers.run();
    }
    for (std::thread& t : sending) t.join();
    CHECK_EQ(mailbox.pending(), 0);
}

#ifdef TVEC_TESTS_HAVE_URING
// The owner's descriptor is not watched: only the rings' messages wake it.
EACH_RING_DRIVER(mailbox_waking, a_ring_wakes_every_ring) {
    if (who_sleeps_in_a_ring_stops_all_threads()) cr_skip("threads, under valgrind");
    wheel timers;
    Loop<wheel> loop{timers, 256};
    int falls_asleep_with_mail = 0;
    tvec::mailbox<wheel> mailbox(timers, 1024, [&] {
        ++falls_asleep_with_mail;
        loop.poke();
    });
    arrivals a;
    std::vector<std::thread> senders;
    for (int i = 0; i < threads; ++i)
        senders.emplace_back([&a, &loop, s = mailbox.sender()] {
            support::ring own(8);
            tvec::uring_doorbell bell(own.get(), loop.ring_fd());
            const auto through = s.through(bell);
            for (int k = 0; k < each; ++k) {
                through.post([&a] { ++a.posted; });
                const auto due = steady_clock::now() + std::chrono::microseconds(k * 7);
                through.schedule_at(due, [&a, due] {
                    ++a.fired;
                    a.early += steady_clock::now() < due;
                });
                if (k == each - 1) through.post([&a] { --a.running; });
                io_uring_submit(&own.get());
                if (k % 16 == 0) std::this_thread::sleep_for(1ms);
            }
            CHECK_EQ(own.reap([&](const io_uring_cqe& cqe) {
                CHECK(bell.complete(cqe.user_data, cqe.res));
            }),
                     0);
        });
    serve(loop, timers, mailbox, a, [] {});
    for (std::thread& t : senders) t.join();
    judge(a);
}

Test(mailbox_waking, a_full_queue_makes_room_for_the_bell) {
    support::ring own(2), owners(8);
    tvec::uring_doorbell bell(own.get(), owners.get().ring_fd);
    for (int i = 0; i < 5; ++i) bell();
    io_uring_submit(&own.get());
    unsigned rings = 0;
    owners.reap(
        [&](const io_uring_cqe& cqe) { rings += cqe.user_data == tvec::uring_doorbell_data; });
    CHECK_EQ(rings, 5);
}

Test(mailbox_waking, a_bell_that_found_no_room_rings_again) {
    support::ring own(8), owners(8);
    tvec::uring_doorbell bell(own.get(), owners.get().ring_fd);
    for (const int refused : {-EAGAIN, -EOVERFLOW}) {
        CHECK(bell.complete(tvec::uring_doorbell_data, refused));
        CHECK_EQ(io_uring_sq_ready(&own.get()), 1);
        io_uring_submit(&own.get());
    }
    CHECK_EQ(owners.reap(), 2);
}

Test(mailbox_waking, a_bell_into_no_ring_says_so) {
    support::ring own(8);
    tvec::uring_doorbell bell(own.get(), 0);
    bell();
    io_uring_submit_and_wait(&own.get(), 1);
    int refusals = 0;
    own.reap([&](const io_uring_cqe& cqe) {
        try {
            bell.complete(cqe.user_data, cqe.res);
        } catch (const std::system_error&) {
            ++refusals;
        }
    });
    CHECK_EQ(refusals, 1);
    CHECK(!bell.complete(7, 0));
}
#endif

Test(mailbox_waking, a_doorbell_is_readable_until_it_is_acknowledged) {
    const tvec::eventfd_doorbell bell;
    const auto readable = [&] {
        pollfd p{bell.fd(), POLLIN, 0};
        return poll(&p, 1, 0) == 1;
    };
    CHECK(!readable());
    CHECK(!bell.acknowledge());
    const tvec::eventfd_doorbell copy = bell;
    copy();
    copy();
    CHECK(readable());
    CHECK(bell.acknowledge());
    CHECK(!readable());
    CHECK(!bell.acknowledge());
}
