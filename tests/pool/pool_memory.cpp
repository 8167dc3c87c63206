// A pool's memory: slabs never move, nodes are reused, and no handle is given out twice.
#include <set>
#include <vector>

#include "support/check.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::pooled;
using tvec::timeout_handle, tvec::timeout_state, tvec::schedule_error;
using tvec::detail::timeout_reservation, tvec::detail::timeout_core, tvec::detail::timeout_slabs;

TestSuite(pool_memory, .timeout = 60);

Test(pool_memory, a_node_is_two_cache_lines) {
    static_assert(sizeof(tvec::detail::timeout_node) == 128);
    static_assert(alignof(tvec::detail::timeout_node) == 64);
    pooled on;
    CHECK_EQ(on.pool.capacity(), 0);
}

Test(pool_memory, nodes_are_used_again_before_there_are_more) {
    pooled on;
    for (int round = 0; round < 50; ++round) {
        std::vector<timeout_handle> all;
        for (int i = 0; i < 64; ++i) all.push_back(on.pool.schedule(1ms, [] {}).handle);
        for (int i = 0; i < 32; ++i) on.pool.cancel(all[static_cast<std::size_t>(i)]);
        on.pass(1ms);
    }
    CHECK_EQ(on.pool.capacity(), 64);
    for (int i = 0; i < 65; ++i) on.pool.schedule(1ms, [] {});
    CHECK_EQ(on.pool.capacity(), 128);
}

