#include "tvec/durable/redis_store.hpp"

#include <algorithm>
#include <bitset>
#include <exception>
#include <iterator>
#include <span>
#include <utility>

#include "answers.hpp"
#include "client.hpp"

namespace tvec::durable {

using redis::command, redis::fate, redis::fields, redis::rest;

namespace {

// Timers in one command, and about how many bytes of them: the server does nothing else meanwhile.
constexpr std::size_t together = 500;
constexpr std::size_t bytes_together = 262'144;

// The keys of a shard, in the order in which functions.lua names them.
constexpr std::string_view key_names[] = {"due", "job",  "begun",    "try",
                                          "own", "dead", "dead:job", "dead:try"};
constexpr std::span<const std::string_view> all_keys = key_names;
constexpr std::span alive = all_keys.first<4>();
constexpr std::span owned = all_keys.first<5>();
constexpr std::span owner = all_keys.subspan<4, 1>();
// The same of the dead, of whom none has begun.
constexpr std::string_view dead_names[] = {"dead", "dead:job", "dead:begun", "dead:try"};
constexpr std::span<const std::string_view> of_the_dead = dead_names;

long long ms(time_point t) { return t.time_since_epoch().count(); }

// An answer that comes in parts, each from a shard or of a slice.
template <class Item> struct gathering {
    std::function<void(standing, std::vector<Item>)> then;
    std::size_t left;
    standing how = standing::done;
    std::vector<Item> items{};

    void add(standing part, std::vector<Item> got) {
        if (part != standing::done) how = part;
        std::ranges::move(got, std::back_inserter(items));
        if (--left == 0) then(how, how == standing::done ? std::move(items) : std::vector<Item>{});
    }
};
template <class Item> using gathered = std::shared_ptr<gathering<Item>>;

template <class Item, class Then> gathered<Item> gather(Then then, std::size_t parts) {
    return std::make_shared<gathering<Item>>(gathering<Item>{std::move(then), parts});
}

// An answer of one item.
template <class Item, class Then> gathered<Item> single(Then then) {
    return gather<Item>(
        [then = std::move(then)](standing how, std::vector<Item> got) {
            then(how, got.empty() ? Item{} : std::move(got.front()));
        },
        1);
}

// What is asked of several timers at once, each of which may go in another command.
template <class Result> struct item_call {
    std::vector<Result> results;
    std::size_t left;
    std::function<void(standing, std::vector<Result>)> then;
    standing how = standing::done;

    void settle(std::size_t which, standing each, Result r) {
        results[which] = std::move(r);
        if (each != standing::done) how = each;
        if (--left == 0) then(how, std::move(results));
    }
};

// How the answer to a batch is read, and what stands in its place if there is none.
struct put_kind {
    using result = put_result;
    static void begin(redis::client&, fields&) {}
    static result read(fields& f) {
        return f.number() == 1 ? put_result::stored : put_result::there_already;
    }
    static result none(fate how) {
        return how == fate::refused ? put_result::failed : put_result::unknown;
    }
};
struct end_kind {
    using result = end_reply;
    static void begin(redis::client&, fields&) {}
    static result read(fields& f) { return redis::end_of(f); }
    static result none(fate) { return {}; }
};
struct claim_kind {
    using result = claimed;
    static void begin(redis::client& c, fields& f) { c.learn(f.microseconds()); }
    static result read(fields& f) { return redis::claim_of(f); }
    static result none(fate) { return {}; }
};

// A command in the making, and who waits for each of its answers.
template <class Kind> struct batch {
    using call = std::shared_ptr<item_call<typename Kind::result>>;
    struct slot {
        call whose;
        std::size_t which;
    };
    std::optional<command> words{};
    std::vector<slot> slots{};
    std::bitset<4096> ids{};  // their hashes

    bool is_full() const { return slots.size() == together || words->size() > bytes_together; }
};

}  // namespace

// What is asked of each shard. Puts, ends and claims wait in a batch of each until they are sent;
// they may overtake one another, but not of the same timer, and nothing else overtakes them.
struct redis_store::inner {
    struct shard_batches {
        batch<put_kind> puts{};
        batch<end_kind> ends{};
        batch<claim_kind> claims{};
        existing how = existing::keep;  // of the puts
        epoch mine = 0;                 // of the claims
        claim_terms terms{};
    };

