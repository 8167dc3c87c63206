// A program without an event loop: threads that answer requests, and a timer with a thread of its
// own that gives up those that take too long.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

namespace {

struct session {
    std::promise<const char*> answer;
    std::atomic<bool> closed = false;
    void give_up() {
        closed = true;
        answer.set_value("timed out");
    }
};

bool gives_up_a_late_request() {
    tvec::timer_thread timers;  // no thread yet
    const auto request = std::make_shared<session>();
    const auto reply = timers.schedule(20ms, [request] { request->give_up(); });
    if (!reply) return false;  // refused: too many are pending
    const bool late = request->answer.get_future().get() == std::string("timed out");
    return late && !timers.cancel(reply.handle);
}

// Any thread pool. This one has a list of tasks.
struct workers {
    void post(std::function<void()> f) {
        const std::lock_guard lock(mutex);
        tasks.push_back(std::move(f));
    }
    std::mutex mutex;
    std::vector<std::function<void()>> tasks;
};

bool calls_its_functions_elsewhere(workers& pool) {
    tvec::timer_thread timers({.max_pending = 1000, .tick = 10ms},
                              [&pool](auto f) { pool.post(std::move(f)); });
    (void)timers.schedule(1ms, [] { std::puts("on a worker"); });
    (void)timers.schedule(1h, [] { std::puts("never"); });
    for (std::size_t posted = 0; posted == 0; std::this_thread::sleep_for(1ms)) {
        const std::lock_guard lock(pool.mutex);
        posted = pool.tasks.size();
    }
    const std::size_t left = timers.stop([](auto& function) {
        if (function.deadline() < std::chrono::steady_clock::now() + 1min) function.run();
    });
    for (const auto& task : pool.tasks) task();
    return left == 1;
}

// A beat that schedules itself again, until it is told to end.
struct heart {
    void beat() {
        if (++beats == 3)
            stopped.set_value();
        else
            (void)timers.schedule(1ms, [this] { beat(); });
    }
    tvec::timer_thread<>& timers;
    int beats = 0;
    std::promise<void> stopped = {};
};

}  // namespace

int main() {
    workers pool;
    tvec::timer_thread timers;
    heart h{timers};
    h.beat();
    h.stopped.get_future().wait();
    return gives_up_a_late_request() && calls_its_functions_elsewhere(pool) && h.beats == 3 ? 0 : 1;
}
