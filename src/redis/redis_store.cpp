#include "tvec/durable/redis_store.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>
#include <utility>

#include "client.hpp"

namespace tvec::durable {

using redis::command, redis::fate, redis::fields;

namespace {

// Timers in one command, and about how many bytes of them: the server does nothing else meanwhile.
constexpr std::size_t together = 500;
constexpr std::size_t bytes_together = 256 * 1024;

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
time_point time_of(long long ms) { return time_point(duration(ms)); }

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

// So many commands are needed: at least one, lest nobody answers.
std::size_t slices_of(std::size_t items) {
    return std::max<std::size_t>((items + together - 1) / together, 1);
}

// The items of a slice.
template <class T> std::span<const T> slice(const std::vector<T>& all, std::size_t which) {
    const std::size_t from = which * together;
    return std::span(all).subspan(from, std::min(together, all.size() - from));
}

stored_timer shown(fields& f) {
    stored_timer t;
    t.id = f.text();
    t.due = time_of(f.number());
    t.every = duration(f.number());
    t.attempt = static_cast<std::uint32_t>(f.number());
    t.ended = static_cast<std::uint32_t>(f.number());
    t.body = f.text();
    return t;
}

end_reply end_of(fields& f) {
    end_reply e;
    e.was_current = f.number() == 1;
    if (const long long next = f.number(); next != 0) e.next = time_of(next);
    return e;
}

place place_of(fields& f) {
    place p;
    p.id = f.text();
    p.due = time_of(f.number());
    return p;
}

// Of what is not granted, functions.lua has 0 attempts, and why in place of the next.
claimed claim_of(fields& f) {
    using enum claimed::kind;
    claimed c;
    c.timer.attempt = static_cast<std::uint32_t>(f.number());
    c.timer.ended = static_cast<std::uint32_t>(f.number());
    c.timer.due = time_of(f.number());
    c.timer.every = duration(f.number());
    c.timer.body = f.text();
    const auto why = c.timer.ended;
    c.what = c.timer.attempt != 0 ? granted : why == 1 ? early : why == 2 ? dead : gone;
    return c;
}

// All that is left of an answer.
template <class Parse> auto rest(fields& f, Parse parse) {
    std::vector<decltype(parse(f))> items;
    while (!f.at_end()) items.push_back(parse(f));
    return items;
}

}  // namespace

// What is asked of each shard, and the puts that are not sent yet: those of one turn of the loop
// are one command.
struct redis_store::inner {
    struct put_call {
        std::vector<put_result> results;
        std::size_t left;
        completion<std::vector<put_result>> then;

        void settle(std::size_t which, put_result r) {
            results[which] = r;
            if (--left == 0) then(std::move(results));
        }
    };
    struct slot {
        std::shared_ptr<put_call> call;
        std::size_t which;
    };
    struct batch {
        std::optional<command> puts{};
        existing how = existing::keep;
        std::vector<slot> slots{};
    };

    explicit inner(redis::client& c)
        : client(c), traits{c.shards(), true, c.options().claim_ahead}, of(c.shards()) {}

    command function(unsigned shard, std::string_view name,
                     std::span<const std::string_view> keys) const;
    void ask(unsigned shard, const command& c, redis::client::answer then);
    void add(unsigned shard, const record& r, existing how, slot s);
    void close(unsigned shard);
    void close_all();

    // Counts what is unanswered, and what is answered.
    template <class... Answer> auto counted(completion<Answer...> then) {
        ++unanswered;
        return [this, then = std::move(then)](Answer... a) {
            --unanswered;
            ++answered;
            if (then) then(std::move(a)...);
        };
    }
    // The same where there must be so many items.
    template <class Item>
    auto as_many(std::size_t expected, completion<standing, std::vector<Item>> then) {
        return
            [this, expected, then = counted(std::move(then))](standing how, std::vector<Item> got) {
                if (how != standing::done || got.size() == expected)
                    return then(how, std::move(got));
                client.protest();
                then(standing::unknown, {});
            };
    }

    template <class Item, class Parse>
    redis::client::answer reader_of(gathered<Item> all, Parse parse);
    // The same of an answer that begins with the time.
    template <class Item, class Parse>
    redis::client::answer timed_reader_of(gathered<Item> all, Parse parse) {
        return reader_of(std::move(all), [this, parse](fields& f) {
            client.learn(f.number());
            return parse(f);
        });
    }
    // Asks for an integer, which `then` is given with what became of it.
    template <class Then> void ask_number(unsigned shard, const command& c, Then then);

