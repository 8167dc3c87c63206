// The order in which deliveries go to a hook, and which of them have failed when connections break
// or the hook refuses them for now.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <iterator>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include "back_off.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/durable/delivery.hpp"

namespace timers_tool {

// Deliveries for a hook: those that wait, suspects, refused ones, and those that are with it.
//
// A hook that ends breaks all its connections, and the handler of any of these deliveries may have
// ended it. So each of them is a suspect, and goes once more by itself: when the hook has had
// `quiet` to answer the others, it goes, and no other goes for `quiet`. Then all that wait go, and
// the next suspect is kept back for as long as it has held up the others. A connection that breaks
// once more is a failure if nothing else was with the hook, and one that breaks a third time is
// one in every case, because a hook may always have a request that it never answers.
//
// So suspects, however many, hold up another delivery for 2 * quiet at a time, and for half of the
// time. A delivery that is answered within `quiet` has no failure by others that end the hook
// within `quiet`. One that takes longer may have one if the hook ends under it three times.
//
// A hook, or a proxy before it, that refuses deliveries for now says nothing of them: each waits,
// as long as it is told or for a back-off, and goes again. One that is refused for longer than
// `patience` has failed if the hook has answered another meanwhile. If all of `most` wait so, one
// of them fails in each `patience`, so that others are tried, of which none is here.
template <class Wheel> class hook_queue {
public:
    using clock = typename Wheel::clock;
    using delivery = tvec::durable::delivery;

    static constexpr std::chrono::milliseconds quiet{500};
    static constexpr unsigned most_breaks = 3;
    // Between calls of a delivery that the hook refuses and for which it tells no time.
    static constexpr std::chrono::milliseconds shortest_pause{1'000}, longest_pause{8'000};

    // A delivery. Its address stays the same.
    struct entry {
        delivery d;
        unsigned breaks = 0;
        typename clock::time_point sent{};
        bool is_alone = false;  // a suspect, since which was sent nothing else was with the hook
        bool is_over = false;   // it was withdrawn
        std::optional<typename clock::time_point> refused{};  // for the first time
        std::chrono::milliseconds pause = shortest_pause;     // after the next refusal
        typename clock::time_point again{};                   // it may go again
        std::string why{};                                    // it was refused
    };
    enum class way {
        answered,
        silent,   // no answer came in time
        refused,  // for now
        broken,   // the connection broke before an answer was whole
        unsent,   // the hook could not be reached
    };

    // `send` sends the delivery of an entry, of which `end` tells later. At most `most` deliveries
    // are here.
    hook_queue(Wheel& wheel, std::chrono::milliseconds patience, std::size_t most,
               std::function<void(entry&)> send)
        : wheel_(wheel), patience_(patience), most_(most), send_(std::move(send)) {}
    hook_queue(const hook_queue&) = delete;
    hook_queue& operator=(const hook_queue&) = delete;

    void put(delivery d) {
        waiting_.push_back({std::move(d)});
        go_on();
    }

    // Forgets a delivery. If it is with the hook, it goes no second time.
    void withdraw(const tvec::durable::token& t) {
        const auto is_it = [&t](const entry& e) { return e.d.token == t; };
        for (auto* const list : {&waiting_, &suspects_, &refused_}) list->remove_if(is_it);
        for (entry& e : with_hook_) e.is_over |= is_it(e);
    }

    // Takes an entry back that was sent. Returns true if its delivery has ended by that: with an
    // answer, or as a failure. Otherwise it goes again. Call `go_on` then. A hook that refuses it
    // may have said for how long.
    bool end(entry& e, way how, std::optional<std::chrono::milliseconds> told = {}) {
        const auto self = std::ranges::find(with_hook_, &e, [](entry& x) { return &x; });
        const bool is_on_trial = on_trial_ == &e;
        if (is_on_trial) release();
        is_away_ = how == way::unsent;
        if (!is_away_) pause_.reset();
        if (how == way::answered) {
            answered_ = clock::now();
            is_full_ = false;
        }
        if (e.is_over || is_end(e, how)) {
            over_.splice(over_.begin(), with_hook_, self);
            return true;
        }
        if (how == way::refused) {
            wait(self, told);
            return false;
        }
        // After the one on trial nothing is left with a hook that has ended, so it goes next.
        auto& to = e.breaks == 0 ? waiting_ : suspects_;
        to.splice(is_on_trial ? to.begin() : to.end(), with_hook_, self);
        if (is_away_ && !retry_.pending()) wheel_.arm_after(retry_, pause_.next());
        return false;
    }

    // Sends what may go now.
    void go_on() {
        over_.clear();
        while (!refused_.empty() && refused_.front().again <= clock::now())
            waiting_.splice(waiting_.end(), refused_, refused_.begin());
        if (!refused_.empty()) wheel_.arm_at(again_, refused_.front().again);
        if (retry_.pending() || on_trial_ != nullptr) return;
        if (suspects_.empty()) held_since_.reset();
        if (!suspects_.empty() && !rest_.pending()) return hold();
        while (!waiting_.empty()) send(waiting_, false);
    }

    bool is_empty() const {
        return waiting_.empty() && suspects_.empty() && refused_.empty() && with_hook_.empty();
    }
    // Returns true if the hook could not be reached when it was last tried, and is still wanted.
    bool is_away() const {
        const auto is_left = [](const entry& e) { return !e.is_over; };
        return is_away_ && (!waiting_.empty() || !suspects_.empty() ||
                            std::ranges::any_of(with_hook_, is_left));
    }

    // Returns the number of deliveries that the hook has refused and that are still wanted.
    std::size_t refused() const {
        std::size_t n = 0;
        for_each_waiting([&n](const entry& e) { n += e.refused.has_value(); });
        return n;
    }
    // Returns true if the hook has refused as many as can be here, and answered none for
    // `longest_pause`: a limit of its rate is no fault.
    bool is_refusing() const {
        return is_full_ && has_refused() && clock::now() - refusing_ > longest_pause;
    }

    // Calls a function with each entry that is not with the hook, or that it has refused before, or
    // that tries whether the hook is there again.
    void for_each_waiting(auto f) const {
        for (const auto* const list : {&waiting_, &suspects_, &refused_})
            for (const entry& e : *list) f(e);
        for (const entry& e : with_hook_)
            if ((e.refused || is_away_) && !e.is_over) f(e);
    }

private:
    // Returns true if a delivery has ended in this way.
    bool is_end(entry& e, way how) {
        if (how == way::broken) return ++e.breaks == most_breaks || (e.breaks > 1 && e.is_alone);
        if (how == way::refused) return is_refused_for_good(e);
        return how == way::answered || how == way::silent;
    }
    bool is_refused_for_good(entry& e) {
        const auto now = clock::now();
        if (!has_refused()) is_full_ = false;
        if (!e.refused) e.refused = now;
        const bool is_full = refused() >= most_;
        if (is_full && !std::exchange(is_full_, true)) refusing_ = std::max(answered_, *e.refused);
        if (now - *e.refused < patience_) return false;
        if (answered_ <= *e.refused && !(is_full && now - given_up_ >= patience_)) return false;
        given_up_ = now;
        return true;
    }
    // One that was given up counts until the next one is here.
    bool has_refused() const { return refused() != 0 || clock::now() - given_up_ < shortest_pause; }
    // Has a refused delivery wait before it goes again, for `patience` at most.
    void wait(typename std::list<entry>::iterator e,
              std::optional<std::chrono::milliseconds> told) {
        const auto pause = std::min(told.value_or(e->pause), patience_);
        e->again = clock::now() + std::max(pause, shortest_pause);
        e->pause = std::min(2 * e->pause, longest_pause);
        const auto is_later = [&e](const entry& other) { return e->again < other.again; };
        refused_.splice(std::ranges::find_if(refused_, is_later), with_hook_, e);
    }
    // Waits until the hook has nothing that it could still answer within `quiet`, and sends a
    // suspect.
    void hold() {
        if (!held_since_) held_since_ = clock::now();
        if (!with_hook_.empty()) {
            const auto at = with_hook_.back().sent + quiet;  // the last one that was sent
            if (clock::now() < at) {
                wheel_.arm_at(trial_, at);
                return;
            }
        }
        on_trial_ = &suspects_.front();
        wheel_.arm_after(trial_, quiet);
        send(suspects_, with_hook_.empty());
    }
    void on_trial() {
        if (on_trial_ != nullptr) {
            on_trial_->is_alone = false;
            release();
        }
        go_on();
    }
    void release() {
        on_trial_ = nullptr;
        trial_.cancel();
        wheel_.arm_after(
            rest_, std::min<typename clock::duration>(clock::now() - *held_since_, 2 * quiet));
        held_since_.reset();
    }

    void send(std::list<entry>& from, bool is_alone) {
        entry& e = from.front();
        e.sent = clock::now();
        e.is_alone = is_alone;
        with_hook_.splice(with_hook_.end(), from, from.begin());
        send_(e);
    }

    Wheel& wheel_;
    const std::chrono::milliseconds patience_;
    const std::size_t most_;
    const std::function<void(entry&)> send_;
    std::list<entry> waiting_, suspects_;
    std::list<entry> refused_;    // in the order in which they go again
    std::list<entry> with_hook_;  // in the order in which they were sent
    std::list<entry> over_;       // until `go_on`
    entry* on_trial_ = nullptr;   // nothing else is sent meanwhile
    std::optional<typename clock::time_point> held_since_;
    bool is_away_ = false;
    typename clock::time_point answered_{};  // the last one
    typename clock::time_point given_up_{};  // of the last one that was refused for good
    bool is_full_ = false;  // as many as can be here were refused since the last answer
    typename clock::time_point refusing_{};  // the last one of these was, for the first time
    back_off pause_;
    tvec::timer trial_{tvec::call<&hook_queue::trial_, &hook_queue::on_trial>};
    tvec::timer rest_{tvec::call<&hook_queue::rest_, &hook_queue::go_on>};
    tvec::timer retry_{tvec::call<&hook_queue::retry_, &hook_queue::go_on>};
    tvec::timer again_{tvec::call<&hook_queue::again_, &hook_queue::go_on>};
};

}  // namespace timers_tool
