// In a game that is stepped by whole frames a delay of n frames takes n frames, at each rate
// of frames that games have, for each way to wait, after hours and years.
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/coroutines.hpp"
#include "support/environment.hpp"
#include "tvec/extra/game_clock.hpp"
#include "tvec/extra/scaled_wheel.hpp"
#include "tvec/extra/snapshot.hpp"
#include "tvec/extra/timer_group.hpp"
#include "tvec/pool/timeout_pool.hpp"

using namespace std::chrono_literals;
using support::started, support::task;
using tvec::manual_clock;

TestSuite(whole_frames, .timeout = 120);

namespace {

template <std::intmax_t Num, std::intmax_t Den>
using frame_of = std::chrono::duration<std::int64_t, std::ratio<Num, Den>>;

using frames_t = std::int64_t;

// A game that counts its frames, and those from each arm to its fire.
template <class Frame, class Tick = Frame> struct game {
    using clock_type = tvec::game_clock<manual_clock>;
    using wheel_type = tvec::clocked_wheel<tvec::game_ticks<Tick, manual_clock>>;

    void play(frames_t n = 1) {
        clock.step(Frame(n));
        now += n;
        timers.run();
    }

    // Notes that something armed in frame `armed` for `n` frames has fired.
    void fired(frames_t armed, frames_t n) {
        ++waits;
        wrong += now - armed != n;
    }
    void expect_whole_frames(std::uint64_t at_least) const {
        CHECK_EQ(wrong, 0);
        CHECK_GE(waits, at_least);
    }

    clock_type clock;
    wheel_type timers{tvec::game_ticks<Tick, manual_clock>(clock)};
    tvec::timeout_pool<wheel_type> pool{timers};
    frames_t now = 0;
    std::uint64_t waits = 0, wrong = 0;
};

// Calls `f` with a frame of each length in use.
template <class F> void at_every_rate(F f) {
    f(frame_of<1, 24>());
    f(frame_of<1, 30>());
    f(frame_of<1, 50>());
    f(frame_of<1, 60>());
    f(frame_of<1, 72>());
    f(frame_of<1, 90>());
    f(frame_of<1, 120>());
    f(frame_of<1, 144>());
    f(frame_of<1001, 30000>());
    f(frame_of<1001, 60000>());
}

// A timer of `n` frames that is armed again whenever it fires.
template <class Frame> class effect {
public:
    using arm_function = std::function<void(game<Frame>&, tvec::timer&, Frame)>;

    effect(game<Frame>& world, frames_t n, arm_function arm)
        : world_(world), n_(n), arm_(std::move(arm)) {
        begin();
    }

private:
    void on_fire() {
        world_.fired(armed_, n_);
        begin();
    }
    void begin() {
        armed_ = world_.now;
        arm_(world_, timer_, Frame(n_));
    }

    game<Frame>& world_;
    frames_t n_;
    frames_t armed_ = 0;
    arm_function arm_;
    tvec::timer timer_{tvec::call<&effect::timer_, &effect::on_fire>};
};

// The ways to arm a timer for some frames from now.
template <class Frame> std::vector<typename effect<Frame>::arm_function> ways_to_arm() {
    using world = game<Frame>;
    using tvec::timer;
    return {
        [](world& w, timer& t, Frame d) { w.timers.arm_after(t, d); },
        [](world& w, timer& t, Frame d) { w.timers.arm_within(t, d, d); },
        [](world& w, timer& t, Frame d) { w.timers.arm_if_earlier(t, w.timers.after(d)); },
        [](world& w, timer& t, Frame d) { w.timers.arm_at(t, w.clock.now() + d); },
        [](world& w, timer& t, Frame d) {  // as the first time, from which periods count
            t.expires() == 0 ? void(w.timers.arm_after(t, d)) : void(w.timers.arm_next(t, d));
        },
        [](world& w, timer& t, Frame d) {  // for the deadline of another
            timer other;
            w.timers.arm_after(other, d);
            w.timers.arm_at(t, w.timers.deadline(other));
        },
    };
}

// Timeouts of a pool: one that its function schedules again, one that it reschedules, and a
// periodic one.
template <class Frame> void schedule_each(game<Frame>& world, frames_t n) {
    struct again {
        void operator()() const {
            if (armed >= 0) world->fired(armed, n);
            (void)world->pool.schedule(Frame(n), again{world, n, world->now});
        }
        game<Frame>* world;
        frames_t n, armed;
    };
    again{&world, n, -1}();
    const auto counts = [&world, n, armed = world.now]() mutable {
        world.fired(std::exchange(armed, world.now), n);
    };
    (void)world.pool.schedule_every(Frame(n), counts);
    (void)world.pool.schedule_every(world.clock.now() + Frame(n), Frame(n), counts);
    const auto self = std::make_shared<tvec::timeout_handle>();
    const auto put_off = [&world, n, self, armed = world.now]() mutable {
        world.fired(std::exchange(armed, world.now), n);
        world.pool.reschedule(*self, Frame(n));
    };
    *self = world.pool.schedule_every(Frame(n), put_off).handle;
}

template <class Frame> task<> sleep_again(game<Frame>& world, frames_t n) {
    for (;;) {
        const frames_t armed = world.now;
        co_await tvec::sleep_for(world.timers, Frame(n));
        world.fired(armed, n);
    }
}

template <class Frame> task<> time_out_again(game<Frame>& world, frames_t n) {
    support::signal silent;
    for (;;) {
        const frames_t armed = world.now;
        const auto answer = co_await tvec::with_timeout(world.timers, silent, Frame(n));
        if (!answer) world.fired(armed, n);
    }
}

constexpr frames_t lengths[] = {1, 2, 3, 60, 300};  // 300 are on the second level

// Everything that waits, for each of these lengths.
template <class Frame> class crowd {
public:
    explicit crowd(game<Frame>& world) {
        for (const frames_t n : lengths) {
            for (const auto& arm : ways_to_arm<Frame>())
                effects_.push_back(std::make_unique<effect<Frame>>(world, n, arm));
            schedule_each(world, n);
            coroutines_.push_back(started(sleep_again(world, n)));
            coroutines_.push_back(started(time_out_again(world, n)));
        }
    }

private:
    std::vector<std::unique_ptr<effect<Frame>>> effects_;
    std::vector<task<>> coroutines_;
};

constexpr std::uint64_t waits_in_600 = 12 * (600 + 300 + 200 + 10 + 2);

}  // namespace

