#include "tvec/durable/detail/engine.hpp"

#include <algorithm>
#include <cassert>
#include <memory>
#include <stdexcept>
#include <utility>
#include <variant>

#include "beats.hpp"
#include "bulk.hpp"
#include "deliveries.hpp"
#include "end_sender.hpp"
#include "engine_state.hpp"
#include "limits.hpp"
#include "ownership.hpp"
#include "plan.hpp"
#include "window.hpp"

namespace tvec::durable::detail {

namespace {

constexpr auto ignore = [](auto&...) {};  // looks at no answer

template <class Operation> refusal fault_of_due(const Operation& o) {
    if constexpr (sets_deadline<Operation>)
        if (!in_range(o.due)) return refusal::bad_due;
    return refusal::none;
}

}  // namespace

// --- the parts ----------------------------------------------------------------------------------

// Each part has references to parts above it in this list.
struct engine::parts final : events {
    parts(timer_wheel& w, wheel_clock c, store& from, handler h, options o)
        : all(*this, w, std::move(c), from, std::move(o)),
          deliverer(all, ends, near, limiter, std::move(h)) {}
    parts(const parts&) = delete;
    parts& operator=(const parts&) = delete;
    ~parts() { all.shards.clear(); }  // near timers leave the queues of the deliverer

    void on_alarm(near_timer& t) override { deliverer.on_alarm(t); }
    void on_refill(shard& s) override { near.take(s); }
    void on_sweep(shard& s) override { near.sweep(s); }
    void on_flush(shard& s) override {
        s.backs_off = false;
        ends.flush(s);
    }
    void on_fenced(shard& s) override { owners.fence(s); }
    void on_clock_set(time_point before) override {
        deliverer.return_claims_of_a_clock_ahead();
        planned.on_clock_set(before);
    }
    void on_ahead(time_point shown) override { planned.on_clock_set(shown); }
    void on_planned(const std::string& id, time_point due) override { planned.on_planned(id, due); }
    void on_next(shard& s, const std::string& id, time_point due) override {
        near.on_known(s, id, due);
    }
    bool on_overdue(shard& s, const place& p) override { return limiter.let_in(s, p); }

