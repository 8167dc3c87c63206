#include "tvec/durable/postgres_store.hpp"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "batch.hpp"
#include "client.hpp"

namespace tvec::durable {

using postgres::batch, postgres::fate, postgres::request, postgres::request_ptr, postgres::row;
using postgres::slot, postgres::type, postgres::value;

namespace {

// Items in one statement, and their bytes, about.
constexpr std::size_t together = 1'000;
constexpr std::size_t bytes_together = 262'144;
// How often a statement for one item is sent that meets a deadlock or a serialization failure.
constexpr unsigned max_tries = 10;
// A claim of a locked timer is tried again after this.
constexpr duration pause_of_locked{20};

// A lost hint makes a timer late by at most this.
constexpr duration time_between_sweeps{10'000};

// The states in answers of functions: see schema.sql.
constexpr std::int64_t is_locked = 2, is_fenced = 3;

std::int64_t ms(time_point t) { return t.time_since_epoch().count(); }

time_point time_of(row& r) {
    const std::int64_t t = r.integer();
    if (t < 0 || t > ms(latest_due)) r.reject();
    return r.is_whole() ? time_point(duration(t)) : time_point();
}

std::uint32_t attempt_of(row& r) {
    const std::int64_t n = r.integer();
    if (n < 0 || n > std::numeric_limits<std::uint32_t>::max()) r.reject();
    return r.is_whole() ? static_cast<std::uint32_t>(n) : 0;
}

// Reads the columns of a timer from its period on.
void read_timer(stored_timer& t, row& r) {
    t.every = duration(r.integer());
    t.attempt = attempt_of(r);
    t.ended = attempt_of(r);
    t.spent = attempt_of(r);
    t.body = r.bytes();
    t.plan = r.bytes();
    t.history = r.bytes();
    t.verdict = r.bytes();
}

stored_timer listed_timer(row& r) {
    stored_timer t;
    t.id = r.bytes();
    t.due = time_of(r);
    read_timer(t, r);
    return t;
}

// Reads a row of `claims`, after its number.
standing read_claimed(std::vector<claimed>& all, std::size_t part, row* r) {
    using enum claimed::kind;
    claimed& c = all[part];
    if (r == nullptr) return standing::done;  // gone
    constexpr claimed::kind kinds[] = {gone, granted, early, dead, later};
    const std::int64_t state = r->integer();
    if (state == 5) return standing::fenced;
    if (state < 1 || state > 4) {
        r->reject();
        return standing::unknown;
    }
    c.what = kinds[state];
    if (c.what == granted || c.what == early) c.timer.due = time_of(*r);
    if (c.what == granted) read_timer(c.timer, *r);
    return standing::done;
}

standing read_end(std::vector<end_reply>& all, std::size_t part, row* r) {
    if (r == nullptr) return standing::done;
    r->integer();
    all[part].was_current = true;
    const bool has_next = !r->is_null();
    if (has_next) all[part].next = time_of(*r);
    return standing::done;
}

// Reads one of several rows of `takes`. A place without an id means that another process owns the
// shard.
standing read_place(std::vector<place>& all, std::size_t, row* r) {
    if (r == nullptr) return standing::done;
    place p;
    p.due = time_of(*r);
    if (r->is_null()) return standing::fenced;
    p.id = r->bytes();
    all.push_back(std::move(p));
    return standing::done;
}

// Reads a row of `ends` or `spends`: true if there is one.
standing read_flag(bool& is_current, std::size_t, row* r) {
    is_current = r != nullptr;
    return r != nullptr && r->integer() == is_fenced ? standing::fenced : standing::done;
}

// Returns a reader of all rows of a result, as the only part of a request.
auto read_rows(postgres::client& client) {
    return [&client](request& q, const PGresult& result) {
        if (PQntuples(&result) == 0) q.read(0, nullptr);
        for (int i = 0; i < PQntuples(&result); ++i) {
            row r(result, i);
            q.read(0, &r);
            if (r.is_whole()) continue;
            client.protest();
            q.miss(0, fate::lost);
        }
    };
}

std::string_view word_of(existing how) {
    constexpr std::string_view words[] = {"keep", "replace", "sooner", "later"};
    return words[static_cast<std::size_t>(how)];
}

std::string_view word_of(outcome how) {
    constexpr std::string_view words[] = {"done", "again", "failed", "dead", "removed", "returned"};
    return words[static_cast<std::size_t>(how)];
}

// Parses a hint, "due:id" with an id in hexadecimal digits. Returns nothing for any other text.
std::optional<place> hint_of(std::string_view word) {
    std::int64_t due = 0;
    const char* const end = word.data() + word.size();
    const auto [colon, error] = std::from_chars(word.data(), end, due);
    const auto digits = static_cast<std::size_t>(end - colon);
    const bool is_due = error == std::errc{} && due >= 0 && due <= ms(latest_due);
    if (!is_due || digits < 3 || digits % 2 == 0 || *colon != ':') return std::nullopt;
    place p{time_point(duration(due)), {}};
    for (const char* c = colon + 1; c != end; c += 2) {
        unsigned char byte = 0;
        if (std::from_chars(c, c + 2, byte, 16).ptr != c + 2) return std::nullopt;
        p.id += static_cast<char>(byte);
    }
    return p;
}

}  // namespace

// The requests wait in a batch of each kind. A batch may overtake another one, but not with
// requests for the same timer. No other request overtakes them.
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

