// What an attempt is: what each event does to a timer. The stores of this process call these
// functions. The stores on servers do the same in Lua and SQL, and tests compare them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "../engine/plan.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

// Attempts of timers that are put begin anew after so many.
inline constexpr std::uint32_t attempts_of_puts = 1U << 30;

// Returns the last attempt of the timers of a shard that are gone: the one before, or that of the
// timer that goes. A timer that is put begins after it, so what a handler has of an earlier timer
// of the id is stale. Of two numbers the later one is less than half of them all ahead.
constexpr std::uint32_t later_of(std::uint32_t gone, std::uint32_t attempt) {
    const std::uint32_t ahead = (attempt - gone) % attempts_of_puts;
    return ahead < attempts_of_puts / 2 ? (gone + ahead) % attempts_of_puts : gone;
}

// What has become of a timer whose delivery has ended.
enum class afterwards { waits, dead, gone };

// A timer, as it is in a store. Each function changes it and nothing else, and reads no clock:
// `now` is the time of the store. SQLite keeps no leases, and reads a timer without its body.
struct timer_state : stored_timer {
    // The time of the next claim: the deadline, or the end of the lease of the last claim.
    time_point visible{};
    duration lease{};         // of the last claim
    bool is_counted = false;  // the last attempt is one of `spent`
    bool is_new = false;      // the lease is that of the claim: nothing has changed it

    timer_state() = default;
    explicit timer_state(stored_timer t) : stored_timer(std::move(t)), visible(due) {}
    // A timer that is put.
    explicit timer_state(record r) : timer_state(stored_timer{std::move(r)}) {}

    bool is_open() const { return attempt != ended; }
    bool is_current(const token& t) const { return is_open() && attempt == t.attempt; }
    // Attempts whose leases are over, and which had no end.
    std::uint32_t unended(time_point now) const {
        return attempt - ended - (is_open() && visible > now);
    }
    bool comes_once() const {
        return every == duration::zero() && (plan.empty() || has_only_retries(plan));
    }

    // --- before a delivery ----------------------------------------------------------------------

    // It is put where the last attempt of the timers that are gone is this.
    void begin_after(std::uint32_t gone) { attempt = ended = gone; }

    // It was put in the place of a timer with that last attempt, whose delivery must not end it.
    void replace(std::uint32_t last) { attempt = ended = last + 1; }

    void touch(time_point at) {
        replace(attempt);
        wait(at);
        verdict.clear();
    }

    // Of a dead letter.
    void revive(time_point at) {
        wait(at);
        history.clear();
    }

    // Makes it the dead letter that `operations::bury` stores.
    void bury() {
        every = duration::zero();
        wait(due);
        verdict.clear();
    }

    // Returns false if it is too early.
    bool claim(const claim_terms& terms, time_point now, duration ahead) {
        shorten(now);
        const bool is_lost = has_lost_claim(terms.since);
        if (is_lost) visible = due;
        if (visible > now + ahead) return false;
        attempt += !is_lost;
        is_counted = false;
        visible = std::max(now, visible) + terms.lease;
        lease = visible - now;
        is_new = true;
        return true;
    }

    // Shortens the lease of a claim to its length from now: the clock may have been set back.
    void shorten(time_point now) {
        if (!is_open() || visible <= now + lease) return;
        visible = now + lease;
        is_new = false;
    }

    // --- of the delivery of the current attempt -------------------------------------------------

    void extend(duration length, time_point now) {
        visible = now + length;
        lease = length;
        is_new = false;
    }

    void spend() { spent += !std::exchange(is_counted, true); }

    afterwards end(const ending& e, time_point now) {
        if (e.how == outcome::returned) return give_back();
        if (e.how == outcome::removed || (e.how == outcome::done && comes_once()))
            return afterwards::gone;
        if (e.history) history = *e.history;
        verdict = e.how == outcome::failed                  ? "failed " + e.reason
                  : e.how == outcome::done && !plan.empty() ? "done"
                                                            : "";
        if (e.how == outcome::done && plan.empty()) plan_beat(now);
        wait(e.how == outcome::again ? e.due : due);
        return e.how == outcome::dead ? afterwards::dead : afterwards::waits;
    }

private:
    // Returns true if the last claim was granted since then, and nobody has shown to know of it.
    bool has_lost_claim(time_point since) const {
        return is_open() && is_new && !is_counted && visible - lease >= since;
    }

    void plan_beat(time_point now) {
        due = next_beat(due, every, now);
        durable::history h;
        h.last = std::max(due - every, earliest_due);
        h.delay = due - h.last;
        history = to_text(h);
    }

    // All attempts have ended, and none is spent.
    void wait(time_point at) {
        due = visible = at;
        ended = attempt;
        spent = 0;
        is_counted = false;
    }

    // An earlier attempt may be open, and its handler may have been called.
    afterwards give_back() {
        if (attempt == ended + 1) ended = attempt;
        spent -= std::exchange(is_counted, false);
        visible = due;
        is_new = false;
        return afterwards::waits;
    }
};

}  // namespace tvec::durable::detail
