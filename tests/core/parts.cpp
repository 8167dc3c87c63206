// The parts of the wheel, each by itself: chain, slot, levels.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <random>
#include <vector>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/private_members.hpp"
#include "tvec/core/detail/levels.hpp"

using namespace tvec::detail;
using node = tvec::detail::link;
using tvec::jiffies;
namespace geometry = tvec::detail::geometry;

TestSuite(parts, .timeout = 60);

namespace {

constexpr wheel_tag tag = wheel_tag{7} << wheel_tag_shift;

struct chain_of_three {
    chain_of_three() {
        list.reset(sentinel);
        for (node& l : links) list.push(l, tag);
    }
    node sentinel = new_sentinel;
    chain list;
    std::array<node, 3> links;
};

// A slot and what it is a view of.
template <std::size_t N> struct slot_of {
    slot_of() {
        for (chain& c : all) c.reset(sentinel);
        for (node& l : links) all[count++ % all.size()].push(l, tag);
    }
    slot view() { return {all.data(), count, sentinel}; }
    bool is_empty() const {
        for (const chain& c : all)
            if (c.first() != &sentinel) return false;
        return true;
    }
    node sentinel = new_sentinel;
    link_count count = 0;
    std::array<chain, geometry::chains_per_slot> all;
    std::array<node, N> links;
};

// Returns the numbers of the links that pop_each has shown, of `n`, in its order.
template <std::size_t N>
std::vector<std::size_t> popped(slot_of<N>& from, std::size_t most, std::size_t expected) {
    std::vector<std::size_t> shown;
    const std::size_t told = from.view().pop_each(most, tag, [&](node& l) {
        REQUIRE(!l.linked());
        shown.push_back(static_cast<std::size_t>(&l - from.links.data()));
    });
    REQUIRE_EQ(told, expected);
    REQUIRE_EQ(shown.size(), expected);
    return shown;
}

}  // namespace

Test(parts, a_chain_pops_the_newest_first) {
    chain_of_three c;
    for (int i = 2; i >= 0; --i) CHECK(&c.list.pop() == &c.links[static_cast<std::size_t>(i)]);
    CHECK(c.list.first() == &c.sentinel);
    for (const node& l : c.links) CHECK(!l.linked());
}

Test(parts, a_link_leaves_its_chain_from_anywhere) {
    for (std::size_t gone = 0; gone < 3; ++gone) {
        chain_of_three c;
        CHECK(c.links[gone].linked_in(number_of(tag)));
        c.links[gone].unlink();
        CHECK(!c.links[gone].linked());
        for (std::size_t i = 3; i-- > 0;)
            if (i != gone) CHECK(&c.list.pop() == &c.links[i]);
        CHECK(c.list.first() == &c.sentinel);
    }
}

#ifndef NDEBUG
Test(parts, an_unlinked_link_points_to_no_memory) {
    chain_of_three c;
    node fresh;
    c.links[0].unlink();
    fresh.replace(c.links[1]);
    c.list.pop();
    for (const node& l : c.links) CHECK_EQ(reinterpret_cast<std::uintptr_t>(l.next), poison);
}
#endif

Test(parts, a_link_is_replaced_where_it_hangs) {
    for (std::size_t moved = 0; moved < 3; ++moved) {
        chain_of_three c;
        node fresh;
        fresh.replace(c.links[moved]);
        CHECK(!c.links[moved].linked());
        CHECK(fresh.linked_in(number_of(tag)));
        for (std::size_t i = 3; i-- > 0;)
            CHECK(&c.list.pop() == (i == moved ? &fresh : &c.links[i]));
    }
}

Test(parts, a_link_knows_its_wheel_and_no_other) {
    chain_of_three c;
    CHECK(!c.links[0].linked_in(8));
    CHECK(!node{}.linked_in(number_of(tag)));
}

Test(parts, a_chain_may_restart_at_any_link) {
    for (std::size_t at = 0; at < 3; ++at) {
        chain_of_three c;
        c.list.restart_at(c.links[at], tag);
        for (std::size_t i = at + 1; i-- > 0;) CHECK(&c.list.pop() == &c.links[i]);
        c.list.restart_at(c.sentinel, tag);
        CHECK(c.list.first() == &c.sentinel);
    }
    chain_of_three c;
    c.list.restart_at(c.links[1], tag);
    c.links[1].unlink();  // it knows where it hangs now
    CHECK(c.list.first() == &c.links[0]);
}

