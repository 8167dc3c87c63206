// Pushing a pending timer back, cancelling it, and arming it again later each write one cache
// line: the timer's own.
#include <array>
#include <cstring>
#include <memory>

#include "support/check.hpp"
#include "support/cleared.hpp"
#include "support/starts.hpp"
#include "tvec/core/timer_wheel.hpp"

using tvec::jiffies;

TestSuite(one_line, .timeout = 60);

namespace {

// A wheel full of timers in one piece of memory, to be compared byte by byte.
struct neighbours {
    explicit neighbours(jiffies start) : wheel(start) {
        jiffies delay = 1;
        for (tvec::timer& t : timers) wheel.arm_after(t, delay = delay * 3 % 1'000'003);
        for (std::size_t i = 0; i < timers.size(); i += 14)  // some wait beyond the wheel
            wheel.arm_after(timers[i], (jiffies{1} << 34) + i);
    }

    tvec::timer_wheel wheel;
    std::array<tvec::timer, 200> timers;
};

// Returns whether `act` changes nothing of the neighbours but the bytes of timer `i`.
template <class F> bool writes_only(neighbours& c, std::size_t i, F act) {
    const auto bytes = sizeof(neighbours);
    const auto before = std::make_unique_for_overwrite<unsigned char[]>(bytes);
    std::memcpy(before.get(), static_cast<const void*>(&c), bytes);
    act(c.timers[i]);
    const auto* const own = reinterpret_cast<const unsigned char*>(&c.timers[i]);
    const auto offset = static_cast<std::size_t>(own - reinterpret_cast<unsigned char*>(&c));
    std::memcpy(before.get() + offset, own, sizeof(tvec::timer));
    return std::memcmp(before.get(), static_cast<const void*>(&c), bytes) == 0;
}

}  // namespace

Test(one_line, push_back_and_cancel_write_only_the_timer) {
    for (const jiffies start : support::starts()) {
        auto c = std::make_unique<support::cleared<neighbours>>(start);
        for (std::size_t i = 0; i < c->timers.size(); i += 7) {
            const jiffies due = c->timers[i].expires();
            const auto arm = [&](jiffies at) {
                return [&c, at](tvec::timer& t) { c->wheel.arm_at(t, at); };
            };
            REQUIRE(writes_only(*c, i, arm(due)));
            REQUIRE(writes_only(*c, i, arm(due + 1)));
            REQUIRE(writes_only(*c, i, arm(due + (1 << 20))));
            REQUIRE(writes_only(*c, i, [](tvec::timer& t) { t.cancel(); }));
            REQUIRE(writes_only(*c, i, arm(due + (jiffies{1} << 34))));
            REQUIRE(writes_only(*c, i, arm(tvec::never)));
        }
    }
}

Test(one_line, pulling_in_writes_more) {
    auto c = std::make_unique<support::cleared<neighbours>>(0);
    CHECK(!writes_only(*c, 5, [&](tvec::timer& t) { c->wheel.arm_at(t, 1); }));
}
