// A bounded cache whose entries expire: some time after they were written, and earlier if nobody
// uses them. A deadline rounds up, so an entry is found for up to a tick longer, which harms no
// cache. Where an end must come first, as that of a lease in leases.cpp, arm a tick earlier. The
// test moves the clock by hand, beside a cache that scans all its entries.
#include <algorithm>
#include <cstdio>
#include <list>
#include <map>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

namespace {

using wheel = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>>;
constexpr auto time_to_live = 60s, idle_time = 10s;
constexpr std::size_t most_entries = 16;

template <class Timers> class cache {
public:
    explicit cache(Timers& timers) : timers_(timers) {}

    // Returns the value, and pushes the entry back; null if there is none.
    const std::string* find(int key) {
        const auto found = entries_.find(key);
        if (found == entries_.end()) return nullptr;
        entry& e = *found->second;
        const auto now = timers_.now();
        if (now >= timers_.deadline(e.expiry)) return nullptr;  // due, and `run` is late
        push_back(e, now);
        by_use_.splice(by_use_.begin(), by_use_, found->second);
        return &e.value;
    }

    // Writes the value, in the place of the entry that was not used for longest if all are taken.
    void put(int key, std::string value) {
        erase(key);
        if (entries_.size() == most_entries) erase(by_use_.back().key);
        const auto now = timers_.now();
        entry& e = by_use_.emplace_front(*this, key, std::move(value), now + time_to_live);
        entries_[key] = by_use_.begin();
        push_back(e, now);
    }

    void erase(int key) {
        const auto found = entries_.find(key);
        if (found == entries_.end()) return;
        by_use_.erase(found->second);  // its destructor takes the timer out of the wheel
        entries_.erase(found);
    }

    std::size_t size() const { return entries_.size(); }

private:
    struct entry {
        entry(cache& c, int k, std::string v, typename Timers::time_point end)
            : home(c), key(k), value(std::move(v)), dies(end) {}
        void on_expiry() { home.erase(key); }

        cache& home;
        const int key;
        std::string value;
        typename Timers::time_point dies;
        tvec::timer expiry{tvec::call<&entry::expiry, &entry::on_expiry>};
    };

    void push_back(entry& e, typename Timers::time_point now) {
        timers_.arm_at(e.expiry, std::min(now + idle_time, e.dies));
    }

    Timers& timers_;
    std::list<entry> by_use_;  // the last used one first
    std::unordered_map<int, typename std::list<entry>::iterator> entries_;
};

// The same by scans, which look at all entries each time.
struct scanned {
    const std::string* find(int key) {
        const auto found = entries.find(key);
        if (found == entries.end()) return nullptr;
        found->second.used = ++uses;
        found->second.silent = tvec::manual_clock::now() + idle_time;
        return &found->second.value;
    }

    void put(int key, std::string value) {
        entries.erase(key);
        const auto older = [](auto& a, auto& b) { return a.second.used < b.second.used; };
        if (entries.size() == most_entries)
            entries.erase(std::min_element(entries.begin(), entries.end(), older));
        const auto now = tvec::manual_clock::now();
        entries[key] = {std::move(value), ++uses, now + idle_time, now + time_to_live};
    }

    void scan() {
        looks += entries.size();
        const auto now = tvec::manual_clock::now();
        std::erase_if(entries,
                      [=](auto& e) { return now >= std::min(e.second.silent, e.second.dies); });
    }

    struct entry {
        std::string value;
        std::size_t used;
        tvec::manual_clock::time_point silent, dies;
    };
    std::size_t uses = 0, looks = 0;
    std::map<int, entry> entries;
};

}  // namespace

int main() {
    wheel timers;
    cache mine(timers);
    scanned other;
    std::mt19937 random(1);
    unsigned differences = 0, hits = 0;
    for (int step = 0; step < 50'000; ++step) {
        tvec::manual_clock::advance(std::chrono::milliseconds(random() % 300));
        other.scan();
        if (step % 5 != 0) timers.run();  // once in five steps the loop is late
        const int key = static_cast<int>(std::min(random() % 60, random() % 60));
        if (step % 5 == 1) {
            mine.put(key, std::to_string(step));
            other.put(key, std::to_string(step));
        }
        const std::string *const a = mine.find(key), *const b = other.find(key);
        if (!a != !b || (a && *a != *b)) ++differences;
        if (a) ++hits;
    }
    timers.run();
    if (mine.size() != other.entries.size()) ++differences;
    tvec::manual_clock::advance(idle_time);
    timers.run();
    const auto count = timers.wheel().count();
    std::printf("%u hits, %u differences; the wheel visited %llu timers, scans %zu entries\n", hits,
                differences,
                static_cast<unsigned long long>(count.fired + count.moved + count.dropped),
                other.looks);
    return differences == 0 && hits > 0 && mine.size() == 0 ? 0 : 1;
}
