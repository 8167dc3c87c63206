/// \file
/// Timers that survive: a store holds all of them, a wheel those of the near window.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/durable/delivery.hpp"
#include "tvec/durable/detail/engine.hpp"
#include "tvec/durable/metrics.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable {

/// Timers that are kept in a store, and delivered when they are due, at least once, never early.
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
/// **Promises.** A timer that was answered `stored` is delivered: at its deadline if a process that
/// owns its shard runs then, else as soon as one does. It is delivered again until a delivery of it
/// is ended, or it is cancelled, or it has had all its attempts and is listed among the dead. It is
/// not delivered before its deadline by the clock of the store, nor after a cancel was answered
/// `cancelled`. A delivery may come twice: if its lease ran out, or the process or the link broke
/// before its end was stored. `(id, attempt)` then differs. A timer that was claimed and not
/// delivered within its lease, because the loop stood still, is claimed anew, since another process
/// may have it by now. The store says how safe `stored` is.
///
/// **Attempts.** A timer is dead only if its own handler had it options::attempts times without an
/// end. A handler that ends its process does not count against the timers that were claimed beside
/// it. The next owner delivers these one by one, each counted in the store right before its handler
/// is called. That takes an answer of the store for each, and no other handler runs before it. The
/// handler that ends its process may be called once more than options::attempts says. A process
/// that ends otherwise between a count and its call, killed for example, has spent that attempt:
/// the two cases look alike.
///
/// **Turns.** `run` calls handlers for options::turn_length and no longer, besides one handler, and
/// no more than options::max_deliveries_per_turn of them. It pauses while as many ends are not
/// stored, so a process that is killed has at most options::max_deliveries_per_turn of its ended
/// deliveries come again.
///
/// **Ending.** Each delivery ends by `done` or `again`, during the handler or any time later; if
/// neither comes within the lease of the claim, it comes once more. The end of an attempt that is
/// over changes nothing, and is told to be stale.
///
/// **Ids.** One timer has an id at a time, be it living or dead. A new one with the id of one that
/// has ended or was cancelled counts its attempts from 1. A put that meets a dead timer answers
/// `dead` and changes nothing, or replaces it and goes on counting. A cancel removes either.
///
/// **Answers.** Each call that takes a completion returns at once: `refusal::none`, and the
/// completion is called once, by `run`; or the reason for the refusal, and nothing is called.
/// Functions may be empty. An exception of a handler or a completion is counted and given to
/// options::on_exception. It does not end the delivery.
///
/// **Memory.** At most options::window timers are in the wheel (about 200 bytes each), half of them
/// being delivered. Bodies that are claimed and not delivered take about options::max_held_bytes.
/// At most options::max_calls calls are in flight, and options::max_put_bytes of their puts.
/// Timers behind the window wait in the store.
///
/// **Threads.** One thread owns it, and runs the wheel. It is neither copied nor moved. Wheel and
/// store must outlive it. It may not be destroyed by its own handler or completions. Completions
/// that are left then are not called.
template <class Clocked = clocked_wheel<>> class timers {
    static_assert(tvec::detail::clocked<Clocked>,
                  "durable timers are on a tvec::clocked_wheel: a timer_wheel has no clock");

public:
    /// Called with a timer that is due.
    using handler = std::function<void(delivery)>;
    /// Called with an answer.
    template <class... Answer> using completion = store::completion<Answer...>;

    /// Begins to own shards, and to take the timers that are due soon. Failures show in the
    /// counters. Throws std::invalid_argument, which names the option that is out of its range, and
    /// std::logic_error if another `timers` uses the store.
    timers(Clocked& wheel, store& from, handler h, options o = {})
        : engine_(wheel.wheel(), clock_of(wheel), from, std::move(h), std::move(o)) {}

    timers(Clocked&&, store&, handler, options = {}) TVEC_WANTS("a wheel that outlives it");
    timers(const timers&) TVEC_WANTS("a reference: it stays where it is");
    timers& operator=(const timers&) TVEC_WANTS("a reference: it stays where it is");
    /// Forgets the window. Shards are kept until their leases end: `stop` gives them back.
    ~timers() = default;

    // --- operations -----------------------------------------------------------------------------

    /// Stores a timer. Cost: a message to the store.
    refusal put(record timer, existing how, completion<put_result> then = {}) {
        std::vector<record> one;
        one.push_back(std::move(timer));
        return put_all(std::move(one), how, [then = std::move(then)](const auto& results) {
            if (then) then(results.front());
        });
    }

    /// Stores timers in one round trip. Each succeeds or fails by itself, and the answers are in
    /// their order. If one of them is refused, none is sent. Counts as one call for each.
    refusal put_all(std::vector<record> timers, existing how,
                    completion<std::vector<put_result>> then = {}) {
        return engine_.put_all(std::move(timers), how, std::move(then));
    }

    /// Takes a timer away, whether it waits, is being delivered or is dead.
    refusal cancel(const std::string& id, completion<cancel_result> then = {}) {
        return engine_.cancel(id, std::move(then));
    }

    /// Ends a delivery. A timer with a period comes again at the first beat after now, any other is
    /// gone. `then` is told whether the attempt was the current one. Never refused while a delivery
    /// is under way, and repeated until the store has answered: also after `stop`.
    void done(token t, completion<bool> then = {}) { engine_.done(std::move(t), std::move(then)); }

    /// Ends a delivery and has the timer come again at that time. A period goes on from there.
    /// Returns refusal::bad_due, and nothing has ended, if that is out of range.
    refusal again(token t, time_point due, completion<bool> then = {}) {
        return engine_.again(std::move(t), due, std::move(then));
    }

    /// Looks for the timer of that id that waits or is being delivered. The answer is empty if
    /// there is none or the link broke: `standing` says which.
    refusal find(std::string id, completion<standing, std::optional<stored_timer>> then) {
        return engine_.find(std::move(id), std::move(then));
    }

    /// Lists at most `limit` timers in order of their deadlines, beginning after that place. Page
    /// by page: begin with place{}, and go on from the due and id of the last one shown.
    refusal list(timer_set set, place after, std::size_t limit,
                 completion<standing, std::vector<stored_timer>> then) {
        return engine_.list(set, std::move(after), limit, std::move(then));
    }

    /// Counts the timers in the store.
    refusal count(completion<standing, totals> then) { return engine_.count(std::move(then)); }

    /// Has a dead timer wait again, for that deadline.
    refusal revive(const std::string& id, time_point due, completion<revive_result> then = {}) {
        return engine_.revive(id, due, std::move(then));
    }

    /// Takes nothing more, delivers nothing more, and gives back the shards and the timers that
    /// were claimed and not delivered. All calls but `done` and `again` are refused from now on.
    /// `then` is called once: by `run` when everything is answered, or by the wheel after
    /// `at_most`, with what is unfinished. Deliveries that are not ended come again when their
    /// leases are over.
    void stop(std::function<void(const unfinished&)> then = {},
              duration at_most = duration(5'000)) {
        engine_.stop(std::move(then), at_most);
    }

    // --- the loop's side ------------------------------------------------------------------------

    /// Readable when the store has answers: call `run`. To be watched for reading.
    int fd() const noexcept { return engine_.fd(); }

    /// Once per turn of the loop, after the wheel's `run`: calls completions of answers, and
    /// handlers of due timers, and asks the store for more. Handlers are called for
    /// options::turn_length, and the one that is running then. The rest is next, a tick later.
    void run() { engine_.run(); }

    /// Returns the store's time.
    time_point now() const { return engine_.now(); }

    /// Returns whether this process owns a shard, and all timers of its shards that are due before
    /// the horizon are in the window, or as many as there is room for.
    bool ready() const noexcept { return engine_.ready(); }

    /// Returns the counters of everything that has happened so far.
    const durable::counters& counters() const noexcept { return engine_.counters(); }
    /// Returns the state at this moment.
    durable::gauges gauges() const noexcept { return engine_.gauges(); }
    /// Returns how late handlers were called for the first time, by the store's clock.
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
