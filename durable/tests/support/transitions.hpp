// Each event on a timer in each state: what a store answers, and what the timer is afterwards. The
// store in memory, which calls `timer_state`, tells what every store has to do.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/asking.hpp"
#include "support/check.hpp"
#include "tvec/durable/memory_store.hpp"

namespace support::transitions {

using namespace asking;

struct timer_kind {
    std::string name;
    duration every{};
    std::string plan{};
};
inline const timer_kind once{"once"}, with_period{"with a period", 24h},
    with_plan{"with a plan", 0h, "times 2 | retry fixed 1s"},
    with_retries{"with retries", 0h, "retry fixed 1s | attempts 3"};

// A timer, brought into a state by events, and what came of the last one.
struct subject {
    std::string id;
    timer_kind kind;
    time_point base;  // an hour ago
    std::string answer{};
    bool is_dead = false, was_there = false;
    std::optional<stored_timer> timer{};  // as the store shows it
    std::string told{};
    std::uint32_t first = 0;  // what its attempts follow

    token last(std::uint32_t before = 0) const {
        return {id, (timer ? timer->attempt : 0) - before};
    }
    bool is_open() const { return timer && timer->attempt != timer->ended; }
};

// Something that is done to a timer.
struct event {
    using then = std::function<void(std::string answer)>;

