// Deliveries as entries of a Redis stream, for the workers of a consumer group.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "../../src/redis/command.hpp"
#include "../../src/redis/connection.hpp"
#include "../../src/redis/slot_map.hpp"
#include "../../support/open_store.hpp"
#include "batch_sink.hpp"
#include "stream_script.hpp"

namespace timers_tool {

namespace {

using namespace tvec::durable;

// Bytes of deliveries in one command, and entries in one page. The server does nothing else
// meanwhile.
constexpr std::size_t bytes_together = 262'144, entries_together = 32;
// Bytes that deliveries take on a server that is out of memory, about, besides one delivery.
constexpr std::size_t bytes_without_memory = 65'536;
constexpr std::chrono::milliseconds look_pause{500};

struct stream_address {
    redis_options server;
    std::string name;
};

// The password in the environment is that of the store's server, and goes to no other one.
bool is_server_of_store(const redis_options& a, const std::string& store) {
    if (!example::is_redis(store)) return true;  // there is no other it could be for
    const redis_options s = example::redis_at(store);
    return a.socket.empty() && s.socket.empty() && a.host == s.host && a.port == s.port &&
           a.tls.on == s.tls.on;
}

// Reads stream:NAME, which is on the server of the store, or stream:HOST:PORT/NAME, with `rediss:`
// before HOST if that server is reached by TLS.
stream_address stream_at(const settings& o) {
    const std::string rest = o.to.substr(7);
    const auto slash = rest.find('/');
    stream_address a;
    if (slash != rest.npos) {
        const std::string server = rest.substr(0, slash);
        const bool has_tls = server.starts_with("rediss:");
        a = {example::redis_at(has_tls ? server : "redis:" + server), rest.substr(slash + 1)};
        if (!is_server_of_store(a.server, o.store)) a.server.password.clear();
    } else if (example::is_redis(o.store)) {
        a = {example::redis_at(o.store), rest};
    } else {
        throw std::runtime_error(
            fault_of_place(o.to, "the store is no Redis server: expected stream:HOST:PORT/NAME"));
    }
    if (a.name.empty()) throw std::runtime_error(fault_of_place(o.to, "the stream has no name"));
    return a;
}

// The number of an entry: milliseconds and a count.
using entry_number = std::pair<std::uint64_t, std::uint64_t>;

entry_number number_of(std::string_view text) {
    entry_number n;
    const char* const end = text.data() + text.size();
    const auto ms = std::from_chars(text.data(), end, n.first);
    if (ms.ptr != end) std::from_chars(ms.ptr + 1, end, n.second);
    return n;
}
std::string text_of(const entry_number& n) {
    return std::to_string(n.first) + '-' + std::to_string(n.second);
}

class stream_sink final : public batch_sink {
public:
    stream_sink(loop& in, const settings& o, completion answered)
        : batch_sink(in, o, std::move(answered)), at_(stream_at(o)),
          seeds_(redis::addresses_of(at_.server)), to_(seeds_), lease_(std::to_string(o.lease_ms)) {
        if (epoll_.get() < 0) example::fail("epoll_create1");
        in.watch(epoll_.get(), EPOLLIN, [this](auto) { on_ready(); });
        in.wheel().arm_after(beat_, look_pause);
        try_to_connect();
    }
    ~stream_sink() override { in_.forget(epoll_.get()); }

    // Removes its entry, if no worker has it.
    void withdraw(const token& t) override {
        batch_sink::withdraw(t);
        const auto found =
            std::ranges::find_if(untaken_, [&t](const auto& e) { return e.second.token == t; });
        if (found == untaken_.end() || !is_connected()) return;
        ask(question::other, {"XDEL", at_.name, text_of(found->first)});
        untaken_.erase(found);
    }
    void look_through(shown show) override {
        if (!is_connected() || show_) return;
        show_ = std::move(show);
        shown_up_to_ = {};
        ask_page(text_of(shown_up_to_));
        server_.flush();
    }
    std::optional<untaken_delivery> untaken(const std::string& prefix) const override {
        auto first = batch_sink::untaken(prefix);
        for (const auto& [number, d] : untaken_) keep_first(first, prefix, d.token, d.due);
        return first;
    }

private:
    // The request that a reply answers.
    enum class question { other, nodes, first_look, look, batch, page };

    void connect() override {
        const redis::address to = moved_to_ ? *moved_to_ : to_[next_++ % to_.size()];
        moved_to_.reset();
        host_ = to.host;
        const int error = server_.open(to);
        if (error != 0) broken("stream: " + redis::trouble(error).text());
    }
    void disconnect() override {
        server_.close();
        asked_.clear();
        show_ = {};
    }

    // A server without a cluster, or one that does not permit the question, answers with an error.
    void on_opened() {
        const redis_options& o = at_.server;
        if (!o.password.empty() && o.user.empty()) ask(question::other, {"AUTH", o.password});
        if (!o.user.empty()) ask(question::other, {"AUTH", o.user, o.password});
        ask(question::nodes, {"CLUSTER", "SLOTS"});
        ask_look(question::first_look);
        server_.flush();
    }

