/// \file
/// Timers that survive: a store holds all of them, a wheel those of the near window.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <chrono>
#include <utility>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/durable/detail/engine.hpp"

namespace tvec::durable {

/// Timers that are kept in a store, and delivered when they are due, at least once, never early.
///
///     tvec::clocked_wheel timers;
///     tvec::durable::sqlite_store store("orders.db");
///     tvec::durable::timers orders(timers, store, [&](tvec::durable::delivery d) {
///         close_if_unpaid(d.which.id, d.body);
///         orders.done(d.which);
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
/// **Turns.** `run` calls handlers for options::turn and no longer, besides one handler, and no
/// more than options::slice of them. It pauses while as many ends are not stored, so a process that
/// is killed has at most options::slice of its ended deliveries come again.
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
/// being delivered. Bodies that are claimed and not delivered take about options::most_held_bytes.
/// At most options::most_asked calls are in flight, and options::most_asked_bytes of their puts.
/// Timers behind the window wait in the store.
///
/// **Threads.** One thread owns it, and runs the wheel. It is neither copied nor moved. Wheel and
/// store must outlive it. It may not be destroyed by its own handler or completions. Completions
/// that are left then are not called.
template <class Clocked = clocked_wheel<>> class timers : public detail::engine {
    static_assert(tvec::detail::clocked<Clocked>,
                  "durable timers are on a tvec::clocked_wheel: a timer_wheel has no clock");

public:
    /// Begins to own shards, and to take the timers that are due soon. Failures show in the
    /// counters. Throws std::invalid_argument, which names the option that is out of its range, and
    /// std::logic_error if another `timers` uses the store.
    timers(Clocked& wheel, store& from, handler h, options o = {})
        : engine(wheel.wheel(), pace_of(wheel), from, std::move(h), std::move(o)) {}

    timers(Clocked&&, store&, handler, options = {}) TVEC_WANTS("a wheel that outlives it");
    timers(const timers&) TVEC_WANTS("a reference: it stays where it is");
    timers& operator=(const timers&) TVEC_WANTS("a reference: it stays where it is");

private:
    static detail::pace pace_of(Clocked& wheel) {
        using std::chrono::microseconds;
        return {[&wheel](microseconds delay) { return wheel.ticks().ceil(wheel.after(delay)); },
                [] {
                    return std::chrono::floor<microseconds>(
                        Clocked::clock::now().time_since_epoch());
                }};
    }
};

}  // namespace tvec::durable
