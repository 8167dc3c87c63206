// unlink() cancels. Afterwards the wheel holds no reference to the timer's bytes.
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(unlinking, .timeout = 60);

namespace {

int fired = 0;
void count(timer_wheel&, tvec::timer&) { ++fired; }

// A timer as in C programs: its memory is freed or reused without a destructor.
class raw_timer {
public:
    raw_timer() { begin(); }
    ~raw_timer() { std::free(memory_); }
    raw_timer(const raw_timer&) = delete;
    raw_timer& operator=(const raw_timer&) = delete;

    void begin() { t_ = new (memory_) tvec::timer(count); }
    void zero() { std::memset(memory_, 0, sizeof(tvec::timer)); }
    // From now on ASan reports every access to it.
    void free() { std::free(std::exchange(memory_, nullptr)); }

    tvec::timer* operator->() const { return t_; }
    tvec::timer& operator*() const { return *t_; }

private:
    void* memory_ = std::malloc(sizeof(tvec::timer));
    tvec::timer* t_ = nullptr;
};

}  // namespace

Test(unlinking, unlink_tells_whether_the_timer_was_pending) {
    timer_wheel wheel;
    probe p;
    CHECK(!p.t.unlink());
    wheel.arm_after(p.t, 10);
    CHECK(p.t.unlink());
    CHECK(!p.t.unlink());
    CHECK(!p.t.cancel());
    wheel.arm_after(p.t, 10);
    wheel.advance(10);
    CHECK(!p.t.unlink());
    wheel.arm_after(p.t, 10);
    p.t.cancel();
    CHECK(!p.t.unlink());
    CHECK(!p.t.pending());
}

Test(unlinking, an_unlinked_timers_memory_may_be_reused) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) {
            timer_wheel wheel(start);
            std::array<raw_timer, 9> timers;
            for (raw_timer& t : timers) wheel.arm_after(*t, delay);
            for (std::size_t i = 0; i < timers.size(); i += 2) {
                REQUIRE(timers[i]->unlink());
                timers[i].zero();
            }
            REQUIRE_EQ(check(wheel), "");
            timers[0].begin();
            wheel.arm_after(*timers[0], delay);
            fired = 0;
            wheel.advance(start + delay);
            REQUIRE_EQ(fired, 5);
            REQUIRE_EQ(check(wheel), "");
        }
}

Test(unlinking, an_unlinked_timer_needs_no_destructor) {
    timer_wheel wheel;
    raw_timer pending, cancelled, never_armed, gone;
    for (raw_timer* t : {&pending, &cancelled}) wheel.arm_after(**t, 700);
    wheel.arm_after(*gone, 1);
    wheel.advance(1);
    cancelled->cancel();
    for (raw_timer* t : {&pending, &cancelled, &never_armed, &gone}) {
        (*t)->unlink();
        t->free();
    }
    CHECK(!wheel.any_pending());
    CHECK(wheel.advance(1'000).caught_up);
    CHECK_EQ(check(wheel), "");
}

Test(unlinking, a_sibling_unlinked_in_a_callback_never_fires) {
    timer_wheel wheel;
    std::array<raw_timer, 12> timers;
    bool was_pending = false;
    probe first([&](timer_wheel&) {
        for (raw_timer& t : timers) {
            was_pending = t->unlink();
            t.free();
        }
    });
    for (raw_timer& t : timers) wheel.arm_after(*t, 60);
    wheel.arm_after(first.t, 60);  // fires first, as the newest of its slot
    fired = 0;
    wheel.advance(1'000);
    CHECK_EQ(first.fired(), 1);
    CHECK_EQ(fired, 0);
    CHECK(was_pending);
    CHECK_EQ(check(wheel), "");
}

Test(unlinking, a_callback_may_unlink_and_overwrite_its_timer) {
    timer_wheel wheel;
    alignas(tvec::timer) std::array<std::byte, sizeof(tvec::timer)> memory;
    static bool was_pending;
    was_pending = true;
    auto* const t = new (memory.data()) tvec::timer([](timer_wheel&, tvec::timer& self) {
        was_pending = self.unlink();
        std::memset(static_cast<void*>(&self), 0xff, sizeof self);
    });
    wheel.arm_after(*t, 5);
    CHECK_EQ(wheel.advance(5).fired, 1);
    CHECK(!was_pending);
    CHECK_EQ(check(wheel), "");
}

Test(unlinking, drain_skips_timers_that_its_visitor_unlinks) {
    timer_wheel wheel;
    std::array<raw_timer, 12> timers;
    for (std::size_t i = 0; i < timers.size(); ++i) wheel.arm_after(*timers[i], 1 + 100 * i);
    std::size_t shown = 0;
    wheel.drain([&](tvec::timer& first) {
        ++shown;
        for (raw_timer& t : timers) {
            CHECK_EQ(t->unlink(), &*t != &first);
            t.free();
        }
    });
    CHECK_EQ(shown, 1);
    CHECK_EQ(check(wheel), "");
}

Test(unlinking, an_unlinked_timer_keeps_deadline_and_callback) {
    timer_wheel wheel, other;
    probe p;
    wheel.arm_after(p.t, 77);
    p.t.unlink();
    CHECK_EQ(p.t.expires(), 77);
    CHECK(!other.arm_after(p.t, 5));
    other.advance(5);
    CHECK(p.fired_only_at(5));
    CHECK(wheel.advance(100).caught_up);
}

Test(unlinking, a_timer_whose_wheel_is_gone_does_nothing) {
    raw_timer t;
    {
        timer_wheel wheel;
        wheel.arm_after(*t, 10);
    }
    CHECK(!t->unlink());
}
