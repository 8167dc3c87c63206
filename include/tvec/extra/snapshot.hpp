/// \file
/// The state of a wheel, taken and put back: for rollback, and for games that are saved.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <array>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "tvec/core/detail/export.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/core/timer_wheel.hpp"

namespace tvec {

/// The state of a timer_wheel between two calls. After a `restore` the same calls fire the same
/// timers on the same ticks in the same order as after the `capture`, in that wheel or another.
///
///     tvec::snapshot before;
///     before.capture(wheel, [&](const tvec::timer& t) { return number_of(t); });
///     // ... frames that turn out to be wrong ...
///     before.restore(wheel, [&](std::uint64_t id) { return &timers[id]; });
///
/// The order within a tick depends on where each timer hangs, and on how far slots were emptied
/// ahead. A snapshot has both: for each linked timer its id, its deadline and its place, idle ones
/// included, and what an `advance` has left that its budget or an exception ended.
///
/// It does not have:
///
///  - The callbacks, and the objects around the timers: the program keeps what it changes in them.
///  - `expires()` of timers that are not linked. After a `restore` they are not pending. A call of
///    arm_next outside of a callback may differ.
///  - Groups. Paused members stay paused, but the order on a tick of those that `resume` arms
///    depends on the order of their joining: where it matters, let all leave, and join again in the
///    same order.
///  - Functions: a wheel with timeouts of a pool, of a mailbox or with sleeping coroutines cannot
///    be captured, because nobody can name their timers. Give these a wheel of their own.
///  - The counters of the wheel, which count on.
///
/// Memory is 24 bytes for each timer, kept from one capture to the next. Both wheels need a number
/// of their own: docs/limits.md.
class snapshot {
public:
    /// Makes the state of an empty wheel at tick 0. Throws std::bad_alloc.
    TVEC_API snapshot();

    /// Takes the state of `wheel`, which does not change. Calls id_of(const timer&) once for each
    /// linked timer, cancelled ones included: an integer, different for each timer. O(slots +
    /// timers), some nanoseconds each. Throws std::bad_alloc, or what `id_of` throws: then take it
    /// again before it is used.
    ///
    /// Throws std::logic_error, and changes nothing, if the wheel is busy: in its callbacks, and in
    /// visitors of its timers. A game that saves itself by a timer sets a flag in the
    /// callback, and captures after the `advance`. Without exceptions that ends the program
    /// (std::terminate).
    template <class F> void capture(const timer_wheel& wheel, F id_of);
    void capture(detail::no<const timer_wheel&>, const auto&) TVEC_WANTS("its wheel()");
    void restore(detail::no<timer_wheel&>, const auto&) const TVEC_WANTS("its wheel()");

    /// Puts the state into `wheel`. All timers linked there are not pending first. Calls
    /// timer_of(id) once for each timer of the snapshot: a pointer to the timer of that id, or null
    /// to leave the timer out, as if it had been destroyed. A timer that is linked in another wheel
    /// is moved. O(slots + timers). The order of fires is kept if each id names the timer that
    /// takes its part. A loop that waits for the wheel is told of an earlier wake-up
    /// (timer_wheel::on_earlier_wakeup).
    ///
    /// Requires that no two ids name one timer, and that `timer_of` neither throws nor arms. If the
    /// wheel is busy, that is reported in one line on the standard error output, and ends the
    /// program (std::terminate).
    template <class F> void restore(timer_wheel& wheel, F timer_of) const noexcept;

    /// Returns the tick of the wheel that was captured.
    jiffies now() const noexcept { return words_[now_at]; }
    /// Returns how many timers were linked, cancelled ones included.
    std::size_t size() const noexcept { return (words_.size() - entries_at()) / words_of_entry; }

