// Visits every state that a wheel can reach: with a geometry small enough to count them, a few
// timers, and every operation from every state. Each result is checked.
//
// The geometry is a compile definition of this program (SHAPE: root bits, level bits, levels,
// laps of level 1, chunk). TIMERS is the number of timers, and LAPS_AHEAD the farthest arm.
// Each timer may be armed for every tick up to two or four laps of the wheel, armed for `never`,
// cancelled or destroyed. The wheel may be advanced by 0 to more than a lap, with a budget of 1 or
// without, and may move one timer in idle time. Callbacks do nothing, re-arm their timer, cancel
// the others, re-arm the others, or throw. After each operation these must hold:
//   - All due timers fired, on their ticks and in the order of ticks. The rest is pending.
//   - With a budget of 1 there was at most one visit, and a wake-up is immediate if work is left.
//   - The wake-up is neither past nor after the first expiry.
//   - check() finds no fault: no slot holds more than can leave it in time.
//   - Hopping from wake-up to wake-up fires the rest, in a few hops.
//
// Two states are the same if they differ by a whole number of turns of the wheel, by the names of
// the timers, or only in data that the wheel never reads. Arming and destroying repeatedly at one
// time leaves slots that look used. States with more than `most_stale` of them are checked, but not
// expanded.
//
// A turn is four laps, although higher bits of the lap number choose slots of the overflow, too.
// They choose nothing else. No last lap of a timer is more than four ahead. Timers whose last lap
// differs from the running one in those bits are therefore in the next four laps. They share one
// slot, which is emptied when the lowest two bits become 0. From there on only the lowest two bits
// count, so a slot of the overflow is named by the tick of its visit.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ext/pb_ds/assoc_container.hpp>
#include <utility>
#include <vector>

#include "support/divergence.hpp"
#include "support/private_members.hpp"
#include "tvec/inspect/inspect.hpp"

namespace {

using support::expect;
using tvec::jiffies;
namespace geometry = tvec::detail::geometry;
namespace of_wheel = support::of_wheel;

constexpr unsigned timers = TIMERS;
constexpr unsigned most_stale = MOST_STALE;

constexpr jiffies lap = geometry::width_of(geometry::overflow);
constexpr jiffies turn = 4 * lap;  // the wheel looks the same after this many ticks
constexpr jiffies longest_delay = LAPS_AHEAD * lap + 2;
static_assert(longest_delay <= turn + 2);
static_assert(geometry::level_of(longest_delay) == geometry::overflow);

enum class reaction : std::uint8_t { none, again, cancel_others, arm_others, fail, count };

// The wheel, its timers, and the model's knowledge of them.
struct arena {
    tvec::timer_wheel wheel{turn};
    std::array<tvec::timer, timers> timer;
    std::array<jiffies, timers> due{};  // 0: not pending
};

arena* here = nullptr;
reaction react = reaction::none;
unsigned fires = 0;

struct thrown_by_callback {};

jiffies first_due() {
    jiffies first = tvec::never;
    for (const jiffies due : here->due)
        if (due != 0) first = std::min(first, due);
    return first;
}

void arm_at(unsigned i, jiffies tick) {
    tvec::timer& t = here->timer[i];
    const bool was_pending = here->wheel.arm_at(t, tick);
    expect(was_pending == (here->due[i] != 0), "arm said ", was_pending);
    here->due[i] = std::max(tick, here->wheel.now() + 1);
}

void arm(unsigned i, jiffies delay) { arm_at(i, here->wheel.now() + delay); }

void cancel(unsigned i) {
    const bool was_pending = here->timer[i].cancel();
    expect(was_pending == (here->due[i] != 0), "cancel said ", was_pending);
    here->due[i] = 0;
}

void on_fire(tvec::timer_wheel& wheel, tvec::timer& t) {
    const auto self = static_cast<unsigned>(&t - here->timer.data());
    expect(here->due[self] == wheel.now(), "due at ", here->due[self], ", fired at ", wheel.now());
    expect(first_due() == wheel.now(), "overtook a timer for ", first_due());
    here->due[self] = 0;
    ++fires;
    if (react == reaction::again) arm(self, 1 + self);
    for (unsigned i = 0; i < timers; ++i) {
        if (i != self && react == reaction::cancel_others) cancel(i);
        if (i != self && react == reaction::arm_others) arm(i, geometry::ring_of(0));
    }
    if (react == reaction::fail) throw thrown_by_callback{};
}

// --- one operation, as a number -----------------------------------------------------------------

class operation {
public:
    static constexpr unsigned per_timer = longest_delay + 1 + 3;  // arms, never, cancel, destroy
    static constexpr unsigned move_ahead = timers * per_timer;
    static constexpr unsigned first_advance = move_ahead + 1;
    static constexpr unsigned budgets = 2;
    static constexpr unsigned advances = (lap + 2) * budgets;
    static constexpr unsigned count =
        first_advance + advances * static_cast<unsigned>(reaction::count);

