#include "tvec/durable/memory_store.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "hash.hpp"
#include "job.hpp"
#include "longest_wait.hpp"
#include "timer_state.hpp"
#include "wall_clock.hpp"

namespace tvec::durable {

using detail::fate, detail::job;

// --- the database -------------------------------------------------------------------------------

struct memory_database::inner {
    using teller = std::function<void(unsigned shard, const record& timer)>;

    using entry = detail::timer_state;
    // A lease counts for no longer than its length from now, whatever the clock showed.
    struct lease_of {
        time_point until{};
        duration length{};
        bool holds(time_point now) const { return until > now && until - now <= length; }
    };
    struct shard {
        // Lets `change` change a timer, and keeps its place in the order.
        template <class Change> void change(entry& e, Change change);
        void insert(entry e);
        void erase(const std::string& id);
        entry* current(const token& t);
        void add_places(const entry& e);
        void remove_places(const entry& e);

        std::map<std::string, entry> timers, dead;
        std::set<place> order;    // of `timers`, by `visible`
        std::set<place> unended;  // by their deadlines, of those with so many open attempts
        std::uint32_t gone = 0;   // see later_of
        std::string owner;
        epoch last = 0;
        lease_of owned{};
        time_point taken_until{};
        time_point latest{};  // reading of the clock when it was owned
    };

    inner(unsigned number, clock t) : time(std::move(t)), shards(number) {}

    time_point today() const { return std::chrono::floor<duration>(time()); }
    shard& at(unsigned number) {
        assert(number < shards.size() && "a shard is one of the database");
        return shards[number];
    }
    shard& of(const std::string& id) { return shards[detail::shard_of_id(id, shards.size())]; }
    bool is_owned(const shard& s) const { return s.last != 0 && s.owned.holds(today()); }

    clock time;
    std::vector<shard> shards;
    std::map<std::string, lease_of> members;
    std::map<std::string, teller> tellers;  // by the name of the process
};

template <class Change> void memory_database::inner::shard::change(entry& e, Change change) {
    remove_places(e);
    change();
    add_places(e);
}

void memory_database::inner::shard::add_places(const entry& e) {
    order.insert({e.visible, e.id});
    if (e.attempt - e.ended >= unended_attempts) unended.insert({e.due, e.id});
}

void memory_database::inner::shard::remove_places(const entry& e) {
    assert(order.contains({e.visible, e.id}) && "every waiting timer is in the order");
    order.erase({e.visible, e.id});
    unended.erase({e.due, e.id});
}

void memory_database::inner::shard::insert(entry e) {
    add_places(e);
    timers.insert_or_assign(e.id, std::move(e));
}

void memory_database::inner::shard::erase(const std::string& id) {
    const auto e = timers.find(id);
    assert(e != timers.end() && "only a timer that is there is erased");
    remove_places(e->second);
    timers.erase(e);
}

// Returns the timer, if the attempt is its current one and open, or nullptr.
memory_database::inner::entry* memory_database::inner::shard::current(const token& t) {
    const auto there = timers.find(t.id);
    if (there == timers.end()) return nullptr;
    entry& e = there->second;
    return e.is_current(t) ? &e : nullptr;
}

memory_database::memory_database(unsigned shards, clock time)
    : inner_(std::make_unique<inner>(std::max(shards, 1U),
                                     time ? std::move(time) : clock(detail::wall_clock))) {}

memory_database::~memory_database() = default;

reading memory_database::now() const { return inner_->time(); }

unsigned memory_database::shards() const noexcept {
    return static_cast<unsigned>(inner_->shards.size());
}

unsigned memory_database::shard_of(std::string_view id) const noexcept {
    return detail::shard_of_id(id, inner_->shards.size());
}

// --- the operations -----------------------------------------------------------------------------

// The database, as one process uses it.
class memory_store::member final : public detail::database {
public:
    explicit member(memory_store& from) : all_(*from.all_.inner_), from_(from) {}

    std::vector<put_result> perform(const operations::put& o) override {
        std::vector<put_result> results;
        for (const record& r : o.timers) results.push_back(put(r, o.how));
        return results;
    }

    cancel_result perform(const operations::cancel& o) override {
        shard& s = all_.of(o.id);
        const auto there = s.timers.find(o.id);
        const auto dead = s.dead.find(o.id);
        if (dead != s.dead.end()) {
            s.gone = detail::later_of(s.gone, dead->second.attempt);
            s.dead.erase(dead);
            return cancel_result::had_begun;
        }
        if (there == s.timers.end()) return cancel_result::unknown_id;
        const bool has_begun = there->second.is_open();
        s.gone = detail::later_of(s.gone, there->second.attempt);
        s.erase(o.id);
        return has_begun ? cancel_result::had_begun : cancel_result::cancelled;
    }