    engine_state all;
    end_sender ends{all};
    window near{all};
    limits limiter{all, near};
    deliveries deliverer;
    ownership owners{all, ends, near};
    beats planned{all};
};

engine::engine(timer_wheel& wheel, wheel_clock clock, store& from, handler h, options o)
    : parts_(std::make_unique<parts>(wheel, std::move(clock), from, std::move(h), std::move(o))) {
    if (from.is_used_)
        throw std::logic_error("tvec::durable::timers: the store is used by another timers object: "
                               "each needs a store of its own");
    from.is_used_ = true;
    parts& p = *parts_;
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

// Begins an operation of one call, if it has no fault. `look_at` sees its answer.
template <class Operation, class F> refusal engine::ask(refusal fault, Operation& o, F look_at) {
    if (const refusal r = admit(1, fault); r != refusal::none) return r;
    o.then = answering(1, std::move(o.then), std::move(look_at));
    parts_->all.storage.submit(std::move(o));
    return refusal::none;
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

refusal engine::begin(operations::put o) {
    refusal fault = refusal::none;
    std::size_t bytes = 0;
    std::vector<place> places;
    places.reserve(o.timers.size());
    for (record& r : o.timers) {
        if (fault == refusal::none) fault = accept(r);
        places.push_back({r.due, r.id});
        bytes += r.id.size() + r.body.size() + r.plan.size();
    }
    const std::size_t calls = o.timers.size();
    if (fault = admit(calls, fault, bytes); fault != refusal::none) return fault;
    const auto on_results = [this, bytes, places = std::move(places)](const auto& results) {
        assert(results.size() == places.size() && "a store answers every put");
        assert(bytes <= put_bytes_in_flight_ && "every put is answered once");
        put_bytes_in_flight_ -= bytes;
        for (std::size_t i = 0; i < places.size(); ++i) on_put(results[i], places[i]);
    };
    o.then = answering(calls, std::move(o.then), on_results);
    parts_->all.storage.submit(std::move(o));
    return refusal::none;
}

void engine::on_put(put_result r, const place& p) {
    using numbers = durable::counters;
    constexpr std::uint64_t numbers::*of_result[] = {&numbers::stored, &numbers::there_already,
                                                     &numbers::dead_already, &numbers::unknown,
                                                     &numbers::failed};
    ++(parts_->all.count.*of_result[static_cast<std::size_t>(r)]);
    if (r == put_result::stored) parts_->near.on_known(parts_->all.shard_of(p.id), p.id, p.due);
}

// The store knows that a timer was claimed, and not if its handler was called. The engine does.
void engine::on_changed(const operations::cancel& o, cancel_result& r) {
    parts_->all.count.unknown += r == cancel_result::unknown;
    parts_->all.count.failed += r == cancel_result::failed;
    if (r == cancel_result::unknown || r == cancel_result::failed) return;
    shard& s = parts_->all.shard_of(o.id);
    const near_timer* const t = s.find(o.id);
    const bool was_held = t != nullptr && t->phase == timer_phase::held && t->is_first;
    s.forget(o.id);
    if (r == cancel_result::unknown_id) return;
    ++parts_->all.count.cancelled;
    if (was_held) r = cancel_result::cancelled;
}

template <sets_deadline Operation, class Result>
void engine::on_changed(const Operation& o, Result& r) {
    if (r == Result{}) parts_->near.on_known(parts_->all.shard_of(o.id), o.id, o.due);
}

template <changes_one Operation> refusal engine::begin(Operation o) {
    const refusal of_due = fault_of_due(o);
    auto then = std::exchange(o.then, {});
    const auto look_at = [this, o](auto& r) { this->on_changed(o, r); };
    o.then = std::move(then);
    return ask(of_due == refusal::none ? fault_of_id(o.id) : of_due, o, look_at);
}

refusal engine::begin(operations::find o) { return ask(fault_of_id(o.id), o, ignore); }
refusal engine::begin(operations::list o) { return ask(refusal::none, o, ignore); }
refusal engine::begin(operations::oldest o) { return ask(refusal::none, o, ignore); }
refusal engine::begin(operations::count o) { return ask(refusal::none, o, ignore); }

template <class Other> refusal engine::begin(Other) {
    assert(false && "the engine begins this operation, and nobody else");
    return refusal::stopping;
}

refusal engine::submit(operation o) {
    return std::visit([this](auto& asked) { return begin(std::move(asked)); }, o);
}

// --- bulk ---------------------------------------------------------------------------------------

template <changes_one Operation>
refusal engine::begin_all(timer_set set, std::string prefix, Operation one,
                          completion<standing, std::uint64_t> then) {
    if (const refusal r = admit(1, fault_of_due(one)); r != refusal::none) return r;
    const auto change_one = [this, one](const std::string& id, completion<standing, bool> next) {
        Operation o = one;
        o.id = id;
        const auto on_result = [this, o, next = std::move(next)](auto r) {
            this->on_changed(o, r);
            const bool is_unknown = r == decltype(r)::unknown || r == decltype(r)::failed;
            next(is_unknown ? standing::unknown : standing::done, r != decltype(r)::unknown_id);
        };
        o.then = parts_->all.guarded(on_result);
        parts_->all.storage.submit(std::move(o));
    };
    do_for_all(parts_->all, set, std::move(prefix), change_one,
               answering(1, std::move(then), ignore));
    return refusal::none;
}

refusal engine::submit_all(timer_set set, std::string prefix, operation one,
                           completion<standing, std::uint64_t> then) {
    const auto begin_one = [&]<class Operation>(Operation& o) {
        if constexpr (changes_one<Operation>)
            return begin_all(set, std::move(prefix), std::move(o), std::move(then));
        assert(changes_one<Operation> && "the operation changes the timer of an id");
        return refusal::stopping;
    };
    return std::visit(begin_one, one);
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
refusal engine::begin(operations::extend o) {
    if (const refusal r = admit(1, fault_of_lease(o.lease)); r != refusal::none) return r;
    const time_point end = now() + o.lease;
    const auto before = parts_->deliverer.move_lease(o.token, end);
    const auto on_result = [this, t = o.token, before, end](standing how, bool is_extended) {
        if (before && (how != standing::done || !is_extended))
            parts_->deliverer.move_lease(t, *before, end);
    };
    o.shard = parts_->all.shard_of(o.token.id).number;
    o.then = answering(1, std::move(o.then), on_result);
    parts_->all.storage.submit(std::move(o));
    return refusal::none;
}

void engine::hand_over(const token& t) { parts_->deliverer.hand_over(t); }

void engine::taken(const token& t) {
    const shard& s = parts_->all.shard_of(t.id);
    if (parts_->all.settings.attempts == 0 || parts_->all.is_stopping || !s.is_owned()) return;
    parts_->all.storage.submit(operations::spend{s.number, s.owned_as, t});
}

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
    return {calls_in_flight_, parts_->ends.in_flight(), parts_->owners.unreleased()};
}

// --- turns --------------------------------------------------------------------------------------

int engine::fd() const noexcept { return parts_->all.storage.fd(); }

void engine::run() {
    parts& p = *parts_;
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
    durable::gauges g{0, 0, calls_in_flight_, parts_->owners.renewed(),
                      parts_->all.storage.broken_connections()};
    for (const auto& s : parts_->all.shards) {
        g.near += s->near.size();
        g.being_delivered += s->being_delivered;
    }
    return g;
}

const lateness_histogram& engine::late() const noexcept { return parts_->deliverer.late(); }

}  // namespace tvec::durable::detail
