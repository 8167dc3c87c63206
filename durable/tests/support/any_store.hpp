// The common tests of every store of durable timers. The store is empty, and its shards have no
// owner.
#pragma once

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/asking.hpp"
#include "support/check.hpp"
#include "support/child.hpp"
#include "tvec/durable/memory_store.hpp"
#include "tvec/durable/timers.hpp"

namespace support {

namespace asking {

template <class T> bool same(const T& a, const T& b) { return a == b; }
inline bool same(const stored_timer& a, const stored_timer& b) {
    return static_cast<const record&>(a) == b && a.attempt == b.attempt && a.ended == b.ended &&
           a.spent == b.spent && a.history == b.history && a.verdict == b.verdict;
}
inline bool same(const claimed& a, const claimed& b) {
    return a.what == b.what && (a.what != claimed::kind::granted || same(a.timer, b.timer));
}
inline bool same(const end_reply& a, const end_reply& b) {
    return a.was_current == b.was_current && a.next == b.next;
}
template <class T> bool same(const std::optional<T>& a, const std::optional<T>& b) {
    return a.has_value() == b.has_value() && (!a || same(*a, *b));
}
inline bool same(const std::vector<stored_timer>& a, const std::vector<stored_timer>& b) {
    return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return same(x, y); });
}

// A store, and the one in memory: both get the same requests and must give the same answers.
class both {
public:
    explicit both(store& s)
        : kept_(s), database_(s.traits().shards), modelled_(database_, "model") {
        for (unsigned shard = 0; shard < s.traits().shards; ++shard)
            agree([&](store& each) { return own(each, shard, 10h); });
    }

    // A random request.
    void operate() {
        const std::string id(1 + below(2), "ab\0\xff"[below(4)]);
        const std::uint32_t last = last_attempt(id), attempt = last - std::min(last, below(3));
        const time_point due(duration(below(1'000'000)));
        switch (below(16)) {
        case 0:
        case 1: {
            const record r{id, due, std::string(below(6) * 200, '\0'), below(3) == 0 ? 24h : 0h,
                           below(3) == 0 ? "every \"odd\" day" : ""};
            const auto how = static_cast<existing>(below(4));
            return agree([&](store& s) { return put(s, r, how); });
        }
        case 2:
            return agree([&](store& s) { return cancel(s, id); });
        case 3:
        case 4: {
            const claimed c = claim(kept_, id);
            REQUIRE(same(c, claim(modelled_, id)));
            // No delivery has the id and attempt of another one.
            if (c.what == claimed::kind::granted)
                REQUIRE(given_.insert({id, c.timer.attempt}).second);
            return;
        }
        case 5:
        case 6:
            return agree([&, e = some_end({id, attempt}, due)](store& s) { return end(s, e); });
        case 7:
            return agree([&](store& s) { return find(s, id); });
        case 8:
            return agree([&](store& s) { return spend(s, {id, attempt}); });
        case 9:
            return agree([&](store& s) { return touch(s, id, due); });
        case 10:
            return agree([&](store& s) { return extend(s, {id, attempt}, -1h); });
        case 11: {
            const auto set = below(2) != 0 ? timer_set::waiting : timer_set::dead;
            const place after{below(2) != 0 ? due : time_point(), id};
            const std::string prefix = below(2) != 0 ? id : "";
            return agree([&](store& s) { return list(s, set, after, 3, prefix); });
        }
        case 13: {
            stored_timer letter{
                {id, due, std::string(below(6) * 200, 'b'), {}, below(2) != 0 ? "p" : ""}};
            letter.attempt = letter.ended = 1'000 * ++letters_;
            letter.history = std::string(below(30), 'h');
            return agree([&](store& s) { return bury(s, letter); });
        }
        case 12:
            return compare_oldest(below(2) != 0 ? id : "");
        default:
            return agree([&](store& s) { return revive(s, id, due); });
        }
    }

    // A file keeps no leases, and the ends of leases differ by the times of the two requests.
    void compare_oldest(const std::string& prefix) {
        if (!kept_.traits().shared) return;
        agree([&](store& s) {
            const auto found = oldest(s, prefix);
            return found && found->since == found->due ? found->id : "";
        });
    }

