// Promises: deliveries that end a hook, hang, break their connections or are refused hold up others
// for a second at most, and others do not fail by them. What a hook refuses for now has not failed.
#include "../tools/serve/hook_queue.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../../tests/support/environment.hpp"
#include "support/check.hpp"

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using wheel = tvec::clocked_wheel<tvec::tick_clock<milliseconds, tvec::manual_clock>>;
using queue = timers_tool::hook_queue<wheel>;
using time_point = tvec::manual_clock::time_point;

constexpr milliseconds lease = 30s, longest_pause = 2s, retry = 1s;
constexpr std::size_t window = 1'000;

time_point now() { return tvec::manual_clock::now(); }

// Returns the number of deliveries that are not with the hook, for all that health knows.
unsigned waiting_in(const queue& all) {
    unsigned n = 0;
    all.for_each_waiting([&n](const auto&) { ++n; });
    return n;
}

// The handler of a timer: what it does, and after which time.
struct handler {
    enum class kind { answers, hangs, hangs_up, ends_the_hook, refuses } what;
    milliseconds after{};
};

// A hook on manual time, and timers that come again after their failures.
class hook {
public:
    // A hook that has ended is there again after a while.
    explicit hook(milliseconds away = 300ms, std::size_t most = window)
        : away_(away), queue_(wheel_, lease, most, [this](queue::entry& e) { on_sent(e); }) {}

