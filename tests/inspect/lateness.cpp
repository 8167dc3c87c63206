// lateness_histogram: quantiles within 5 % of the exact ones, in memory that does not grow.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <vector>

#include "support/check.hpp"
#include "tvec/extra/lateness_histogram.hpp"

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using tvec::lateness_histogram;

TestSuite(lateness, .timeout = 60);

namespace {

constexpr double shares[] = {0, 0.001, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};

nanoseconds exact_quantile(const std::vector<nanoseconds>& sorted, double share) {
    const double rank = std::ceil(share * static_cast<double>(sorted.size()));
    return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

void check_within(nanoseconds seen, nanoseconds exact, double share) {
    const double error = std::abs(static_cast<double>((seen - exact).count()));
    if (error > 0.032 * static_cast<double>(exact.count()))
        cr_expect_fail("quantile %g is %lld ns, exactly %lld ns", share,
                       static_cast<long long>(seen.count()), static_cast<long long>(exact.count()));
}

template <class Draw> void check_quantiles_of(Draw draw) {
    lateness_histogram late;
    std::vector<nanoseconds> all(20'000);
    for (nanoseconds& d : all) late.record(d = draw());
    std::sort(all.begin(), all.end());
    for (const double share : shares)
        check_within(late.quantile(share), exact_quantile(all, share), share);
    CHECK_EQ(late.count(), all.size());
    CHECK_EQ(late.max().count(), all.back().count());
}

}  // namespace

static_assert(sizeof(lateness_histogram) < 8000);

Test(lateness, an_empty_histogram_has_no_lateness) {
    const lateness_histogram late;
    CHECK_EQ(late.count(), 0);
    CHECK_EQ(late.max().count(), 0);
    for (const double share : shares) CHECK_EQ(late.quantile(share).count(), 0);
}

Test(lateness, quantiles_are_close_to_the_exact_ones) {
    std::mt19937_64 random(7);
    std::lognormal_distribution<> skewed(12, 3);
    check_quantiles_of([&] { return nanoseconds(random() % 10'000'000); });
    check_quantiles_of([&] { return nanoseconds(random() >> (1 + random() % 63)); });
    check_quantiles_of([&] { return nanoseconds(static_cast<long long>(skewed(random))); });
    check_quantiles_of([&] { return nanoseconds(random() % 100 == 0 ? 80'000'000 : 900); });
}

Test(lateness, short_durations_are_exact) {
    for (int n = 0; n < 16; ++n) {
        lateness_histogram late;
        late.record(nanoseconds(n));
        CHECK_EQ(late.quantile(0.5).count(), n);
    }
}

Test(lateness, every_duration_has_a_bucket_near_it) {
    for (unsigned bit = 0; bit < 63; ++bit)
        for (const long long off : {-1, 0, 1}) {
            lateness_histogram late;
            const nanoseconds d((1LL << bit) + off);
            late.record(d);
            late.record(nanoseconds::max());  // so that max() does not clamp the quantiles
            check_within(late.quantile(0.5), d, 0.5);
        }
}

Test(lateness, no_quantile_exceeds_the_longest_lateness) {
    lateness_histogram late;
    late.record(1'048'576ns);  // the first of its bucket
    for (const double share : shares) CHECK_EQ(late.quantile(share).count(), 1'048'576);
    CHECK_EQ(late.max().count(), 1'048'576);
}

Test(lateness, a_share_out_of_range_is_clamped) {
    lateness_histogram late;
    for (const nanoseconds d : {1ns, 5ns, 9ns}) late.record(d);
    CHECK_EQ(late.quantile(-3).count(), 1);
    CHECK_EQ(late.quantile(7).count(), 9);
    CHECK_EQ(late.quantile(0.34).count(), 5);
}

Test(lateness, a_share_that_is_nan_counts_as_0) {
    lateness_histogram late;
    CHECK_EQ(late.quantile(std::nan("")).count(), 0);
    for (const nanoseconds d : {1ns, 5ns, 9ns}) late.record(d);
    CHECK_EQ(late.quantile(std::nan("")).count(), 1);
}

namespace {

// 2^bits - 1 records of 5 ns: a double cannot represent the count.
lateness_histogram all_ones(unsigned bits) {
    lateness_histogram one, all;
    one.record(5ns);
    for (; bits != 0; --bits) {
        all.merge(all);
        all.merge(one);
    }
    return all;
}

}  // namespace

Test(lateness, quantiles_exist_for_counts_beyond_doubles) {
    for (unsigned bits = 50; bits <= 64; ++bits) {
        lateness_histogram late = all_ones(bits);
        CHECK_EQ(late.count(), ~std::uint64_t{0} >> (64 - bits));
        for (const double share : shares) CHECK_EQ(late.quantile(share).count(), 5);
    }
}

Test(lateness, early_timers_are_counted_and_taken_for_punctual) {
    lateness_histogram late;
    late.record(-1ns);
    late.record(nanoseconds::min());
    late.record(3ns);
    CHECK_EQ(late.early(), 2);
    CHECK_EQ(late.count(), 3);
    CHECK_EQ(late.quantile(0.5).count(), 0);
    CHECK_EQ(late.sum().count(), 3);
}

Test(lateness, merged_histograms_say_what_one_of_everything_says) {
    std::mt19937_64 random(9);
    lateness_histogram all, some, others;
    for (int i = 0; i < 10'000; ++i) {
        const nanoseconds d(static_cast<long long>(random() % 5'000'000) - 1000);
        all.record(d);
        (i % 3 == 0 ? some : others).record(d);
    }
    some.merge(others);
    for (const double share : shares)
        CHECK_EQ(some.quantile(share).count(), all.quantile(share).count());
    CHECK_EQ(some.count(), all.count());
    CHECK_EQ(some.early(), all.early());
    CHECK_EQ(some.sum().count(), all.sum().count());
    CHECK_EQ(some.max().count(), all.max().count());
}

Test(lateness, reset_empties_the_histogram) {
    lateness_histogram late;
    late.record(-5ns);
    late.record(1h);
    late.reset();
    CHECK_EQ(late.count(), 0);
    CHECK_EQ(late.early(), 0);
    CHECK_EQ(late.sum().count(), 0);
    CHECK_EQ(late.max().count(), 0);
    CHECK_EQ(late.quantile(1).count(), 0);
}
