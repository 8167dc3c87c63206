// A callback may arm, cancel, move or destroy any timer. The wheel touches a timer no more
// once its callback has begun. Re-entering advance is refused, visibly.
// A callback that re-arms itself for now cannot starve the loop. hostile.cpp has the storms.
#include <algorithm>
#include <array>
#include <cstring>
#include <new>
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

TestSuite(callbacks, .timeout = 60);

namespace {

// Ten timers of tick 100. The first one to fire does `act` to another. Its position depends on the
// order, so each is tried in turn.
template <class F> void first_to_fire_acts_on_each(F act) {
    for (std::size_t victim = 0; victim < 10; ++victim) {
        timer_wheel wheel;
        auto all = support::probes(10);
        bool acted = false;
        for (std::size_t i = 0; i < 10; ++i) {
            wheel.arm_at(all[i]->t, 100);
            all[i]->then = [&, i](timer_wheel& w) {
                if (acted || i == victim) return;
                acted = true;
                act(w, all, victim);
            };
        }
        wheel.advance(100);
        REQUIRE(acted);
        wheel.advance(1'000);
        REQUIRE_EQ(check(wheel), "");
        for (std::size_t i = 0; i < 10; ++i)
            if (i != victim) REQUIRE(all[i]->fired_only_at(100));
    }
}

using crowd = std::vector<std::unique_ptr<probe>>;

}  // namespace

Test(callbacks, a_callback_may_cancel_a_due_sibling) {
    first_to_fire_acts_on_each([](timer_wheel&, crowd& all, std::size_t victim) {
        const bool had_fired = all[victim]->fired() != 0;
        CHECK_EQ(all[victim]->t.cancel(), !had_fired);
        CHECK(!all[victim]->t.pending());
    });
}

Test(callbacks, a_callback_may_push_back_a_due_sibling) {
    first_to_fire_acts_on_each([](timer_wheel& w, crowd& all, std::size_t victim) {
        all[victim]->ticks.clear();
        w.arm_at(all[victim]->t, 150);
    });
}

Test(callbacks, a_callback_may_move_construct_a_due_sibling) {
    first_to_fire_acts_on_each([](timer_wheel&, crowd& all, std::size_t victim) {
        const bool had_fired = all[victim]->fired() != 0;
        all[victim] = std::make_unique<probe>(std::move(*all[victim]));
        CHECK_EQ(all[victim]->t.pending(), !had_fired);
    });
}

Test(callbacks, a_callback_may_move_siblings_between_wheels) {
    timer_wheel other;
    first_to_fire_acts_on_each([&](timer_wheel&, crowd& all, std::size_t victim) {
        all[victim]->ticks.clear();
        other.arm_after(all[victim]->t, 7);
        const jiffies due = other.now() + 7;
        other.advance(due);
        CHECK(all[victim]->fired_only_at(due));
    });
}

Test(callbacks, a_callback_may_rearm_siblings_for_now) {
    timer_wheel wheel;
    probe a, b;
    a.then = [&](timer_wheel& w) { w.arm_after(b.t, 0); };
    b.then = [&](timer_wheel& w) { w.arm_after(a.t, 0); };
    wheel.arm_at(a.t, 10);
    wheel.arm_at(b.t, 10);
    wheel.advance(10);
    CHECK_EQ(a.fired() + b.fired(), 1);  // the other has been moved to the next tick
    wheel.advance(11);
    CHECK_EQ(a.fired() + b.fired(), 2);
}

Test(callbacks, a_callback_may_destroy_a_sibling) {
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        auto all = support::probes(100);
        std::size_t fired = 0;
        for (auto& p : all) {
            wheel.arm_after(p->t, 700);
            p->then = [&](timer_wheel&) {
                ++fired;
                for (auto& other : all)
                    if (other->fired() == 0) other.reset();
            };
        }
        const auto survivors = [&] {
            std::size_t n = 0;
            for (const auto& p : all) n += p != nullptr;
            return n;
        };
        wheel.advance(start + 699);
        REQUIRE_EQ(survivors(), 100);
        wheel.advance(start + 700);
        CHECK_EQ(fired, 1);
        CHECK_EQ(survivors(), 1);
        CHECK_EQ(check(wheel), "");
    }
}