    explicit operation(unsigned number) : number_(number) {}

    // The same index for all operations that advance the wheel alike and differ only in the
    // reaction. One index stands for all that do not advance it.
    unsigned advance_number() const {
        return number_ < first_advance ? advances : (number_ - first_advance) % advances;
    }

    // Returns whether a timer has fired, or none was due.
    bool run() const {
        if (number_ < move_ahead) return touch(number_ / per_timer, number_ % per_timer), true;
        fires = 0;
        if (number_ == move_ahead) return move_one_ahead(), true;
        advance((number_ - first_advance) / advances, advance_number());
        return fires != 0;
    }

private:
    static void touch(unsigned i, unsigned what) {
        if (what <= longest_delay) return arm(i, what);
        if (what == longest_delay + 1) return arm_at(i, tvec::never);
        if (what == longest_delay + 2) return cancel(i);
        std::destroy_at(&here->timer[i]);
        std::construct_at(&here->timer[i], on_fire);
        here->due[i] = 0;
    }

    static void move_one_ahead() {
        const auto before = visits();
        const jiffies wakeup = here->wheel.next_wakeup().value_or(tvec::never);
        const std::size_t moved = here->wheel.move_ahead(1);
        expect(moved <= 1 && moved == visits() - before && fires == 0, "moved ", moved);
        expect(here->wheel.next_wakeup().value_or(tvec::never) >= wakeup, "an earlier wake-up");
    }

    static void advance(unsigned reacting, unsigned how) {
        react = static_cast<reaction>(reacting);
        const std::size_t budget = how % budgets == 0 ? tvec::timer_wheel::unlimited : 1;
        advance_by(how / budgets, budget);
        react = reaction::none;
    }

    static void advance_by(jiffies ticks, std::size_t budget) {
        const jiffies until = here->wheel.now() + ticks;
        const auto before = visits();
        try {
            const auto [fired, caught_up] = here->wheel.advance(until, budget);
            expect(fired == fires, "fired ", fired, ", really ", fires);
            expect(!caught_up || first_due() > until, "missed ", first_due(), " of ", until);
            expect(caught_up == (here->wheel.now() == until && here->wheel.next_wakeup() != until),
                   "said caught_up=", caught_up, " with wake-up ", here->wheel.next_wakeup());
            expect(caught_up || visits() - before == budget, "stopped within its budget");
        } catch (const thrown_by_callback&) {
            expect(here->wheel.next_wakeup() == here->wheel.now(), "a throw, and no wake-up now");
        }
        expect(visits() - before <= budget, "overran its budget");
    }

    static std::uint64_t visits() {
        const auto& c = here->wheel.count();
        return c.fired + c.moved + c.dropped;
    }

