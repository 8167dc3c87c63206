// for_each_pending: visits each pending timer once and ends when told to. The visitor may cancel,
// unlink, move, destroy and arm any timer. The models search what it may do in any order.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(walking, .timeout = 60);

namespace {

// A wheel with about three timers for each edge, on all levels and beyond.
struct filled {
    explicit filled(jiffies start) : wheel(start), all(support::probes(3 * edges.size() + 1)) {
        for (std::size_t i = 0; i + 1 < all.size(); ++i) wheel.arm_after(all[i]->t, edges[i / 3]);
        wheel.arm_at(all.back()->t, tvec::never);
    }

    // Fires all remaining timers except those armed for `never`.
    std::size_t run_dry() { return wheel.advance(wheel.now() + (jiffies{1} << 41)).fired; }

    std::vector<jiffies> edges = support::edges();
    timer_wheel wheel;
    std::vector<std::unique_ptr<probe>> all;
};

std::unique_ptr<probe>& holder_of(filled& f, const tvec::timer& t) {
    return *std::find_if(f.all.begin(), f.all.end(), [&](auto& p) { return p && &p->t == &t; });
}

}  // namespace

Test(walking, a_walk_shows_each_pending_timer_once) {
    for (const jiffies start : support::starts()) {
        filled f(start);
        for (std::size_t i = 0; i < f.all.size(); i += 4) f.all[i]->t.cancel();
        std::vector<const tvec::timer*> shown;
        const auto note = [&](const tvec::timer& t) { shown.push_back(&t); };
        REQUIRE(f.wheel.for_each_pending(note));
        REQUIRE(std::as_const(f.wheel).for_each_pending(note));
        std::sort(shown.begin(), shown.end());
        for (std::size_t i = 0; i < f.all.size(); ++i) {
            const auto [first, last] = std::equal_range(shown.begin(), shown.end(), &f.all[i]->t);
            REQUIRE_EQ(last - first, i % 4 == 0 ? 0 : 2);
        }
    }
}

Test(walking, a_walk_of_an_empty_wheel_ends_normally) {
    timer_wheel wheel;
    CHECK(wheel.for_each_pending([](tvec::timer&) { return false; }));
    CHECK(std::as_const(wheel).for_each_pending([](const tvec::timer&) { return false; }));
}

Test(walking, a_walk_ends_where_its_visitor_decides) {
    filled f(77);
    for (std::size_t i = 0; i < f.all.size(); i += 4) f.all[i]->t.cancel();  // linked, not shown
    const std::size_t pending = f.wheel.count_pending();
    for (std::size_t most = 1; most <= pending; ++most) {
        std::size_t shown = 0;
        REQUIRE(!f.wheel.for_each_pending([&](tvec::timer&) { return ++shown < most; }));
        REQUIRE_EQ(shown, most);
        const timer_wheel& wheel = f.wheel;
        REQUIRE(!wheel.for_each_pending([&](const tvec::timer&) { return --shown > 0; }));
        REQUIRE_EQ(shown, 0);
    }
    CHECK(f.wheel.for_each_pending([](tvec::timer&) { return true; }));
}

Test(walking, a_const_wheel_shows_const_timers) {
    const timer_wheel wheel;
    wheel.for_each_pending(
        [](auto& t) { static_assert(std::is_same_v<decltype(t), const tvec::timer&>); });
}

Test(walking, the_visitor_may_cancel_what_it_is_shown) {
    for (const jiffies start : support::starts()) {
        filled f(start);
        std::size_t cancelled = 0;
        f.wheel.for_each_pending([&](tvec::timer& t) { cancelled += t.cancel(); });
        REQUIRE_EQ(cancelled, f.all.size());
        REQUIRE(!f.wheel.any_pending());
        REQUIRE_EQ(check(f.wheel), "");
    }
}

Test(walking, timers_cancelled_by_the_visitor_are_skipped) {
    filled f(0);
    std::size_t shown = 0;
    f.wheel.for_each_pending([&](tvec::timer& t) {
        ++shown;
        for (auto& p : f.all)
            if (&p->t != &t) p->t.cancel();
    });
    CHECK_EQ(shown, 1);
    CHECK_EQ(f.wheel.count_pending(), 1);
}

