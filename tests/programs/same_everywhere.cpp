// One game, whose fires and saved state are the same on every machine and with every compiler.
// Prints a hash of all fires in order, one of the bytes of two saved games, and one of the timeouts
// of a pool. An argument is the line that it must print. A second game is loaded from the first
// saved one, and must end as the first game.
#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

namespace {

/// FNV-1a over the bytes of numbers, the lowest first.
struct hash {
    void add(std::uint64_t n) {
        for (unsigned i = 0; i < 8; ++i) sum = (sum ^ (n >> 8 * i & 0xff)) * 0x100'0000'01b3;
    }
    std::uint64_t sum = 0xcbf2'9ce4'8422'2325;
};

/// A generator of random numbers that is the same in every library.
struct random_numbers {
    std::uint64_t operator()(std::uint64_t below) {
        state = state * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;
        return (state >> 20) % below;
    }
    std::uint64_t state = 53;
};

/// Creatures with timers of all kinds of delays, on a wheel that is called at gaps and by budgets.
class game {
public:
    game() : creatures_(3'000) {
        for (creature& c : creatures_) c.home = this;
    }

    void play(unsigned calls) {
        for (unsigned i = 0; i < calls; ++i) {
            for (int n = dice_(8) == 0 ? 200 : 0; n > 0; --n) rearm(any());
            const auto gap = dice_(std::uint64_t{1} << dice_(32));
            wheel_.advance(wheel_.now() + wheel_.behind() + gap, dice_(3) == 0 ? 50 : 5'000);
        }
    }

    void on_timer(tvec::timer& t) {
        fires.add(number_of(t) << 48 ^ wheel_.now());
        rearm(t);
        if (dice_(5) == 0) any().cancel();
        if (dice_(5) == 0) rearm(any());
    }

    std::vector<std::uint64_t> save() const {
        tvec::snapshot s;
        s.capture(wheel_, [this](const tvec::timer& t) { return number_of(t); });
        auto numbers = s.save();
        numbers.insert(numbers.end(), {dice_.state, fires.sum});
        return numbers;
    }

    bool load(const std::vector<std::uint64_t>& numbers) {
        tvec::snapshot s;
        if (!s.load(std::span(numbers).first(numbers.size() - 2))) return false;
        s.restore(wheel_, [this](std::uint64_t id) { return &creatures_[id].timer; });
        fires.sum = numbers.back();
        dice_.state = numbers.end()[-2];
        return true;
    }

    hash fires;

private:
    struct creature {
        void on_fire() { home->on_timer(timer); }
        game* home = nullptr;
        tvec::timer timer{tvec::call<&creature::timer, &creature::on_fire>};
    };

    std::uint64_t number_of(const tvec::timer& t) const {
        const creature& owner = tvec::owner_of<&creature::timer>(const_cast<tvec::timer&>(t));
        return static_cast<std::uint64_t>(&owner - creatures_.data());
    }
    tvec::timer& any() { return creatures_[dice_(creatures_.size())].timer; }
    void rearm(tvec::timer& t) { wheel_.arm_after(t, dice_(std::uint64_t{1} << dice_(38))); }

    random_numbers dice_;
    tvec::timer_wheel wheel_;
    std::vector<creature> creatures_;
};

/// Timeouts of a pool on a clock: in game time at several speeds, with groups.
std::uint64_t pooled() {
    hash fires;
    random_numbers dice;
    tvec::game_clock<tvec::manual_clock> world;
    world.resume();
    world.set_speed(1, 3);
    tvec::clocked_wheel timers{
        tvec::game_ticks<std::chrono::milliseconds, tvec::manual_clock>(world)};
    tvec::timeout_pool pool(timers);
    tvec::timer_group party;
    for (std::uint64_t i = 0; i < 300; ++i) {
        const auto period = std::chrono::microseconds(1'000 + dice(90'000));
        const auto note = [&fires, &timers, i] { fires.add(i << 48 ^ timers.wheel().now()); };
        (void)pool.schedule_every(period, note);
        (void)pool.schedule(period * 40, party.add(note));
    }
    for (unsigned i = 0; i < 3'000; ++i) {
        if (i == 500) party.pause(timers);
        if (i == 900) party.resume(timers);
        if (i == 1'200) world.set_speed(0.1);
        if (i == 1'800) world.set_speed(1.9999999999999998);
        tvec::manual_clock::advance(std::chrono::nanoseconds(dice(9'000'000)));
        timers.run();
    }
    return fires.sum;
}

}  // namespace

int main(int argc, char** argv) {
    static game one, other;
    one.play(2'000);
    const auto saved = one.save();
    if (!other.load(saved)) return 2;
    hash state;
    for (const std::uint64_t n : saved) state.add(n);
    one.play(2'000);
    other.play(2'000);
    for (const std::uint64_t n : other.save()) state.add(n);
    std::array<char, 51> line;
    std::snprintf(line.data(), line.size(), "%016" PRIx64 " %016" PRIx64 " %016" PRIx64,
                  other.fires.sum, state.sum, pooled());
    std::puts(line.data());
    const bool expected = argc == 1 || std::strcmp(argv[1], line.data()) == 0;
    return expected && one.save() == other.save() ? 0 : 1;
}
