// Durable timers on manual time: a database in memory, and processes that share it.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "../../../tests/support/environment.hpp"
#include "asking.hpp"
#include "tvec/durable/memory_store.hpp"
#include "tvec/durable/timers.hpp"

namespace support {

using std::chrono::milliseconds;

// The time of the database's clock when the manual clock is at 0.
inline constexpr tvec::durable::reading durable_start{std::chrono::hours(24 * 365 * 50)};

inline tvec::durable::reading durable_now() {
    return durable_start + std::chrono::floor<std::chrono::microseconds>(
                               tvec::manual_clock::now().time_since_epoch());
}

inline tvec::durable::time_point in(milliseconds d) {
    return std::chrono::floor<milliseconds>(durable_now()) + d;
}

// Lets time pass in steps of a millisecond. Builds that only check memory take at most a thousand
// steps.
template <class AfterEach> void pass(milliseconds d, AfterEach after_each) {
    const milliseconds usual =
        only_memory() ? std::max(milliseconds(1), d / 1'000) : milliseconds(1);
    while (d > milliseconds(0)) {
        const milliseconds step = std::min(d, usual);
        tvec::manual_clock::advance(step);
        after_each();
        d -= step;
    }
}

// A process beside the others, to ask what is in the database.
struct beside {
    explicit beside(tvec::durable::memory_database& all, std::string name = "beside")
        : link(all, std::move(name)) {}
    operator tvec::durable::store&() { return link; }

    tvec::durable::memory_store link;
};

// A connection that can leave it to a test when requests are done and answers arrive.
struct stepped_store : tvec::durable::memory_store {
    using memory_store::memory_store;
    std::size_t run() override { return is_stepped ? 0 : memory_store::run(); }
    void serve_all() {
        while (serve()) continue;
    }
    void answer_all() {
        while (answer()) continue;
    }

    bool is_stepped = false;
};

// One of the processes. It keeps its deliveries, and ends them if told to.
struct durable_process {
    using wheel = tvec::clocked_wheel<tvec::tick_clock<milliseconds, tvec::manual_clock>>;

    explicit durable_process(tvec::durable::memory_database& all, std::string name = "one",
                             tvec::durable::options o = {}, milliseconds ahead = {})
        : store(all, std::move(name), ahead),
          timers(
              wheels, store, [this](tvec::durable::delivery d) { on(std::move(d)); }, o) {}

    void on(tvec::durable::delivery d) {
        CHECK(d.due <= store.now());
        got.push_back(d);
        if (handle)
            handle(d);
        else if (ends)
            timers.done(d.token);
    }

    // Runs a turn of its loop, or several until no answer is missing.
    void turn() {
        wheels.run();
        timers.run();
    }
    void settle() {
        do turn();
        while (store.unanswered() != 0);
        turn();
    }
    void pass(milliseconds d) {
        support::pass(d, [this] { settle(); });
    }
    tvec::durable::put_result put(const tvec::durable::record& r,
                                  tvec::durable::existing how = tvec::durable::existing::keep) {
        auto result = tvec::durable::put_result::unknown;
        CHECK(timers.put(r, how, [&](auto answer) { result = answer; }) ==
              tvec::durable::refusal::none);
        settle();
        return result;
    }
    // Lets time pass while no request is done and no answer arrives.
    void pass_without_answers(milliseconds d) {
        store.is_stepped = true;
        support::pass(d, [this] { turn(); });
        store.is_stepped = false;
    }
    // Puts a timer, and lets it be delivered within that time and not ended.
    void begin(const tvec::durable::record& r, milliseconds within) {
        ends = false;
        put(r);
        pass(within);
        REQUIRE_EQ(got.size(), 1U);
    }
    tvec::durable::cancel_result cancel(const std::string& id) {
        auto result = tvec::durable::cancel_result::unknown;
        CHECK(timers.cancel(id, [&](auto answer) { result = answer; }) ==
              tvec::durable::refusal::none);
        settle();
        return result;
    }

    wheel wheels;
    stepped_store store;
    bool ends = true;
    std::function<void(const tvec::durable::delivery&)> handle{};  // in place of the end
    std::vector<tvec::durable::delivery> got;
    tvec::durable::timers<wheel> timers;
};

// A process that has the database to itself.
struct alone {
    explicit alone(tvec::durable::options o = {}) : one(all, "one", o) { one.settle(); }

    std::vector<std::string> list(tvec::durable::timer_set set, tvec::durable::place after,
                                  std::size_t limit) {
        std::vector<std::string> ids;
        CHECK(
            one.timers.list(set, after, limit, [&](tvec::durable::standing how, const auto& page) {
                CHECK(how == tvec::durable::standing::done);
                for (const tvec::durable::stored_timer& t : page) ids.push_back(t.id);
            }) == tvec::durable::refusal::none);
        one.settle();
        return ids;
    }

    tvec::durable::memory_database all{4, durable_now};
    durable_process one;
};

}  // namespace support
