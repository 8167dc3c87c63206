// A thread pool without an event loop. Its threads share a wheel under the lock of their queue:
// each arms, cancels, and takes what is due in turn. Late requests are given up outside of it.
#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

namespace {

enum class outcome { none, answered, given_up };

struct request {
    bool is_slow = false;
    outcome result = outcome::none;  // set once, by the thread that has won
    tvec::timer limit;               // is taken, and calls nothing
};

class pool {
public:
    explicit pool(int threads) {
        timers_.wheel().share_by_lock();
        for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
    }
    ~pool() {
        for (std::thread& t : threads_) t.join();
    }
    pool(const pool&) = delete;
    pool& operator=(const pool&) = delete;

    void ask(request& r) {
        const std::lock_guard under(lock_);
        timers_.arm_after(r.limit, 50ms);
        waiting_.push_back(&r);
        if (!alarm_ || *timers_.next_wakeup() < *alarm_)
            changed_.notify_all();  // they would sleep for too long
        else
            changed_.notify_one();
    }

    // No request comes any more: threads end when all have an outcome.
    void close() {
        const std::lock_guard under(lock_);
        is_closed_ = true;
        changed_.notify_all();
    }

private:
    using lock = std::unique_lock<std::mutex>;

    void work() {
        for (lock under(lock_); !is_over();)
            if (!give_up_late(under) && !answer(under)) sleep(under);
        changed_.notify_all();
    }

    bool is_over() const { return is_closed_ && waiting_.empty() && !timers_.any_pending(); }

    // [take]
    bool give_up_late(lock& under) {
        std::array<request*, 16> late{};
        std::size_t n = 0;
        timers_.collect(late.size(),
                        [&](tvec::timer& t) { late[n++] = &tvec::owner_of<&request::limit>(t); });
        under.unlock();
        for (std::size_t i = 0; i < n; ++i) late[i]->result = outcome::given_up;
        under.lock();
        return n != 0;
    }
    // [take]

    bool answer(lock& under) {
        if (waiting_.empty()) return false;
        request& r = *waiting_.front();
        waiting_.pop_front();
        under.unlock();
        std::this_thread::sleep_for(r.is_slow ? 60ms : 1ms);
        under.lock();
        if (r.limit.cancel()) r.result = outcome::answered;  // else another thread has given it up
        return true;
    }

    void sleep(lock& under) {
        alarm_ = timers_.next_wakeup();
        if (alarm_)
            changed_.wait_until(under, *alarm_);
        else
            changed_.wait(under);
    }

    std::mutex lock_;
    std::condition_variable changed_;
    tvec::clocked_wheel<> timers_;
    std::deque<request*> waiting_;
    std::optional<tvec::clocked_wheel<>::time_point> alarm_;  // of the threads that sleep
    bool is_closed_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace

int main() {
    std::vector<request> requests(40);
    for (std::size_t i = 0; i < requests.size(); ++i) requests[i].is_slow = i % 16 == 0;
    {
        pool threads(4);
        for (request& r : requests) threads.ask(r);
        threads.close();
    }
    const auto count = [&](outcome o) {
        return std::count_if(requests.begin(), requests.end(),
                             [o](const request& r) { return r.result == o; });
    };
    const auto answered = count(outcome::answered), given_up = count(outcome::given_up);
    std::printf("%td answered, %td given up\n", answered, given_up);
    return answered + given_up == 40 ? 0 : 1;
}
