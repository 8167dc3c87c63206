// Any thread may make a wheel. One owns it: a debug build reports the use by another.
#include <barrier>
#include <csignal>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "support/check.hpp"
#include "support/probe.hpp"

using support::probe;
using tvec::timer_wheel;

TestSuite(threads, .timeout = 60);

namespace {

template <class F> void in_another_thread(F f) { std::thread(f).join(); }

}  // namespace

Test(threads, a_thread_may_fill_a_wheel_another_runs) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, 10);
    in_another_thread([&] { wheel.advance(10); });
    CHECK(p.fired_only_at(10));
}

Test(threads, each_thread_may_have_its_own_wheels) {
    timer_wheel here;
    here.advance(5);
    in_another_thread([] {
        timer_wheel there;
        probe p;
        there.advance(5);
        there.arm_after(p.t, 10);
        there.advance(15);
        CHECK(p.fired_only_at(15));
    });
    here.advance(6);
}

Test(threads, wheels_made_at_once_have_distinct_numbers) {
    constexpr std::size_t makers = 4, each = 50;
    for (int round = 0; round < 100; ++round) {
        std::vector<std::unique_ptr<tvec::detail::wheel_number>> numbers(makers * each);
        std::barrier begin(makers);
        std::vector<std::thread> threads;
        for (std::size_t m = 0; m < makers; ++m)
            threads.emplace_back([&, m] {
                begin.arrive_and_wait();
                for (std::size_t i = 0; i < each; ++i)
                    numbers[m * each + i] = std::make_unique<tvec::detail::wheel_number>();
            });
        for (std::thread& t : threads) t.join();
        std::set<tvec::detail::wheel_tag> seen;
        for (const auto& n : numbers) seen.insert(n->tag());
        CHECK_EQ(seen.size(), numbers.size());
    }
}

#ifndef NDEBUG  // these are assertions

Test(threads, a_second_thread_may_not_advance, .signal = SIGABRT) {
    timer_wheel wheel;
    wheel.advance(1);
    in_another_thread([&] { wheel.advance(2); });
}

Test(threads, a_second_thread_may_not_arm, .signal = SIGABRT) {
    timer_wheel wheel;
    probe p;
    wheel.advance(1);
    in_another_thread([&] { wheel.arm_after(p.t, 10); });
}

#endif
