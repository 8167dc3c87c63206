// A process with durable timers in a file, or in a Redis server (redis:SOCKET), or in a PostgreSQL
// database, for the scripts of faults to kill. It puts, cancels, ends, postpones and forgets
// timers. With `--finish` it puts nothing and ends when the store holds no timer any more. It logs
// each answer as a line before anything else happens:
//  * p ID: a put is asked for
//  * P ID DUE: it was stored
//  * c ID: a cancel is asked for
//  * C ID, B ID, U ID: cancelled, had begun, unknown id
//  * F ID ATTEMPT DUE NOW: it was delivered
//  * D ID: it is dead in the end
//  * L TIMES REASON: its connection broke so often
// What it does besides, by its environment:
//  * TVEC_CRASHES: one handler in 300 ends the process, unless it is to finish, and that of a timer
//    that every twentieth process puts does so each time. No more is put while much is near its
//    deadline: what a crash leaves behind comes one by one
//  * TVEC_READS: it opens, reads and closes its own file now and then
//  * TVEC_SHARED: its file is open for other connections
//  * TVEC_TRIES: so often it tries to open the store
//  * TVEC_BODY: its bodies have so many bytes: large ones are put seldom, and have long leases
//  * TVEC_INSTALL: it creates the tables in a PostgreSQL database, with so many shards
//  * TVEC_CLOCK: the store's clock says what is early, and not this machine's
//  * TVEC_LEAVES_ENDS: it ends no delivery: another program does
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "../support/open_store.hpp"
#include "tvec/durable/timers.hpp"