    unsigned number_;
};

// --- invariants ---------------------------------------------------------------------------------

void verify_waking() {
    const auto wakeup = here->wheel.next_wakeup();
    const jiffies first = first_due();
    expect(!wakeup || *wakeup >= here->wheel.now(), "wake-up in the past: ", wakeup);
    expect(first == tvec::never || (wakeup && *wakeup <= first), "wake-up ", wakeup, " after ",
           first);
    for (unsigned i = 0; i < timers; ++i)
        expect(here->timer[i].pending() == (here->due[i] != 0), "a timer is not what it was");
}

void verify_structure() {
    const std::string fault = check(here->wheel);
    expect(fault.empty(), fault);
    const jiffies first = first_due();
    expect(here->wheel.next_expiry() ==
               (first == tvec::never ? std::nullopt : std::optional(first)),
           "next_expiry");
    const auto pending = static_cast<std::size_t>(
        std::count_if(here->due.begin(), here->due.end(), [](jiffies due) { return due != 0; }));
    expect(here->wheel.count_pending() == pending, "count_pending");
    expect(here->wheel.any_pending() == (pending != 0), "any_pending");
}

// From here to the end by wake-ups alone. A timer costs one for each level below it, and one for
// each halving of up to four laps. Each former place of a timer costs one more.
void verify_the_rest() {
    constexpr unsigned enough = timers * (geometry::levels + 4) + most_stale + 1;
    unsigned hops = 0;
    for (; const auto wakeup = here->wheel.next_wakeup(); ++hops) {
        expect(hops <= enough, "too many wake-ups");
        here->wheel.advance(*wakeup);
    }
    expect(first_due() == tvec::never, "no wake-up, and a timer for ", first_due());
}

// --- states -------------------------------------------------------------------------------------

// The number of overflow slots ever used: the highest bit of a lap number that is reached.
constexpr unsigned far_slots = 8;

// The bytes of the arena that ever change: all except the slots between the levels.
class snapshot {
public:
    snapshot() {
        for (unsigned level = 0; level < geometry::levels; ++level)
            leave_out(geometry::first_slot_of(level) + geometry::ring_of(level),
                      geometry::first_slot_of(level + 1));
        leave_out(geometry::first_slot_of(geometry::overflow) + far_slots, geometry::never_slot);
        add(from_, sizeof(arena));
    }

    void save() { copy(kept_.data(), reinterpret_cast<const std::byte*>(here)); }
    void restore() const { copy(reinterpret_cast<std::byte*>(here), kept_.data()); }

private:
    struct range {
        std::size_t from, size;
    };

    // Slots that are never linked to, from `first` to before `end`.
    void leave_out(unsigned first, unsigned end) {
        const auto& levels = of_wheel::of(here->wheel, of_wheel::levels{});
        const auto at = [&](unsigned s) {
            return reinterpret_cast<const std::byte*>(&levels.chain_of(s, 0)) -
                   reinterpret_cast<const std::byte*>(here);
        };
        add(from_, static_cast<std::size_t>(at(first)));
        from_ = static_cast<std::size_t>(at(end));
    }

    void add(std::size_t from, std::size_t to) { ranges_.push_back({from, to - from}); }

    void copy(std::byte* to, const std::byte* from) const {
        for (const range& r : ranges_) std::memcpy(to + r.from, from + r.from, r.size);
    }

    std::size_t from_ = 0;
    std::vector<range> ranges_;
    std::vector<std::byte> kept_ = std::vector<std::byte>(sizeof(arena));
};

// A hash of 128 bits stands for a state: a run of a hundred million confuses two once in 10^22
// runs.
struct fingerprint {
    std::uint64_t a = 0x9e3779b97f4a7c15, b = 0xc2b2ae3d27d4eb4f;

    void add(std::uint64_t value) {
        a = std::rotl((a ^ value) * 0xff51afd7ed558ccd, 29);
        b = std::rotl((b + value) * 0xc4ceb9fe1a85ec53, 31) ^ (a >> 17);
    }
    auto operator<=>(const fingerprint&) const = default;
};

struct hash {
    std::size_t operator()(const fingerprint& f) const { return f.a ^ f.b >> 32; }
};

// The state in words, as far as the wheel will ever read it. No timer is in two slots, so words
// without the names of timers are enough to distinguish two states.
class reading {
public:
    reading() : now_(here->wheel.now()), levels_(of_wheel::of(here->wheel, of_wheel::levels{})) {
        for (unsigned level = 0; level < geometry::levels; ++level)
            for (unsigned i = 0; i < geometry::ring_of(level); ++i)
                read_slot(geometry::first_slot_of(level) + i, geometry::first_slot_of(level) + i);
        read_overflow();
        read_slot(geometry::never_slot, geometry::never_slot);
    }

