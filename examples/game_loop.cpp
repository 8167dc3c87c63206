// A game server's loop at 60 or 128 frames per second. A jiffy is a frame: cooldowns and respawns
// are counted in frames and fire in the frame in which they are due. A replay, frame by frame,
// replays. The loop sleeps until the absolute time of each frame, so lateness does not add up, and
// neither does rounding where a frame is no whole number of nanoseconds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "support/command_line.hpp"
#include "support/figures.hpp"
#include "support/program.hpp"
#include "tvec/extra/lateness_histogram.hpp"
#include "tvec/tvec.hpp"

namespace {

using std::chrono::milliseconds;
using tvec::jiffies;

struct options {
    unsigned hz = 60;
    unsigned seconds = 0;
    bool simulated = false;
};

struct score {
    std::uint64_t creatures = 0;
    std::uint64_t attacks = 0;
    std::uint64_t deaths = 0;
    std::uint64_t respawns = 0;
    std::uint64_t relocations = 0;  // of all creatures, while their timers were pending
    std::uint64_t wrong_frame = 0;  // fires in another frame than the one armed for
    std::uint64_t lost = 0;         // creatures that wait for nothing
    std::uint64_t history = 0;      // depends on every fire and its frame
    bool operator==(const score&) const = default;
};

class arena;

// Alive, it attacks when its cooldown is over; dead, it waits to respawn. It lives in a vector and
// is moved when that grows: its timers keep their places.
class creature {
public:
    explicit creature(arena& home) : arena_(&home) {}

    void rest();
    void move() { position_ += alive() ? speed_ : 0; }
    void take_hit();
    bool alive() const { return health_ > 0; }
    bool waits() const { return alive() ? cooldown_.pending() : respawn_.pending(); }

private:
    static constexpr int full_health = 100, damage = 20;

    void on_cooldown();
    void on_respawn();

    arena* arena_;
    int health_ = full_health;
    float position_ = 0;
    float speed_ = 1;
    jiffies due_ = 0;
    tvec::timer cooldown_{tvec::call<&creature::cooldown_, &creature::on_cooldown>};
    tvec::timer respawn_{tvec::call<&creature::respawn_, &creature::on_respawn>};
};

class arena {
public:
    explicit arena(unsigned hz) : hz_(hz) {
        spawn(first_wave);
        wheel_.arm_after(wave_, frames(time_between_waves));
    }

    // Runs a frame: first the timers that are due, then everything that goes on all the time.
    void step(jiffies frame) {
        wheel_.advance(frame);
        for (creature& c : creatures_) c.move();
    }

    // Functions for creatures.
    jiffies arm(tvec::timer& t, milliseconds delay) {
        wheel_.arm_after(t, frames(delay));
        return t.expires();
    }
    void fired(jiffies due) {
        score_.wrong_frame += wheel_.now() != due;
        score_.history = score_.history * 31 + wheel_.now();
    }
    milliseconds between(int least, int most) {
        return milliseconds(least + static_cast<int>(below(static_cast<unsigned>(most - least))));
    }
    creature& anybody() { return creatures_[below(static_cast<unsigned>(creatures_.size()))]; }
    score& count() { return score_; }

    score result() {
        score_.creatures = creatures_.size();
        for (const creature& c : creatures_) score_.lost += !c.waits();
        return score_;
    }

private:
    static constexpr unsigned first_wave = 100, wave = 20, crowd = 500;
    static constexpr milliseconds time_between_waves{250};

    unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }

    // Rounded up, so that nothing comes too soon.
    jiffies frames(milliseconds d) const {
        return (static_cast<jiffies>(d.count()) * hz_ + 999) / 1000;
    }

    void spawn(unsigned n) {
        for (unsigned i = 0; i < n; ++i) {
            const creature* const before = creatures_.data();
            creatures_.emplace_back(*this).rest();
            score_.relocations += creatures_.data() != before;
        }
    }

    // The vector grows here and nowhere else: in no creature's callback, for that would move the
    // creature from under its own feet.
    void on_wave() {
        spawn(wave);
        if (creatures_.size() < crowd) wheel_.arm_next(wave_, frames(time_between_waves));
    }

    unsigned hz_;
    score score_;
    std::mt19937 random_{128};
    tvec::timer_wheel wheel_;
    std::vector<creature> creatures_;
    tvec::timer wave_{tvec::call<&arena::wave_, &arena::on_wave>};
};

// --- creature -----------------------------------------------------------------------------------

void creature::rest() { due_ = arena_->arm(cooldown_, arena_->between(300, 1500)); }

void creature::on_cooldown() {
    arena_->fired(due_);
    ++arena_->count().attacks;
    rest();
    creature& target = arena_->anybody();
    if (&target != this && target.alive()) target.take_hit();
}

void creature::take_hit() {
    health_ -= damage;
    speed_ = -speed_;
    if (alive()) return;
    ++arena_->count().deaths;
    cooldown_.cancel();  // also if it is due in this very frame
    due_ = arena_->arm(respawn_, milliseconds(1000));
}