    template <class Ask> void agree(Ask ask) { REQUIRE(same(ask(kept_), ask(modelled_))); }

private:
    // Ends a delivery in any way.
    ending some_end(token t, time_point due) {
        const auto how = static_cast<outcome>(below(6));
        ending e{std::move(t), how, due};
        if (how == outcome::failed) e.reason = "no \"room\",\n" + std::to_string(below(100));
        const bool may_note = how == outcome::again || how == outcome::dead;
        if (may_note && below(2) != 0) e.history = std::string(below(30), 'h');
        return e;
    }
    std::uint32_t last_attempt(const std::string& id) {
        const auto t = find(modelled_, id);
        return t ? t->attempt : 0;
    }
    std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_()) % n; }

    store& kept_;
    memory_database database_;
    memory_store modelled_;
    std::set<std::pair<std::string, std::uint32_t>> given_;
    std::uint32_t letters_ = 0;
    std::mt19937 random_{1};
};

}  // namespace asking

// Makes this many requests, each with the same answer as from the store in memory.
inline void answers_as_the_store_in_memory(tvec::durable::store& kept, int operations) {
    using namespace asking;
    both w(kept);
    for (int i = 0; i < operations; ++i) w.operate();
    w.agree([](store& s) { return list(s, timer_set::waiting); });
    w.agree([](store& s) { return list(s, timer_set::dead); });
}

// For a store with one shard: what a handler has of an earlier timer of an id ends no later one, in
// whatever way that timer went.
inline void an_earlier_delivery_ends_no_later_timer(tvec::durable::store& s) {
    using namespace asking;
    const time_point now = today();
    own(s, 0);
    std::vector<token> earlier;
    const auto deliver = [&] {
        const claimed c = claim(s, "a", -1h);
        REQUIRE(c.what == claimed::kind::granted);
        for (const token& t : earlier) {
            CHECK(t.attempt < c.timer.attempt);
            for (const auto how : {outcome::done, outcome::failed, outcome::returned})
                CHECK(!end(s, {t, how}).was_current);
            CHECK(!extend(s, t, 1h) && !spend(s, t));
        }
        earlier.push_back({"a", c.timer.attempt});
    };
    const auto put_it = [&](const char* plan) {
        REQUIRE(put(s, {"a", now, "", 0ms, plan}) == put_result::stored);
    };
    for (const char* plan : {"", "retry fixed 1s", " attempts 3 |retry exponential 1s"}) {
        put_it(plan);
        deliver();
        CHECK(cancel(s, "a") == cancel_result::had_begun);
        put_it(plan);
        deliver();
        deliver();  // the handler before is late beyond its lease
        CHECK(end(s, {earlier.back()}).was_current);
        put_it(plan);
        deliver();
        CHECK(end(s, {earlier.back(), outcome::removed}).was_current);
        put_it(plan);
        deliver();
        CHECK(end(s, {earlier.back(), outcome::dead}).was_current);
        CHECK(cancel(s, "a") == cancel_result::had_begun);
        put_it(plan);
        deliver();
        CHECK(touch(s, "a", now) == touch_result::touched);
        CHECK(cancel(s, "a") == cancel_result::cancelled);
    }
    put_it("");
    deliver();
}

// For a store with one shard whose last attempt of gone timers is the last one of all.
inline void attempts_begin_anew(tvec::durable::store& s) {
    using namespace asking;
    own(s, 0);
    constexpr std::uint32_t first = 1U << 30;
    for (const std::uint32_t attempt : {first, 1U, 2U}) {
        put(s, {"a", today()});
        CHECK_EQ(claim(s, "a").timer.attempt, attempt);
        CHECK_EQ(end(s, {{"a", first}}).was_current, attempt == first);
        if (attempt != first) CHECK(end(s, {{"a", attempt}}).was_current);
    }
}

