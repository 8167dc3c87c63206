// check() verifies every structural invariant of a wheel and says which one fails.
#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/cleared.hpp"
#include "support/environment.hpp"
#include "support/private_members.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;
namespace of_wheel = support::of_wheel;
using of_wheel::set_word, of_wheel::words_of;
using namespace support::of_timer;

TestSuite(checking, .timeout = 60);

namespace {

// Overwrites a word of a linked timer, asks for the fault, and repairs it.
template <class T> std::string fault_with(timer_wheel& wheel, tvec::timer& t, word w, T value) {
    const T was = read<T>(t, w);
    write(t, w, value);
    const std::string fault = check(wheel);
    write(t, w, was);
    CHECK_EQ(check(wheel), "");
    return fault;
}

// Changes one of the ticks that the wheel keeps, asks for the fault, and repairs it.
std::string fault_with(timer_wheel& wheel, jiffies& kept, jiffies tick) {
    const jiffies was = std::exchange(kept, tick);
    const std::string fault = check(wheel);
    kept = was;
    return fault;
}
template <class Name> std::string fault_with(timer_wheel& wheel, Name name, jiffies tick) {
    return fault_with(wheel, of_wheel::of(wheel, name), tick);
}

bool mentions(const std::string& fault, const char* what) {
    return fault.find(what) != std::string::npos;
}

}  // namespace

Test(checking, a_sound_wheel_has_no_faults) {
    std::mt19937_64 random(10);
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        auto all = support::probes(60);
        for (int i = 0; i < 100; ++i) {
            wheel.arm_after(all[random() % 60]->t, random() >> (28 + random() % 35));
            all[random() % 60]->t.cancel();
            if (random() % 9 == 0) all[random() % 60] = std::make_unique<probe>();
            wheel.advance(wheel.now() + random() % 400, random() % 5);
            REQUIRE_EQ(check(wheel), "");
        }
    }
}