Test(pool_memory, a_handle_beyond_the_nodes_is_unknown) {
    pooled large, small;
    std::vector<timeout_handle> all;
    for (int i = 0; i < 1'000; ++i) all.push_back(large.pool.schedule(1h, [] {}).handle);
    const auto expect_unknown = [&](std::size_t from) {
        for (std::size_t i = from; i < all.size(); ++i) {
            CHECK_EQ(small.pool.state(all[i]), timeout_state::unknown);
            CHECK(!small.pool.cancel(all[i]));
        }
    };
    expect_unknown(0);
    small.pool.schedule(1h, [] {});
    expect_unknown(small.pool.capacity());
    CHECK_EQ(small.pool.pending(), 1);
}

Test(pool_memory, functions_do_not_move_while_the_pool_grows) {
    struct self_aware {
        std::set<const void*>* seen;
        void operator()() { seen->insert(this); }
    };
    pooled on;
    std::set<const void*> seen;
    on.pool.schedule_every(1ms, self_aware{&seen});
    for (int i = 0; i < 20; ++i) {
        for (int j = 0; j < 1'000; ++j) on.pool.schedule(1h, [] {});
        on.pass(1ms);
    }
    CHECK_EQ(on.pool.count().fired, 20);
    CHECK_EQ(seen.size(), 1);
}

Test(pool_memory, memory_counts_all_slabs_and_their_directory) {
    constexpr std::size_t node = sizeof(tvec::detail::timeout_node);
    pooled on;
    on.pool.schedule(1h, [] {});
    const std::size_t directory = on.pool.memory() - 64 * node;
    while (on.pool.pending() != 512) on.pool.schedule(1h, [] {});  // slabs that fill the directory
    CHECK_EQ(on.pool.memory(), directory + 512 * node);
}

Test(pool_memory, reserve_makes_room_and_refuses_the_absurd) {
    pooled on;
    CHECK(on.pool.reserve(1'000));
    CHECK_GE(on.pool.capacity(), 1'000);
    const std::size_t capacity = on.pool.capacity();
    CHECK(on.pool.reserve(10));
    for (int i = 0; i < 1'000; ++i) on.pool.schedule(1h, [] {});
    CHECK_EQ(on.pool.capacity(), capacity);
    CHECK(!on.pool.reserve(pooled::pool_type::unlimited));
    CHECK_EQ(on.pool.capacity(), capacity);
}

Test(pool_memory, cancelled_timeouts_give_back_their_node_at_once) {
    pooled on;
    on.pool.cancel(on.pool.schedule(1h, [] {}).handle);
    const std::size_t before = on.pool.memory();
    CHECK_GE(before, 64 * 128);
    for (int i = 0; i < 1'000'000; ++i) on.pool.cancel(on.pool.schedule(1h, [] {}).handle);
    CHECK_EQ(on.pool.memory(), before);
    CHECK_EQ(on.pool.capacity(), 64);
}

Test(pool_memory, trim_gives_back_the_slabs_that_nothing_uses) {
    pooled on;
    std::vector<timeout_handle> all;
    for (int i = 0; i < 640; ++i) all.push_back(on.pool.schedule(1h, [] {}).handle);
    CHECK_EQ(on.pool.trim(), 0);
    for (std::size_t i = 0; i < 640; ++i)
        if (i != 100 && i != 639) on.pool.cancel(all[i]);
    const std::size_t before = on.pool.memory();
    CHECK_EQ(on.pool.trim(), 512);
    CHECK_EQ(on.pool.memory(), before - 512 * 128);
    CHECK_EQ(on.pool.capacity(), 128);
    CHECK_EQ(on.pool.trim(), 0);
    CHECK_EQ(on.pool.state(all[100]), timeout_state::pending);
    CHECK_EQ(check(on.timers.wheel()), "");
    CHECK_EQ(on.pass(1h), 2);
    CHECK_EQ(on.pool.trim(), 128);
    CHECK_EQ(on.pool.capacity(), 0);
}

Test(pool_memory, a_handle_into_a_trimmed_slab_is_unknown) {
    pooled on;
    std::set<timeout_handle> ever;
    for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < 200; ++i) {
            const auto h = on.pool.schedule(1ms, [] {}).handle;
            CHECK(ever.insert(h).second);
        }
        on.pass(1ms);
        REQUIRE_EQ(on.pool.trim(), 256);
        for (const timeout_handle h : ever) CHECK_EQ(on.pool.state(h), timeout_state::unknown);
        on.pool.reserve(1);
        for (const timeout_handle h : ever) {
            CHECK_EQ(on.pool.state(h), timeout_state::unknown);
            CHECK(!on.pool.cancel(h));
        }
    }
}

Test(pool_memory, every_node_is_found_after_any_trims) {
    pooled on;
    std::vector<timeout_handle> all;
    for (int round = 0; round < 30; ++round) {
        for (int i = 0; i < 300; ++i) all.push_back(on.pool.schedule(1h, [] {}).handle);
        // As many as whole slabs hold, from a different place each time.
        const std::size_t from = static_cast<std::size_t>(round) * 37 % (all.size() - 200);
        for (std::size_t i = from; i < from + 200; ++i) CHECK(on.pool.cancel(all[i]));
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(from),
                  all.begin() + static_cast<std::ptrdiff_t>(from + 200));
        on.pool.trim();
        for (const timeout_handle h : all) REQUIRE_EQ(on.pool.state(h), timeout_state::pending);
        REQUIRE_EQ(on.pool.pending(), all.size());
        REQUIRE_EQ(check(on.timers.wheel()), "");
    }
    CHECK_EQ(on.pass(1h), all.size());
}

namespace {

// A core whose nodes have nearly exhausted their generations.
struct worn {
    tvec::timer_wheel wheel;
    timeout_core core{wheel, ~std::size_t{0}, timeout_slabs::last_generation - 2};

    timeout_handle schedule(tvec::jiffies delay) {
        timeout_reservation reservation(core, true);
        reservation.node().hold([] {});
        return reservation.admit(wheel.now() + delay).handle;
    }
};

}  // namespace

Test(pool_memory, indices_of_trimmed_slabs_are_reused) {
    tvec::timer_wheel wheel;
    timeout_core core(wheel, ~std::size_t{0});
    for (int round = 0; round < 10; ++round) {
        CHECK(core.slabs().reserve(640));
        CHECK_EQ(core.slabs().indices(), 640);
        CHECK_EQ(core.slabs().trim(), 640);
    }
}

Test(pool_memory, a_node_out_of_generations_is_retired) {
    worn on;
    std::set<timeout_handle> ever;
    for (int i = 0; i < 128; ++i) {  // twice each node
        const timeout_handle h = on.schedule(1);
        CHECK(ever.insert(h).second);
        CHECK(on.core.cancel(h));
        CHECK_EQ(on.core.state(h), timeout_state::cancelled);
    }
    CHECK_EQ(on.core.slabs().indices(), 64);
    CHECK_EQ(on.core.slabs().capacity(), 0);
    CHECK(ever.insert(on.schedule(1)).second);  // in a new slab
    CHECK_EQ(on.core.slabs().indices(), 128);
    CHECK_EQ(on.core.slabs().capacity(), 64);
}

Test(pool_memory, a_slab_of_retired_nodes_is_freed) {
    worn on;
    for (int i = 0; i < 128; ++i) on.core.cancel(on.schedule(1));
    CHECK_EQ(on.core.slabs().trim(), 0);  // room for no timeout, but memory
    CHECK_EQ(on.core.slabs().at(0), nullptr);
    const timeout_handle h = on.schedule(1);
    CHECK_EQ(on.core.slabs().indices(), 128);
    CHECK_EQ(on.core.state(h), timeout_state::pending);
    on.wheel.advance(1);
    CHECK_EQ(on.core.state(h), timeout_state::fired);
}

Test(pool_memory, a_slab_with_some_retired_nodes_is_freed) {
    worn on;
    const timeout_handle h = on.schedule(1);
    on.core.cancel(h);
    on.core.cancel(on.schedule(1));  // the same node, which is exhausted now
    CHECK_EQ(on.core.slabs().capacity(), 63);
    CHECK_EQ(on.core.slabs().trim(), 63);
    CHECK_EQ(on.core.slabs().capacity(), 0);
    CHECK_EQ(on.core.state(h), timeout_state::unknown);
    on.schedule(1);
    CHECK_EQ(on.core.slabs().indices(), 128);
}