// For a store with one shard: a timer without a rule is gone when it is done, so a put that keeps
// stores another one.
inline void a_timer_with_retries_is_gone_when_it_is_done(tvec::durable::store& s) {
    using namespace asking;
    own(s, 0);
    for (const char* plan : {"retry fixed 1s", "attempts 3", "attempts 3|  retry fixed 1s"}) {
        CHECK(put(s, {"a", today(), "", 0ms, plan}) == put_result::stored);
        CHECK(end(s, {{"a", claim(s, "a").timer.attempt}}).next == std::nullopt);
        CHECK(!find(s, "a"));
    }
    for (const char* plan : {"times 2", "cron 0 9 * * * | retry fixed 1s",
                             "retry fixed 1s | times 2", "retrying | attempts 3", "attempts 3 |"}) {
        CHECK(put(s, {"b", today(), "", 0ms, plan}, existing::replace) == put_result::stored);
        CHECK(end(s, {{"b", claim(s, "b").timer.attempt}}).next.has_value());
        CHECK_EQ(find(s, "b")->verdict, "done");
    }
}

// For a store with one shard: the next timers are taken in order, page by page.
inline void takes_in_order(tvec::durable::store& s) {
    using namespace asking;
    const time_point now = today();
    for (const char* id : {"c", "a", "d", "b"}) put(s, {id, now + (*id == 'd' ? 1s : 2s)});
    put(s, {"late", now + 1h});
    const epoch e = own(s, 0);
    const auto [how, first] = take(s, 0, e, {}, now + 60s, 2);
    CHECK(how == standing::done);
    REQUIRE_EQ(first.size(), 2U);
    CHECK_EQ(first[0].id, "d");
    CHECK_EQ(first[1].id, "a");
    const auto rest = std::get<1>(take(s, 0, e, first[1], now + 60s, 10));
    REQUIRE_EQ(rest.size(), 2U);
    CHECK_EQ(rest[0].id, "b");
    CHECK(std::get<1>(take(s, 0, e, rest[1], now + 60s, 10)).empty());
}

// Timers of the next tenth of a second, on the wall clock: all arrive, and none early.
inline void delivers_fifty(tvec::durable::store& s) {
    using namespace asking;
    tvec::clocked_wheel wheel;
    int came = 0;
    timers<> all(wheel, s, [&](const delivery& d) {
        CHECK(d.due <= s.now());
        CHECK(d.due <= std::chrono::system_clock::now());
        ++came;
        all.done(d.token);
    });
    for (int i = 0; i < 50; ++i)
        CHECK(all.put({std::to_string(i), all.now() + 2ms * i}, existing::keep) == refusal::none);
    while (came < 50 || s.unanswered() != 0 || all.gauges().near != 0) {
        pollfd watched{all.fd(), POLLIN, 0};
        poll(&watched, 1, 1);
        wheel.run();
        all.run();
    }
    CHECK_EQ(came, 50);
    CHECK_EQ(count(s).waiting, 0U);
}

// For a store that waits a moment for answers. A server that goes on after a hang grants a claim
// whose connection was given up, and nobody waits for the end of its lease.
template <class Stop, class GoOn>
void delivers_after_a_hang(tvec::durable::store& s, Stop stop, GoOn go_on) {
    using namespace asking;
    tvec::clocked_wheel wheel;
    int came = 0;
    options o;
    o.claim_lease = 1h;
    timers<> all(
        wheel, s,
        [&](const delivery& d) {
            CHECK_EQ(d.token.attempt, 1U);
            ++came;
            all.done(d.token);
        },
        o);
    const auto run_until = [&](auto is_so) {
        for (; !is_so(); all.run()) {
            pollfd watched{all.fd(), POLLIN, 0};
            poll(&watched, 1, 1);
            wheel.run();
        }
    };
    run_until([&] { return all.ready(); });
    bool is_stored = false;
    const auto on_stored = [&](put_result r) { is_stored = r == put_result::stored; };
    CHECK(all.put({"a", all.now() + 100ms}, existing::keep, on_stored) == refusal::none);
    run_until([&] { return is_stored; });
    stop();
    run_until([&] { return !s.broken_connections().empty(); });
    go_on();
    run_until([&] { return came == 1; });
}

