#include "tvec/durable/memory_store.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "hash.hpp"
#include "job.hpp"
#include "wall_clock.hpp"

namespace tvec::durable {

using detail::job, detail::outcome;

// --- the database -------------------------------------------------------------------------------

memory_database::memory_database(unsigned shards, clock time)
    : clock_(time ? std::move(time) : clock(detail::wall_clock)), shards_(std::max(shards, 1U)) {}

unsigned memory_database::shard_of(std::string_view id) const noexcept {
    return detail::shard_of_id(id, shards_.size());
}

void memory_database::move(shard& s, entry& e, time_point to) {
    assert(s.order.contains({e.visible, e.id}) && "every waiting timer is in the order");
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
    assert(e != s.timers.end() && "only a timer that is there is erased");
    s.order.erase({e->second.visible, id});
    s.timers.erase(e);
}

// Shortens the lease of a claim to its length from now.
void memory_database::shorten(shard& s, entry& e) {
    if (e.is_open()) move(s, e, std::min(e.visible, today() + e.lease));
}

// Returns the timer, if the attempt is its current one and open, or nullptr.
memory_database::entry* memory_database::current(shard& s, const token& t) {
    const auto there = s.timers.find(t.id);
    if (there == s.timers.end()) return nullptr;
    entry& e = there->second;
    return e.is_open() && e.attempt == t.attempt ? &e : nullptr;
}

memory_database::put_reply memory_database::put(const record& timer, existing how,
                                                const std::string& me) {
    shard& s = of(timer.id);
    const auto living = s.timers.find(timer.id);
    const auto dead = s.dead.find(timer.id);
    const bool lives = living != s.timers.end();
    const bool is_dead = dead != s.dead.end();
    if (how == existing::keep && lives) return {put_result::there_already};
    if (how == existing::keep && is_dead) return {put_result::dead};
    // A delivery of the old timer must not end the new one.
    const std::uint32_t attempts = lives     ? living->second.attempt + 1
                                   : is_dead ? dead->second.attempt + 1
                                             : 0;
    if (lives) erase(s, timer.id);
    if (is_dead) s.dead.erase(dead);
    return put_anew(s, timer, attempts, me);
}

memory_database::put_reply memory_database::put_anew(shard& s, const record& timer,
                                                     std::uint32_t attempts,
                                                     const std::string& me) {
    entry e{{timer}, timer.due};
    e.attempt = e.ended = attempts;
    insert(s, e);
    const bool is_hinted = is_owned(s) && s.owner != me && timer.due <= s.taken_until;
    return {put_result::stored, is_hinted ? s.owner : ""};
}

cancel_result memory_database::cancel(const std::string& id) {
    shard& s = of(id);
    const auto there = s.timers.find(id);
    if (there == s.timers.end())
        return s.dead.erase(id) != 0 ? cancel_result::had_begun : cancel_result::unknown_id;
    const bool has_begun = there->second.is_open();
    erase(s, id);
    return has_begun ? cancel_result::had_begun : cancel_result::cancelled;
}

end_reply memory_database::end(const ending& e) {
    assert((!e.returned || !e.again) && "a returned claim keeps its deadline");
    shard& s = of(e.token.id);
    entry* const timer = current(s, e.token);
    if (timer == nullptr) return {};
    if (!e.again && !e.returned && timer->every == duration::zero()) {
        erase(s, e.token.id);
        return {true, {}};
    }
    if (!e.returned || timer->attempt == timer->ended + 1) timer->ended = timer->attempt;
    if (e.returned) timer->spent -= timer->is_spent;
    timer->is_spent = false;
    if (!e.returned) {
        timer->spent = 0;
        timer->due = e.again ? *e.again : next_beat(timer->due, timer->every, today());
    }
    move(s, *timer, timer->due);
    return {true, timer->due};
}

std::optional<bool> memory_database::spend(unsigned number, epoch mine, const token& t) {
    shard& s = shards_[number];
    if (s.last != mine) return std::nullopt;
    entry* const timer = current(s, t);
    if (timer == nullptr) return false;
    timer->spent += !std::exchange(timer->is_spent, true);
    return true;
}

std::optional<stored_timer> memory_database::find(const std::string& id) const {
    const shard& s = shards_[shard_of(id)];
    const auto there = s.timers.find(id);
    if (there == s.timers.end()) return std::nullopt;
    return there->second;
}

std::vector<stored_timer> memory_database::list(timer_set set, const place& after,
                                                std::size_t limit) const {
    const auto all = [set](const shard& s) -> auto& {
        return set == timer_set::dead ? s.dead : s.timers;
    };
    std::set<place> order;
    for (const shard& s : shards_)
        for (const auto& [id, e] : all(s)) order.insert({e.due, id});
    std::vector<stored_timer> page;
    for (auto p = order.upper_bound(after); p != order.end() && page.size() < limit; ++p)
        page.push_back(all(shards_[shard_of(p->id)]).at(p->id));
    return page;
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
    entry e = dead->second;
    s.dead.erase(dead);
    e.due = due;
    e.ended = e.attempt;
    e.spent = 0;
    e.is_spent = false;
    insert(s, e);
    return revive_result::revived;
}

std::size_t memory_database::join(const std::string& me, duration lease) {
    std::erase_if(members_, [now = today()](const auto& m) { return !m.second.holds(now); });
    members_[me] = {today() + lease, lease};
    return members_.size();
}

epoch memory_database::own(const std::string& me, unsigned number, duration lease) {
    assert(number < shards_.size() && "a shard is one of the database");
    shard& s = shards_[number];
    const bool is_mine = is_owned(s) && s.owner == me;
    if (is_owned(s) && !is_mine) return 0;
    const bool was_set_back = today() < std::exchange(s.latest, today());
    if (!is_mine) {
        ++s.last;
        s.owner = me;
        s.taken_until = {};
    }
    if (!is_mine || was_set_back)
        for (auto& [id, e] : s.timers) shorten(s, e);
    s.owned = {today() + lease, lease};
    return s.last;
}

void memory_database::release(unsigned number, epoch mine) {
    assert(number < shards_.size() && "a shard is one of the database");
    shard& s = shards_[number];
    if (s.last == mine) s.owned = {};
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
    shorten(s, e);
    if (e.visible > today() + ahead) {
        claimed early{claimed::kind::early, e};
        early.timer.due = e.visible;
        return early;
    }
    if (terms.attempts != 0 && e.spent >= terms.attempts) {
        const claimed died{claimed::kind::dead, e};
        s.dead.insert_or_assign(id, e);
        erase(s, id);
        return died;
    }
    ++e.attempt;
    e.is_spent = false;
    move(s, e, std::max(today(), e.visible) + terms.lease);
    e.lease = e.visible - today();
    return claimed{claimed::kind::granted, e};
}

// --- the link -----------------------------------------------------------------------------------

// The database, as one process uses it.
class memory_store::member final : public detail::database {
public:
    explicit member(memory_store& link) : all_(link.all_), link_(link) {}