Test(parts, a_slot_pops_its_newest_links_first) {
    slot_of<19> s;
    CHECK(!s.view().empty());
    CHECK_EQ(s.count, 19);
    for (std::size_t i = 19; i-- > 0;) CHECK(s.view().pop() == &s.links[i]);
    CHECK(s.view().empty());
    CHECK(s.view().pop() == nullptr);
    CHECK_EQ(s.count, 0);
}

Test(parts, a_slot_is_empty_if_all_chains_are) {
    slot_of<8> s;
    for (std::size_t i = 0; i < 8; ++i) {
        CHECK(!s.view().empty());
        s.links[i].unlink();
    }
    CHECK(s.view().empty());
}

Test(parts, a_slot_pops_several_links_in_order) {
    for (std::size_t first = 0; first <= 20; ++first) {
        slot_of<19> s;
        const std::size_t most = std::min<std::size_t>(first, 19);
        const auto some = popped(s, first, most);
        for (std::size_t i = 0; i < most; ++i) REQUIRE_EQ(some[i], 18 - i);
        REQUIRE_EQ(s.count, 19 - most);
        for (std::size_t i = most; i < 19; ++i) s.links[18 - i].unlink();  // each from its place
        REQUIRE(s.is_empty());
    }
}

Test(parts, a_partly_popped_slot_may_be_filled_again) {
    for (std::size_t first = 0; first <= 19; ++first) {
        slot_of<19> s;
        popped(s, first, first);
        for (std::size_t i = 19 - first; i < 19; ++i)
            s.all[s.count++ % s.all.size()].push(s.links[i], tag);
        const auto rest = popped(s, 100, 19);
        for (std::size_t i = 0; i < 19; ++i) REQUIRE_EQ(rest[i], 18 - i);
        REQUIRE(s.is_empty());
    }
}

Test(parts, a_sorted_slot_stays_sorted_as_links_leave) {
    for (unsigned left = 0; left < 1u << 11; ++left) {
        slot_of<11> s;
        const auto rank = [&](const node& l) { return (&l - s.links.data()) * 7 % 11; };
        const auto before = [&](const node& a, const node& b) { return rank(a) < rank(b); };
        for (unsigned i = 0; i < 5; ++i)
            if (!(left >> i & 1)) s.links[i].unlink();
        s.view().sort(tag, before);
        for (unsigned i = 5; i < 11; ++i)
            if (!(left >> i & 1)) s.links[i].unlink();
        std::ptrdiff_t last = -1;
        for (int n = std::popcount(left); n > 0; --n) {
            const node* const l = s.view().pop();
            REQUIRE(l != nullptr && rank(*l) > last);
            last = rank(*l);
        }
        REQUIRE(s.view().empty());
        REQUIRE(s.view().pop() == nullptr);
    }
}

Test(parts, a_slot_finds_the_links_that_are_left) {
    for (unsigned left = 0; left < 1u << 11; ++left)
        for (const bool at_once : {false, true}) {
            slot_of<11> s;
            for (unsigned i = 0; i < 11; ++i)
                if (!(left >> i & 1)) s.links[i].unlink();
            const auto there = static_cast<std::size_t>(std::popcount(left));
            if (at_once)
                popped(s, there + 1, there);
            else
                for (std::size_t k = 0; k < there; ++k) REQUIRE(s.view().pop() != nullptr);
            REQUIRE(s.view().empty());
            REQUIRE(s.view().pop() == nullptr);
        }
}

Test(parts, an_inflated_count_causes_no_long_search) {
    constexpr link_count far_too_high = std::numeric_limits<link_count>::max() / 4 + 1;
    slot_of<1> s;
    s.count = far_too_high;
    CHECK_EQ(popped(s, 5, 1).size(), 1);
    CHECK_LE(far_too_high - 2 * geometry::chains_per_slot, s.count);
    s.count = far_too_high;
    CHECK(s.view().pop() == nullptr);
    CHECK_EQ(s.count, 0);
}

Test(parts, slots_and_wheels_are_as_small_as_promised) {
    if (sizeof(void*) == 8 && geometry::chains_per_slot != 1)
        CHECK_EQ(geometry::chains_per_slot * sizeof(chain), 64);
    const std::size_t most = geometry::chains_per_slot == 1 ? 12 : 82;
    CHECK_LE(sizeof(tvec::timer_wheel), most * 1024);
}

