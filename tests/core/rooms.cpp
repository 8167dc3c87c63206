// The parts of the wheel, each by itself: chain, slot, levels.
#include <array>
#include <bit>
#include <vector>

#include "support/check.hpp"
#include "tvec/detail/core/levels.hpp"

using namespace tvec::detail;
using node = tvec::detail::link;
using tvec::jiffies;

TestSuite(rooms, .timeout = 60);

namespace {

constexpr owner_tag owner = owner_tag{7} << owner_shift;

struct chain_of_three {
    chain_of_three() {
        list.reset(sentinel);
        for (node& l : links) list.push(l, owner);
    }
    node sentinel;
    chain list;
    std::array<node, 3> links;
};

}  // namespace

Test(rooms, a_chain_pops_the_newest_first) {
    chain_of_three c;
    for (int i = 2; i >= 0; --i) CHECK(&c.list.pop() == &c.links[static_cast<std::size_t>(i)]);
    CHECK(c.list.first() == &c.sentinel);
    for (const node& l : c.links) CHECK(!l.linked());
}

Test(rooms, a_link_leaves_its_chain_from_anywhere) {
    for (std::size_t gone = 0; gone < 3; ++gone) {
        chain_of_three c;
        CHECK(c.links[gone].linked_in(number_of(owner)));
        c.links[gone].unlink();
        CHECK(!c.links[gone].linked());
        for (std::size_t i = 3; i-- > 0;)
            if (i != gone) CHECK(&c.list.pop() == &c.links[i]);
        CHECK(c.list.first() == &c.sentinel);
    }
}

#ifndef NDEBUG
Test(rooms, a_link_that_hangs_nowhere_points_to_no_memory) {
    chain_of_three c;
    node fresh;
    c.links[0].unlink();
    fresh.replace(c.links[1]);
    c.list.pop();
    for (const node& l : c.links) CHECK_EQ(reinterpret_cast<std::uintptr_t>(l.next), poison);
}
#endif

Test(rooms, a_link_is_replaced_where_it_hangs) {
    for (std::size_t moved = 0; moved < 3; ++moved) {
        chain_of_three c;
        node fresh;
        fresh.replace(c.links[moved]);
        CHECK(!c.links[moved].linked());
        CHECK(fresh.linked_in(number_of(owner)));
        for (std::size_t i = 3; i-- > 0;)
            CHECK(&c.list.pop() == (i == moved ? &fresh : &c.links[i]));
    }
}

Test(rooms, a_link_knows_its_owner_and_no_other) {
    chain_of_three c;
    CHECK(!c.links[0].linked_in(8));
    CHECK(!node{}.linked_in(number_of(owner)));
}

Test(rooms, a_chain_takes_over_another) {
    chain_of_three c;
    chain to;
    to.reset(c.sentinel);
    to.take(c.list, c.sentinel, owner);
    CHECK(c.list.first() == &c.sentinel);
    c.links[1].unlink();
    CHECK(&to.pop() == &c.links[2]);
    CHECK(&to.pop() == &c.links[0]);
}

Test(rooms, a_slot_pops_in_the_reverse_order_of_arrival) {
    node sentinel;
    std::array<node, 11> links;
    slot s;
    s.reset(sentinel);
    CHECK(s.empty(sentinel));
    std::uint64_t count = 0;
    for (node& l : links) s.push(l, owner, count);
    CHECK_EQ(count, 11);
    for (std::size_t i = links.size(); i-- > 0;) CHECK(s.pop(sentinel, count) == &links[i]);
    CHECK(s.pop(sentinel, count) == nullptr);
    CHECK_EQ(count, 0);
}

Test(rooms, a_slot_finds_what_is_left_after_others_have_unlinked_themselves) {
    for (unsigned left = 0; left < 1u << 9; ++left) {
        node sentinel;
        std::array<node, 9> links;
        slot s;
        s.reset(sentinel);
        std::uint64_t count = 0;
        for (node& l : links) s.push(l, owner, count);
        for (unsigned i = 0; i < 9; ++i)
            if (!(left >> i & 1)) links[i].unlink();
        for (int k = std::popcount(left); k != 0; --k) REQUIRE(s.pop(sentinel, count) != nullptr);
        REQUIRE(s.pop(sentinel, count) == nullptr);
        REQUIRE(s.empty(sentinel));
    }
}

Test(rooms, a_slot_takes_over_another) {
    node sentinel;
    std::array<node, 6> links;
    slot from, to;
    from.reset(sentinel);
    to.reset(sentinel);
    std::uint64_t count = 0;
    for (node& l : links) from.push(l, owner, count);
    to.take(from, sentinel, owner);
    CHECK(from.empty(sentinel));
    for (std::size_t i = links.size(); i-- > 0;) CHECK(to.pop(sentinel, count) == &links[i]);
    CHECK(to.empty(sentinel));
}

Test(rooms, a_slot_is_taken_over_with_its_count) {
    levels all(owner);
    std::array<node, 6> links;
    for (node& l : links) all.push(3, l);
    all.take(7, 3);
    CHECK_EQ(all.at_most(3), 0);
    CHECK_EQ(all.at_most(7), links.size());
}

Test(rooms, the_next_occupied_slot_is_found_around_the_ring) {
    for (unsigned level = 0; level < tvec::geometry::levels; ++level) {
        const unsigned ring = tvec::geometry::ring_of(level);
        for (unsigned from = 0; from < ring; from += 13)
            for (unsigned ahead = 1; ahead <= ring; ahead += 7) {
                levels all(owner);
                node l;
                const jiffies tick = jiffies{from} << tvec::geometry::shift_of(level);
                const jiffies there = jiffies{from + ahead} << tvec::geometry::shift_of(level);
                const unsigned s = tvec::geometry::slot_at(level, there);
                all.set_occupied(s);
                all.push(s, l);
                REQUIRE_EQ(all.next_occupied(level, tick), ahead);
                l.unlink();
                REQUIRE_EQ(all.next_occupied(level, tick), 0);
                REQUIRE(!all.occupied(s));  // the stale bit is gone
            }
    }
}