Test(callbacks, a_callback_may_destroy_its_own_timer) {
    struct suicidal {
        void on_fire() { this->~suicidal(); }
        tvec::timer t{tvec::call<&suicidal::t, &suicidal::on_fire>};
    };
    timer_wheel wheel;
    for (int i = 0; i < 5; ++i) {
        auto* const storage = static_cast<unsigned char*>(operator new(sizeof(suicidal)));
        auto* const s = new (storage) suicidal;
        wheel.arm_after(s->t, 300);
        wheel.advance(wheel.now() + 300);
        std::memset(storage, 0xaa, sizeof(suicidal));
        CHECK_EQ(check(wheel), "");
        wheel.advance(wheel.now() + 1'000);
        operator delete(storage);
    }
    CHECK_EQ(wheel.count().fired, 5);
}

Test(callbacks, a_callback_may_destroy_and_overwrite_its_timer) {
    struct wiped {
        void on_fire() {
            void* const storage = this;
            this->~wiped();
            std::memset(storage, 0, sizeof(wiped));
        }
        tvec::timer t{tvec::call<&wiped::t, &wiped::on_fire>};
    };
    alignas(wiped) std::array<unsigned char, sizeof(wiped)> storage{};
    timer_wheel wheel;
    wheel.arm_after((new (storage.data()) wiped)->t, 300);
    wheel.advance(1'000);
    CHECK_EQ(wheel.count().fired, 1);
    CHECK(storage == decltype(storage){});
}

Test(callbacks, a_callback_may_cancel_timers_of_other_slots) {
    timer_wheel wheel;
    auto others = support::probes(6);
    constexpr std::array<jiffies, 6> delays{5, 200, 256, 5'000, 70'000, jiffies{1} << 33};
    probe p([&](timer_wheel&) {
        for (auto& o : others) CHECK(o->t.cancel());
    });
    wheel.arm_after(p.t, 4);
    for (std::size_t i = 0; i < 6; ++i) wheel.arm_after(others[i]->t, delays[i]);
    wheel.advance(jiffies{1} << 34);
    CHECK_EQ(support::count_fired(others), 0);
}

Test(callbacks, a_callback_cancelling_itself_changes_nothing) {
    timer_wheel wheel;
    probe p([&](timer_wheel&) {
        CHECK(!p.t.pending());
        CHECK(!p.t.cancel());
    });
    wheel.arm_after(p.t, 3);
    wheel.advance(10);
    CHECK(p.fired_only_at(3));
    wheel.arm_after(p.t, 3);
    CHECK(p.t.pending());
}

Test(callbacks, timers_armed_in_callbacks_are_exact) {
    timer_wheel wheel;
    std::vector<std::unique_ptr<probe>> armed;
    probe p([&](timer_wheel& w) {
        armed.push_back(std::make_unique<probe>());
        w.arm_after(armed.back()->t, 1 + armed.size() * 3 % 700);
        if (armed.size() < 512) w.arm_after(p.t, 1);
    });
    wheel.arm_after(p.t, 1);
    wheel.advance(5'000);
    REQUIRE_EQ(armed.size(), 512);
    for (std::size_t i = 0; i < armed.size(); ++i)
        CHECK(armed[i]->fired_only_at(i + 1 + 1 + (i + 1) * 3 % 700));
}

Test(callbacks, a_callback_may_put_timers_off_for_ever) {
    timer_wheel wheel;
    probe put_off;
    probe p([&](timer_wheel& w) {
        w.arm_after(put_off.t, 258);
        w.arm_after(p.t, 257);
    });
    wheel.arm_after(p.t, 257);
    wheel.arm_after(put_off.t, 258);
    for (jiffies t = 1; t <= 257 * 256; ++t) wheel.advance(t);
    CHECK_EQ(put_off.fired(), 0);
    CHECK_EQ(p.fired(), 256);
    p.t.cancel();
    wheel.advance(257 * 256 + 300);
    CHECK_EQ(put_off.fired(), 1);
}

Test(callbacks, a_jump_runs_rearming_callbacks_on_every_tick) {
    // The current tick is the one being run, so a jump does what single steps do.
    timer_wheel wheel;
    probe one([&](timer_wheel& w) { w.arm_after(one.t, 1); });
    probe zero([&](timer_wheel& w) { w.arm_after(zero.t, 0); });
    wheel.arm_after(one.t, 1);
    wheel.arm_after(zero.t, 0);
    wheel.advance(1'000);
    CHECK_EQ(one.fired(), 1'000);
    CHECK_EQ(zero.fired(), 1'000);
}

Test(callbacks, a_timer_rearmed_for_now_runs_each_tick) {
    timer_wheel wheel;
    probe p([&](timer_wheel& w) { w.arm_at(p.t, w.now()); });
    wheel.arm_after(p.t, 0);
    for (jiffies t = 1; t <= 1'000; ++t) CHECK_EQ(wheel.advance(t).fired, 1);
}

Test(callbacks, callbacks_slower_than_a_tick_cannot_prolong_advance) {
    // The target of `advance` is fixed when it is called.
    timer_wheel wheel;
    jiffies clock = 0;
    probe p([&](timer_wheel& w) {
        ++clock;  // each callback takes a tick
        w.arm_after(p.t, 1);
    });
    wheel.arm_after(p.t, 1);
    wheel.advance(clock = 10);
    CHECK_EQ(p.fired(), 10);
    CHECK_EQ(clock, 20);
    CHECK_EQ(wheel.now(), 10);
}

Test(callbacks, chained_callbacks_run_on_one_tick_each) {
    timer_wheel wheel;
    probe a, b, c;
    a.then = [&](timer_wheel& w) { w.arm_after(b.t, 0); };
    b.then = [&](timer_wheel& w) { w.arm_at(c.t, 3); };
    wheel.arm_after(a.t, 10);
    wheel.advance(100);
    CHECK(a.fired_only_at(10));
    CHECK(b.fired_only_at(11));
    CHECK(c.fired_only_at(12));
}

Test(callbacks, a_callback_may_not_advance_the_wheel) {
    timer_wheel wheel;
    probe later;
    probe p([&](timer_wheel& w) {
        const auto done = w.advance(1'000);
        CHECK_EQ(done.fired, 0);
        CHECK(!done.caught_up);
        CHECK_EQ(w.now(), 10);
    });
    wheel.arm_after(p.t, 10);
    wheel.arm_after(later.t, 20);
    CHECK(wheel.advance(10).caught_up);
    CHECK_EQ(later.fired(), 0);
    CHECK_EQ(wheel.now(), 10);
}

Test(callbacks, a_callback_that_drained_may_not_advance_either) {
    timer_wheel wheel;
    probe p([&](timer_wheel& w) {
        w.drain([](tvec::timer&) {});
        CHECK(!w.advance(1'000).caught_up);
        CHECK_EQ(w.now(), 10);
    });
    wheel.arm_after(p.t, 10);
    CHECK(wheel.advance(10).caught_up);
    CHECK_EQ(wheel.now(), 10);
}

Test(callbacks, a_callback_may_advance_and_destroy_other_wheels) {
    timer_wheel wheel;
    auto other = std::make_unique<timer_wheel>();
    probe inner([&](timer_wheel&) { CHECK(!wheel.advance(1'000).caught_up); }), orphan;
    probe p([&](timer_wheel&) {
        CHECK_EQ(other->advance(50).fired, 1);
        other.reset();
    });
    other->arm_after(inner.t, 20);
    other->arm_after(orphan.t, 60);
    wheel.arm_after(p.t, 10);
    wheel.advance(10);
    CHECK(inner.fired_only_at(20));
    CHECK(!orphan.t.pending());
    CHECK_EQ(wheel.now(), 10);
}

Test(callbacks, the_wakeup_is_now_while_siblings_are_due) {
    timer_wheel wheel;
    probe far;
    auto all = support::probes(3);
    for (auto& p : all) {
        wheel.arm_after(p->t, 10);
        p->then = [&](timer_wheel& w) {
            const bool last = support::count_fired(all) == all.size();
            CHECK_EQ(w.next_wakeup(), last ? jiffies{50} : jiffies{10});
        };
    }
    wheel.arm_after(far.t, 50);
    wheel.advance(10);
    CHECK_EQ(support::count_fired(all), all.size());
}

Test(callbacks, callbacks_see_the_wheel_as_it_is) {
    timer_wheel wheel;
    probe next, far;
    probe p([&](timer_wheel& w) {
        CHECK_EQ(check(w), "");
        CHECK_EQ(w.count_pending(), 2);
        CHECK_EQ(w.next_expiry(), jiffies{50});
        CHECK_LE(*w.next_wakeup(), jiffies{50});
        w.arm_after(next.t, 5);
        CHECK_EQ(w.next_expiry(), jiffies{15});
    });
    wheel.arm_after(p.t, 10);
    wheel.arm_after(next.t, 50);
    wheel.arm_after(far.t, 1 << 20);
    wheel.advance(10);
    CHECK_EQ(wheel.next_wakeup(), jiffies{15});
}

Test(callbacks, two_timers_that_arm_each_other_never_miss) {
    timer_wheel wheel;
    probe a, b;
    a.then = [&](timer_wheel& w) { w.arm_after(b.t, 1); };
    b.then = [&](timer_wheel& w) { w.arm_after(a.t, 1); };
    wheel.arm_after(a.t, 1);
    for (jiffies t = 1; t <= 1 << 15; ++t) {
        wheel.advance(t);
        REQUIRE_EQ(a.fired() + b.fired(), t);
    }
}

Test(callbacks, a_callback_may_end_itself_and_start_another) {
    timer_wheel wheel;
    probe other;
    probe periodic([&](timer_wheel& w) {
        w.arm_next(periodic.t, 10);
        if (periodic.fired() < 3) return;
        periodic.t.cancel();
        w.arm_after(other.t, 25);
    });
    wheel.arm_after(periodic.t, 10);
    while (wheel.next_wakeup()) wheel.advance(*wheel.next_wakeup());
    CHECK_EQ(periodic.fired(), 3);
    CHECK(other.fired_only_at(55));
}

// a wheel may not be destroyed by its own callback; that ends the program at once.
Test(callbacks, a_callback_that_destroys_the_wheel_is_fatal) {
    const std::string said = support::last_words([] {
        auto wheel = std::make_unique<timer_wheel>();
        probe p([&](timer_wheel&) { wheel.reset(); });
        wheel->arm_after(p.t, 10);
        wheel->advance(10);
    });
    CHECK_EQ(said.substr(0, said.find('\n')),
             "tvec: a timer_wheel is destroyed by one of its own callbacks, or by a visitor of "
             "its timers: it must outlive them");
}

// A late call looks ahead at a visit, to a slot that should have been emptied in part by then.
Test(callbacks, late_emptying_lets_no_callback_advance_the_wheel) {
    timer_wheel wheel;
    constexpr jiffies entry = 5 * tvec::detail::geometry::width_of(2);
    std::vector<tvec::timer> crowd(4'800);
    for (tvec::timer& t : crowd) wheel.arm_at(t, entry + 100);
    bool is_refused = false;
    const jiffies due = entry - tvec::detail::geometry::width_of(1);  // a visit
    tvec::callback_timer inner([&] {
        const auto [fired, caught_up] = wheel.advance(due + 1);
        is_refused = fired == 0 && !caught_up && wheel.now() == due;
    });
    wheel.arm_at(inner, due);
    wheel.advance(due + 5);
    CHECK(is_refused);
    CHECK_EQ(wheel.now(), due + 5);
}

// --- a batch ------------------------------------------------------------------------------------

namespace {

// Timers of one tick, armed from ever nearer: they come from the overflow, from each level and from
// the root. The first one that is called does `act` to each of the others.
struct tick_of_timers {
    using action = void (*)(tick_of_timers&, std::unique_ptr<probe>&);

    tick_of_timers(jiffies start, action a)
        : wheel(start), other(start), tick(start + (jiffies{1} << 35)) {
        for (auto& p : all) {
            p->then = [this, a](timer_wheel& w) { begin(w, a); };
            wheel.advance(std::max(wheel.now(), tick - distance));
            wheel.arm_at(p->t, tick);
            distance -= distance / 4 + 1;
        }
        wheel.advance(tick - 1);
    }
    void begin(timer_wheel& running, action a) {
        const auto refused = running.advance(running.now() + 1'000);
        CHECK(!refused.caught_up && refused.fired == 0);
        if (std::exchange(has_begun, true)) return;
        for (auto& p : all)
            if (p->fired() == 0) a(*this, p);
    }

    timer_wheel wheel, other;
    jiffies tick, distance = jiffies{1} << 35;
    std::vector<std::unique_ptr<probe>> all = support::probes(64);
    bool has_begun = false;
};

// What happens to the 63 others, and the tick at which they fire instead, or 0.
struct treatment {
    tick_of_timers::action act;
    jiffies delay;
};

const std::array<treatment, 8> treatments{{
    {[](tick_of_timers&, auto& p) { p->t.cancel(); }, 0},
    {[](tick_of_timers&, auto& p) { p.reset(); }, 0},
    {[](tick_of_timers&, auto& p) { p->t.unlink(); }, 0},
    {[](tick_of_timers& b, auto& p) { b.wheel.arm_after(p->t, 0); }, 1},
    {[](tick_of_timers& b, auto& p) { b.wheel.arm_at(p->t, b.tick); }, 1},
    {[](tick_of_timers& b, auto& p) { b.wheel.arm_at(p->t, 0); }, 1},
    {[](tick_of_timers& b, auto& p) { b.wheel.arm_after(p->t, 256); }, 256},
    {[](tick_of_timers& b, auto& p) { b.other.arm_at(p->t, b.tick + 5); }, 5},
}};

// Calls of each kind, until the tick has been run.
const std::array<void (*)(timer_wheel&, jiffies), 4> ways{
    [](timer_wheel& w, jiffies tick) { CHECK(w.advance(tick).caught_up); },
    [](timer_wheel& w, jiffies tick) {
        while (!w.advance(tick, 1).caught_up) {
        }
    },
    [](timer_wheel& w, jiffies tick) {
        CHECK(w.advance_in_order(tick, [](auto& a, auto& b) { return &a < &b; }).caught_up);
    },
    [](timer_wheel& w, jiffies tick) {
        const auto one = [](const auto& fire) { return fire(), false; };
        while (!w.advance_watched(tick, one).caught_up) {
        }
    },
};

}  // namespace

Test(callbacks, the_first_callback_may_do_anything_to_siblings) {
    for (const jiffies start : support::starts())
        for (const treatment& how : treatments)
            for (const auto& run : ways) {
                tick_of_timers b(start, how.act);
                run(b.wheel, b.tick);
                REQUIRE_EQ(check(b.wheel), "");
                std::size_t at_once = 0;
                for (const auto& p : b.all) at_once += p && p->fired() != 0;
                REQUIRE_EQ(at_once, 1);
                b.wheel.advance(b.tick + 1'000);
                b.other.advance(b.tick + 1'000);
                std::size_t later = 0;
                for (const auto& p : b.all) later += p && p->fired_only_at(b.tick + how.delay);
                REQUIRE_EQ(later, how.delay == 0 ? 1 : 63);
            }
}
