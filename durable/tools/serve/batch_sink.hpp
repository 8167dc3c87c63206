// The common part of sinks on servers: a batch at a time, and a new try while the server is
// away.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sink.hpp"

namespace timers_tool {

// Sends deliveries in batches. One batch is on its way at a time, and the others wait. If the
// connection breaks, the batch is sent again: workers may see a delivery twice then, with the same
// attempt.
class batch_sink : public sink {
public:
    void put(tvec::durable::delivery d) final { waiting_.push_back(std::move(d)); }
    void withdraw(const tvec::durable::token& t) override {
        const auto is_it = [&t](const auto& d) { return d.token == t; };
        waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), is_it), waiting_.end());
    }
    void flush() final {
        if (!is_connected_ || is_asked() || waiting_.empty()) return;
        if (most_ <= there_) {  // workers are behind
            if (!look_.pending()) in_.wheel().arm_after(look_, std::chrono::milliseconds(20));
            return;
        }
        const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(next_batch());
        sent_.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
        waiting_.erase(waiting_.begin(), end);
        in_.wheel().arm_after(silence_, patience);
        send(sent_);
    }
    std::string fault() const final { return fault_; }
    std::optional<untaken_delivery> untaken(const std::string& prefix) const override {
        std::optional<untaken_delivery> first;
        for (const auto& d : waiting_) keep_first(first, prefix, d.token, d.due);
        for (const auto& d : sent_) keep_first(first, prefix, d.token, d.due);
        return first;
    }

protected:
    batch_sink(loop& in, const settings& o, completion answered)
        : in_(in), most_(most_in_flight(o)), answered_(std::move(answered)) {}

    // Begins to connect. `connected` or `broken` follows.
    virtual void connect() = 0;
    virtual void disconnect() = 0;
    // Sends these. `took`, `put_back` or `broken` follows.
    virtual void send(const std::vector<tvec::durable::delivery>& batch) = 0;
    // Asks how many deliveries are there. `counted`, `heard` or `broken` follows.
    virtual void look() = 0;
    // Returns how many bytes of ids and bodies a batch has at most, if it is more than one
    // delivery.
    virtual std::size_t most_bytes() const { return SIZE_MAX; }

    void try_to_connect() {
        in_.wheel().arm_after(silence_, patience);
        connect();
    }
    void connected() {
        silence_.cancel();
        is_connected_ = true;
        pause_.reset();
        fault_.clear();
        flush();
    }
    // The server has the batch, and so many deliveries are there now.
    void took(std::size_t there) {
        counted(there);
        fault_.clear();
        pause_.reset();
        for (const auto& d : std::exchange(sent_, {}))
            answered_(d.token, {sink_answer::kind::taken});
        flush();
    }
    void counted(std::size_t there) {
        heard();
        there_ = there;
    }
    // The awaited answer has come.
    void heard() { silence_.cancel(); }
    // The server has not taken the batch, and so many deliveries are there.
    void put_back(std::size_t there) {
        counted(there);
        return_batch();
        flush();
    }
    // Looks, unless an answer is awaited.
    void look_now() {
        if (!is_connected_ || is_asked()) return;
        in_.wheel().arm_after(silence_, patience);
        look();
    }
    bool is_connected() const { return is_connected_; }
    // The batch that is on its way.
    const std::vector<tvec::durable::delivery>& sent() const { return sent_; }
    // The connection is of no use: it is closed and made again, after a pause.
    void broken(std::string why) {
        silence_.cancel();
        is_connected_ = false;
        fault_ = std::move(why);
        return_batch();
        disconnect();
        in_.wheel().arm_after(retry_, pause_.next());
    }

    loop& in_;
    const std::size_t most_;

private:
    static constexpr std::chrono::milliseconds patience{5'000};

    // Returns true while an answer is awaited. Another question would hide the server's silence.
    bool is_asked() const { return silence_.pending(); }
    void on_retry() { try_to_connect(); }
    void on_silence() { broken("the server does not answer"); }
    void return_batch() {
        waiting_.insert(waiting_.begin(), std::make_move_iterator(sent_.begin()),
                        std::make_move_iterator(sent_.end()));
        sent_.clear();
    }
    // Returns the size of the next batch. Precondition: something waits, and there is room.
    std::size_t next_batch() const {
        const auto n = std::min({waiting_.size(), most_ - there_, std::size_t{500}});
        std::size_t bytes = 0, fits = 0;
        while (fits < n) {
            bytes += waiting_[fits].token.id.size() + waiting_[fits].body.size();
            if (fits > 0 && bytes > most_bytes()) break;
            ++fits;
        }
        return fits;
    }

    const completion answered_;
    std::deque<tvec::durable::delivery> waiting_;
    std::vector<tvec::durable::delivery> sent_;
    std::size_t there_ = 0;
    bool is_connected_ = false;
    std::string fault_ = "not connected yet";
    back_off pause_;
    tvec::timer retry_{tvec::call<&batch_sink::retry_, &batch_sink::on_retry>};
    tvec::timer silence_{tvec::call<&batch_sink::silence_, &batch_sink::on_silence>};
    tvec::timer look_{tvec::call<&batch_sink::look_, &batch_sink::look_now>};
};

}  // namespace timers_tool
