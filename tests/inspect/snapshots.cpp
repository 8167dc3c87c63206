// Snapshots: a wheel that is restored goes on as the one that was captured, fire by fire.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/private_members.hpp"
#include "support/starts.hpp"
#include "tvec/extra/snapshot.hpp"
#include "tvec/extra/timer_group.hpp"
#include "tvec/inspect/inspect.hpp"

using tvec::jiffies, tvec::snapshot, tvec::timer, tvec::timer_wheel;

TestSuite(snapshots, .timeout = 120);

namespace {

// A wheel, its timers, and what they do when they fire: which depends on the seed alone.
class world {
public:
    explicit world(jiffies start, std::size_t timers)
        : wheel_(std::make_unique<timer_wheel>(start)) {
        for (std::size_t i = 0; i < timers; ++i)
            all_.push_back(std::make_unique<subject>(*this, i));
    }

    snapshot captured() const {
        snapshot s;
        s.capture(*wheel_, [](const timer& t) { return subject_of(t).number; });
        return s;
    }
    void restore(const snapshot& s) {
        s.restore(*wheel_, [this](std::uint64_t id) { return &all_[id]->t; });
        CHECK(tvec::check(*wheel_).empty());
    }

    // Does something that the seed says, and returns what came of it.
    std::vector<std::uint64_t> act(std::uint64_t seed) {
        random_.seed(seed);
        seen_.clear();
        perform(1 + random_() % 6);
        note(wheel_->now());
        note(wheel_->next_wakeup().value_or(tvec::never));
        note(wheel_->behind());
        return seen_;
    }
    // The same until nothing is left.
    std::vector<std::uint64_t> run_dry() {
        seen_.clear();
        quiet_ = true;
        while (const auto next = wheel_->next_wakeup()) wheel_->advance(*next);
        quiet_ = false;
        return seen_;
    }

    timer& at(std::size_t i) { return all_[i]->t; }
    timer_wheel& wheel() { return *wheel_; }

private:
    struct subject {
        subject(world& w, std::size_t n) : home(&w), number(n) {}
        void on_fire(timer_wheel& w) { home->fired(number, w); }
        world* home;
        std::size_t number;
        timer t{tvec::call<&subject::t, &subject::on_fire>};
    };

    static const subject& subject_of(const timer& t) {
        return tvec::owner_of<&subject::t>(const_cast<timer&>(t));
    }

    void note(std::uint64_t n) { seen_.push_back(n); }

    void fired(std::size_t number, timer_wheel& w) {
        note(number);
        note(w.now());
        note(w.behind());
        if (quiet_) return;
        if (random_() % 2 == 0) arm(number);
        if (random_() % 8 == 0) arm(any());
        if (random_() % 8 == 0) note(at(any()).cancel());
        if (random_() % 16 == 0) renew(any());
    }

    std::size_t any() { return random_() % all_.size(); }
    jiffies delay() {
        const jiffies d = jiffies{1} << random_() % (random_() % 16 == 0 ? 62 : 22);
        return random_() % 4 == 0 ? 64 : d + random_() % d;  // many on one tick
    }
    // Only of a timer that is linked does a snapshot have the last deadline.
    void arm(std::size_t i) {
        timer& t = at(i);
        switch (random_() % 6) {
        case 0:
            return note(wheel_->arm_within(t, wheel_->now() + delay(), wheel_->now() + delay()));
        case 1:
            return note(wheel_->arm_if_earlier(t, wheel_->now() + delay()));
        case 2:
            return note(t.pending() ? wheel_->arm_at(t, t.expires() + random_() % 300) : 2);
        case 3:
            return note(wheel_->arm_at(t, wheel_->now() - std::min(wheel_->now(), delay())));
        default:
            return note(wheel_->arm_after(t, delay()));
        }
    }
    void renew(std::size_t i) { all_[i] = std::make_unique<subject>(*this, i); }

    void perform(std::uint64_t actions) {
        for (; actions != 0; --actions) {
            switch (random_() % 12) {
            case 0:
                note(at(any()).cancel());
                break;
            case 1:
                note(at(any()).unlink());
                break;
            case 2:
                random_() % 4 == 0 ? renew(any()) : arm(any());
                break;
            case 3:
            case 4:
            case 5:
                advance();
                break;
            default:
                for (std::uint64_t n = random_() % 20; n != 0; --n) arm(any());
            }
        }
    }
    void advance() {
        const jiffies d = random_() % 3 == 0   ? delay() % 100'000
                          : random_() % 2 == 0 ? random_() % 20
                                               : wheel_->next_wakeup().value_or(0) - wheel_->now();
        const jiffies to = wheel_->now() + std::min<jiffies>(d, 1'000'000);
        const std::size_t budget = random_() % 2 == 0 ? timer_wheel::unlimited : 1 + random_() % 30;
        const auto number = [](timer& t) { return subject_of(t).number; };
        const auto p =
            random_() % 4 == 0
                ? wheel_->advance_in_order(
                      to, [&](timer& a, timer& b) { return number(a) < number(b); }, budget)
                : wheel_->advance(to, budget);
        note(p.fired);
        note(p.caught_up);
    }