    explicit inner(redis::client& c)
        : client(c), traits{c.shards(), true, c.options().claim_ahead}, of(c.shards()) {}

    command function(unsigned shard, std::string_view name,
                     std::span<const std::string_view> keys) const;
    void ask(unsigned shard, const command& c, redis::client::answer then);
    command& words_of_puts(unsigned shard, existing how);
    command& words_of_ends(unsigned shard);
    command& words_of_claims(unsigned shard, epoch mine, const claim_terms& terms);
    template <class Kind> void make_room(unsigned shard, batch<Kind>& b, const std::string& id);
    template <class Kind> void send(batch<Kind>& b);
    void close(unsigned shard);
    void close_all();

    // What waits for that many answers.
    template <class Result, class Then> auto call_of(std::size_t items, Then then) {
        return std::make_shared<item_call<Result>>(
            item_call<Result>{std::vector<Result>(items), items, std::move(then)});
    }

    // Its items are in batches now. If there is none, nothing is to be asked.
    template <class Result> void wait_for(const std::shared_ptr<item_call<Result>>& call) {
        if (call->left != 0) return client.touch();
        client.refuse([call](fate, const redisReply*) { call->then(standing::done, {}); });
    }

    // Counts what is unanswered, and what is answered.
    template <class... Answer> auto counted(completion<Answer...> then) {
        ++unanswered;
        return [this, then = std::move(then)](Answer... a) {
            --unanswered;
            ++answered;
            if (then) then(std::move(a)...);
        };
    }
    template <class Item, class Parse>
    redis::client::answer reader_of(gathered<Item> all, Parse parse);
    // The same of an answer that begins with the time.
    template <class Item, class Parse>
    redis::client::answer timed_reader_of(gathered<Item> all, Parse parse) {
        return reader_of(std::move(all), [this, parse](fields& f) {
            client.learn(f.microseconds());
            return parse(f);
        });
    }
    // Asks for an integer, which `then` is given with what became of it.
    template <class Then> void ask_number(unsigned shard, const command& c, Then then);

