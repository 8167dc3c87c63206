// Durable timers in a Redis server, beside what people write instead: a sorted set and a hash,
// written in pipelines and polled for what is due. The server is given, and empty: scripts/bench
// starts one. Rows: puts (stored per second), drain (due at once: ended per second), lateness (at a
// rate), many (bytes per timer, until the near window is in the wheel, and idle). All with what the
// server uses of a processor.
#include <hiredis/hiredis.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "../examples/support/command_line.hpp"
#include "../examples/support/figures.hpp"
#include "../examples/support/program.hpp"
#include "durable_load.hpp"
#include "tvec/durable/redis_store.hpp"

namespace {

using namespace std::chrono_literals;
using namespace tvec::durable;
using namespace bench;

struct settings : bench::load {
    std::string socket;
    std::vector<std::string> rows{"puts", "drain", "lateness", "many"};
    std::uint64_t puts = 200'000, drained = 100'000, stored = 1'000'000;
    unsigned poll_ms = 100, repetitions = 3, days = 365, replicas = 0;
};

// --- by hand ------------------------------------------------------------------------------------

// A connection that waits for its answers.
class plain_redis {
public:
    explicit plain_redis(const std::string& socket) : c_(redisConnectUnix(socket.c_str())) {
        if (c_ == nullptr || c_->err != 0) throw std::runtime_error(socket + ": no server");
    }
    ~plain_redis() { redisFree(c_); }
    plain_redis(const plain_redis&) = delete;
    plain_redis& operator=(const plain_redis&) = delete;

    void say(std::vector<std::string_view> words) {
        std::vector<const char*> text;
        std::vector<std::size_t> sizes;
        for (const std::string_view w : words) {
            text.push_back(w.data());
            sizes.push_back(w.size());
        }
        redisAppendCommandArgv(c_, static_cast<int>(words.size()), text.data(), sizes.data());
        ++unanswered_;
    }
    // The answers to all that was said.
    template <class F> void hear(F f) {
        for (; unanswered_ > 0; --unanswered_) {
            void* r = nullptr;
            if (redisGetReply(c_, &r) != REDIS_OK) throw std::runtime_error(c_->errstr);
            const std::unique_ptr<redisReply, void (*)(void*)> reply(static_cast<redisReply*>(r),
                                                                     freeReplyObject);
            if (reply->type == REDIS_REPLY_ERROR) throw std::runtime_error(reply->str);
            f(*reply);
        }
    }
    void hear() {
        hear([](const redisReply&) {});
    }
    // What INFO says of it.
    double fact(const std::string& name) {
        say({"INFO"});
        double value = 0;
        hear([&](const redisReply& r) {
            const std::string_view all(r.str, r.len);
            const auto at = all.find("\n" + name + ":");
            if (at != all.npos) std::from_chars(&all[at + name.size() + 2], r.str + r.len, value);
        });
        return value;
    }
    double cpu() { return fact("used_cpu_user") + fact("used_cpu_sys"); }
    void clear() {
        say({"FLUSHALL"});
        hear();
    }

private:
    redisContext* c_;
    std::size_t unanswered_ = 0;
};

class sorted_set {
public:
    explicit sorted_set(const std::string& socket) : redis_(socket) {}

    void add(const std::string& id, time_point due) {
        redis_.say({"ZADD", "due", std::to_string(due.time_since_epoch().count()), id});
    }
    void put(const std::string& id, time_point due) {
        add(id, due);
        redis_.say({"HSET", "job", id, body});
    }
    void finish() { redis_.hear(); }

    // Whoever removes it from the set handles it, as the articles have it.
    template <class F> std::size_t poll(F handle) {
        redis_.say({"ZRANGEBYSCORE", "due", "-inf",
                    std::to_string(today().time_since_epoch().count()), "WITHSCORES", "LIMIT", "0",
                    "1000"});
        std::vector<std::pair<std::string, time_point>> due;
        redis_.hear([&](const redisReply& r) {
            for (std::size_t i = 0; i + 1 < r.elements; i += 2)
                due.emplace_back(std::string(r.element[i]->str, r.element[i]->len),
                                 time_point(duration(std::stoll(r.element[i + 1]->str))));
        });
        for (const auto& [id, when] : due) {
            redis_.say({"ZREM", "due", id});
            redis_.say({"HGET", "job", id});
        }
        redis_.hear();
        for (const auto& [id, when] : due) {
            handle(when);
            redis_.say({"HDEL", "job", id});
        }
        redis_.hear();
        return due.size();
    }

private:
    plain_redis redis_;
};

// --- tvec ---------------------------------------------------------------------------------------

class on_redis {
public:
    on_redis(const settings& s, on_tvec::handler h)
        : store_(options(s)), t_(store_, std::move(h)) {}
    on_tvec* operator->() { return &t_; }
    void own_all() {
        while (!t_.all().ready() || t_.all().now_near().shards < store_.traits().shards) t_.turn();
    }
    // Gives the shards back.
    void leave() {
        bool is_over = false;
        t_.all().stop([&] { is_over = true; });
        while (!is_over) t_.turn();
    }

private:
    static redis_options options(const settings& s) {
        redis_options o;
        o.socket = s.socket;
        o.wait_replicas = s.replicas;
        return o;
    }
    redis_store store_;
    on_tvec t_;
};

// --- rows ---------------------------------------------------------------------------------------

// How fast it was, and what it cost both sides.
struct figures {
    double per_second, own_us, server_us;

