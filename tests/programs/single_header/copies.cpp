// Exits with 0 if several copies of tvec work in one program, two of one version and one of
// another, and if timers can move between wheels of the two.
#include "copy.hpp"
#include "tvec.hpp"

#include <vector>

namespace {

// A wheel of a copy.
class wheel {
public:
    explicit wheel(const copy& c) : copy_(c), wheel_(c.make()) {}
    ~wheel() { copy_.destroy(wheel_); }
    wheel(const wheel&) = delete;
    wheel& operator=(const wheel&) = delete;

    void arm(tvec::timer& t, unsigned long at) { copy_.arm(wheel_, &t, at); }
    unsigned long fire(unsigned long until) { return copy_.fire(wheel_, until); }

private:
    copy copy_;
    void* wheel_;
};

bool fires_all(const copy& c) {
    wheel w(c);
    std::vector<tvec::timer> timers(50);
    for (unsigned i = 0; i < timers.size(); ++i) w.arm(timers[i], i * i);
    unsigned long fired = 0;
    for (unsigned long tick = 1; tick <= timers.size(); ++tick) fired += w.fire(tick * tick);
    return fired == timers.size();
}

// The numbers of their wheels would be the same if the copies did not coordinate.
bool can_change_between(const copy& a, const copy& b) {
    wheel first(a), second(b);
    tvec::timer t;
    first.arm(t, 10);
    second.arm(t, 20);
    return first.fire(100) == 0 && second.fire(100) == 1 && !t.pending();
}

}  // namespace

int main() {
    const copy first = first_copy(), second = second_copy(), other = other_version();
    if (!fires_all(first) || !fires_all(second) || !fires_all(other)) return 1;
    return can_change_between(first, second) && can_change_between(second, first) ? 0 : 2;
}
