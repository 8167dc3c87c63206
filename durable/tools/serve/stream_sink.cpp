// Deliveries as entries of a Redis stream, for the workers of a consumer group.
#include <algorithm>
#include <deque>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "../../src/redis/command.hpp"
#include "../../src/redis/connection.hpp"
#include "../../support/open_store.hpp"
#include "batch_sink.hpp"

namespace timers_tool {

namespace {

using namespace tvec::durable;

// Removes entries that are older than the lease of a claim: their timers come again, or their
// worker has extended the lease and so has the entry already. Answers how many entries are left.
constexpr const char* trim = "local t = redis.call('TIME') "
                             "redis.call('XTRIM', KEYS[1], 'MINID', string.format('%.0f', t[1] * "
                             "1000 + t[2] / 1000 - ARGV[1])) "
                             "return redis.call('XLEN', KEYS[1])";

struct stream_address {
    redis_options server;
    std::string name;
};

// Reads stream:NAME, which is on the server of the store, or stream:HOST:PORT/NAME.
stream_address stream_at(const settings& o) {
    const std::string rest = o.to.substr(7);
    const auto slash = rest.find('/');
    stream_address a;
    if (slash != rest.npos) {
        a = {example::redis_at(rest.substr(0, slash)), rest.substr(slash + 1)};
    } else if (example::is_redis(o.store)) {
        a = {example::redis_at(o.store.substr(6)), rest};
    } else {
        throw std::runtime_error("--to " + o.to +
                                 ": the store is no Redis server: expected "
                                 "stream:HOST:PORT/NAME");
    }
    if (a.name.empty()) throw std::runtime_error("--to " + o.to + ": the stream has no name");
    return a;
}

class stream_sink final : public batch_sink {
public:
    stream_sink(loop& in, const settings& o, completion answered)
        : batch_sink(in, o, std::move(answered)), at_(stream_at(o)),
          to_(redis::addresses_of(at_.server)), lease_(std::to_string(o.lease_ms)) {
        if (epoll_.get() < 0) example::fail("epoll_create1");
        in.watch(epoll_.get(), EPOLLIN, [this](auto) { on_ready(); });
        try_to_connect();
    }
    ~stream_sink() override { in_.forget(epoll_.get()); }

private:
    // The request that a reply answers.
    enum class question { password, group, entry, first_length, length, length_of_batch };

    void connect() override {
        const int error = server_.open(to_[next_++ % to_.size()]);
        if (error != 0) broken("stream: " + redis::trouble(error).text());
    }
    void disconnect() override {
        server_.close();
        asked_.clear();
    }

    void on_opened() {
        const redis_options& o = at_.server;
        if (!o.password.empty() && o.user.empty()) ask(question::password, {"AUTH", o.password});
        if (!o.user.empty()) ask(question::password, {"AUTH", o.user, o.password});
        ask(question::group, {"XGROUP", "CREATE", at_.name, "workers", "0", "MKSTREAM"});
        ask_length(question::first_length);
        server_.flush();
    }

    void send(const std::vector<delivery>& batch) override {
        for (const delivery& d : batch)
            ask(question::entry,
                {"XADD", at_.name, "*", "id", d.token.id, "attempt",
                 std::to_string(d.token.attempt), "due",
                 std::to_string(d.due.time_since_epoch().count()), "body", d.body});
        ask_length(question::length_of_batch);
        server_.flush();
    }
    void look() override {
        ask_length(question::length);
        server_.flush();
    }

    void ask(question what, const redis::command& c) {
        asked_.push_back(what);
        server_.send(c.text());
    }
    void ask_length(question what) { ask(what, {"EVAL", trim, "1", at_.name, lease_}); }

    void on_ready() {
        epoll_event ready{};
        if (epoll_wait(epoll_.get(), &ready, 1, 0) == 1) server_.on_ready(ready.events);
    }

    void on_reply(const redisReply& r) {
        if (asked_.empty()) return broken("stream: the server answers what was not asked");
        const question what = asked_.front();
        asked_.pop_front();
        const std::string_view text = redis::text_of(r);
        const bool is_there = what == question::group && text.starts_with("BUSYGROUP");
        if (r.type == REDIS_REPLY_ERROR && !is_there) return broken("stream: " + std::string(text));
        if (what < question::first_length) return;
        const auto there = static_cast<std::size_t>(std::max(r.integer, 0LL));
        if (what == question::length_of_batch) return took(there);
        counted(there);
        if (what == question::first_length)
            connected();
        else
            flush();
    }

    const stream_address at_;
    const std::vector<redis::address> to_;
    const std::string lease_;
    std::size_t next_ = 0;  // address
    std::deque<question> asked_;
    example::descriptor epoll_{epoll_create1(EPOLL_CLOEXEC)};
    redis::connection server_{
        epoll_.get(),
        at_.server,
        {[this] { on_opened(); }, [this](redis::reply_ptr r) { on_reply(*r); },
         [this](const redis::trouble& why) { broken("stream: " + why.text()); }}};
};

}  // namespace

std::unique_ptr<sink> open_stream(loop& in, const settings& o, sink::completion answered) {
    return std::make_unique<stream_sink>(in, o, std::move(answered));
}

}  // namespace timers_tool