    // Empty slots that look used, and counts above the number of links.
    unsigned stale() const { return stale_; }

    fingerprint print() const {
        fingerprint f;
        f.add(now_ % turn);
        f.add(ahead(of_wheel::of(here->wheel, of_wheel::quiet{})));
        f.add(ahead(of_wheel::of(here->wheel, of_wheel::wake{})));
        for (const auto& next : of_wheel::of(here->wheel, of_wheel::above{})) {
            f.add(ahead(next.visit));
            f.add(ahead(next.may));
            f.add(ahead(next.must));
        }
        f.add(ahead(of_wheel::of(here->wheel, of_wheel::target{})));
        add_paces(f);
        for (std::size_t i = 0; i < size_; ++i) f.add(words_[i]);
        return f;
    }

private:
    static constexpr std::size_t room = 64;

    jiffies ahead(jiffies tick) const {
        return tick == tvec::never ? tvec::never : tick - std::min(tick, now_);
    }

    // In the order of their visits.
    void read_overflow() {
        expect(now_ / lap < jiffies{1} << (far_slots - 1), "lap numbers have grown too large");
        std::vector<std::pair<jiffies, unsigned>> used;
        for (unsigned i = 0; i < far_slots; ++i) {
            const unsigned s = geometry::first_slot_of(geometry::overflow) + i;
            if (is_used(s)) used.emplace_back(geometry::visit_of(geometry::overflow, s, now_), s);
        }
        std::sort(used.begin(), used.end());
        for (const auto& [visit, s] : used) read_slot(s, geometry::never_slot + 1 + ahead(visit));
    }

    bool is_used(unsigned s) const { return levels_.at_most(s) != 0 || levels_.occupied(s); }

    void read_slot(unsigned s, jiffies name) {
        if (!is_used(s)) return;
        const auto count = levels_.at_most(s);
        const bool marked = levels_.occupied(s);
        words_[size_++] = name << 16 | static_cast<unsigned>(marked) << 15 | count;
        std::uint64_t there = 0;
        levels_.for_each_in(s, [&](const tvec::detail::link&) { ++there; });
        stale_ += static_cast<unsigned>(count - there + (there == 0 && marked));
        for (unsigned c = 0; c < geometry::chains_per_slot; ++c)
            for (const auto* l = levels_.chain_of(s, c).first();
                 l != &(levels_.*member(of_wheel::sentinel{})); l = l->next)
                read_timer(c, l);
    }

    void read_timer(unsigned chain, const tvec::detail::link* l) {
        const auto distance = reinterpret_cast<const std::byte*>(l) -
                              reinterpret_cast<const std::byte*>(here->timer.data());
        const auto i = static_cast<unsigned>(distance) / unsigned{sizeof(tvec::timer)};
        words_[size_++] = chain << 1 | static_cast<unsigned>(here->timer[i].pending());
        words_[size_++] = ahead(here->timer[i].expires());
    }

    // A past one is not read again. One of a chunk a tick would be found again only where the next
    // slots may grow, which is on the first tick of a lap of the wheel.
    void add_paces(fingerprint& f) const {
        const auto& paces = of_wheel::of(here->wheel, of_wheel::emptying{});
        for (unsigned level = 1; level <= geometry::overflow; ++level) {
            const auto pace = paces[level - 1].unpack();
            const bool is_least =
                pace.rate == geometry::chunk && pace.gentle == (geometry::chunk + 7) / 8;
            const bool is_read = pace.entry > now_ && (level == geometry::overflow || !is_least);
            f.add(is_read ? pace.entry - now_ : 0);
            if (is_read) f.add(pace.rate), f.add(pace.gentle);
        }
    }