void creature::on_respawn() {
    arena_->fired(due_);
    ++arena_->count().respawns;
    health_ = full_health;
    rest();
}

// --- pacing -------------------------------------------------------------------------------------

template <int Hz> using frame = std::chrono::duration<std::int64_t, std::ratio<1, Hz>>;

// The machine's own sleep.
struct real_sleep {
    using clock = std::chrono::steady_clock;
    void operator()(clock::time_point t) { std::this_thread::sleep_until(t); }
};

// A sleep that takes no time, is always a little too long, and sometimes much.
struct simulated_sleep {
    using clock = tvec::manual_clock;
    void operator()(clock::time_point t) {
        const bool stalled = random() % 5000 == 0;
        const auto late = std::chrono::microseconds(random() % (stalled ? 200'000 : 300));
        clock::set(std::max(clock::now(), t) + late);
    }
    std::mt19937 random{60};
};

struct outcome {
    score points;
    tvec::lateness_histogram late;
    std::uint64_t catching_up = 0;           // frames that began when they should have been over
    std::chrono::nanoseconds last_start{0};  // when the last frame was to begin, since the first
    double seconds = 0;                      // what it took
};

template <int Hz, class Sleep> outcome play(jiffies frames) {
    using clock = typename Sleep::clock;
    const tvec::tick_clock<frame<Hz>, clock> pace;  // frame 0 begins now
    const auto began = std::chrono::steady_clock::now();
    arena world(Hz);
    Sleep sleep;
    outcome seen;
    for (jiffies f = 1; f <= frames; ++f) {  // after a stall, frames follow without a pause
        sleep(pace.start_of(f));
        seen.late.record(clock::now() - pace.start_of(f));
        seen.catching_up += pace.now() > f;
        world.step(f);
    }
    seen.points = world.result();
    seen.last_start = pace.start_of(frames) - pace.origin();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    seen.seconds = took.count();
    return seen;
}

template <class Sleep> outcome play(const options& o) {
    const jiffies frames = jiffies{o.seconds} * o.hz;
    return o.hz == 60 ? play<60, Sleep>(frames) : play<128, Sleep>(frames);
}

// --- report -------------------------------------------------------------------------------------

void print(const options& o, outcome& seen) {
    using example::print_line;
    const score& s = seen.points;
    const unsigned rounded = 1000 / o.hz;  // the frame of a loop that counts in milliseconds
    fmt::print("{} s of {} frames per second{}, in {:.2f} s\n", o.seconds, o.hz,
               o.simulated ? ", simulated" : "", seen.seconds);
    print_line("frames",
               fmt::format("{}, {} of them catching up", seen.late.count(), seen.catching_up));
    print_line("frame lateness", example::spread(seen.late));
    print_line("the last one due at",
               fmt::format("{:.9f} s ({:.3f} s in frames of {} ms)",
                           example::seconds_of(seen.last_start),
                           static_cast<double>(seen.late.count()) * rounded / 1e3, rounded));
    print_line("creatures", fmt::format("{}, moved in memory {} times while timers were pending",
                                        s.creatures, s.relocations));
    print_line("attacks", s.attacks);
    print_line("deaths, respawns", fmt::format("{}, {}", s.deaths, s.respawns));
    print_line("early frames", seen.late.early());
    print_line("in a wrong frame", s.wrong_frame);
    print_line("lost timers", s.lost);
}

// Everything in its frame, nobody forgotten, and the last frame where the arithmetic has it.
bool sound(const options& o, const outcome& seen) {
    const score& s = seen.points;
    return seen.late.early() == 0 && s.wrong_frame == 0 && s.lost == 0 && s.attacks > 0 &&
           s.relocations > 0 && seen.last_start == std::chrono::seconds(o.seconds);
}

int run(const options& o) {
    outcome seen = o.simulated ? play<simulated_sleep>(o) : play<real_sleep>(o);
    print(o, seen);
    bool fine = sound(o, seen);
    if (o.simulated) {
        const bool same = play<simulated_sleep>(o).points == seen.points;
        example::print_line("the second run", same ? "is the same" : "DIFFERS");
        fine &= same;
    }
    return fine ? 0 : 1;
}

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "A game server's loop whose jiffy is a frame. Prints how late its frames began; "
        "exits non-zero if\na timer fired in a wrong frame or was lost.",
        "game_loop"};
    std::optional<unsigned> seconds;
    line.add_choice("--hz", o.hz, {60, 128}, "frames per second");
    line.add_number("--seconds", seconds, 1, 86'400,
                    "how long to play; if it is not said 5, or 3600 if simulated");
    line.add_flag("--simulated", o.simulated,
                  "on a clock that is set and not waited for, with stalls; twice, to compare");
    line.parse_or_exit(argc, argv);
    o.seconds = seconds.value_or(o.simulated ? 3600 : 5);
    return o;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("game_loop", [&] { return run(parse(argc, argv)); });
}
