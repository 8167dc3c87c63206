// The states of a wheel in which a call takes the most instructions, one for each loop in it:
// `instructions` counts the call once. Timers that were destroyed leave their slot marked.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <string_view>

#include "tvec/core/timer_wheel.hpp"

namespace bench {

class worst_call {
public:
    using counter = void (*)(const std::function<void()>& call);

    struct named {
        std::string_view name;
        void (worst_call::*run)();
    };
    static const std::array<named, 11> all;

    explicit worst_call(counter counted) : counted_(counted) {}

private:
    using jiffies = tvec::jiffies;
    static constexpr unsigned root = tvec::detail::geometry::root;
    static constexpr unsigned levels = tvec::detail::geometry::levels;
    static constexpr unsigned overflow = tvec::detail::geometry::overflow;
    static constexpr jiffies together = jiffies{1} << 40;  // a slot of each level begins
    static constexpr unsigned some = 16;                   // of each chain two: all are looked at
    static constexpr unsigned left = 128;     // half of them in the tick before, half at the visit
    static constexpr unsigned many = 129;     // emptied ahead in 16 ticks
    static constexpr unsigned most = 131073;  // emptied ahead in a slot of level 2

    static constexpr jiffies width_of(unsigned level) {
        return tvec::detail::geometry::width_of(level);
    }
    static constexpr unsigned ring_of(unsigned level) {
        return tvec::detail::geometry::ring_of(level);
    }

    // Marks the slot for `at`. Its timers live until the call: a search would pass over it before.
    void mark(jiffies at, unsigned timers = some) {
        for (unsigned i = 0; i < timers; ++i) wheel_.arm_at(gone_.emplace_back(), at);
    }
    // Marks the slot `ahead` of now() on its level, some behind it in all occupancy words, and all
    // in the last word.
    void mark_level(unsigned level, unsigned ahead, unsigned step) {
        for (; ahead < ring_of(level); ahead += ahead + step < ring_of(level) ? step : 1)
            mark(wheel_.now() + ahead * width_of(level));
    }
    void mark_root() {
        mark(wheel_.now() + 1);
        mark_level(root, 2, 29);
    }
    // Marks the slots that have to be empty by `begin`, from that of `highest` to that of `lowest`.
    void mark_until(jiffies begin, unsigned highest, unsigned lowest, unsigned timers) {
        for (unsigned level = highest; level >= lowest; --level) {
            const unsigned slots_before = level == overflow ? 2 : 4;  // near ones are a level below
            wheel_.advance(begin + 2 - slots_before * width_of(level));
            mark(begin + width_of(level) - 1, timers);
        }
    }
    // Marks other slots of the levels from `lowest` on, and all of the overflow.
    void mark_others(unsigned lowest) {
        for (unsigned level = lowest; level < levels; ++level)
            mark_level(level, 4, ring_of(level) / 4 + 1);
        const jiffies lap = tvec::detail::geometry::lap_at(wheel_.now());
        for (jiffies bit = 1; bit < jiffies{1} << ring_of(overflow); bit *= 2)
            if (!(lap & bit)) mark((lap + bit + 1) * width_of(overflow));
    }

    void count(const std::function<void()>& call) {
        gone_.clear();
        counted_(call);
    }
    void advance(jiffies until) {
        count([&] { wheel_.advance(until); });
    }
    void tick() { advance(wheel_.now() + 1); }

    // Moves a timer from another wheel to a slot beyond the levels, which begins a chunk.
    void move_beyond() {
        std::deque<tvec::timer> there(tvec::detail::geometry::chunk);
        for (tvec::timer& t : there) wheel_.arm_at(t, together);
        tvec::timer_wheel other;
        tvec::timer t;
        other.arm_at(t, 1);
        counted_([&] { wheel_.arm_within(t, together, together + 100); });
    }

    void empty_slot() {
        mark(wheel_.now() + 1);
        tick();
    }
    void empty_root() {
        mark_root();
        tick();
    }
    void empty_root_in_order() {
        mark_root();
        count([this] {
            wheel_.advance_in_order(wheel_.now() + 1,
                                    [](tvec::timer& a, tvec::timer& b) { return &a < &b; });
        });
    }
    void ask_in_callback() {
        const auto ask = [this](tvec::timer&) { counted_([this] { wheel_.next_wakeup(); }); };
        tvec::timer t;
        wheel_.arm_after(t, 1);
        mark_root();
        gone_.clear();
        wheel_.collect(wheel_.now() + 1, 1, ask);
    }
    void empty_levels() {
        mark_until(together, overflow, root + 1, left);
        wheel_.advance(together - 1);
        mark_others(root + 1);
        mark_root();
        tick();
    }
    void empty_ahead() {
        mark_until(together, overflow, root + 1, many);
        wheel_.advance(together - 17);
        mark_others(root + 1);
        mark_root();
        tick();
    }
    // Levels 1 and 2 are searched as their slots begin, and again as those above are emptied ahead.
    void empty_twice() {
        const jiffies before = together - width_of(root + 2);
        mark_until(together, overflow, root + 3, most);
        mark_until(before, root + 2, root + 1, left);
        wheel_.advance(before - 1);
        mark_others(root + 1);
        mark_root();
        tick();
    }
    void mark_above() {
        const jiffies before = together - width_of(root + 1);
        mark_until(together, overflow, root + 2, left);
        mark_until(before, root + 1, root + 1, left);
        wheel_.advance(before - 1);
        mark_others(root + 2);
        for (unsigned ahead : {66u, 131u, 196u}) mark(wheel_.now() + ahead * width_of(root + 1));
        mark_root();
    }
    void empty_above() {
        mark_above();
        tick();
    }
    void move_ahead() {
        mark_above();
        count([this] { wheel_.move_ahead(1); });
    }
    void jump_to_the_end() {
        tvec::timer t;
        wheel_.arm_at(t, tvec::never - 1);
        advance(tvec::never - 1);
    }

    counter counted_;
    tvec::timer_wheel wheel_{1};
    std::deque<tvec::timer> gone_;
};

// Those that visit no timer are `worst-empty`: scripts/checks/instructions has a bound for them.
inline constexpr std::array<worst_call::named, 11> worst_call::all{{
    {"worst-arm", &worst_call::move_beyond},
    {"worst-empty-slot", &worst_call::empty_slot},
    {"worst-empty-root", &worst_call::empty_root},
    {"worst-empty-ordered-root", &worst_call::empty_root_in_order},
    {"worst-empty-levels", &worst_call::empty_levels},
    {"worst-empty-ahead", &worst_call::empty_ahead},
    {"worst-empty-above", &worst_call::empty_above},
    {"worst-empty-twice", &worst_call::empty_twice},
    {"worst-empty-wakeup", &worst_call::ask_in_callback},
    {"worst-move-ahead", &worst_call::move_ahead},
    {"worst-jump-to-end", &worst_call::jump_to_the_end},
}};

}  // namespace bench
