// Destroying a timer cancels it. Moving it keeps its place. Timer and wheel may be destroyed
// in either order. Arming a timer on wheel B that is linked in wheel A moves it.
#include <set>
#include <stdexcept>
#include <utility>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(lifetime, .timeout = 60);

Test(lifetime, a_fresh_timer_is_not_pending) {
    const tvec::timer t;
    CHECK(!t.pending());
    CHECK_EQ(t.expires(), 0);
    static constinit tvec::timer without_a_constructor_call;
    CHECK(!without_a_constructor_call.cancel());
}

namespace {

// Initialized from {}, which an explicit constructor forbids. g++ accepts it for members that an
// aggregate leaves out, and clang does not.
template <class T>
concept made_of_nothing = requires(void (*take)(const T&)) {
    take({});
};

}  // namespace

Test(lifetime, aggregates_may_hold_a_wheel) {
    static_assert(made_of_nothing<timer_wheel> && made_of_nothing<tvec::timer>);
    struct loop {
        timer_wheel wheel;
        int turns = 0;
    };
    const loop l{.turns = 3};
    const timer_wheel several[2] = {};
    CHECK_EQ(l.turns, 3);
    CHECK_EQ(l.wheel.now() + several[1].now(), 0);
}

Test(lifetime, a_timer_without_a_callback_expires_silently) {
    timer_wheel wheel;
    tvec::timer none, null{nullptr};
    wheel.arm_after(none, 5);
    wheel.arm_after(null, 5);
    CHECK_EQ(wheel.advance(5).fired, 2);
    CHECK(!none.pending() && !null.pending());
}

