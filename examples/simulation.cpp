// A client, a server and a network that loses and delays messages, in one thread on a manual clock.
// All chance comes from a seed. The server has a planted fault: it forgets too early which requests
// it has executed. A search over seeds finds the fault, and the seed replays it.
#include <algorithm>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

using clock = tvec::manual_clock;
using wheel = tvec::clocked_wheel<tvec::tick_clock<milliseconds, clock>>;

class world {
public:
    world(unsigned seed, milliseconds memory) : random_(seed), memory_(memory) {}

    // Simulates 20 requests. Returns one that was executed twice, or -1.
    int run() {
        for (int id = 0; id < 20; ++id)
            (void)pool_.schedule(between(0ms, 5s), [this, id] { request(id, 6); });
        // [loop]
        for (auto next = timers_.next_wakeup(); next; next = timers_.next_wakeup()) {
            clock::set(std::max(*next, clock::now()));
            if (chance(5)) clock::advance(between(1ms, 50ms));  // the loop is held up
            timers_.run(1 + random_() % 4);                     // and has little time in a turn
        }
        // [loop]
        return twice_;
    }
    const std::vector<std::string>& history() const { return history_; }

private:
    bool chance(unsigned percent) { return random_() % 100 < percent; }
    milliseconds between(milliseconds least, milliseconds most) {
        const auto span = static_cast<unsigned>((most - least).count());
        return least + milliseconds(random_() % span);
    }
    void note(const char* what, int id) {
        const auto now = (clock::now() - start_) / 1ms;
        history_.push_back(std::to_string(now) + " ms: " + what + " " + std::to_string(id));
    }

    // The network.
    template <class F> void deliver(F f) {
        if (!chance(30)) (void)pool_.schedule(between(1ms, 300ms), f);
    }

    // The client.
    void request(int id, int attempts) {
        if (answered_.contains(id) || attempts == 0) return;
        note("request", id);
        deliver([this, id] { execute(id); });
        (void)pool_.schedule(200ms, [this, id, attempts] { request(id, attempts - 1); });
    }

    // The server.
    void execute(int id) {
        if (known_.insert(id).second) {
            note("execute", id);
            if (!executed_.insert(id).second) twice_ = id;
            (void)pool_.schedule(memory_, [this, id] { known_.erase(id); });
        }
        deliver([this, id] { answered_.insert(id); });
    }

    clock::time_point start_ = clock::now();
    wheel timers_;
    tvec::timeout_pool<wheel> pool_{timers_};
    std::mt19937 random_;
    milliseconds memory_;
    std::set<int> known_, executed_, answered_;
    int twice_ = -1;
    std::vector<std::string> history_;
};

constexpr milliseconds too_short = 1s, long_enough = 2s;

// Returns the first seed whose world fails, or 0.
unsigned search(unsigned seeds, milliseconds memory) {
    for (unsigned seed = 1; seed <= seeds; ++seed)
        if (world(seed, memory).run() >= 0) return seed;
    return 0;
}

}  // namespace

int main() {
    const unsigned seed = search(1'000, too_short);
    world first(seed, too_short);
    const int twice = first.run();
    std::printf("seed %u executes request %d twice:\n", seed, twice);
    world again(seed, too_short);
    const bool same = again.run() == twice && again.history() == first.history();
    for (const std::string& line : again.history())
        if (line.ends_with(" " + std::to_string(twice))) std::printf("  %s\n", line.c_str());
    return seed != 0 && same && search(1'000, long_enough) == 0 ? 0 : 1;
}