    /// Returns the snapshot as numbers. They mean the same on all machines, and to all versions of
    /// tvec that give timers the same places.
    TVEC_API std::vector<std::uint64_t> save() const;
    /// Takes a snapshot that was saved. Returns false, and changes nothing, if the numbers were
    /// damaged, or are of a version with other places, or make a wheel that breaks a rule of
    /// `check`. A forgery that keeps these rules is taken, and is another game or breaks the wheel
    /// later: a game signs what players can write. O(slots + timers), with a timer of 40 bytes for
    /// each. Throws std::bad_alloc.
    TVEC_API bool load(std::span<const std::uint64_t> saved);

private:
    static constexpr std::size_t now_at = 1, target_at = 2, sorted_at = 3, agenda_at = 4;
    static constexpr std::size_t agenda_words = sizeof(detail::agenda) / sizeof(std::uint64_t);
    static constexpr std::size_t slots_at = agenda_at + agenda_words;  // their number, then each
    static constexpr std::size_t words_of_entry = 3;                   // id, expires, chain
    static constexpr unsigned width = detail::geometry::chains_per_slot;
    static_assert(std::is_trivially_copyable_v<detail::agenda>);
    static_assert(sizeof(detail::agenda) % sizeof(std::uint64_t) == 0);

    bool is_in_range() const;
    bool is_consistent() const;
    void hold(jiffies now, jiffies target, jiffies sorted, const detail::agenda& agenda);
    std::size_t entries_at() const noexcept {
        return slots_at + 1 + static_cast<std::size_t>(words_[slots_at]);
    }
    TVEC_API void begin(const timer_wheel& wheel);
    TVEC_API void begin(timer_wheel& wheel) const noexcept;
    template <class F> static void for_each_in(const detail::levels& l, unsigned s, F visit);
    static std::uint64_t expires_of(const timer& t) noexcept { return t.expires_; }

    std::vector<std::uint64_t> words_;
};

/// Walks the chains of slot `s` side by side, each from its head: visit(const timer&, chain).
template <class F> void snapshot::for_each_in(const detail::levels& all, unsigned s, F visit) {
    std::array<const detail::link*, width> next;
    for (unsigned k = 0; k < width; ++k) next[k] = all.chain_of(s, k).first();
    for (bool more = true; more;) {
        more = false;
        for (unsigned k = 0; k < width; ++k) {
            const detail::link& l = *next[k];
            if (l.ends_chain()) continue;
            next[k] = l.next;
            __builtin_prefetch(l.next);
            visit(timer::of(l), s * width + k);
            more = true;
        }
    }
}

template <class F> void snapshot::capture(const timer_wheel& wheel, F id_of) {
    static_assert(std::is_invocable_v<F&, const timer&>, "an id is asked of a const tvec::timer&");
    begin(wheel);
    const std::size_t end = entries_at();
    for (std::size_t i = slots_at + 1; i < end; ++i)
        for_each_in(wheel.levels_, static_cast<unsigned>(words_[i] >> 32),
                    [&](const timer& t, unsigned chain) {
                        static_assert(std::integral<decltype(id_of(t))>, "an id is an integer");
                        const auto id = static_cast<std::uint64_t>(id_of(t));
                        words_.insert(words_.end(), {id, expires_of(t), chain});
                    });
}

/// The last link of each chain comes first: chains are filled from the front.
template <class F> void snapshot::restore(timer_wheel& wheel, F timer_of) const noexcept {
    static_assert(std::is_convertible_v<std::invoke_result_t<F&, std::uint64_t>, timer*>,
                  "a timer is found by its id: a tvec::timer*, null for none");
    const jiffies wakeup = wheel.agenda_.wake();
    begin(wheel);
    const std::size_t first = entries_at();
    for (std::size_t i = words_.size(); i != first; i -= words_of_entry) {
        timer* const t = timer_of(words_[i - 3]);
        if (t == nullptr) continue;
        t->unlink_if_linked();
        t->expires_ = words_[i - 2];
        wheel.levels_.chains_[static_cast<std::size_t>(words_[i - 1])].push(*t,
                                                                            wheel.levels_.tag());
    }
    if (wheel.agenda_.wake() < wakeup) wheel.levels_.tell_listener();
}

}  // namespace tvec