Test(whole_frames, each_wait_lasts_its_number_of_frames) {
    at_every_rate([]<class Frame>(Frame) {
        for (const std::chrono::hours since : {0h, 1h, 24h * 365 * 20 + 1h}) {
            game<Frame> world;
            world.play(std::chrono::floor<Frame>(since).count());
            const crowd<Frame> everything(world);
            for (int i = 0; i < 600; ++i) world.play();
            world.expect_whole_frames(waits_in_600);
        }
    });
}

Test(whole_frames, whole_frames_pass_for_hours) {
    at_every_rate([]<class Frame>(Frame) {
        game<Frame> world;
        const auto ways = ways_to_arm<Frame>();
        effect<Frame> each_frame(world, 1, ways[0]), each_third(world, 3, ways[4]);
        const frames_t frames = std::chrono::floor<Frame>(2h).count();
        const auto some =
            static_cast<frames_t>(support::scaled(static_cast<std::uint64_t>(frames)));
        for (frames_t i = 0; i < some; ++i) world.play();
        world.expect_whole_frames(static_cast<std::uint64_t>(some + some / 3));
        CHECK_EQ(world.timers.wheel().now(), some);
    });
}

Test(whole_frames, a_frame_may_be_several_ticks) {
    at_every_rate([]<class Frame>(Frame) {
        using tick = frame_of<Frame::period::num, Frame::period::den * 5>;
        game<Frame, tick> world;
        frames_t armed = 0;
        tvec::callback_timer t{[&](auto&, tvec::timer& self) {
            world.fired(std::exchange(armed, world.now), 2);
            world.timers.arm_after(self, Frame(2));
        }};
        world.timers.arm_after(t, Frame(2));
        for (int i = 0; i < 600; ++i) world.play();
        world.expect_whole_frames(300);
    });
}

// Frames that are skipped fall together in one run.
Test(whole_frames, frames_stepped_together_pass_together) {
    at_every_rate([]<class Frame>(Frame) {
        game<Frame> world;
        std::mt19937_64 random(5);
        const auto number = [&] { return static_cast<frames_t>(1 + random() % 7); };
        for (int i = 0; i < 2'000; ++i) {
            const frames_t due = world.now + number() * number();
            tvec::callback_timer t{[] {}};
            world.timers.arm_after(t, Frame(due - world.now));
            while (t.pending()) {
                CHECK_LT(world.now, due);
                world.play(number());
            }
            CHECK_GE(world.now, due);
        }
    });
}

Test(whole_frames, frames_stay_whole_through_speeds_pauses_and_rollbacks) {
    at_every_rate([]<class Frame>(Frame) {
        game<Frame> world;
        const crowd<Frame> everything(world);
        for (int i = 0; i < 600; ++i) {
            if (i % 10 == 1) world.clock.set_speed(1, 3);
            if (i % 10 == 2) world.clock.pause();
            if (i % 10 == 3) manual_clock::advance(123'456'789ns);
            if (i % 10 == 4) world.clock.set(world.clock.now());
            if (i % 10 == 5) world.clock.resume();
            if (i % 10 == 6) world.clock.set_speed(0.7);
            world.play();
        }
        world.expect_whole_frames(waits_in_600);
    });
}