    unsigned shard_of(std::string_view id) const noexcept;
    std::size_t waiting();
    void close_all();
    void close_but_ends();

    std::array<batch*, 7> all_batches() {
        return {&puts, &cancels, &touches, &ends, &spends, &claims, &takes};
    }

    // The requests of a heartbeat: of the process, and of its shards.
    struct heartbeat {
        std::optional<duration> stay{};
        completion<standing, std::size_t> joined{};
        std::vector<operations::own> owns{};
        bool is_empty() const { return !stay && owns.empty(); }
    };

    template <class Answer, class Read>
    request_ptr made(completion<standing, Answer> then, Read read, std::size_t parts = 1,
                     Answer all = {}) {
        ++unanswered;
        return std::make_shared<postgres::request_of<Answer, Read>>(std::move(then), read, parts,
                                                                    std::move(all));
    }
    // Makes a request with one result. `read` returns it.
    template <class Result, class Read> request_ptr made_for(completion<Result> then, Read read) {
        ++unanswered;
        return std::make_shared<postgres::result_of<Result, Read>>(std::move(then), read);
    }

    batch& room_in(batch& b, const std::string& id);
    void add_end(const request_ptr& q, std::size_t part, const token& t, std::string_view how,
                 std::int64_t due, std::string_view reason,
                 const std::optional<std::string>& history);
    void send(batch& b);
    void ask(batch b);
    void ask_again(const batch& b, const std::vector<std::size_t>& items);
    void on_refused(const batch& b, const PGresult* error);
    void on_answer(const batch& b, const PGresult& r);
    void on_letters(const batch& b, const PGresult& r);
    void end_part(const slot& s);
    void send(heartbeat h);
    void on_heartbeat(heartbeat& h, fate how, const PGresult* r);
    template <class Read>
    void ask_one(std::string_view function, std::vector<value> arguments, request_ptr q, Read read);
    void wait_for(const request_ptr& q);
    void count_answer();

