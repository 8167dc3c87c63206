// Runs random programs (support/program.hpp) on two wheels beside a model of them
// (support/world.hpp). A divergence ends the test.
//
// TVEC_SEED and TVEC_STEPS choose the run. A failure prints the seed that repeats it.
#include <array>
#include <cstdio>
#include <random>

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

template <class Oracle, class Interface = support::in_cpp,
          class Generate = decltype(&random_program)>
void explore(std::uint64_t steps, unsigned check_every, Generate generate = random_program) {
    const std::uint64_t seed = support::from_environment("TVEC_SEED", std::random_device{}());
    steps = support::from_environment("TVEC_STEPS", steps);
    std::mt19937_64 random(seed);
    std::uint64_t done = 0, fired = 0;
    while (done < steps) {
        const support::program p = generate(random);
        support::world<Oracle, Interface> world(p, check_every);
        try {
            done += world.run();
            fired += world.fired();
        } catch (const std::exception& e) {
            cr_assert_fail("TVEC_SEED=%llu after %llu operations: %s",
                           static_cast<unsigned long long>(seed),
                           static_cast<unsigned long long>(done), e.what());
        }
    }
    std::fprintf(stderr, "model: TVEC_SEED=%llu, %llu operations, %llu fires\n",
                 static_cast<unsigned long long>(seed), static_cast<unsigned long long>(done),
                 static_cast<unsigned long long>(fired));
    CHECK_GE(fired, steps / 8);
}

}  // namespace

TestSuite(model, .timeout = 0);  // TVEC_STEPS is the length

Test(model, the_wheel_agrees_with_both_oracles_throughout) {
    explore<support::oracles>(150'000, 1);
}

Test(model, the_wheel_agrees_with_an_array_throughout) {
    explore<support::plain_array>(2'000'000, 64);
}

Test(model, the_c_interface_agrees_with_an_array) {
    explore<support::plain_array, support::in_c>(300'000, 16);
}

Test(model, crowded_ticks_in_order_agree_with_an_array) {
    explore<support::plain_array>(300'000, 64, crowded_program);
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