    void put(const std::string& id, handler h) {
        handlers_[id] = h;
        put(id);
    }
    void withdraw(const std::string& id) {
        queue_.withdraw({id, books_[id].attempt});
        set_waits(books_[id], false);
    }
    void pass(milliseconds d) {
        for (; d > 0ms; d -= 1ms) {
            tvec::manual_clock::advance(1ms);
            wheel_.run();
            act();
            comes_again();
            ++all_ms_;
            held_ms_ += !queue_.is_away() && waiting_ != 0;
        }
    }
    // Has it refuse so many of each thousand calls, whatever their handlers do.
    void refuses(unsigned of_thousand) { refusals_ = of_thousand; }
    // Has no timer come again after its failure.
    void comes_no_more() { is_over_ = true; }
    // Lets time pass until all deliveries have ended. What is refused is not from now on.
    void finish() {
        comes_no_more();
        refuses_none_ = true;
        for (int i = 0; i < 3'000 && !queue_.is_empty(); ++i) pass(100ms);
        CHECK(queue_.is_empty());
    }

    struct book {
        std::uint32_t attempt = 0;
        unsigned calls = 0, failures = 0, answers = 0;
        unsigned breaks = 0, most_breaks = 0;  // of an attempt
        bool waits = false;                    // it has not been sent since it was put
        time_point put{};
        milliseconds latest{};
    };
    const book& of(const std::string& id) { return books_[id]; }
    const queue& all() const { return queue_; }
    unsigned waiting() const { return waiting_in(queue_); }
    void check_bounds() const {
        for (const auto& [id, b] : books_) {
            CHECK_LE(b.most_breaks, queue::most_breaks);
            CHECK_LE(b.latest.count(), (2 * queue::quiet + 1ms).count());
        }
        CHECK_LE(held_ms_, all_ms_ / 2 + 1'000);
    }

private:
    struct event {
        time_point at;
        queue::entry* of;
        handler::kind what;
    };

    void put(const std::string& id) {
        book& b = books_[id];
        b.put = now();
        set_waits(b, true);
        b.breaks = 0;
        queue_.put({{id, ++b.attempt}, {}});
        queue_.go_on();
    }
    void set_waits(book& b, bool does) {
        waiting_ += does;
        waiting_ -= std::exchange(b.waits, does);
    }
    void on_sent(queue::entry& e) {
        book& b = books_[e.d.token.id];
        if (b.waits)
            b.latest = std::max(b.latest, std::chrono::duration_cast<milliseconds>(
                                              now() - std::max(b.put, away_until_)));
        set_waits(b, false);
        const handler h = handlers_[e.d.token.id];
        is_up() ? with_it_.push_back({now() + std::min(h.after, lease), &e, h.what})
                : refused_.push_back(&e);
        b.calls += is_up();
    }
    bool is_up() const { return now() >= up_at_; }

    void act() {
        for (queue::entry* const e : std::exchange(refused_, {})) {
            away_until_ = now() + longest_pause;
            set_waits(books_[e->d.token.id], e->breaks == 0 && !e->is_over);
            end(*e, queue::way::unsent);
        }
        for (std::size_t i = 0; i < with_it_.size(); ++i) {
            if (with_it_[i].at > now()) continue;
            const event e = with_it_[i];
            if (e.what == handler::kind::ends_the_hook) {
                up_at_ = now() + away_;
                away_until_ = up_at_ + longest_pause;
                for (const event& each : std::exchange(with_it_, {}))
                    end(*each.of, queue::way::broken);
                return;
            }
            with_it_.erase(with_it_.begin() + static_cast<std::ptrdiff_t>(i--));
            const queue::way how =
                random_() % 1'000 < refusals_ ? queue::way::refused : way_of(e.what);
            end(*e.of, how, how == queue::way::answered);
        }
    }
    queue::way way_of(handler::kind what) const {
        if (what == handler::kind::hangs) return queue::way::silent;
        if (what == handler::kind::refuses && !refuses_none_) return queue::way::refused;
        return what == handler::kind::hangs_up ? queue::way::broken : queue::way::answered;
    }
    void end(queue::entry& e, queue::way how, bool is_good = false) {
        const std::string id = e.d.token.id;
        book& b = books_[id];
        b.breaks += how == queue::way::broken;
        b.most_breaks = std::max(b.most_breaks, b.breaks);
        const bool was_withdrawn = e.is_over;
        if (queue_.end(e, how) && !was_withdrawn) {
            is_good ? ++b.answers : ++b.failures;
            if (!is_good) again_.emplace(now() + retry, id);
        }
        queue_.go_on();
    }
    void comes_again() {
        while (!again_.empty() && again_.begin()->first <= now()) {
            const std::string id = again_.extract(again_.begin()).mapped();
            if (!is_over_) put(id);
        }
    }

    const milliseconds away_;
    wheel wheel_;
    queue queue_;
    std::map<std::string, handler> handlers_;
    std::map<std::string, book> books_;
    std::vector<event> with_it_;
    std::vector<queue::entry*> refused_;
    std::multimap<time_point, std::string> again_;
    time_point up_at_{}, away_until_{};
    bool is_over_ = false, refuses_none_ = false;
    unsigned refusals_ = 0;
    std::mt19937 random_;
    std::uint64_t all_ms_ = 0, held_ms_ = 0, waiting_ = 0;  // never sent
};

// A good timer each 100 ms beside the bad ones, for 40 seconds and until each of these has failed:
// none is late by more than a second, and none fails.
void good_ones_beside(const std::vector<handler>& bad) {
    tvec::manual_clock::set({});
    hook h;
    const auto bad_id = [](std::size_t i) { return "bad " + std::to_string(i); };
    for (std::size_t i = 0; i < bad.size(); ++i) h.put(bad_id(i), bad[i]);
    const auto have_failed = [&] {
        for (std::size_t i = 0; i < bad.size(); ++i)
            if (h.of(bad_id(i)).failures == 0) return false;
        return true;
    };
    int good = 0;
    for (; good < 400 || (good < 4'000 && !have_failed()); ++good) {
        h.put(std::to_string(good), {handler::kind::answers, 20ms});
        h.pass(100ms);
    }
    CHECK(have_failed());
    h.finish();
    for (int i = 0; i < good; ++i) {
        CHECK_EQ(h.of(std::to_string(i)).answers, 1U);
        CHECK_EQ(h.of(std::to_string(i)).failures, 0U);
    }
    h.check_bounds();
}

}  // namespace

Test(durable_hook_queue, bad_timers_hold_up_others_for_a_second) {
    constexpr handler hangs{handler::kind::hangs, lease}, up{handler::kind::hangs_up, 0ms},
        late{handler::kind::hangs_up, 8s}, ends{handler::kind::ends_the_hook, 10ms},
        refused{handler::kind::refuses, 10ms};
    for (const std::size_t n : {1U, 2U, 10U})
        for (const auto& kinds :
             std::vector<std::vector<handler>>{{hangs},
                                               {up},
                                               {late},
                                               {ends},
                                               {refused},
                                               {hangs, up},
                                               {hangs, late},
                                               {hangs, ends},
                                               {hangs, up, late, ends, refused}}) {
            std::vector<handler> bad;
            for (const handler& kind : kinds) bad.insert(bad.end(), n, kind);
            good_ones_beside(bad);
        }
}

Test(durable_hook_queue, lone_deliveries_fail_at_their_second_disconnect) {
    tvec::manual_clock::set({});
    hook h;
    h.comes_no_more();
    h.put("a", {handler::kind::hangs_up, 5ms});
    h.pass(7ms);
    CHECK_EQ(h.of("a").failures, 0U);
    h.pass(100ms);
    CHECK_EQ(h.of("a").calls, 2U);
    CHECK_EQ(h.of("a").failures, 1U);
}

Test(durable_hook_queue, deliveries_beside_others_fail_at_their_third_disconnect) {
    tvec::manual_clock::set({});
    hook h;
    h.comes_no_more();
    h.put("hangs", {handler::kind::hangs, lease});
    h.put("a", {handler::kind::hangs_up, 5ms});
    h.pass(20s);
    CHECK_EQ(h.of("a").calls, 3U);
    CHECK_EQ(h.of("a").failures, 1U);
    CHECK_EQ(h.of("hangs").calls, 1U);
}

Test(durable_hook_queue, a_slow_delivery_outlives_crashes_of_the_hook) {
    tvec::manual_clock::set({});
    hook h(0ms);
    h.comes_no_more();
    h.put("slow", {handler::kind::answers, 20s});
    h.put("ends", {handler::kind::ends_the_hook, 5ms});
    h.pass(60s);
    CHECK_EQ(h.of("ends").failures, 1U);
    CHECK_EQ(h.of("slow").answers, 1U);
    CHECK_EQ(h.of("slow").failures, 0U);
}

Test(durable_hook_queue, a_withdrawn_delivery_goes_no_second_time) {
    tvec::manual_clock::set({});
    hook h;
    h.comes_no_more();
    h.put("ends", {handler::kind::ends_the_hook, 5ms});
    h.put("a", {handler::kind::answers, 100ms});
    h.pass(1ms);
    h.withdraw("a");
    h.pass(10s);
    CHECK_EQ(h.of("a").calls, 1U);
    CHECK(h.all().is_empty());
}

Test(durable_hook_queue, an_empty_queue_is_not_away) {
    tvec::manual_clock::set({});
    hook h;
    h.comes_no_more();
    h.put("ends", {handler::kind::ends_the_hook, 5ms});
    h.put("a", {handler::kind::answers, 100ms});
    h.pass(50ms);
    CHECK(h.all().is_away());
    CHECK_EQ(h.waiting(), 2U);
    h.withdraw("a");
    h.withdraw("ends");
    h.pass(1ms);
    CHECK(!h.all().is_away());
    CHECK_EQ(h.waiting(), 0U);
}

// While a request tries whether the hook is back. It is among those that health asks the store for.
Test(durable_hook_queue, a_withdrawn_request_in_flight_is_not_awaited) {
    tvec::manual_clock::set({});
    wheel timers;
    queue::entry* sent = nullptr;
    queue all(timers, lease, window, [&sent](queue::entry& e) { sent = &e; });
    all.put({{"a", 1}, {}});
    all.go_on();
    REQUIRE(!all.end(*std::exchange(sent, nullptr), queue::way::unsent));
    while (sent == nullptr) {
        tvec::manual_clock::advance(100ms);
        timers.run();
    }
    CHECK(all.is_away());
    CHECK_EQ(waiting_in(all), 1U);
    all.withdraw({"a", 1});
    CHECK_EQ(waiting_in(all), 0U);
    CHECK(!all.is_away());
    CHECK(all.end(*sent, queue::way::unsent));
}

// A proxy whose hook is away for many leases.
Test(durable_hook_queue, a_hook_that_refuses_all_fails_none) {
    tvec::manual_clock::set({});
    hook h;
    h.refuses(1'000);
    for (int i = 0; i < 20; ++i) h.put(std::to_string(i), {handler::kind::answers, 20ms});
    h.pass(20 * lease);
    CHECK_EQ(h.waiting(), 20U);
    h.refuses(0);
    h.finish();
    for (int i = 0; i < 20; ++i) {
        CHECK_EQ(h.of(std::to_string(i)).answers, 1U);
        CHECK_EQ(h.of(std::to_string(i)).failures, 0U);
    }
}

Test(durable_hook_queue, a_hook_that_refuses_half_fails_none) {
    tvec::manual_clock::set({});
    hook h;
    h.refuses(500);
    for (int i = 0; i < 20; ++i) h.put(std::to_string(i), {handler::kind::answers, 20ms});
    h.finish();
    for (int i = 0; i < 20; ++i) CHECK_EQ(h.of(std::to_string(i)).failures, 0U);
}

Test(durable_hook_queue, a_timer_that_alone_is_refused_fails) {
    tvec::manual_clock::set({});
    hook h;
    h.comes_no_more();
    h.put("a", {handler::kind::refuses, 0ms});
    h.pass(lease - 1s);
    h.put("other", {handler::kind::answers, 0ms});
    h.pass(1s);
    CHECK_EQ(h.of("a").failures, 0U);
    h.pass(queue::longest_pause);
    CHECK_EQ(h.of("a").failures, 1U);
    CHECK(h.all().is_empty());
}

namespace {

// A queue whose deliveries all are refused, and the times at which they were sent.
class refusals {
public:
    explicit refusals(std::size_t most = window, std::optional<milliseconds> told_first = {})
        : told(told_first),
          all(timers_, lease, most, [this](queue::entry& e) { sent_.push_back(&e); }) {}
    void pass(milliseconds d) {
        for (; d > 0ms; d -= 1ms) {
            while (!sent_.empty() && now() - sent_.front()->sent >= after) {
                queue::entry* const e = sent_.front();
                sent_.erase(sent_.begin());
                times.push_back(now().time_since_epoch() / 1ms);
                if (all.end(*e, queue::way::refused, told)) failed.push_back(e->d.token.id);
                all.go_on();
            }
            tvec::manual_clock::advance(1ms);
            timers_.run();
        }
    }

    std::vector<std::int64_t> times{};
    std::vector<std::string> failed{};

    std::optional<milliseconds> told;
    milliseconds after{};  // its call

private:
    wheel timers_;
    std::vector<queue::entry*> sent_{};

public:
    queue all;
};

}  // namespace

Test(durable_hook_queue, a_refused_delivery_waits_as_it_was_told) {
    using times = std::vector<std::int64_t>;
    for (const auto& [told, expected] : std::vector<std::pair<std::optional<milliseconds>, times>>{
             {{}, {0, 1'000, 3'000, 7'000, 15'000, 23'000, 31'000, 39'000}},
             {0s, {0, 1'000, 2'000, 3'000, 4'000, 5'000, 6'000, 7'000}},
             {5s, {0, 5'000, 10'000, 15'000, 20'000, 25'000, 30'000, 35'000}},
             {24h, {0, 30'000, 60'000, 90'000, 120'000, 150'000, 180'000, 210'000}}}) {
        tvec::manual_clock::set({});
        refusals r(window, told);
        r.all.put({{"a", 1}, {}});
        while (r.times.size() < expected.size()) r.pass(1ms);
        CHECK(r.times == expected);
        CHECK(r.failed.empty());
    }
}

Test(durable_hook_queue, a_long_retry_delay_holds_up_nobody) {
    for (const bool is_first : {true, false}) {
        tvec::manual_clock::set({});
        refusals r;
        for (const char* const id : {"a", "b"}) {
            r.told = is_first == (*id == 'a') ? std::optional(20s) : std::nullopt;
            r.all.put({{id, 1}, {}});
            r.pass(1ms);
        }
        r.pass(1s);
        CHECK_EQ(r.times.size(), 3U);
    }
}

// A request that times out is no answer.
Test(durable_hook_queue, a_hook_that_is_silent_answers_nothing) {
    tvec::manual_clock::set({});
    hook h;
    h.comes_no_more();
    h.put("a", {handler::kind::refuses, 0ms});
    h.put("silent", {handler::kind::hangs, lease});
    h.pass(2 * lease);
    CHECK_EQ(h.of("silent").failures, 1U);
    CHECK_EQ(h.of("a").failures, 0U);
}

// Others may be due, and are not here.
Test(durable_hook_queue, refused_deliveries_that_fill_it_fail_in_turn) {
    tvec::manual_clock::set({});
    refusals r(2);
    r.all.put({{"a", 1}, {}});
    r.all.put({{"b", 1}, {}});
    r.pass(lease);
    CHECK(r.failed.empty());
    r.pass(queue::longest_pause);
    CHECK_EQ(r.failed.size(), 1U);
    r.all.put({{"c", 1}, {}});
    r.pass(lease - queue::longest_pause);
    CHECK_EQ(r.failed.size(), 1U);
    r.pass(2 * queue::longest_pause);
    CHECK_EQ(r.failed.size(), 2U);
}

Test(durable_hook_queue, refusals_after_long_calls_fail_in_turn) {
    tvec::manual_clock::set({});
    refusals r(2);
    r.after = 10s;  // one of them is always with the hook
    for (const char* const id : {"a", "b"}) {
        r.all.put({{id, 1}, {}});
        r.pass(9s);
    }
    r.pass(2 * lease);
    CHECK_EQ(r.failed.size(), 1U);
}

Test(durable_hook_queue, a_hook_that_refuses_all_is_told) {
    for (const std::size_t most : {1U, 2U, 32U}) {
        tvec::manual_clock::set({});
        refusals r(most);
        std::size_t n = 0;
        const auto fill = [&] {
            for (; n < most + r.failed.size(); ++n) r.all.put({{std::to_string(n), 1}, {}});
        };
        fill();
        r.pass(queue::longest_pause);
        CHECK_EQ(r.all.refused(), most);
        CHECK(!r.all.is_refusing());
        for (milliseconds t{}; t < 4 * lease; t += 1ms) {
            r.pass(1ms);
            CHECK(r.all.is_refusing());
            if (t % 50ms == 0ms) fill();  // the store is slower
        }
        CHECK(!r.failed.empty());
    }
}

Test(durable_hook_queue, a_hook_that_answers_again_refuses_no_more) {
    tvec::manual_clock::set({});
    hook h(300ms, 2);
    h.refuses(1'000);
    for (const char* const id : {"a", "b"}) h.put(id, {handler::kind::answers, 20ms});
    h.pass(lease);
    CHECK(h.all().is_refusing());
    h.refuses(0);
    h.finish();
    CHECK(!h.all().is_refusing());
    h.refuses(1'000);
    for (const char* const id : {"a", "b"}) h.put(id, {handler::kind::refuses, 20ms});
    h.pass(queue::longest_pause);
    CHECK(!h.all().is_refusing());
}

Test(durable_hook_queue, partly_refusing_hooks_are_not_reported) {
    tvec::manual_clock::set({});
    hook h(300ms, 3);
    h.comes_no_more();
    h.put("a", {handler::kind::refuses, 0ms});
    h.put("b", {handler::kind::refuses, 0ms});
    for (int i = 0; i < 40; ++i) {
        h.put(std::to_string(i), {handler::kind::answers, 0ms});
        h.pass(500ms);
        CHECK_EQ(h.all().refused(), 2U);
        CHECK(!h.all().is_refusing());
    }
    h.pass(lease - 20s);
    CHECK(!h.all().is_refusing());  // there is room for others
}

Test(durable_hook_queue, refusals_of_withdrawn_deliveries_are_forgotten) {
    tvec::manual_clock::set({});
    refusals r(1);
    r.all.put({{"a", 1}, {}});
    r.pass(lease / 2);
    CHECK(r.all.is_refusing());
    r.all.withdraw({"a", 1});
    CHECK_EQ(r.all.refused(), 0U);
    CHECK(!r.all.is_refusing());
    r.pass(lease);
    r.all.put({{"b", 1}, {}});
    r.pass(1s);
    CHECK_EQ(r.all.refused(), 1U);
    CHECK(!r.all.is_refusing());
}

Test(durable_hook_queue, a_refused_delivery_is_listed_until_withdrawn) {
    tvec::manual_clock::set({});
    refusals r;
    r.all.put({{"a", 1}, {}});
    r.pass(1ms);
    for (int i = 0; i < 5'000; ++i) {  // under way or not
        CHECK_EQ(waiting_in(r.all), 1U);
        r.pass(1ms);
    }
    r.all.withdraw({"a", 1});
    CHECK_EQ(waiting_in(r.all), 0U);
    r.pass(10s);
    CHECK(r.all.is_empty());
}

Test(durable_hook_queue, random_timers_keep_the_bounds) {
    const std::uint64_t seed = support::from_environment("TVEC_SEED", std::random_device{}());
    std::fprintf(stderr, "TVEC_SEED=%llu\n", static_cast<unsigned long long>(seed));
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    const auto some = [&](milliseconds most) {
        return milliseconds(below(static_cast<std::uint64_t>(most.count())));
    };
    for (int round = 0; round < 10; ++round) {
        tvec::manual_clock::set({});
        hook h;
        std::vector<std::string> good;
        for (int step = 0; step < 100; ++step) {
            const std::string id = std::to_string(step);
            const auto what = static_cast<handler::kind>(below(8) < 5 ? 0 : below(5));
            const bool is_slow =
                what == handler::kind::hangs_up || (what == handler::kind::hangs && below(2) != 0);
            h.put(id,
                  {what, what == handler::kind::hangs ? lease : some(is_slow ? 9s : queue::quiet)});
            if (what == handler::kind::answers) good.push_back(id);
            if (below(40) == 0) h.comes_no_more();
            if (below(20) == 0) h.withdraw(std::to_string(below(100)));
            h.pass(some(500ms));
        }
        h.finish();
        for (const std::string& id : good) CHECK_EQ(h.of(id).failures, 0U);
        h.check_bounds();
    }
}