Test(parts, slots_have_as_many_chains_as_declared) {
    for (unsigned level = 0; level <= geometry::overflow; ++level) {
        levels all(tag);
        constexpr unsigned chains = geometry::chains_per_slot;
        const unsigned s = geometry::first_slot_of(level) + 3;
        std::array<node, 8> links;
        for (unsigned k = 0; k < chains; ++k) all.push(s, links[k]);
        CHECK_EQ(all.at_most(s), chains);
        for (unsigned k = 0; k < chains; ++k) CHECK(all.chain_of(s, k).first() == &links[k]);
        for (unsigned k = chains; k-- > 0;) CHECK(all[s].pop() == &links[k]);
    }
}

Test(parts, neighbouring_slots_share_no_chain) {
    for (unsigned level = 0; level <= geometry::overflow; ++level) {
        levels all(tag);
        std::array<node, 3 * 8> links;
        for (unsigned i = 0; i < 3; ++i) {
            const unsigned s = geometry::first_slot_of(level) + i;
            for (unsigned k = 0; k < 8; ++k) all.push(s, links[i * 8 + k]);
        }
        for (unsigned i = 0; i < 3; ++i) {
            const unsigned s = geometry::first_slot_of(level) + i;
            for (unsigned k = 8; k-- > 0;) CHECK(all[s].pop() == &links[i * 8 + k]);
            CHECK(all[s].empty());
        }
    }
}

Test(parts, all_that_hangs_is_shown_with_its_slot) {
    levels all(tag);
    std::array<node, (geometry::levels + 1) * 8> links;
    const auto slot_with = [](std::size_t i) {
        return geometry::first_slot_of(static_cast<unsigned>(i / 8)) + static_cast<unsigned>(i % 8);
    };
    for (std::size_t i = 0; i < links.size(); ++i) all.push(slot_with(i), links[i]);
    std::size_t shown = 0;
    all.for_each([&](unsigned s, const node& l) {
        ++shown;
        CHECK_EQ(s, slot_with(static_cast<std::size_t>(&l - links.data())));
    });
    CHECK_EQ(shown, links.size());
}

Test(parts, all_slots_are_empty_once_all_is_unlinked) {
    levels all(tag);
    std::array<node, 3> links;
    const std::array some{geometry::first_slot_of(geometry::root) + 7,
                          geometry::first_slot_of(2) + 3, geometry::never_slot};
    for (std::size_t i = 0; i < some.size(); ++i) {
        if (some[i] != geometry::never_slot) all.set_occupied(some[i]);
        all.push(some[i], links[i]);
    }
    std::size_t gone = 0;
    all.pop_all([&](node&) { ++gone; });
    CHECK_EQ(gone, 3);
    for (const unsigned s : some) {
        CHECK(all[s].empty());
        CHECK_EQ(all.at_most(s), 0);
        CHECK(s == geometry::never_slot || !all.occupied(s));
    }
    CHECK_EQ(all.next_occupied(geometry::root, 0), 0);
}

Test(parts, a_slot_found_empty_loses_bit_and_count) {
    levels all(tag);
    std::array<node, 2> links;
    const unsigned s = geometry::first_slot_of(1) + 7;
    all.set_occupied(s);
    for (node& l : links) all.push(s, l);
    CHECK(!all.settle_if_empty(s));
    links[0].unlink();
    CHECK(!all.settle_if_empty(s));
    CHECK(all.occupied(s));
    CHECK_EQ(all.at_most(s), 2);
    links[1].unlink();
    CHECK(all.settle_if_empty(s));
    CHECK(!all.occupied(s));
    CHECK_EQ(all.at_most(s), 0);
}

Test(parts, the_next_occupied_slot_is_found_across_wraps) {
    levels all(tag);
    for (unsigned level = 0; level < geometry::levels; ++level) {
        const unsigned ring = geometry::ring_of(level);
        for (unsigned from = 0; from < ring; from += 13)
            for (unsigned ahead = 1; ahead <= ring; ahead += 7) {
                node l;
                const jiffies tick = jiffies{from} << geometry::shift_of(level);
                const jiffies there = jiffies{from + ahead} << geometry::shift_of(level);
                const unsigned s = geometry::slot_at(level, there);
                all.set_occupied(s);
                all.push(s, l);
                REQUIRE_EQ(all.next_occupied(level, tick), ahead);
                l.unlink();
                REQUIRE_EQ(all.next_occupied(level, tick), 0);
                REQUIRE(!all.occupied(s));  // the stale bit is gone
            }
    }
}