// Slots of many chunks, bursts that a budget cuts, and counts of timers that are gone.
Test(checking, a_crowded_sound_wheel_has_no_faults) {
    std::mt19937_64 random(11);
    const int rounds = static_cast<int>(support::scaled(300));
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        std::vector<tvec::timer> all(3'000);
        jiffies delay = 0;
        for (int i = 0; i < rounds; ++i) {
            if (i % 20 == 0) delay = random() >> (28 + random() % 35);
            for (int k = 0; k < 100; ++k) wheel.arm_after(all[random() % 3'000], delay);
            for (int k = 0; k < 20; ++k) all[random() % 3'000].cancel();
            for (int k = 0; k < 20; ++k) all[random() % 3'000] = tvec::timer();
            const jiffies ahead = wheel.next_wakeup().value_or(wheel.now()) - wheel.now();
            const jiffies by = random() % 2 == 0 ? ahead : random() % 400;
            wheel.advance(wheel.now() + by, random() % 200);
            REQUIRE_EQ(check(wheel), "");
        }
    }
}

Test(checking, a_deadline_before_the_visit_is_found) {
    timer_wheel wheel;
    probe root, upper;
    wheel.arm_after(root.t, 100);
    wheel.arm_after(upper.t, 5'000);
    const std::string in_root = fault_with(wheel, root.t, expires, jiffies{99});
    CHECK(mentions(in_root, "visited at 100") && mentions(in_root, "expires at 99"));
    CHECK(mentions(fault_with(wheel, upper.t, expires, jiffies{4'000}), "expires at 4000"));
}

Test(checking, a_wrong_back_pointer_is_found) {
    timer_wheel wheel;
    probe a, b;
    wheel.arm_after(a.t, 100);
    wheel.arm_after(b.t, 200);
    const auto of_b = read<std::uint64_t>(b.t, back);
    CHECK(mentions(fault_with(wheel, a.t, back, of_b), "points back to"));
}

Test(checking, a_timer_of_another_wheel_is_found) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, 100);
    const auto other = read<std::uint64_t>(p.t, back) ^ (std::uint64_t{1} << 60);
    CHECK(mentions(fault_with(wheel, p.t, back, other), "tag"));
}

Test(checking, a_timer_linked_twice_is_found) {
    timer_wheel wheel;
    auto all = support::probes(5);  // the fifth hangs in the same chain as the first
    for (auto& p : all) wheel.arm_after(p->t, 100);
    auto* const first = link_of(all[0]->t);
    const std::string fault = fault_with(wheel, all[0]->t, next, first);
    CHECK(mentions(fault, "points back to"));
}

Test(checking, more_timers_than_counted_are_found) {
    timer_wheel wheel;
    probe p, stowaway;
    wheel.arm_after(p.t, 100);
    auto* const sentinel = read<tvec::detail::link*>(p.t, next);
    const auto owner = read<std::uint64_t>(p.t, back) & ~tvec::detail::address_mask;
    auto* const extra = link_of(stowaway.t);
    write(stowaway.t, next, sentinel);
    write(stowaway.t, expires, jiffies{100});
    write(stowaway.t, back, reinterpret_cast<std::uintptr_t>(&p.t) | owner);
    CHECK(mentions(fault_with(wheel, p.t, next, extra), "more than its count"));
    write(stowaway.t, back, std::uint64_t{0});
}

Test(checking, every_lost_note_of_arming_is_found) {
    const auto memory = std::make_unique<support::cleared<timer_wheel>>();
    timer_wheel& wheel = *memory;
    probe p;
    const auto before = words_of(wheel);
    wheel.arm_after(p.t, 100);
    const auto after = words_of(wheel);
    std::size_t lost = 0;
    std::string found;
    for (std::size_t i = 0; i < after.size(); ++i) {
        if (before[i] == after[i]) continue;
        ++lost;
        set_word(wheel, i, before[i]);
        found += check(wheel);
        set_word(wheel, i, after[i]);
    }
    for (const char* fault : {"after wake", "after the visit of slot", "its bit is clear",
                              "in a word that looks unused", "more than its count"})
        CHECK(mentions(found, fault));
    // The head of the chain is left alone: without it the chain looks like one that its timers have
    // left. The sentinel's way back is left alone, too: nothing follows it.
    CHECK_EQ(lost, 5 + 2);
    CHECK_EQ(check(wheel), "");
}

Test(checking, timers_in_apparently_empty_slots_are_found) {
    for (unsigned chain = 0; chain < tvec::detail::geometry::chains_per_slot; ++chain) {
        const auto memory = std::make_unique<support::cleared<timer_wheel>>();
        timer_wheel& wheel = *memory;
        const auto before = words_of(wheel);
        for (auto& gone : support::probes(chain)) wheel.arm_after(gone->t, 100);
        probe p;
        wheel.arm_after(p.t, 100);
        const auto after = words_of(wheel);
        const auto head = read<std::uint64_t>(p.t, back) & tvec::detail::address_mask;
        const auto kept = (head - reinterpret_cast<std::uintptr_t>(&wheel)) / sizeof after[0];
        for (std::size_t i = 0; i < after.size(); ++i)
            if (i != kept) set_word(wheel, i, before[i]);
        const std::string fault = check(wheel);
        for (std::size_t i = 0; i < after.size(); ++i) set_word(wheel, i, after[i]);
        CHECK(mentions(fault, "more than its count"));
        CHECK_EQ(check(wheel), "");
    }
}

Test(checking, a_skipped_tick_is_found) {
    const auto memory = std::make_unique<support::cleared<timer_wheel>>();
    timer_wheel& wheel = *memory;
    probe p;
    wheel.arm_after(p.t, 100);
    const auto before = words_of(wheel);
    wheel.advance(40);  // nothing to do: changes now() and no other word
    const auto after = words_of(wheel);
    const auto now = std::mismatch(before.begin(), before.end(), after.begin()).first;
    const auto i = static_cast<std::size_t>(now - before.begin());
    REQUIRE_EQ(after[i], 40);
    for (const jiffies wrong : {jiffies{101}, jiffies{5'000}, tvec::never}) {
        set_word(wheel, i, wrong);
        CHECK_NE(check(wheel), "");
    }
    set_word(wheel, i, 40);
    CHECK_EQ(check(wheel), "");
}

Test(checking, late_visits_of_the_overflow_are_found) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, jiffies{1} << 40);
    const std::string fault = fault_with(wheel, p.t, expires, jiffies{1} << 35);
    CHECK(mentions(fault, "of level 5 is visited at") && mentions(fault, "expires at 34359738368"));
}

Test(checking, a_timer_that_is_never_visited_is_found) {
    timer_wheel wheel;
    probe p;
    wheel.arm_at(p.t, tvec::never);
    CHECK(mentions(fault_with(wheel, p.t, expires, jiffies{5'000}), "hangs where none is visited"));
}

Test(checking, an_upper_visit_kept_too_late_is_found) {
    for (const unsigned power : {12u, 18u, 24u, 30u, 40u}) {
        timer_wheel wheel;
        probe p;
        wheel.arm_after(p.t, jiffies{1} << power);
        auto& all = of_wheel::ticks_above(wheel, 0);
        const jiffies visit = all.visit;
        CHECK_EQ(wheel.next_wakeup(), visit);
        const std::string fault = fault_with(wheel, all.visit, visit + 1);
        CHECK(mentions(fault, power == 12 ? "after that of slot" : "after one of those above"));
        CHECK(mentions(fault_with(wheel, all.must, visit + 1), "after the upper levels' visit"));
    }
}

Test(checking, missed_visits_of_upper_levels_are_found) {
    for (const auto& [power, levels] : {std::pair{18u, 1u}, {24u, 2u}, {30u, 2u}, {40u, 2u}}) {
        timer_wheel wheel;
        probe p;
        wheel.arm_after(p.t, jiffies{1} << power);
        const jiffies visit = wheel.next_wakeup().value();
        for (unsigned level = 1; level <= levels; ++level) {
            auto& next = of_wheel::ticks_above(wheel, level);
            CHECK_NE(fault_with(wheel, next.visit, visit + 1), "");
            CHECK_NE(fault_with(wheel, next.visit, visit - 1), "");
            CHECK_NE(fault_with(wheel, next.may, next.may - 1), "");
            CHECK(
                mentions(fault_with(wheel, next.must, visit + 1), "after the upper levels' visit"));
        }
        auto& last = of_wheel::ticks_above(wheel, levels);
        CHECK(mentions(fault_with(wheel, last.visit, visit + 1), "after that of slot"));
    }
    timer_wheel wheel;
    std::vector<tvec::timer> timers(10 * tvec::detail::geometry::chunk);
    for (tvec::timer& t : timers) wheel.arm_at(t, (jiffies{1} << 18) + 100);
    const jiffies begin = wheel.next_wakeup().value();
    CHECK(mentions(fault_with(wheel, of_wheel::ticks_above(wheel, 0).must, begin + 1),
                   "after one of those above"));
    CHECK(mentions(fault_with(wheel, of_wheel::ticks_above(wheel, 1).must, begin + 1),
                   "is too late"));
}

namespace {

// Ten chunks of timers in a slot of level 1, and a wheel that has not had to begin emptying it.
struct crowded {
    static constexpr jiffies entry = 4'096;
    crowded() : timers(10 * tvec::detail::geometry::chunk) {
        for (tvec::timer& t : timers) wheel.arm_at(t, entry + 100);
        REQUIRE_EQ(wheel.next_wakeup(), entry - 9);
    }
    timer_wheel wheel;
    std::vector<tvec::timer> timers;
};

}  // namespace

Test(checking, a_slot_not_emptied_in_time_is_found) {
    crowded c;
    const jiffies burst = c.entry - 9;
    CHECK(mentions(fault_with(c.wheel, of_wheel::wake{}, burst + 1),
                   "after the tick at which a slot must"));
    CHECK(mentions(fault_with(c.wheel, of_wheel::quiet{}, burst),
                   "after the tick at which a slot may"));
    of_wheel::of(c.wheel, of_wheel::wake{}) = burst + 1;
    CHECK(mentions(fault_with(c.wheel, of_wheel::ticks_above(c.wheel, 0).must, burst + 1),
                   "is too late for the 640"));
}

Test(checking, too_many_timers_in_slots_are_found) {
    crowded c;
    // As if the ticks until then had been left out.
    of_wheel::of(c.wheel, of_wheel::now{}) = c.entry - 8;
    of_wheel::of(c.wheel, of_wheel::quiet{}) = c.entry - 7;
    of_wheel::of(c.wheel, of_wheel::wake{}) = c.entry - 7;
    of_wheel::ticks_above(c.wheel, 0).must = c.entry - 7;
    CHECK(mentions(check(c.wheel), "640 timers are left in slot"));
    CHECK(mentions(check(c.wheel), "8 ticks before it has to be empty at 64 a tick"));
}

Test(checking, a_single_timer_too_many_is_found) {
    crowded c;
    tvec::timer one_more;
    c.wheel.arm_at(one_more, c.entry + 100);
    of_wheel::of(c.wheel, of_wheel::now{}) = c.entry - 10;
    of_wheel::of(c.wheel, of_wheel::quiet{}) = c.entry - 9;
    of_wheel::of(c.wheel, of_wheel::wake{}) = c.entry - 9;
    of_wheel::ticks_above(c.wheel, 0).must = c.entry - 9;
    CHECK(mentions(check(c.wheel), "641 timers are left in slot"));
}

Test(checking, work_that_a_budget_postponed_is_no_fault) {
    crowded c;
    CHECK(!c.wheel.advance(c.entry - 1, 10).caught_up);
    CHECK_EQ(check(c.wheel), "");
    CHECK(!c.wheel.advance(c.entry, 10).caught_up);
    CHECK_EQ(check(c.wheel), "");
}

Test(checking, faults_of_any_timer_are_found) {
    for (const unsigned power : {5u, 12u, 16u, 22u, 28u, 40u}) {
        timer_wheel wheel;
        const jiffies delay = jiffies{1} << power;
        auto all = support::probes(9);
        for (auto& p : all) wheel.arm_after(p->t, delay);
        for (auto& p : all) CHECK_NE(fault_with(wheel, p->t, expires, delay / 8), "");
    }
}

Test(checking, contradicting_ticks_are_found) {
    timer_wheel wheel(1'000);
    CHECK(mentions(fault_with(wheel, of_wheel::now{}, tvec::never), "is not a tick"));
    CHECK(mentions(fault_with(wheel, of_wheel::wake{}, 2'000), "after wake"));
    CHECK(mentions(fault_with(wheel, of_wheel::wake{}, 900), "before now"));
    CHECK(mentions(fault_with(wheel, of_wheel::quiet{}, 1'000), "no tick would be idle"));
}