    std::vector<put_result> put(const std::vector<record>& timers, existing how) override {
        std::vector<put_result> results;
        for (const record& r : timers) {
            const auto [result, hint_to] = all_.put(r, how, link_.name_);
            results.push_back(result);
            if (const auto t = all_.tellers_.find(hint_to); t != all_.tellers_.end())
                t->second(link_.shard_of(r.id), r);
        }
        return results;
    }
    cancel_result cancel(const std::string& id) override { return all_.cancel(id); }
    std::vector<end_reply> end(const std::vector<ending>& endings) override {
        std::vector<end_reply> replies;
        replies.reserve(endings.size());
        for (const ending& e : endings) replies.push_back(all_.end(e));
        return replies;
    }
    std::optional<stored_timer> find(const std::string& id) override { return all_.find(id); }
    std::vector<stored_timer> list(timer_set set, const place& after, std::size_t limit) override {
        return all_.list(set, after, limit);
    }
    totals count() override { return all_.count(); }
    revive_result revive(const std::string& id, time_point due) override {
        return all_.revive(id, due);
    }
    std::size_t join(duration lease) override { return all_.join(link_.name_, lease); }
    epoch own(unsigned shard, duration lease) override {
        return all_.own(link_.name_, shard, lease);
    }
    void release(unsigned shard, epoch mine) override { all_.release(shard, mine); }
    std::optional<std::vector<place>> take(unsigned shard, epoch mine, const place& after,
                                           time_point until, std::size_t limit) override {
        return all_.take(shard, mine, after, until, limit);
    }
    std::optional<std::vector<claimed>> claim(unsigned shard, epoch mine, const claim_terms& terms,
                                              const std::vector<std::string>& ids) override {
        std::vector<claimed> got;
        std::size_t bytes = 0;
        for (const std::string& id : ids) {
            if (bytes >= terms.bytes) {
                got.push_back({claimed::kind::later, {}});
                continue;
            }
            auto one = all_.claim(shard, mine, terms, link_.traits_.claim_ahead, id);
            if (!one) return std::nullopt;
            bytes += one->what == claimed::kind::granted ? one->timer.body.size() : 0;
            got.push_back(std::move(*one));
        }
        return got;
    }
    std::optional<bool> spend(unsigned shard, epoch mine, const token& t) override {
        return all_.spend(shard, mine, t);
    }

private:
    memory_database& all_;
    memory_store& link_;
};

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
    if (unanswered() != 0 || !hints_.empty()) bell_();  // for requests of completions
    return called;
}

bool memory_store::serve() {
    if (requests_.empty()) return false;
    std::unique_ptr<job> j = std::move(requests_.front());
    requests_.pop_front();
    if (failing_ > 0) {
        --failing_;
        failure_ = "the store in memory was told to fail";
        replies_.push_back({outcome::failed, std::move(j)});
    } else {
        member me(*this);
        j->work(me);
        replies_.push_back({outcome::done, std::move(j)});
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
    if (r.to)
        r.to->answer(r.how);
    else if (listener_.reconnected)
        listener_.reconnected();
    return true;
}

bool memory_store::lose_hint() {
    if (hints_.empty()) return false;
    hints_.pop_front();
    return true;
}

void memory_store::cut() {
    for (auto& r : requests_) replies_.push_back({outcome::unknown, std::move(r)});
    for (reply& r : replies_) r.how = outcome::unknown;
    requests_.clear();
    hints_.clear();
    replies_.push_back({outcome::unknown, nullptr});
    bell_();
}

void memory_store::post(std::unique_ptr<detail::job> j) {
    requests_.push_back(std::move(j));
    bell_();
}

}  // namespace tvec::durable
