#include "tvec/durable/redis_store.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <cassert>
#include <exception>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>

#include "../local/hash.hpp"
#include "answers.hpp"
#include "functions.hpp"
#include "opening.hpp"
#include "servers.hpp"

namespace tvec::durable {

using redis::command, redis::fate, redis::fields, redis::rest;

namespace {

// Timers in one command, and their bytes, about. The server does nothing else during a command.
constexpr std::size_t together = 500;
constexpr std::size_t bytes_together = 262'144;

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

// A question with an answer in parts: one for each timer, or for each shard.
struct question {
    explicit question(std::size_t parts) : left(parts) {}
    virtual ~question() = default;
    virtual void read(std::size_t part, fields& f) = 0;
    // Notes that a part will not come.
    virtual void miss(std::size_t /*part*/, fate /*how*/) {}
    virtual void tell() = 0;

    std::size_t left;               // parts that have not come
    standing how = standing::done;  // of the parts that have come
};

using question_ptr = std::shared_ptr<question>;

// A question whose completion receives a standing and an answer. `add` reads a part of the answer.
template <class Answer> struct question_of final : question {
    using reader = void (*)(Answer& all, std::size_t part, fields& f);

    question_of(completion<standing, Answer> t, reader r, std::size_t parts, Answer a)
        : question(parts), then(std::move(t)), add(r), all(std::move(a)) {}
    void read(std::size_t part, fields& f) override { add(all, part, f); }
    void tell() override {
        if (then) then(how, how == standing::done ? std::move(all) : Answer{});
    }

    completion<standing, Answer> then;
    reader add;
    Answer all;
};

// A question with an answer for each put.
struct put_question final : question {
    put_question(completion<std::vector<put_result>> t, std::size_t timers)
        : question(timers), then(std::move(t)), all(timers) {}
    void read(std::size_t part, fields& f) override {
        assert(part < all.size() && "a part belongs to its question");
        using enum put_result;
        const long long n = f.number();
        all[part] = n == 0 ? there_already : n == 1 ? stored : put_result::dead;
    }
    void miss(std::size_t part, fate why) override {
        all[part] = durable::detail::none_of<put_result>(why);
    }
    void tell() override {
        if (then) then(std::move(all));
    }

    completion<std::vector<put_result>> then;
    std::vector<put_result> all;
};

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
void read_oldest(std::optional<overdue>& found, std::size_t, fields& f) {
    if (f.at_end()) return;
    overdue o{f.text(), redis::time_of(f.number()), redis::time_of(f.number()), false,
              static_cast<std::uint32_t>(f.number())};
    const auto at = [](const overdue& t) { return place{t.since, t.id}; };
    if (!found || at(o) < at(*found)) found = std::move(o);
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
void read_places(std::vector<place>& all, std::size_t, fields& f) {
    fields places = f.list();
    all = rest(places, redis::place_of);
    if (!places.is_whole()) f.reject();
}
void read_found_places(std::vector<place>& all, std::size_t, fields& f) {
    std::ranges::move(rest(f, redis::place_of), std::back_inserter(all));
}
void read_flag(bool& flag, std::size_t, fields& f) { flag = f.number() == 1; }
void read_claimed(std::vector<claimed>& all, std::size_t part, fields& f) {
    assert(part < all.size() && "a part belongs to its question");
    std::string id = std::move(all[part].timer.id);  // the answer does not hold it
    all[part] = redis::claim_of(f);
    all[part].timer.id = std::move(id);
}

// The part of a question to which one element of a reply belongs.
struct slot {
    question_ptr whose;
    std::size_t part;
};

// A command in the making, and the parts of questions that it answers.
struct batch {
    bool has_time = false;  // the reply begins with the time
    std::optional<command> words{};
    std::vector<slot> slots{};
    std::bitset<4096> ids{};  // hashes of the ids in it

    bool is_full() const { return slots.size() == together || words->size() > bytes_together; }
};

}  // namespace

// The requests to each shard. Puts, ends, claims and spends wait in a batch of each kind. A batch
// may overtake another one, but not with requests for the same timer. No other request overtakes
// them.
struct redis_store::inner {
    struct shard_batches {
        batch puts{};
        batch ends{};
        batch claims{.has_time = true};
        batch spends{};
        existing how = existing::keep;  // of the puts
        epoch mine = 0;                 // of the claims
        claim_terms terms{};
        epoch spender = 0;  // of the spends

