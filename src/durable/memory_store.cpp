#include "tvec/durable/memory_store.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tvec::durable {

namespace {

reading system_time() {
    return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
}

}  // namespace

// --- the database -------------------------------------------------------------------------------

memory_database::memory_database(unsigned shards, clock time)
    : clock_(time ? std::move(time) : clock(system_time)), shards_(std::max(shards, 1U)) {}

unsigned memory_database::shard_of(std::string_view id) const noexcept {
    std::uint64_t hash = 14695981039346656037ULL;
    for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return static_cast<unsigned>(hash % shards_.size());
}

void memory_database::move(shard& s, entry& e, time_point to) {
    s.order.erase({e.visible, e.id});
    e.visible = to;
    s.order.insert({to, e.id});
}

void memory_database::insert(shard& s, entry e) {
    e.visible = e.due;
    s.order.insert({e.due, e.id});
    s.timers.insert_or_assign(e.id, e);
}

void memory_database::erase(shard& s, const std::string& id) {
    const auto e = s.timers.find(id);
    s.order.erase({e->second.visible, id});
    s.timers.erase(e);
}

memory_database::put_reply memory_database::put(const record& timer, existing how,
                                                const std::string& me) {
    shard& s = of(timer.id);
    entry e{{timer}, timer.due};
    if (const auto there = s.timers.find(timer.id); there != s.timers.end()) {
        if (how == existing::keep) return {put_result::there_already};
        // What is being delivered of the old one must not end the new one.
        e.attempt = e.ended = there->second.attempt + 1;
        erase(s, timer.id);
    }
    insert(s, e);
    const bool is_hinted = is_owned(s) && s.owner != me && timer.due <= s.taken_until;
    return {put_result::stored, is_hinted ? s.owner : ""};
}

cancel_result memory_database::cancel(const std::string& id) {
    shard& s = of(id);
    const auto there = s.timers.find(id);
    if (there == s.timers.end())
        return s.dead.erase(id) != 0 ? cancel_result::had_begun : cancel_result::unknown_id;
    const bool has_begun = there->second.attempt != there->second.ended;
    erase(s, id);
    return has_begun ? cancel_result::had_begun : cancel_result::cancelled;
}

end_reply memory_database::end(const ending& e) {
    shard& s = of(e.which.id);
    const auto there = s.timers.find(e.which.id);
    if (there == s.timers.end()) return {};
    entry& timer = there->second;
    if (timer.attempt != e.which.attempt || timer.ended == timer.attempt) return {};
    if (!e.again && timer.every == duration::zero()) {
        erase(s, e.which.id);
        return {true, {}};
    }
    timer.ended = timer.attempt;
    timer.due = e.again ? *e.again : next_beat(timer.due, timer.every, today());
    move(s, timer, timer.due);
    return {true, timer.due};
}

std::optional<stored_timer> memory_database::find(const std::string& id) const {
    const shard& s = shards_[shard_of(id)];
    const auto there = s.timers.find(id);
    if (there == s.timers.end()) return std::nullopt;
    return there->second;
}

std::vector<stored_timer> memory_database::list(which set, const place& after,
                                                std::size_t limit) const {
    std::vector<stored_timer> all;
    for (const shard& s : shards_)
        for (const auto& [id, e] : set == which::dead ? s.dead : s.timers)
            if (after < place{e.due, id}) all.push_back(e);
    std::ranges::sort(all, {}, [](const stored_timer& t) { return place{t.due, t.id}; });
    if (all.size() > limit) all.resize(limit);
    return all;
}

totals memory_database::count() const {
    totals sum;
    for (const shard& s : shards_) {
        sum.waiting += s.timers.size();
        sum.dead += s.dead.size();
    }
    return sum;
}

revive_result memory_database::revive(const std::string& id, time_point due) {
    shard& s = of(id);
    const auto dead = s.dead.find(id);
    if (dead == s.dead.end()) return revive_result::unknown_id;
    if (s.timers.contains(id)) return revive_result::there_already;
    entry e = dead->second;
    s.dead.erase(dead);
    e.due = due;
    e.ended = e.attempt;
    insert(s, e);
    return revive_result::put_back;
}

std::size_t memory_database::join(const std::string& me, duration lease) {
    std::erase_if(members_, [now = today()](const auto& m) { return m.second <= now; });
    members_[me] = today() + lease;
    return members_.size();
}

epoch memory_database::own(const std::string& me, unsigned number, duration lease) {
    shard& s = shards_[number];
    const bool is_mine = is_owned(s) && s.owner == me;
    if (is_owned(s) && !is_mine) return 0;
    if (!is_mine) {
        ++s.last;
        s.owner = me;
        s.taken_until = {};
    }
    s.owned_until = today() + lease;
    return s.last;
}