Test(walking, the_visitor_may_unlink_or_destroy_the_timer) {
    for (const jiffies start : support::starts()) {
        filled f(start);
        std::size_t shown = 0, kept = 0;
        REQUIRE(f.wheel.for_each_pending([&](tvec::timer& t) {
            switch (++shown % 3) {
            case 0:
                return static_cast<void>(t.unlink());
            case 1:
                return holder_of(f, t).reset();
            default:
                kept += t.expires() != tvec::never;
            }
        }));
        REQUIRE_EQ(shown, f.all.size());
        REQUIRE_EQ(check(f.wheel), "");
        REQUIRE_EQ(f.run_dry(), kept);
    }
}

Test(walking, the_visitor_may_move_what_it_is_shown) {
    timer_wheel wheel;
    std::vector<tvec::timer> from(100), to(100);
    for (std::size_t i = 0; i < from.size(); ++i) wheel.arm_after(from[i], 1 + i % 7 * 90);
    std::size_t moved = 0;
    wheel.for_each_pending([&](tvec::timer& t) {
        if (&t >= &from.front() && &t <= &from.back()) to[moved++] = std::move(t);
    });
    CHECK_EQ(moved, 100);
    CHECK_EQ(check(wheel), "");
    CHECK_EQ(wheel.advance(1'000).fired, 100);
}

// Earlier or later than it was due: linked in another slot, or not.
Test(walking, the_visitor_may_arm_what_it_is_shown) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : {jiffies{1}, jiffies{300}, jiffies{1} << 35}) {
            filled f(start);
            std::size_t shown = 0;
            f.wheel.for_each_pending([&](tvec::timer& t) {
                ++shown;
                f.wheel.arm_after(t, delay);
            });
            REQUIRE(shown >= f.all.size());
            REQUIRE_EQ(f.wheel.count_pending(), f.all.size());
            REQUIRE_EQ(check(f.wheel), "");
            f.wheel.advance(start + delay - 1);
            REQUIRE_EQ(support::count_fired(f.all), 0);
            REQUIRE_EQ(f.wheel.advance(start + delay).fired, f.all.size());
        }
}

