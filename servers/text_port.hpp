// Serves texts on a port of this machine: enough of HTTP/1.0 for curl and Prometheus, on the
// server's own ring. A few clients at a time, a few kilobytes and seconds for each. A slow client
// makes room for the next.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "../support/descriptors.hpp"
#include "../support/ring.hpp"
#include "http_request.hpp"
#include "listener.hpp"
#include "timer_books.hpp"

namespace example {

// The name of a text, and the function that writes it.
struct page {
    std::string path;
    std::string type;  // of its content
    std::function<std::string()> write;
};

// One who asks. It has at most one request in the ring, and is used again for the next.
class asker {
public:
    asker(ring& r, timer_books& books, const std::vector<page>& pages)
        : ring_(r), books_(books), pages_(pages) {}
    asker(const asker&) = delete;
    asker& operator=(const asker&) = delete;

    bool free() const { return doing_ == nothing; }
    bool leaving() const { return leaving_; }
    time_point since() const { return since_; }
    void start(descriptor socket, std::uint64_t tag);
    void complete(int result);
    // Frees it, as soon as its request has completed.
    void hang_up() {
        if (free()) return;
        ::shutdown(socket_.get(), SHUT_RDWR);
        leaving_ = true;
    }
    void look_after() { books_.look_after(due_, deadline_); }

private:
    enum activity { nothing, reading, writing, emptying };
    static constexpr std::chrono::seconds patience{5};

    void receive();
    void send();
    void received(std::size_t bytes);
    void sent(std::size_t bytes);
    void finish();
    void answer(std::string_view status, std::string_view type, const std::string& body);
    void answer_request(std::string_view request);
    void on_due();

    ring& ring_;
    timer_books& books_;
    const std::vector<page>& pages_;
    activity doing_ = nothing;
    bool leaving_ = false;
    std::uint64_t tag_ = 0;
    time_point since_;
    descriptor socket_;
    std::size_t filled_ = 0;
    std::array<char, 4096> request_;
    std::string answer_;
    std::size_t sent_ = 0;
    time_point deadline_;
    tvec::timer due_{tvec::call<&asker::due_, &asker::on_due>};
};

class text_port {
public:
    // Uses `tags` tags from `first_tag` on. Port 0: any free one. Calls `on_close` whenever it has
    // closed a descriptor.
    text_port(ring& r, timer_books& books, std::uint16_t port, std::uint64_t first_tag,
              std::vector<page> pages, std::function<void()> on_close)
        : pages_(std::move(pages)), listener_("127.0.0.1", port, false), first_tag_(first_tag),
          on_close_(std::move(on_close)),
          acceptor_(r, listener_, first_tag, false), askers_{{{r, books, pages_},
                                                              {r, books, pages_},
                                                              {r, books, pages_},
                                                              {r, books, pages_}}} {
        for (const page& p : pages_)
            fmt::print("serving http://127.0.0.1:{}{}\n", listener_.port(), p.path);
    }

    static constexpr std::uint64_t tags = 5;

    // Returns whether a completion was the port's.
    bool complete(std::uint64_t tag, int result);
    // `tag` is for a completion to be ignored.
    void stop(std::uint64_t tag);
    bool done() const;
    // Accepts again after an error; once a second or so.
    void look_after();
    // A descriptor of this program has been closed.
    void closed_one() { acceptor_.closed_one(); }

private:
    static constexpr std::size_t most_askers = tags - 1;

    void admit(int socket);
    void place();
    void make_room();