namespace {

// The same by looking at one slot after the other.
unsigned next_by_search(const levels& all, unsigned level, jiffies tick) {
    for (unsigned ahead = 1; ahead <= geometry::ring_of(level); ++ahead)
        if (all.occupied(geometry::slot_at(level, tick + ahead * geometry::width_of(level))))
            return ahead;
    return 0;
}

}  // namespace

Test(parts, the_next_of_many_occupied_slots_is_found) {
    const std::size_t rounds = support::scaled(300);
    std::mt19937_64 random(5);
    for (std::size_t round = 0; round < rounds; ++round) {
        levels all(tag);
        std::vector<node> links(1 + random() % 12);
        for (node& l : links) {
            const unsigned level = static_cast<unsigned>(random()) % geometry::levels;
            const unsigned s = geometry::first_slot_of(level) +
                               static_cast<unsigned>(random()) % geometry::ring_of(level);
            all.set_occupied(s);
            all.push(s, l);
        }
        while (!links.empty()) {
            for (unsigned level = 0; level < geometry::levels; ++level)
                for (int i = 0; i < 20; ++i) {
                    const jiffies tick = random() >> (2 + random() % 50);
                    REQUIRE_EQ(all.next_occupied(level, tick), next_by_search(all, level, tick));
                }
            links.back().unlink();
            links.pop_back();
        }
    }
}

Test(parts, a_search_gives_up_after_some_empty_slots) {
    for (unsigned level = 0; level < geometry::levels; ++level) {
        const unsigned passed = 1 + levels::most_passed_over(level);
        levels all(tag);
        for (unsigned ahead = 1; ahead <= passed + 2; ++ahead) {
            node l;
            const unsigned s = geometry::slot_at(level, ahead * geometry::width_of(level));
            all.set_occupied(s);
            all.push(s, l);
            l.unlink();
        }
        CHECK_EQ(all.next_occupied(level, 0), passed + 1);  // empty, too
        CHECK_EQ(all.next_occupied(level, 0), passed + 2 <= 2 * passed ? 0 : passed + 2);
    }
    constexpr unsigned first = geometry::first_slot_of(geometry::overflow);
    const unsigned passed = 1 + levels::most_passed_over(geometry::overflow);
    levels all(tag);
    for (unsigned bit = 0; bit <= passed; ++bit) all.set_occupied(first + bit);
    CHECK_EQ(all.next_occupied_of_overflow(1), first + passed);
    CHECK_EQ(all.next_occupied_of_overflow(1), geometry::beyond);
}

Test(parts, a_bounded_count_keeps_its_current_chain) {
    levels all(tag);
    for (const unsigned s : {0U, geometry::beyond - 1})
        for (link_count more = 1; more <= 8; ++more) {
            link_count& count = (all.*member(support::of_wheel::counts{}))[s];
            const link_count before = count = ~link_count{0} / 2 + more;
            all.bound_count(s);
            CHECK_LT(count, before);
            CHECK_EQ(count % geometry::chains_per_slot, before % geometry::chains_per_slot);
        }
}

Test(parts, the_next_slot_of_the_overflow_is_found) {
    constexpr unsigned level = geometry::overflow, first = geometry::first_slot_of(level);
    constexpr jiffies lap = geometry::width_of(level);
    std::mt19937_64 random(6);
    levels all(tag);
    for (int round = 0; round < 3'000; ++round) {
        const jiffies number = random() % 200;
        const jiffies now = number * lap + 1 + random() % (lap - 1);
        std::vector<node> links(8);
        jiffies visit = tvec::never;
        unsigned expected = geometry::beyond;
        for (unsigned bit = 0; bit < 8; ++bit) {
            const bool may_hold = !(number >> bit & 1) ||
                                  geometry::slot_before(level, (number + 1) * lap) == first + bit;
            if (!may_hold || random() % 3 != 0) continue;
            all.set_occupied(first + bit);
            all.push(first + bit, links[bit]);
            if (geometry::visit_of(level, first + bit, now) >= visit) continue;
            visit = geometry::visit_of(level, first + bit, now);
            expected = first + bit;
        }
        REQUIRE_EQ(all.next_occupied_of_overflow(now), expected);
        if (expected == geometry::beyond) continue;
        links[expected - first].unlink();
        CHECK_NE(all.next_occupied_of_overflow(now), expected);
        REQUIRE(!all.occupied(expected));
        all.pop_all([](node&) {});
    }
}
