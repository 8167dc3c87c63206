// A debug build names a timer that was freed, overwritten or copied while it was linked: by its
// address, in one line, before a link of it is followed.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/private_members.hpp"
#include "tvec/core/timer_wheel.hpp"

using tvec::timer_wheel;
namespace geometry = tvec::detail::geometry;

TestSuite(misuse, .timeout = 60);

#ifndef NDEBUG  // these are assertions

namespace {

constexpr tvec::jiffies in_root = 10, in_level_1 = 1'000;

// Three timers in a chain of a slot, and more in the others. The last one is the first of its
// chain.
struct full_slot {
    explicit full_slot(tvec::jiffies tick) : due(tick) {
        for (std::size_t i = 0; i < 2 * stride + 1; ++i) wheel.arm_at(timers[i], due);
    }
    tvec::timer& last() { return timers[0]; }
    tvec::timer& middle() { return timers[stride]; }
    tvec::timer& first() { return timers[2 * stride]; }

    tvec::jiffies due;
    static constexpr std::size_t stride = geometry::chains_per_slot;
    timer_wheel wheel;
    std::array<tvec::timer, 17> timers;
};

void overwrite(tvec::timer& t, int byte) { std::memset(static_cast<void*>(&t), byte, sizeof t); }

std::string address_of(const tvec::timer& t) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%p", static_cast<const void*>(&t));
    return text.data();
}

// Returns whether `act` ends the program with one line, which names a timer.
template <class F> bool names(const tvec::timer& t, F act) {
    const std::string said = support::last_words(act);
    if (said.starts_with("tvec: the timer at 0x") && said.find(address_of(t)) != said.npos &&
        std::count(said.begin(), said.end(), '\n') == 1 && said.back() == '\n')
        return true;
    std::fprintf(stderr, "said of %s: %s\n", address_of(t).c_str(), said.c_str());
    return false;
}

constexpr std::array damages{0x00, 0xdd};  // zeroed, or given to somebody else

// Returns whether act(full_slot) names its middle timer, after any damage to that.
template <class F> bool finds_the_middle_one(tvec::jiffies tick, F act) {
    return std::all_of(damages.begin(), damages.end(), [&](int byte) {
        full_slot s(tick);
        return names(s.middle(), [&] {
            overwrite(s.middle(), byte);
            act(s);
        });
    });
}

}  // namespace

Test(misuse, a_leaving_neighbour_reveals_a_damaged_timer) {
    for (const tvec::jiffies tick : {in_root, in_level_1}) {
        CHECK(finds_the_middle_one(tick, [](full_slot& s) { s.first().unlink(); }));
        CHECK(finds_the_middle_one(tick, [](full_slot& s) { s.last().unlink(); }));
        CHECK(finds_the_middle_one(tick, [](full_slot& s) { std::destroy_at(&s.first()); }));
        CHECK(finds_the_middle_one(tick, [](full_slot& s) { s.wheel.arm_at(s.first(), 1); }));
        CHECK(finds_the_middle_one(tick, [](full_slot& s) { tvec::timer(std::move(s.first())); }));
        CHECK(finds_the_middle_one(tick, [](full_slot& s) { tvec::timer(std::move(s.last())); }));
    }
}

Test(misuse, a_visit_reveals_a_damaged_timer) {
    for (const tvec::jiffies tick : {in_root, in_level_1})
        CHECK(finds_the_middle_one(tick, [](full_slot& s) { s.wheel.advance(s.due); }));
}

Test(misuse, walks_drains_and_destructors_reveal_damaged_timers) {
    for (const tvec::jiffies tick : {in_root, in_level_1}) {
        CHECK(finds_the_middle_one(tick,
                                   [](full_slot& s) { s.wheel.for_each_pending([](auto&) {}); }));
        CHECK(finds_the_middle_one(tick, [](full_slot& s) {
            s.first().cancel();
            s.wheel.for_each_pending([](auto&) {});
        }));
        CHECK(finds_the_middle_one(tick, [](full_slot& s) { s.wheel.next_expiry(); }));
        CHECK(finds_the_middle_one(tick, [](full_slot& s) { s.wheel.drain([](tvec::timer&) {}); }));
        CHECK(finds_the_middle_one(tick, [](full_slot& s) { std::destroy_at(&s.wheel); }));
    }
}

Test(misuse, arming_before_a_damaged_timer_reveals_it) {
    for (const tvec::jiffies tick : {in_root, in_level_1})
        for (const int byte : damages) {
            full_slot s(tick);
            CHECK(names(s.first(), [&] {
                std::array<tvec::timer, 8> more;
                overwrite(s.first(), byte);
                for (tvec::timer& t : more) s.wheel.arm_at(t, s.due);
            }));
        }
}

Test(misuse, a_damaged_timer_heading_a_chain_is_named) {
    for (const tvec::jiffies tick : {in_root, in_level_1})
        for (const int byte : damages) {
            const auto ends = [&](auto act) {
                full_slot s(tick);
                return names(s.first(), [&] {
                    overwrite(s.first(), byte);
                    act(s);
                });
            };
            CHECK(ends([](full_slot& s) { s.wheel.advance(s.due); }));
            CHECK(ends([](full_slot& s) { s.wheel.for_each_pending([](tvec::timer&) {}); }));
            CHECK(ends([](full_slot& s) { s.wheel.next_expiry(); }));
            CHECK(ends([](full_slot& s) { s.middle().unlink(); }));
        }
}

Test(misuse, a_linked_timers_copy_is_named_when_unlinked) {
    full_slot s(in_root);
    for (tvec::timer* original : {&s.first(), &s.middle(), &s.last()}) {
        tvec::timer copy;
        std::memcpy(static_cast<void*>(&copy), static_cast<const void*>(original), sizeof copy);
        CHECK(names(copy, [&] { copy.unlink(); }));
        overwrite(copy, 0);
    }
}

Test(misuse, a_timer_overwritten_by_another_is_named) {
    full_slot s(in_root), other(in_root);
    CHECK(names(s.middle(), [&] {
        std::memcpy(static_cast<void*>(&s.middle()), static_cast<const void*>(&other.middle()),
                    sizeof(tvec::timer));
        s.wheel.advance(s.due);
    }));
}

// Copies of the library give their wheels the same numbers.
Test(misuse, a_timer_linked_by_another_library_is_named) {
    using namespace support::of_timer;
    constexpr std::uint64_t address = tvec::detail::address_mask;
    full_slot s(in_root);
    timer_wheel wheel;
    tvec::timer here;
    wheel.arm_at(here, in_root);
    const std::uint64_t number = read<std::uint64_t>(here, back) & ~address;
    for (tvec::timer* t : {&s.first(), &s.middle(), &s.last()}) {
        const std::string said = support::last_words([&] {
            write(*t, back, (read<std::uint64_t>(*t, back) & address) | number);
            wheel.arm_at(*t, in_root + 1);
        });
        CHECK(said.starts_with("tvec: the timer at " + address_of(*t) + " is armed while it is"));
    }
}

#endif
