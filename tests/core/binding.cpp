// How a timer finds its object and its callback: owner_of, call, callback_timer.
#include <memory>

#include "support/check.hpp"
#include "tvec/timer_wheel.hpp"

using tvec::timer_wheel;

TestSuite(binding, .timeout = 60);

namespace {

struct connection {
    virtual ~connection() = default;
    virtual void on_idle() { ++idles; }
    void on_retry(timer_wheel& wheel) {
        ++retries;
        if (retries < 3) wheel.arm_after(retry, 5);
    }

    char name = 'c';
    int idles = 0;
    int retries = 0;
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
    tvec::timer retry{tvec::call<&connection::retry, &connection::on_retry>};
};

struct quiet_connection : connection {
    void on_idle() override { idles += 100; }
};

void by_hand(timer_wheel&, tvec::timer& t) { ++tvec::owner_of<&connection::idle>(t).idles; }

}  // namespace

Test(binding, several_timers_of_one_object_call_their_own_methods) {
    timer_wheel wheel;
    connection c;
    wheel.arm_after(c.idle, 10);
    wheel.arm_after(c.retry, 1);
    wheel.advance(100);
    CHECK_EQ(c.idles, 1);
    CHECK_EQ(c.retries, 3);
}

Test(binding, a_virtual_method_is_called_virtually) {
    timer_wheel wheel;
    const std::unique_ptr<connection> c = std::make_unique<quiet_connection>();
    wheel.arm_after(c->idle, 10);
    wheel.advance(10);
    CHECK_EQ(c->idles, 100);
}

Test(binding, owner_of_finds_the_object_around_the_timer) {
    connection c;
    CHECK(&tvec::owner_of<&connection::idle>(c.idle) == &c);
    CHECK(&tvec::owner_of<&connection::retry>(c.retry) == &c);
    timer_wheel wheel;
    c.idle = tvec::timer(by_hand);
    wheel.arm_after(c.idle, 1);
    wheel.advance(1);
    CHECK_EQ(c.idles, 1);
}

Test(binding, a_callback_timer_carries_its_function) {
    timer_wheel wheel;
    int plain = 0, beats = 0;
    tvec::callback_timer once{[&] { ++plain; }};
    tvec::callback_timer beat{[&](timer_wheel& w, tvec::timer& self) {
        ++beats;
        w.arm_next(self, 10);
    }};
    wheel.arm_after(once, 5);
    wheel.arm_after(beat, 10);
    for (tvec::jiffies t = 1; t <= 100; ++t) wheel.advance(t);
    CHECK_EQ(plain, 1);
    CHECK_EQ(beats, 10);
}

Test(binding, a_callback_timer_may_be_moved_while_pending) {
    timer_wheel wheel;
    int fired = 0;
    auto move_me =
        tvec::callback_timer{[&fired, big = std::make_unique<int>(7)] { fired += *big; }};
    wheel.arm_after(move_me, 5);
    auto moved = std::move(move_me);
    wheel.advance(5);
    CHECK_EQ(fired, 7);
}