// For a store with one shard: a claimed timer is taken when its lease is over.
inline void hides_what_is_claimed(tvec::durable::store& s) {
    using namespace asking;
    const time_point due = today();
    put(s, {"a", due});
    const epoch e = own(s, 0);
    CHECK(claim(s, "a", 1h).what == claimed::kind::granted);
    const claimed again = claim(s, "a", 1h);
    CHECK(again.what == claimed::kind::early);
    CHECK(again.timer.due >= due + 1h);
    CHECK(std::get<1>(take(s, 0, e, {}, due + 59min, 1)).empty());
    CHECK_EQ(std::get<1>(take(s, 0, e, {}, today() + 1h, 1)).size(), 1U);
}

// For a store with one shard: a claim that was lost is granted again, as the same attempt, until
// somebody has shown to know of it.
inline void grants_a_lost_claim_again(tvec::durable::store& s) {
    using namespace asking;
    put(s, {"a", today() - 1h});
    own(s, 0);
    const time_point before = std::chrono::floor<duration>(s.now());
    const auto claim_since = [&](time_point since) {
        const claim_terms terms{1h, claim_terms{}.bytes, since};
        return std::get<1>(answer_to(s, operations::claim{0, 1, terms, {"a"}})).front();
    };
    CHECK(claim(s, "a", 1h).what == claimed::kind::granted);
    CHECK(claim_since(today() + 1h).what == claimed::kind::early);
    for (int i = 0; i < 2; ++i) {
        const claimed again = claim_since(before);
        CHECK(again.what == claimed::kind::granted);
        CHECK_EQ(again.timer.attempt, 1U);
    }
    CHECK(claim(s, "a", 1h).timer.due >= today() + 59min);
    CHECK(extend(s, {"a", 1}, 1h));
    CHECK(claim_since(before).what == claimed::kind::early);
    CHECK(end(s, {{"a", 1}}).was_current);
}

// For a store with one shard: the timer that waits longest is found among those that nobody is at
// work on.
inline void finds_the_timer_that_waits_longest(tvec::durable::store& s) {
    using namespace asking;
    const time_point now = today();
    CHECK(!oldest(s));
    put(s, {"later", now + 1h});
    CHECK(!oldest(s));
    put(s, {"b 1", now - 1min});
    put(s, {"a 1", now - 1h});
    own(s, 0);
    REQUIRE(oldest(s).has_value());
    CHECK_EQ(oldest(s)->id, "a 1");
    CHECK(oldest(s)->due == now - 1h && oldest(s)->since == now - 1h);
    CHECK_EQ(oldest(s, "b ")->id, "b 1");
    CHECK(!oldest(s, "c"));
    const claimed c = claim(s, "a 1", 1h);
    CHECK_EQ(oldest(s)->id, "b 1");
    CHECK(!oldest(s, "a"));
    end(s, {{"a 1", c.timer.attempt}, outcome::failed, {}, "no"});
    CHECK_EQ(oldest(s)->id, "a 1");
    claim(s, "b 1", 1h);
    cancel(s, "a 1");
    CHECK(!oldest(s));
}

// For a store with one shard: a timer whose claim has no end when its lease is over waits since
// then, and one with a prefix is looked for among a thousand.
inline void a_lease_that_is_over_makes_a_timer_wait(tvec::durable::store& s) {
    using namespace asking;
    const time_point now = today();
    put(s, {"a", now - 5h});
    own(s, 0);
    claim(s, "a", -1h);
    if (s.traits().shared) {
        REQUIRE(oldest(s).has_value());
        CHECK(oldest(s)->due == now - 5h && oldest(s)->since > now - 2h);
    }
    cancel(s, "a");
    std::vector<record> many(overdue_looked_at, record{"", now - 1h});
    for (std::size_t i = 0; i < many.size(); ++i) many[i].id = "m" + std::to_string(i);
    answer_to(s, operations::put{many, existing::keep});
    put(s, {"z", now - 1min});
    CHECK(oldest(s, "z")->id.front() == 'm');
    cancel(s, "m0");
    CHECK_EQ(oldest(s, "z")->id, "z");
}

