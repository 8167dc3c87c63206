// Complete or expire, as Kafka's delayed produce and fetch. An operation watches several keys, and
// many operations watch a key. The event that satisfies an operation completes it, or its timeout
// ends it. With callbacks and with coroutines, on a clock that is moved by hand.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/task.hpp"
#include "tvec/tvec.hpp"

namespace {

using namespace std::chrono_literals;
using wheel = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>>;

struct watcher;
using index = std::multimap<std::string, watcher*>;  // by key

struct purgatory {
    index watched, satisfied;
};

// Waits until it is satisfied. Its destructor leaves all keys, also those that see no event more.
struct watcher {
    watcher(purgatory& p, std::set<std::string> k, std::function<bool()> f)
        : home(p), keys(std::move(k)), is_satisfied(std::move(f)) {}
    watcher(watcher&&) = default;  // before it watches
    ~watcher() { leave(); }
    void watch(std::function<void()> f) {
        if (is_satisfied()) return f();
        completed = std::move(f);
        for (const std::string& key : keys) join(home.watched, key);
    }
    void leave() {
        for (const auto& [in, at] : places) in->erase(at);
        places.clear();
    }

    // As an awaitable, also under with_timeout.
    bool await_ready() const { return is_satisfied(); }
    void await_suspend(std::coroutine_handle<> waiting) { watch(waiting); }
    void await_resume() const noexcept {}

    void join(index& in, const std::string& key) {
        places.emplace_back(&in, in.emplace(key, this));
    }

    purgatory& home;
    std::set<std::string> keys;
    std::function<bool()> is_satisfied;
    std::function<void()> completed{};
    std::vector<std::pair<index*, index::iterator>> places{};
};

// Completes the watchers of `key` that are satisfied. They may begin and end any others.
void check(purgatory& p, const std::string& key) {
    std::vector<watcher*> ready;
    for (auto [at, end] = p.watched.equal_range(key); at != end; ++at)
        if (at->second->is_satisfied()) ready.push_back(at->second);
    for (watcher* w : ready) w->leave(), w->join(p.satisfied, key);
    while (!p.satisfied.empty()) {  // a watcher that ends meanwhile leaves
        watcher& w = *p.satisfied.begin()->second;
        w.leave();
        std::exchange(w.completed, {})();  // may destroy it
    }
}

struct record {
    unsigned number;
    std::set<std::string> replicas;  // that have to acknowledge it
    std::chrono::milliseconds limit;
};

// Knows the last record that each replica has acknowledged, and counts how requests ended.
struct broker {
    watcher acknowledged(const record& r) {
        return {home, r.replicas, [this, r] {
                    const auto has = [&](auto& who) { return last[who] >= r.number; };
                    return std::all_of(r.replicas.begin(), r.replicas.end(), has);
                }};
    }

    wheel& timers;
    purgatory& home;
    std::map<std::string, unsigned> last{};
    unsigned completed = 0, expired = 0;
};

// With callbacks.
class request {
public:
    request(broker& b, const record& r) : home_(b), acknowledged_(b.acknowledged(r)) {
        b.timers.arm_after(timeout_, r.limit);
        acknowledged_.watch([this] { end(home_.completed); });
    }

private:
    void on_timeout() { end(home_.expired); }
    void end(unsigned& count) {
        timeout_.cancel();
        acknowledged_.leave();
        ++count;
    }

    broker& home_;
    watcher acknowledged_;
    tvec::timer timeout_{tvec::call<&request::timeout_, &request::on_timeout>};
};

// As a coroutine.
example::task<> produce(broker& b, record r) {
    const bool done = co_await tvec::with_timeout(b.timers, b.acknowledged(r), r.limit);
    ++(done ? b.completed : b.expired);
}

}  // namespace

int main() {
    wheel timers;
    purgatory home;
    broker called{timers, home}, awaited{timers, home};
    std::list<request> requests;
    std::list<example::task<>> tasks;
    std::mt19937 random(1);
    const auto replica = [&] { return std::string(1, static_cast<char>('a' + random() % 5)); };
    for (unsigned number = 1; number <= 2'000; ++number) {
        const record r{number, {replica(), replica()}, std::chrono::milliseconds(random() % 20)};
        requests.emplace_back(called, r);
        tasks.emplace_back(produce(awaited, r)).start();
        tvec::manual_clock::advance(1ms);
        const std::string who = replica();
        called.last[who] = awaited.last[who] = number;
        if (random() % 2 == 0) timers.run();  // the timeouts of this tick first, or its event
        check(home, who);
        timers.run();
    }
    tvec::manual_clock::advance(20ms);
    timers.run();
    std::printf("%u completed, %u expired\n", called.completed, called.expired);
    const bool alike = called.completed == awaited.completed && called.expired == awaited.expired;
    const bool none_left = home.watched.empty() && home.satisfied.empty() && !timers.any_pending();
    return alike && none_left && called.completed + called.expired == 2'000 ? 0 : 1;
}