    std::size_t most_bytes() const override {
        return is_out_of_memory_ ? bytes_without_memory : bytes_together;
    }
    // A server that is out of memory takes a few deliveries all the same: their ends free memory.
    void send(const std::vector<delivery>& batch) override {
        redis::command c = script(is_out_of_memory_ ? without_memory : with_memory, "put");
        c.add(is_out_of_memory_ ? bytes_without_memory : 0);
        for (const delivery& d : batch)
            c.add(d.token.id)
                .add(d.token.attempt)
                .add(d.due.time_since_epoch().count())
                .add(d.body);
        ask(question::batch, c);
        server_.flush();
    }
    void look() override {
        ask_look(question::look);
        server_.flush();
    }
    void on_beat() {
        in_.wheel().arm_after(beat_, look_pause);
        look_now();
    }

    void ask(question what, const redis::command& c) {
        asked_.push_back(what);
        server_.send(c.text());
    }
    redis::command script(const char* first_line, const char* what) const {
        return {"EVAL", std::string(first_line) + stream_script, "1", at_.name, what};
    }
    void ask_look(question what) { ask(what, script(without_memory, "look").add(lease_)); }
    void ask_page(std::string_view after) {
        ask(question::page,
            script(without_memory, "show").add(lease_).add(after).add(entries_together));
    }

    void on_ready() {
        epoll_event ready{};
        if (epoll_wait(epoll_.get(), &ready, 1, 0) == 1) server_.on_ready(ready.events);
    }

    void on_reply(const redisReply& r) {
        if (asked_.empty()) return broken("stream: the server answers what was not asked");
        const question what = asked_.front();
        asked_.pop_front();
        if (what == question::nodes) return on_nodes(r);
        if (r.type == REDIS_REPLY_ERROR) return on_error(what, redis::text_of(r));
        if (what == question::batch) on_batch(r);
        if (what == question::first_look || what == question::look) on_look(what, r);
        if (what == question::page) on_page(r);
    }

    // The stream may lie on any node of a cluster, and may move.
    void on_error(question what, std::string_view text) {
        if (what == question::batch && text.starts_with("OOM")) {
            is_out_of_memory_ = true;
            return put_back(most_);
        }
        const redis::redirection way = redis::redirection_of(text, host_);
        if (way.what == redis::redirection::kind::moved) {
            const auto found = addresses_at(way.to);
            if (!found.empty()) moved_to_ = found.front();
        }
        broken("stream: " + std::string(text));
    }

    void on_nodes(const redisReply& r) {
        const auto map = redis::slot_map::parsed(r, host_);
        if (!map) return;
        to_ = seeds_;
        for (const redis::endpoint& e : map->nodes())
            std::ranges::copy(addresses_at(e), std::back_inserter(to_));
    }
    // Returns no address if the name of a node is unknown.
    std::vector<redis::address> addresses_at(const redis::endpoint& e) const {
        redis_options o = at_.server;
        o.socket.clear();
        o.host = e.host;
        o.port = e.port;
        try {
            return redis::addresses_of(o);
        } catch (const std::system_error&) {
            return {};
        }
    }

    void on_batch(const redisReply& r) {
        redis::fields f(r);
        const auto there = static_cast<std::size_t>(f.number());
        const bool was_room = f.number() == 1;
        if (was_room)
            for (const delivery& d : sent()) untaken_[number_of(f.text())] = {d.token, d.due};
        if (!f.is_whole()) return broken("stream: an answer is not as it should be");
        if (!was_room) return put_back(most_);
        is_out_of_memory_ = false;  // the next batch finds out
        took(there);
    }

    void on_look(question what, const redisReply& r) {
        redis::fields f(r);
        const auto there = static_cast<std::size_t>(f.number());
        const entry_number last = number_of(f.text());
        if (!f.is_whole()) return broken("stream: an answer is not as it should be");
        untaken_.erase(untaken_.begin(), untaken_.upper_bound(last));
        counted(there);
        if (what == question::look) return flush();
        connected();
        look_through([](const token&, bool) {});  // learns what is there
    }

    void on_page(const redisReply& r) {
        redis::fields f(r);
        const std::string after = f.text();
        forget_up_to(after);
        while (!f.at_end()) {
            const entry_number entry = number_of(f.text());
            token t{f.text(), 0};
            t.attempt = static_cast<std::uint32_t>(f.number());
            const time_point due(duration(f.number()));
            const bool is_taken = f.number() == 1;
            if (!f.is_whole()) break;
            if (!is_taken) untaken_[entry] = {t, due};
            show_(t, is_taken);
        }
        if (!f.is_whole() || after.empty())
            show_ = {};
        else
            ask_page(after);
        server_.flush();
    }

    // Forgets the entries that a page may show anew: it ends with this one, or with the stream.
    void forget_up_to(const std::string& last) {
        const auto from = untaken_.upper_bound(shown_up_to_);
        if (!last.empty()) shown_up_to_ = number_of(last);
        untaken_.erase(from, last.empty() ? untaken_.end() : untaken_.upper_bound(shown_up_to_));
    }

    const stream_address at_;
    const std::vector<redis::address> seeds_;
    std::vector<redis::address> to_;  // the seeds, and the nodes of a cluster
    std::optional<redis::address> moved_to_;
    std::string host_;  // it is connected to, or tries
    const std::string lease_;
    std::size_t next_ = 0;  // address
    std::deque<question> asked_;
    bool is_out_of_memory_ = false;
    shown show_;  // empty: no look through the entries is under way
    entry_number shown_up_to_{};
    // What no worker has taken: of this process, and what others had put in when it was last shown.
    std::map<entry_number, untaken_delivery> untaken_;
    tvec::timer beat_{tvec::call<&stream_sink::beat_, &stream_sink::on_beat>};
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