    std::string text() const {
        return fmt::format("{:.0f}/s ({:.1f} + {:.1f} us)", per_second, own_us, server_us);
    }
};

template <class Work> figures measure(const settings& s, std::uint64_t n, Work work) {
    plain_redis server(s.socket);
    const double its = server.cpu(), own = example::cpu_seconds(RUSAGE_SELF);
    const double rate = per_second(n, work);
    const double each = 1e6 / static_cast<double>(n);
    return {rate, (example::cpu_seconds(RUSAGE_SELF) - own) * each, (server.cpu() - its) * each};
}

// In pipelines of a thousand.
template <class Put> figures by_hand(const settings& s, std::uint64_t n, Put put) {
    plain_redis(s.socket).clear();
    sorted_set set(s.socket);
    return measure(s, n, [&] {
        for (std::uint64_t i = 0; i < n; ++i) {
            put(set, i);
            if (i % 1'000 == 999) set.finish();
        }
        set.finish();
    });
}

void measure_puts(const settings& s) {
    plain_redis(s.socket).clear();
    on_redis t(s, [](const delivery&) {});
    const auto due = [begin = today() + 1h](std::uint64_t n) { return begin + duration(n / 50); };
    const figures tvec = measure(s, s.puts, [&] {
        t->put(s.puts, 20'000, [&](std::uint64_t n) {
            return record{id_of(n, false), due(n), body};
        });
    });
    t.leave();
    const figures bare = by_hand(
        s, s.puts, [&](sorted_set& set, std::uint64_t n) { set.add(id_of(n, false), due(n)); });
    const figures whole = by_hand(
        s, s.puts, [&](sorted_set& set, std::uint64_t n) { set.put(id_of(n, false), due(n)); });
    fmt::print("puts: tvec {}; pipelines of 1000: ZADD {}, ZADD and HSET {}: {:.2f} x, {:.2f} x\n",
               tvec.text(), bare.text(), whole.text(), tvec.per_second / bare.per_second,
               tvec.per_second / whole.per_second);
}

void measure_drain(const settings& s) {
    std::uint64_t came = 0;
    plain_redis(s.socket).clear();
    {
        on_redis t(s, [&](const delivery&) { ++came; });
        t.own_all();
        const time_point due = t->all().now() + 3s;
        t->put(s.drained, 20'000, [&](std::uint64_t n) {
            return record{id_of(n, false), due, body};
        });
        while (t->all().now() < due - 50ms) t->turn(1);
        const figures f = measure(s, s.drained, [&] {
            while (t->all().count().ended < s.drained) t->turn();
        });
        fmt::print("drain: tvec {}\n", f.text());
        t.leave();
    }
    by_hand(s, s.drained,
            [&](sorted_set& set, std::uint64_t n) { set.put(id_of(n, false), today()); });
    sorted_set set(s.socket);
    const figures f = measure(s, s.drained, [&] {
        while (set.poll([](time_point) {}) != 0) continue;
    });
    fmt::print("drain: sorted set {}\n", f.text());
}

struct meter {
    explicit meter(const std::string& socket) : server(socket) {}
    void print(const char* what, const tvec::lateness_histogram& late) {
        const double seconds = seconds_of(steady::now() - begun);
        print_lateness(what, late, (example::cpu_seconds(RUSAGE_SELF) - own) / seconds);
        fmt::print("lateness, {:<18} server {:.1f} % of a core\n", what,
                   100 * (server.cpu() - its) / seconds);
    }

    plain_redis server;
    double own = example::cpu_seconds(RUSAGE_SELF), its = server.cpu();
    steady::time_point begun = steady::now();
};

tvec::lateness_histogram lateness_of_tvec(const settings& s) {
    plain_redis(s.socket).clear();
    tvec::lateness_histogram late;
    on_redis t(s,
               [&](const delivery& d) { late.record(std::chrono::system_clock::now() - d.due); });
    t.own_all();
    meter m(s.socket);
    arrivals a(s);
    while (!a.over() || late.count() < a.sent()) {
        a.run([&](std::string id, time_point due) { t->put({std::move(id), due, body}); });
        t->turn(2);
    }
    m.print("tvec", late);
    t.leave();
    return late;
}