    std::vector<end_reply> perform(const operations::end& o) override {
        std::vector<end_reply> replies;
        replies.reserve(o.endings.size());
        for (const ending& e : o.endings) replies.push_back(end(e));
        return replies;
    }

    std::optional<stored_timer> perform(const operations::find& o) override {
        const shard& s = all_.of(o.id);
        const auto there = s.timers.find(o.id);
        if (there == s.timers.end()) return std::nullopt;
        return there->second;
    }

    std::vector<stored_timer> perform(const operations::list& o) override {
        const auto all = [&o](const shard& s) -> auto& {
            return o.set == timer_set::dead ? s.dead : s.timers;
        };
        std::set<place> order;
        for (const shard& s : all_.shards)
            for (const auto& [id, e] : all(s))
                if (id.starts_with(o.prefix)) order.insert({e.due, id});
        std::vector<stored_timer> page;
        for (auto p = order.upper_bound(o.after); p != order.end() && page.size() < o.limit; ++p)
            page.push_back(all(all_.of(p->id)).at(p->id));
        return page;
    }

    std::optional<overdue> perform(const operations::oldest& o) override {
        std::optional<overdue> found;
        for (const shard& s : all_.shards) {
            for (const auto* const order : {&s.order, &s.unended}) {
                const std::optional<place> p = first_of(s, *order, o.prefix);
                if (!p) continue;
                const entry& e = s.timers.at(p->id);
                detail::keep_longest(found, {p->id, e.due, p->due, false, e.unended(all_.today())},
                                     o.prefix);
            }
        }
        return found;
    }

    totals perform(const operations::count&) override {
        totals sum;
        for (const shard& s : all_.shards) {
            sum.waiting += s.timers.size();
            sum.dead += s.dead.size();
        }
        return sum;
    }

    revive_result perform(const operations::revive& o) override {
        shard& s = all_.of(o.id);
        const auto dead = s.dead.find(o.id);
        if (dead == s.dead.end()) return revive_result::unknown_id;
        entry e = std::move(dead->second);
        s.dead.erase(dead);
        e.revive(o.due);
        s.insert(std::move(e));
        return revive_result::revived;
    }

    bool perform(const operations::bury& o) override {
        shard& s = all_.of(o.letter.id);
        if (s.timers.contains(o.letter.id)) return false;
        entry letter(o.letter);
        letter.bury();
        return s.dead.emplace(o.letter.id, std::move(letter)).second;
    }

    touch_result perform(const operations::touch& o) override {
        shard& s = all_.of(o.id);
        const auto there = s.timers.find(o.id);
        if (there == s.timers.end()) return touch_result::unknown_id;
        entry& e = there->second;
        s.change(e, [&] { e.touch(o.due); });
        tell_owner(s, e);
        return touch_result::touched;
    }

    bool perform(const operations::extend& o) override {
        shard& s = all_.at(o.shard);
        entry* const timer = s.current(o.token);
        if (timer == nullptr) return false;
        s.change(*timer, [&] { timer->extend(o.lease, all_.today()); });
        return true;
    }

    std::size_t perform(const operations::join& o) override {
        const time_point now = all_.today();
        std::erase_if(all_.members, [now](const auto& m) { return !m.second.holds(now); });
        all_.members[from_.name_] = {now + o.lease, o.lease};
        return all_.members.size();
    }

    epoch perform(const operations::own& o) override {
        shard& s = all_.at(o.shard);
        const bool is_mine = all_.is_owned(s) && s.owner == from_.name_;
        if (all_.is_owned(s) && !is_mine) return 0;
        const bool was_set_back = all_.today() < std::exchange(s.latest, all_.today());
        if (!is_mine) {
            ++s.last;
            s.owner = from_.name_;
            s.taken_until = {};
        }
        if (!is_mine || was_set_back)
            for (auto& t : s.timers) s.change(t.second, [&] { t.second.shorten(all_.today()); });
        s.owned = {all_.today() + o.lease, o.lease};
        return s.last;
    }

    standing perform(const operations::release& o) override {
        shard& s = all_.at(o.shard);
        if (s.last == o.mine) s.owned = {};
        return standing::done;
    }

    std::optional<std::vector<place>> perform(const operations::take& o) override {
        shard& s = all_.at(o.shard);
        if (s.last != o.mine) return std::nullopt;
        std::vector<place> got;
        for (auto p = s.order.upper_bound(o.after);
             p != s.order.end() && p->due <= o.until && got.size() < o.limit; ++p)
            got.push_back(*p);
        s.taken_until = std::max(s.taken_until, got.size() == o.limit ? got.back().due : o.until);
        return got;
    }