Test(walking, a_walk_in_callbacks_shows_due_siblings) {
    timer_wheel wheel;
    auto all = support::probes(9);
    for (auto& p : all) {
        wheel.arm_after(p->t, 300);
        p->then = [](timer_wheel& w) {
            std::size_t shown = 0;
            w.for_each_pending([&](tvec::timer& t) {
                ++shown;
                t.unlink();
            });
            CHECK_EQ(shown, 8);
        };
    }
    wheel.advance(1'000);
    CHECK_EQ(support::count_fired(all), 1);
    CHECK_EQ(check(wheel), "");
}

Test(walking, a_walk_while_draining_shows_rearmed_timers) {
    timer_wheel wheel;
    auto all = support::probes(9);
    for (auto& p : all) wheel.arm_after(p->t, 300);
    std::size_t drained = 0;
    wheel.drain([&](tvec::timer& t) {
        wheel.arm_after(t, 20);
        std::size_t shown = 0;
        wheel.for_each_pending([&](tvec::timer&) { ++shown; });
        CHECK_EQ(shown, ++drained);
    });
    CHECK_EQ(wheel.advance(20).fired, 9);
}

Test(walking, a_throwing_visitor_only_ends_the_walk) {
    filled f(3);
    try {
        f.wheel.for_each_pending([](tvec::timer&) { throw std::runtime_error("visitor"); });
        CHECK(false);
    } catch (const std::runtime_error&) {
    }
    CHECK_EQ(f.wheel.count_pending(), f.all.size());
    CHECK_EQ(check(f.wheel), "");
}

namespace {

// As a connection, with two timers that are often in one chain.
struct pair_of_timers {
    void nothing() {}
    tvec::timer first{tvec::call<&pair_of_timers::first, &pair_of_timers::nothing>};
    tvec::timer second{tvec::call<&pair_of_timers::second, &pair_of_timers::nothing>};
};

}  // namespace

Test(walking, the_visitor_may_destroy_objects_with_several_timers) {
    for (const jiffies start : support::starts())
        for (const jiffies span : {jiffies{1}, jiffies{40}, jiffies{1} << 20, tvec::never}) {
            timer_wheel wheel(start);
            std::vector<std::unique_ptr<pair_of_timers>> all(40);
            for (auto& p : all) p = std::make_unique<pair_of_timers>();
            for (auto& p : all) wheel.arm_after(p->second, span);
            for (auto& p : all) wheel.arm_after(p->first, span);
            std::size_t ended = 0;
            REQUIRE(wheel.for_each_pending([&](tvec::timer& t) {
                const auto is_of = [&](const auto& p) {
                    return p && (&p->first == &t || &p->second == &t);
                };
                std::find_if(all.begin(), all.end(), is_of)->reset();
                ++ended;
                REQUIRE_EQ(check(wheel), "");
            }));
            REQUIRE_EQ(ended, all.size());
            REQUIRE(!wheel.any_pending());
        }
}

Test(walking, the_visitor_may_arm_or_move_other_timers) {
    for (const jiffies start : support::starts()) {
        filled f(start);
        std::vector<const probe*> armed;
        std::size_t shown = 0;
        REQUIRE(f.wheel.for_each_pending([&](tvec::timer& t) {
            auto& other = f.all[(7 * ++shown) % f.all.size()];
            if (shown % 2 != 0)
                f.wheel.arm_after(other->t, 1 + shown), armed.push_back(other.get());
            else
                t = tvec::timer(std::move(t));  // to another address and back
            REQUIRE(shown < 3 * f.all.size());
        }));
        REQUIRE(!armed.empty());
        REQUIRE_EQ(f.wheel.count_pending(), f.all.size());
        REQUIRE_EQ(check(f.wheel), "");
    }
}

Test(walking, a_timer_pushed_back_is_shown_once) {
    for (const jiffies start : support::starts()) {
        filled f(start);
        std::size_t shown = 0;
        REQUIRE(f.wheel.for_each_pending([&](tvec::timer& t) {
            auto& other = f.all[(7 * ++shown) % f.all.size()];
            f.wheel.arm_at(t, t.expires() + shown);
            f.wheel.arm_at(other->t, other->t.expires());
            if (shown % 3 == 0) t.cancel(), f.wheel.arm_at(t, t.expires() + shown);
        }));
        REQUIRE_EQ(shown, f.all.size());
    }
}

namespace {

// How often a walk shows a lone timer which every visit links anew.
template <class F> std::size_t visits_of_one(jiffies start, F link_anew) {
    timer_wheel wheel(start);
    probe p;
    wheel.arm_after(p.t, 3);
    std::size_t shown = 0;
    wheel.for_each_pending([&](tvec::timer& t) { link_anew(wheel, t, ++shown); });
    REQUIRE(p.t.pending());
    REQUIRE_EQ(check(wheel), "");
    return shown;
}

}  // namespace

// The walk goes once through the chains of all slots, and a chain that it has begun grows no more.
Test(walking, a_walk_ends_though_its_visitor_relinks_timers) {
    constexpr std::size_t chains = tvec::detail::geometry::chains_per_slot;
    constexpr std::size_t most = chains * tvec::detail::geometry::total_slots;
    timer_wheel other;
    std::size_t often = 0;
    for (const jiffies start : support::starts()) {
        for (const jiffies a_visit : {0, 1, 1'000}) {
            const auto later = [a_visit](timer_wheel& w, tvec::timer& t, std::size_t visit) {
                t.unlink();
                w.arm_after(t, 3 + visit * a_visit);
            };
            const std::size_t shown = visits_of_one(start, later);
            REQUIRE_LE(shown, most);
            often += shown >= 20;
        }
        const auto there_and_back = [&](timer_wheel& w, tvec::timer& t, std::size_t visit) {
            other.arm_after(t, 1);
            w.arm_after(t, 3 + visit);
        };
        REQUIRE_LE(visits_of_one(start, there_and_back), most);
        const auto earlier = [](timer_wheel& w, tvec::timer& t, std::size_t visit) {
            w.arm_at(t, visit == 1 ? w.now() + (1 << 20) : t.expires() - 1);
        };
        REQUIRE_LE(visits_of_one(start, earlier), most);
    }
    CHECK_GE(often, 1);
}

// Callbacks would run in the middle of the walk, on timers that it is to show.
Test(walking, the_visitor_may_not_advance_the_wheel) {
    for (const jiffies start : support::starts()) {
        filled f(start);
        const auto wakeup = f.wheel.next_wakeup();
        REQUIRE(f.wheel.for_each_pending([&](tvec::timer&) {
            const auto refused = f.wheel.advance(start + 1'000);
            REQUIRE(!refused.caught_up && refused.fired == 0);
            REQUIRE_EQ(f.wheel.next_wakeup(), wakeup);
        }));
        REQUIRE_EQ(f.wheel.now(), start);
        REQUIRE_EQ(f.wheel.next_wakeup(), wakeup);
        REQUIRE_EQ(f.run_dry(), f.all.size() - 1);
    }
}

Test(walking, a_walk_leaves_unfinished_work_as_it_is) {
    timer_wheel wheel;
    auto all = support::probes(100);
    for (auto& p : all) wheel.arm_after(p->t, (jiffies{1} << 34) + 9);
    CHECK(!wheel.advance((jiffies{1} << 34) + 8, 10).caught_up);
    const jiffies now = wheel.now(), behind = wheel.behind();
    std::size_t shown = 0;
    wheel.for_each_pending([&](tvec::timer&) {
        ++shown;
        CHECK_EQ(wheel.next_wakeup(), now);
        CHECK_EQ(check(wheel), "");
    });
    CHECK_EQ(shown, 100);
    CHECK_EQ(wheel.now(), now);
    CHECK_EQ(wheel.behind(), behind);
    CHECK_EQ(wheel.next_wakeup(), now);
    CHECK_EQ(wheel.advance((jiffies{1} << 34) + 9).fired, 100);
}

Test(walking, a_walk_ends_when_its_visitor_drains) {
    for (const jiffies start : support::starts()) {
        filled f(start);
        probe again;
        std::size_t shown = 0;
        REQUIRE(f.wheel.for_each_pending([&](tvec::timer&) {
            REQUIRE(f.wheel.for_each_pending([&](tvec::timer&) {
                ++shown;
                REQUIRE_EQ(f.wheel.drain([](tvec::timer&) {}), f.all.size());
                f.wheel.arm_after(again.t, 7);
                REQUIRE(!f.wheel.advance(start + 6).caught_up);
                REQUIRE_EQ(f.wheel.now(), start);
                REQUIRE_EQ(check(f.wheel), "");
            }));
        }));
        REQUIRE_EQ(shown, 1);
        REQUIRE_EQ(f.wheel.next_wakeup(), start + 7);
        REQUIRE_EQ(f.wheel.advance(start + 7).fired, 1);
    }
}

Test(walking, a_visitor_that_destroys_the_wheel_is_fatal) {
    const std::string said = support::last_words([] {
        auto wheel = std::make_unique<timer_wheel>();
        probe p;
        wheel->arm_after(p.t, 10);
        wheel->for_each_pending([&](tvec::timer&) { wheel.reset(); });
    });
    CHECK(said.starts_with("tvec: a timer_wheel is destroyed by"));
}

// Census, dump and snapshots read the wheel link by link.
Test(walking, census_and_dump_never_see_a_walk) {
    filled f(5);
    const tvec::census before = take_census(f.wheel);
    const std::string text = dump(f.wheel, 0);
    f.wheel.for_each_pending([&](tvec::timer&) {
        f.wheel.for_each_pending([&](tvec::timer&) {
            const tvec::census now = take_census(f.wheel);
            REQUIRE_EQ(now.pending, before.pending);
            REQUIRE_EQ(now.idle, 0);
            return false;
        });
        REQUIRE(dump(f.wheel, 0) == text);
    });
}

Test(walking, a_nested_walk_shows_all_timers_again) {
    filled f(9);
    std::size_t pairs = 0;
    const timer_wheel& wheel = f.wheel;
    REQUIRE(f.wheel.for_each_pending([&](tvec::timer&) {
        f.wheel.for_each_pending([&](tvec::timer&) { ++pairs; });
        pairs += wheel.count_pending();
        REQUIRE_EQ(check(wheel), "");
    }));
    CHECK_EQ(pairs, 2 * f.all.size() * f.all.size());
}
