#include "tvec/durable/postgres_store.hpp"

#include <openssl/sha.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "../local/longest_wait.hpp"
#include "answers.hpp"
#include "client.hpp"
#include "wire.hpp"

namespace tvec::durable {

using postgres::big, postgres::bytes, postgres::number, postgres::text, postgres::value;
using postgres::listed_timer, postgres::read_claimed, postgres::read_end, postgres::read_flag;
using postgres::read_pair, postgres::read_place, postgres::read_put, postgres::row;
using postgres::time_of;
using kind = postgres::wire::kind;

namespace {

// A lost hint makes a timer late by at most this.
constexpr duration time_between_sweeps{10'000};

std::int64_t ms(time_point t) { return t.time_since_epoch().count(); }

std::string_view word_of(existing how) {
    constexpr std::string_view words[] = {"keep", "replace", "sooner", "later"};
    return words[static_cast<std::size_t>(how)];
}

std::string_view word_of(outcome how) {
    constexpr std::string_view words[] = {"done", "again", "failed", "dead", "removed", "returned"};
    return words[static_cast<std::size_t>(how)];
}

}  // namespace

struct postgres_store::inner {
    explicit inner(postgres::client& c)
        : client(c), traits{c.shards(), true, c.options().claim_ahead, time_between_sweeps} {}

    void submit(operations::put o);
    void submit(operations::cancel o);
    void submit(operations::end o);
    void submit(operations::find o);
    void submit(operations::list o);
    void submit(operations::oldest o);
    void submit(operations::count o);
    void submit(operations::touch o);
    void submit(operations::extend o);
    template <durable::detail::sets_deadline Operation> void submit(Operation o);
    void submit(operations::bury o);
    void submit(operations::join o);
    void submit(operations::own o);
    void submit(operations::release o);
    void submit(operations::take o);
    void submit(operations::claim o);
    void submit(operations::spend o);

    using request_ptr = postgres::wire::request_ptr;

    unsigned shard_of(std::string_view id) const noexcept;
    // Sends what somebody waits for. Ends gather for a moment: fewer statements cost the server
    // less.
    void close_but_ends() { requests.close(0, kind::ends); }
    postgres::statement& add(const request_ptr& q, std::size_t part, kind k,
                             const postgres::wire::head& common, std::string_view key) {
        return requests.add(0, k, common, key, {q, part});
    }
    void add_end(const request_ptr& q, std::size_t part, const token& t, std::string_view how,
                 std::int64_t due, std::string_view reason,
                 const std::optional<std::string>& history);
    // Adds a request with one part, and its element of each column.
    template <class... Elements>
    void add_one(const request_ptr& q, kind k, const postgres::wire::head& common,
                 std::string_view key, const Elements&... elements) {
        add(q, 0, k, common, key).add(elements...);
        requests.wait_for(q);
    }
    void ask_one(std::string_view function, std::vector<value> arguments, request_ptr q) {
        requests.close(0);
        wire.ask_one(function, std::move(arguments), std::move(q));
    }