Test(whole_frames, whole_frames_of_a_pause_are_added) {
    at_every_rate([]<class Frame>(Frame) {
        game<Frame> world;
        for (int i = 0; i < 200; ++i) {
            tvec::timer_group group;
            tvec::grouped_timer t(group, [](tvec::timer_wheel&, tvec::timer&) {});
            world.timers.arm_after(t, Frame(5));
            world.play(2);
            group.pause(world.timers);
            world.play(1 + i % 4);
            group.resume(world.timers);
            world.play(2);
            CHECK(t.pending());
            world.play();
            CHECK(!t.pending());
        }
    });
}

Test(whole_frames, whole_frames_of_a_scaled_class_add_up) {
    at_every_rate([]<class Frame>(Frame) {
        game<Frame> world;
        tvec::scaled_wheel idle(world.timers, Frame(4));
        for (int i = 0; i < 200; ++i) {
            tvec::timer t;
            idle.arm_after(t, Frame(3));
            world.play(6);
            CHECK(t.pending());
            world.play();
            CHECK(!t.pending());
        }
    });
}

namespace {

// Poison whose player is paused, rolled back, and loaded in another game by clock and tick alone.
template <class Frame> class poisoned {
public:
    using tick = std::common_type_t<Frame, std::chrono::milliseconds>;

    explicit poisoned(std::chrono::milliseconds period) : period_(period) {
        world_->timers.arm_after(poison_, period);
    }

    void play(frames_t n) {
        world_->play(n);
        if (!paused_) lived_ += n;
    }
    void pause_or_resume() {
        paused_ ? group_.resume(world_->timers) : group_.pause(world_->timers);
        paused_ = !paused_;
    }
    void roll_back_after(frames_t n) {
        tvec::snapshot timers;
        timers.capture(world_->timers.wheel(), [](const tvec::timer&) { return 0; });
        const auto now = world_->clock.now();
        const auto hits = hits_;
        world_->play(n);
        timers.restore(world_->timers.wheel(), [this](std::uint64_t) { return &poison_; });
        world_->clock.set(now);
        hits_ = hits;
    }
    void load_elsewhere() {
        auto loaded = std::make_unique<world>();
        const tvec::jiffies due = poison_.expires();
        loaded->clock.set(world_->clock.now());
        loaded->timers.run();
        poison_.unlink();
        world_ = std::move(loaded);
        world_->timers.wheel().arm_at(poison_, due);
    }
    void expect_each_period() const { CHECK_EQ(hits_, Frame(lived_) / period_); }

private:
    using world = game<Frame, tick>;

    void on_poison() {
        hits_ += 1 + static_cast<frames_t>(world_->timers.arm_next(poison_, period_));
    }

    std::unique_ptr<world> world_ = std::make_unique<world>();
    std::chrono::milliseconds period_;
    frames_t lived_ = 0, hits_ = 0;
    bool paused_ = false;
    tvec::timer_group group_;
    tvec::grouped_timer poison_{group_, tvec::call<&poisoned::poison_, &poisoned::on_poison>};
};

}  // namespace

Test(whole_frames, millisecond_periods_stay_exact_in_whole_frames) {
    std::mt19937_64 random(support::from_environment("TVEC_SEED", 5));
    const auto play = [&]<class Frame>(Frame) {
        for (const auto period : {1ms, 7ms, 100ms, 1500ms}) {
            poisoned<Frame> hero(period);
            for (int i = 0; i < 1'000; ++i) {
                const auto n = static_cast<frames_t>(random() % 8);
                if (n == 0) hero.pause_or_resume();
                if (n == 1) hero.roll_back_after(5);
                if (n == 2) hero.load_elsewhere();
                hero.play(random() % 9 == 0 ? 20 * n : 1);
                hero.expect_each_period();
            }
        }
    };
    at_every_rate(play);
    play(frame_of<1, 128>());
    play(frame_of<1, 240>());
}

Test(whole_frames, fire_what_their_middle_arms_for_now) {
    game<frame_of<1, 60>, std::common_type_t<frame_of<1, 60>, std::chrono::milliseconds>> g;
    int fired = 0;
    tvec::callback_timer twice{[&](tvec::timer_wheel&, tvec::timer& self) {
        if (++fired == 1) g.timers.arm_after(self, 0ms);
    }};
    g.timers.arm_after(twice, 25ms);  // in the middle of the second frame
    g.play();
    CHECK_EQ(fired, 0);
    g.play();
    CHECK_EQ(fired, 2);

    fired = 0;
    g.timers.arm_after(twice, frame_of<1, 60>(1));  // at the end of a frame
    g.play();
    CHECK_EQ(fired, 1);
    g.play();
    CHECK_EQ(fired, 2);
}