    std::mt19937_64 random_;
    std::vector<std::uint64_t> seen_;
    bool quiet_ = false;
    std::unique_ptr<timer_wheel> wheel_;
    std::vector<std::unique_ptr<subject>> all_;
};

constexpr std::size_t many = 400;

}  // namespace

Test(snapshots, a_fresh_wheel_continues_the_captured_one) {
    std::mt19937_64 random(11);
    for (const jiffies start : support::starts()) {
        for (std::size_t round = 0; round < support::scaled(6, 1); ++round) {
            auto one = std::make_unique<world>(start, many);
            for (int i = 0; i < 300; ++i) {
                if (random() % 25 == 0) {
                    world other(random() % 1'000'000, many);
                    for (std::uint64_t n = random() % 20; n != 0; --n) other.act(random());
                    other.restore(one->captured());
                    for (std::uint64_t n = random() % 40; n != 0; --n) {
                        const auto seed = random();
                        REQUIRE(one->act(seed) == other.act(seed));
                    }
                    if (random() % 4 == 0) {
                        REQUIRE(one->run_dry() == other.run_dry());
                        break;
                    }
                }
                one->act(random());
            }
        }
    }
}

Test(snapshots, a_rolled_back_wheel_fires_the_same_again) {
    std::mt19937_64 random(13);
    for (const jiffies start : support::starts()) {
        world game(start, many);
        std::array<snapshot, 8> past;
        std::array<std::uint64_t, 8> seeds;
        std::array<std::vector<std::uint64_t>, 8> seen;
        for (std::size_t frame = 0; frame < support::scaled(120, 30); ++frame) {
            const std::size_t k = frame % past.size();
            past[k] = game.captured();
            seeds[k] = random();
            seen[k] = game.act(seeds[k]);
            if (frame < past.size() || random() % 4 != 0) continue;
            game.restore(past[(frame + 1) % past.size()]);
            for (std::size_t i = 1; i <= past.size(); ++i) {
                const std::size_t again = (frame + i) % past.size();
                REQUIRE(game.captured().save() == past[again].save());
                REQUIRE(game.act(seeds[again]) == seen[again]);
            }
        }
    }
}

Test(snapshots, a_capture_changes_nothing_and_is_repeatable) {
    world game(77, many);
    for (std::uint64_t i = 0; i < 500; ++i) game.act(i);
    const snapshot once = game.captured(), again = game.captured();
    CHECK(once.save() == again.save());
    CHECK_EQ(once.now(), game.wheel().now());
    CHECK_GE(once.size(), game.wheel().count_pending());
    world other(0, many);
    other.restore(once);
    CHECK(once.save() == other.captured().save());
    CHECK_EQ(other.wheel().count_pending(), game.wheel().count_pending());
}

Test(snapshots, a_restore_replaces_the_wheels_timers) {
    timer_wheel wheel, elsewhere;
    timer kept, newer, moved;
    wheel.arm_at(kept, 10);
    wheel.arm_at(moved, 20);
    snapshot s;
    s.capture(wheel, [&](const timer& t) { return &t == &kept ? 1 : 2; });
    wheel.arm_at(newer, 5);
    elsewhere.arm_at(moved, 7);
    kept.cancel();
    s.restore(wheel, [&](std::uint64_t id) { return id == 1 ? &kept : &moved; });
    CHECK(!newer.pending());
    CHECK_EQ(kept.expires(), 10);
    CHECK_EQ(elsewhere.count_pending(), 0);
    CHECK_EQ(wheel.count_pending(), 2);
    CHECK_EQ(wheel.advance(20).fired, 2);
    s.restore(wheel, [&](std::uint64_t id) { return id == 1 ? &kept : nullptr; });
    CHECK_EQ(wheel.now(), 0);
    CHECK_EQ(wheel.advance(20).fired, 1);
}

Test(snapshots, timers_left_over_are_due_after_a_restore) {
    timer_wheel wheel, other;
    std::array<timer, 100> t, u;
    for (timer& each : t) wheel.arm_at(each, 10);
    wheel.advance(12, 30);
    snapshot s;
    s.capture(wheel, [&](const timer& each) { return &each - t.data(); });
    s.restore(other, [&](std::uint64_t id) { return &u[id]; });
    CHECK_EQ(other.now(), 10);
    CHECK_EQ(other.behind(), 2);
    CHECK_EQ(*other.next_wakeup(), 10);
    CHECK_EQ(other.advance(12).fired, 70);
    for (std::size_t i = 0; i < t.size(); ++i) CHECK(!u[i].pending());
}

