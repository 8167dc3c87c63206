// Servers in place of Redis, or between Redis and its client, that misbehave.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/temporary_folder.hpp"
#include "support/unix_socket.hpp"

namespace support {

// A server that is not Redis: it sends this text to each client, or closes the connection.
class stranger : temporary_folder {
public:
    explicit stranger(std::optional<std::string> words) {
        talker_ = std::thread([this, words] {
            const int guest = accept(door_, nullptr, nullptr);
            if (words) static_cast<void>(send(guest, words->data(), words->size(), MSG_NOSIGNAL));
            char nothing;
            if (words)
                while (recv(guest, &nothing, 1, 0) > 0) continue;
            close(guest);
        });
    }
    ~stranger() {
        shutdown(door_, SHUT_RDWR);
        talker_.join();
        close(door_);
    }
    std::string socket() const { return name() + "/socket"; }

private:
    int door_ = listening_on(socket());
    std::thread talker_;
};

// Between a store and its server: forwards bytes, and alters them once told to.
class liar : temporary_folder {
public:
    liar(std::string server, unsigned seed) : server_(std::move(server)), random_(seed) {
        talker_ = std::thread([this] { serve(); });
    }
    ~liar() {
        is_over_ = true;
        talker_.join();
        for (const auto& [guest, host] : links_) close(guest), close(host);
        close(door_);
    }
    std::string socket() const { return name() + "/socket"; }
    void begin() { lies_ = true; }
    void add_an_answer() { adds_ = true; }  // on the oldest connection
    void slow_down() { is_slow_ = true; }   // a mebibyte from the host takes three seconds

private:
    struct both_ends {
        int guest, host;
    };

    void serve() {
        while (!is_over_) {
            std::vector<pollfd> watched{{door_, POLLIN, 0}};
            for (const auto& [guest, host] : links_) {
                watched.push_back({guest, POLLIN, 0});
                watched.push_back({host, POLLIN, 0});
            }
            poll(watched.data(), watched.size(), 20);
            for (std::size_t i = links_.size(); i-- > 0;) {
                const bool goes_on = (watched[2 * i + 1].revents == 0 || hand_on(i, false)) &&
                                     (watched[2 * i + 2].revents == 0 || hand_on(i, true));
                if (goes_on) continue;
                close(links_[i].guest), close(links_[i].host);
                links_.erase(links_.begin() + static_cast<std::ptrdiff_t>(i));
            }
            if (watched[0].revents != 0) let_in();
        }
    }
    void let_in() {
        const int guest = accept(door_, nullptr, nullptr);
        links_.push_back({guest, connected_to(server_)});
    }
    bool hand_on(std::size_t which, bool from_host) {
        const auto [guest, host] = links_[which];
        char part[36'000];
        const bool is_slow = from_host && is_slow_;
        const ssize_t n = recv(from_host ? host : guest, part, is_slow ? sizeof part : 4096, 0);
        if (is_slow) usleep(100'000);
        if (n <= 0) return false;
        std::string said(part, static_cast<std::size_t>(n));
        if (from_host && lies_) distort(said);
        if (which == 0 && from_host && adds_.exchange(false)) said += "+OK\r\n";
        return send(from_host ? guest : host, said.data(), said.size(), MSG_NOSIGNAL) >= 0;
    }
    void distort(std::string& said) {
        static constexpr char likely[] = "0123456789-+:$*\r\n";
        if (random_() % 4 != 0) return;
        const std::size_t at = random_() % said.size();
        switch (random_() % 3) {
        case 0:
            said[at] = likely[random_() % (sizeof likely - 1)];
            break;
        case 1:
            said.insert(at, 1, likely[random_() % (sizeof likely - 1)]);
            break;
        default:
            said.erase(at, 1);
        }
    }

    const std::string server_;
    std::mt19937 random_;
    int door_ = listening_on(socket());
    std::vector<both_ends> links_;
    std::atomic<bool> is_over_ = false, lies_ = false, adds_ = false, is_slow_ = false;
    std::thread talker_;
};

}  // namespace support
