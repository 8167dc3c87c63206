// Cancelling a timeout and getting its function back, if one knows of which type it is.
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "support/check.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::held, support::pooled;
using tvec::timeout_call, tvec::timeout_handle, tvec::timeout_state;

TestSuite(pool_taking, .timeout = 60);

namespace {

// A piece of work for later: here, counting.
struct delayed {
    std::unique_ptr<int> what = std::make_unique<int>(7);
    int* done = nullptr;
    void operator()() const { *done += *what; }
};

struct much_the_same {
    std::unique_ptr<int> what = std::make_unique<int>(7);
    int* done = nullptr;
    void operator()() const { *done += *what; }
};

}  // namespace

Test(pool_taking, take_returns_the_function_uncalled) {
    pooled on;
    int done = 0;
    const auto h = on.pool.schedule(1ms, delayed{std::make_unique<int>(5), &done}).handle;
    const std::optional<delayed> taken = on.pool.take<delayed>(h);
    REQUIRE(taken.has_value());
    CHECK_EQ(on.pool.pending(), 0);
    CHECK_EQ(on.pool.state(h), timeout_state::cancelled);
    CHECK_EQ(on.pool.count().cancelled, 1);
    CHECK_EQ(on.pass(10ms), 0);
    CHECK_EQ(done, 0);
    (*taken)();
    CHECK_EQ(done, 5);
    CHECK(!on.pool.take<delayed>(h));
}

Test(pool_taking, take_returns_lambdas_std_functions_and_pointers) {
    pooled on;
    const auto token = std::make_shared<int>();
    const auto lambda = [token] { return token.use_count(); };
    const auto first = on.pool.schedule(1ms, lambda).handle;
    const auto second = on.pool.schedule(1ms, std::function<void()>([token] {})).handle;
    const auto third = on.pool
                           .schedule(
                               1ms, +[] {})
                           .handle;
    CHECK_EQ(held(token), 3);
    auto taken = on.pool.take<std::remove_const_t<decltype(lambda)>>(first);
    CHECK_EQ(held(token), 3);
    REQUIRE(taken.has_value());
    CHECK_EQ((*taken)(), 4);
    taken.reset();
    CHECK_EQ(held(token), 2);
    CHECK(on.pool.take<std::function<void()>>(second).has_value());
    CHECK_EQ(held(token), 1);
    CHECK(on.pool.take<void (*)()>(third).has_value());
    CHECK_EQ(on.pool.pending(), 0);
}

Test(pool_taking, taking_another_type_changes_nothing) {
    pooled on;
    int done = 0;
    const auto h = on.pool.schedule(1ms, delayed{std::make_unique<int>(5), &done}).handle;
    CHECK(!on.pool.take<much_the_same>(h));
    CHECK(!on.pool.take<std::function<void()>>(h));
    CHECK_EQ(on.pool.state(h), timeout_state::pending);
    CHECK_EQ(on.pool.count().cancelled, 0);
    CHECK_EQ(on.pass(1ms), 1);
    CHECK_EQ(done, 5);
}

Test(pool_taking, take_gives_nothing_inside_the_call) {
    struct beat {
        pooled* on;
        std::optional<timeout_handle>* self;
        int* calls;
        void operator()(const timeout_call& c) const {
            ++*calls;
            CHECK(!on->pool.take<beat>(c.self));
            CHECK_EQ(on->pool.pending(), 1);
        }
    };
    pooled on;
    std::optional<timeout_handle> self;
    int calls = 0;
    const auto h = on.pool.schedule_every(1ms, beat{&on, &self, &calls}).handle;
    on.pass(1ms);
    on.pass(1ms);
    CHECK_EQ(calls, 2);
    CHECK(on.pool.take<beat>(h).has_value());
    CHECK_EQ(on.pass(1ms), 0);
}

Test(pool_taking, take_cancels_although_moving_throws) {
    struct fragile {
        std::shared_ptr<int> token;
        bool* breaks;
        fragile(std::shared_ptr<int> t, bool* b) : token(std::move(t)), breaks(b) {}
        fragile(fragile&& other) : token(other.token), breaks(other.breaks) {
            if (*breaks) throw std::runtime_error("move");
        }
        void operator()() const {}
    };
    pooled on;
    const auto token = std::make_shared<int>();
    bool breaks = false, thrown = false;
    const auto h = on.pool.schedule(1ms, fragile(token, &breaks)).handle;
    breaks = true;
    try {
        static_cast<void>(on.pool.take<fragile>(h));
    } catch (const std::runtime_error&) {
        thrown = true;
    }
    CHECK(thrown);
    CHECK_EQ(on.pool.state(h), timeout_state::cancelled);
    CHECK_EQ(held(token), 0);
    CHECK_EQ(on.pool.pending(), 0);
    CHECK_EQ(on.pool.trim(), 64);
}

Test(pool_taking, take_cancels_before_moving_the_function_out) {
    struct busy {
        std::function<void()>* act;
        explicit busy(std::function<void()>* a) : act(a) {}
        busy(busy&& other) noexcept : act(other.act) {
            if (*act) (*act)();
        }
        void operator()() const {}
    };
    pooled on;
    std::function<void()> act;
    const auto h = on.pool.schedule(1ms, busy(&act)).handle;
    int moved = 0;
    act = [&] {
        if (++moved != 1) return;
        CHECK(!on.pool.cancel(h));
        CHECK(!on.pool.take<busy>(h));
        CHECK_EQ(on.pool.state(h), timeout_state::cancelled);
        CHECK_EQ(on.pass(1ms), 0);
        CHECK(on.pool.schedule(1ms, [] {}).handle != h);
    };
    CHECK(on.pool.take<busy>(h).has_value());
    CHECK_GE(moved, 1);
    CHECK_EQ(on.pool.pending(), 1);
}

Test(pool_taking, take_works_when_the_wheel_is_gone) {
    std::optional<support::manual_wheel> timers(std::in_place);
    pooled::pool_type pool(*timers);
    int done = 0;
    const auto h = pool.schedule(1ms, delayed{std::make_unique<int>(), &done}).handle;
    timers.reset();
    CHECK(pool.take<delayed>(h).has_value());
    CHECK_EQ(pool.pending(), 0);
}
