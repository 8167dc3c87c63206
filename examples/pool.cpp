// Timeouts without owners: requests that time out and are retried with backoff, a heartbeat, and
// sessions whose timeouts are handed back at the end. No object embeds a timer. Handles are kept
// only for timeouts that may be cancelled.
#include <cstdio>
#include <map>
#include <string>
#include <thread>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

namespace {

class client {
public:
    explicit client(tvec::timeout_pool<>& pool) : pool_(pool) {}

    // Sends a request. Without a reply it sends again after 10 ms, then after 20, 40 and so on.
    void request(const std::string& name, unsigned attempts) {
        const auto timeout = pool_.schedule(10ms, resend{this, name, attempts});
        waiting_[name] = timeout.handle;  // invalid if there were too many timeouts, or no memory
    }

    void reply(const std::string& name) {
        pool_.cancel(waiting_[name]);  // no-op if too late or called twice
        ++replies;
    }

    unsigned replies = 0, resends = 0, given_up = 0;

private:
    // 48 bytes at most: a pointer, a 32-byte string, a number. Sets its own timeout again.
    struct resend {
        client* home;
        std::string name;
        unsigned attempts_left;
        unsigned attempt = 1;

        void operator()(const tvec::timeout_call& call) {
            if (--attempts_left == 0) {
                ++home->given_up;
                return;
            }
            ++home->resends;
            home->pool_.reschedule(call.self, 10ms * (1 << attempt++));
        }
    };

    tvec::timeout_pool<>& pool_;
    std::map<std::string, tvec::timeout_handle> waiting_;
};

}  // namespace

int main() {
    tvec::clocked_wheel timers;
    tvec::timeout_pool pool(timers, 100);  // at most 100 at a time
    client client(pool);

    client.request("lookup", 5);
    client.request("ping a host that is down", 4);
    (void)pool.schedule(15ms, [&] { client.reply("lookup"); });

    unsigned beats = 0;
    tvec::jiffies missed = 0;
    const auto heartbeat = pool.schedule_every(5ms, [&](const tvec::timeout_call& call) {
        ++beats;
        missed += call.missed;  // the loop was late
    });
    for (int user = 0; user < 3; ++user)
        (void)pool.schedule(1h, [] { std::puts("session expired"); });

    // The loop. Any driver works, and this one sleeps.
    while (client.given_up == 0) {
        std::this_thread::sleep_until(timers.next_wakeup().value());
        timers.run();
    }

    pool.cancel(heartbeat.handle);
    const std::size_t sessions = pool.stop([](auto& session) {
        std::printf(
            "a session ends early, by %lld minutes\n",
            static_cast<long long>((session.deadline() - std::chrono::steady_clock::now()) / 1min));
    });
    std::printf("%u replies, %u sent again, %u given up; %u beats, %llu missed\n", client.replies,
                client.resends, client.given_up, beats, static_cast<unsigned long long>(missed));
    return client.replies == 1 && client.resends == 4 && beats > 0 && sessions == 3 ? 0 : 1;
}
