// Runs random programs (support/program.hpp) on two wheels beside a model of them
// (support/world.hpp). A divergence ends the test.
//
// TVEC_SEED and TVEC_STEPS choose the run. A failure prints the seed that repeats it.
#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <string>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/oracles.hpp"
#include "support/world.hpp"

namespace {

using support::verb;

support::program random_program(std::mt19937_64& random) {
    support::program p;
    p.start = static_cast<std::uint8_t>(random());
    p.operations.resize(std::uint64_t{1} << random() % 11);
    for (support::operation& op : p.operations) {
        const auto bits = static_cast<std::uint32_t>(random());
        std::memcpy(&op, &bits, sizeof op);
    }
    return p;
}

std::uint8_t byte_of(verb wanted) {
    support::operation op{};
    while (op.action() != wanted) ++op.what;
    return op.what;
}

// Many timers on few ticks. Callbacks cancel, destroy and drain them while the tick fires in order.
support::program crowded_program(std::mt19937_64& random) {
    constexpr std::array verbs{verb::arm,
                               verb::arm,
                               verb::arm,
                               verb::arm,
                               verb::arm,
                               verb::cancel,
                               verb::unlink,
                               verb::destroy,
                               verb::drain,
                               verb::script,
                               verb::fail,
                               verb::listen,
                               verb::capture,
                               verb::restore,
                               verb::collect,
                               verb::advance_in_order,
                               verb::advance_in_order};
    support::program p;
    p.operations.resize(1 + random() % 256);
    for (support::operation& op : p.operations) {
        const auto bits = random();
        op.what = byte_of(verbs[bits % verbs.size()]);
        op.who = static_cast<std::uint8_t>((bits >> 8) % 192);        // on the first wheel
        op.span = static_cast<std::uint8_t>(96 + (bits >> 16) % 16);  // always the same distance
        op.offset = static_cast<std::uint8_t>((bits >> 24) % 32);
    }
    return p;
}

using run_program = void (*)(const support::program&, support::tally&);

template <class Oracle, unsigned CheckEvery>
void run_beside(const support::program& p, support::tally& done) {
    support::run<Oracle>(p, CheckEvery, done);
}

// Runs a program through C++ and through C, which have to write the same story.
void run_in_both(const support::program& p, support::tally& done) {
    using support::plain_array;
    const std::string in_cpp = support::told<plain_array, support::in_cpp_as_c>(p, 4, done);
    const std::string in_c = support::told<plain_array, support::in_c>(p, 4, done);
    if (in_cpp == in_c) return;
    const auto differs = std::mismatch(in_cpp.begin(), in_cpp.end(), in_c.begin(), in_c.end());
    const auto at = static_cast<std::size_t>(differs.first - in_cpp.begin());
    const auto told = [at](const std::string& story) {
        return support::last_lines(std::string_view(story).substr(0, story.find('\n', at)));
    };
    support::diverge("in C++\n", told(in_cpp), "\nand in C\n", told(in_c));
}

void explore(std::uint64_t steps, run_program run,
             decltype(&random_program) generate = random_program) {
    const std::uint64_t seed = support::from_environment("TVEC_SEED", std::random_device{}());
    steps = support::from_environment("TVEC_STEPS", steps);
    std::mt19937_64 random(seed);
    support::tally done;
    const auto count = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    while (done.operations < steps) {
        try {
            run(generate(random), done);
        } catch (const std::exception& e) {
            cr_assert_fail("TVEC_SEED=%llu after %llu operations: %s", count(seed),
                           count(done.operations), e.what());
        }
    }
    std::fprintf(stderr, "model: TVEC_SEED=%llu, %llu operations, %llu fires\n", count(seed),
                 count(done.operations), count(done.fired));
    CHECK_GE(done.fired, steps / 16);
}

}  // namespace

TestSuite(model, .timeout = 0);  // TVEC_STEPS is the length

Test(model, the_wheel_agrees_with_both_oracles_throughout) {
    explore(150'000, run_beside<support::oracles, 1>);
}

Test(model, the_wheel_agrees_with_an_array_throughout) {
    explore(2'000'000, run_beside<support::plain_array, 64>);
}

Test(model, the_c_interface_answers_as_cpp_does) { explore(300'000, run_in_both); }

Test(model, the_c_interface_keeps_orders_as_cpp_does) {
    explore(100'000, run_in_both, crowded_program);
}

Test(model, crowded_ticks_in_order_agree_with_an_array) {
    explore(300'000, run_beside<support::plain_array, 64>, crowded_program);
}

Test(model, the_model_notices_when_its_oracles_differ) {
    struct forgetful : support::plain_array {
        bool cancel(int) { return false; }
    };
    support::pair_of_oracles<support::ledger, forgetful> both;
    both.arm(1, 10);
    CHECK_EQ(both.first(), 10);
    try {
        both.cancel(1);
        cr_assert_fail("one oracle has cancelled a timer, the other has not");
    } catch (const support::divergence&) {
    }
}
