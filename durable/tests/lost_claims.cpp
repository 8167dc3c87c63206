// Claims that a store has granted, and whose answers are lost with the connection: nobody has these
// timers, although the store takes them for under way.
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/check.hpp"
#include "support/durable.hpp"

using namespace std::chrono_literals;
using support::beside, support::durable_process, support::in;
using support::asking::find, support::asking::oldest, support::asking::own;
using namespace tvec::durable;

TestSuite(durable_lost_claims, .timeout = 600);

namespace {

options long_leases() {
    options o;
    o.claim_lease = 10min;
    return o;
}

// Has the claim of "a" granted, and its answer lost.
void lose_the_claim(memory_database& all, durable_process& p) {
    p.put({"a", in(10ms)});
    p.store.is_stepped = true;
    while (find(beside(all), "a")->attempt == 0) {
        tvec::manual_clock::advance(1ms);
        p.turn();
        p.store.serve_all();
    }
    p.store.cut();
    p.store.is_stepped = false;
}

}  // namespace

Test(durable_lost_claims, a_claim_without_an_answer_is_made_again) {
    support::alone w(long_leases());
    lose_the_claim(w.all, w.one);
    w.one.pass(10ms);
    REQUIRE_EQ(w.one.got.size(), 1U);
    CHECK_EQ(w.one.got[0].token.attempt, 1U);
    CHECK_EQ(w.one.timers.counters().retries, 0U);
    CHECK_EQ(support::asking::count(beside(w.all)).waiting, 0U);
}

Test(durable_lost_claims, a_claim_lost_repeatedly_is_one_attempt) {
    support::alone w(long_leases());
    lose_the_claim(w.all, w.one);
    w.one.store.is_stepped = true;
    for (int i = 0; i < 20; ++i) {
        support::pass(3ms, [&] {
            w.one.turn();
            w.one.store.serve_all();
        });
        w.one.store.cut();
        while (w.one.store.has_answers()) w.one.store.answer();
    }
    w.one.store.is_stepped = false;
    w.one.pass(10ms);
    REQUIRE_EQ(w.one.got.size(), 1U);
    CHECK_EQ(w.one.got[0].token.attempt, 1U);
}

// It may have claimed the timer, too.
Test(durable_lost_claims, a_shard_that_another_had_keeps_claims) {
    memory_database all(1, support::durable_now);
    options o = long_leases();
    o.shard_lease = 2s;  // longer than a step of the ten minutes below
    durable_process one(all, "one", o);
    one.settle();
    lose_the_claim(all, one);
    one.pass_without_answers(2s + 10ms);
    CHECK_EQ(own(beside(all), 0, 20ms), 2U);
    one.pass(2s);
    CHECK_EQ(one.timers.gauges().shards, 1U);
    CHECK(one.got.empty());
    one.pass(10min);
    REQUIRE_EQ(one.got.size(), 1U);
    CHECK_EQ(one.got[0].token.attempt, 2U);
}

namespace {

// Processes that lose connections, and the deadlines of the timers that none of them has had.
class losing {
public:
    explicit losing(std::uint32_t seed) : random_(seed) {
        for (const char* name : {"one", "two"}) {
            processes_.push_back(std::make_unique<durable_process>(all_, name, long_leases()));
            processes_.back()->handle = [this, p = processes_.back().get()](const delivery& d) {
                CHECK_EQ(waits_.erase(d.token.id), 1U);
                p->timers.done(d.token);
            };
        }
        pass(8s);
    }
    void step() {
        switch (below(4)) {
        case 0:
            lose();
            break;
        case 1:
            pass(duration(below(30)));
            break;
        default:
            put();
        }
    }
    // Each timer that is due was delivered, or is found.
    void ask_for_health() {
        pass(5ms);
        const auto found = oldest(beside_);
        for (const auto& [id, due] : waits_)
            if (due <= in(-5ms)) REQUIRE(found && found->since <= due);
    }
    std::size_t lost() const { return lost_; }

private:
    std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_()) % n; }
    void pass(std::chrono::milliseconds d) {
        support::pass(d, [this] {
            for (auto& p : processes_) p->settle();
        });
    }
    void put() {
        const record r{std::to_string(++put_), in(duration(below(60)))};
        if (support::asking::put(beside_, r) == put_result::stored) waits_[r.id] = r.due;
    }
    // Breaks a connection, behind which some requests are done that are not answered.
    void lose() {
        durable_process& p = *processes_[below(2)];
        p.store.is_stepped = true;
        const bool hangs = below(4) == 0;
        support::pass(duration(1 + below(40)), [&] {
            p.turn();
            for (std::uint32_t n = below(4); !hangs && n > 0; --n) p.store.serve();
            if (below(8) == 0) p.store.answer();
            for (auto& other : processes_)
                if (other.get() != &p) other->settle();
        });
        lost_ += p.store.has_answers();
        p.store.cut();
        p.store.is_stepped = false;
        for (auto& each : processes_) each->settle();
    }

    std::mt19937 random_;
    memory_database all_{2, support::durable_now};
    beside beside_{all_};
    std::map<std::string, time_point> waits_;
    std::vector<std::unique_ptr<durable_process>> processes_;
    int put_ = 0;
    std::size_t lost_ = 0;
};

}  // namespace

Test(durable_lost_claims, health_knows_each_timer_that_nobody_has) {
    const auto seed = static_cast<std::uint32_t>(support::from_environment("TVEC_SEED", 1));
    std::size_t lost = 0;
    for (std::uint32_t n = 0; n < 10; ++n) {
        losing w(seed + n);
        for (int i = 0; i < 50; ++i) {
            w.step();
            w.ask_for_health();
        }
        lost += w.lost();
    }
    CHECK(lost > 0);
}
