#include "tvec/durable/detail/engine.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <utility>

#include "bulk.hpp"
#include "engine_parts.hpp"
#include "options.hpp"
#include "plan.hpp"

namespace tvec::durable::detail {

namespace {

bool in_range(time_point due) { return due >= earliest_due && due <= latest_due; }

}  // namespace

refusal fault_of_id(const std::string& id) {
    return id.empty() || id.size() > longest_id ? refusal::bad_id : refusal::none;
}

refusal fault_of_lease(duration lease) {
    return lease >= duration(1) && lease <= longest ? refusal::none : refusal::bad_lease;
}

refusal fault_of(const record& r) {
    if (fault_of_id(r.id) != refusal::none) return refusal::bad_id;
    if (r.body.size() > largest_body) return refusal::body_too_large;
    if (r.plan.size() > longest_plan) return refusal::bad_plan;
    if (!in_range(r.due)) return refusal::bad_due;
    if (r.every < duration::zero() || r.every > latest_due - r.due) return refusal::bad_period;
    return refusal::none;
}

// --- the parts ----------------------------------------------------------------------------------

engine_state::engine_state(timer_wheel& w, wheel_clock c, store& from, options o)
    : wheel(w), clock(std::move(c)), storage(from), settings(checked(std::move(o))) {
    assert(from.traits().shards > 0 && "a store has at least one shard");
    for (unsigned n = 0; n < from.traits().shards; ++n)
        shards.push_back(std::make_unique<shard>(*this, n));
}

void engine_state::arm(timer& t, std::chrono::microseconds delay) {
    wheel.arm_at(t, clock.tick_after(std::max(delay, std::chrono::microseconds::zero())));
}

shard& engine_state::shard_of(const std::string& id) {
    const unsigned n = storage.shard_of(id);
    assert(n < shards.size() && "the shard of an id is one of the store");
    return *shards[n];
}

std::size_t engine_state::window_share() const noexcept {
    return std::max<std::size_t>(settings.window / shards.size(), 2);
}

engine_parts::engine_parts(timer_wheel& w, wheel_clock c, store& from, engine::handler h, options o)
    : all(w, std::move(c), from, std::move(o)), deliverer(all, std::move(h)) {
    all.owners = &owners;
    all.near = &near;
    all.deliverer = &deliverer;
    all.ends = &ends;
    all.plans = &plans;
    all.limiter = &limiter;
}

engine::engine(timer_wheel& wheel, wheel_clock clock, store& from, handler h, options o)
    : parts_(std::make_unique<engine_parts>(wheel, std::move(clock), from, std::move(h),
                                            std::move(o))) {
    if (from.is_used_)
        throw std::logic_error("tvec::durable::timers: the store is used by another timers object: "
                               "each needs a store of its own");
    from.is_used_ = true;
    engine_parts& p = *parts_;
    from.listen({p.all.guarded([&p](unsigned n, const std::string& id, time_point due) {
                     p.near.on_hint(n, id, due);
                 }),
                 p.all.guarded([&p] { p.owners.rejoin(); })});
    p.owners.join();
}

engine::~engine() {
    parts_->all.storage.listen({});
    parts_->all.storage.is_used_ = false;
}

// --- calls --------------------------------------------------------------------------------------

// Wraps a completion. It notes that `calls` calls are answered, lets `look_at` see and change the
// answer, and passes that to `then`.
template <class... Answer, class F>
auto engine::answering(std::size_t calls, completion<Answer...> then, F look_at) {
    return parts_->all.guarded(
        [this, calls, then = std::move(then), look_at = std::move(look_at)](Answer... a) mutable {
            assert(calls <= calls_in_flight_ && "every call is answered once");
            calls_in_flight_ -= calls;
            look_at(a...);
            parts_->all.contain(then, std::move(a)...);
        });
}

// Admits calls, or returns the reason of their refusal, which is `fault` if there is one. A put of
// any size is admitted while no other is in flight.
refusal engine::admit(std::size_t calls, refusal fault, std::size_t put_bytes) {
    const options& o = parts_->all.settings;
    assert(calls_in_flight_ <= o.max_calls && "calls beyond the limit are refused");
    const bool is_too_much =
        calls > o.max_calls - calls_in_flight_ ||
        (put_bytes_in_flight_ != 0 && put_bytes_in_flight_ + put_bytes > o.max_put_bytes);
    if (fault == refusal::none && parts_->all.is_stopping) fault = refusal::stopping;
    if (fault == refusal::none && is_too_much) fault = refusal::too_many;
    if (fault == refusal::none) {
        calls_in_flight_ += calls;
        put_bytes_in_flight_ += put_bytes;
    }
    parts_->all.count.refused += fault != refusal::none;
    return fault;
}

// Returns the fault of a timer that is put. Sets its deadline if the plan decides it.
refusal engine::accept(record& r) const {
    if (r.plan.empty()) return fault_of(r);
    const options& o = parts_->all.settings;
    try {
        const plan p = parsed(r.plan);
        if (p.rule.empty()) return fault_of(r);
        const auto next = next_time_of(p, o.calendar, now());
        if (r.every != duration::zero()) return refusal::bad_period;
        if (r.due == by_plan) r.due = next.value_or(by_plan);
        return fault_of(r);
    } catch (const std::exception&) {
        return refusal::bad_plan;
    }
}

refusal engine::put_all(std::vector<record> timers, existing how,
                        completion<std::vector<put_result>> then) {
    refusal fault = refusal::none;
    std::size_t bytes = 0;
    std::vector<place> places;
    places.reserve(timers.size());
    for (record& r : timers) {
        if (fault == refusal::none) fault = accept(r);
        places.push_back({r.due, r.id});
        bytes += r.id.size() + r.body.size() + r.plan.size();
    }
    const std::size_t calls = timers.size();
    if (fault = admit(calls, fault, bytes); fault != refusal::none) return fault;
    const auto on_results = [this, bytes, places = std::move(places)](const auto& results) {
        assert(results.size() == places.size() && "a store answers every put");
        assert(bytes <= put_bytes_in_flight_ && "every put is answered once");
        put_bytes_in_flight_ -= bytes;
        for (std::size_t i = 0; i < places.size(); ++i) on_put(results[i], places[i]);
    };
    parts_->all.storage.submit(
        operations::put{std::move(timers), how,
                        answering<std::vector<put_result>>(calls, std::move(then), on_results)});
    return refusal::none;
}

void engine::on_put(put_result r, const place& p) {
    switch (r) {
    case put_result::stored:
        ++parts_->all.count.stored;
        parts_->near.on_known(parts_->all.shard_of(p.id), p.id, p.due);
        break;
    case put_result::there_already:
        ++parts_->all.count.there_already;
        break;
    case put_result::dead:
        ++parts_->all.count.dead_already;
        break;
    case put_result::unknown:
        ++parts_->all.count.unknown;
        break;
    case put_result::failed:
        ++parts_->all.count.failed;
        break;
    }
}

refusal engine::cancel(const std::string& id, completion<cancel_result> then) {
    if (const refusal r = admit(1, fault_of_id(id)); r != refusal::none) return r;
    const auto on_result = [this, id](cancel_result& r) { r = on_cancelled(id, r); };
    parts_->all.storage.submit(
        operations::cancel{id, answering<cancel_result>(1, std::move(then), on_result)});
    return refusal::none;
}

// The store knows that a timer was claimed, and not if its handler was called. The engine does.
cancel_result engine::on_cancelled(const std::string& id, cancel_result r) {
    parts_->all.count.unknown += r == cancel_result::unknown;
    parts_->all.count.failed += r == cancel_result::failed;
    if (r == cancel_result::unknown || r == cancel_result::failed) return r;
    shard& s = parts_->all.shard_of(id);
    const near_timer* const t = s.find(id);
    const bool was_held = t != nullptr && t->phase == timer_phase::held && t->is_first;
    s.forget(id);
    if (r == cancel_result::unknown_id) return r;
    ++parts_->all.count.cancelled;
    return was_held ? cancel_result::cancelled : r;
}

refusal engine::find(std::string id, completion<standing, std::optional<stored_timer>> then) {
    if (const refusal r = admit(1, fault_of_id(id)); r != refusal::none) return r;
    parts_->all.storage.submit(
        operations::find{std::move(id), answering(1, std::move(then), [](auto&...) {})});
    return refusal::none;
}

refusal engine::list(timer_set set, place after, std::size_t limit,
                     completion<standing, std::vector<stored_timer>> then, std::string prefix) {
    if (const refusal r = admit(1); r != refusal::none) return r;
    parts_->all.storage.submit(operations::list{set, std::move(after), limit, std::move(prefix),
                                                answering(1, std::move(then), [](auto&...) {})});
    return refusal::none;
}

refusal engine::count(completion<standing, totals> then) {
    if (const refusal r = admit(1); r != refusal::none) return r;
    parts_->all.storage.submit(operations::count{answering(1, std::move(then), [](auto&...) {})});
    return refusal::none;
}

void engine::on_revived(const std::string& id, time_point due, revive_result r) {
    if (r == revive_result::revived) parts_->near.on_known(parts_->all.shard_of(id), id, due);
}

refusal engine::revive(const std::string& id, time_point due, completion<revive_result> then) {
    const refusal fault = in_range(due) ? fault_of_id(id) : refusal::bad_due;
    if (const refusal r = admit(1, fault); r != refusal::none) return r;
    const auto on_result = [this, id, due](revive_result r) { on_revived(id, due, r); };
    parts_->all.storage.submit(
        operations::revive{id, due, answering<revive_result>(1, std::move(then), on_result)});
    return refusal::none;
}

refusal engine::touch(const std::string& id, time_point due, completion<touch_result> then) {
    const refusal fault = in_range(due) ? fault_of_id(id) : refusal::bad_due;
    if (const refusal r = admit(1, fault); r != refusal::none) return r;
    const auto on_result = [this, id, due](touch_result r) {
        if (r == touch_result::touched) parts_->near.on_known(parts_->all.shard_of(id), id, due);
    };
    parts_->all.storage.submit(
        operations::touch{id, due, answering<touch_result>(1, std::move(then), on_result)});
    return refusal::none;
}

// --- bulk ---------------------------------------------------------------------------------------

refusal engine::cancel_all(timer_set set, std::string prefix,
                           completion<standing, std::uint64_t> then) {
    if (const refusal r = admit(1); r != refusal::none) return r;
    const auto cancel_one = [this](const std::string& id, completion<standing, bool> next) {
        const auto on_result = [this, id, next = std::move(next)](cancel_result r) {
            r = on_cancelled(id, r);
            const bool is_unknown = r == cancel_result::unknown || r == cancel_result::failed;
            next(is_unknown ? standing::unknown : standing::done, r != cancel_result::unknown_id);
        };
        parts_->all.storage.submit(operations::cancel{id, parts_->all.guarded(on_result)});
    };
    do_for_all(parts_->all, set, std::move(prefix), cancel_one,
               answering<standing, std::uint64_t>(1, std::move(then), [](auto&...) {}));
    return refusal::none;
}

refusal engine::revive_all(std::string prefix, time_point due,
                           completion<standing, std::uint64_t> then) {
    const refusal fault = in_range(due) ? refusal::none : refusal::bad_due;
    if (const refusal r = admit(1, fault); r != refusal::none) return r;
    const auto revive_one = [this, due](const std::string& id, completion<standing, bool> next) {
        const auto on_result = [this, id, due, next = std::move(next)](revive_result r) {
            on_revived(id, due, r);
            const bool is_unknown = r == revive_result::unknown || r == revive_result::failed;
            next(is_unknown ? standing::unknown : standing::done, r == revive_result::revived);
        };
        parts_->all.storage.submit(operations::revive{id, due, parts_->all.guarded(on_result)});
    };
    do_for_all(parts_->all, timer_set::dead, std::move(prefix), revive_one,
               answering<standing, std::uint64_t>(1, std::move(then), [](auto&...) {}));
    return refusal::none;
}

// --- ends ---------------------------------------------------------------------------------------

void engine::done(token t, completion<bool> then) {
    parts_->ends.end({{std::move(t), outcome::done}, std::move(then)});
}

void engine::failed(token t, std::string_view reason, completion<bool> then) {
    parts_->ends.end({{std::move(t), outcome::failed, {}, line_of(reason)}, std::move(then)});
}

// The lease ends later from now on, because the store may do the same before its answer comes. If
// it does not, the lease is as before, unless a later call has moved it again.
refusal engine::extend(token t, duration lease, completion<standing, bool> then) {
    if (const refusal r = admit(1, fault_of_lease(lease)); r != refusal::none) return r;
    const time_point end = now() + lease;
    const auto before = parts_->deliverer.move_lease(t, end);
    const auto on_result = [this, t, before, end](standing how, bool is_extended) {
        if (before && (how != standing::done || !is_extended))
            parts_->deliverer.move_lease(t, *before, end);
    };
    const unsigned shard = parts_->all.shard_of(t.id).number;
    parts_->all.storage.submit(operations::extend{
        shard, std::move(t), lease, answering<standing, bool>(1, std::move(then), on_result)});
    return refusal::none;
}

void engine::hand_over(const token& t) { parts_->deliverer.hand_over(t); }

refusal engine::again(token t, time_point due, completion<bool> then) {
    if (!in_range(due)) return admit(0, refusal::bad_due);
    parts_->ends.end({{std::move(t), outcome::again, due}, std::move(then)});
    return refusal::none;
}

// --- stopping -----------------------------------------------------------------------------------

void engine::stop(std::function<void(const unfinished&)> then, duration at_most) {
    parts_->all.is_stopping = true;
    on_stopped_ = std::move(then);
    parts_->all.arm(stop_limit_, std::min(at_most, longest));
    parts_->owners.stop();
}

void engine::report_if_stopped() {
    if (!parts_->all.is_stopping || !on_stopped_) return;
    if (parts_->deliverer.is_claiming() || left().any()) return;
    stop_limit_.cancel();
    report();
}

void engine::report() { parts_->all.contain(std::exchange(on_stopped_, {}), left()); }

unfinished engine::left() const {
    return {calls_in_flight_, parts_->ends.in_flight(), parts_->owners.releases_in_flight()};
}

// --- in the loop --------------------------------------------------------------------------------

int engine::fd() const noexcept { return parts_->all.storage.fd(); }

void engine::run() {
    engine_parts& p = *parts_;
    p.near.heed_clock();
    p.all.storage.run();
    p.deliverer.deliver_ready();
    p.deliverer.begin_trials();
    p.limiter.grant_permits();
    for (std::size_t i = 0; i < p.all.shards.size(); ++i) {
        shard& s = *p.all.shards[(first_shard_ + i) % p.all.shards.size()];
        if (!s.backs_off) p.ends.flush(s);
        p.deliverer.claim(s);
        p.near.take_if_half_empty(s);
        p.limiter.refill_queues(s);
    }
    first_shard_ = (first_shard_ + 1) % p.all.shards.size();
    report_if_stopped();
}

time_point engine::now() const { return parts_->all.now(); }

bool engine::ready() const noexcept {
    return parts_->owners.owned() > 0 && parts_->near.is_filled();
}

const durable::counters& engine::counters() const noexcept { return parts_->all.count; }

durable::gauges engine::gauges() const noexcept {
    durable::gauges g{0, 0, calls_in_flight_, parts_->owners.owned(),
                      parts_->all.storage.broken_connections()};
    for (const auto& s : parts_->all.shards) {
        g.near += s->near.size();
        g.being_delivered += s->being_delivered;
    }
    return g;
}

const lateness_histogram& engine::late() const noexcept { return parts_->all.late; }

}  // namespace tvec::durable::detail
