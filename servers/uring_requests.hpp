// Sending and receiving on a ring, for coroutines: requests that can be abandoned.
//
// A coroutine may end while the kernel still works for it: its timeout has expired, or its owner
// has destroyed it. The request therefore owns the kernel's buffer and socket until its completion,
// and the coroutine does not.
#pragma once

#include <sys/socket.h>

#include <array>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "../support/descriptors.hpp"
#include "../support/ring.hpp"

namespace example {

// Increments `closed` when its socket has been closed.
struct stream {
    stream(int fd, std::uint64_t& closed) : count{closed}, socket(fd) {}

    struct counter {  // destroyed after the socket
        ~counter() { ++closed; }
        std::uint64_t& closed;
    } count;
    descriptor socket;
    std::array<char, 2048> buffer;
};

class requests {
    // Its address is the tag. It is reused only after its completion. A request queued then comes
    // after the cancellation of the one before.
    struct request {
        std::coroutine_handle<> waiting;  // null: no coroutine at the moment
        int result = 0;
        bool done = false;
        bool abandoned = false;
        std::shared_ptr<stream> keeps;
    };

public:
    // `cancelling` tags the cancellations of requests. Their completions are to be ignored.
    requests(ring& r, std::uint64_t cancelling) : ring_(r), cancelling_(cancelling) {}

    // A request that begins when it is awaited. Yields the kernel's result: a count of bytes, or a
    // negative error. If the await of a named request times out, the request continues and may be
    // awaited again: no bytes that arrive in between are lost.
    class [[nodiscard]] transfer {
        class awaiter;

    public:
        transfer(transfer&& other) noexcept
            : home_(other.home_), stream_(std::move(other.stream_)), span_(other.span_),
              request_(std::exchange(other.request_, nullptr)) {}
        transfer& operator=(transfer&&) = delete;
        // Bytes received so far are lost.
        ~transfer() {
            if (request_ != nullptr) home_.abandon(*request_);
        }

        awaiter operator co_await() noexcept { return awaiter(*this); }

    private:
        friend class requests;

        class awaiter {
        public:
            explicit awaiter(transfer& t) noexcept : of_(t) {}
            awaiter(const awaiter&) = delete;
            awaiter& operator=(const awaiter&) = delete;
            ~awaiter() {
                if (of_.request_ != nullptr) of_.request_->waiting = nullptr;
            }

            bool await_ready() const noexcept {
                return of_.request_ != nullptr && of_.request_->done;
            }
            void await_suspend(std::coroutine_handle<> waiting) {
                if (of_.request_ == nullptr)
                    of_.request_ = &of_.home_.begin(std::move(of_.stream_), of_.span_);
                of_.request_->waiting = waiting;
            }
            int await_resume() noexcept {
                return of_.home_.end(*std::exchange(of_.request_, nullptr));
            }

        private:
            transfer& of_;
        };

        struct span {
            bool sends;
            std::uint32_t from;
            std::uint32_t size;
        };

        transfer(requests& home, std::shared_ptr<stream> s, span what)
            : home_(home), stream_(std::move(s)), span_(what) {}

        requests& home_;
        std::shared_ptr<stream> stream_;
        span span_;
        request* request_ = nullptr;
    };

    // Receives into the buffer of `s`.
    transfer receive(std::shared_ptr<stream> s) {
        const auto all = static_cast<std::uint32_t>(s->buffer.size());
        return {*this, std::move(s), {false, 0, all}};
    }
    // Sends from the buffer of `s`.
    transfer send(std::shared_ptr<stream> s, std::uint32_t from, std::uint32_t size) {
        return {*this, std::move(s), {true, from, size}};
    }

    // Handles a completion with any tag that is not the program's own: resumes its waiting
    // coroutine.
    void complete(std::uint64_t tag, int result) {
        request& r = *reinterpret_cast<request*>(tag);
        r.result = result;
        r.done = true;
        if (r.abandoned)
            end(r);
        else if (r.waiting)
            r.waiting.resume();
    }

    std::size_t in_flight() const { return all_.size() - free_.size(); }

private:
    request& begin(std::shared_ptr<stream> s, transfer::span what) {
        request& r = unused();
        r = request{};
        r.keeps = std::move(s);
        const int fd = r.keeps->socket.get();
        char* const where = r.keeps->buffer.data() + what.from;
        const auto tag = reinterpret_cast<std::uint64_t>(&r);
        if (what.sends)
            ring_.queue(tag, io_uring_prep_send, fd, where, what.size, MSG_NOSIGNAL);
        else
            ring_.queue(tag, io_uring_prep_recv, fd, where, what.size, 0);
        return r;
    }

    request& unused() {
        if (free_.empty()) return all_.emplace_back();
        request& r = *free_.back();
        free_.pop_back();
        return r;
    }

    int end(request& r) noexcept {
        r.keeps.reset();
        free_.push_back(&r);
        return r.result;
    }

    void abandon(request& r) {
        r.abandoned = true;
        if (r.done)
            end(r);
        else
            ring_.queue(cancelling_, io_uring_prep_cancel64, reinterpret_cast<std::uint64_t>(&r),
                        0);
    }

    ring& ring_;
    std::uint64_t cancelling_;
    std::deque<request> all_;
    std::vector<request*> free_;
};

}  // namespace example