    postgres::client& client;
    const store_traits traits;
    batch puts{"puts",
               {},
               {postgres::array(type::number), postgres::array(type::bytes),
                postgres::array(type::big), postgres::array(type::big),
                postgres::array(type::bytes), postgres::array(type::bytes)}};
    batch cancels{"cancels", {}, {postgres::array(type::bytes)}};
    batch touches{"touches",
                  {postgres::text(client.me())},
                  {postgres::array(type::bytes), postgres::array(type::big)}};
    batch ends{"ends",
               {postgres::text(client.me())},
               {postgres::array(type::bytes), postgres::array(type::big),
                postgres::array(type::text), postgres::array(type::big),
                postgres::array(type::bytes), postgres::array(type::bytes)}};
    batch spends{"spends",
                 {},
                 {postgres::array(type::number), postgres::array(type::big),
                  postgres::array(type::bytes), postgres::array(type::big)}};
    batch claims{"claims",
                 {},
                 {postgres::array(type::big), postgres::array(type::number),
                  postgres::array(type::big), postgres::array(type::bytes)}};
    batch takes{"takes",
                {},
                {postgres::array(type::number), postgres::array(type::big),
                 postgres::array(type::big), postgres::array(type::bytes),
                 postgres::array(type::big), postgres::array(type::big)}};
    heartbeat beat{};
    existing how_to_put = existing::keep;     // of `puts`
    claim_terms terms{};                      // of `claims`
    std::int64_t claim_number = 0;            // of the last one in `claims`
    std::unordered_set<unsigned> takes_of{};  // shards in `takes`
    std::unordered_set<std::string> ids{};    // in the batches
    std::size_t unanswered = 0, answered = 0;
};

// --- batches ------------------------------------------------------------------------------------

// Prepares a batch for a request with that id, and returns it. Sends all batches if this one is
// full, or if one of them holds the id.
batch& postgres_store::inner::room_in(batch& b, const std::string& id) {
    const bool is_full = b.slots.size() >= together || b.weight() >= bytes_together;
    if (is_full || ids.contains(id)) close_all();
    ids.insert(id);
    return b;
}

void postgres_store::inner::send(batch& b) {
    if (!b.is_empty()) ask(std::exchange(b, b.like()));
}

void postgres_store::inner::close_all() {
    close_but_ends();
    send(ends);
    ids.clear();
}

// Sends what somebody waits for. Ends gather for a moment: fewer statements cost the server less.
void postgres_store::inner::close_but_ends() {
    for (batch* b : all_batches())
        if (b != &ends) send(*b);
    if (!beat.is_empty()) send(std::exchange(beat, {}));
    if (ends.is_empty()) ids.clear();
    takes_of.clear();
}

// Returns the bytes in batches that are not sent.
std::size_t postgres_store::inner::waiting() {
    std::size_t bytes = 0;
    for (const batch* b : all_batches()) bytes += b->weight();
    return bytes;
}

void postgres_store::inner::ask(batch b) {
    postgres::question_for q = b.question();
    client.ask(std::move(q), [this, b = std::move(b)](fate how, const PGresult* r) {
        if (how == fate::replied) return on_answer(b, *r);
        if (how == fate::refused) return on_refused(b, r);
        for (const slot& s : b.slots) {
            s.whose->miss(s.part, how);
            end_part(s);
        }
    });
}

// Asks once more for some items, in a moment.
void postgres_store::inner::ask_again(const batch& b, const std::vector<std::size_t>& items) {
    batch some = b.like();
    for (const std::size_t i : items) some.add_from(b, i);
    client.ask_later([this, some = std::move(some)] { ask(some); });
}

// A deadlock or a serialization failure passes, and the more items a statement has the more
// statements it meets: each half is asked for alone. A lock that is held belongs to one of the
// timers, and so is each of them.
void postgres_store::inner::on_refused(const batch& b, const PGresult* error) {
    const char* const field =
        error == nullptr ? nullptr : PQresultErrorField(error, PG_DIAG_SQLSTATE);
    const std::string_view state = field == nullptr ? "" : field;
    const bool passes = state == "40001" || state == "40P01";
    if (passes && b.slots.size() > 1) {
        batch halves[] = {b.like(), b.like()};
        for (std::size_t i = 0; i < b.slots.size(); ++i) halves[i % 2].add_from(b, i);
        for (batch& half : halves) ask(std::move(half));
        return;
    }
    if (passes && b.tries < max_tries) {
        batch again = b;
        ++again.tries;
        return ask(std::move(again));
    }
    if (state == "55P03") client.note("a transaction of another program has locked the timer");
    for (std::size_t i = 0; i < b.slots.size(); ++i) {
        if (state == "55P03" && b.slots.size() > 1) {
            batch alone = b.like();
            alone.add_from(b, i);
            ask(std::move(alone));
            continue;
        }
        b.slots[i].whose->miss(b.slots[i].part, fate::refused);
        end_part(b.slots[i]);
    }
}

void postgres_store::inner::on_answer(const batch& b, const PGresult& result) {
    if (b.function == "puts") return on_letters(b, result);
    const bool can_be_locked = b.function == "ends" || b.function == "spends";
    std::vector<bool> is_known(b.slots.size());
    std::vector<std::size_t> locked;
    for (int i = 0; i < PQntuples(&result); ++i) {
        row r(result, i);
        const auto n = static_cast<std::size_t>(r.integer());
        if (n == 0) {  // the time, as a deadline
            if (b.function == "claims") r.integer();
            client.learn(r.integer());
        }
        const bool has_many = b.function == "takes";
        if (n == 0 || n > b.slots.size() || (is_known[n - 1] && !has_many)) continue;
        is_known[n - 1] = true;
        row first = r;
        if (can_be_locked && first.integer() == is_locked) {
            locked.push_back(n - 1);
            continue;
        }
        const slot& s = b.slots[n - 1];
        s.whose->read(s.part, &r);
        if (!r.is_whole()) {
            client.protest();
            s.whose->miss(s.part, fate::lost);
        }
    }
    if (!locked.empty()) ask_again(b, locked);
    std::vector<bool> waits(b.slots.size());
    for (const std::size_t i : locked) waits[i] = true;
    for (std::size_t i = 0; i < b.slots.size(); ++i) {
        if (waits[i]) continue;
        if (!is_known[i]) b.slots[i].whose->read(b.slots[i].part, nullptr);
        end_part(b.slots[i]);
    }
}

// `puts` answers a letter for each timer.
void postgres_store::inner::on_letters(const batch& b, const PGresult& result) {
    const bool is_whole =
        PQntuples(&result) == 1 && PQgetlength(&result, 0, 0) == static_cast<int>(b.slots.size());
    if (!is_whole) client.protest();
    const char* const letters = is_whole ? PQgetvalue(&result, 0, 0) : nullptr;
    for (std::size_t i = 0; i < b.slots.size(); ++i) {
        const slot& s = b.slots[i];
        if (is_whole)
            static_cast<postgres::puts_request&>(*s.whose).note(s.part, letters[i]);
        else
            s.whose->miss(s.part, fate::lost);
        end_part(s);
    }
}

void postgres_store::inner::end_part(const slot& s) {
    assert(s.whose->left > 0 && "every part comes once");
    if (--s.whose->left != 0) return;
    count_answer();
    s.whose->tell();
}

void postgres_store::inner::count_answer() {
    assert(unanswered > 0 && "every request is answered once");
    --unanswered;
    ++answered;
}

// Waits for the parts of a request, which are in batches. Without parts it is answered at once.
void postgres_store::inner::wait_for(const request_ptr& q) {
    if (q->left != 0) return client.touch(waiting());
    client.refuse([this, q](fate, const PGresult*) {
        count_answer();
        q->tell();
    });
}

// Calls a function for one request. `read` reads the whole result into it.
template <class Read>
void postgres_store::inner::ask_one(std::string_view function, std::vector<value> arguments,
                                    request_ptr q, Read read) {
    close_all();
    client.ask({function, std::move(arguments)},
               [this, q = std::move(q), read](fate how, const PGresult* r) {
                   if (how == fate::replied)
                       read(*q, *r);
                   else
                       q->miss(0, how);
                   end_part({q, 0});
               });
}

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

const std::string& postgres_store::warning() const noexcept { return client_->warning(); }
int postgres_store::fd() const noexcept { return client_->fd(); }
reading postgres_store::now() const { return client_->now(); }
const store_traits& postgres_store::traits() const noexcept { return inner_->traits; }
std::size_t postgres_store::unanswered() const noexcept { return inner_->unanswered; }
std::string postgres_store::last_failure() const { return client_->failure(); }
std::map<std::string, std::uint64_t> postgres_store::broken_connections() const {
    return client_->broken_connections();
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
            const auto put = hint_of(payload.substr(0, end));
            payload.remove_prefix(std::min(end + 1, payload.size()));
            if (put && hint) hint(shard_of(put->id), put->id, put->due);
        }
    };
    client_->listen(on_hints, std::move(listener.reconnected));
}

