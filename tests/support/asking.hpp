// What is asked of a store of durable timers, and waited for; the same for all of them.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "tvec/durable/memory_store.hpp"
#include "tvec/durable/timers.hpp"

namespace support {

namespace asking {

using namespace std::chrono_literals;
using namespace tvec::durable;

// Asks, and waits for the answer.
template <class... Answer, class Ask> std::tuple<Answer...> answer_to(store& s, Ask ask) {
    std::optional<std::tuple<Answer...>> got;
    ask(store::completion<Answer...>([&](Answer... a) { got.emplace(std::move(a)...); }));
    while (!got) {
        pollfd watched{s.fd(), POLLIN, 0};
        poll(&watched, 1, 10'000);
        s.run();
    }
    return *got;
}

inline put_result put(store& s, const record& r, existing how = existing::keep) {
    return std::get<0>(
               answer_to<std::vector<put_result>>(s, [&](auto then) { s.put({r}, how, then); }))
        .front();
}
inline cancel_result cancel(store& s, const std::string& id) {
    return std::get<0>(answer_to<cancel_result>(s, [&](auto then) { s.cancel(id, then); }));
}
inline auto end(store& s, const ending& e) {
    return std::get<1>(answer_to<standing, std::vector<end_reply>>(
                           s, [&](auto then) { s.end(s.shard_of(e.which.id), {e}, then); }))
        .front();
}
inline claimed claim(store& s, const std::string& id, std::uint32_t attempts = 0,
                     duration lease = -1h) {
    return std::get<1>(answer_to<standing, std::vector<claimed>>(
                           s,
                           [&](auto then) {
                               s.claim(s.shard_of(id), 1, {lease, attempts}, {id}, then);
                           }))
        .front();
}
inline auto find(store& s, const std::string& id) {
    return std::get<1>(
        answer_to<standing, std::optional<stored_timer>>(s, [&](auto then) { s.find(id, then); }));
}
inline auto list(store& s, which set, const place& after = {}, std::size_t limit = 100) {
    return std::get<1>(answer_to<standing, std::vector<stored_timer>>(
        s, [&](auto then) { s.list(set, after, limit, then); }));
}
inline auto count(store& s) {
    return std::get<1>(answer_to<standing, totals>(s, [&](auto then) { s.count(then); }));
}
inline auto revive(store& s, const std::string& id, time_point due) {
    return std::get<0>(answer_to<revive_result>(s, [&](auto then) { s.revive(id, due, then); }));
}
inline auto take(store& s, const place& after, time_point until, std::size_t limit) {
    return std::get<1>(answer_to<standing, std::vector<place>>(
        s, [&](auto then) { s.take(0, 1, after, until, limit, then); }));
}

inline bool same(const stored_timer& a, const stored_timer& b) {
    return static_cast<const record&>(a) == b && a.attempt == b.attempt && a.ended == b.ended;
}
template <class T> bool same(const std::optional<T>& a, const std::optional<T>& b) {
    return a.has_value() == b.has_value() && (!a || same(*a, *b));
}
inline bool same(const std::vector<stored_timer>& a, const std::vector<stored_timer>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const auto& x, const auto& y) { return same(x, y); });
}

inline time_point today() { return std::chrono::floor<duration>(std::chrono::system_clock::now()); }

// The same is asked of both, at random, and has to be answered alike.
struct both {
    explicit both(store& s) : kept(s), database(s.traits().shards), modelled(database, "model") {
        for (store* each : {&kept, static_cast<store*>(&modelled)})
            for (unsigned shard = 0; shard < s.traits().shards; ++shard)
                answer_to<standing, epoch>(*each, [&](auto then) { each->own(shard, 10h, then); });
    }

    template <class Ask> auto ask(Ask f) {
        auto a = f(kept), b = f(static_cast<store&>(modelled));
        return std::pair(std::move(a), std::move(b));
    }
    template <class Ask> void agree(Ask f) {
        const auto [a, b] = ask(f);
        REQUIRE(a == b);
    }
    template <class Ask> void agree_on_timers(Ask f) {
        const auto [a, b] = ask(f);
        REQUIRE(same(a, b));
    }

    store& kept;
    memory_database database;
    memory_store modelled;
};

}  // namespace asking

// Its shards are nobody's, and it is empty: it is asked so much, and has to answer as the store in
// memory does.
inline void answers_as_the_store_in_memory(tvec::durable::store& kept, int operations) {
    using namespace asking;
    both w(kept);
    std::mt19937 random(1);
    for (int i = 0; i < operations; ++i) {
        const std::string id(1 + random() % 2, static_cast<char>("ab\0\xff"[random() % 4]));
        const std::uint32_t attempt = random() % 6;
        const time_point due(duration(random() % 1'000'000));
        const duration every(random() % 3 == 0 ? 24h : 0h);
        switch (random() % 9) {
        case 0:
        case 1: {
            const auto how = random() % 2 ? existing::keep : existing::replace;
            w.agree([&](store& s) {
                return put(s, {id, due, std::string(attempt, '\0'), every}, how);
            });
            break;
        }
        case 2:
            w.agree([&](store& s) { return cancel(s, id); });
            break;
        case 3:
        case 4: {
            const auto [a, b] = w.ask([&](store& s) { return claim(s, id, 4); });
            CHECK(a.what == b.what);
            if (a.what == claimed::kind::granted) REQUIRE(same(a.timer, b.timer));
            break;
        }
        case 5: {
            const ending e{{id, attempt}, random() % 2 ? std::optional(due) : std::nullopt};
            const auto [a, b] = w.ask([&](store& s) { return end(s, e); });
            CHECK_EQ(a.was_current, b.was_current);
            CHECK(a.next == b.next);
            break;
        }
        case 6:
            w.agree_on_timers([&](store& s) { return find(s, id); });
            break;
        case 7: {
            const auto set = random() % 2 ? which::waiting : which::dead;
            w.agree_on_timers([&](store& s) { return list(s, set, {due, id}, 3); });
            break;
        }
        default:
            w.agree([&](store& s) { return revive(s, id, due); });
        }
    }
    w.agree_on_timers([](store& s) { return list(s, which::waiting); });
    w.agree_on_timers([](store& s) { return list(s, which::dead); });
}

// Timers of the next tenth of a second, on the wall clock: all come, and none before its time.
inline void deliver_fifty(tvec::durable::store& s) {
    using namespace std::chrono_literals;
    tvec::clocked_wheel wheel;
    int came = 0;
    tvec::durable::timers<>* all = nullptr;
    tvec::durable::timers timers(wheel, s, [&](tvec::durable::delivery d) {
        CHECK(d.due <= s.now());
        CHECK(d.due <= std::chrono::system_clock::now());
        ++came;
        all->done(d.which);
    });
    all = &timers;
    for (int i = 0; i < 50; ++i)
        CHECK(timers.put({std::to_string(i), timers.now() + 2ms * i},
                         tvec::durable::existing::keep) == tvec::durable::refusal::none);
    while (came < 50 || s.unanswered() != 0 || timers.now_near().near != 0) {
        pollfd watched{timers.fd(), POLLIN, 0};
        poll(&watched, 1, 1);
        wheel.run();
        timers.run();
    }
    CHECK_EQ(came, 50);
    CHECK_EQ(asking::count(s).waiting, 0U);
}

}  // namespace support