Test(snapshots, a_restore_tells_of_an_earlier_wakeup) {
    timer_wheel wheel;
    timer t([](timer_wheel&, timer&) {});
    wheel.arm_at(t, 50);
    snapshot saved;
    saved.capture(wheel, [](const timer&) { return 0; });
    wheel.advance(100);
    CHECK(!wheel.next_wakeup());

    int told = 0;
    wheel.on_earlier_wakeup([](void* count) noexcept { ++*static_cast<int*>(count); }, &told);
    const auto same = [&](std::uint64_t) { return &t; };
    saved.restore(wheel, same);
    CHECK_EQ(told, 1);
    CHECK_EQ(wheel.next_wakeup(), 50);
    saved.restore(wheel, same);
    CHECK_EQ(told, 1);
}

Test(snapshots, a_snapshot_of_nothing_empties_a_wheel) {
    timer_wheel wheel(500);
    timer t;
    wheel.arm_after(t, 3);
    const snapshot nothing;
    CHECK_EQ(nothing.size(), 0);
    nothing.restore(wheel, [](std::uint64_t) -> timer* { return nullptr; });
    CHECK(!t.pending());
    CHECK_EQ(wheel.now(), 0);
    CHECK(!wheel.next_wakeup());
    CHECK(tvec::check(wheel).empty());
}

Test(snapshots, only_undamaged_saved_numbers_can_be_loaded) {
    std::mt19937_64 random(17);
    world game(77, many);
    for (std::uint64_t i = 0; i < 300; ++i) game.act(i);
    const snapshot s = game.captured();
    const std::vector<std::uint64_t> saved = s.save();
    snapshot loaded;
    CHECK(loaded.load(saved));
    CHECK(loaded.save() == saved);
    world other(0, many);
    other.restore(loaded);
    CHECK(other.act(5) == game.act(5));
    for (std::size_t n = 0; n < saved.size(); ++n) CHECK(!loaded.load(std::span(saved).first(n)));
    for (int round = 0; round < 1'000; ++round) {
        auto damaged = saved;
        damaged[random() % damaged.size()] ^= std::uint64_t{1} << random() % 64;
        CHECK(!loaded.load(damaged));
    }
    CHECK(loaded.save() == saved);
}