    jiffies now_;
    const tvec::detail::levels& levels_;
    std::array<std::uint64_t, room> words_;
    std::size_t size_ = 0;
    unsigned stale_ = 0;
};

// A breadth-first search. A state is kept as its fingerprint, its parent state and the operation
// that led here. Its history is run again to expand it.
class explorer {
public:
    explicit explorer(std::size_t limit) : limit_(limit) {
        for (tvec::timer& t : here->timer) t = tvec::timer(on_fire);
        origin_.save();
        note(0, 0);
    }

    void run() {
        std::size_t layer_end = 1;
        for (std::size_t i = 0; i < reached_.size() && reached_.size() < limit_; ++i) {
            if (i % (1 << 20) == 0 && i != 0) progress(i);
            if (i == layer_end) {
                layer_end = reached_.size();
                ++depth_;
            }
            go_to(i);
            current_.save();
            fired_.fill(true);
            for (unsigned o = 0; o < operation::count; ++o)
                if (fired_[operation(o).advance_number()]) try_operation(i, o);
        }
    }

    void summary() const {
        std::printf(
            "timers %u, levels %u, root bits %u, level bits %u, laps of level 1 %u, chunk %u, "
            "stale marks at most %u: %zu states, ",
            timers, geometry::levels, geometry::root_bits, geometry::level_bits,
            geometry::level_1_laps, geometry::chunk, most_stale, reached_.size());
        std::printf(reached_.size() < limit_ ? "all there are, at most %u operations from empty"
                                             : "among them all within %u operations from empty",
                    depth_);
        std::printf("; %llu transitions, %llu of them to more stale marks\n",
                    static_cast<unsigned long long>(transitions_),
                    static_cast<unsigned long long>(cut_));
    }

private:
    struct step {
        std::uint32_t from;
        std::uint32_t operation;
    };

    void progress(std::size_t i) const {
        std::fprintf(stderr, "%zu states, %zu to go on from\n", reached_.size(),
                     reached_.size() - i);
    }

    void try_operation(std::size_t from, unsigned o) {
        current_.restore();
        try {
            fired_[operation(o).advance_number()] = operation(o).run();
            ++transitions_;
            verify_waking();
            note(from, o);
        } catch (const support::divergence& e) {
            std::fprintf(stderr, "operation %u: %s\n", o, e.what());
            explain(from);
            std::exit(1);
        }
    }

    void note(std::size_t from, unsigned o) {
        const reading now;
        if (now.stale() > most_stale) {
            ++cut_;
            return;
        }
        if (!seen_.insert(now.print()).second) return;
        reached_.push_back({static_cast<std::uint32_t>(from), o});
        verify_structure();
        verify_the_rest();
    }

    void go_to(std::size_t i) {
        std::vector<std::uint32_t> path;
        for (; i != 0; i = reached_[i].from) path.push_back(reached_[i].operation);
        origin_.restore();
        for (; !path.empty(); path.pop_back()) operation(path.back()).run();
    }

    void explain(std::size_t i) const {
        for (; i != 0; i = reached_[i].from)
            std::fprintf(stderr, "  after operation %u\n", reached_[i].operation);
    }

    std::size_t limit_;
    snapshot origin_, current_;
    // Most states are known, and finding one among the nodes takes three cache misses.
    __gnu_pbds::gp_hash_table<fingerprint, __gnu_pbds::null_type, hash> seen_;
    std::vector<step> reached_;
    // For each way to advance: whether a timer fires. If none fires, all reactions are the same.
    std::array<bool, operation::advances + 1> fired_{};
    unsigned depth_ = 0;  // of the states being expanded
    std::uint64_t transitions_ = 0;
    std::uint64_t cut_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    static arena memory;
    here = &memory;
    explorer all(argc > 1 ? std::strtoull(argv[1], nullptr, 0) : ~std::size_t{0});
    all.run();
    all.summary();
}