// For a store with one shard: a timer of which two attempts had no end is overdue while a third one
// is under way.
inline void attempts_without_an_end_make_a_timer_overdue(tvec::durable::store& s) {
    using namespace asking;
    const time_point now = today();
    put(s, {"a", now - 1h});
    put(s, {"b", now - 1min});
    own(s, 0);
    claim(s, "b", 1h);
    claim(s, "a", -1h);
    claim(s, "a", 1h);
    CHECK(!oldest(s));
    extend(s, {"a", 2}, -1h);
    claim(s, "a", 1h);
    REQUIRE(oldest(s).has_value());
    CHECK_EQ(oldest(s)->id, "a");
    CHECK(oldest(s)->due == now - 1h && oldest(s)->since == now - 1h);
    CHECK_EQ(oldest(s)->unended, 2U);
    CHECK(!oldest(s, "b"));
    end(s, {{"a", 3}, outcome::failed, {}, "no"});
    CHECK_EQ(oldest(s)->unended, 0U);
    claim(s, "a", 1h);
    CHECK(!oldest(s));
}

// For a store with one shard: deliveries hide no timer that waits for longer, whether they are
// under way or had no end, and none of another kind hides one with a prefix.
inline void deliveries_hide_no_timer_that_waits_longer(tvec::durable::store& s) {
    using namespace asking;
    const time_point now = today();
    const epoch mine = own(s, 0);
    put(s, {"waits", now - 1h});
    std::vector<record> many(overdue_looked_at + 100, record{"", now - 5h});
    std::vector<std::string> ids;
    for (std::size_t i = 0; i < many.size(); ++i) {
        many[i].id = (i < 100 ? "ended " : "taken ") + std::to_string(i);
        ids.push_back(many[i].id);
    }
    answer_to(s, operations::put{many, existing::keep});
    for (std::size_t i = 0; i < ids.size(); i += 100) {
        const std::vector some(ids.begin() + static_cast<std::ptrdiff_t>(i),
                               ids.begin() + static_cast<std::ptrdiff_t>(i + 100));
        answer_to(s, operations::claim{0, mine, {i == 0 ? duration(0) : duration(1h)}, some});
    }
    REQUIRE(oldest(s).has_value());
    CHECK_EQ(oldest(s)->id, "waits");
    CHECK(!oldest(s, "taken 5"));
    put(s, {"gone", now - 2h});
    for (int i = 0; i < 2; ++i) claim(s, "gone", -1h);
    claim(s, "gone", 3h);
    REQUIRE(oldest(s, "go").has_value());
    CHECK_EQ(oldest(s, "go")->id, "gone");
    CHECK_EQ(oldest(s, "go")->unended, 2U);
}

// For a store with one shard: requests of one turn for the same timer are done in their order.
inline void keeps_the_order_of_a_turn(tvec::durable::store& s) {
    using namespace asking;
    put(s, {"a", today()});
    const epoch e = own(s, 0);
    claim(s, "a", 10s);
    std::vector<bool> current;
    std::vector<claimed::kind> kinds;
    std::vector<put_result> puts;
    const auto end_it = [&](std::uint32_t attempt) {
        const auto note = [&](standing, const auto& r) { current.push_back(r[0].was_current); };
        s.submit(operations::end{0, {{{"a", attempt}}}, note});
    };
    const auto put_it = [&](existing how) {
        const auto note = [&](const auto& r) { puts.push_back(r.front()); };
        s.submit(operations::put{{{"a", today()}}, how, note});
    };
    const auto claim_it = [&] {
        const auto note = [&](standing, const auto& r) { kinds.push_back(r.front().what); };
        s.submit(operations::claim{0, e, {10s}, {"a"}, note});
    };
    put_it(existing::replace);
    end_it(1);   // of the replaced one
    claim_it();  // the third attempt of all
    end_it(3);
    claim_it();  // there is none left
    put_it(existing::keep);
    while (s.unanswered() != 0) s.run();
    CHECK((current == std::vector{false, true}));
    CHECK((kinds == std::vector{claimed::kind::granted, claimed::kind::gone}));
    CHECK((puts == std::vector{put_result::stored, put_result::stored}));
    CHECK_EQ(find(s, "a")->attempt, 3U);  // those of a new timer follow
}