namespace {

using namespace std::chrono_literals;
using namespace tvec::durable;

// What finishes meets no fault any more, and a busy machine takes over a second to answer: leases
// that are over before the answers would be taken again and again, and deliver nothing.
options quick(bool is_last) {
    options o;
    o.horizon = 2s;
    o.claim_lease = is_last ? 3s : 500ms;
    o.shard_lease = is_last ? 3s : 1s;
    o.sweep = 300ms;
    o.retry = 200ms;
    if (std::getenv("TVEC_CRASHES") || std::getenv("TVEC_BODY")) o.attempts = 3;
    if (std::getenv("TVEC_BODY")) o.claim_lease = 10s;
    return o;
}

std::size_t body_size() {
    const char* const size = std::getenv("TVEC_BODY");
    return size == nullptr ? 4 : std::stoul(size);
}

// After `silence` without a byte a connection counts as broken.
std::unique_ptr<store> open_store(const std::string& where, [[maybe_unused]] duration silence) {
#ifdef TVEC_HAS_REDIS
    if (where.starts_with("redis:")) {
        redis_options o = example::redis_at(where);
        o.shards = 6;
        o.silence = std::getenv("TVEC_BODY") ? 300ms : silence;  // less than one of them takes
        o.replica_limit = o.silence / 2;
        o.slowest = 500ms;
        const char* const replicas = std::getenv("TVEC_WAIT_REPLICAS");
        o.wait_replicas = replicas == nullptr ? 0 : 1;
        return std::make_unique<redis_store>(o);
    }
#endif
#ifdef TVEC_HAS_POSTGRES
    if (example::is_postgres(where)) {
        postgres_options o = example::postgres_at(where);
        if (const char* const shards = std::getenv("TVEC_INSTALL")) {
            o.shards = static_cast<unsigned>(std::stoul(shards));
            postgres::install(o);
        }
        o.silence = silence;
        o.slowest = 500ms;
        return std::make_unique<postgres_store>(o);
    }
#endif
    if (std::getenv("TVEC_SHARED"))
        return std::make_unique<sqlite_store>(where, sqlite_options{.shares_file = true});
    return example::open_store(where);
}

// A server that was killed may not be there again yet.
std::unique_ptr<store> open_patiently(const std::string& where, duration silence) {
    const char* const most = std::getenv("TVEC_TRIES");
    for (int tries = 1;; ++tries) try {
            return open_store(where, silence);
        } catch (const std::system_error&) {
            if (tries >= (most == nullptr ? 200 : std::stoi(most))) throw;
            usleep(50'000);
        }
}

class process {
public:
    process(const char* where, const char* log, std::uint64_t run, bool is_last)
        : log_(open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)), run_(run), random_(run),
          where_(where), store_(open_patiently(where, is_last ? 10s : 1s)),
          timers_(
              wheel_, *store_, [this](delivery d) { on(std::move(d)); }, quick(is_last)) {}

    void put_and_cancel() {
        auto last = std::chrono::steady_clock::now();
        for (const char* const id : beats)
            if (has_beats_)
                static_cast<void>(timers_.put({id, timers_.now(), body_, 200ms}, existing::keep));
        for (;;) {
            turn();
            if (std::chrono::steady_clock::now() - last < pause_)
                continue;  // there are others here
            if (timers_.gauges().asked > 200)
                continue;  // behind more calls, leases would be renewed too late on a slow machine
            if (crashes_ && (!timers_.ready() || timers_.gauges().near > 2'000)) continue;
            last = std::chrono::steady_clock::now();
            put(std::to_string(run_) + "-" + std::to_string(++puts_));
            if (random_() % 4 == 0) cancel();
            if (puts_ == 1 && run_ % 20 == 3 && crashes_) put("poison-" + std::to_string(run_));
            if (puts_ % 16 == 0 && std::getenv("TVEC_READS")) read_own_file();
        }
    }

    void finish() {
        is_finishing_ = true;
        for (const char* const id : beats) static_cast<void>(timers_.cancel(id));
        bool is_empty = false, is_asked = false;
        while (!is_empty) {
            turn();
            if (is_asked) continue;
            is_asked = true;
            static_cast<void>(timers_.count([&](standing how, totals t) {
                is_empty = how == standing::done && t.waiting == 0;
                is_asked = false;
            }));
        }
        list_the_dead();
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

    void list_the_dead() {
        bool is_listed = false;
        static_cast<void>(
            timers_.list(timer_set::dead, {}, 10'000, [&](standing, const auto& dead) {
                for (const stored_timer& t : dead) note("D %s\n", t.id.c_str());
                is_listed = true;
            }));
        while (!is_listed) turn();
        for (const auto& [reason, times] : store_->broken_connections())
            note("L %llu %s\n", static_cast<unsigned long long>(times), reason.c_str());
    }

    // The time by which a delivery is early.
    time_point today() {
        if (std::getenv("TVEC_CLOCK")) return timers_.now();
        return std::chrono::floor<duration>(std::chrono::system_clock::now());
    }

    // As a copy for a backup does, or a checksum.
    void read_own_file() {
        std::ifstream file(where_, std::ios::binary);
        char part[4096];
        while (file.read(part, sizeof part)) continue;
    }

    void put(const std::string& id) {
        const time_point due = timers_.now() + duration(random_() % 1'500);
        note("p %s\n", id.c_str());
        static_cast<void>(timers_.put({id, due, body_}, existing::keep, [=, this](put_result r) {
            if (r != put_result::stored) return;
            note("P %s %lld\n", id.c_str(), count_of(due));
            if (!id.starts_with("poison")) stored_.push_back(id);
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
        note("%c %s %u %lld %lld\n", d.every == duration::zero() ? 'F' : 'H', d.token.id.c_str(),
             d.token.attempt, count_of(d.due), count_of(today()));
        if (d.body != body_) std::_Exit(4);
        if (d.every != duration::zero()) return timers_.done(d.token);
        if (d.token.id.starts_with("poison") ||
            (crashes_ && !is_finishing_ && random_() % 300 == 0))
            std::_Exit(9);
        if (leaves_ends_) return;
        const auto what = random_() % 50;
        if (what == 0 && !is_finishing_) return;  // forgotten: its lease has to bring it back
        if (what == 1)
            static_cast<void>(timers_.again(d.token, timers_.now() + 100ms));
        else
            timers_.done(d.token);
    }

    int log_;
    std::uint64_t run_, puts_ = 0;
    std::mt19937_64 random_;
    bool crashes_ = std::getenv("TVEC_CRASHES") != nullptr, is_finishing_ = false;
    // With TVEC_BEATS, timers that come again and again until the last process.
    static constexpr const char* beats[] = {"beat-1", "beat-2", "beat-3"};
    bool has_beats_ = std::getenv("TVEC_BEATS") != nullptr;
    bool leaves_ends_ = std::getenv("TVEC_LEAVES_ENDS") != nullptr;
    std::string body_ = std::string(body_size(), 'b');
    duration pause_ = std::max(duration(1), duration(body_.size() / 600));
    tvec::clocked_wheel<> wheel_;
    std::string where_;
    std::unique_ptr<store> store_;
    timers<> timers_;
    std::vector<std::string> stored_;
};

}  // namespace

int main(int count, char** words) try {
    if (count < 4) return 2;
    const bool is_last = count > 4;
    process p(words[1], words[2], std::stoull(words[3]), is_last);
    if (is_last)
        p.finish();
    else
        p.put_and_cancel();
    return 0;
} catch (const std::exception& e) {
    std::fprintf(stderr, "to_be_killed: %s\n", e.what());
    return 1;
}