namespace {

using numbers = std::vector<std::uint64_t>;

// With the sum of a forger, which is that of `save`. Returns whether it was loaded: then it is a
// wheel that keeps its rules.
bool is_taken(numbers words, std::size_t n, std::uint64_t to, bool is_shorter = false) {
    snapshot forged, loaded;
    words[n] = to;
    if (is_shorter) words.pop_back();
    forged.*member(support::of_wheel::saved_words{}) = std::move(words);
    if (!loaded.load(forged.save())) return false;
    timer_wheel wheel;
    std::vector<timer> timers(loaded.size());
    std::size_t next = 0;
    loaded.restore(wheel, [&](std::uint64_t) { return &timers[next++]; });
    CHECK_EQ(tvec::check(wheel), "");
    wheel.advance(std::min(wheel.now() + 3'000, tvec::never - 1));
    CHECK_EQ(tvec::check(wheel), "");
    wheel.drain([](timer&) {});
    return true;
}

}  // namespace

Test(snapshots, a_forged_number_is_refused_or_keeps_rules) {
    constexpr std::uint64_t bits = ~std::uint64_t{0};
    world game(77, 20);
    for (std::uint64_t i = 0; i < 300; ++i) game.act(i);
    const numbers words = game.captured().*member(support::of_wheel::saved_words{});
    int taken = 0;  // some are other games
    for (std::size_t n = 0; n < words.size(); ++n) {
        for (const std::uint64_t to : {std::uint64_t{0}, std::uint64_t{1}, words[n] + 1,
                                       words[n] - 1, bits >> 1, bits >> 1 ^ 1, bits >> 32, bits})
            taken += is_taken(words, n, to, to % 3 == 0);
        for (unsigned bit = 0; bit < 64; ++bit) taken += is_taken(words, n, words[n] ^ 1ULL << bit);
    }
    CHECK(taken > 0);
}

// Where a size has 32 bits, too. A snapshot without timers has one slot, its last number.
Test(snapshots, a_forged_number_of_slots_is_refused) {
    snapshot nothing;
    const numbers words = nothing.*member(support::of_wheel::saved_words{});
    const std::size_t slots = words.size() - 2;
    CHECK(words[slots] == 1 && is_taken(words, slots, 1));
    for (unsigned bit = 0; bit < 64; ++bit) CHECK(!is_taken(words, slots, 1 ^ 1ULL << bit));
}

// A cascade relies on it, in a wheel that has work left in the middle of one.
Test(snapshots, a_forged_deadline_passed_by_is_refused) {
    constexpr jiffies lap = 16'384;
    timer_wheel wheel;
    std::vector<timer> timers(20);
    for (timer& t : timers) wheel.arm_at(t, lap + 10);
    CHECK(!wheel.advance(lap, 3).caught_up);
    snapshot s;
    s.capture(wheel, [](const timer&) { return 0; });
    const numbers words = s.*member(support::of_wheel::saved_words{});
    for (std::size_t n = 0; n < words.size(); ++n)
        if (words[n] == lap + 10)
            for (const jiffies past : {jiffies{0}, lap - 1}) is_taken(words, n, past);
}

// Rates are fixed, two in a number, while a slot is being emptied.
Test(snapshots, forged_rates_that_empty_nothing_are_refused) {
    timer_wheel wheel;
    std::vector<timer> timers(200);
    for (timer& t : timers) wheel.arm_at(t, 2'000);
    for (jiffies t = 1; t < 1'790; ++t) wheel.advance(t);
    snapshot s;
    s.capture(wheel, [](const timer&) { return 0; });
    const numbers words = s.*member(support::of_wheel::saved_words{});
    CHECK(is_taken(words, 0, words[0]));
    constexpr std::size_t first = 16;  // after the ticks of the agenda, beside an entry each
    int fixed = 0;
    for (std::size_t n = first; n < first + 2 * tvec::detail::geometry::levels; n += 2) {
        if (words[n] == 0) continue;
        ++fixed;
        CHECK(!is_taken(words, n, words[n] >> 32 << 32));    // gentle: 0
        CHECK(!is_taken(words, n, words[n] & 0xffff'ffff));  // gentle above rate
    }
    CHECK(fixed > 0);
}

Test(snapshots, an_untaken_snapshot_equals_a_new_wheels) {
    timer_wheel wheel;
    snapshot taken;
    taken.capture(wheel, [](const timer&) { return 0; });
    CHECK(snapshot().save() == taken.save());
}

// A game that saves itself by a timer.
Test(snapshots, a_capture_in_a_callback_is_refused) {
    timer_wheel wheel;
    timer other;
    snapshot saved;
    bool is_due = false;
    const auto number_of = [&](const timer& t) { return &t == &other ? 1 : 2; };
    std::string why;
    tvec::callback_timer autosave{[&] {
        is_due = true;
        try {
            saved.capture(wheel, number_of);
        } catch (const std::logic_error& e) {
            why = e.what();
        }
    }};
    wheel.arm_at(other, 100);
    saved.capture(wheel, number_of);
    const auto before = saved.save();
    wheel.arm_at(autosave, 10);
    wheel.advance(10);
    CHECK(is_due);
    CHECK(why.find("set a flag") != std::string::npos);
    CHECK(saved.save() == before);
    saved.capture(wheel, number_of);
    CHECK_EQ(saved.now(), 10);
    std::size_t refused = 0;
    const auto visit = [&](timer&) {
        try {
            saved.capture(wheel, number_of);
        } catch (const std::logic_error&) {
            ++refused;
        }
    };
    wheel.for_each_pending(visit);
    wheel.drain(visit);
    CHECK_EQ(refused, 2);
}

Test(snapshots, a_restore_in_a_callback_is_fatal) {
    const std::string said = support::last_words([] {
        timer_wheel wheel;
        const snapshot nothing;
        tvec::callback_timer rollback{
            [&] { nothing.restore(wheel, [](std::uint64_t) -> timer* { return nullptr; }); }};
        wheel.arm_at(rollback, 10);
        wheel.advance(10);
    });
    CHECK(said.find("restored by a callback") != std::string::npos);
}

Test(snapshots, grouped_timers_of_an_array_are_captured) {
    timer_wheel wheel;
    std::array<tvec::grouped_timer, 3> all;
    for (std::size_t i = 0; i < all.size(); ++i) wheel.arm_at(all[i], 10 + i);
    snapshot before;
    before.capture(wheel, [&](const timer& t) {
        return &static_cast<const tvec::grouped_timer&>(t) - all.data();
    });
    wheel.advance(20);
    before.restore(wheel, [&](std::uint64_t id) { return &all[id]; });
    for (std::size_t i = 0; i < all.size(); ++i) CHECK_EQ(all[i].expires(), 10 + i);
    wheel.advance(11);
    CHECK(!all[1].pending() && all[2].pending());
}