// For a store with one shard: thousands of timers in one put, one claim and one end.
inline void serves_many_in_one_call(tvec::durable::store& s) {
    using namespace asking;
    std::vector<record> all;
    std::vector<std::string> ids;
    for (int i = 0; i < 3'000; ++i) {
        ids.push_back(std::to_string(i));
        all.push_back({ids.back(), today()});
    }
    const auto results = std::get<0>(answer_to(s, operations::put{all, existing::keep}));
    CHECK_EQ(std::ranges::count(results, put_result::stored), 3'000);
    all.push_back({"new", today() + 1h});
    const auto again = std::get<0>(answer_to(s, operations::put{all, existing::keep}));
    CHECK_EQ(std::ranges::count(again, put_result::there_already), 3'000);
    CHECK(again.back() == put_result::stored);
    CHECK(cancel(s, "new") == cancel_result::cancelled);
    CHECK(std::get<0>(answer_to(s, operations::put{{}, existing::keep})).empty());
    const auto got = std::get<1>(answer_to(s, operations::claim{0, own(s, 0), {}, ids}));
    REQUIRE_EQ(got.size(), 3'000U);
    std::vector<ending> ends;
    for (std::size_t i = 0; i < got.size(); ++i) {
        CHECK_EQ(got[i].timer.id, ids[i]);
        ends.push_back({{ids[i], got[i].timer.attempt}});
    }
    const auto ended = std::get<1>(answer_to(s, operations::end{0, ends}));
    CHECK_EQ(std::ranges::count_if(ended, &end_reply::was_current), 3'000);
    CHECK_EQ(count(s).waiting, 0U);
    CHECK_EQ(list(s, timer_set::waiting).size(), 0U);
}

// For a store with one shard: a claim grants bodies until they are enough, and one in every case.
inline void grants_bodies_up_to_a_bound(tvec::durable::store& s) {
    using namespace asking;
    const std::vector<std::string> ids{"a", "b", "c", "d"};
    for (const std::string& id : ids)
        put(s, {id, today() - 1h, std::string(id < "c" ? 1'000 : 100'000, 'x')});
    const epoch e = own(s, 0);
    const auto granted = [&](std::size_t bytes) {
        const auto got = std::get<1>(answer_to(s, operations::claim{0, e, {-1h, bytes}, ids}));
        const auto n = std::ranges::count(got, claimed::kind::granted, &claimed::what);
        CHECK_EQ(n + std::ranges::count(got, claimed::kind::later, &claimed::what), 4);
        return n;
    };
    CHECK_EQ(granted(1), 1);
    CHECK_EQ(find(s, "b")->attempt, 0U);
    CHECK_EQ(granted(1'500), 2);
    CHECK_EQ(granted(50'000), 3);
    CHECK_EQ(granted(1'000'000), 4);
}

// A shard has one owner, until it gives the shard back or its lease is over.
inline void has_one_owner_at_a_time(tvec::durable::store& a, tvec::durable::store& b) {
    using namespace asking;
    CHECK_EQ(own(a, 0), 1U);
    CHECK_EQ(own(a, 0), 1U);
    CHECK_EQ(own(b, 0), 0U);
    answer_to(a, operations::release{0, 1});
    CHECK_EQ(own(b, 0, 30ms), 2U);
    CHECK(std::get<0>(take(a, 0, 1, {}, today(), 1)) == standing::fenced);
    CHECK(std::get<0>(answer_to(a, operations::claim{0, 1, {}, {"x"}})) == standing::fenced);
    CHECK(std::get<0>(answer_to(a, operations::spend{0, 1, {"x", 1}})) == standing::fenced);
    epoch mine = 0;
    while ((mine = own(a, 0)) == 0) continue;
    CHECK_EQ(mine, 3U);
    CHECK_EQ(join(a), 1U);
    CHECK_EQ(join(b), 2U);
}

// For a store with one shard: ids and bodies are any bytes, and pages of one deadline are in byte
// order.
inline void keeps_any_bytes_in_byte_order(tvec::durable::store& s) {
    using namespace asking;
    std::vector<record> all;
    for (int i = 0; i < 256; ++i)
        all.push_back({{static_cast<char>(i), 'x'}, today() + 1s, {'\0', static_cast<char>(i)}});
    for (record& r : all) r.due = all.front().due;
    const auto stored = std::get<0>(answer_to(s, operations::put{all, existing::keep}));
    CHECK_EQ(std::ranges::count(stored, put_result::stored), 256);
    const epoch e = own(s, 0);
    place last{};
    std::string seen;
    for (;;) {
        const auto got = std::get<1>(take(s, 0, e, last, today() + 60s, 7));
        if (got.empty()) break;
        for (const place& p : got) seen += p.id[0];
        last = got.back();
    }
    REQUIRE_EQ(seen.size(), 256U);
    for (std::size_t i = 0; i < seen.size(); ++i) REQUIRE(seen[i] == static_cast<char>(i));
    for (const record& r : all) REQUIRE(find(s, r.id)->body == r.body);
}

// Each is tested on a set of timers of its own.
inline constexpr std::array promises_of_a_shard{takes_in_order,
                                                hides_what_is_claimed,
                                                grants_a_lost_claim_again,
                                                an_earlier_delivery_ends_no_later_timer,
                                                a_timer_with_retries_is_gone_when_it_is_done,
                                                keeps_the_order_of_a_turn,
                                                serves_many_in_one_call,
                                                keeps_any_bytes_in_byte_order,
                                                grants_bodies_up_to_a_bound,
                                                finds_the_timer_that_waits_longest,
                                                a_lease_that_is_over_makes_a_timer_wait,
                                                attempts_without_an_end_make_a_timer_overdue,
                                                deliveries_hide_no_timer_that_waits_longer};

// Stores of one server and their terms: `a` and `equal` have the same, `silent` has none.
template <class Store>
void warn_of_other_terms(Store& a, Store& equal, Store& silent, std::unique_ptr<Store> other) {
    using namespace asking;
    for (Store* s : {&a, &equal, &silent, &a}) join(*s);
    CHECK_EQ(a.warning(), "");
    join(*other);
    for (Store* s : {&a, &equal, &silent}) join(*s);
    for (Store* s : {&a, &equal, other.get()})
        CHECK(s->warning().find("with other options") != std::string::npos);
    CHECK_EQ(silent.warning(), "");
    other.reset();
    while (!a.warning().empty()) join(a);
}

// Processes of one server: one leaves long before its lease ends, and one is silent for longer.
template <class Store>
void counts_no_departed_or_silent_process(Store& a, std::unique_ptr<Store> leaves, Store& silent) {
    using namespace asking;
    join(*leaves, 1h);
    join(silent, 2s);
    CHECK_EQ(join(a), 3U);
    while (join(a) != 2U) continue;
    leaves.reset();
    while (join(a) != 1U) continue;
}

// A forked child that destroys its copy of the store takes nothing from its parent.
template <class Store> void outlives_a_forked_child(std::unique_ptr<Store> s) {
    using namespace asking;
    join(*s);
    CHECK(ended_well(start_child([&] {
        s.reset();
        return static_cast<const char*>(nullptr);
    })));
    CHECK_EQ(join(*s), 1U);
    CHECK(put(*s, {"a", today() + 1h}) == put_result::stored);
    CHECK(s->broken_connections().empty());
}

// After `break_connections` the store connects again, and its descriptor is not readable for ever.
// A forked child has a copy of the old connections meanwhile.
template <class Break>
void sleeps_after_a_break_beside_a_child(tvec::durable::store& s, Break break_connections) {
    using namespace asking;
    int reconnected = 0;
    s.listen({{}, [&] { ++reconnected; }});
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (true) pause();
    }
    break_connections();
    turn_until(s, [&] { return reconnected == 1; });
    bool is_asleep = false;
    for (int turns = 0; turns < 1'000 && !is_asleep; ++turns) {
        pollfd watched{s.fd(), POLLIN, 0};
        is_asleep = poll(&watched, 1, 300) == 0;
        s.run();
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    CHECK(is_asleep);
}

}  // namespace support