void memory_database::release(unsigned number, epoch mine) {
    shard& s = shards_[number];
    if (s.last == mine) s.owned_until = {};
}

std::optional<std::vector<place>> memory_database::take(unsigned number, epoch mine,
                                                        const place& after, time_point until,
                                                        std::size_t limit) {
    shard& s = shards_[number];
    if (s.last != mine) return std::nullopt;
    std::vector<place> got;
    for (auto p = s.order.upper_bound(after);
         p != s.order.end() && p->due <= until && got.size() < limit; ++p)
        got.push_back(*p);
    s.taken_until = std::max(s.taken_until, got.size() == limit ? got.back().due : until);
    return got;
}

std::optional<claimed> memory_database::claim(unsigned number, epoch mine, const claim_terms& terms,
                                              duration ahead, const std::string& id) {
    shard& s = shards_[number];
    if (s.last != mine) return std::nullopt;
    const auto there = s.timers.find(id);
    if (there == s.timers.end()) return claimed{};
    entry& e = there->second;
    if (e.visible > today() + ahead) {
        claimed early{claimed::kind::early, e};
        early.timer.due = e.visible;
        return early;
    }
    if (terms.attempts != 0 && e.attempt - e.ended >= terms.attempts) {
        const claimed died{claimed::kind::dead, e};
        s.dead.insert_or_assign(id, e);
        erase(s, id);
        return died;
    }
    ++e.attempt;
    move(s, e, std::max(today(), e.visible) + terms.lease);
    return claimed{claimed::kind::granted, e};
}

// --- the link -----------------------------------------------------------------------------------

memory_store::memory_store(memory_database& all, std::string name, duration claim_ahead)
    : all_(all), name_(std::move(name)), traits_{all.shards(), true, claim_ahead} {
    all_.tellers_[name_] = [this](unsigned shard, const record& timer) {
        hints_.push_back({shard, timer.id, timer.due});
        bell_();
    };
}

memory_store::~memory_store() { all_.tellers_.erase(name_); }

std::size_t memory_store::unanswered() const noexcept { return requests_.size() + replies_.size(); }

std::size_t memory_store::run() {
    bell_.acknowledge();
    while (serve()) continue;
    std::size_t called = 0;
    for (std::size_t n = replies_.size() + hints_.size(); n > 0 && answer(); --n) ++called;
    if (unanswered() != 0 || !hints_.empty()) bell_();  // what completions have asked
    return called;
}

bool memory_store::serve() {
    if (requests_.empty()) return false;
    const request r = std::move(requests_.front());
    requests_.pop_front();
    if (failing_ > 0) {
        --failing_;
        failure_ = "the store in memory was told to fail";
        replies_.push_back({r.failed, r.failed});
    } else {
        replies_.push_back({r.serve(), r.broken});
    }
    return true;
}

bool memory_store::answer() {
    if (!hints_.empty()) {
        const hint h = std::move(hints_.front());
        hints_.pop_front();
        if (listener_.hint) listener_.hint(h.shard, h.id, h.due);
        return true;
    }
    if (replies_.empty()) return false;
    const reply r = std::move(replies_.front());
    replies_.pop_front();
    r.known();
    return true;
}

bool memory_store::lose_hint() {
    if (hints_.empty()) return false;
    hints_.pop_front();
    return true;
}

void memory_store::cut() {
    for (reply& r : replies_) r.known = r.broken;
    for (request& r : requests_) replies_.push_back({r.broken, r.broken});
    requests_.clear();
    hints_.clear();
    const auto again = [this] {
        if (listener_.reconnected) listener_.reconnected();
    };
    replies_.push_back({again, again});
    bell_();
}

void memory_store::ask(request r) {
    requests_.push_back(std::move(r));
    bell_();
}

namespace {

// A request: `serve` computes the answers, in a tuple; `broken` and `failed` are the others.
template <class Request, class... Answer, class Serve>
Request request_of(store::completion<Answer...> then, Serve serve, std::tuple<Answer...> broken,
                   std::tuple<Answer...> failed) {
    const auto with = [then = std::move(then)](std::tuple<Answer...> a) {
        return [then, a = std::move(a)] { std::apply(then, a); };
    };
    return {[serve, with] { return std::function<void()>(with(serve())); }, with(std::move(broken)),
            with(std::move(failed))};
}

// The same where a failure is unknown, too.
template <class Request, class Answer, class Serve>
Request request_of(store::completion<standing, Answer> then, Serve serve) {
    const std::tuple<standing, Answer> unknown{standing::unknown, Answer{}};
    return request_of<Request>(
        std::move(then), [serve] { return std::tuple<standing, Answer>(standing::done, serve()); },
        unknown, unknown);
}

// And where there may be a fence.
template <class Request, class Answer, class Serve>
Request fenced_request_of(store::completion<standing, Answer> then, Serve serve) {
    const std::tuple<standing, Answer> unknown{standing::unknown, Answer{}};
    return request_of<Request>(
        std::move(then),
        [serve] {
            std::optional<Answer> a = serve();
            const standing how = a ? standing::done : standing::fenced;
            return std::tuple<standing, Answer>(how, a ? std::move(*a) : Answer{});
        },
        unknown, unknown);
}

}  // namespace

