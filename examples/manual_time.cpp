// Time that the program drives itself: a manual driver is a call of `advance`. A year of machines
// that break and are repaired passes in a moment, and two runs agree to the second.
#include <cstdio>
#include <random>
#include <vector>

#include "tvec/tvec.hpp"

namespace {

constexpr tvec::jiffies hour = 3600, day = 24 * hour, year = 365 * day;  // a tick is a second

struct tally {
    unsigned breakdowns = 0;
    unsigned repairs = 0;
    unsigned wakeups = 0;
    tvec::jiffies down = 0;     // machine seconds
    tvec::jiffies history = 0;  // a hash of every event and its time
    bool operator==(const tally&) const = default;
};

struct plant {
    std::mt19937 random{2024};
    tally books;

    tvec::jiffies between(tvec::jiffies least, tvec::jiffies most) {
        return least + random() % (most - least);
    }
    void note(tvec::jiffies when) { books.history = books.history * 31 + when; }
};

class machine {
public:
    machine(plant& home, tvec::timer_wheel& wheel) : plant_(&home) { run(wheel); }

private:
    void run(tvec::timer_wheel& wheel) { wheel.arm_after(breaks_, plant_->between(day, 60 * day)); }

    void on_breakdown(tvec::timer_wheel& wheel) {
        const tvec::jiffies repair = plant_->between(hour, 12 * hour);
        ++plant_->books.breakdowns;
        plant_->books.down += repair;
        plant_->note(wheel.now());
        wheel.arm_after(repaired_, repair);
    }
    void on_repaired(tvec::timer_wheel& wheel) {
        ++plant_->books.repairs;
        plant_->note(wheel.now());
        run(wheel);
    }

    plant* plant_;
    tvec::timer breaks_{tvec::call<&machine::breaks_, &machine::on_breakdown>};
    tvec::timer repaired_{tvec::call<&machine::repaired_, &machine::on_repaired>};
};

tally simulate(unsigned machines) {
    plant home;
    tvec::timer_wheel wheel;
    std::vector<machine> all;  // grows while its timers are pending: moved timers keep their places
    for (unsigned i = 0; i < machines; ++i) all.emplace_back(home, wheel);

    // The driver. It jumps over empty time.
    for (auto next = wheel.next_wakeup(); next && *next <= year; next = wheel.next_wakeup()) {
        wheel.advance(*next);
        ++home.books.wakeups;
    }
    return home.books;
}

}  // namespace

int main() {
    const tally first = simulate(200), second = simulate(200);
    std::printf("a year of 200 machines: %u breakdowns, %u repairs, %.2f %% down, %u wake-ups\n",
                first.breakdowns, first.repairs,
                100.0 * static_cast<double>(first.down) / (200.0 * year), first.wakeups);
    std::printf("the second run %s\n", first == second ? "is the same" : "DIFFERS");
    return first == second && first.repairs > 0 ? 0 : 1;
}
