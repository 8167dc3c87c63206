#include "tvec/durable/detail/engine.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace tvec::durable {

const char* to_text(refusal r) noexcept {
    switch (r) {
    case refusal::none:
        return "not refused";
    case refusal::bad_id:
        return "the id is empty, or longer than 255 bytes";
    case refusal::body_too_large:
        return "the body is larger than 1 MiB";
    case refusal::bad_due:
        return "the deadline is before 1970 or after 9999";
    case refusal::bad_period:
        return "the period is negative, or too long";
    case refusal::too_many:
        return "too many calls, or too many bytes of puts, are unanswered";
    case refusal::stopping:
        return "it is being stopped";
    }
    return "";
}

namespace detail {

using std::chrono::microseconds;

namespace {

// Ids in one claim or sweep, and in one page of the window. One command must not keep a server busy
// for long: renewals of leases wait behind it.
constexpr std::size_t together = 500;
constexpr std::size_t page = 2'000;
// How many suspects are claimed at a time. They are delivered one by one: if more were claimed,
// their leases would lapse while they wait, and all of them would be claimed again and again.
constexpr std::size_t most_trials = 8;
// How far the clocks may drift apart before the window is placed anew.
constexpr microseconds drift{5'000};
// A timer that a sweep finds is overdue for longer than a claim takes.
constexpr duration grace{100};

constexpr duration longest{std::chrono::hours(24) * 1000};

[[noreturn]] void refuse(const std::string& option, const std::string& found,
                         const std::string& wanted) {
    throw std::invalid_argument("tvec::durable::options::" + option + " is " + found +
                                ": it must be " + wanted);
}

void require(const char* option, duration d) {
    if (d >= duration(1) && d <= longest) return;
    refuse(option, std::to_string(d.count()) + " ms",
           "from 1 to " + std::to_string(longest.count()) + " ms");
}

void require(const char* option, std::size_t n) {
    if (n == 0) refuse(option, "0", "at least 1");
}

options checked(options o) {
    require("horizon", o.horizon);
    require("window", o.window);
    require("claim_lease", o.claim_lease);
    require("shard_lease", o.shard_lease);
    require("sweep", o.sweep);
    require("retry", o.retry);
    require("slice", o.slice);
    require("turn", o.turn);
    require("most_asked", o.most_asked);
    require("most_asked_bytes", o.most_asked_bytes);
    require("most_held_bytes", o.most_held_bytes);
    return o;
}

bool in_range(time_point due) { return due >= earliest_due && due <= latest_due; }

refusal fault_of_id(const std::string& id) {
    return id.empty() || id.size() > longest_id ? refusal::bad_id : refusal::none;
}

refusal fault_of(const record& r) {
    if (fault_of_id(r.id) != refusal::none) return refusal::bad_id;
    if (r.body.size() > largest_body) return refusal::body_too_large;
    if (!in_range(r.due)) return refusal::bad_due;
    if (r.every < duration::zero() || r.every > latest_due - r.due) return refusal::bad_period;
    return refusal::none;
}

}  // namespace

// A function that does nothing once the engine is gone.
template <class F> auto engine::guarded(F f) {
    return [alive = std::weak_ptr<const char>(alive_), f = std::move(f)](auto&&... a) mutable {
        if (!alive.expired()) f(std::forward<decltype(a)>(a)...);
    };
}

// Calls what is the user's.
template <class F, class... Answer> void engine::contain(const F& f, Answer&&... a) {
    if (!f) return;
    try {
        f(std::forward<Answer>(a)...);
    } catch (...) {
        ++count_.thrown;
        if (options_.on_exception) options_.on_exception(std::current_exception());
    }
}

// Wraps a completion: marks `calls` calls as answered, lets `f` look at the answer, and calls
// `then`.
template <class... Answer, class F>
auto engine::answering(std::size_t calls, completion<Answer...> then, F f) {
    return guarded([this, calls, then = std::move(then), f = std::move(f)](Answer... a) mutable {
        asked_ -= calls;
        f(a...);
        contain(then, std::move(a)...);
    });
}

engine::engine(timer_wheel& wheel, pace p, store& from, handler h, options o)
    : wheel_(wheel), pace_(std::move(p)), store_(from), handler_(std::move(h)),
      options_(checked(std::move(o))) {
    if (from.is_used_)
        throw std::logic_error("tvec::durable::timers: the store is used by another timers object: "
                               "each needs a store of its own");
    from.is_used_ = true;
    for (unsigned n = 0; n < from.traits().shards; ++n)
        shards_.push_back(std::make_unique<shard>(*this, n));
    from.listen({guarded([this](unsigned n, const std::string& id, time_point due) {
                     on_hint(n, id, due);
                 }),
                 guarded([this] {
                     for (auto& s : shards_) lose(*s);
                     join();
                 })});
    join();
}

engine::~engine() {
    store_.listen({});
    store_.is_used_ = false;
}

std::size_t engine::room() const noexcept {
    return std::max<std::size_t>(options_.window / shards_.size(), 2);
}

void engine::arm(timer& t, microseconds delay) {
    wheel_.arm_at(t, pace_.tick_after(std::max(delay, microseconds::zero())));
}

// --- what users do ------------------------------------------------------------------------------

// Admits `calls` calls, or refuses them (bad input, stopping, too many in flight), and counts
// either. Returns the reason. A put is admitted, however large it is, if no other is in flight.
refusal engine::admit(std::size_t calls, refusal fault, std::size_t bytes) {
    const bool is_too_much =
        calls > options_.most_asked - asked_ ||
        (asked_bytes_ != 0 && asked_bytes_ + bytes > options_.most_asked_bytes);
    if (fault == refusal::none && stopping_) fault = refusal::stopping;
    if (fault == refusal::none && is_too_much) fault = refusal::too_many;
    if (fault == refusal::none) {
        asked_ += calls;
        asked_bytes_ += bytes;
    }
    count_.refused += fault != refusal::none;
    return fault;
}

refusal engine::put(record timer, existing how, completion<put_result> then) {
    std::vector<record> one;
    one.push_back(std::move(timer));
    return put_all(std::move(one), how, [then = std::move(then)](const auto& results) {
        if (then) then(results.front());
    });
}

refusal engine::put_all(std::vector<record> timers, existing how,
                        completion<std::vector<put_result>> then) {
    refusal fault = refusal::none;
    std::size_t bytes = 0;
    std::vector<place> places;
    places.reserve(timers.size());
    for (const record& r : timers) {
        if (fault == refusal::none) fault = fault_of(r);
        places.push_back({r.due, r.id});
        bytes += r.id.size() + r.body.size();
    }
    const std::size_t calls = timers.size();
    if (fault = admit(calls, fault, bytes); fault != refusal::none) return fault;
    const auto on_results = [this, bytes, places = std::move(places)](const auto& results) {
        asked_bytes_ -= bytes;
        for (std::size_t i = 0; i < places.size(); ++i) on_put(results[i], places[i]);
    };
    store_.put(std::move(timers), how,
               answering<std::vector<put_result>>(calls, std::move(then), on_results));
    return refusal::none;
}

void engine::on_put(put_result r, const place& p) {
    switch (r) {
    case put_result::stored:
        ++count_.stored;
        on_known(of(p.id), p.id, p.due);
        break;
    case put_result::there_already:
        ++count_.there_already;
        break;
    case put_result::dead:
        ++count_.dead_already;
        break;
    case put_result::unknown:
        ++count_.unknown;
        break;
    case put_result::failed:
        ++count_.failed;
        break;
    }
}

refusal engine::cancel(const std::string& id, completion<cancel_result> then) {
    if (const refusal r = admit(1, fault_of_id(id)); r != refusal::none) return r;
    store_.cancel(id, answering<cancel_result>(1, std::move(then), [this, id](cancel_result& r) {
                      r = on_cancelled(id, r);
                  }));
    return refusal::none;
}

// The store knows of a claim, and not whether its delivery has begun: here that is known.
cancel_result engine::on_cancelled(const std::string& id, cancel_result r) {
    count_.unknown += r == cancel_result::unknown;
    count_.failed += r == cancel_result::failed;
    if (r == cancel_result::unknown || r == cancel_result::failed) return r;
    shard& s = of(id);
    const auto n = s.near.find(id);
    const bool was_held = n != s.near.end() && n->second.at == phase::held && n->second.first;
    forget(s, id);
    if (r == cancel_result::unknown_id) return r;
    ++count_.cancelled;
    return was_held ? cancel_result::cancelled : r;
}

refusal engine::find(std::string id, completion<standing, std::optional<stored_timer>> then) {
    if (const refusal r = admit(1, fault_of_id(id)); r != refusal::none) return r;
    store_.find(std::move(id), answering(1, std::move(then), [](auto&...) {}));
    return refusal::none;
}

refusal engine::list(which set, place after, std::size_t limit,
                     completion<standing, std::vector<stored_timer>> then) {
    if (const refusal r = admit(1); r != refusal::none) return r;
    store_.list(set, std::move(after), limit, answering(1, std::move(then), [](auto&...) {}));
    return refusal::none;
}

refusal engine::count(completion<standing, totals> then) {
    if (const refusal r = admit(1); r != refusal::none) return r;
    store_.count(answering(1, std::move(then), [](auto&...) {}));
    return refusal::none;
}

refusal engine::revive(const std::string& id, time_point due, completion<revive_result> then) {
    const refusal fault = in_range(due) ? fault_of_id(id) : refusal::bad_due;
    if (const refusal r = admit(1, fault); r != refusal::none) return r;
    store_.revive(id, due,
                  answering<revive_result>(1, std::move(then), [this, id, due](revive_result r) {
                      if (r == revive_result::put_back) on_known(of(id), id, due);
                  }));
    return refusal::none;
}

// --- shards -------------------------------------------------------------------------------------

std::size_t engine::owned() const noexcept {
    return static_cast<std::size_t>(
        std::ranges::count_if(shards_, [](const auto& s) { return s->mine != 0; }));
}

// Renews what is ours; asks how many processes there are to share with.
void engine::join() {
    if (stopping_) return;
    if (!store_.traits().shared) {
        for (auto& s : shards_) own(*s);
        return;
    }
    arm(beat_, options_.shard_lease / 3);
    store_.join(options_.shard_lease, guarded([this](standing how, std::size_t processes) {
                    if (how == standing::done) share(std::max<std::size_t>(processes, 1));
                }));
}

// Gives back what is beyond our share of the shards, and looks for more if it is less.
void engine::share(std::size_t processes) {
    if (stopping_) return;
    fair_ = (shards_.size() + processes - 1) / processes;
    std::size_t mine = owned();
    for (auto& s : shards_) {
        if (s->mine == 0) continue;
        if (mine > fair_) {
            --mine;
            give_back(*s);
        } else {
            own(*s);
        }
    }
    to_try_ = shards_.size();
    // Begins anywhere, lest all processes ask for the same.
    try_next_ = static_cast<std::size_t>(store_.now().time_since_epoch().count());
    seek();
}

// Asks for as many shards as are missing at once; instead of one that is another's, for the next.
void engine::seek() {
    for (; !stopping_ && to_try_ > 0 && owned() + sought_ < fair_; --to_try_) {
        shard& s = *shards_[try_next_++ % shards_.size()];
        if (s.mine == 0) own(s);
    }
}

void engine::own(shard& s) {
    const bool is_sought = s.mine == 0;
    sought_ += is_sought;
    store_.own(s.number, options_.shard_lease,
               guarded([this, &s, is_sought](standing how, epoch e) {
                   sought_ -= is_sought;
                   if (how == standing::done)
                       on_owned(s, e);
                   else if (!store_.traits().shared)
                       arm(beat_, options_.retry);
                   if (is_sought) seek();
               }));
}

void engine::on_owned(shard& s, epoch e) {
    if (e == s.mine) return;
    if (s.mine != 0) fence(s);
    s.mine = e;
    if (e == 0) return;
    if (stopping_) return give_back(s);
    take(s);
    if (store_.traits().shared) arm(s.sweeper, options_.sweep);
}

// The shard is another's.
void engine::fence(shard& s) {
    ++count_.leases_lost;
    lose(s);
}

void engine::lose(shard& s) {
    for (const auto& [id, t] : s.near)
        if (t.at == phase::held || t.at == phase::spending) return_claim(t.held.which);
    ++s.term;
    s.mine = 0;
    s.taken.reset();
    s.taking_until.reset();
    s.partial = false;
    s.claimed = 0;
    s.to_claim.clear();
    s.near.clear();
    s.refill.cancel();
    s.sweeper.cancel();
}

// Gives back what was claimed and not delivered, so that nobody waits for the end of its lease.
void engine::return_claim(token which) { end({{std::move(which), {}, true}, {}}); }

void engine::give_back(shard& s) {
    const epoch mine = s.mine;
    lose(s);
    flush(s);
    ++releases_;
    store_.release(s.number, mine, guarded([this](standing) { --releases_; }));
}

void engine::stop(std::function<void(const unfinished&)> then, duration at_most) {
    stopping_ = true;
    stopped_ = std::move(then);
    arm(beat_, microseconds::zero());  // so that there is a turn in which to say that it is over
    arm(limit_, std::min(at_most, longest));
    for (auto& s : shards_) {
        flush(*s);
        if (s->mine != 0) give_back(*s);
    }
}

void engine::give_up() { contain(std::exchange(stopped_, {}), left()); }

unfinished engine::left() const { return {asked_, unstored_, releases_}; }

void engine::settle() {
    if (!stopping_ || !stopped_ || claiming_ != 0 || left().any()) return;
    limit_.cancel();
    give_up();
}

bool engine::ready() const noexcept {
    const auto is_taken = [this](const auto& s) {
        return s->mine == 0 || (s->taken && (!s->partial || s->near.size() > room() / 2));
    };
    return owned() > 0 && std::ranges::all_of(shards_, is_taken);
}

gauges engine::now_near() const noexcept {
    gauges g{0, 0, asked_, owned(), store_.broken_links()};
    for (const auto& s : shards_) {
        g.near += s->near.size();
        g.being_delivered += s->claimed;
    }
    return g;
}

// --- the window ---------------------------------------------------------------------------------

bool engine::shard::covers(time_point due, const std::string& id) const {
    return mine != 0 && taken && place{due, id} <= *taken;
}

void engine::take(shard& s) {
    if (s.taking_until || s.mine == 0) return;
    const std::size_t left = room() - std::min(room(), s.near.size());
    const std::size_t limit = std::clamp<std::size_t>(left, 1, page);
    const time_point until = std::min(now() + options_.horizon, latest_due);
    s.taking_until = until;
    s.was_lowered = false;
    store_.take(s.number, s.mine, s.taken.value_or(place{}), until, limit,
                guarded([this, &s, limit, term = s.term](standing how, std::vector<place> got) {
                    if (term != s.term) return;
                    if (how == standing::done) return on_taken(s, limit, std::move(got));
                    if (how == standing::fenced) return fence(s);
                    s.taking_until.reset();
                    s.partial = false;  // or run() would ask again at once
                    arm(s.refill, options_.retry);
                }));
}

void engine::on_taken(shard& s, std::size_t limit, std::vector<place> got) {
    const place end{*std::exchange(s.taking_until, {}) + duration(1), ""};
    if (s.was_lowered) return;  // between its end and what this begins with is what was sent back
    s.partial = got.size() == limit;
    s.taken = std::max(s.taken.value_or(place{}), s.partial ? got.back() : end);
    count_.taken += got.size();
    for (const place& p : got) count_.duplicates += !enter(s, p.id, p.due);
    if (s.partial) return;  // run() goes on when there is room
    const auto ahead = s.taken->due - now();
    arm(s.refill, std::max(ahead - options_.horizon / 2, duration::zero()));
}

// A timer that is overdue in the store and not in the window was hinted at, and the hint was lost.
void engine::sweep(shard& s) {
    arm(s.sweeper, options_.sweep);
    if (s.mine == 0) return;
    store_.take(s.number, s.mine, place{}, std::max(now() - grace, earliest_due), together,
                guarded([this, &s, term = s.term](standing how, const std::vector<place>& got) {
                    if (term != s.term) return;
                    if (how == standing::done) on_swept(s, got);
                    if (how == standing::fenced) fence(s);
                }));
}

void engine::on_swept(shard& s, const std::vector<place>& got) {
    for (const place& p : got) {
        const bool is_new = s.covers(p.due, p.id) && enter(s, p.id, p.due);
        count_.swept += is_new;
        count_.taken += is_new;
    }
}

// Returns whether it was not there.
bool engine::enter(shard& s, const std::string& id, time_point due) {
    const auto [n, is_new] = s.near.try_emplace(id, s, due);
    if (!is_new) return false;
    n->second.id = &n->first;
    set_alarm(n->second);
    if (s.near.size() > room()) evict(s);
    return true;
}

// Sends the latest quarter of what waits back to the store.
void engine::evict(shard& s) {
    std::vector<near_timer*> waiting;
    for (auto& [id, t] : s.near)
        if (t.at == phase::waiting) waiting.push_back(&t);
    if (!s.taken || waiting.size() < 2) return;
    const std::size_t kept = waiting.size() - (waiting.size() + 3) / 4;
    const auto last_kept = waiting.begin() + static_cast<std::ptrdiff_t>(kept - 1);
    std::ranges::nth_element(waiting, last_kept, {}, [](auto* t) { return place_of(*t); });
    s.taken = std::min(*s.taken, place_of(**last_kept));
    s.partial = true;
    s.was_lowered = true;
    count_.evicted += waiting.size() - kept;
    for (auto t = last_kept + 1; t != waiting.end(); ++t) s.near.erase(s.near.find(*(*t)->id));
}

// The store has it, due then: it belongs into the window, or not.
void engine::on_known(shard& s, const std::string& id, time_point due) {
    const auto n = s.near.find(id);
    if (n != s.near.end()) {
        if (n->second.at == phase::asked || n->second.at == phase::claiming) return;
        if (n->second.is_parked) return;  // a claim will tell when it is due now
        forget(s, id);
    }
    if (s.covers(due, id)) enter(s, id, due);
}

void engine::on_hint(unsigned number, const std::string& id, time_point due) {
    ++count_.hints;
    shard& s = *shards_[number];
    const auto n = s.near.find(id);
    if (n != s.near.end() && n->second.at >= phase::held && n->second.held.due == due) return;
    if (s.taking_until && due <= *s.taking_until && n == s.near.end())
        enter(s, id, due);  // the answer may not show it
    else
        on_known(s, id, due);
}

void engine::set_alarm(near_timer& t) {
    const time_point at = t.at == phase::held ? t.due : claim_time(t);
    arm(t.alarm, at - store_.now());
}

// When it is claimed: claim_ahead before its deadline, and up to an eighth of that later, so that
// claims gather and the store is asked for many at once.
time_point engine::claim_time(const near_timer& t) const {
    const duration ahead = store_.traits().claim_ahead, grid = ahead / 8;
    const auto since_1970 = (t.due - ahead).time_since_epoch();
    if (grid <= duration(1)) return t.due - ahead;
    return time_point((since_1970 + grid - duration(1)) / grid * grid);
}

// Deadlines are points of the store's time, and the wheel's clock is steady: when the one is set,
// the window is placed anew.
void engine::heed_clock() {
    const microseconds offset = store_.now().time_since_epoch() - pace_.reading();
    if (offset_ && offset - *offset_ < drift && *offset_ - offset < drift) return;
    count_.clock_set += offset_.has_value();
    offset_ = offset;
    for (auto& s : shards_) {
        for (auto& [id, t] : s->near)
            if (t.at == phase::waiting || t.at == phase::held) set_alarm(t);
        if (s->taken && !s->partial) take(*s);
    }
}

void engine::set_phase(near_timer& t, phase to) {
    t.home.claimed += (to >= phase::claiming) - (t.at >= phase::claiming);
    t.at = to;
}

void engine::forget(shard& s, const std::string& id) {
    const auto n = s.near.find(id);
    if (n == s.near.end()) return;
    set_phase(n->second, phase::waiting);
    s.near.erase(n);
}

// --- delivery -----------------------------------------------------------------------------------

void engine::near_timer::on_alarm() { home.home.on_alarm(*this); }

void engine::on_alarm(near_timer& t) {
    if (t.is_parked) return;
    t.at == phase::held ? on_held(t) : ask_for(t);
}

void engine::on_held(near_timer& t) {
    if (t.due > store_.now()) return set_alarm(t);
    t.wait_in(ready_);
}

// For it to be claimed: at its deadline, or because the lease of its claim is over. A delivery that
// was not ended within its lease is spent.
void engine::ask_for(near_timer& t) {
    if (t.at == phase::delivered && options_.attempts != 0 && !t.is_spent)
        store_.spend(t.home.number, t.home.mine, t.held.which, {});
    t.leave_queue();
    t.take_body();
    set_phase(t, phase::asked);
    t.home.to_claim.push_back(*t.id);
}

// Returns how many timers of the shard can be claimed now. At most a turn's share is due and waits
// for its handler, so a process that ends leaves few open attempts behind. Each claim in flight
// counts with the bodies that it may bring.
std::size_t engine::claimable(const shard& s) const {
    const std::size_t taken = std::min(options_.slice, claiming_ + ready_.size());
    const std::size_t half = room() / 2 - std::min(room() / 2, s.claimed);
    const std::size_t bytes = held_bytes_ + claims_ * terms().bytes;
    if (bytes != 0 && bytes + terms().bytes > options_.most_held_bytes) return 0;
    return std::min({half, s.claim_size, options_.slice - taken});
}

// Takes ids from the shard's list, but for those that have gone since.
std::vector<std::string> engine::next_to_claim(shard& s, std::size_t most) {
    std::vector<std::string> ids;
    while (ids.size() < most && !s.to_claim.empty()) {
        const auto t = s.near.find(s.to_claim.front());
        if (t != s.near.end() && t->second.at == phase::asked) {
            set_phase(t->second, phase::claiming);
            ids.push_back(std::move(s.to_claim.front()));
        }
        s.to_claim.pop_front();
    }
    return ids;
}

claim_terms engine::terms() const {
    const claim_terms usual{options_.claim_lease, options_.attempts};
    const std::size_t part = std::max<std::size_t>(options_.most_held_bytes / 16, 1);
    return {usual.lease, usual.attempts, std::min(usual.bytes, part)};
}

// Claims some of what the shard has to claim. Returns whether there was any.
bool engine::claim(shard& s) {
    const std::vector<std::string> ids = next_to_claim(s, claimable(s));
    if (ids.empty()) return false;
    claiming_ += ids.size();
    ++claims_;
    const auto on_answer = [this, &s, ids, term = s.term, asked = now()](standing how, auto got) {
        claiming_ -= ids.size();
        --claims_;
        if (term == s.term) return on_claims(s, ids, asked, how, got);
        for (std::size_t i = 0; how == standing::done && i < ids.size(); ++i)
            return_if_granted(ids[i], got[i]);
    };
    store_.claim(s.number, s.mine, terms(), ids, guarded(on_answer));
    return true;
}

// The claimed timer of that id that waits for its answer, or nullptr if it has gone.
engine::near_timer* engine::claiming(shard& s, const std::string& id) {
    const auto t = s.near.find(id);
    return t != s.near.end() && t->second.at == phase::claiming ? &t->second : nullptr;
}

void engine::return_if_granted(const std::string& id, const claimed& c) {
    if (c.what == claimed::kind::granted) return_claim({id, c.timer.attempt});
}

void engine::on_claims(shard& s, const std::vector<std::string>& ids, time_point asked,
                       standing how, std::vector<claimed>& got) {
    if (how == standing::fenced) return fence(s);
    if (how == standing::unknown) return claim_later(s, ids);
    resize_claims(s, got);
    std::vector<std::string> left;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        near_timer* const t = claiming(s, ids[i]);
        if (t == nullptr) {
            return_if_granted(ids[i], got[i]);
        } else if (got[i].what == claimed::kind::later) {
            set_phase(*t, phase::asked);
            left.push_back(ids[i]);
        } else {
            on_claimed(*t, got[i], asked);
        }
    }
    s.to_claim.insert(s.to_claim.begin(), left.begin(), left.end());
}

// The store could not.
void engine::claim_later(shard& s, const std::vector<std::string>& ids) {
    for (const std::string& id : ids) {
        near_timer* const t = claiming(s, id);
        if (t == nullptr) continue;
        set_phase(*t, phase::waiting);
        arm(t->alarm, options_.retry);
    }
}

// Large bodies come a few at a time.
void engine::resize_claims(shard& s, const std::vector<claimed>& got) {
    const auto is_later = [](const claimed& c) { return c.what == claimed::kind::later; };
    const auto later = static_cast<std::size_t>(std::ranges::count_if(got, is_later));
    const std::size_t served = got.size() - later;
    s.claim_size = later != 0 ? std::max<std::size_t>(served, 1)
                              : std::min(2 * std::max(served, s.claim_size), together);
}

void engine::on_claimed(near_timer& t, claimed& c, time_point asked) {
    if (c.what == claimed::kind::granted) return on_granted(t, c.timer, asked);
    count_.too_early += c.what == claimed::kind::early;
    count_.died += c.what == claimed::kind::dead;
    count_.damaged += c.what == claimed::kind::damaged;
    const std::string id = *t.id;
    shard& s = t.home;
    forget(s, id);
    if (c.what == claimed::kind::early) on_known(s, id, c.timer.due);
}

// The store has counted the lease from then, when it was asked for, or from later.
void engine::on_granted(near_timer& t, stored_timer& granted, time_point asked) {
    set_phase(t, phase::held);
    t.due = granted.due;
    t.leased_until = std::max(asked, t.due) + options_.claim_lease;
    t.first = granted.attempt == granted.ended + 1;
    t.is_spent = false;
    held_bytes_ += granted.body.size();
    t.held = {{*t.id, granted.attempt}, granted.due, granted.every, std::move(granted.body)};
    on_held(t);
}

engine::near_timer::~near_timer() {
    leave_queue();
    take_body();
    set_trial(false);
}

// The body that was claimed, which counts as held until then.
std::string engine::near_timer::take_body() {
    home.home.held_bytes_ -= held.body.size();
    return std::exchange(held.body, {});
}

void engine::near_timer::wait_in(queue& q) {
    leave_queue();
    place = q.insert(q.end(), this);
    queued = &q;
}

void engine::near_timer::set_trial(bool to) {
    home.home.trials_ -= is_on_trial;
    home.home.trials_ += to;
    is_on_trial = to;
}

void engine::near_timer::leave_queue() {
    if (queued != nullptr) std::exchange(queued, nullptr)->erase(place);
}

// Calls handlers until the turn's share is done. An attempt that is open from before may have ended
// a process, so its timer is counted as spent first, and alone. Until its handler is called no
// other is: that one might end the process.
void engine::deliver_ready() {
    if (is_spending_) return;
    const microseconds begun = pace_.reading();
    std::size_t delivered = 0;
    while (!ready_.empty() && may_deliver() && delivered < options_.slice) {
        near_timer& t = *ready_.front();
        t.leave_queue();
        on_ready(t);
        ++delivered;
        if (pace_.reading() - begun >= options_.turn) break;
    }
    spend_next();
    if (!ready_.empty() && may_deliver()) arm(more_, microseconds::zero());
}

// It is not due any more, since the clock was set, or its lease is over and another owner may have
// it by now: it is claimed anew.
bool engine::must_wait(near_timer& t) {
    const reading now = store_.now();
    if (t.due > now) {
        set_alarm(t);
        return true;
    }
    if (!store_.traits().shared || now < t.leased_until) return false;
    ask_for(t);
    return true;
}

void engine::on_ready(near_timer& t) {
    if (must_wait(t)) return;
    if (!is_suspect(t)) return deliver(t);
    if (!t.is_on_trial && trials_ >= most_trials) return park(t);
    t.set_trial(true);
    t.wait_in(suspects_);
}

// Gives a suspect back to the store until it can be delivered.
void engine::park(near_timer& t) {
    t.take_body();
    set_phase(t, phase::waiting);
    t.is_parked = true;
    return_claim(t.held.which);
    t.wait_in(parked_);
}

// Claims parked suspects again, as many as can be delivered soon.
void engine::begin_trials() {
    while (trials_ < most_trials && !parked_.empty()) {
        near_timer& t = *parked_.front();
        t.is_parked = false;
        t.set_trial(true);
        ask_for(t);
    }
}

// Nothing else waits between being counted and its handler.
void engine::spend_next() {
    while (!is_spending_ && !suspects_.empty() && may_deliver()) {
        near_timer& t = *suspects_.front();
        t.leave_queue();
        if (must_wait(t)) continue;
        is_spending_ = true;
        set_phase(t, phase::spending);
        shard& s = t.home;
        store_.spend(
            s.number, s.mine, t.held.which,
            guarded([this, &s, which = t.held.which, term = s.term](standing how, bool is_current) {
                is_spending_ = false;
                if (term == s.term) on_spent(s, which, how, is_current);
            }));
    }
}

void engine::on_spent(shard& s, const token& which, standing how, bool is_current) {
    if (how == standing::fenced) return fence(s);
    const auto n = s.near.find(which.id);
    if (n == s.near.end() || n->second.at != phase::spending || n->second.held.which != which)
        return;
    near_timer& t = n->second;
    if (how == standing::unknown) {
        set_phase(t, phase::held);
        arm(t.alarm, options_.retry);
    } else if (is_current) {
        t.is_spent = true;
        deliver(t);
    } else {
        forget(s, which.id);
    }
}

void engine::deliver(near_timer& t) {
    t.set_trial(false);
    set_phase(t, phase::delivered);
    arm(t.alarm, options_.claim_lease);
    ++count_.delivered;
    count_.retries += !t.first;
    if (t.first) late_.record(store_.now() - t.held.due);
    delivery d{t.held.which, t.held.due, t.held.every, t.take_body()};
    contain(handler_, std::move(d));  // which may end it: there may be no `t` any more
}

// --- ends ---------------------------------------------------------------------------------------

void engine::done(token which, completion<bool> then) {
    end({{std::move(which), {}}, std::move(then)});
}

refusal engine::again(token which, time_point due, completion<bool> then) {
    if (!in_range(due)) return admit(0, refusal::bad_due);
    end({{std::move(which), due}, std::move(then)});
    return refusal::none;
}

void engine::end(own_ending e) {
    shard& s = of(e.e.which.id);
    const auto n = s.near.find(e.e.which.id);
    if (n != s.near.end() && n->second.at == phase::delivered &&
        n->second.held.which == e.e.which) {
        set_phase(n->second, phase::ending);
        n->second.alarm.cancel();
    }
    ++unstored_;
    s.endings.push_back(std::move(e));
    if (!s.flusher.pending()) arm(s.flusher, microseconds::zero());
}

void engine::flush(shard& s) {
    if (s.endings.empty()) return;
    s.flusher.cancel();
    std::vector<ending> ends;
    ends.reserve(s.endings.size());
    for (const own_ending& e : s.endings) ends.push_back(e.e);
    store_.end(s.number, std::move(ends),
               guarded([this, &s, asked = std::exchange(s.endings, {})](
                           standing how, const std::vector<end_reply>& got) mutable {
                   on_ends(s, asked, how, got);
               }));
}

// If the link broke, it is unknown whether an end arrived. It is sent again, which is idempotent.
void engine::on_ends(shard& s, std::vector<own_ending>& asked, standing how,
                     const std::vector<end_reply>& got) {
    if (how == standing::done) {
        for (std::size_t i = 0; i < asked.size(); ++i) on_ended(s, asked[i], got[i]);
        return;
    }
    std::ranges::move(asked, std::back_inserter(s.endings));
    s.backs_off = true;
    arm(s.flusher, options_.retry);
}

// A timer that was given back may have been claimed anew before the store's answer was heard.
bool engine::is_claimed_again(const shard& s, const std::string& id) {
    const auto n = s.near.find(id);
    return n != s.near.end() && n->second.at != phase::waiting;
}

void engine::on_ended(shard& s, own_ending& e, const end_reply& r) {
    --unstored_;
    if (e.e.returned)
        count_.returned += r.was_current;
    else if (!r.was_current)
        ++count_.stale;
    else
        ++(e.e.again ? count_.postponed : count_.ended);
    const std::string& id = e.e.which.id;
    const auto n = s.near.find(id);
    if (n != s.near.end() && n->second.at == phase::ending && n->second.held.which == e.e.which)
        forget(s, id);
    if (r.next && !(e.e.returned && is_claimed_again(s, id))) on_known(s, id, *r.next);
    contain(e.then, r.was_current);
}

// --- the loop -----------------------------------------------------------------------------------

void engine::run() {
    heed_clock();
    store_.run();
    deliver_ready();
    begin_trials();
    for (std::size_t i = 0; i < shards_.size(); ++i) {
        shard& s = *shards_[(first_shard_ + i) % shards_.size()];
        if (!s.backs_off) flush(s);
        while (claim(s)) continue;
        if (s.partial && s.near.size() <= room() / 2) take(s);
    }
    first_shard_ = (first_shard_ + 1) % shards_.size();
    settle();
}

}  // namespace detail

}  // namespace tvec::durable