std::vector<put_result> memory_store::put_all(const std::vector<record>& timers, existing how) {
    std::vector<put_result> results;
    for (const record& r : timers) {
        const auto [result, hint_to] = all_.put(r, how, name_);
        results.push_back(result);
        if (const auto t = all_.tellers_.find(hint_to); t != all_.tellers_.end())
            t->second(shard_of(r.id), r);
    }
    return results;
}

void memory_store::put(std::vector<record> timers, existing how,
                       completion<std::vector<put_result>> then) {
    const auto all = [n = timers.size()](put_result r) {
        return std::tuple(std::vector<put_result>(n, r));
    };
    ask(request_of<request>(
        std::move(then),
        [this, timers = std::move(timers), how] { return std::tuple(put_all(timers, how)); },
        all(put_result::unknown), all(put_result::failed)));
}

void memory_store::cancel(std::string id, completion<cancel_result> then) {
    ask(request_of<request>(
        std::move(then), [this, id = std::move(id)] { return std::tuple(all_.cancel(id)); },
        std::tuple(cancel_result::unknown), std::tuple(cancel_result::failed)));
}

void memory_store::end(unsigned, std::vector<ending> endings,
                       completion<standing, std::vector<end_reply>> then) {
    ask(request_of<request>(std::move(then), [this, endings = std::move(endings)] {
        std::vector<end_reply> replies;
        for (const ending& e : endings) replies.push_back(all_.end(e));
        return replies;
    }));
}

void memory_store::find(std::string id, completion<standing, std::optional<stored_timer>> then) {
    ask(request_of<request>(std::move(then), [this, id = std::move(id)] { return all_.find(id); }));
}

void memory_store::list(which set, place after, std::size_t limit,
                        completion<standing, std::vector<stored_timer>> then) {
    ask(request_of<request>(std::move(then), [this, set, after = std::move(after), limit] {
        return all_.list(set, after, limit);
    }));
}

void memory_store::count(completion<standing, totals> then) {
    ask(request_of<request>(std::move(then), [this] { return all_.count(); }));
}

void memory_store::revive(std::string id, time_point due, completion<revive_result> then) {
    ask(request_of<request>(
        std::move(then),
        [this, id = std::move(id), due] { return std::tuple(all_.revive(id, due)); },
        std::tuple(revive_result::unknown), std::tuple(revive_result::failed)));
}

void memory_store::join(duration lease, completion<standing, std::size_t> then) {
    ask(request_of<request>(std::move(then), [this, lease] { return all_.join(name_, lease); }));
}

void memory_store::own(unsigned shard, duration lease, completion<standing, epoch> then) {
    ask(request_of<request>(std::move(then),
                            [this, shard, lease] { return all_.own(name_, shard, lease); }));
}

void memory_store::release(unsigned shard, epoch mine, completion<standing> then) {
    ask(request_of<request>(
        std::move(then),
        [this, shard, mine] {
            all_.release(shard, mine);
            return std::tuple(standing::done);
        },
        std::tuple(standing::unknown), std::tuple(standing::unknown)));
}

void memory_store::take(unsigned shard, epoch mine, place after, time_point until,
                        std::size_t limit, completion<standing, std::vector<place>> then) {
    ask(fenced_request_of<request>(std::move(then),
                                   [this, shard, mine, after = std::move(after), until, limit] {
                                       return all_.take(shard, mine, after, until, limit);
                                   }));
}

void memory_store::claim(unsigned shard, epoch mine, claim_terms terms,
                         std::vector<std::string> ids,
                         completion<standing, std::vector<claimed>> then) {
    ask(fenced_request_of<request>(
        std::move(then), [this, shard, mine, terms, ids = std::move(ids)] {
            std::optional<std::vector<claimed>> all(std::in_place);
            for (const std::string& id : ids) {
                auto one = all_.claim(shard, mine, terms, traits_.claim_ahead, id);
                if (!one) return std::optional<std::vector<claimed>>{};
                all->push_back(std::move(*one));
            }
            return all;
        }));
}

}  // namespace tvec::durable
