// Nodes in place of a Redis Cluster. They answer the greeting of a store, and everything else as a
// test wants it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "functions.hpp"
#include "support/check.hpp"
#include "tvec/durable/store.hpp"

namespace support {

// The words of a command.
using words = std::vector<std::string>;

inline std::string bulk(const std::string& text) {
    return '$' + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}
inline std::string number(long long n) { return ':' + std::to_string(n) + "\r\n"; }
inline std::string list(const std::vector<std::string>& items) {
    std::string all = '*' + std::to_string(items.size()) + "\r\n";
    for (const std::string& i : items) all += i;
    return all;
}
inline std::string error(const std::string& text) { return '-' + text + "\r\n"; }

// A server on a port of the loopback, which answers each command with a function.
class false_node {
public:
    using answerer = std::function<std::string(const words&)>;

    false_node() {
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof name;
        REQUIRE(bind(door_, reinterpret_cast<const sockaddr*>(&name), length) == 0);
        REQUIRE(::listen(door_, 9) == 0);
        getsockname(door_, reinterpret_cast<sockaddr*>(&name), &length);
        port_ = ntohs(name.sin_port);
        talker_ = std::thread([this] { serve(); });
    }
    ~false_node() {
        is_over_ = true;
        talker_.join();
        for (const auto& [guest, said] : guests_) close(guest);
        close(door_);
    }
    false_node(const false_node&) = delete;
    false_node& operator=(const false_node&) = delete;

    std::uint16_t port() const { return port_; }
    std::string where() const { return "127.0.0.1:" + std::to_string(port_); }
    // Sets the function, which is called by the thread of the node.
    void answer(answerer a) {
        const std::lock_guard guard(mutex_);
        answer_ = std::move(a);
    }
    // Returns the commands with this word, in their order.
    std::vector<words> heard(const std::string& word) {
        const std::lock_guard guard(mutex_);
        std::vector<words> some;
        for (const words& w : heard_)
            if (std::ranges::find(w, word) != w.end()) some.push_back(w);
        return some;
    }
    // Closes all connections, and the door: the node has gone.
    void leave() { has_left_ = true; }

private:
    void serve() {
        while (!is_over_) {
            std::vector<pollfd> watched{{door_, POLLIN, 0}};
            for (const auto& [guest, said] : guests_) watched.push_back({guest, POLLIN, 0});
            poll(watched.data(), watched.size(), 5);
            if (has_left_.exchange(false)) {
                for (const auto& [guest, said] : guests_) close(guest);
                guests_.clear();
                shutdown(door_, SHUT_RDWR);
                continue;
            }
            for (std::size_t i = 1; i < watched.size(); ++i)
                if (watched[i].revents != 0) hear(watched[i].fd);
            if ((watched[0].revents & POLLHUP) != 0) {
                usleep(5'000);
            } else if (watched[0].revents != 0) {
                guests_[accept(door_, nullptr, nullptr)] = "";
            }
        }
    }
    void hear(int guest) {
        char part[4096];
        const ssize_t n = recv(guest, part, sizeof part, 0);
        if (n <= 0) {
            close(guest);
            guests_.erase(guest);
            return;
        }
        std::string& said = guests_[guest];
        said.append(part, static_cast<std::size_t>(n));
        for (words w = next_of(said); !w.empty(); w = next_of(said)) {
            const std::lock_guard guard(mutex_);
            heard_.push_back(w);
            const std::string a = answer_(w);
            static_cast<void>(send(guest, a.data(), a.size(), MSG_NOSIGNAL));
        }
    }
    // Takes the first whole command from the bytes. Returns nothing if there is none.
    static words next_of(std::string& bytes) {
        std::size_t at = 0;
        const auto line = [&] {
            const std::size_t end = bytes.find("\r\n", at);
            if (end == bytes.npos) return -1;
            const int n = std::stoi(bytes.substr(at + 1, end - at - 1));
            at = end + 2;
            return n;
        };
        words w;
        int left = line();
        for (; left > 0; --left) {
            const int size = line();
            if (size < 0 || bytes.size() < at + static_cast<std::size_t>(size) + 2) return {};
            w.push_back(bytes.substr(at, static_cast<std::size_t>(size)));
            at += static_cast<std::size_t>(size) + 2;
        }
        if (left == 0) bytes.erase(0, at);
        return w;
    }

    int door_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    std::uint16_t port_ = 0;
    std::mutex mutex_;
    answerer answer_ = [](const words&) { return error("ERR nothing to say"); };
    std::vector<words> heard_;
    std::map<int, std::string> guests_;
    std::atomic<bool> is_over_ = false, has_left_ = false;
    std::thread talker_;
};

// Answers to what a store asks in its greeting.
struct false_greeting {
    std::string slots;  // the answer to CLUSTER SLOTS
    std::string state = "ok";
    std::string version = number(tvec::durable::redis::functions_version);
    unsigned shards = 2;
    std::chrono::seconds ahead{};  // of the clock of this machine

    // Returns "" for other commands.
    std::string operator()(const words& w) const {
        const auto now = std::chrono::system_clock::now().time_since_epoch() + ahead;
        const auto us = std::chrono::floor<std::chrono::microseconds>(now).count();
        if (w[0] == "INFO")
            return bulk("redis_version:7.0.15\r\nrole:master\r\nloading:0\r\naof_enabled:1\r\n"
                        "maxmemory:0\r\nmaxmemory_policy:noeviction\r\ncluster_enabled:1\r\n");
        if (w[0] == "CONFIG") return list({bulk("appendfsync"), bulk("always")});
        if (w[0] == "TIME")
            return list(
                {bulk(std::to_string(us / 1'000'000)), bulk(std::to_string(us % 1'000'000))});
        if (w[0] == "SUBSCRIBE") return list({bulk("subscribe"), bulk(w[1]), number(1)});
        if (w[0] == "FUNCTION" || w[0] == "ASKING") return "+OK\r\n";
        if (w[0] == "CLUSTER" && w[1] == "INFO") return bulk("cluster_state:" + state + "\r\n");
        if (w[0] == "CLUSTER") return slots;
        if (w[1] == "tvec_durable_version") return version;
        if (w[1].ends_with("_open"))
            return list(
                {number(us), number(shards), number(tvec::durable::redis::functions_version)});
        return "";
    }
};

// An entry of CLUSTER SLOTS: slots, and the port of the primary.
inline std::string held(int first, int last, int port, const std::string& host = "127.0.0.1") {
    return list({number(first), number(last), list({bulk(host), number(port), bulk("id")})});
}

}  // namespace support