std::size_t postgres_store::run() {
    const std::size_t before = inner_->answered;
    client_->receive();
    if (client_->may_send(inner_->waiting())) inner_->close_but_ends();
    client_->flush();
    return inner_->answered - before;
}

// --- the operations -----------------------------------------------------------------------------

template <durable::detail::sets_deadline Operation>
void postgres_store::inner::submit(Operation o) {
    static const std::string function = std::string(o.name) + 's';
    const auto made_of = [this]<class Result>(completion<Result> then) {
        return this->made_for(std::move(then), [](row* r) {
            return r != nullptr && r->integer() == 1 ? Result{} : Result::unknown_id;
        });
    };
    ask_one(function,
            {postgres::text(client.me()), postgres::bytes(o.id), postgres::big(ms(o.due))},
            made_of(std::move(o.then)), read_rows(client));
}

void postgres_store::submit(operation o) {
    std::visit([this](auto& asked) { inner_->submit(std::move(asked)); }, o);
}

void postgres_store::inner::submit(operations::put o) {
    if (!puts.is_empty() && how_to_put != o.how) close_all();
    how_to_put = o.how;
    puts.common = {postgres::text(client.me()), postgres::text(std::string(word_of(o.how))),
                   postgres::bytes("")};
    ++unanswered;
    const auto q = std::make_shared<postgres::puts_request>(std::move(o.then), o.timers.size());
    for (std::size_t i = 0; i < o.timers.size(); ++i) {
        const record& r = o.timers[i];
        batch& b = room_in(puts, r.id);
        b.columns[0].add(shard_of(r.id));
        b.columns[1].add(r.id);
        b.columns[2].add(ms(r.due));
        b.columns[3].add(r.every.count());
        b.columns[4].add(r.body);
        b.columns[5].add(r.plan);
        b.slots.push_back({q, i});
    }
    wait_for(q);
}

