// Random programs (support/program.hpp) on two wheels beside a model of them (support/world.hpp).
// Every divergence ends the test.
//
// TVEC_SEED and TVEC_STEPS choose the run. A failure prints the seed that repeats it.
#include <cstdio>
#include <random>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/oracles.hpp"
#include "support/world.hpp"

namespace {

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

template <class Oracle, class Interface = support::in_cpp>
void explore(std::uint64_t steps, unsigned check_every) {
    const std::uint64_t seed = support::from_environment("TVEC_SEED", std::random_device{}());
    steps = support::from_environment("TVEC_STEPS", steps);
    std::mt19937_64 random(seed);
    std::uint64_t done = 0, fired = 0;
    while (done < steps) {
        const support::program p = random_program(random);
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

TestSuite(model, .timeout = 0);  // TVEC_STEPS says how long

Test(model, agrees_with_both_oracles_and_keeps_every_invariant_after_every_operation) {
    explore<support::oracles>(150'000, 1);
}

Test(model, agrees_with_an_array_that_is_read_from_end_to_end_over_many_operations) {
    explore<support::plain_array>(2'000'000, 64);
}

Test(model, agrees_with_an_array_when_it_is_driven_through_the_c_interface) {
    explore<support::plain_array, support::in_c>(300'000, 16);
}

Test(model, notices_when_its_oracles_differ) {
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
