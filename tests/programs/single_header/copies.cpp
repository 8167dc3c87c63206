// Exits with 0 if two copies of tvec of different versions work in one program.
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

}  // namespace

int main() { return fires_all(this_version()) && fires_all(other_version()) ? 0 : 1; }