        std::array<batch*, 4> all() { return {&puts, &ends, &claims, &spends}; }
    };

    explicit inner(redis::servers& s)
        : servers(s), traits{s.shards(), true, s.options().claim_ahead}, of(s.shards()) {}

    unsigned shard_of(std::string_view id) const;
    command function(unsigned shard, std::string_view name) const;
    void make_room(unsigned shard, batch& b, const std::string& id);
    command& words_of_puts(unsigned shard, existing how);
    command& words_of_ends(unsigned shard);
    command& words_of_claims(unsigned shard, epoch mine, const claim_terms& terms);
    command& words_of_spends(unsigned shard, epoch mine);
    void send(unsigned shard, batch& b);
    void close(unsigned shard);
    void close_sendable();

    // Makes a question. `add` reads each part of its answer.
    template <class Answer>
    question_ptr asked(completion<standing, Answer> then, typename question_of<Answer>::reader add,
                       std::size_t parts = 1, std::type_identity_t<Answer> all = {}) {
        ++unanswered;
        return std::make_shared<question_of<Answer>>(std::move(then), add, parts, std::move(all));
    }
    void ask(unsigned shard, const command& c, question_ptr q, bool has_time = false);
    void ask_number(unsigned shard, const command& c, std::function<void(fate, long long)> then);
    // Sends a command whose reply is 0 for an unknown id, 1 for success, and 2 for `two`.
    template <class Result>
    void ask_result(unsigned shard, const command& c, completion<Result> then, Result two) {
        ask_number(shard, c, [two, then = std::move(then)](fate how, long long n) {
            if (!then) return;
            if (how != fate::replied) return then(durable::detail::none_of<Result>(how));
            then(n == 0 ? Result::unknown_id : n == 1 ? Result{} : two);
        });
    }

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

    redis::servers::answer answer_to(std::vector<slot> slots, bool has_time);
    bool read(const std::vector<slot>& slots, bool has_time, const redisReply& r);
    void on_answer(const std::vector<slot>& slots, bool has_time, fate how, const redisReply* r);
    std::size_t waiting();
    void wait_for(const question_ptr& q);
    void tell(question& q);
    void count_answer();