    std::string name;
    std::function<operation(const store&, const subject&, then)> ask;
    bool needs_leases = false;  // a store that keeps none answers something else
};

namespace events {

inline event put(std::string name, existing how, duration later) {
    return {std::move(name), [=](const store&, const subject& s, event::then then) -> operation {
                constexpr std::array words{"stored", "there_already", "dead", "unknown", "failed"};
                const record r{s.id, s.base + later, "body", s.kind.every, s.kind.plan};
                return operations::put{{r}, how, [=](const auto& results) {
                                           then(words[static_cast<std::size_t>(results[0])]);
                                       }};
            }};
}
inline event claim(std::string name, duration lease, time_point since = claim_terms{}.since) {
    return {std::move(name),
            [=](const store& in, const subject& s, event::then then) -> operation {
                constexpr std::array words{"granted", "gone", "early", "later", "damaged"};
                const auto on_answer = [=](standing, const auto& all) {
                    then(words[static_cast<std::size_t>(all.at(0).what)]);
                };
                const claim_terms terms{lease, claim_terms{}.bytes, since};
                return operations::claim{in.shard_of(s.id), 1, terms, {s.id}, on_answer};
            },
            lease > 0h || since != claim_terms{}.since};
}
// Of the last attempt, or of one before.
inline event end(std::string name, outcome how, std::optional<std::string> history = {},
                 std::uint32_t before = 0, duration due = 30min) {
    return {std::move(name), [=](const store& in, const subject& s, event::then then) -> operation {
                const ending e{s.last(before), how, s.base + due,
                               how == outcome::failed ? "REASON" : "", history};
                return operations::end{
                    in.shard_of(s.id), {e}, [=](standing, const auto& all) {
                        const end_reply& r = all.at(0);
                        then(!r.was_current ? "stale" : r.next ? "ended, comes again" : "ended");
                    }};
            }};
}
inline event spend(std::string name, std::uint32_t before = 0) {
    return {std::move(name), [=](const store& in, const subject& s, event::then then) -> operation {
                return operations::spend{in.shard_of(s.id), 1, s.last(before),
                                         [=](standing, bool is) { then(is ? "ok" : "stale"); }};
            }};
}
inline event extend(std::string name, duration lease) {
    return {std::move(name),
            [=](const store& in, const subject& s, event::then then) -> operation {
                return operations::extend{in.shard_of(s.id), s.last(), lease,
                                          [=](standing, bool is) { then(is ? "ok" : "stale"); }};
            },
            lease > 0h};
}
template <class Operation> event set_deadline(std::string name) {
    return {std::move(name), [](const store&, const subject& s, event::then then) -> operation {
                return Operation{s.id, s.base + 2h, [=](auto result) {
                                     const bool is = static_cast<int>(result) == 0;
                                     then(is ? Operation::success : "unknown_id");
                                 }};
            }};
}
inline event cancel(std::string name) {
    return {std::move(name), [](const store&, const subject& s, event::then then) -> operation {
                constexpr std::array words{"cancelled", "had_begun", "unknown_id"};
                return operations::cancel{s.id, [=](cancel_result result) {
                                              then(words.at(static_cast<std::size_t>(result)));
                                          }};
            }};
}
inline event bury(std::string name) {
    return {std::move(name), [](const store&, const subject& s, event::then then) -> operation {
                stored_timer letter{{s.id, s.base, "body", 0h, s.kind.plan}};
                letter.attempt = letter.ended = 7;
                letter.history = "h";
                return operations::bury{letter,
                                        [=](standing, bool is) { then(is ? "buried" : "taken"); }};
            }};
}

}  // namespace events

// A state, and the events that lead to it.
struct state {
    std::string name;
    std::vector<event> way;
};

inline const event put_it = events::put("", existing::keep, 0h), begin = events::claim("", -1h),
                   begin_for_an_hour = events::claim("", 1h), count_it = events::spend(""),
                   note_it = events::end("", outcome::again, "h", 0, 20min),
                   fail_it = events::end("", outcome::failed),
                   return_it = events::end("", outcome::returned),
                   bury_it = events::end("", outcome::dead, "h"),
                   touch_it = events::set_deadline<operations::touch>("touch"),
                   revive_it = events::set_deadline<operations::revive>("revive");

inline const std::vector<state> states{
    {"no timer", {}},
    {"waits", {put_it}},
    {"waits for later", {events::put("", existing::keep, 5h)}},
    {"has failed", {put_it, begin, count_it, fail_it}},
    {"comes again, with a history", {put_it, begin, note_it}},
    {"was returned", {put_it, begin, count_it, return_it}},
    {"was touched", {put_it, begin, count_it, touch_it}},
    {"was replaced", {put_it, begin, count_it, events::put("", existing::replace, 0h)}},
    {"is delivered, its lease is over", {put_it, begin}},
    {"is delivered", {put_it, begin_for_an_hour}},
    {"is delivered, its lease extended", {put_it, begin, events::extend("", 1h)}},
    {"is delivered for an hour and counted", {put_it, begin_for_an_hour, count_it}},
    {"is delivered and counted", {put_it, begin, count_it}},
    {"is delivered after a failure", {put_it, begin, fail_it, begin}},
    {"is delivered twice", {put_it, begin, begin}},
    {"is delivered twice, the first counted", {put_it, begin, count_it, begin}},
    {"is delivered twice, both counted", {put_it, begin, count_it, begin, count_it}},
    {"is delivered twice, the second returned",
     {put_it, begin, count_it, begin, count_it, return_it}},
    {"a dead letter", {put_it, begin, count_it, bury_it}},
    {"a dead letter that was buried", {events::bury("")}},
    {"was revived", {put_it, begin, count_it, bury_it, revive_it}},
};

inline const std::vector<event> all_events{
    events::put("put keep", existing::keep, 0h),
    events::put("put replace", existing::replace, 0h),
    events::put("put sooner, earlier", existing::sooner, -1min),
    events::put("put sooner, later", existing::sooner, 9h),
    events::put("put later, earlier", existing::later, -1min),
    events::put("put later, later", existing::later, 9h),
    events::claim("claim", -1h),
    events::claim("claim for an hour", 1h),
    events::claim("claim what was lost", 1h, earliest_due),
    events::end("done", outcome::done),
    events::end("again", outcome::again),
    events::end("again with history", outcome::again, "new"),
    events::end("again without history", outcome::again, ""),
    events::end("failed", outcome::failed),
    events::end("dead", outcome::dead),
    events::end("dead with history", outcome::dead, "new"),
    events::end("removed", outcome::removed),
    events::end("returned", outcome::returned),
    events::end("done, earlier attempt", outcome::done, {}, 1),
    events::end("returned, earlier attempt", outcome::returned, {}, 1),
    events::spend("spend"),
    events::spend("spend, earlier attempt", 1),
    events::extend("extend, over", -1h),
    events::extend("extend for an hour", 1h),
    touch_it,
    revive_it,
    events::cancel("cancel"),
    events::bury("bury"),
};

// What is done after an event, to see what a store does not show.
inline const std::vector<event> probes{count_it, begin, return_it, begin, fail_it};

// Asks the store for all timers. The index of a timer is its id.
inline void look(store& s, std::vector<subject>& all) {
    for (subject& x : all) {
        x.was_there = x.timer.has_value();
        x.timer.reset();
    }
    for (const timer_set set : {timer_set::waiting, timer_set::dead}) {
        constexpr std::size_t most = 500;
        std::vector<stored_timer> page;
        place after{};
        do {
            page = list(s, set, after, most);
            for (const stored_timer& t : page) {
                subject& x = all.at(std::stoul(t.id));
                CHECK(!x.timer);
                x.timer = t;
                x.is_dead = set == timer_set::dead;
                if (!x.was_there) x.first = x.is_dead ? 0 : t.ended;
            }
            if (!page.empty()) after = {page.back().due, page.back().id};
        } while (page.size() == most);
    }
}

// Does to each timer the event that `which` returns for its index, if any, at once.
template <class Which> void act(store& s, std::vector<subject>& all, Which which) {
    std::size_t left = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const event* const e = which(i);
        if (e == nullptr) continue;
        ++left;
        s.submit(e->ask(s, all[i], [&all, &left, i](std::string answer) {
            all[i].answer = std::move(answer);
            --left;
        }));
    }
    turn_until(s, [&] { return left == 0; });
    look(s, all);
}

