// Requests over one connection after another to a server: connecting, silence, retries, and what
// becomes of the requests.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../local/server_client.hpp"
#include "../local/server_clock.hpp"
#include "trouble.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

// A link that is made again after it has broken. It begins with a greeting. Requests are sent once
// it is ready, and refused while it is not. Those that were sent when it breaks are lost.
//
// Requests that are sent together are a flight. Others wait for the answers of the last flight,
// because a server takes less time for few large requests than for many small ones. A second flight
// is sent once it is full, which keeps both sides busy.
//
// A `Link` has types `request` and `reply`, and
//
//  * `open()`, which begins to connect and returns a fault or nothing; `close()`, which ends that
//  * `send(request)`; `end_flight()`, which may send one thing more, and flushes
//  * `try_again()`, which calls `connect` of this class; `slowest()`, the longest pause before it
//  * `on_lost()`; `place()`, the beginning of faults; `wake()`, which has the loop call `flush`
template <class Link, class Wheel = clocked_wheel<>> class reconnecting {
public:
    using request = typename Link::request;
    using reply = typename Link::reply;
    // Receives the fate of a request, and the reply if there is one.
    using answer = std::function<void(fate_at_server, const reply*)>;
    using local_time = server_clock::local;

    struct terms {
        duration silence;           // without a sign of the server: it has gone
        unsigned most_flights = 2;  // at a time
        duration gathering{};       // for so long a flight gathers at least, after one of several
    };
    // A request that is being answered.
    struct taken {
        answer then;
        local_time asked;
        bool is_greeting;
    };

    reconnecting(Link& l, Wheel& w, faults& f, terms t)
        : link_(l), wheel_(w), faults_(f), terms_(t) {}

    bool is_ready() const noexcept { return is_ready_; }
    // Returns true if it was ready once.
    bool was_ready() const noexcept { return was_ready_; }
    // Returns true until the first attempt to connect has succeeded or failed.
    bool is_new() const noexcept { return !was_ready_ && !back_off_.has_begun(); }
    // Returns the last fault, if the server was not ready since.
    const std::optional<trouble>& fault() const noexcept { return fault_; }
    // Returns true if no request waits for its answer.
    bool is_idle() const noexcept {
        return std::ranges::all_of(pending_, &pending::is_greeting) && unsent_.empty() &&
               refused_.empty();
    }
    std::size_t unsent_bytes() const noexcept { return unsent_bytes_; }

    // --- connecting ---

    void connect() {
        if (auto fault = link_.open()) return lose(std::move(*fault));
        wheel_.arm_after(silence_, terms_.silence);
    }
    // Connects at once in place of a retry, as if nothing had failed.
    void connect_anew() {
        retry_.cancel();
        fault_.reset();
        connect();
    }
    // Has the link try again after a pause, which grows with each one.
    void retry() {
        if (!retry_.pending()) wheel_.arm_after(retry_, back_off_.next(link_.slowest()));
    }
    void reset_pause() noexcept { back_off_.reset(); }
    // Ends the greeting: requests are sent from now on. Returns true if it was ready before.
    bool become_ready() {
        is_ready_ = true;
        fault_.reset();
        back_off_.reset();
        return std::exchange(was_ready_, true);
    }
    // Notes a sign of the server.
    void hear() {
        if (silence_.pending()) wheel_.arm_after(silence_, terms_.silence);
    }
    // Ends the connection. Requests in flight may have been done or not.
    void lose(trouble why) {
        if (std::exchange(is_ready_, false)) ++faults_.broken[reason_of(why.code)];
        link_.close();
        silence_.cancel();
        faults_.last = link_.place() + why.text();
        fault_ = std::move(why);
        retry();
        const auto unanswered = std::exchange(pending_, {});
        const auto unsent = std::exchange(unsent_, {});
        unsent_bytes_ = 0;
        flights_ = 0;
        link_.on_lost();
        for (const pending& p : unanswered)
            if (!p.is_greeting) p.then(fate_at_server::lost, nullptr);
        for (const waiting& w : unsent) w.then(fate_at_server::refused, nullptr);
    }

    // --- requests ---

    // Queues a request of so many bytes and items. Calls `then` once in every case.
    void ask(request r, std::size_t bytes, std::size_t items, answer then) {
        if (!is_ready_) return refuse(std::move(then));
        unsent_bytes_ += bytes;
        unsent_.push_back({std::move(r), items, std::move(then)});
        touch();
    }
    // Calls `then` in the next `flush`, with fate_at_server::refused.
    void refuse(answer then) {
        refused_.push_back(std::move(then));
        touch();
    }
    // Wakes the loop if the next `flush` would do something. `bytes` wait besides the queued
    // requests.
    void touch(std::size_t bytes = 0) {
        if (may_send(bytes) || !refused_.empty()) link_.wake();
    }
    // Returns true if `flush` sends queued requests now, and false if it waits for answers.
    bool may_send(std::size_t bytes = 0) const {
        if (flights_ == 0 && !gathering_.pending()) return true;
        return flights_ < terms_.most_flights && unsent_bytes_ + bytes >= full_flight;
    }
    void flush() {
        if (may_send()) send();
        if (!pending_.empty() && !silence_.pending()) wheel_.arm_after(silence_, terms_.silence);
        for (const answer& then : std::exchange(refused_, {}))
            then(fate_at_server::refused, nullptr);
    }
    // Sends queued requests, whatever is in flight.
    void send() {
        if (unsent_.empty()) return;
        std::size_t items = 0;
        for (waiting& w : std::exchange(unsent_, {})) {
            items += w.items;
            link_.send(w.what);
            push(std::move(w.then), false);
        }
        unsent_bytes_ = 0;
        ++flights_;
        link_.end_flight();
        pending_.back().ends_flight = true;
        if (items > 1 && terms_.gathering != duration::zero())
            wheel_.arm_after(gathering_, terms_.gathering);
    }

    // Notes that the link has sent a part of its greeting, whose answer is for `then`.
    void expect(answer then) { push(std::move(then), true); }
    // Returns the request that is answered, or nothing if none waits for an answer.
    std::optional<taken> take() {
        if (pending_.empty()) return std::nullopt;
        pending p = std::move(pending_.front());
        pending_.pop_front();
        if (pending_.empty())
            silence_.cancel();
        else
            wheel_.arm_after(silence_, terms_.silence);
        assert((!p.ends_flight || flights_ > 0) && "every flight ends once");
        if (p.ends_flight) --flights_;
        asked_ = p.asked;
        return taken{std::move(p.then), p.asked, p.is_greeting};
    }

    // --- the time of the server ---

    // Notes that the answer which is given now is that of a request of this time.
    void answer_for(local_time asked) noexcept { asked_ = asked; }
    // Notes the time of the server, in us, that an answer has.
    void learn(std::int64_t us) {
        clock_.learn(reading(std::chrono::microseconds(us)), asked_, local_time::clock::now());
    }
    // Returns its time, which is the beginning of 1970 if it is not known.
    reading now_at(local_time t) const { return clock_.at(t); }

private:
    struct pending {
        answer then;
        local_time asked;
        bool is_greeting, ends_flight = false;
    };
    struct waiting {
        request what;
        std::size_t items;
        answer then;
    };
    static constexpr std::size_t full_flight = 16'384;

    void push(answer then, bool is_greeting) {
        pending_.push_back({std::move(then), local_time::clock::now(), is_greeting});
    }
    void on_retry() { link_.try_again(); }
    void on_silence() { lose({std::errc::timed_out, "it does not answer"}); }
    void on_gathered() {}

    Link& link_;
    Wheel& wheel_;
    faults& faults_;
    const terms terms_;
    timer retry_{call<&reconnecting::retry_, &reconnecting::on_retry>};
    timer silence_{call<&reconnecting::silence_, &reconnecting::on_silence>};
    timer gathering_{call<&reconnecting::gathering_, &reconnecting::on_gathered>};
    back_off back_off_{};
    std::vector<waiting> unsent_{};
    std::size_t unsent_bytes_ = 0;
    std::deque<pending> pending_{};
    std::vector<answer> refused_{};
    unsigned flights_ = 0;
    bool is_ready_ = false, was_ready_ = false;
    std::optional<trouble> fault_{};
    server_clock clock_{};
    local_time asked_{};  // when the request was sent that is being answered
};

}  // namespace tvec::durable::detail
