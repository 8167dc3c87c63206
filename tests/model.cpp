// Random operations on two wheels beside an ordered-map model of each: arm, cancel, push back,
// pull in, move, destroy, advance by ticks, jumps and budgets, with callbacks that do the same to
// themselves and to their siblings, and that throw. Every divergence ends the test.
//
// TVEC_SEED and TVEC_STEPS choose the run. A failure prints the seed that repeats it.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "support/check.hpp"
#include "support/ledger.hpp"
#include "tvec/inspect.hpp"
#include "tvec/timer_wheel.hpp"

namespace {

using support::ledger;
using tvec::jiffies;

struct thrown_by_callback {};

class divergence : public std::runtime_error {
    using runtime_error::runtime_error;
};

template <class... Parts> void expect(bool holds, const Parts&... parts) {
    if (holds) return;
    std::ostringstream out;
    (out << ... << parts);
    throw divergence(out.str());
}

// Numbers that hit the edges of a wheel more often than chance would.
class dice {
public:
    explicit dice(std::uint64_t seed) : engine_(seed) {}

    std::uint64_t below(std::uint64_t n) { return engine_() % n; }
    bool one_in(std::uint64_t n) { return below(n) == 0; }

    jiffies delay(jiffies now) {
        switch (below(10)) {
        case 0:
            return below(4);
        case 1:
            return edge();
        case 2:
            return alias(now);
        case 3:
            return engine_() >> (28 + below(36));  // up to 2^36, each size as likely
        case 4:
            return below(300);
        case 5:
            return below(70'000);
        case 6:
            return one_in(20) ? tvec::never : below(2'000'000);
        default:
            return recent_ = one_in(4) ? below(5'000) : recent_;  // many on one tick
        }
    }

private:
    // Within 2 of a power of two at which a level, its lap or the wheel ends.
    jiffies edge() {
        constexpr std::array<unsigned, 13> powers{0, 1, 8, 9, 14, 15, 20, 21, 26, 27, 32, 33, 36};
        const jiffies power = jiffies{1} << powers[below(powers.size())];
        return power + below(5) - (power > 2 ? 2 : 0);
    }

    // The longest delay of a level that still lands in the slot that now() is in.
    jiffies alias(jiffies now) {
        const auto level = static_cast<unsigned>(1 + below(4));
        const jiffies reach = tvec::geometry::width_of(level) * tvec::geometry::ring_of(level);
        return reach - 1 - below(2) * (now % tvec::geometry::width_of(level));
    }

    std::mt19937_64 engine_;
    jiffies recent_ = 100;
};

class world {
public:
    world(jiffies start, std::uint64_t seed, bool check_always)
        : dice_(seed), sides_{side(start), side(start / 2)}, check_always_(check_always) {
        for (int id = 0; id < subjects; ++id)
            subjects_.push_back(std::make_unique<subject>(*this, id));
    }

    void step() {
        switch (dice_.below(12)) {
        case 0:
            advance_to_wakeup(any_side());
            break;
        case 1:
        case 2:
        case 3:
            advance(any_side());
            break;
        default:
            touch(any_id());
            break;
        }
        for (side& s : sides_) verify(s);
    }

    // Nothing may be left behind: hop from wake-up to wake-up until both wheels are empty.
    void run_dry() {
        quiet_ = true;
        for (side& s : sides_)
            for (int hops = 0; s.wheel->next_wakeup(); ++hops) {
                expect(hops < 100'000, "more wake-ups than timers could ask for");
                advance_to_wakeup(s);
            }
        for (side& s : sides_) expect(!s.due.first(), "timers left when no wake-up is");
    }

    std::uint64_t fired() const { return fired_; }

private:
    static constexpr int subjects = 60;

    struct side {
        explicit side(jiffies start) : wheel(std::make_unique<tvec::timer_wheel>(start)) {}
        std::unique_ptr<tvec::timer_wheel> wheel;
        ledger due;
    };

    struct subject {
        subject(world& w, int n) : home(&w), id(n) {}
        void on_fire(tvec::timer_wheel& wheel) { home->fire(id, wheel); }
        world* home;
        int id;
        tvec::timer t{tvec::call<&subject::t, &subject::on_fire>};
    };

    int any_id() { return static_cast<int>(dice_.below(subjects)); }
    side& any_side() { return sides_[dice_.below(3) == 0]; }
    subject& at(int id) { return *subjects_[static_cast<std::size_t>(id)]; }

    side& side_of(const tvec::timer_wheel& wheel) {
        return sides_[&wheel != sides_[0].wheel.get()];
    }

    // --- operations, each on the wheel and on the model ---------------------------------------

    void touch(int id) {
        if (dice_.one_in(500)) return drain(any_side());
        switch (dice_.below(16)) {
        case 0:
            cancel(id);
            break;
        case 1:
            replace(id);
            break;
        case 2:
            move(id);
            break;
        case 3:
            arm_next(id, any_side());
            break;
        case 4:
            arm_within(id, any_side());
            break;
        case 5:
        case 6:
            push_back(id);
            break;
        default:
            arm(id, any_side());
            break;
        }
    }

    bool forget(int id) {
        const bool first = sides_[0].due.cancel(id);
        return sides_[1].due.cancel(id) || first;
    }

    void note_arm(int id, side& s, jiffies at_tick, bool was_pending) {
        const jiffies expected = std::clamp(at_tick, s.wheel->now() + 1, tvec::never);
        expect(was_pending == forget(id), "arm said was_pending=", was_pending);
        s.due.arm(id, expected);
        expect(at(id).t.expires() == expected, "armed for ", expected, " got ", at(id).t.expires());
    }

    void arm(int id, side& s) {
        const jiffies delay = dice_.delay(s.wheel->now());
        const jiffies now = s.wheel->now();
        const jiffies target = delay < tvec::never - now ? now + delay : tvec::never;
        note_arm(id, s, target, s.wheel->arm_after(at(id).t, delay));
    }

    void push_back(int id) {
        for (side& s : sides_) {
            if (!s.due.pending(id)) continue;
            const jiffies later = *s.due.due(id) + dice_.below(1'000);
            note_arm(id, s, std::min(later, tvec::never), s.wheel->arm_at(at(id).t, later));
        }
    }

    void arm_next(int id, side& s) {
        const jiffies period = 1 + dice_.below(5'000);
        const bool was_pending = at(id).t.pending();
        const jiffies from = at(id).t.expires();
        const jiffies reached = s.wheel->now() + s.wheel->behind();
        const jiffies missed = s.wheel->arm_next(at(id).t, period);
        const jiffies next = at(id).t.expires();
        expect(next == tvec::never || next > reached, "arm_next chose ", next);
        expect(next == tvec::never || (next - from) % period == 0, "off phase: ", next);
        expect(missed == 0 || next - period <= reached, "missed ", missed, " too many");
        note_arm(id, s, next, was_pending);
    }

    void arm_within(int id, side& s) {
        const jiffies now = s.wheel->now();
        const jiffies first = now + dice_.below(100'000);
        const jiffies last = first + dice_.below(10'000);
        const bool kept = s.due.pending(id) && *s.due.due(id) >= std::max(first, now + 1) &&
                          *s.due.due(id) <= last;
        const jiffies before = at(id).t.expires();
        const bool was_pending = s.wheel->arm_within(at(id).t, first, last);
        const jiffies chosen = at(id).t.expires();
        expect(chosen >= first && chosen <= std::max(last, now + 1), "outside the window");
        expect(!kept || chosen == before, "left the window it was in");
        note_arm(id, s, chosen, was_pending);
    }

    void cancel(int id) {
        const bool was_pending = at(id).t.cancel();
        expect(was_pending == forget(id), "cancel said ", was_pending);
        expect(!at(id).t.pending(), "pending after cancel");
    }

    void drain(side& s) {
        std::size_t shown = 0;
        const std::size_t pending = s.due.size();
        s.wheel->drain([&](tvec::timer& t) {
            ++shown;
            expect(!t.pending(), "shown while pending");
            expect(s.due.cancel(tvec::owner_of<&subject::t>(t).id), "shown, but not pending");
        });
        expect(shown == pending, "drain showed ", shown, " of ", pending);
    }

    // Destroys the object; what is left of it must never be read again.
    void replace(int id) {
        forget(id);
        subjects_[static_cast<std::size_t>(id)] = std::make_unique<subject>(*this, id);
    }

    void move(int id) {
        auto& place = subjects_[static_cast<std::size_t>(id)];
        place = std::make_unique<subject>(std::move(*place));
    }

    // --- time ---------------------------------------------------------------------------------

    jiffies some_target(side& s) {
        const jiffies now = s.wheel->now();
        const auto first = s.due.first();
        switch (dice_.below(8)) {
        case 0:
            return now - std::min<jiffies>(now, dice_.below(3));
        case 1:
        case 2:
            return now + 1;
        case 3:
            return now + dice_.below(300);
        case 4:
            return first ? *first + dice_.below(3) - 1 : now + 1;
        case 5:
            return one_lap(now);
        case 6:
            return now + dice_.below(100'000);
        default:
            return dice_.one_in(8) ? later(now, dice_.delay(now)) : now + dice_.below(20);
        }
    }

    static jiffies later(jiffies now, jiffies delay) {  // but keep far from the end of time
        return delay < jiffies{1} << 40 ? now + delay : now;
    }

    jiffies one_lap(jiffies now) {
        constexpr std::array<unsigned, 3> laps{8, 14, 20};
        return now + (jiffies{1} << laps[dice_.below(laps.size())]) + dice_.below(3) - 1;
    }

    void advance_to_wakeup(side& s) {
        if (const auto wakeup = s.wheel->next_wakeup())
            advance(s, *wakeup, tvec::timer_wheel::unlimited);
    }

    void advance(side& s) {
        const bool limited = dice_.one_in(3);
        advance(s, some_target(s), limited ? dice_.below(8) : tvec::timer_wheel::unlimited);
    }

    void advance(side& s, jiffies until, std::size_t budget) {
        const auto before = s.wheel->count();
        const jiffies from = s.wheel->now();
        const auto done = try_advance(*s.wheel, until, budget);
        const auto after = s.wheel->count();
        expect(after.clock_backward - before.clock_backward == (until < from), "clock_backward");
        expect(visits(after) - visits(before) <= budget, "budget ", budget, " overrun");
        if (!done) return;
        expect(done->fired == after.fired - before.fired, "fired ", done->fired);
        if (done->caught_up) expect_caught_up(s, std::max(until, from));
    }

    // Empty if a callback threw.
    static std::optional<tvec::timer_wheel::progress>
    try_advance(tvec::timer_wheel& wheel, jiffies until, std::size_t budget) {
        try {
            return wheel.advance(until, budget);
        } catch (const thrown_by_callback&) {
            return std::nullopt;
        }
    }

    static std::uint64_t visits(const tvec::timer_wheel::counters& c) {
        return c.fired + c.moved + c.dropped;
    }

    void expect_caught_up(side& s, jiffies until) {
        expect(s.wheel->now() == until, "now ", s.wheel->now(), " after advance to ", until);
        expect(s.wheel->behind() == 0, "behind at rest");
        expect(!s.due.first() || *s.due.first() > until, "timer for ", *s.due.first(),
               " not fired by ", until);
    }

    void fire(int id, tvec::timer_wheel& wheel) {
        side& s = side_of(wheel);
        ++fired_;
        const auto due = s.due.due(id);
        expect(due.has_value(), "fired, but not pending here: ", id);
        expect(*due == wheel.now(), "due at ", *due, ", fired at ", wheel.now());
        expect(*s.due.first() == *due, "overtook a timer for ", *s.due.first());
        expect(!at(id).t.pending() && at(id).t.expires() == *due, "state inside the callback");
        s.due.cancel(id);
        if (!quiet_) act(id, wheel);
    }

    void act(int id, tvec::timer_wheel& wheel) {
        expect(!wheel.advance(wheel.now() + 10).caught_up, "re-entered advance");
        for (auto n = dice_.below(4); n-- > 0;) touch(dice_.one_in(2) ? id : any_id());
        verify(side_of(wheel));
        if (dice_.one_in(40)) throw thrown_by_callback{};
    }

    // --- what must hold after every step ------------------------------------------------------

    void verify(side& s) {
        const auto first = s.due.first();
        const auto wakeup = s.wheel->next_wakeup();
        expect(!first || (wakeup && *wakeup <= *first), "wake-up after the first expiry");
        expect(!wakeup || *wakeup >= s.wheel->now(), "wake-up in the past");
        if (!check_always_ && !dice_.one_in(64)) return;
        expect(s.wheel->next_expiry() == first, "next_expiry");
        std::size_t pending = 0;
        s.wheel->for_each_pending([&](const tvec::timer&) { ++pending; });
        expect(pending == s.due.size(), pending, " pending, not ", s.due.size());
        const std::string fault = check(*s.wheel);
        expect(fault.empty(), fault);
    }

    dice dice_;
    std::array<side, 2> sides_;
    std::vector<std::unique_ptr<subject>> subjects_;
    bool check_always_;
    bool quiet_ = false;
    std::uint64_t fired_ = 0;
};

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* const value = std::getenv(name);
    return value ? std::strtoull(value, nullptr, 0) : otherwise;
}

std::vector<jiffies> starts() {
    std::vector<jiffies> all;
    for (const jiffies edge :
         {jiffies{0}, jiffies{255}, jiffies{256}, jiffies{1} << 14, jiffies{1} << 20,
          jiffies{1} << 26, (jiffies{1} << 32) - 1, jiffies{1} << 40})
        for (const int off : {-1, 0, 1})
            if (edge != 0 || off >= 0) all.push_back(edge + static_cast<jiffies>(off));
    return all;
}

void explore(std::uint64_t steps, bool check_always) {
    const std::uint64_t seed = from_environment("TVEC_SEED", std::random_device{}());
    steps = from_environment("TVEC_STEPS", steps);
    std::fprintf(stderr, "model: TVEC_SEED=%llu, %llu steps from each start\n",
                 static_cast<unsigned long long>(seed), static_cast<unsigned long long>(steps));
    std::uint64_t fired = 0;
    for (const jiffies start : starts()) {
        world w(start, seed + start, check_always);
        std::uint64_t step = 0;
        try {
            for (; step < steps; ++step) w.step();
            w.run_dry();
        } catch (const std::exception& e) {
            cr_assert_fail("TVEC_SEED=%llu start %llu step %llu: %s",
                           static_cast<unsigned long long>(seed),
                           static_cast<unsigned long long>(start),
                           static_cast<unsigned long long>(step), e.what());
        }
        fired += w.fired();
    }
    CHECK_GE(fired, steps / 4);
}

}  // namespace

TestSuite(model, .timeout = 500);

Test(model, agrees_with_ordered_maps_and_keeps_every_invariant_at_every_step) {
    explore(3'000, true);
}

Test(model, agrees_with_ordered_maps_over_many_operations) { explore(30'000, false); }