// Brings each timer into its state.
inline void prepare(store& s, std::vector<subject>& all, const std::vector<const state*>& in) {
    std::size_t longest = 0;
    for (const state* x : in) longest = std::max(longest, x->way.size());
    for (std::size_t step = 0; step < longest; ++step)
        act(s, all,
            [&](std::size_t i) { return step < in[i]->way.size() ? &in[i]->way[step] : nullptr; });
}

inline std::string to_text(const subject& s) {
    if (!s.timer) return s.answer + ", gone";
    const stored_timer& t = *s.timer;
    return s.answer + (s.is_dead ? ", dead" : ", there") + ", due " +
           std::to_string((t.due - s.base).count()) + " attempt " +
           std::to_string(t.attempt - s.first) + " ended " + std::to_string(t.ended - s.first) +
           " spent " + std::to_string(t.spent) + " every " + std::to_string(t.every.count()) +
           " body '" + t.body + "' plan '" + t.plan + "' history '" + t.history + "' verdict '" +
           t.verdict + "'";
}

// Each event on each kind of timer in each state has the same consequence as in memory.
inline void are_those_of_the_store_in_memory(store& kept) {
    memory_database database(kept.traits().shards);
    memory_store model(database, "model");
    const time_point base = today() - 1h;
    const auto has_leases = [](const event& e) { return e.needs_leases; };
    std::vector<subject> all;
    std::vector<const state*> from;
    std::vector<const event*> what;
    for (const timer_kind& kind : {once, with_period, with_plan, with_retries})
        for (const state& in : states)
            for (const event& e : all_events) {
                const bool leases = has_leases(e) || std::ranges::any_of(in.way, has_leases);
                if (leases && !kept.traits().shared) continue;
                all.push_back({std::to_string(all.size()), kind, base});
                all.back().told = kind.name + ", " + in.name + ", " + e.name + ":";
                from.push_back(&in);
                what.push_back(&e);
            }
    const auto told_by = [&](store& s) {
        for (unsigned shard = 0; shard < kept.traits().shards; ++shard) own(s, shard, 10h);
        std::vector<subject> told = all;
        prepare(s, told, from);
        const auto add = [&](auto which) {
            act(s, told, which);
            for (subject& x : told) x.told += "\n  " + to_text(x);
        };
        add([&](std::size_t i) { return what[i]; });
        for (const event& probe : probes) add([&](std::size_t) { return &probe; });
        return told;
    };
    const std::vector<subject> got = told_by(kept), expected = told_by(model);
    for (std::size_t i = 0; i < all.size(); ++i) CHECK_EQ(got[i].told, expected[i].told);
}

}  // namespace support::transitions
