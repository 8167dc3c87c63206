// Calls that a pool's functions may make from inside. Their exceptions are contained.
#include <array>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::held, support::pooled;
using tvec::timeout_call, tvec::timeout_handle, tvec::timeout_state;

TestSuite(pool_callbacks, .timeout = 60);

namespace {

// Ten timeouts of one tick. The first to fire that is not the victim does `act` to the victim.
struct ten {
    explicit ten(std::size_t chosen) : victim(chosen) {}

    template <class F> void run(F act) {
        for (std::size_t i = 0; i < 10; ++i)
            all[i] =
                on.pool
                    .schedule(5ms,
                              [this, i, act] {
                                  ++fired[i];
                                  if (!std::exchange(acted, acted || i != victim) && i != victim)
                                      act(on, all[victim], fired[victim]);
                              })
                    .handle;
        on.pass(5ms);
        on.pass(1s);
    }

    pooled on;
    std::size_t victim;
    std::array<timeout_handle, 10> all{};
    std::array<int, 10> fired{};
    bool acted = false;
};

template <class F> void first_to_fire_acts_on_each(F act) {
    for (std::size_t victim = 0; victim < 10; ++victim) {
        ten timeouts(victim);
        timeouts.run(act);
        REQUIRE(timeouts.acted);
        REQUIRE_EQ(timeouts.on.pool.pending(), 0);
        REQUIRE_EQ(check(timeouts.on.timers.wheel()), "");
        for (std::size_t i = 0; i < 10; ++i)
            if (i != victim) REQUIRE_EQ(timeouts.fired[i], 1);
    }
}

}  // namespace

Test(pool_callbacks, a_callback_may_cancel_a_due_sibling) {
    first_to_fire_acts_on_each([](pooled& on, timeout_handle victim, int& fired) {
        const bool was_due = fired == 0;
        CHECK_EQ(on.pool.cancel(victim), was_due);
        CHECK_EQ(on.pool.state(victim), was_due ? timeout_state::cancelled : timeout_state::fired);
        fired = was_due ? -1'000 : 0;
    });
}

Test(pool_callbacks, a_function_may_reuse_a_cancelled_siblings_node) {
    first_to_fire_acts_on_each([](pooled& on, timeout_handle victim, int&) {
        on.pool.cancel(victim);
        const auto heir = on.pool.schedule(2ms, [] {}).handle;
        CHECK_EQ(on.pool.state(heir), timeout_state::pending);
        CHECK_EQ(on.pool.state(victim), timeout_state::unknown);
        CHECK(!on.pool.cancel(victim));
    });
}

