#include "tvec/durable/redis_store.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../local/hash.hpp"
#include "../local/longest_wait.hpp"
#include "answers.hpp"
#include "functions.hpp"
#include "servers.hpp"
#include "wire.hpp"

namespace tvec::durable {

using redis::command, redis::fate, redis::fields, redis::rest;
using kind = redis::wire::kind;

namespace {

// Bodies in one command that shows timers.
constexpr std::size_t shown_together = 32;

// Places that a list with a prefix reads from each shard at a time, at least.
constexpr std::size_t looked_at_together = 1'000;

std::string_view word_of(existing how) {
    using enum existing;
    return how == keep ? "keep" : how == replace ? "replace" : how == sooner ? "sooner" : "later";
}

std::string_view word_of(timer_set set) { return set == timer_set::waiting ? "waiting" : "dead"; }

long long ms(time_point t) { return t.time_since_epoch().count(); }

// Returns the way in which a delivery ends, as functions.lua reads it.
std::string way_of(const ending& e) {
    assert((!e.history || e.how == outcome::again || e.how == outcome::dead) &&
           "other ends keep the history");
    const std::string history = e.history ? ' ' + *e.history : "";
    switch (e.how) {
    case outcome::done:
        break;
    case outcome::again:
        return std::to_string(ms(e.due)) + history;
    case outcome::failed:
        return "f " + e.reason;
    case outcome::dead:
        return "d" + history;
    case outcome::removed:
        return "x";
    case outcome::returned:
        return "r";
    }
    return "";
}

// Returns the word for period and plan of a put.
std::string period_and_plan(const record& r) {
    const std::string every = std::to_string(r.every.count());
    return r.plan.empty() ? every : every + ' ' + r.plan;
}

// Readers of the parts of answers.
void read_end(std::vector<end_reply>& all, std::size_t part, fields& f) {
    all[part] = redis::end_of(f);
}
void read_found(std::optional<stored_timer>& found, std::size_t, fields& f) {
    if (!f.at_end()) found = redis::timer_of(f);
}
void read_listed(std::vector<stored_timer>& all, std::size_t, fields& f) {
    std::ranges::move(rest(f, redis::timer_of), std::back_inserter(all));
}
auto read_oldest(std::string prefix) {
    return [prefix = std::move(prefix)](std::optional<overdue>& found, std::size_t, fields& f) {
        if (f.at_end()) return;
        overdue o{f.text(), redis::time_of(f.number()), redis::time_of(f.number()), false,
                  static_cast<std::uint32_t>(f.number())};
        durable::detail::keep_longest(found, std::move(o), prefix);
    };
}
void read_totals(totals& sum, std::size_t, fields& f) {
    sum.waiting += static_cast<std::uint64_t>(f.number());
    sum.dead += static_cast<std::uint64_t>(f.number());
    sum.damaged += static_cast<std::uint64_t>(f.number());
}
void read_number(std::uint64_t& n, std::size_t, fields& f) {
    n = static_cast<std::uint64_t>(f.number());
}
void read_joined(std::array<std::uint64_t, 2>& all, std::size_t, fields& f) {
    for (std::uint64_t& n : all) n = static_cast<std::uint64_t>(f.number());
}
// Records that one take can set aside: more of them would keep the server busy for long.
constexpr std::size_t most_set_aside = 1'000'000;
void read_places(std::vector<place>& all, std::size_t, fields& f) {
    fields places = f.list();
    all = rest(places, redis::place_of);
    const auto aside = static_cast<std::size_t>(f.number());
    if (!places.is_whole() || aside > most_set_aside) return f.reject();
    all.insert(all.begin(), aside, place{});
}
void read_found_places(std::vector<place>& all, std::size_t, fields& f) {
    std::ranges::move(rest(f, redis::place_of), std::back_inserter(all));
}
void read_flag(bool& flag, std::size_t, fields& f) { flag = f.number() == 1; }
void read_claimed(std::vector<claimed>& all, std::size_t part, fields& f) {
    std::string id = std::move(all[part].timer.id);  // the answer does not hold it
    all[part] = redis::claim_of(f);
    all[part].timer.id = std::move(id);
}
put_result read_put(fields& f) {
    const long long n = f.number();
    return n == 0 ? put_result::there_already : n == 1 ? put_result::stored : put_result::dead;
}

// Returns a reader of 0 for an unknown id, 1 for success, and 2 for `two`.
template <class Result> auto read_result(Result two = {}) {
    return [two](fields& f) {
        const long long n = f.number();
        return n == 0 ? Result::unknown_id : n == 1 ? Result{} : two;
    };
}

}  // namespace

// The requests to each shard. Puts, ends, claims and spends wait in a batch of each kind. No other
// request overtakes them.
struct redis_store::inner {
    explicit inner(redis::servers& s)
        : servers(s), traits{s.shards(), true, s.options().claim_ahead},
          requests(wire, s.shards()) {}

