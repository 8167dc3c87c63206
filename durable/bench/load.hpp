// The timers that are put, their times, and durable timers to put them into.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "../../examples/support/figures.hpp"
#include "backend.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/durable/timers.hpp"

namespace bench {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;
using example::seconds_of;

inline const std::string body(64, 'b');

inline time_point today() { return std::chrono::floor<duration>(std::chrono::system_clock::now()); }

// Twenty bytes, in order or not.
inline std::string id_of(std::uint64_t n, bool in_order) {
    return fmt::format("{:020}", in_order ? n : n * 11400714819323198485ULL);
}

// Durable timers on a store, with a loop.
class on_tvec {
public:
    explicit on_tvec(
        std::unique_ptr<store> s, on_due handle = [](time_point) {})
        : store_(std::move(s)),
          timers_(wheel_, *store_, [handle = std::move(handle), this](const delivery& d) {
              handle(d.due);
              timers_.done(d.token);
          }) {}

    void turn(int at_most_ms = 1'000) {
        alarm_.rearm();
        pollfd watched[] = {{alarm_.fd(), POLLIN, 0}, {timers_.fd(), POLLIN, 0}};
        poll(watched, 2, at_most_ms);
        if (watched[0].revents != 0) alarm_.acknowledge();
        wheel_.run();
        timers_.run();
        if (failed_) throw std::runtime_error("a put was not stored: " + store_->last_failure());
    }

    void put(item i) {
        const refusal refused =
            timers_.put({std::move(i.id), i.due, body}, existing::keep, [this](put_result p) {
                failed_ |= p != put_result::stored;
                ++answered_;
            });
        if (refused != refusal::none) throw std::runtime_error(to_text(refused));
        ++asked_;
    }
    void put(const std::vector<item>& items) {
        for (const item& i : items) put(i);
    }
    // Until at most so many are not stored yet.
    void wait_for_puts(std::uint64_t at_most_left = 0) {
        while (asked_ - answered_ > at_most_left) turn();
    }
    // Until it has all that is due soon in its wheel.
    void wait_for_window() {
        while (!timers_.ready() || timers_.gauges().shards < traits().shards) turn();
    }
    // Gives what it owns to whoever comes next.
    void leave() {
        bool is_over = false;
        timers_.stop([&](const auto&) { is_over = true; });
        while (!is_over) turn();
    }
    const store_traits& traits() const { return store_->traits(); }
    timers<>& all() { return timers_; }

private:
    std::unique_ptr<store> store_;
    tvec::clocked_wheel<> wheel_;
    tvec::timerfd_alarm<tvec::clocked_wheel<>> alarm_{wheel_};
    std::uint64_t asked_ = 0, answered_ = 0;
    bool failed_ = false;
    timers<> timers_;
};

// At a steady rate, due one to three seconds later.
class arrivals {
public:
    arrivals(unsigned rate, unsigned seconds) : rate_(rate), seconds_(seconds) {}
    bool over() const { return steady::now() >= begun_ + std::chrono::seconds(seconds_); }
    // Returns the deliveries since the last call.
    std::vector<item> more() {
        const double until = std::min<double>(seconds_of(steady::now() - begun_), seconds_);
        std::vector<item> come;
        for (; static_cast<double>(sent_) < until * rate_; ++sent_)
            come.push_back({id_of(sent_, false), today() + 1s + duration(random_() % 2'000)});
        return come;
    }
    std::uint64_t sent() const { return sent_; }

private:
    unsigned rate_, seconds_;
    steady::time_point begun_ = steady::now();
    std::uint64_t sent_ = 0;
    std::mt19937_64 random_{7};
};

}  // namespace bench