Test(pool_callbacks, a_function_may_reserve_and_trim) {
    first_to_fire_acts_on_each([](pooled& on, timeout_handle victim, int&) {
        on.pool.reserve(1'000);
        on.pool.cancel(victim);
        CHECK_EQ(on.pool.trim(), 1'024 - 64);
    });
}

Test(pool_callbacks, a_timeouts_last_call_finds_it_running) {
    pooled on;
    const auto h = on.pool
                       .schedule(1ms,
                                 [&](const timeout_call& c) {
                                     CHECK_EQ(on.pool.state(c.self), timeout_state::running);
                                     CHECK_EQ(on.pool.pending(), 0);
                                     CHECK(!on.pool.remaining(c.self));
                                     CHECK(!on.pool.cancel(c.self));
                                 })
                       .handle;
    CHECK_EQ(on.pass(1ms), 1);
    CHECK_EQ(on.pool.state(h), timeout_state::fired);
    CHECK_EQ(on.pool.count().cancelled, 0);
}

namespace {

// Speaks when the function that holds it is destroyed.
struct speaker {
    std::function<void()>* last_words;
    ~speaker() { (*last_words)(); }
};

}  // namespace

Test(pool_callbacks, a_node_outlives_its_functions_destructor) {
    pooled on;
    timeout_handle dying, heir;
    std::function<void()> words = [&] {
        heir = on.pool.schedule(1ms, [] {}).handle;
        CHECK_NE(on.pool.state(dying), timeout_state::unknown);
    };
    for (const bool cancelled : {true, false}) {
        dying =
            on.pool.schedule(1ms, [s = std::unique_ptr<speaker>(new speaker{&words})] {}).handle;
        cancelled ? on.pool.cancel(dying) : on.pass(1ms);
        CHECK_EQ(on.pool.state(heir), timeout_state::pending);
    }
}

// --- exceptions ---------------------------------------------------------------------------------

Test(pool_callbacks, a_throwing_function_is_counted_and_others_fire) {
    pooled on;
    const auto token = std::make_shared<int>();
    std::vector<timeout_handle> all;
    for (int i = 0; i < 20; ++i)
        all.push_back(on.pool
                          .schedule(1ms,
                                    [token, i] {
                                        if (i % 3 == 0) throw std::runtime_error("timeout");
                                    })
                          .handle);
    CHECK_EQ(on.pass(1ms), 20);
    CHECK_EQ(on.pool.count().failed, 7);
    CHECK_EQ(on.pool.count().fired, 20);
    CHECK_EQ(on.pool.pending(), 0);
    CHECK_EQ(held(token), 0);
    for (const timeout_handle h : all) CHECK_EQ(on.pool.state(h), timeout_state::fired);
    CHECK(on.pool.schedule(1ms, [] {}));
    CHECK_EQ(on.pass(1ms), 1);
}

Test(pool_callbacks, a_hook_is_told_which_timeout_threw_what) {
    pooled on;
    timeout_handle blamed;
    std::string reason;
    on.pool.on_exception([&](timeout_handle h, std::exception_ptr thrown) {
        blamed = h;
        CHECK_EQ(on.pool.state(h), timeout_state::fired);
        try {
            std::rethrow_exception(std::move(thrown));
        } catch (const std::runtime_error& e) {
            reason = e.what();
        }
    });
    on.pool.schedule(1ms, [] {});
    const auto h = on.pool.schedule(1ms, [] { throw std::runtime_error("disk on fire"); }).handle;
    on.pass(1ms);
    CHECK(blamed == h);
    CHECK_EQ(reason, "disk on fire");
}

Test(pool_callbacks, a_throwing_periodic_timeout_goes_on) {
    pooled on;
    int fired = 0;
    const auto h = on.pool
                       .schedule_every(1ms,
                                       [&] {
                                           ++fired;
                                           throw 1;
                                       })
                       .handle;
    for (int i = 0; i < 5; ++i) on.pass(1ms);
    CHECK_EQ(fired, 5);
    CHECK_EQ(on.pool.count().failed, 5);
    on.pool.on_exception(
        [&](timeout_handle failed, const std::exception_ptr&) { CHECK(on.pool.cancel(failed)); });
    for (int i = 0; i < 5; ++i) on.pass(1ms);
    CHECK_EQ(fired, 6);
    CHECK_EQ(on.pool.state(h), timeout_state::cancelled);
}

Test(pool_callbacks, a_throwing_hook_leaves_the_rest_due) {
    pooled on;
    on.pool.on_exception([](timeout_handle, std::exception_ptr thrown) {
        std::rethrow_exception(std::move(thrown));
    });
    int fired = 0;
    for (int i = 0; i < 9; ++i)
        on.pool.schedule(1ms, [&] {
            if (++fired == 4) throw std::runtime_error("fourth");
        });
    bool thrown = false;
    try {
        on.pass(1ms);
    } catch (const std::runtime_error&) {
        thrown = true;
    }
    CHECK(thrown);
    CHECK_EQ(on.pool.pending(), 5);
    CHECK_EQ(check(on.timers.wheel()), "");
    on.timers.run();
    CHECK_EQ(fired, 9);
}

Test(pool_callbacks, a_function_whose_copy_throws_is_not_scheduled) {
    struct fragile {
        std::shared_ptr<int> token;
        fragile(std::shared_ptr<int> t) : token(std::move(t)) {}
        fragile(const fragile&) : token() { throw std::runtime_error("copy"); }
        fragile(fragile&&) = default;
        void operator()() {}
    };
    pooled on(1);
    const auto token = std::make_shared<int>();
    const fragile f(token);
    for (int i = 0; i < 100; ++i) {
        bool thrown = false;
        try {
            on.pool.schedule(1ms, f);
        } catch (const std::runtime_error&) {
            thrown = true;
        }
        REQUIRE(thrown);
    }
    CHECK_EQ(on.pool.pending(), 0);
    CHECK_EQ(on.pool.capacity(), 64);
    CHECK_EQ(on.pool.count().rejected, 0);
    CHECK(on.pool.schedule(1ms, fragile(token)));
    CHECK_EQ(on.pass(1ms), 1);
}

// --- while a function is taken in ---------------------------------------------------------------

namespace {

// Acts whenever it is copied or moved.
struct hostile {
    explicit hostile(std::function<void()>& a) : act(&a) {}
    hostile(const hostile& other) : act(other.act), token(other.token) { (*act)(); }
    hostile(hostile&& other) : hostile(static_cast<const hostile&>(other)) {}
    void operator()() const {}

    std::function<void()>* act;
    std::shared_ptr<int> token = std::make_shared<int>();
};

}  // namespace

Test(pool_callbacks, a_slow_copy_does_not_lengthen_the_delay) {
    pooled on;
    std::function<void()> idle_away = [&] { tvec::manual_clock::advance(7ms); };
    const auto h = on.pool.schedule(10ms, hostile(idle_away)).handle;
    CHECK(on.pool.remaining(h) == 3ms);
    CHECK_EQ(on.pass(3ms - 1ns), 0);
    CHECK_EQ(on.pass(1ns), 1);
}

Test(pool_callbacks, a_copy_that_stops_the_pool_is_refused) {
    pooled on;
    std::function<void()> stop = [&] { on.pool.stop(); };
    const hostile f(stop);
    CHECK_EQ(on.pool.schedule(1ms, f).error, tvec::schedule_error::stopped);
    CHECK_EQ(held(f.token), 0);
    CHECK_EQ(on.pool.pending(), 0);
    CHECK_EQ(on.pass(1s), 0);
}

// --- refused ------------------------------------------------------------------------------------

namespace {

// Returns the message when `destroy` has destroyed a pool.
template <class F> std::string last_words(F destroy) {
    return support::last_words([&] {
        support::manual_wheel timers;
        auto pool = std::make_unique<pooled::pool_type>(timers);
        destroy(timers, pool);
    });
}

constexpr const char* why = "tvec: a timeout_pool is destroyed by one of its own functions, by its "
                            "exception hook, or by the visitor of its stop(): it must outlive them";

}  // namespace

Test(pool_callbacks, a_copy_that_destroys_the_pool_is_fatal) {
    const std::string said = last_words([](auto&, auto& pool) {
        std::function<void()> destroy = [&] { pool.reset(); };
        pool->schedule(1ms, hostile(destroy));
    });
    CHECK(said.starts_with(why));
}

Test(pool_callbacks, a_function_that_destroys_the_pool_is_fatal) {
    const std::string said = last_words([](auto& timers, auto& pool) {
        pool->schedule(1ms, [&] { pool.reset(); });
        tvec::manual_clock::advance(1ms);
        timers.run();
    });
    CHECK(said.starts_with(why));
}

Test(pool_callbacks, a_stop_visitor_destroying_the_pool_is_fatal) {
    const std::string said = last_words([](auto&, auto& pool) {
        pool->schedule(1ms, [] {});
        pool->stop([&](auto&) { pool.reset(); });
    });
    CHECK(said.starts_with(why));
}

Test(pool_callbacks, a_raw_timer_may_destroy_the_pool) {
    support::manual_wheel timers;
    auto pool = std::make_unique<pooled::pool_type>(timers);
    const auto token = std::make_shared<int>();
    for (int i = 0; i < 10; ++i) pool->schedule(std::chrono::milliseconds(1 + i % 2), [token] {});
    tvec::callback_timer raw([&] { pool.reset(); });
    timers.arm_after(raw, 1ms);
    tvec::manual_clock::advance(5ms);
    timers.run();
    CHECK_EQ(held(token), 0);
    CHECK_EQ(check(timers.wheel()), "");
}

Test(pool_callbacks, running_the_wheel_from_inside_does_nothing) {
    pooled on;
    int fired = 0;
    for (int i = 0; i < 5; ++i)
        on.pool.schedule(1ms, [&] {
            ++fired;
            CHECK_EQ(on.timers.run().fired, 0);
        });
    CHECK_EQ(on.pass(1ms), 5);
    CHECK_EQ(fired, 5);
}

#ifndef NDEBUG  // a debug build tells
Test(pool_callbacks, the_first_unhandled_exception_is_reported_once) {
    const auto said_by_pool = [](bool has_hook, bool has_text) {
        const auto throws_thrice = [&] {
            pooled on;
            if (has_hook) on.pool.on_exception([](timeout_handle, std::exception_ptr) {});
            for (int i = 0; i < 3; ++i)
                on.pool.schedule(1ms, [has_text] {
                    if (has_text) throw std::runtime_error("a thing");
                    throw 1;
                });
            on.pass(10ms);
        };
        // On a thread of its own, which no other test has thrown on.
        return support::said_by([&] { std::thread(throws_thrice).join(); });
    };
    for (const bool has_text : {true, false}) {
        const std::string said = said_by_pool(false, has_text);
        CHECK(said.starts_with(std::string("tvec: a function of a timeout_pool has thrown ") +
                               (has_text ? "a thing, " : "what is no std::exception, ")));
        CHECK_EQ(said.find('\n'), said.size() - 1);
        CHECK(said_by_pool(true, has_text).empty());
    }
}
#endif
