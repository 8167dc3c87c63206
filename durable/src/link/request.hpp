// Requests to a server. The answer of each comes in parts.
#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "../local/server_client.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

// The numbers of requests.
struct tally {
    std::size_t unanswered = 0, answered = 0;

    void end() noexcept {
        assert(unanswered > 0 && "every request is answered once");
        --unanswered;
        ++answered;
    }
};

// A request with so many parts. A part is read from an `Input`.
template <class Input> class request {
public:
    request(tally& count, std::size_t parts) : count_(count), left_(parts) { ++count.unanswered; }
    virtual ~request() = default;
    request(const request&) = delete;
    request& operator=(const request&) = delete;

    virtual void read(std::size_t part, Input from) = 0;
    // Notes that a part will not come. The fate is `replied` if its answer cannot be used.
    virtual void miss(std::size_t part, fate_at_server how) = 0;
    // Notes that another process owns the shard. Nothing else is told then.
    void fence() noexcept { note(standing::fenced); }
    // Ends a part that was read or missed. Tells the answer after the last one.
    void end_part() {
        assert(left_ > 0 && "every part comes once");
        if (--left_ == 0) end();
    }
    bool has_parts() const noexcept { return left_ != 0; }
    void end() {
        count_.end();
        tell();
    }

protected:
    // Notes the standing of a part. The first one that is not `done` is that of the request.
    void note(standing part) noexcept {
        if (how_ == standing::done) how_ = part;
    }
    standing how() const noexcept { return how_; }

private:
    virtual void tell() = 0;

    tally& count_;
    std::size_t left_;
    standing how_ = standing::done;
};

template <class Input> using request_ptr = std::shared_ptr<request<Input>>;

// A request whose completion receives a standing and an answer. `Read` reads a part into the
// answer. It may return the standing of the part.
template <class Input, class Answer, class Read> class request_of final : public request<Input> {
public:
    request_of(tally& count, completion<standing, Answer> t, Read r, std::size_t parts, Answer a)
        : request<Input>(count, parts), then_(std::move(t)), read_(std::move(r)),
          all_(std::move(a)) {}
    void read(std::size_t part, Input from) override {
        if constexpr (std::is_void_v<decltype(read_(all_, part, from))>)
            read_(all_, part, from);
        else
            this->note(read_(all_, part, from));
    }
    void miss(std::size_t, fate_at_server) override { this->note(standing::unknown); }

private:
    void tell() override {
        const standing s = this->how();
        if (then_) then_(s, s == standing::done ? std::move(all_) : Answer{});
    }

    completion<standing, Answer> then_;
    Read read_;
    Answer all_;
};

// A request whose completion receives a result for each part. `Read` returns one.
template <class Input, class Result, class Read> class results_of final : public request<Input> {
public:
    results_of(tally& count, completion<std::vector<Result>> t, Read r, std::size_t parts)
        : request<Input>(count, parts), then_(std::move(t)), read_(std::move(r)), all_(parts) {}
    void read(std::size_t part, Input from) override { all_[part] = read_(from); }
    void miss(std::size_t part, fate_at_server how) override { all_[part] = none_of<Result>(how); }

private:
    void tell() override {
        if (then_) then_(std::move(all_));
    }

    completion<std::vector<Result>> then_;
    Read read_;
    std::vector<Result> all_;
};

}  // namespace tvec::durable::detail