void postgres_store::inner::submit(operations::cancel o) {
    const auto read = [](row* r) {
        if (r == nullptr) return cancel_result::unknown_id;
        return r->integer() != 0 ? cancel_result::had_begun : cancel_result::cancelled;
    };
    const request_ptr q = made_for(std::move(o.then), read);
    batch& b = room_in(cancels, o.id);
    b.columns[0].add(o.id);
    b.slots.push_back({q, 0});
    wait_for(q);
}

void postgres_store::inner::submit(operations::touch o) {
    const auto read = [](row* r) {
        return r == nullptr ? touch_result::unknown_id : touch_result::touched;
    };
    const request_ptr q = made_for(std::move(o.then), read);
    batch& b = room_in(touches, o.id);
    b.columns[0].add(o.id);
    b.columns[1].add(ms(o.due));
    b.slots.push_back({q, 0});
    wait_for(q);
}

void postgres_store::inner::add_end(const request_ptr& q, std::size_t part, const token& t,
                                    std::string_view how, std::int64_t due, std::string_view reason,
                                    const std::optional<std::string>& history) {
    batch& b = room_in(ends, t.id);
    if (b.is_empty()) client.ask_later([this] { send(ends); });
    b.columns[0].add(t.id);
    b.columns[1].add(t.attempt);
    b.columns[2].add(how);
    b.columns[3].add(due);
    b.columns[4].add(reason.substr(0, longest_reason));
    if (history)
        b.columns[5].add(*history);
    else
        b.columns[5].add_null();
    b.slots.push_back({q, part});
}