    postgres::client& client;
    const store_traits traits;
    postgres::wire wire{client};
    durable::detail::coalescer<postgres::wire> requests{wire, 1};
    std::int64_t claim_number = 0;  // of the last one
};

// --- the store ----------------------------------------------------------------------------------

postgres_store::postgres_store(postgres_options o)
    : client_(std::make_unique<postgres::client>(std::move(o))),
      inner_(std::make_unique<inner>(*client_)) {}

// Other processes share the shards anew at once, without waiting for the end of the lease.
postgres_store::~postgres_store() {
    if (!client_->is_ours()) return;
    try {
        client_->leave();
    } catch (const std::exception&) {  // no memory: its lease ends later
    }
}

std::string postgres_store::warning() const { return client_->warning(); }
int postgres_store::fd() const noexcept { return client_->fd(); }
reading postgres_store::now() const { return client_->now(); }
const store_traits& postgres_store::traits() const noexcept { return inner_->traits; }
std::size_t postgres_store::unanswered() const noexcept { return inner_->requests.unanswered(); }
std::string postgres_store::last_failure() const { return client_->faults().last; }
std::map<std::string, std::uint64_t> postgres_store::broken_connections() const {
    return client_->faults().broken;
}

unsigned postgres_store::shard_of(std::string_view id) const noexcept {
    return inner_->shard_of(id);
}

// Equals the function `shard_of` in schema.sql.
unsigned postgres_store::inner::shard_of(std::string_view id) const noexcept {
    unsigned char hash[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(id.data()), id.size(), hash);
    std::uint32_t first = 0;
    for (int i = 0; i < 4; ++i) first = first << 8 | hash[i];
    return first % traits.shards;
}

void postgres_store::listen(store_listener listener) {
    const auto on_hints = [this, hint = std::move(listener.hint)](std::string_view payload) {
        while (!payload.empty()) {
            const std::size_t end = std::min(payload.find(' '), payload.size());
            const auto put = postgres::hint_of(payload.substr(0, end));
            payload.remove_prefix(std::min(end + 1, payload.size()));
            if (put && hint) hint(shard_of(put->id), put->id, put->due);
        }
    };
    client_->listen(on_hints, std::move(listener.reconnected));
}

std::size_t postgres_store::run() {
    const std::size_t before = inner_->requests.answered();
    client_->receive();
    if (client_->may_send(inner_->requests.waiting())) inner_->close_but_ends();
    client_->flush();
    return inner_->requests.answered() - before;
}

// --- the operations -----------------------------------------------------------------------------

void postgres_store::submit(operation o) {
    std::visit([this](auto& asked) { inner_->submit(std::move(asked)); }, o);
}

template <durable::detail::sets_deadline Operation>
void postgres_store::inner::submit(Operation o) {
    static const std::string function = std::string(o.name) + 's';
    const auto asked = [this]<class Result>(completion<Result> then) {
        return requests.asked(std::move(then), [](row* r) {
            return r != nullptr && r->integer() == 1 ? Result{} : Result::unknown_id;
        });
    };
    ask_one(function, {text(client.me()), bytes(o.id), big(ms(o.due))}, asked(std::move(o.then)));
}

void postgres_store::inner::submit(operations::put o) {
    const auto q = requests.asked(std::move(o.then), read_put, o.timers.size());
    const postgres::wire::head common{text(client.me()), text(std::string(word_of(o.how))),
                                      bytes("")};
    for (std::size_t i = 0; i < o.timers.size(); ++i) {
        const record& r = o.timers[i];
        add(q, i, kind::puts, common, r.id)
            .add(shard_of(r.id), r.id, ms(r.due), r.every.count(), r.body, r.plan);
    }
    requests.wait_for(q);
}

void postgres_store::inner::submit(operations::cancel o) {
    const auto read = [](row* r) {
        if (r == nullptr) return cancel_result::unknown_id;
        return r->integer() != 0 ? cancel_result::had_begun : cancel_result::cancelled;
    };
    add_one(requests.asked(std::move(o.then), read), kind::cancels, {}, o.id, o.id);
}

void postgres_store::inner::submit(operations::touch o) {
    const auto read = [](row* r) {
        return r == nullptr ? touch_result::unknown_id : touch_result::touched;
    };
    add_one(requests.asked(std::move(o.then), read), kind::touches, {text(client.me())}, o.id, o.id,
            ms(o.due));
}

void postgres_store::inner::add_end(const request_ptr& q, std::size_t part, const token& t,
                                    std::string_view how, std::int64_t due, std::string_view reason,
                                    const std::optional<std::string>& history) {
    postgres::statement& ends = add(q, part, kind::ends, {text(client.me())}, t.id);
    if (ends.weight() == 0) client.ask_later([this] { requests.send(0, kind::ends); });
    ends.add(t.id, t.attempt, how, due, reason.substr(0, longest_reason), history);
}

void postgres_store::inner::submit(operations::end o) {
    const std::size_t n = o.endings.size();
    const auto q = requests.asked(std::move(o.then), read_end, n, std::vector<end_reply>(n));
    for (std::size_t i = 0; i < n; ++i) {
        const ending& e = o.endings[i];
        add_end(q, i, e.token, word_of(e.how), ms(e.due), e.reason, e.history);
    }
    requests.wait_for(q);
}

void postgres_store::inner::submit(operations::extend o) {
    const auto q = requests.asked(std::move(o.then), read_flag);
    add_end(q, 0, o.token, "extend", o.lease.count(), "", {});
    requests.wait_for(q);
}

void postgres_store::inner::submit(operations::spend o) {
    add_one(requests.asked(std::move(o.then), read_flag), kind::spends, {}, o.token.id, o.shard,
            o.mine, o.token.id, o.token.attempt);
}

void postgres_store::inner::submit(operations::claim o) {
    const postgres::wire::head common{big(o.terms.lease.count()), big(traits.claim_ahead.count()),
                                      big(static_cast<std::int64_t>(o.terms.bytes)),
                                      big(postgres::wire::pause_of_locked.count()),
                                      big(ms(o.terms.since))};
    const std::size_t n = o.ids.size();
    std::vector<claimed> known(n);
    for (std::size_t i = 0; i < n; ++i) known[i].timer.id = o.ids[i];
    const auto q = requests.asked(std::move(o.then), read_claimed, n, std::move(known));
    ++claim_number;
    for (std::size_t i = 0; i < n; ++i)
        add(q, i, kind::claims, common, o.ids[i]).add(claim_number, o.shard, o.mine, o.ids[i]);
    requests.wait_for(q);
}

void postgres_store::inner::submit(operations::find o) {
    const auto read = [](std::optional<stored_timer>& found, std::size_t, row* r) {
        if (r != nullptr) found = listed_timer(*r);
    };
    ask_one("finds", {bytes(o.id)}, requests.asked(std::move(o.then), read));
}

void postgres_store::inner::submit(operations::list o) {
    const auto read = [](std::vector<stored_timer>& found, std::size_t, row* r) {
        if (r != nullptr) found.push_back(listed_timer(*r));
    };
    ask_one("lists",
            {number(o.set == timer_set::dead), big(ms(o.after.due)), bytes(o.after.id),
             big(static_cast<std::int64_t>(o.limit)), bytes(o.prefix)},
            requests.asked(std::move(o.then), read));
}

void postgres_store::inner::submit(operations::oldest o) {
    const auto read = [prefix = o.prefix](std::optional<overdue>& found, std::size_t, row* r) {
        if (r == nullptr) return;
        std::string id(r->bytes());
        const time_point due = time_of(*r), since = time_of(*r);
        const bool waits = r->integer() != 0;
        const std::uint32_t unended = postgres::attempt_of(*r);
        durable::detail::keep_longest(found, {std::move(id), due, since, waits, unended}, prefix);
    };
    ask_one("oldest", {bytes(o.prefix), big(unended_attempts)},
            requests.asked(std::move(o.then), read));
}

void postgres_store::inner::submit(operations::count o) {
    const auto read = [](totals& sum, std::size_t, row* r) {
        if (r == nullptr) return standing::unknown;
        sum.waiting = postgres::count_of(*r);
        sum.dead = postgres::count_of(*r);
        return standing::done;
    };
    ask_one("counts", {}, requests.asked(std::move(o.then), read));
}

void postgres_store::inner::submit(operations::bury o) {
    const stored_timer& t = o.letter;
    const auto read = [](bool& is_new, std::size_t, row* r) {
        is_new = r != nullptr && r->integer() == 1;
    };
    ask_one("buries",
            {bytes(t.id), number(static_cast<int>(shard_of(t.id))), big(ms(t.due)), big(t.attempt),
             bytes(t.plan), bytes(t.history), bytes(t.body)},
            requests.asked(std::move(o.then), read));
}

// A statement has a shard once.
void postgres_store::inner::submit(operations::take o) {
    add_one(requests.asked(std::move(o.then), read_place), kind::takes, {},
            "take " + std::to_string(o.shard), o.shard, o.mine, ms(o.after.due), o.after.id,
            ms(o.until), o.limit);
}

void postgres_store::inner::submit(operations::release o) {
    completion<standing, bool> then = [then = std::move(o.then)](standing how, bool) {
        if (then) then(how);
    };
    const auto read = [](bool&, std::size_t, row*) {};
    ask_one("releases", {number(static_cast<int>(o.shard)), big(static_cast<std::int64_t>(o.mine))},
            requests.asked(std::move(then), read));
}

// A heartbeat is the one item of the process, and one of each of its shards.
void postgres_store::inner::submit(operations::join o) {
    const auto q = requests.asked(std::move(o.then), read_pair<std::size_t>);
    add(q, postgres::wire::processes, kind::beat, {text(client.me()), postgres::null()}, "join")
        .common.back() = big(o.lease.count());
    requests.wait_for(q);
}

void postgres_store::inner::submit(operations::own o) {
    const auto q = requests.asked(std::move(o.then), read_pair<epoch>);
    add(q, o.shard, kind::beat, {text(client.me()), postgres::null()},
        "own " + std::to_string(o.shard))
        .add(o.shard, o.lease.count());
    requests.wait_for(q);
}

}  // namespace tvec::durable