    redis::client& client;
    store_traits traits;
    std::vector<batch> of;
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

void redis_store::inner::add(unsigned shard, const record& r, existing how, slot s) {
    batch& b = of[shard];
    if (b.puts && (b.how != how || b.slots.size() == together || b.puts->size() > bytes_together))
        close(shard);
    if (!b.puts) {
        b.puts = function(shard, "put", owned);
        b.puts->add(client.me()).add(how == existing::keep ? "keep" : "replace");
        b.how = how;
    }
    b.puts->add(r.id).add(ms(r.due)).add(r.every.count()).add(r.body);
    b.slots.push_back(std::move(s));
}

void redis_store::inner::close(unsigned shard) {
    batch& b = of[shard];
    if (!b.puts) return;
    const command puts = *std::exchange(b.puts, std::nullopt);
    client.ask(puts, [this, slots = std::exchange(b.slots, {})](fate how, const redisReply* r) {
        static const redisReply nothing{};
        fields f(how == fate::replied ? *r : nothing);
        if (how == fate::replied && f.size() != slots.size()) client.protest();
        for (const slot& s : slots) {
            const bool is_stored = f.number() == 1;
            put_result result = is_stored ? put_result::stored : put_result::there_already;
            if (how == fate::refused)
                result = put_result::failed;
            else if (!f.is_whole())
                result = put_result::unknown;
            s.call->settle(s.which, result);
        }
    });
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
    client_->ask({"ZREM", client_->key("members"), client_->me()}, [](fate, const redisReply*) {});
    client_->leave();
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
        long long due = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), due);
        const auto digits = static_cast<std::size_t>(end - text.data());
        if (!hint || error != std::errc{} || digits + 1 >= text.size()) return;
        const std::string id(text.substr(digits + 1));
        hint(shard_of(id), id, time_of(due));
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
    const auto call = std::make_shared<inner::put_call>(
        inner::put_call{std::vector(timers.size(), put_result::unknown), timers.size(),
                        inner_->counted(std::move(then))});
    for (std::size_t i = 0; i < timers.size(); ++i)
        inner_->add(shard_of(timers[i].id), timers[i], how, {call, i});
    if (timers.empty())
        client_->refuse([call](fate, const redisReply*) { call->then({}); });
    else
        client_->touch();
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
    const std::size_t slices = slices_of(endings.size());
    const auto all = gather<end_reply>(inner_->as_many(endings.size(), std::move(then)), slices);
    for (std::size_t i = 0; i < slices; ++i) {
        command c = inner_->function(shard, "finish", alive);
        for (const ending& e : slice(endings, i)) {
            c.add(e.which.id).add(e.which.attempt);
            c.add(e.again ? std::to_string(ms(*e.again)) : "");
        }
        inner_->ask(shard, c, inner_->reader_of(all, [](fields& f) { return rest(f, end_of); }));
    }
}

void redis_store::find(std::string id, completion<standing, std::optional<stored_timer>> then) {
    const unsigned shard = shard_of(id);
    const auto one = single<std::optional<stored_timer>>(inner_->counted(std::move(then)));
    command c = inner_->function(shard, "find", alive);
    inner_->ask(shard, c.add(id), inner_->reader_of(one, [](fields& f) {
        std::vector<std::optional<stored_timer>> found;
        if (!f.at_end()) found.emplace_back(shown(f));
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
        inner_->ask(shard, c, inner_->reader_of(all, [](fields& f) { return rest(f, shown); }));
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
        return rest(places, place_of);
    }));
}

void redis_store::claim(unsigned shard, epoch mine, claim_terms terms, std::vector<std::string> ids,
                        completion<standing, std::vector<claimed>> then) {
    const std::size_t slices = slices_of(ids.size());
    const auto named = [ids, then = inner_->as_many(ids.size(), std::move(then))](
                           standing how, std::vector<claimed> got) {
        for (std::size_t i = 0; i < got.size(); ++i) got[i].timer.id = ids[i];
        then(how, std::move(got));
    };
    const auto all = gather<claimed>(named, slices);
    for (std::size_t i = 0; i < slices; ++i) {
        command c = inner_->function(shard, "claim", all_keys);
        c.add(mine).add(terms.lease.count()).add(terms.attempts);
        c.add(traits().claim_ahead.count());
        for (const std::string& id : slice(ids, i)) c.add(id);
        inner_->ask(shard, c,
                    inner_->timed_reader_of(all, [](fields& f) { return rest(f, claim_of); }));
    }
}

}  // namespace tvec::durable