    using request_ptr = durable::detail::request_ptr<fields&>;

    unsigned shard_of(std::string_view id) const;
    void close_sendable();
    // Sends a command for one request.
    void ask(unsigned shard, const command& c, request_ptr q, bool has_time = false) {
        requests.close(shard);
        wire.ask(shard, c, {{std::move(q)}}, has_time);
    }
    // Returns a call of a function about a shard.
    command call(unsigned shard, std::string_view name) const { return wire.function(shard, name); }

    void submit(operations::put o);
    void submit(operations::cancel o);
    void submit(operations::end o);
    void submit(operations::find o);
    void submit(operations::list o);
    void look(operations::list o, std::vector<place> found);
    void show(operations::list o, std::vector<place> places);
    void submit(operations::oldest o);
    void submit(operations::count o);
    template <durable::detail::sets_deadline Operation> void submit(Operation o);
    void submit(operations::extend o);
    void submit(operations::bury o);
    void submit(operations::join o);
    void submit(operations::own o);
    void submit(operations::release o);
    void submit(operations::take o);
    void submit(operations::claim o);
    void submit(operations::spend o);

    redis::servers& servers;
    store_traits traits;
    redis::wire wire{servers};
    durable::detail::coalescer<redis::wire> requests;
};

// Mixes the upper half of the hash into the lower.
unsigned redis_store::inner::shard_of(std::string_view id) const {
    return durable::detail::shard_of_id(id, traits.shards);
}

// Closes the batches of shards whose server takes them now.
void redis_store::inner::close_sendable() {
    const std::size_t bytes = requests.waiting();
    for (unsigned shard = 0; shard < traits.shards; ++shard)
        if (servers.may_send(shard, bytes)) requests.close(shard);
}

// --- the store ----------------------------------------------------------------------------------

redis_store::redis_store(redis_options o)
    : servers_(std::make_unique<redis::servers>(std::move(o))),
      inner_(std::make_unique<inner>(*servers_)) {}

// Other processes share the shards anew at once, without waiting for the end of the lease.
redis_store::~redis_store() {
    if (!servers_->is_ours()) return;
    try {
        servers_->ask({}, {"HDEL", servers_->key("processes"), servers_->me()},
                      [](fate, const redisReply*) {});
        servers_->leave();
    } catch (const std::exception&) {  // no memory: its lease ends later
    }
}

std::string redis_store::warning() const { return servers_->warning(); }
int redis_store::fd() const noexcept { return servers_->fd(); }
reading redis_store::now() const { return servers_->now(); }
const store_traits& redis_store::traits() const noexcept { return inner_->traits; }
std::size_t redis_store::unanswered() const noexcept { return inner_->requests.unanswered(); }
std::string redis_store::last_failure() const { return servers_->failure(); }
std::map<std::string, std::uint64_t> redis_store::broken_connections() const {
    return servers_->broken_connections();
}

unsigned redis_store::shard_of(std::string_view id) const noexcept { return inner_->shard_of(id); }

void redis_store::listen(store_listener listener) {
    const auto on_hint = [this, hint = std::move(listener.hint)](std::string_view text) {
        const auto put = redis::hint_of(text);
        if (put && hint) hint(shard_of(put->id), put->id, put->due);
    };
    servers_->listen(on_hint, std::move(listener.reconnected));
}

std::size_t redis_store::run() {
    const std::size_t before = inner_->requests.answered();
    servers_->receive();
    inner_->close_sendable();
    servers_->flush();
    return inner_->requests.answered() - before;
}

// --- the operations -----------------------------------------------------------------------------

template <durable::detail::sets_deadline Operation> void redis_store::inner::submit(Operation o) {
    const unsigned shard = shard_of(o.id);
    const auto asked = [this]<class Result>(completion<Result> then) {
        return requests.asked(std::move(then), read_result<Result>());
    };
    ask(shard, call(shard, o.name).add(servers.me()).add(o.id).add(ms(o.due)),
        asked(std::move(o.then)));
}

void redis_store::submit(operation o) {
    std::visit([this](auto& asked) { inner_->submit(std::move(asked)); }, o);
}

void redis_store::inner::submit(operations::put o) {
    const auto q = requests.asked(std::move(o.then), read_put, o.timers.size());
    const command head{servers.me(), word_of(o.how)};
    for (std::size_t i = 0; i < o.timers.size(); ++i) {
        const record& r = o.timers[i];
        command& words = requests.add(shard_of(r.id), kind::puts, head, r.id, {q, i});
        words.add(r.id).add(ms(r.due)).add(period_and_plan(r)).add(r.body);
    }
    requests.wait_for(q);
}

void redis_store::inner::submit(operations::cancel o) {
    const unsigned shard = shard_of(o.id);
    ask(shard, call(shard, o.name).add(o.id),
        requests.asked(std::move(o.then), read_result(cancel_result::had_begun)));
}

void redis_store::inner::submit(operations::end o) {
    const std::size_t endings = o.endings.size();
    const auto q =
        requests.asked(std::move(o.then), read_end, endings, std::vector<end_reply>(endings));
    const command head{servers.me()};
    for (std::size_t i = 0; i < endings; ++i) {
        const ending& e = o.endings[i];
        command& words = requests.add(o.shard, kind::ends, head, e.token.id, {q, i});
        words.add(e.token.id).add(e.token.attempt).add(way_of(e));
    }
    requests.wait_for(q);
}

void redis_store::inner::submit(operations::find o) {
    const unsigned shard = shard_of(o.id);
    ask(shard, call(shard, "show").add(word_of(timer_set::waiting)).add(o.id),
        requests.asked(std::move(o.then), read_found));
}

// Asks for the places of each shard first, then for the bodies of one page.
void redis_store::inner::submit(operations::list o) { look(std::move(o), {}); }

// Adds the places after `o.after` to those that were found, until there are enough.
void redis_store::inner::look(operations::list o, std::vector<place> found) {
    const std::size_t page = o.prefix.empty() ? o.limit : std::max(o.limit, looked_at_together);
    completion<standing, std::vector<place>> on_places =
        [this, o, page, found = std::move(found)](standing how, std::vector<place> all) mutable {
            std::ranges::sort(all);
            const bool is_end = all.size() < page;
            if (all.size() > page) all.resize(page);
            for (const place& p : all)
                if (found.size() < o.limit && p.id.starts_with(o.prefix)) found.push_back(p);
            if (how == standing::done && found.size() < o.limit && !is_end) {
                o.after = all.back();
                requests.go_on_answering();
                return look(std::move(o), std::move(found));
            }
            if (how == standing::done && !found.empty()) {
                requests.go_on_answering();
                return show(std::move(o), std::move(found));
            }
            if (o.then) o.then(how, {});
        };
    const auto q = requests.asked(std::move(on_places), read_found_places, traits.shards);
    for (unsigned shard = 0; shard < traits.shards; ++shard) {
        command c = call(shard, "list");
        ask(shard, c.add(word_of(o.set)).add(ms(o.after.due)).add(o.after.id).add(page), q);
    }
}

// Answers with the timers that are still at these places. Continues after them if there are none.
void redis_store::inner::show(operations::list o, std::vector<place> places) {
    std::vector<std::vector<std::string>> ids(traits.shards);
    std::size_t commands = 0;
    for (const place& p : places) {
        auto& of_shard = ids[shard_of(p.id)];
        commands += of_shard.size() % shown_together == 0;
        of_shard.push_back(p.id);
    }
    completion<standing, std::vector<stored_timer>> on_shown =
        [this, o, places = std::move(places)](standing how, std::vector<stored_timer> all) mutable {
            const auto at = [](const stored_timer& t) { return place{t.due, t.id}; };
            std::erase_if(all, [&](const stored_timer& t) {
                return !std::ranges::binary_search(places, at(t));
            });
            std::ranges::sort(all, {}, at);
            if (how == standing::done && all.empty()) {
                o.after = places.back();
                requests.go_on_answering();
                return submit(std::move(o));
            }
            if (o.then) o.then(how, std::move(all));
        };
    const auto q = requests.asked(std::move(on_shown), read_listed, commands);
    for (unsigned shard = 0; shard < traits.shards; ++shard)
        for (std::size_t i = 0; i < ids[shard].size(); i += shown_together) {
            command c = call(shard, "show").add(word_of(o.set));
            const std::size_t end = std::min(i + shown_together, ids[shard].size());
            for (std::size_t n = i; n < end; ++n) c.add(ids[shard][n]);
            ask(shard, c, q);
        }
}

void redis_store::inner::submit(operations::oldest o) {
    const auto q = requests.asked(std::move(o.then), read_oldest(o.prefix), traits.shards);
    for (unsigned shard = 0; shard < traits.shards; ++shard)
        ask(shard, call(shard, "oldest").add(o.prefix).add(unended_attempts), q);
}

void redis_store::inner::submit(operations::count o) {
    const auto q = requests.asked(std::move(o.then), read_totals, traits.shards);
    for (unsigned shard = 0; shard < traits.shards; ++shard) ask(shard, call(shard, "count"), q);
}

void redis_store::inner::submit(operations::extend o) {
    command c = call(o.shard, "extend");
    c.add(o.token.id).add(o.token.attempt).add(o.lease.count());
    ask(o.shard, c, requests.asked(std::move(o.then), read_flag));
}

void redis_store::inner::submit(operations::bury o) {
    const unsigned shard = shard_of(o.letter.id);
    command c = call(shard, "bury");
    c.add(o.letter.id).add(ms(o.letter.due)).add(o.letter.attempt).add(o.letter.plan);
    ask(shard, c.add(o.letter.history).add(o.letter.body),
        requests.asked(std::move(o.then), read_flag));
}

void redis_store::inner::submit(operations::join o) {
    using counts = std::array<std::uint64_t, 2>;  // of all processes, and of those with other terms
    completion<standing, counts> then = [this, then = std::move(o.then)](standing how, counts n) {
        if (how == standing::done) servers.notice_terms(n[1] != 0);
        if (then) then(how, n[0]);
    };
    wire.ask({},
             {"FCALL", std::string(redis::functions_prefix) + "join", "1", servers.key("processes"),
              servers.me(), std::to_string(o.lease.count())},
             {{requests.asked(std::move(then), read_joined)}}, true);
}

void redis_store::inner::submit(operations::own o) {
    ask(o.shard, call(o.shard, "own").add(servers.me()).add(o.lease.count()).add(traits.shards),
        requests.asked(std::move(o.then), read_number), true);
}

void redis_store::inner::submit(operations::release o) {
    completion<standing, bool> then = [then = std::move(o.then)](standing how, bool) {
        if (then) then(how);
    };
    ask(o.shard, call(o.shard, "release").add(o.mine), requests.asked(std::move(then), read_flag));
}

void redis_store::inner::submit(operations::take o) {
    command c = call(o.shard, "take");
    c.add(o.mine).add(ms(o.after.due)).add(o.after.id).add(ms(o.until)).add(o.limit);
    ask(o.shard, c, requests.asked(std::move(o.then), read_places), true);
}

void redis_store::inner::submit(operations::claim o) {
    const std::size_t ids = o.ids.size();
    std::vector<claimed> known(ids);
    for (std::size_t i = 0; i < ids; ++i) known[i].timer.id = o.ids[i];
    const auto q = requests.asked(std::move(o.then), read_claimed, ids, std::move(known));
    command head;
    head.add(o.mine).add(o.terms.lease.count());
    head.add(traits.claim_ahead.count()).add(o.terms.bytes).add(ms(o.terms.since));
    for (std::size_t i = 0; i < ids; ++i)
        requests.add(o.shard, kind::claims, head, o.ids[i], {q, i}).add(o.ids[i]);
    requests.wait_for(q);
}

void redis_store::inner::submit(operations::spend o) {
    const auto q = requests.asked(std::move(o.then), read_flag);
    requests.add(o.shard, kind::spends, command().add(o.mine), o.token.id, {q, 0})
        .add(o.token.id)
        .add(o.token.attempt);
    requests.wait_for(q);
}

}  // namespace tvec::durable
