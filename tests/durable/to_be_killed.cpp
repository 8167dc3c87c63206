// A process with durable timers in a file, for faults.py to kill: it puts, cancels, ends, postpones
// and forgets, and writes what it was answered into a log, a line at a time, before anything else
// happens. With `--finish` it puts nothing and ends when the file holds no timer any more.
//   p ID        a put is asked for            P ID DUE             it was stored
//   c ID        a cancel is asked for         C ID, B ID, U ID     cancelled, had begun, unknown id
//   F ID ATTEMPT DUE NOW                      it was delivered
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "tvec/durable/sqlite_store.hpp"
#include "tvec/durable/timers.hpp"

namespace {

using namespace std::chrono_literals;
using namespace tvec::durable;

options quick() {
    options o;
    o.horizon = 2s;
    o.claim_lease = 500ms;
    return o;
}

class process {
public:
    process(const char* file, const char* log, std::uint64_t run)
        : log_(open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)), run_(run), random_(run),
          store_(file), timers_(
                            wheel_, store_, [this](delivery d) { on(std::move(d)); }, quick()) {}

    void put_and_cancel() {
        for (;;) {
            turn();
            for (int i = 0; i < 3; ++i) put();
            if (random_() % 2) cancel();
        }
    }

    void finish() {
        bool is_empty = false, is_asked = false;
        while (!is_empty) {
            turn();
            if (is_asked) continue;
            is_asked = true;
            static_cast<void>(timers_.count([&](standing, totals t) {
                is_empty = t.waiting == 0;
                is_asked = false;
            }));
        }
    }

private:
    template <class... Parts> void note(const char* format, Parts... parts) {
        char line[128];
        const int n = std::snprintf(line, sizeof line, format, parts...);
        if (write(log_, line, static_cast<std::size_t>(n)) != n) std::_Exit(3);
    }

    static long long count_of(time_point t) { return t.time_since_epoch().count(); }

    void turn() {
        pollfd watched{timers_.fd(), POLLIN, 0};
        poll(&watched, 1, 1);
        wheel_.run(1024);
        timers_.run();
    }

    void put() {
        const std::string id = std::to_string(run_) + "-" + std::to_string(++puts_);
        const time_point due = timers_.now() + duration(random_() % 1'500);
        note("p %s\n", id.c_str());
        static_cast<void>(timers_.put({id, due, "body"}, existing::keep, [=, this](put_result r) {
            if (r != put_result::stored) return;
            note("P %s %lld\n", id.c_str(), count_of(due));
            stored_.push_back(id);
        }));
    }

    void cancel() {
        if (stored_.empty()) return;
        const std::string id = stored_[random_() % stored_.size()];
        note("c %s\n", id.c_str());
        static_cast<void>(timers_.cancel(id, [=, this](cancel_result r) {
            const char* const answers = "CBU";
            if (r <= cancel_result::unknown_id)
                note("%c %s\n", answers[static_cast<int>(r)], id.c_str());
        }));
    }

    void on(delivery d) {
        note("F %s %u %lld %lld\n", d.which.id.c_str(), d.which.attempt, count_of(d.due),
             count_of(timers_.now()));
        const auto what = random_() % 50;
        if (what == 0) return;  // forgotten: its lease has to bring it back
        if (what == 1)
            static_cast<void>(timers_.again(d.which, timers_.now() + 100ms));
        else
            timers_.done(d.which);
    }

    int log_;
    std::uint64_t run_, puts_ = 0;
    std::mt19937_64 random_;
    tvec::clocked_wheel<> wheel_;
    sqlite_store store_;
    timers<> timers_;
    std::vector<std::string> stored_;
};

}  // namespace

int main(int count, char** words) try {
    if (count < 4) return 2;
    process p(words[1], words[2], std::stoull(words[3]));
    if (count > 4)
        p.finish();
    else
        p.put_and_cancel();
    return 0;
} catch (const std::exception& e) {
    std::fprintf(stderr, "to_be_killed: %s\n", e.what());
    return 1;
}
