// Rollback, as fighting games have it: each player's machine plays on with a guess of what the
// other presses. The truth arrives up to 8 frames late. If the guess was wrong, the match goes back
// to that frame, timers and all, and plays the frames again.
#include <array>
#include <cstdint>
#include <cstdio>
#include <random>

#include "tvec/tvec.hpp"

namespace {

constexpr std::size_t late = 8;  // frames
constexpr tvec::jiffies frames = 3'600;

struct fighter {
    int health = 1'000;
    int hits = 0;
    bool busy = false;  // until its strike lands, and it has recovered
    bool operator==(const fighter&) const = default;
};

class match {
public:
    // A frame: what the players press, then the timers of the frame. A jiffy is a frame.
    void play(std::array<bool, 2> pressed) {
        for (std::size_t i = 0; i < 2; ++i)
            if (pressed[i] && !fighters_[i].busy) strike(i);
        wheel_.advance(wheel_.now() + 1);
    }

    // [match]
    // All that a frame changes: the fighters are copied, and the timers are captured.
    struct moment {
        std::array<fighter, 2> fighters;
        tvec::snapshot timers;
    };
    void save(moment& to) const {
        to.fighters = fighters_;
        to.timers.capture(wheel_, [this](const tvec::timer& t) { return &t - timers_.data(); });
    }
    void go_back(const moment& to) {
        fighters_ = to.fighters;
        to.timers.restore(wheel_, [this](std::uint64_t id) { return &timers_[id]; });
    }
    // [match]

    const std::array<fighter, 2>& fighters() const { return fighters_; }

private:
    static constexpr std::size_t lands = 0, recovers = 2, regains = 4;  // and the fighter

    void strike(std::size_t i) {
        fighters_[i].busy = true;
        wheel_.arm_after(timers_[lands + i], 5);
    }

    void on_timer(tvec::timer& t) {
        const auto id = static_cast<std::size_t>(&t - timers_.data());
        fighter& self = fighters_[id % 2];
        fighter& other = fighters_[1 - id % 2];
        switch (id - id % 2) {
        case lands:  // both on one frame: the order decides
            ++self.hits;
            other.health -= 7;
            other.busy = true;
            timers_[lands + 1 - id % 2].cancel();
            wheel_.arm_after(timers_[recovers + id % 2], 9);
            wheel_.arm_after(timers_[recovers + 1 - id % 2], 14);
            wheel_.arm_after(timers_[regains + 1 - id % 2], 60);
            break;
        case recovers:
            self.busy = false;
            break;
        case regains:
            self.health += 1;
            wheel_.arm_next(t, 10);
            break;
        }
    }

    std::array<fighter, 2> fighters_;
    tvec::timer_wheel wheel_;
    std::array<tvec::timer, 6> timers_{tvec::call_each<&match::timers_, &match::on_timer>()};
};

// The buttons that each player presses in each frame.
std::array<bool, 2> pressed_in(tvec::jiffies frame) {
    std::mt19937_64 random(frame);
    return {random() % 11 == 0, random() % 13 == 0};
}

}  // namespace

int main() {
    match truth, ours;  // one that knows everything in time, and one that guesses

    std::array<match::moment, late> past;  // the memory is used again and again
    unsigned rollbacks = 0;
    for (tvec::jiffies now = 0; now < frames + late; ++now) {
        if (now >= late &&
            pressed_in(now - late)[1]) {  // it was: something. We had guessed: nothing
            ++rollbacks;
            ours.go_back(past[now % late]);
            for (tvec::jiffies frame = now - late; frame < now; ++frame) {
                ours.save(past[frame % late]);
                ours.play({pressed_in(frame)[0], frame == now - late});
            }
        }
        ours.save(past[now % late]);
        ours.play({pressed_in(now)[0], false});
    }
    for (tvec::jiffies now = 0; now < frames; ++now) truth.play(pressed_in(now));
    ours.go_back(past[frames % late]);  // as it was when the last truth had arrived

    const auto& [a, b] = ours.fighters();
    std::printf("%d and %d hits, health %d and %d, after %u rollbacks\n", a.hits, b.hits, a.health,
                b.health, rollbacks);
    return ours.fighters() == truth.fighters() && rollbacks > 0 && a.hits > 0 && b.hits > 0 ? 0 : 1;
}
