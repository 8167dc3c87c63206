// The timer wheel of Linux until 4.7, written anew after its algorithm: a root of 256 lists and
// four levels of 64. A slot is moved as a whole when the level below wraps. Time goes one tick at a
// time, and is skipped only when nothing at all is pending.
#pragma once

#include <array>
#include <cstdint>

namespace bench {

class classic_timer;

// A ring of list links; the head of a list is a link of its own.
struct classic_link {
    classic_link* next = nullptr;
    classic_link* prev = nullptr;

    void make_head() { next = prev = this; }
    bool is_empty() const { return next == this; }

    void add_before(classic_link& head) {
        next = &head;
        prev = head.prev;
        prev->next = this;
        head.prev = this;
    }
    void remove() {
        next->prev = prev;
        prev->next = next;
        next = nullptr;
    }
    // Takes over all that hangs in `other`.
    void take(classic_link& other) {
        make_head();
        if (other.is_empty()) return;
        next = other.next;
        prev = other.prev;
        next->prev = prev->next = this;
        other.make_head();
    }
};

class classic_timer : public classic_link {
public:
    using callback = void (*)(classic_timer&);
    explicit classic_timer(callback fire) : fire_(fire) {}

    bool pending() const { return next != nullptr; }

private:
    friend class classic_wheel;
    std::uint64_t expires_ = 0;
    callback fire_;
};

class classic_wheel {
public:
    explicit classic_wheel(std::uint64_t now) : jiffies_(now) {
        for (classic_link& head : root_) head.make_head();
        for (auto& level : levels_)
            for (classic_link& head : level) head.make_head();
    }

    // The last tick that was run.
    std::uint64_t now() const { return jiffies_ - 1; }

    // mod_timer.
    [[gnu::always_inline]] void arm_at(classic_timer& t, std::uint64_t expires) {
        if (t.pending()) {
            if (t.expires_ == expires) return;
            t.remove();
            --active_;
        }
        t.expires_ = expires;
        catch_up();
        insert(t);
        ++active_;
    }

    // del_timer.
    [[gnu::always_inline]] void cancel(classic_timer& t) {
        if (!t.pending()) return;
        t.remove();
        --active_;
        catch_up();
    }

    // __run_timers: runs every tick up to and including `until`.
    [[gnu::always_inline]] void advance(std::uint64_t until) {
        last_ = until;
        if (catch_up()) return;
        while (static_cast<std::int64_t>(until - jiffies_) >= 0) run_tick();
    }

    // next_timer_interrupt: scans the root from the cursor, then the upper levels' lists.
    [[gnu::noinline]] std::uint64_t next_expiry() const {
        std::uint64_t first = jiffies_ + max_delay;
        if (active_ == 0) return first;
        if (find_in_root(first)) return first;
        for (unsigned level = 0; level < 4; ++level)
            if (find_in_level(level, first)) return first;
        return first;
    }

protected:  // docs/demo looks into it
    static constexpr unsigned root_bits = 8, level_bits = 6;
    static constexpr std::uint64_t root_size = 1u << root_bits, level_size = 1u << level_bits;
    static constexpr std::uint64_t max_delay = 0xffffffff;

    static unsigned shift(unsigned level) { return root_bits + level * level_bits; }
    std::uint64_t index(unsigned level) const {
        return jiffies_ >> shift(level) & (level_size - 1);
    }

    // catchup_timer_jiffies: the one short cut there is.
    [[gnu::always_inline]] bool catch_up() {
        if (active_ != 0) return false;
        if (static_cast<std::int64_t>(last_ + 1 - jiffies_) > 0) jiffies_ = last_ + 1;
        return true;
    }

    // __internal_add_timer.
    [[gnu::always_inline]] void insert(classic_timer& t) {
        std::uint64_t expires = t.expires_;
        const std::uint64_t delta = expires - jiffies_;
        if (static_cast<std::int64_t>(delta) < 0)
            t.add_before(root_[jiffies_ & (root_size - 1)]);
        else if (delta < root_size)
            t.add_before(root_[expires & (root_size - 1)]);
        else if (delta < 1u << shift(1))
            t.add_before(slot(0, expires));
        else if (delta < 1u << shift(2))
            t.add_before(slot(1, expires));
        else if (delta < 1u << shift(3))
            t.add_before(slot(2, expires));
        else {
            if (delta > max_delay) expires = jiffies_ + max_delay;
            t.add_before(slot(3, expires));
        }
    }

    classic_link& slot(unsigned level, std::uint64_t expires) {
        return levels_[level][expires >> shift(level) & (level_size - 1)];
    }

    // Moves all of a slot down; returns its index, which is 0 when the level above is next.
    std::uint64_t cascade(unsigned level) {
        const std::uint64_t at = index(level);
        classic_link moved;
        moved.take(levels_[level][at]);
        for (classic_link *l = moved.next, *after = nullptr; l != &moved; l = after) {
            after = l->next;
            insert(static_cast<classic_timer&>(*l));
        }
        return at;
    }

    [[gnu::always_inline]] void run_tick() {
        const std::uint64_t at = jiffies_ & (root_size - 1);
        if (at == 0) [[unlikely]]
            cascade();
        ++jiffies_;
        if (!root_[at].is_empty()) fire_all(root_[at]);
    }

    [[gnu::noinline]] void cascade() {
        for (unsigned level = 0; level < 4 && cascade(level) == 0; ++level) {
        }
    }

    [[gnu::noinline]] void fire_all(classic_link& head) {
        classic_link work;
        work.take(head);
        while (!work.is_empty()) {
            auto& t = static_cast<classic_timer&>(*work.next);
            t.remove();
            --active_;
            t.fire_(t);
        }
    }

    bool find_in_root(std::uint64_t& first) const {
        for (std::uint64_t i = 0; i < root_size; ++i) {
            const classic_link& head = root_[(jiffies_ + i) & (root_size - 1)];
            if (head.is_empty()) continue;
            first = static_cast<const classic_timer*>(head.next)->expires_;
            // Before the root wraps nothing can come down and be earlier.
            return (jiffies_ & (root_size - 1)) + i < root_size;
        }
        return false;
    }

    bool find_in_level(unsigned level, std::uint64_t& first) const {
        bool found = false;
        for (std::uint64_t i = 0; i < level_size && !found; ++i) {
            const classic_link& head = levels_[level][(index(level) + i) & (level_size - 1)];
            for (const classic_link* l = head.next; l != &head; l = l->next) {
                const std::uint64_t expires = static_cast<const classic_timer*>(l)->expires_;
                found = true;
                if (static_cast<std::int64_t>(expires - first) < 0) first = expires;
            }
        }
        return found;
    }

    std::uint64_t jiffies_;  // the next tick to be run
    std::uint64_t last_ = 0;
    std::uint64_t active_ = 0;
    std::array<classic_link, root_size> root_;
    std::array<std::array<classic_link, level_size>, 4> levels_;
};

}  // namespace bench