    std::vector<page> pages_;
    listener listener_;
    std::uint64_t first_tag_;
    std::function<void()> on_close_;
    acceptor acceptor_;
    std::array<asker, most_askers> askers_;
    std::deque<descriptor> waiting_;  // for those who are leaving
};

// --- asker --------------------------------------------------------------------------------------

inline void asker::start(descriptor socket, std::uint64_t tag) {
    socket_ = std::move(socket);
    tag_ = tag;
    since_ = timers::clock::now();
    filled_ = 0;
    doing_ = reading;
    books_.arm(due_, deadline_, patience);
    receive();
}

inline void asker::receive() {
    ring_.queue(tag_, io_uring_prep_recv, socket_.get(), request_.data() + filled_,
                request_.size() - filled_, 0);
}

inline void asker::send() {
    ring_.queue(tag_, io_uring_prep_send, socket_.get(), answer_.data() + sent_,
                answer_.size() - sent_, MSG_NOSIGNAL);
}

inline void asker::complete(int result) {
    if (result <= 0) return finish();
    const auto bytes = static_cast<std::size_t>(result);
    if (doing_ == writing) return sent(bytes);
    if (doing_ == reading) return received(bytes);
    receive();  // until the other side closes: a close while something is unread would be a reset
}

inline void asker::received(std::size_t bytes) {
    filled_ += bytes;
    const std::string_view request(request_.data(), filled_);
    if (is_whole_request(request)) return answer_request(request);
    if (filled_ < request_.size()) return receive();
    answer("431 Request Header Fields Too Large", "text/plain", "too long a request\n");
}

inline void asker::answer_request(std::string_view request) {
    const auto [what, path] = read_request(request);
    if (what == http_request::no_http) return answer("400 Bad Request", "text/plain", "not HTTP\n");
    if (what == http_request::another_method)
        return answer("405 Method Not Allowed", "text/plain", "only GET\n");
    for (const page& p : pages_)
        if (p.path == path) return answer("200 OK", p.type, p.write());
    answer("404 Not Found", "text/plain", "nothing there\n");
}

inline void asker::answer(std::string_view status, std::string_view type, const std::string& body) {
    answer_ = fmt::format("HTTP/1.0 {}\r\n{}Content-Type: {}\r\nContent-Length: {}\r\n"
                          "Connection: close\r\n\r\n{}",
                          status, status.starts_with("405") ? "Allow: GET\r\n" : "", type,
                          body.size(), body);
    sent_ = 0;
    doing_ = writing;
    send();
}

inline void asker::sent(std::size_t bytes) {
    sent_ += bytes;
    if (sent_ < answer_.size()) return send();
    ::shutdown(socket_.get(), SHUT_WR);
    doing_ = emptying;
    filled_ = 0;
    receive();
}

inline void asker::finish() {
    books_.cancel(due_, deadline_);
    socket_ = descriptor();
    answer_ = {};
    doing_ = nothing;
    leaving_ = false;
}

inline void asker::on_due() {
    books_.fired(deadline_);
    hang_up();
}

// --- text_port ----------------------------------------------------------------------------------

inline bool text_port::complete(std::uint64_t tag, int result) {
    if (tag < first_tag_ || tag > first_tag_ + most_askers) return false;
    if (tag == first_tag_) {
        admit(acceptor_.complete(result, false));
        return true;
    }
    asker& a = askers_[tag - first_tag_ - 1];
    a.complete(result);
    if (!a.free()) return true;
    place();
    on_close_();
    return true;
}

inline void text_port::admit(int socket) {
    descriptor one(socket);
    if (socket < 0 || waiting_.size() == most_askers) return;
    waiting_.push_back(std::move(one));
    place();
}

inline void text_port::place() {
    for (std::size_t i = 0; i < most_askers && !waiting_.empty(); ++i) {
        if (!askers_[i].free()) continue;
        askers_[i].start(std::move(waiting_.front()), first_tag_ + 1 + i);
        waiting_.pop_front();
    }
    make_room();
}

// Closes the oldest client for each that waits. A request takes no time, except from a slow client.
inline void text_port::make_room() {
    const auto leave = [](const asker& a) { return a.leaving(); };
    auto leaving = static_cast<std::size_t>(std::count_if(askers_.begin(), askers_.end(), leave));
    for (; leaving < waiting_.size(); ++leaving)
        std::min_element(askers_.begin(), askers_.end(), [](const asker& a, const asker& b) {
            return std::pair(a.leaving(), a.since()) < std::pair(b.leaving(), b.since());
        })->hang_up();
}

inline void text_port::stop(std::uint64_t tag) {
    acceptor_.stop(tag);
    waiting_.clear();
    for (asker& a : askers_) a.hang_up();
}

inline bool text_port::done() const {
    bool all_free = true;
    for (const asker& a : askers_) all_free &= a.free();
    return all_free && !acceptor_.accepting();
}

inline void text_port::look_after() {
    for (asker& a : askers_) a.look_after();
    acceptor_.accept();
}

}  // namespace example