    redis::servers& servers;
    store_traits traits;
    std::vector<shard_batches> of;
    std::size_t unanswered = 0;
    std::size_t answered = 0;
};

// Mixes the upper half of the hash into the lower.
unsigned redis_store::inner::shard_of(std::string_view id) const {
    return durable::detail::shard_of_id(id, traits.shards);
}

// Returns a command with all keys of a shard, also those that it does not need: a cluster whose
// slots move treats all commands of a shard alike then.
command redis_store::inner::function(unsigned shard, std::string_view name) const {
    assert(shard < of.size() && "a shard is one of the store");
    command c{"FCALL", std::string(redis::functions_prefix).append(name),
              std::to_string(std::size(redis::shard_keys))};
    for (const std::string_view k : redis::shard_keys) c.add(servers.key(shard, k));
    return c;
}

// Prepares a batch for a request with that id. Sends the batches of the shard if this one is full,
// or if another one may hold the id: it holds one with the same hash.
void redis_store::inner::make_room(unsigned number, batch& b, const std::string& id) {
    const std::size_t bit = std::hash<std::string>{}(id) % b.ids.size();
    const auto holds_it = [&](const batch* other) { return other != &b && other->ids[bit]; };
    const bool is_full = b.words && b.is_full();
    if (is_full || std::ranges::any_of(of[number].all(), holds_it)) close(number);
    b.ids.set(bit);
}

command& redis_store::inner::words_of_puts(unsigned number, existing how) {
    shard_batches& s = of[number];
    if (s.puts.words && s.how != how) close(number);
    if (!s.puts.words) {
        s.puts.words = function(number, "put");
        s.puts.words->add(servers.me()).add(word_of(how));
        s.how = how;
    }
    return *s.puts.words;
}

command& redis_store::inner::words_of_ends(unsigned number) {
    shard_batches& s = of[number];
    if (!s.ends.words) s.ends.words = function(number, "end").add(servers.me());
    return *s.ends.words;
}

command& redis_store::inner::words_of_claims(unsigned number, epoch mine,
                                             const claim_terms& terms) {
    shard_batches& s = of[number];
    const bool is_same = s.mine == mine && s.terms.lease == terms.lease &&
                         s.terms.attempts == terms.attempts && s.terms.bytes == terms.bytes;
    if (s.claims.words && !is_same) close(number);
    if (!s.claims.words) {
        s.claims.words = function(number, "claim");
        s.claims.words->add(mine).add(terms.lease.count()).add(terms.attempts);
        s.claims.words->add(traits.claim_ahead.count()).add(terms.bytes);
        s.mine = mine;
        s.terms = terms;
    }
    return *s.claims.words;
}

command& redis_store::inner::words_of_spends(unsigned number, epoch mine) {
    shard_batches& s = of[number];
    if (s.spends.words && s.spender != mine) close(number);
    if (!s.spends.words) s.spends.words = function(number, "spend").add(mine);
    s.spender = mine;
    return *s.spends.words;
}

void redis_store::inner::send(unsigned number, batch& b) {
    if (!b.words) return;
    const command words = *std::exchange(b.words, std::nullopt);
    b.ids.reset();
    servers.ask(number, words, answer_to(std::exchange(b.slots, {}), b.has_time));
}

void redis_store::inner::close(unsigned number) {
    for (batch* const b : of[number].all()) send(number, *b);
}

// Closes the batches of shards whose server takes them now.
void redis_store::inner::close_sendable() {
    const std::size_t bytes = waiting();
    for (unsigned shard = 0; shard < of.size(); ++shard)
        if (servers.may_send(shard, bytes)) close(shard);
}

void redis_store::inner::ask(unsigned shard, const command& c, question_ptr q, bool has_time) {
    close(shard);
    servers.ask(shard, c, answer_to({{std::move(q), 0}}, has_time));
}

// Sends a command whose reply is an integer, and passes that and its fate to `then`.
void redis_store::inner::ask_number(unsigned shard, const command& c,
                                    std::function<void(fate, long long)> then) {
    close(shard);
    ++unanswered;
    servers.ask(shard, c, [this, then = std::move(then)](fate how, const redisReply* r) {
        const bool is_number = how == fate::replied && r->type == REDIS_REPLY_INTEGER;
        if (how == fate::replied && !is_number) servers.protest();
        count_answer();
        then(is_number || how == fate::refused ? how : fate::lost, is_number ? r->integer : 0);
    });
}

redis::servers::answer redis_store::inner::answer_to(std::vector<slot> slots, bool has_time) {
    return [this, slots = std::move(slots), has_time](fate how, const redisReply* r) {
        on_answer(slots, has_time, how, r);
    };
}

// Returns true if the reply had the right form.
bool redis_store::inner::read(const std::vector<slot>& slots, bool has_time, const redisReply& r) {
    fields f(r);
    if (has_time) servers.learn(f.microseconds());
    for (const slot& s : slots) s.whose->read(s.part, f);
    return f.is_whole() && f.at_end();
}

// A nil reply means that another process owns the shard.
void redis_store::inner::on_answer(const std::vector<slot>& slots, bool has_time, fate how,
                                   const redisReply* r) {
    standing each = how == fate::replied ? standing::done : standing::unknown;
    if (each == standing::done && r->type == REDIS_REPLY_NIL) each = standing::fenced;
    if (each == standing::done && !read(slots, has_time, *r)) {
        servers.protest();
        each = standing::unknown;
    }
    for (const slot& s : slots) {
        if (each != standing::done) {
            s.whose->miss(s.part, how);
            s.whose->how = each;
        }
        assert(s.whose->left > 0 && "every part comes once");
        if (--s.whose->left == 0) tell(*s.whose);
    }
}

// Returns the bytes in batches that are not sent.
std::size_t redis_store::inner::waiting() {
    std::size_t bytes = 0;
    for (shard_batches& s : of)
        for (const batch* const b : s.all())
            if (b->words) bytes += b->words->size();
    return bytes;
}

// Waits for the parts of a question, which are in batches. Without parts it is answered at once.
void redis_store::inner::wait_for(const question_ptr& q) {
    if (q->left != 0) return servers.touch(waiting());
    servers.refuse([this, q](fate, const redisReply*) { tell(*q); });
}

void redis_store::inner::tell(question& q) {
    count_answer();
    q.tell();
}

void redis_store::inner::count_answer() {
    assert(unanswered > 0 && "every question is answered once");
    --unanswered;
    ++answered;
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

const std::string& redis_store::warning() const noexcept { return servers_->warning(); }
int redis_store::fd() const noexcept { return servers_->fd(); }
reading redis_store::now() const { return servers_->now(); }
const store_traits& redis_store::traits() const noexcept { return inner_->traits; }
std::size_t redis_store::unanswered() const noexcept { return inner_->unanswered; }
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
    const std::size_t before = inner_->answered;
    servers_->receive();
    inner_->close_sendable();
    servers_->flush();
    return inner_->answered - before;
}

// --- the operations -----------------------------------------------------------------------------

template <durable::detail::sets_deadline Operation> void redis_store::inner::submit(Operation o) {
    const unsigned shard = shard_of(o.id);
    const command c = function(shard, o.name).add(servers.me()).add(o.id).add(ms(o.due));
    ask_result(shard, c, std::move(o.then), {});
}

void redis_store::submit(operation o) {
    std::visit([this](auto& asked) { inner_->submit(std::move(asked)); }, o);
}

void redis_store::inner::submit(operations::put o) {
    ++unanswered;
    const auto q = std::make_shared<put_question>(std::move(o.then), o.timers.size());
    for (std::size_t i = 0; i < o.timers.size(); ++i) {
        const record& r = o.timers[i];
        const unsigned shard = shard_of(r.id);
        batch& puts = of[shard].puts;
        make_room(shard, puts, r.id);
        command& words = words_of_puts(shard, o.how);
        words.add(r.id).add(ms(r.due)).add(period_and_plan(r)).add(r.body);
        puts.slots.push_back({q, i});
    }
    wait_for(q);
}

void redis_store::inner::submit(operations::cancel o) {
    const unsigned shard = shard_of(o.id);
    ask_result(shard, function(shard, o.name).add(o.id), std::move(o.then),
               cancel_result::had_begun);
}

void redis_store::inner::submit(operations::end o) {
    const std::size_t endings = o.endings.size();
    const auto q = asked(std::move(o.then), read_end, endings, std::vector<end_reply>(endings));
    for (std::size_t i = 0; i < endings; ++i) {
        const ending& e = o.endings[i];
        batch& ends = of[o.shard].ends;
        make_room(o.shard, ends, e.token.id);
        command& words = words_of_ends(o.shard);
        words.add(e.token.id).add(e.token.attempt).add(way_of(e));
        ends.slots.push_back({q, i});
    }
    wait_for(q);
}

void redis_store::inner::submit(operations::find o) {
    const unsigned shard = shard_of(o.id);
    ask(shard, function(shard, "show").add(word_of(timer_set::waiting)).add(o.id),
        asked(std::move(o.then), read_found));
}

// Asks for the places of each shard first, then for the bodies of one page.
void redis_store::inner::submit(operations::list o) { look(std::move(o), {}); }

// Adds the places after `o.after` to those that were found, until there are enough.
void redis_store::inner::look(operations::list o, std::vector<place> found) {
    const std::size_t page = o.prefix.empty() ? o.limit : std::max(o.limit, looked_at_together);
    auto on_places = [this, o, page, found = std::move(found)](standing how,
                                                               std::vector<place> all) mutable {
        --answered;  // not the last answer
        std::ranges::sort(all);
        const bool is_end = all.size() < page;
        if (all.size() > page) all.resize(page);
        for (const place& p : all)
            if (found.size() < o.limit && p.id.starts_with(o.prefix)) found.push_back(p);
        if (how == standing::done && found.size() < o.limit && !is_end) {
            o.after = all.back();
            return look(std::move(o), std::move(found));
        }
        if (how == standing::done && !found.empty()) return show(std::move(o), std::move(found));
        ++answered;
        if (o.then) o.then(how, {});
    };
    const auto q = asked<std::vector<place>>(std::move(on_places), read_found_places, of.size());
    for (unsigned shard = 0; shard < of.size(); ++shard) {
        command c = function(shard, "list");
        ask(shard, c.add(word_of(o.set)).add(ms(o.after.due)).add(o.after.id).add(page), q);
    }
}

// Answers with the timers that are still at these places. Continues after them if there are none.
void redis_store::inner::show(operations::list o, std::vector<place> places) {
    std::vector<std::vector<std::string>> ids(of.size());
    std::size_t commands = 0;
    for (const place& p : places) {
        auto& of_shard = ids[shard_of(p.id)];
        commands += of_shard.size() % shown_together == 0;
        of_shard.push_back(p.id);
    }
    auto on_shown = [this, o, places = std::move(places)](standing how,
                                                          std::vector<stored_timer> all) mutable {
        const auto at = [](const stored_timer& t) { return place{t.due, t.id}; };
        std::erase_if(
            all, [&](const stored_timer& t) { return !std::ranges::binary_search(places, at(t)); });
        std::ranges::sort(all, {}, at);
        if (how == standing::done && all.empty()) {
            o.after = places.back();
            return submit(std::move(o));
        }
        if (o.then) o.then(how, std::move(all));
    };
    const auto q = asked<std::vector<stored_timer>>(std::move(on_shown), read_listed, commands);
    for (unsigned shard = 0; shard < of.size(); ++shard)
        for (std::size_t i = 0; i < ids[shard].size(); i += shown_together) {
            command c = function(shard, "show").add(word_of(o.set));
            const std::size_t end = std::min(i + shown_together, ids[shard].size());
            for (std::size_t n = i; n < end; ++n) c.add(ids[shard][n]);
            ask(shard, c, q);
        }
}

void redis_store::inner::submit(operations::oldest o) {
    const auto q = asked(std::move(o.then), read_oldest, of.size());
    for (unsigned shard = 0; shard < of.size(); ++shard)
        ask(shard, function(shard, "oldest").add(o.prefix).add(unended_attempts), q);
}

void redis_store::inner::submit(operations::count o) {
    const auto q = asked(std::move(o.then), read_totals, of.size());
    for (unsigned shard = 0; shard < of.size(); ++shard) ask(shard, function(shard, "count"), q);
}

void redis_store::inner::submit(operations::extend o) {
    command c = function(o.shard, "extend");
    c.add(o.token.id).add(o.token.attempt).add(o.lease.count());
    ask(o.shard, c, asked(std::move(o.then), read_flag));
}

void redis_store::inner::submit(operations::bury o) {
    const unsigned shard = shard_of(o.letter.id);
    command c = function(shard, "bury");
    c.add(o.letter.id).add(ms(o.letter.due)).add(o.letter.attempt).add(o.letter.plan);
    ask(shard, c.add(o.letter.history).add(o.letter.body), asked(std::move(o.then), read_flag));
}

void redis_store::inner::submit(operations::join o) {
    using counts = std::array<std::uint64_t, 2>;  // of all processes, and of those with other terms
    completion<standing, counts> then = [this, then = std::move(o.then)](standing how, counts n) {
        if (how == standing::done) servers.notice_terms(n[1] != 0);
        if (then) then(how, n[0]);
    };
    auto q = asked(std::move(then), read_joined);
    servers.ask({},
                {"FCALL", std::string(redis::functions_prefix) + "join", "1",
                 servers.key("processes"), servers.me(), std::to_string(o.lease.count())},
                answer_to({{std::move(q), 0}}, true));
}

void redis_store::inner::submit(operations::own o) {
    ask(o.shard, function(o.shard, "own").add(servers.me()).add(o.lease.count()).add(of.size()),
        asked(std::move(o.then), read_number), true);
}

void redis_store::inner::submit(operations::release o) {
    const command c = function(o.shard, "release").add(o.mine);
    ask_number(o.shard, c, [then = std::move(o.then)](fate how, long long) {
        if (then) then(how == fate::replied ? standing::done : standing::unknown);
    });
}

void redis_store::inner::submit(operations::take o) {
    command c = function(o.shard, "take");
    c.add(o.mine).add(ms(o.after.due)).add(o.after.id).add(ms(o.until)).add(o.limit);
    ask(o.shard, c, asked(std::move(o.then), read_places), true);
}

void redis_store::inner::submit(operations::claim o) {
    const std::size_t ids = o.ids.size();
    std::vector<claimed> known(ids);
    for (std::size_t i = 0; i < ids; ++i) known[i].timer.id = o.ids[i];
    const auto q = asked(std::move(o.then), read_claimed, ids, std::move(known));
    for (std::size_t i = 0; i < ids; ++i) {
        batch& claims = of[o.shard].claims;
        make_room(o.shard, claims, o.ids[i]);
        words_of_claims(o.shard, o.mine, o.terms).add(o.ids[i]);
        claims.slots.push_back({q, i});
    }
    wait_for(q);
}

void redis_store::inner::submit(operations::spend o) {
    const auto q = asked(std::move(o.then), read_flag);
    batch& spends = of[o.shard].spends;
    make_room(o.shard, spends, o.token.id);
    words_of_spends(o.shard, o.mine).add(o.token.id).add(o.token.attempt);
    spends.slots.push_back({q, 0});
    wait_for(q);
}

}  // namespace tvec::durable