    std::optional<std::vector<claimed>> perform(const operations::claim& o) override {
        shard& s = all_.at(o.shard);
        std::vector<claimed> got;
        std::size_t bytes = 0;
        for (const std::string& id : o.ids) {
            if (s.last != o.mine) return std::nullopt;
            got.push_back(bytes < o.terms.bytes ? claim(s, o.terms, id)
                                                : claimed{claimed::kind::later, {}});
            if (got.back().what == claimed::kind::granted) bytes += got.back().timer.body.size();
        }
        return got;
    }

    std::optional<bool> perform(const operations::spend& o) override {
        shard& s = all_.at(o.shard);
        if (s.last != o.mine) return std::nullopt;
        entry* const timer = s.current(o.token);
        if (timer == nullptr) return false;
        timer->spend();
        return true;
    }

private:
    using entry = memory_database::inner::entry;
    using shard = memory_database::inner::shard;

    // Returns id and time of the timer of an order that waits longest.
    std::optional<place> first_of(const shard& s, const std::set<place>& order,
                                  const std::string& prefix) const {
        std::size_t seen = 0;
        for (const place& p : order) {
            if (p.due > all_.today()) break;
            const bool is_unended = s.timers.at(p.id).unended(all_.today()) >= unended_attempts;
            if (&order == &s.unended && !is_unended) continue;
            if (p.id.starts_with(prefix)) return p;
            if (++seen == overdue_looked_at) return *order.begin();
        }
        return std::nullopt;
    }

    put_result put(const record& timer, existing how) {
        shard& s = all_.of(timer.id);
        const auto living = s.timers.find(timer.id);
        const auto dead = s.dead.find(timer.id);
        const bool lives = living != s.timers.end();
        const bool is_dead = dead != s.dead.end();
        if (lives && !replaces(how, timer.due, living->second.due))
            return put_result::there_already;
        if (is_dead && how != existing::replace) return put_result::dead;
        entry e(timer);
        e.begin_after(s.gone);
        if (lives || is_dead) e.replace((lives ? living : dead)->second.attempt);
        if (lives) s.erase(timer.id);
        if (is_dead) s.dead.erase(dead);
        s.insert(e);
        tell_owner(s, timer);
        return put_result::stored;
    }

    // Sends a hint if the owner of the shard is another process, and has taken later timers.
    void tell_owner(const shard& s, const record& timer) {
        if (!all_.is_owned(s) || s.owner == from_.name_ || timer.due > s.taken_until) return;
        const auto owner = all_.tellers.find(s.owner);
        if (owner != all_.tellers.end()) owner->second(from_.shard_of(timer.id), timer);
    }

    end_reply end(const ending& e) {
        shard& s = all_.of(e.token.id);
        entry* const timer = s.current(e.token);
        if (timer == nullptr) return {};
        detail::afterwards how{};
        s.change(*timer, [&] { how = timer->end(e, all_.today()); });
        if (how == detail::afterwards::waits) {
            tell_owner(s, *timer);
            return {true, timer->due};
        }
        if (how == detail::afterwards::dead)
            s.dead.insert_or_assign(timer->id, *timer);
        else
            s.gone = detail::later_of(s.gone, timer->attempt);
        s.erase(e.token.id);
        return {true, {}};
    }

    claimed claim(shard& s, const claim_terms& terms, const std::string& id) {
        const auto there = s.timers.find(id);
        if (there == s.timers.end()) return {};
        entry& e = there->second;
        bool is_granted = false;
        s.change(e, [&] { is_granted = e.claim(terms, all_.today(), from_.traits_.claim_ahead); });
        claimed c{is_granted ? claimed::kind::granted : claimed::kind::early, e};
        if (!is_granted) c.timer.due = e.visible;
        return c;
    }

    memory_database::inner& all_;
    memory_store& from_;
};

// --- the link -----------------------------------------------------------------------------------

memory_store::memory_store(memory_database& all, std::string name, duration claim_ahead)
    : all_(all), name_(std::move(name)), traits_{all.shards(), true, claim_ahead} {
    all_.inner_->tellers[name_] = [this](unsigned shard, const record& timer) {
        hints_.push_back({shard, timer.id, timer.due});
        bell_();
    };
}

memory_store::~memory_store() { all_.inner_->tellers.erase(name_); }

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
        replies_.push_back({fate::failed, std::move(j)});
    } else {
        member me(*this);
        j->work(me);
        replies_.push_back({fate::done, std::move(j)});
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
    for (auto& r : requests_) replies_.push_back({fate::unknown, std::move(r)});
    for (reply& r : replies_) r.how = fate::unknown;
    requests_.clear();
    hints_.clear();
    replies_.push_back({fate::unknown, nullptr});
    bell_();
}

void memory_store::enqueue(std::unique_ptr<detail::job> j) {
    requests_.push_back(std::move(j));
    bell_();
}

}  // namespace tvec::durable