void postgres_store::inner::submit(operations::end o) {
    const std::size_t n = o.endings.size();
    const request_ptr q = made(std::move(o.then), read_end, n, std::vector<end_reply>(n));
    for (std::size_t i = 0; i < n; ++i) {
        const ending& e = o.endings[i];
        add_end(q, i, e.token, word_of(e.how), ms(e.due), e.reason, e.history);
    }
    wait_for(q);
}

void postgres_store::inner::submit(operations::extend o) {
    const request_ptr q = made(std::move(o.then), read_flag);
    add_end(q, 0, o.token, "extend", o.lease.count(), "", {});
    wait_for(q);
}

void postgres_store::inner::submit(operations::spend o) {
    const request_ptr q = made(std::move(o.then), read_flag);
    batch& b = room_in(spends, o.token.id);
    b.columns[0].add(o.shard);
    b.columns[1].add(static_cast<std::int64_t>(o.mine));
    b.columns[2].add(o.token.id);
    b.columns[3].add(o.token.attempt);
    b.slots.push_back({q, 0});
    wait_for(q);
}

void postgres_store::inner::submit(operations::claim o) {
    const bool is_same = terms.lease == o.terms.lease && terms.attempts == o.terms.attempts &&
                         terms.bytes == o.terms.bytes;
    if (!claims.is_empty() && !is_same) close_all();
    terms = o.terms;
    claims.common = {postgres::big(terms.lease.count()), postgres::big(terms.attempts),
                     postgres::big(traits.claim_ahead.count()),
                     postgres::big(static_cast<std::int64_t>(terms.bytes)),
                     postgres::big(pause_of_locked.count())};
    const std::size_t n = o.ids.size();
    std::vector<claimed> known(n);
    for (std::size_t i = 0; i < n; ++i) known[i].timer.id = o.ids[i];
    const request_ptr q = made(std::move(o.then), read_claimed, n, std::move(known));
    ++claim_number;
    for (std::size_t i = 0; i < n; ++i) {
        batch& b = room_in(claims, o.ids[i]);
        b.columns[0].add(claim_number);
        b.columns[1].add(o.shard);
        b.columns[2].add(static_cast<std::int64_t>(o.mine));
        b.columns[3].add(o.ids[i]);
        b.slots.push_back({q, i});
    }
    wait_for(q);
}

void postgres_store::inner::submit(operations::find o) {
    const request_ptr q =
        made(std::move(o.then), [](std::optional<stored_timer>& found, std::size_t, row* r) {
            if (r != nullptr) found = listed_timer(*r);
            return standing::done;
        });
    ask_one("finds", {postgres::bytes(o.id)}, q, read_rows(client));
}

void postgres_store::inner::submit(operations::list o) {
    const request_ptr q =
        made(std::move(o.then), [](std::vector<stored_timer>& all, std::size_t, row* r) {
            if (r != nullptr) all.push_back(listed_timer(*r));
            return standing::done;
        });
    ask_one("lists",
            {postgres::number(o.set == timer_set::dead), postgres::big(ms(o.after.due)),
             postgres::bytes(o.after.id), postgres::big(static_cast<std::int64_t>(o.limit)),
             postgres::bytes(o.prefix)},
            q, read_rows(client));
}

void postgres_store::inner::submit(operations::oldest o) {
    const request_ptr q =
        made(std::move(o.then), [](std::optional<overdue>& found, std::size_t, row* r) {
            if (r == nullptr) return standing::done;
            std::string id(r->bytes());
            const time_point due = time_of(*r), since = time_of(*r);
            const bool waits = r->integer() != 0;
            const auto unended = static_cast<std::uint32_t>(r->integer());
            if (!found || since < found->since) found = {std::move(id), due, since, waits, unended};
            return standing::done;
        });
    ask_one("oldest", {postgres::bytes(o.prefix), postgres::big(unended_attempts)}, q,
            read_rows(client));
}

void postgres_store::inner::submit(operations::count o) {
    const request_ptr q = made(std::move(o.then), [](totals& sum, std::size_t, row* r) {
        if (r == nullptr) return standing::unknown;
        sum.waiting = static_cast<std::uint64_t>(r->integer());
        sum.dead = static_cast<std::uint64_t>(r->integer());
        return standing::done;
    });
    ask_one("counts", {}, q, read_rows(client));
}

