/// \file
/// Timers that survive the process: a store holds all of them, a wheel holds the near ones.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/durable/delivery.hpp"
#include "tvec/durable/detail/engine.hpp"
#include "tvec/durable/metrics.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable {

/// Timers in a store, delivered when they are due, at least once and never early.
///
///     tvec::clocked_wheel timers;
///     tvec::durable::sqlite_store store("orders.db");
///     tvec::durable::timers orders(timers, store, [&](tvec::durable::delivery d) {
///         close_if_unpaid(d.token.id, d.body);
///         orders.done(d.token);
///     });
///     orders.put({.id = "17", .due = orders.now() + 30min}, existing::keep, answer);
///     watch(orders.fd(), EPOLLIN);
///     while (running) {
///         alarm.rearm();
///         ...sleep...
///         timers.run(256);
///         orders.run();             // once per turn, after the wheel
///     }
///
/// **Promise.** A timer that was answered `stored` is delivered: at its deadline if a process owns
/// its shard then, and otherwise as soon as one does. It comes again until a delivery of it is
/// ended, it is cancelled, or it is a dead letter. It does not come before its deadline by the
/// clock of the store, nor after a cancel was answered `cancelled`.
///
/// **Twice.** A delivery comes twice if its lease ended, or the process or the connection broke,
/// before its end was stored. The attempts differ. After the loop stood still for longer than the
/// lease of a claim, the timer is claimed anew, because another process may hold it. The end of an
/// attempt that is over changes nothing, and is answered so.
///
/// **Attempts.** By options::attempts a timer becomes a dead letter only if its own handler was
/// called so often without an end. If an earlier attempt is open, its process may have died in the
/// handler. The next attempt is then counted in the store right before the call. These timers are
/// delivered one by one, with a round trip for each, and no other handler is called meanwhile. A
/// process that ends, or stalls for longer than its leases, between count and call has spent the
/// attempt.
///
/// **Plans** decide after the answer to an end. Until then a touch or a replacing put wins. A plan
/// whose rule has no time left removes the timer when a delivery is done.
///
/// **Memory.** The wheel holds at most options::window timers, of about 200 bytes each. At most
/// half of them are being delivered: then nothing is claimed until a delivery ends.
///
/// **Exceptions** of handlers and completions are counted, and go to options::on_exception.
///
/// **Answers.** A call that takes a completion returns at once. It returns refusal::none, and `run`
/// calls the completion once, or it returns the reason of a refusal. Completions may be empty.
///
/// **Threads.** One thread owns the object and runs the wheel. Wheel and store must outlive it.
template <class Clocked = clocked_wheel<>> class timers {
    static_assert(tvec::detail::clocked<Clocked>,
                  "durable timers are on a tvec::clocked_wheel: a timer_wheel has no clock");

public:
    /// Receives due timers.
    using handler = std::function<void(delivery)>;

    /// Joins the processes that share the store, and begins to fill the window. Failures show in
    /// the counters. Throws std::invalid_argument, which names an option that is out of range, and
    /// std::logic_error if another `timers` uses the store.
    timers(Clocked& wheel, store& from, handler h, options o = {})
        : engine_(wheel.wheel(), clock_of(wheel), from, std::move(h), std::move(o)) {}

    timers(Clocked&&, store&, handler, options = {}) TVEC_WANTS("a wheel that outlives it");
    timers(const timers&) TVEC_WANTS("a reference: it stays where it is");
    timers& operator=(const timers&) TVEC_WANTS("a reference: it stays where it is");
    /// Drops the window. Shards are kept until their leases end: `stop` releases them sooner.
    /// Completions in flight are not called. Must not run within a handler or a completion.
    ~timers() = default;

    // --- calls ----------------------------------------------------------------------------------

    /// Begins an operation, as the function of its name does, for programs that choose it while
    /// they run. Precondition: it is put, cancel, find, list, oldest, count, touch, extend or
    /// revive.
    refusal submit(operation o) { return engine_.submit(std::move(o)); }

    /// Stores a timer. Costs a message to the store.
    refusal put(record timer, existing how, completion<put_result> then = {}) {
        std::vector<record> one;
        one.push_back(std::move(timer));
        return put_all(std::move(one), how, [then = std::move(then)](const auto& results) {
            if (then) then(results.front());
        });
    }

    /// Stores timers in one round trip. Each succeeds or fails by itself. The answers are in the
    /// order of `records`. If one is refused, none is sent. Each counts as a call.
    refusal put_all(std::vector<record> records, existing how,
                    completion<std::vector<put_result>> then = {}) {
        return submit(operations::put{std::move(records), how, std::move(then)});
    }

    /// Removes a timer, whether it waits, is being delivered or is a dead letter.
    refusal cancel(const std::string& id, completion<cancel_result> then = {}) {
        return submit(operations::cancel{id, std::move(then)});
    }

    /// Ends a delivery. A timer with a period, or a plan with a rule, comes again at the first beat
    /// after now, until its plan ends. Any other is removed. `then` receives true if the attempt
    /// was the current one. Never refused, not even after `stop`, and repeated until the store has
    /// answered.
    void done(token t, completion<bool> then = {}) { engine_.done(std::move(t), std::move(then)); }

    /// Ends a delivery and makes its timer due again at `due`. The beats of a periodic timer count
    /// from there. Returns refusal::bad_due if `due` is out of range: the delivery has not ended.
    refusal again(token t, time_point due, completion<bool> then = {}) {
        return engine_.again(std::move(t), due, std::move(then));
    }

    /// Ends a delivery that did not succeed. The plan of the timer, or options::default_plan, tells
    /// when it comes again, or that it is a dead letter now. A handler that throws and has not
    /// ended its delivery ends it in this way, with the text of the exception. The reason is cut to
    /// longest_reason bytes and made a line of UTF-8. Never refused, as `done`.
    void failed(token t, std::string_view reason, completion<bool> then = {}) {
        engine_.failed(std::move(t), reason, std::move(then));
    }

    /// Moves the end of the lease of a delivery to `lease` from now, for handlers that work longer
    /// than options::claim_lease. `then` receives true if the attempt was the current one. If the
    /// answer is another, the lease ends when it would have.
    refusal extend(token t, duration lease, completion<standing, bool> then = {}) {
        return submit(operations::extend{0, std::move(t), lease, std::move(then)});
    }

    /// Forgets a delivery that was given to another process, which ends it with the functions of
    /// the store. It takes no memory from now on and counts for no limit. If its lease ends first,
    /// a sweep finds the timer, and it is delivered once more. A no-op if the delivery is over.
    /// Precondition: store_traits::shared, and the store is no file, which keeps no leases: a sweep
    /// would deliver the timer at once.
    void hand_over(const token& t) { engine_.hand_over(t); }

    /// Counts a delivery that was handed over as one of options::attempts, because a worker has
    /// taken it. Costs a message to the store. A no-op if the delivery is over or was counted, if
    /// another process owns its shard, and without options::attempts.
    void taken(const token& t) { engine_.taken(t); }

    /// Gives a timer a new deadline, and keeps its body, period, plan and history. A delivery in
    /// flight is stale from then on.
    refusal touch(const std::string& id, time_point due, completion<touch_result> then = {}) {
        return submit(operations::touch{id, due, std::move(then)});
    }

    /// Finds the timer of an id that waits or is being delivered. The answer is empty if there is
    /// none or the connection broke: `standing` tells the two apart.
    refusal find(std::string id, completion<standing, std::optional<stored_timer>> then) {
        return submit(operations::find{std::move(id), std::move(then)});
    }

    /// Lists at most `limit` timers after a place, in the order of their deadlines. The first page
    /// begins at place{}, the next one at the due and id of the last timer shown. With a prefix,
    /// only ids that begin with it: that costs a look at each of them, for every page.
    refusal list(timer_set set, place after, std::size_t limit,
                 completion<standing, std::vector<stored_timer>> then, std::string prefix = {}) {
        return submit(
            operations::list{set, std::move(after), limit, std::move(prefix), std::move(then)});
    }

    /// Finds the timer that waits longest of those that are due and that nobody is at work on, or
    /// of which unended_attempts had no end, of those with a prefix if there is one. For monitors:
    /// it asks the store, so no state of a process can hide such a timer. Its cost does not grow
    /// with the store.
    refusal oldest(std::string prefix, completion<standing, std::optional<overdue>> then) {
        return submit(operations::oldest{std::move(prefix), std::move(then)});
    }

    /// Counts the timers in the store. Reads a whole index: not for every second on a large store.
    refusal count(completion<standing, totals> then) {
        return submit(operations::count{std::move(then)});
    }

    /// Makes a dead letter wait again, for the deadline `due`.
    refusal revive(const std::string& id, time_point due, completion<revive_result> then = {}) {
        return submit(operations::revive{id, due, std::move(then)});
    }

    /// Cancels all timers of a set whose ids begin with a prefix: of timer_set::dead, purges them.
    /// `then` receives how many were removed, and standing::done if none is left. Costs a call,
    /// and requests for each timer, a few hundred at a time. The call ends early, with
    /// standing::unknown, if the store fails or after `stop`: call it again. A timer that is put or
    /// gets another deadline meanwhile may stay, and one that is revived meanwhile may go.
    refusal cancel_all(timer_set set, std::string prefix,
                       completion<standing, std::uint64_t> then = {}) {
        return engine_.submit_all(set, std::move(prefix), operations::cancel{}, std::move(then));
    }

    /// Makes all dead letters whose ids begin with a prefix wait again, for the deadline `due`. As
    /// `cancel_all` otherwise.
    refusal revive_all(std::string prefix, time_point due,
                       completion<standing, std::uint64_t> then = {}) {
        return engine_.submit_all(timer_set::dead, std::move(prefix), operations::revive{{}, due},
                                  std::move(then));
    }

    /// Stops deliveries, and releases the shards and the claims that were not delivered. All calls
    /// but `done`, `again` and `failed` are refused from now on. `then` is called once: by `run`
    /// when the store has answered everything, or by the wheel after `at_most`. It receives the
    /// work that is unfinished. Deliveries that are not ended come again when their leases end.
    void stop(std::function<void(const unfinished&)> then = {},
              duration at_most = duration(5'000)) {
        engine_.stop(std::move(then), at_most);
    }

    // --- in the loop ----------------------------------------------------------------------------

    /// Returns a descriptor that is readable when the store has answers. Watch it for reading.
    int fd() const noexcept { return engine_.fd(); }

    /// Calls completions and handlers, and sends requests to the store. Call it once per turn of
    /// the loop, after the `run` of the wheel. Handlers are called for options::turn_length: the
    /// one that runs then is the last. Due timers that are left have their turn a tick later.
    void run() { engine_.run(); }

    /// Returns the time of the store.
    time_point now() const { return engine_.now(); }

    /// Returns true if this process owns a shard, and its window reaches the horizon or is full.
    bool ready() const noexcept { return engine_.ready(); }

    /// Returns the numbers of events so far.
    const durable::counters& counters() const noexcept { return engine_.counters(); }
    /// Returns the present state, in numbers.
    durable::gauges gauges() const noexcept { return engine_.gauges(); }
    /// Returns how late first deliveries were, by the clock of the store.
    const lateness_histogram& late() const noexcept { return engine_.late(); }

private:
    static detail::wheel_clock clock_of(Clocked& wheel) {
        using std::chrono::microseconds;
        return {[&wheel](microseconds delay) { return wheel.ticks().ceil(wheel.after(delay)); },
                [] {
                    return std::chrono::floor<microseconds>(
                        Clocked::clock::now().time_since_epoch());
                }};
    }

    detail::engine engine_;
};

}  // namespace tvec::durable