tvec::lateness_histogram lateness_of_polling(const settings& s) {
    plain_redis(s.socket).clear();
    tvec::lateness_histogram late;
    sorted_set set(s.socket);
    meter m(s.socket);
    auto next_poll = steady::now();
    arrivals a(s);
    while (!a.over() || late.count() < a.sent()) {
        a.run([&](const std::string& id, time_point due) { set.put(id, due); });
        set.finish();
        if (steady::now() >= next_poll) {
            next_poll += std::chrono::milliseconds(s.poll_ms);
            while (set.poll([&](time_point due) {
                late.record(std::chrono::system_clock::now() - due);
            }) == 1'000)
                continue;
        }
        poll(nullptr, 0, 1);
    }
    m.print(fmt::format("polled every {} ms", s.poll_ms).c_str(), late);
    return late;
}

void measure_lateness(const settings& s) {
    const double ours = seconds_of(lateness_of_tvec(s).quantile(0.5));
    const double theirs = seconds_of(lateness_of_polling(s).quantile(0.5));
    fmt::print("lateness, p50 of polling / tvec: {:.0f}\n", theirs / ours);
}

void measure_many(const settings& s) {
    plain_redis server(s.socket);
    server.clear();
    const double empty = server.fact("used_memory");
    const time_point begin = today() + 30s;
    {
        on_redis t(s, [](const delivery&) {});
        t->put(s.stored, 20'000, [&](std::uint64_t n) {
            const auto span = static_cast<std::uint64_t>(duration(24h * s.days).count());
            return record{id_of(n, true), begin + duration((n * 11400714819323198485ULL) % span),
                          body};
        });
        t.leave();
    }
    fmt::print("many: {} stored over {} days: {:.1f} bytes per timer\n", s.stored, s.days,
               (server.fact("used_memory") - empty) / static_cast<double>(s.stored));
    for (unsigned i = 0; i < s.repetitions; ++i) {
        const auto begun = steady::now();
        on_redis t(s, [](const delivery&) {});
        t.own_all();
        fmt::print("many: until {} are in the wheel: {:.1f} ms\n", t->all().now_near().near,
                   seconds_of(steady::now() - begun) * 1e3);
        t.leave();
    }
    on_redis t(s, [](const delivery&) {});
    t.own_all();
    const double own = example::cpu_seconds(RUSAGE_SELF), its = server.cpu();
    const auto begun = steady::now();
    while (steady::now() < begun + std::chrono::seconds(s.seconds)) t->turn(500);
    const double seconds = seconds_of(steady::now() - begun);
    fmt::print("many: idle {:.3f} % of a core, server {:.3f} %\n",
               100 * (example::cpu_seconds(RUSAGE_SELF) - own) / seconds,
               100 * (server.cpu() - its) / seconds);
}

// ------------------------------------------------------------------------------------------------

// It is cleared again and again.
void insist_on_an_empty_server(const std::string& socket) {
    plain_redis server(socket);
    server.say({"DBSIZE"});
    server.hear([](const redisReply& r) {
        if (r.integer != 0)
            throw std::runtime_error("there is something in the server, which would go");
    });
}

int run(const settings& s) {
    insist_on_an_empty_server(s.socket);
    const auto has = [&](const char* row) { return std::ranges::count(s.rows, row) != 0; };
    for (unsigned i = 0; i < s.repetitions; ++i) {
        if (has("puts")) measure_puts(s);
        if (has("drain")) measure_drain(s);
        if (has("lateness")) measure_lateness(s);
        example::flush_output();
    }
    if (has("many")) measure_many(s);
    plain_redis(s.socket).clear();
    return 0;
}

settings parse(int argc, char** argv) {
    settings s;
    example::command_line line{
        "Measures durable timers in a Redis server beside a sorted set that is written and polled "
        "by hand.\nThe server must be empty; what it keeps on which disk decides: "
        "scripts/bench --durable-redis starts one.",
        "durable_redis"};
    line.add_text("--socket", s.socket, "where the server listens, in the file system");
    line.add_choices("--rows", s.rows, {"puts", "drain", "lateness", "many"}, "what is measured");
    line.add_number("--puts", s.puts, 1'000, 100'000'000, "puts: how many");
    line.add_number("--drained", s.drained, 1'000, 150'000, "drain: how many are due at once");
    line.add_number("--rate", s.rate, 1, 1'000'000, "lateness: timers per second");
    line.add_number("--seconds", s.seconds, 1, 3'600, "lateness, idle: how long");
    line.add_number("--poll-ms", s.poll_ms, 1, 10'000, "lateness: how often the set is polled");
    line.add_number("--stored", s.stored, 1, 1'000'000'000, "many: how many are stored");
    line.add_number("--days", s.days, 1, 36'500, "many: over how many days they are due");
    line.add_number("--replicas", s.replicas, 0, 9, "tvec: how many replicas it waits for");
    line.add_number("--repetitions", s.repetitions, 1, 1'000, "how often");
    line.parse_or_exit(argc, argv);
    return s;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("durable_redis", [&] { return run(parse(argc, argv)); });
}
