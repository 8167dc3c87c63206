// Timers in a Redis server, which is given, and empty; by hand: a sorted set and a hash.
#pragma once

#include <hiredis/hiredis.h>

#include <charconv>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "load.hpp"
#include "tvec/durable/redis_store.hpp"

namespace bench {

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
    long long count() {
        long long keys = 0;
        say({"DBSIZE"});
        hear([&](const redisReply& r) { keys = r.integer; });
        return keys;
    }
    // Returns a value of INFO.
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

private:
    redisContext* c_;
    std::size_t unanswered_ = 0;
};

class sorted_set : public by_hand {
public:
    // Without bodies there is the set alone.
    sorted_set(const std::string& socket, bool has_bodies)
        : redis_(socket), has_bodies_(has_bodies) {}

    void put(const std::vector<item>& items) override {
        for (const item& i : items) {
            redis_.say({"ZADD", "due", std::to_string(i.due.time_since_epoch().count()), i.id});
            if (has_bodies_) redis_.say({"HSET", "job", i.id, body});
        }
        redis_.hear();
    }
    // At most once: the process that removes it from the set handles it.
    void poll(const on_due& handle) override {
        while (take(handle) == 1'000) continue;
    }

private:
    std::size_t take(const on_due& handle) {
        std::vector<item> mine;
        const std::vector<item> due = find_due();
        for (const item& i : due) redis_.say({"ZREM", "due", i.id});
        redis_.hear([&, n = std::size_t{0}](const redisReply& r) mutable {
            if (r.integer == 1) mine.push_back(due[n]);
            ++n;
        });
        for (const item& i : mine) redis_.say({"HGET", "job", i.id});
        redis_.hear();
        for (const item& i : mine) {
            handle(i.due);
            redis_.say({"HDEL", "job", i.id});
        }
        redis_.hear();
        return due.size();
    }
    std::vector<item> find_due() {
        redis_.say({"ZRANGEBYSCORE", "due", "-inf",
                    std::to_string(today().time_since_epoch().count()), "WITHSCORES", "LIMIT", "0",
                    "1000"});
        std::vector<item> due;
        redis_.hear([&](const redisReply& r) {
            for (std::size_t i = 0; i + 1 < r.elements; i += 2)
                due.push_back({std::string(r.element[i]->str, r.element[i]->len),
                               time_point(duration(std::stoll(r.element[i + 1]->str)))});
        });
        return due;
    }

    plain_redis redis_;
    bool has_bodies_;
};

class redis_server : public backend {
public:
    explicit redis_server(std::string socket) : socket_(std::move(socket)), admin_(socket_) {
        admin_.say({"CONFIG", "GET", "appendfsync"});
        admin_.hear([&](const redisReply& r) { fsync_ = r.element[1]->str; });
    }

    std::string name() const override { return "Redis " + fsync_; }
    void clear() override {
        if (!is_ours_ && admin_.count() != 0)
            throw std::runtime_error("there is something in " + socket_ + ", which would go");
        is_ours_ = true;
        admin_.say({"FLUSHALL"});
        admin_.hear();
        empty_ = admin_.fact("used_memory");
    }
    double server_cpu() override {
        return admin_.fact("used_cpu_user") + admin_.fact("used_cpu_sys");
    }
    double bytes() override { return admin_.fact("used_memory") - empty_; }
    std::unique_ptr<store> open() override {
        redis_options o;
        o.socket = socket_;
        return std::make_unique<redis_store>(std::move(o));
    }
    std::unique_ptr<by_hand> connect() override {
        return std::make_unique<sorted_set>(socket_, true);
    }
    std::unique_ptr<by_hand> connect_bare() override {
        return std::make_unique<sorted_set>(socket_, false);
    }

private:
    std::string socket_, fsync_;
    plain_redis admin_;
    double empty_ = 0;
    bool is_ours_ = false;
};

}  // namespace bench