Test(lifetime, a_destroyed_timer_does_not_fire) {
    for (const jiffies delay : {1, 10, 300, 70'000, 1 << 30}) {
        timer_wheel wheel;
        auto neighbours = support::probes(9);
        for (auto& p : neighbours) wheel.arm_after(p->t, delay);
        for (std::size_t i = 0; i < 9; i += 2) neighbours[i].reset();
        CHECK_EQ(check(wheel), "");
        CHECK_EQ(wheel.count_pending(), 4);
        CHECK_EQ(wheel.advance(delay).fired, 4);
    }
}

Test(lifetime, an_idle_timer_may_be_destroyed_while_linked) {
    timer_wheel wheel;
    {
        probe p;
        wheel.arm_after(p.t, 300);
        p.t.cancel();
    }
    CHECK_EQ(check(wheel), "");
    CHECK_EQ(wheel.advance(1'000).fired, 0);
    CHECK_EQ(wheel.count().dropped, 0);
}

Test(lifetime, timers_may_outlive_the_wheel) {
    auto all = support::probes(50);
    {
        timer_wheel wheel;
        for (std::size_t i = 0; i < all.size(); ++i)
            wheel.arm_after(all[i]->t, (jiffies{1} << i % 36) + i);
        all[3]->t.cancel();
    }
    timer_wheel other;
    for (auto& p : all) {
        CHECK(!p->t.pending());
        CHECK(!p->t.cancel());
        CHECK(!other.arm_after(p->t, 5));
    }
    CHECK_EQ(other.advance(5).fired, all.size());
}

Test(lifetime, a_wheel_may_be_destroyed_amid_unfinished_work) {
    auto all = support::probes(10);
    {
        timer_wheel stopped_by_budget, stopped_by_exception;
        for (std::size_t i = 0; i < 5; ++i) stopped_by_budget.arm_after(all[i]->t, 10);
        for (std::size_t i = 5; i < 10; ++i) {
            stopped_by_exception.arm_after(all[i]->t, 10);
            all[i]->then = [](timer_wheel&) { throw std::runtime_error("callback"); };
        }
        stopped_by_budget.advance(10, 1);
        try {
            stopped_by_exception.advance(10);
        } catch (const std::runtime_error&) {
        }
    }
    CHECK_EQ(support::count_fired(all), 2);
    for (auto& p : all) CHECK(!p->t.pending());
}

Test(lifetime, a_moved_timer_keeps_its_place_and_deadline) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : {jiffies{1}, jiffies{500}, jiffies{70'000}, jiffies{1} << 34}) {
            timer_wheel wheel(start);
            auto neighbours = support::probes(8);
            probe from;
            for (auto& p : neighbours) wheel.arm_after(p->t, delay);
            wheel.arm_after(from.t, delay);
            probe to(std::move(from));
            CHECK(!from.t.pending());
            CHECK(to.t.pending());
            CHECK_EQ(to.t.expires(), start + delay);
            REQUIRE_EQ(check(wheel), "");
            wheel.advance(start + delay);
            CHECK(to.fired_only_at(start + delay));
            CHECK_EQ(from.fired(), 0);
            CHECK_EQ(support::count_fired(neighbours), 8);
        }
}

Test(lifetime, an_idle_timer_may_be_moved_while_linked) {
    timer_wheel wheel;
    probe cancelled, pending;
    wheel.arm_after(cancelled.t, 100);
    cancelled.t.cancel();
    probe elsewhere(std::move(cancelled));
    CHECK(!elsewhere.t.pending());
    wheel.arm_after(pending.t, 200);
    elsewhere = std::move(pending);
    CHECK(elsewhere.t.pending());
    CHECK_EQ(check(wheel), "");
    wheel.advance(1'000);
    CHECK(elsewhere.fired_only_at(200));
    CHECK_EQ(wheel.count().dropped, 0);
}

Test(lifetime, two_pending_timers_may_be_swapped) {
    timer_wheel wheel;
    auto all = support::probes(2);
    wheel.arm_after(all[0]->t, 100);
    wheel.arm_after(all[1]->t, 5'000);
    std::swap(*all[0], *all[1]);
    CHECK_EQ(check(wheel), "");
    wheel.advance(10'000);
    CHECK(all[0]->fired_only_at(5'000));
    CHECK(all[1]->fired_only_at(100));
}

Test(lifetime, objects_with_timers_may_live_in_growing_vectors) {
    struct entity {
        void on_fire() { ++fired; }
        int fired = 0;
        tvec::timer t{tvec::call<&entity::t, &entity::on_fire>};
    };
    timer_wheel wheel;
    std::vector<entity> entities;
    for (int i = 0; i < 1'000; ++i) {
        entities.emplace_back();
        wheel.arm_after(entities.back().t, 100 + static_cast<jiffies>(i));
    }
    CHECK_EQ(check(wheel), "");
    entities.erase(entities.begin() + 10, entities.begin() + 20);
    CHECK_EQ(check(wheel), "");
    wheel.advance(2'000);
    for (const entity& e : entities) CHECK_EQ(e.fired, 1);
}

Test(lifetime, move_assignment_cancels_what_was_there) {
    timer_wheel wheel;
    int first = 0, second = 0;
    struct counter {
        void on_fire() { ++*n; }
        int* n;
        tvec::timer t{tvec::call<&counter::t, &counter::on_fire>};
    };
    counter a{&first}, b{&second};
    wheel.arm_after(a.t, 10);
    wheel.arm_after(b.t, 20);
    a = std::move(b);
    CHECK_EQ(check(wheel), "");
    CHECK_EQ(wheel.count_pending(), 1);
    wheel.advance(100);
    CHECK_EQ(first, 0);
    CHECK_EQ(second, 1);
}

Test(lifetime, move_assignment_brings_the_callback_along) {
    static int mine = 0, brought = 0;
    timer_wheel wheel;
    tvec::timer a{[](timer_wheel&, tvec::timer&) { ++mine; }};
    tvec::timer b{[](timer_wheel&, tvec::timer&) { ++brought; }};
    wheel.arm_after(b, 10);
    a = std::move(b);
    wheel.advance(10);
    CHECK_EQ(mine, 0);
    CHECK_EQ(brought, 1);
}

Test(lifetime, assigning_a_timer_to_itself_does_nothing) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, 10);
    tvec::timer& same = p.t;
    p.t = std::move(same);
    CHECK(p.t.pending());
    wheel.advance(10);
    CHECK_EQ(p.fired(), 1);
}

Test(lifetime, a_callback_may_move_its_own_timer) {
    timer_wheel wheel;
    std::unique_ptr<probe> moved;
    auto p = std::make_unique<probe>();
    p->then = [&](timer_wheel&) { moved = std::make_unique<probe>(std::move(*p)); };
    wheel.arm_after(p->t, 10);
    wheel.advance(10);
    REQUIRE(moved != nullptr);
    wheel.arm_after(moved->t, 5);
    moved->then = nullptr;
    wheel.advance(15);
    CHECK_EQ(moved->ticks.back(), 15);
}

Test(lifetime, arming_on_another_wheel_moves_a_pending_timer) {
    for (const jiffies delay : {1, 99, 100, 101, 5'000, 1 << 20}) {
        timer_wheel a, b;
        probe p;
        a.arm_after(p.t, 100);
        CHECK(b.arm_after(p.t, delay));
        CHECK_EQ(a.count_pending(), 0);
        CHECK_EQ(b.count_pending(), 1);
        CHECK_EQ(a.advance(1 << 21).fired, 0);
        CHECK_EQ(p.fired(), 0);
        b.advance(1 << 21);
        CHECK(p.fired_only_at(delay));
        CHECK_EQ(check(a) + check(b), "");
    }
}

Test(lifetime, arming_an_idle_timer_moves_it_between_wheels) {
    timer_wheel a;
    probe p;
    {
        timer_wheel b;
        a.arm_after(p.t, 100);
        p.t.cancel();
        CHECK(!b.arm_after(p.t, 200));
        CHECK_EQ(a.advance(1'000).fired, 0);
        CHECK_EQ(a.count().dropped, 0);
        b.advance(150);
        CHECK(p.t.pending());
    }
    CHECK(!p.t.pending());
    a.arm_after(p.t, 10);
    a.advance(2'000);
    CHECK(p.fired_only_at(1'010));
}

Test(lifetime, arming_with_slack_moves_timers_between_wheels) {
    timer_wheel a, b;
    probe p;
    a.arm_after(p.t, 100);
    CHECK(b.arm_within(p.t, 50, 150));
    CHECK_EQ(a.advance(1'000).fired, 0);
    CHECK_EQ(b.advance(1'000).fired, 1);
}

namespace {

using tvec::detail::wheel_number;

// Claims numbers until they are shared.
std::vector<std::unique_ptr<wheel_number>> all_numbers() {
    std::vector<std::unique_ptr<wheel_number>> numbers;
    do numbers.push_back(std::make_unique<wheel_number>());
    while (tvec::detail::number_of(numbers.back()->tag()) != wheel_number::shared);
    return numbers;
}

}  // namespace

Test(lifetime, wheels_have_distinct_numbers_while_these_last) {
    for (int round = 0; round < 2; ++round) {  // each gives back what it has claimed
        std::set<std::uint16_t> seen{wheel_number::nobody, wheel_number::unused};
        const auto numbers = all_numbers();
        for (const auto& n : numbers) seen.insert(tvec::detail::number_of(n->tag()));
        CHECK_EQ(seen.size(), tvec::detail::last_wheel_id + 1);
        CHECK_EQ(numbers.size(), tvec::detail::last_wheel_id - 1);
        CHECK_EQ(numbers.back()->in_place(), wheel_number::unused);
    }
}

Test(lifetime, timers_move_between_wheels_of_equal_number) {
    const auto numbers = all_numbers();
    timer_wheel a, b;
    probe p;
    a.arm_after(p.t, 10);
    b.arm_after(p.t, 20);
    CHECK_EQ(a.advance(100).fired, 0);
    CHECK_EQ(b.advance(100).fired, 1);
}
