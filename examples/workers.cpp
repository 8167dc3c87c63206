// A server whose workers are not to be relied on: threads take requests, and mostly answer in time.
// If not, the loop answers in their place. The worker sets the timeout itself, on the wheel of the
// loop, and whoever comes first has won: a request is answered once, by one of them.
#include <poll.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

namespace {

// Requests on their way to the workers; a negative one is the end.
class inbox {
public:
    void put(int request) {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(request);
        filled_.notify_one();
    }

    int take() {
        std::unique_lock lock(mutex_);
        filled_.wait(lock, [this] { return !waiting_.empty(); });
        const int request = waiting_.front();
        waiting_.pop_front();
        return request;
    }

private:
    std::mutex mutex_;
    std::condition_variable filled_;
    std::deque<int> waiting_;
};

// The loop's side. Its methods are called on its thread only, whichever thread has asked for them.
struct service {
    void on_request() {
        requests.put(asked++);
        if (asked < 40) timers.arm_next(client, 5ms);
    }
    void answer(int) { ++answered; }
    void give_up(int) { ++given_up; }
    bool over() const { return answered + given_up == 40; }

    tvec::clocked_wheel<> timers;
    inbox requests;
    int asked = 0, answered = 0, given_up = 0;
    tvec::timer client{tvec::call<&service::client, &service::on_request>};
};

void take_time(int request) { std::this_thread::sleep_for(request % 8 == 0 ? 60ms : 2ms); }

// [worker]
void work(service& home, const tvec::mailbox_sender<>& loop) {
    for (int request; (request = home.requests.take()) >= 0;) {
        const auto limit = loop.schedule(20ms, [&home, request] { home.give_up(request); });
        take_time(request);
        if (!loop.cancel(limit.handle)) continue;  // too late: the loop has answered
        const auto answer = [&home, request] { home.answer(request); };
        while (!loop.post(answer)) std::this_thread::yield();  // full: the loop makes room
    }
}
// [worker]

}  // namespace

int main() {
    service home;
    // [loop]
    const tvec::eventfd_doorbell bell;
    tvec::mailbox mailbox(home.timers, 64, bell);
    tvec::timerfd_alarm alarm(home.timers);
    std::vector<std::thread> workers;
    for (int i = 0; i < 3; ++i)
        workers.emplace_back([&home, loop = mailbox.sender()] { work(home, loop); });
    home.timers.arm_after(home.client, 5ms);
    while (!home.over()) {
        alarm.rearm();
        mailbox.rearm();  // the last things before the sleep
        pollfd watched[] = {{alarm.fd(), POLLIN, 0}, {bell.fd(), POLLIN, 0}};
        poll(watched, 2, -1);
        if (watched[0].revents != 0) alarm.acknowledge();
        if (watched[1].revents != 0) bell.acknowledge();
        mailbox.run(128);      // takes in what the workers have sent
        home.timers.run(256);  // always, whatever woke us
    }
    // [loop]
    for (std::size_t i = 0; i < workers.size(); ++i) home.requests.put(-1);
    for (std::thread& worker : workers) worker.join();
    const std::size_t left = mailbox.stop([](auto& function) { function.run(); });
    std::printf("%d requests: %d answered by workers, %d by the loop because they were late\n",
                home.asked, home.answered, home.given_up);
    return home.answered + home.given_up == 40 && home.given_up >= 5 && left == 0 ? 0 : 1;
}