void postgres_store::inner::submit(operations::bury o) {
    const stored_timer& t = o.letter;
    const std::vector<value> arguments{
        postgres::bytes(t.id),    postgres::number(static_cast<int>(shard_of(t.id))),
        postgres::big(ms(t.due)), postgres::big(t.attempt),
        postgres::bytes(t.plan),  postgres::bytes(t.history),
        postgres::bytes(t.body)};
    const request_ptr q = made(std::move(o.then), [](bool& is_new, std::size_t, row* r) {
        is_new = r != nullptr && r->integer() == 1;
        return standing::done;
    });
    ask_one("buries", arguments, q, read_rows(client));
}

void postgres_store::inner::submit(operations::take o) {
    if (!takes_of.insert(o.shard).second) close_all();
    takes_of.insert(o.shard);
    const request_ptr q = made(std::move(o.then), read_place);
    takes.columns[0].add(o.shard);
    takes.columns[1].add(static_cast<std::int64_t>(o.mine));
    takes.columns[2].add(ms(o.after.due));
    takes.columns[3].add(o.after.id);
    takes.columns[4].add(ms(o.until));
    takes.columns[5].add(static_cast<std::int64_t>(o.limit));
    takes.slots.push_back({q, 0});
    wait_for(q);
}

void postgres_store::inner::submit(operations::release o) {
    close_all();
    ++unanswered;
    client.ask({"releases",
                {postgres::number(static_cast<int>(o.shard)),
                 postgres::big(static_cast<std::int64_t>(o.mine))}},
               [this, then = std::move(o.then)](fate how, const PGresult*) {
                   count_answer();
                   if (then) then(how == fate::replied ? standing::done : standing::unknown);
               });
}

// --- heartbeats ---------------------------------------------------------------------------------

void postgres_store::inner::submit(operations::join o) {
    if (beat.stay) close_all();
    ++unanswered;
    beat.stay = o.lease;
    beat.joined = std::move(o.then);
    client.touch(waiting());
}

void postgres_store::inner::submit(operations::own o) {
    const auto is_same = [&o](const operations::own& other) { return other.shard == o.shard; };
    if (std::ranges::any_of(beat.owns, is_same)) close_all();
    ++unanswered;
    beat.owns.push_back(std::move(o));
    client.touch(waiting());
}

void postgres_store::inner::send(heartbeat h) {
    postgres::array numbers(type::number), leases(type::big);
    for (const operations::own& o : h.owns) {
        numbers.add(o.shard);
        leases.add(o.lease.count());
    }
    const value stay = h.stay ? postgres::big(h.stay->count()) : postgres::null();
    client.ask({"beat", {postgres::text(client.me()), stay, numbers.whole(), leases.whole()}},
               [this, h = std::make_shared<heartbeat>(std::move(h))](fate how, const PGresult* r) {
                   on_heartbeat(*h, how, r);
               });
}

// The rows are pairs: see `beat` in schema.sql.
void postgres_store::inner::on_heartbeat(heartbeat& h, fate how, const PGresult* result) {
    const standing s = how == fate::replied ? standing::done : standing::unknown;
    std::map<std::int64_t, std::int64_t> values;
    for (int i = 0; s == standing::done && i < PQntuples(result); ++i) {
        row r(*result, i);
        const std::int64_t what = r.integer();
        values[what] = r.integer();
    }
    if (values.contains(-1)) client.learn(values[-1]);
    if (h.stay) {
        count_answer();
        if (h.joined) h.joined(s, static_cast<std::size_t>(values[-2]));
    }
    for (const operations::own& o : h.owns) {
        count_answer();
        if (o.then) o.then(s, static_cast<epoch>(values[o.shard]));
    }
    if (s != standing::done) return;
    client.notice_queue(values[-5] != 0);
    client.judge(values[-3] == 0, values[-4] == 0, values[-6] != 0);
}

}  // namespace tvec::durable