    redis::client& client;
    store_traits traits;
    std::vector<shard_batches> of;
    std::size_t unanswered = 0;
    std::size_t answered = 0;
    store_listener listener{};
};

command redis_store::inner::function(unsigned shard, std::string_view name,
                                     std::span<const std::string_view> keys) const {
    command c{"FCALL", "tvec_durable_" + std::string(name), std::to_string(keys.size())};
    for (const std::string_view k : keys) c.add(client.key(shard, k));
    return c;
}

void redis_store::inner::ask(unsigned shard, const command& c, redis::client::answer then) {
    close(shard);
    client.ask(c, std::move(then));
}

// Before that id goes into this batch. Others may have its hash, and are sent sooner for it.
template <class Kind>
void redis_store::inner::make_room(unsigned number, batch<Kind>& b, const std::string& id) {
    shard_batches& s = of[number];
    const std::size_t bit = std::hash<std::string>{}(id) % b.ids.size();
    const auto in = [&](const auto& other) {
        return static_cast<const void*>(&other) != &b && other.ids[bit];
    };
    const bool is_full = b.words && b.is_full();
    if (is_full || in(s.puts) || in(s.ends) || in(s.claims)) close(number);
    b.ids.set(bit);
}

command& redis_store::inner::words_of_puts(unsigned number, existing how) {
    shard_batches& s = of[number];
    if (s.puts.words && s.how != how) close(number);
    if (!s.puts.words) {
        s.puts.words = function(number, "put", owned);
        s.puts.words->add(client.me()).add(how == existing::keep ? "keep" : "replace");
        s.how = how;
    }
    return *s.puts.words;
}

command& redis_store::inner::words_of_ends(unsigned number) {
    shard_batches& s = of[number];
    if (!s.ends.words) s.ends.words = function(number, "finish", alive);
    return *s.ends.words;
}

command& redis_store::inner::words_of_claims(unsigned number, epoch mine,
                                             const claim_terms& terms) {
    shard_batches& s = of[number];
    const bool is_same =
        s.mine == mine && s.terms.lease == terms.lease && s.terms.attempts == terms.attempts;
    if (s.claims.words && !is_same) close(number);
    if (!s.claims.words) {
        s.claims.words = function(number, "claim", all_keys);
        s.claims.words->add(mine).add(terms.lease.count()).add(terms.attempts);
        s.claims.words->add(traits.claim_ahead.count());
        s.mine = mine;
        s.terms = terms;
    }
    return *s.claims.words;
}

// An answer that is none says that the shard was another's.
template <class Kind> void redis_store::inner::send(batch<Kind>& b) {
    if (!b.words) return;
    const command words = *std::exchange(b.words, std::nullopt);
    b.ids.reset();
    client.ask(words, [this, slots = std::exchange(b.slots, {})](fate how, const redisReply* r) {
        static const redisReply nothing{};
        standing each = how == fate::replied ? standing::done : standing::unknown;
        if (each == standing::done && r->type == REDIS_REPLY_NIL) each = standing::fenced;
        fields f(each == standing::done ? *r : nothing);
        std::vector<typename Kind::result> results;
        if (each == standing::done) Kind::begin(client, f);
        for (std::size_t i = 0; i < slots.size() && f.is_whole(); ++i)
            results.push_back(Kind::read(f));
        if (each == standing::done && !(f.is_whole() && f.at_end())) {
            client.protest();
            each = standing::unknown;
        }
        for (std::size_t i = 0; i < slots.size(); ++i)
            slots[i].whose->settle(slots[i].which, each,
                                   each == standing::done ? std::move(results[i])
                                                          : Kind::none(how));
    });
}

void redis_store::inner::close(unsigned number) {
    shard_batches& s = of[number];
    send(s.puts);
    send(s.ends);
    send(s.claims);
}

void redis_store::inner::close_all() {
    for (unsigned shard = 0; shard < of.size(); ++shard) close(shard);
}

// What reads an answer, all of it, and adds it. If it is none, the shard was another's.
template <class Item, class Parse>
redis::client::answer redis_store::inner::reader_of(gathered<Item> all, Parse parse) {
    return [this, all, parse](fate how, const redisReply* r) {
        if (how != fate::replied) return all->add(standing::unknown, {});
        if (r->type == REDIS_REPLY_NIL) return all->add(standing::fenced, {});
        fields f(*r);
        std::vector<Item> got = parse(f);
        if (f.is_whole()) return all->add(standing::done, std::move(got));
        client.protest();
        all->add(standing::unknown, {});
    };
}

template <class Then>
void redis_store::inner::ask_number(unsigned shard, const command& c, Then then) {
    ask(shard, c, [this, then = std::move(then)](fate how, const redisReply* r) {
        const bool is_number = how == fate::replied && r->type == REDIS_REPLY_INTEGER;
        if (how == fate::replied && !is_number) client.protest();
        then(is_number || how == fate::refused ? how : fate::lost, is_number ? r->integer : 0);
    });
}

// --- the store ----------------------------------------------------------------------------------

redis_store::redis_store(redis_options o)
    : client_(std::make_unique<redis::client>(std::move(o))),
      inner_(std::make_unique<inner>(*client_)) {}

// The others need not wait until our lease is over to know that we are gone.
redis_store::~redis_store() {
    try {
        client_->ask({"ZREM", client_->key("members"), client_->me()},
                     [](fate, const redisReply*) {});
        client_->leave();
    } catch (const std::exception&) {  // no memory: it is a member until its lease ends
    }
}

const std::string& redis_store::warning() const noexcept { return client_->warning(); }
int redis_store::fd() const noexcept { return client_->fd(); }
reading redis_store::now() const { return client_->now(); }
const store_traits& redis_store::traits() const noexcept { return inner_->traits; }
std::size_t redis_store::unanswered() const noexcept { return inner_->unanswered; }
std::string redis_store::last_failure() const { return client_->failure(); }

// FNV-1a, and its upper half into the lower.
unsigned redis_store::shard_of(std::string_view id) const noexcept {
    std::uint64_t hash = 14695981039346656037ULL;
    for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return static_cast<unsigned>((hash ^ hash >> 32) % inner_->traits.shards);
}

void redis_store::listen(store_listener listener) {
    const auto on_hint = [this, hint = std::move(listener.hint)](std::string_view text) {
        const auto put = redis::hint_of(text);
        if (put && hint) hint(shard_of(put->id), put->id, put->due);
    };
    client_->listen(on_hint, std::move(listener.reconnected));
}

std::size_t redis_store::run() {
    const std::size_t before = inner_->answered;
    client_->receive();
    if (client_->may_send()) inner_->close_all();
    client_->flush();
    return inner_->answered - before;
}

void redis_store::put(std::vector<record> timers, existing how,
                      completion<std::vector<put_result>> then) {
    const auto call = inner_->call_of<put_result>(
        timers.size(), [then = inner_->counted(std::move(then))](
                           standing, std::vector<put_result> r) { then(std::move(r)); });
    for (std::size_t i = 0; i < timers.size(); ++i) {
        const record& r = timers[i];
        const unsigned shard = shard_of(r.id);
        auto& batch = inner_->of[shard].puts;
        inner_->make_room(shard, batch, r.id);
        command& words = inner_->words_of_puts(shard, how);
        words.add(r.id).add(ms(r.due)).add(r.every.count()).add(r.body);
        batch.slots.push_back({call, i});
    }
    inner_->wait_for(call);
}

void redis_store::cancel(std::string id, completion<cancel_result> then) {
    const unsigned shard = shard_of(id);
    command c = inner_->function(shard, "cancel", all_keys);
    inner_->ask_number(shard, c.add(id),
                       [then = inner_->counted(std::move(then))](fate how, long long n) {
                           using enum cancel_result;
                           if (how == fate::refused) return then(failed);
                           if (how == fate::lost) return then(unknown);
                           then(n == 0 ? unknown_id : n == 1 ? cancelled : had_begun);
                       });
}

void redis_store::end(unsigned shard, std::vector<ending> endings,
                      completion<standing, std::vector<end_reply>> then) {
    const auto call = inner_->call_of<end_reply>(endings.size(), inner_->counted(std::move(then)));
    for (std::size_t i = 0; i < endings.size(); ++i) {
        const ending& e = endings[i];
        auto& batch = inner_->of[shard].ends;
        inner_->make_room(shard, batch, e.which.id);
        command& words = inner_->words_of_ends(shard);
        words.add(e.which.id).add(e.which.attempt);
        words.add(e.again ? std::to_string(ms(*e.again)) : "");
        batch.slots.push_back({call, i});
    }
    inner_->wait_for(call);
}

void redis_store::find(std::string id, completion<standing, std::optional<stored_timer>> then) {
    const unsigned shard = shard_of(id);
    const auto one = single<std::optional<stored_timer>>(inner_->counted(std::move(then)));
    command c = inner_->function(shard, "find", alive);
    inner_->ask(shard, c.add(id), inner_->reader_of(one, [](fields& f) {
        std::vector<std::optional<stored_timer>> found;
        if (!f.at_end()) found.emplace_back(redis::timer_of(f));
        return found;
    }));
}

void redis_store::list(which set, place after, std::size_t limit,
                       completion<standing, std::vector<stored_timer>> then) {
    const auto all = gather<stored_timer>(
        [limit, then = inner_->counted(std::move(then))](standing how,
                                                         std::vector<stored_timer> got) {
            std::ranges::sort(got, {}, [](const stored_timer& t) { return place{t.due, t.id}; });
            if (got.size() > limit) got.resize(limit);
            then(how, std::move(got));
        },
        traits().shards);
    for (unsigned shard = 0; shard < traits().shards; ++shard) {
        command c = inner_->function(shard, "list", set == which::waiting ? alive : of_the_dead);
        c.add(ms(after.due)).add(after.id).add(limit);
        inner_->ask(shard, c,
                    inner_->reader_of(all, [](fields& f) { return rest(f, redis::timer_of); }));
    }
}

void redis_store::count(completion<standing, totals> then) {
    const auto all = gather<totals>(
        [then = inner_->counted(std::move(then))](standing how, const std::vector<totals>& got) {
            totals sum;
            for (const totals& t : got) {
                sum.waiting += t.waiting;
                sum.dead += t.dead;
            }
            then(how, sum);
        },
        traits().shards);
    for (unsigned shard = 0; shard < traits().shards; ++shard)
        inner_->ask(shard, inner_->function(shard, "count", all_keys),
                    inner_->reader_of(all, [](fields& f) {
                        totals t;
                        t.waiting = static_cast<std::uint64_t>(f.number());
                        t.dead = static_cast<std::uint64_t>(f.number());
                        return std::vector{t};
                    }));
}

void redis_store::revive(std::string id, time_point due, completion<revive_result> then) {
    const unsigned shard = shard_of(id);
    command c = inner_->function(shard, "revive", all_keys);
    inner_->ask_number(shard, c.add(client_->me()).add(id).add(ms(due)),
                       [then = inner_->counted(std::move(then))](fate how, long long n) {
                           using enum revive_result;
                           if (how == fate::refused) return then(failed);
                           if (how == fate::lost) return then(unknown);
                           then(n == 0 ? unknown_id : n == 1 ? put_back : there_already);
                       });
}

// --- what the engine asks -----------------------------------------------------------------------

void redis_store::join(duration lease, completion<standing, std::size_t> then) {
    const auto all = single<std::size_t>(inner_->counted(std::move(then)));
    client_->ask({"FCALL", "tvec_durable_join", "1", client_->key("members"), client_->me(),
                  std::to_string(lease.count())},
                 inner_->timed_reader_of(all, [](fields& f) {
                     return std::vector{static_cast<std::size_t>(f.number())};
                 }));
}

void redis_store::own(unsigned shard, duration lease, completion<standing, epoch> then) {
    const auto one = single<epoch>(inner_->counted(std::move(then)));
    command c = inner_->function(shard, "own", owner);
    inner_->ask(shard, c.add(client_->me()).add(lease.count()),
                inner_->timed_reader_of(
                    one, [](fields& f) { return std::vector{static_cast<epoch>(f.number())}; }));
}

void redis_store::release(unsigned shard, epoch mine, completion<standing> then) {
    command c = inner_->function(shard, "release", owner);
    inner_->ask_number(shard, c.add(mine),
                       [then = inner_->counted(std::move(then))](fate how, long long) {
                           then(how == fate::replied ? standing::done : standing::unknown);
                       });
}

void redis_store::take(unsigned shard, epoch mine, place after, time_point until, std::size_t limit,
                       completion<standing, std::vector<place>> then) {
    const auto all = gather<place>(inner_->counted(std::move(then)), 1);
    command c = inner_->function(shard, "take", owned);
    c.add(mine).add(ms(after.due)).add(after.id).add(ms(until)).add(limit);
    inner_->ask(shard, c, inner_->timed_reader_of(all, [](fields& f) {
        fields places = f.list();
        return rest(places, redis::place_of);
    }));
}

void redis_store::claim(unsigned shard, epoch mine, claim_terms terms, std::vector<std::string> ids,
                        completion<standing, std::vector<claimed>> then) {
    const auto call = inner_->call_of<claimed>(
        ids.size(),
        [ids, then = inner_->counted(std::move(then))](standing how, std::vector<claimed> got) {
            for (std::size_t i = 0; i < got.size(); ++i) got[i].timer.id = ids[i];
            then(how, std::move(got));
        });
    for (std::size_t i = 0; i < ids.size(); ++i) {
        auto& batch = inner_->of[shard].claims;
        inner_->make_room(shard, batch, ids[i]);
        inner_->words_of_claims(shard, mine, terms).add(ids[i]);
        batch.slots.push_back({call, i});
    }
    inner_->wait_for(call);
}

}  // namespace tvec::durable
