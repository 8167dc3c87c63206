// The code of docs/from-netty.md. Exits with 1 if the pool does not do what that page says.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

namespace {

struct session {
    void give_up() { given_up = true; }
    bool given_up = false;
};

std::vector<std::uint64_t> done;

struct job {
    void start(tvec::clocked_wheel<>& timers, tvec::clocked_wheel<>::time_point when) {
        static std::uint64_t starts = 0;
        number = ++starts;
        timers.arm_at(t, when);
    }
    static bool before(tvec::timer& a, tvec::timer& b) {
        return tvec::owner_of<&job::t>(a).number < tvec::owner_of<&job::t>(b).number;
    }

    void on_time() { done.push_back(number); }
    std::uint64_t number = 0;
    tvec::timer t{tvec::call<&job::t, &job::on_time>};
};

// As in libuv: timers due together are called in the order in which they were started.
bool calls_in_the_order_of_starting() {
    tvec::clocked_wheel timers;
    std::vector<job> jobs(10);
    const auto when = timers.after(1ms);
    for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i * 7 % 10].start(timers, when);
    while (timers.any_pending()) {
        timers.run_in_order(job::before, 256);  // in place of timers.run(256)
    }
    return done.size() == 10 && std::is_sorted(done.begin(), done.end());
}

using centiseconds = std::chrono::duration<std::int64_t, std::ratio<1, 100>>;
using wheel = tvec::clocked_wheel<tvec::tick_clock<centiseconds, tvec::manual_clock>>;

struct event {
    event(wheel& timers, int cs, int number_of_session) : session(number_of_session) {
        timers.arm_after(t, centiseconds(cs));
    }
    void send() {
        sent.push_back(session);  // to its service, as dispatch_list does
        delete this;
    }

    static inline std::uint64_t starts = 0;
    static inline std::vector<int> sent;
    std::uint64_t number = ++starts;
    int session;
    tvec::timer t;  // is taken, and calls nothing
};

void timeout(wheel& timers, std::mutex& lock, int cs, int session) {
    if (cs <= 0) return event::sent.push_back(session);  // at once
    const std::lock_guard under(lock);
    new event(timers, cs, session);
}

// [in_order]
// Sends what is due in the order of the calls. The lock is held for 64 timers at most.
void send_due(wheel& timers, std::mutex& lock) {
    std::vector<event*> due;
    const auto take = [&due](tvec::timer& t) { due.push_back(&tvec::owner_of<&event::t>(t)); };
    const auto take_some = [&] {
        const std::lock_guard under(lock);
        return timers.collect(64, take).caught_up;
    };
    while (!take_some()) std::this_thread::yield();  // or others starve
    std::ranges::sort(due, {}, [](event* e) { return std::pair(e->t.expires(), e->number); });
    for (event* const e : due) e->send();
}
// [in_order]

// As in skynet: timeouts of one tick are sent in the order of the calls.
bool sends_in_the_order_of_calls() {
    wheel timers;
    timers.wheel().share_by_lock();
    std::mutex lock;
    timeout(timers, lock, 0, -1);
    for (int session = 0; session < 200; ++session) timeout(timers, lock, 3000, session);
    tvec::manual_clock::advance(31s);
    send_due(timers, lock);
    return event::sent.size() == 201 && std::is_sorted(event::sent.begin(), event::sent.end());
}

}  // namespace

int main() {
    session session;
    tvec::clocked_wheel timers;  // ticks of one millisecond, steady_clock
    tvec::timeout_pool pool(timers);
    const auto reply = pool.schedule(250ms, [&session] { session.give_up(); });
    pool.cancel(reply.handle);
    timers.run();  // once per turn of your loop
    struct request {
        tvec::timeout_handle timeout;
        bool timed_out = false;
    };
    const auto sent = std::make_shared<request>();  // or a member of what you have anyway
    sent->timeout = pool.schedule(250ms, [sent] { sent->timed_out = true; }).handle;
    pool.run_early(true);
    while (pool.pending() != 0) timers.run();
    return session.given_up || !sent->timed_out || !calls_in_the_order_of_starting() ||
           !sends_in_the_order_of_calls();
}
