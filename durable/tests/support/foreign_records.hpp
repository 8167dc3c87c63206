// Records that somebody has written into a store without its functions, and what they may do to
// others: nothing.
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "support/asking.hpp"
#include "support/check.hpp"
#include "tvec/durable/timers.hpp"

namespace support {

inline std::string hex(const std::string& bytes) {
    constexpr const char* digits = "0123456789abcdef";
    std::string all;
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        all += {digits[byte >> 4U], digits[byte & 15U]};
    }
    return all;
}

struct foreign_record {
    std::string id;
    std::int64_t due, every, attempt, ended, spent;
    std::string packed;  // an entry as functions.lua packs it, or nearly
    unsigned place;      // 0 to 2: which of three sets has it

    std::string numbers() const {
        std::string all;
        for (const std::int64_t n : {due, every, attempt, ended, spent})
            all += (all.empty() ? "" : ", ") + std::to_string(n);
        return all;
    }
};

// Fields are often those of a timer, and often at a bound. The seed is printed, and TVEC_SEED
// repeats one.
class foreign_records {
public:
    foreign_records() {
        const char* const given = std::getenv("TVEC_SEED");
        const auto seed = given != nullptr ? std::strtoul(given, nullptr, 10)
                                           : static_cast<unsigned long>(std::random_device()());
        std::fprintf(stderr, "TVEC_SEED=%lu\n", seed);
        random_.seed(static_cast<std::mt19937::result_type>(seed));
    }

    foreign_record next() {
        foreign_record r{id(), any(),  one_in(2) ? 0 : any(), count(), count(), count(),
                         {},   upto(3)};
        const unsigned kind = one_in(8) ? upto(256) : upto(4);
        r.packed += static_cast<char>(kind);
        for (const std::int64_t n : {r.attempt, r.ended, r.spent}) add(r.packed, n, 4);
        for (const std::int64_t n : {r.every, r.due, any(), any()}) add(r.packed, n, 8);
        if (one_in(8)) r.packed.resize(upto(60));
        return r;
    }

private:
    unsigned upto(unsigned n) { return static_cast<unsigned>(random_()) % n; }
    bool one_in(unsigned n) { return upto(n) == 0; }
    std::int64_t any() {
        constexpr std::int64_t latest = 253'402'300'799'999, most = INT64_MAX;
        constexpr std::array values = {std::int64_t{0},
                                       std::int64_t{1},
                                       std::int64_t{-1},
                                       latest,
                                       latest + 1,
                                       std::int64_t{1'000'000'000'000'000},
                                       most,
                                       -most - 1};
        return one_in(2) ? 1 + upto(1'000) : values[upto(values.size())];
    }
    std::int64_t count() {
        constexpr std::int64_t most = UINT32_MAX;
        constexpr std::array values = {std::int64_t{-1}, most - 1, most, most + 1, INT64_MAX};
        return one_in(4) ? values[upto(values.size())] : upto(3);
    }
    std::string id() {
        constexpr std::array sizes = {0U, 1U, 255U, 256U, 500U};
        if (one_in(4)) return std::string(sizes[upto(sizes.size())], static_cast<char>(upto(256)));
        return std::to_string(upto(1'000'000));
    }
    static void add(std::string& to, std::int64_t n, int bytes) {
        for (int i = 0; i < bytes; ++i)
            to += static_cast<char>(static_cast<std::uint64_t>(n) >> (8 * i) & 0xffU);
    }

    std::mt19937 random_{};
};

// For a store with one shard, in which foreign records are.
inline void others_come(tvec::durable::store& s) {
    using namespace asking;
    std::set<std::string> good;
    for (int i = 0; i < 30; ++i) good.insert("good " + std::to_string(i));
    for (const std::string& id : good) CHECK(put(s, {id, today() - 1h}) == put_result::stored);
    const auto all_answer = [&s] {
        CHECK(std::get<0>(answer_to(s, operations::count{})) == standing::done);
        CHECK(std::get<0>(answer_to(s, operations::oldest{""})) == standing::done);
        for (const timer_set set : {timer_set::waiting, timer_set::dead})
            CHECK(std::get<0>(answer_to(s, operations::list{set, {}, 10'000, ""})) ==
                  standing::done);
    };
    all_answer();
    const epoch mine = own(s, 0);
    const auto [how, places] = take(s, 0, mine, {}, today(), 10'000);
    CHECK(how == standing::done && places.size() >= good.size());
    for (const place& p : places)
        CHECK((p == place{} || !p.id.empty()) && p.id.size() <= longest_id);
    {
        tvec::clocked_wheel<> wheel;
        timers<>* ends = nullptr;
        timers<> all(wheel, s, [&](const delivery& d) {
            CHECK(!d.token.id.empty() && d.token.id.size() <= longest_id);
            good.erase(d.token.id);
            ends->done(d.token);
        });
        ends = &all;
        while (!good.empty()) {
            pollfd watched{all.fd(), POLLIN, 0};
            poll(&watched, 1, 1);
            wheel.run();
            all.run();
        }
    }
    all_answer();
    CHECK(s.broken_connections().empty());
}

}  // namespace support
