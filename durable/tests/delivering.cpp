// A stored timer is delivered: not early, again until it is ended, and not once it is cancelled.
#include <chrono>

#include "support/check.hpp"
#include "support/durable.hpp"

using namespace std::chrono_literals;
using support::alone, support::beside, support::in, support::asking::count;
using namespace tvec::durable;

TestSuite(durable_delivering, .timeout = 600);

Test(durable_delivering, a_timer_comes_once_at_its_deadline) {
    alone w;
    CHECK(w.one.put({"a", in(50ms), "body"}) == put_result::stored);
    w.one.pass(49ms);
    CHECK(w.one.got.empty());
    w.one.pass(1ms);
    REQUIRE_EQ(w.one.got.size(), 1U);
    CHECK_EQ(w.one.got[0].token.id, "a");
    CHECK_EQ(w.one.got[0].token.attempt, 1U);
    CHECK_EQ(w.one.got[0].body, "body");
    w.one.pass(2ms);
    CHECK_EQ(count(beside(w.all)).waiting, 0U);
    w.one.pass(60s);
    CHECK_EQ(w.one.got.size(), 1U);
}

Test(durable_delivering, an_unfinished_delivery_is_repeated_after_its_lease) {
    alone w;
    w.one.ends = false;
    w.one.put({"a", in(10ms)});
    w.one.pass(10ms);
    CHECK_EQ(w.one.got.size(), 1U);
    w.one.pass(29'999ms);
    CHECK_EQ(w.one.got.size(), 1U);
    w.one.ends = true;
    w.one.pass(3ms);
    REQUIRE_EQ(w.one.got.size(), 2U);
    CHECK_EQ(w.one.got[1].token.attempt, 2U);
    CHECK(w.one.got[1].due == w.one.got[0].due);
    w.one.pass(60s);
    CHECK_EQ(w.one.got.size(), 2U);
}

Test(durable_delivering, cancelled_timers_are_never_delivered) {
    alone w;
    w.one.put({"a", in(10ms)});
    CHECK(w.one.cancel("a") == cancel_result::cancelled);
    CHECK(w.one.cancel("a") == cancel_result::unknown_id);
    w.one.pass(1s);
    CHECK(w.one.got.empty());
}

Test(durable_delivering, cancelling_during_a_delivery_reports_had_begun) {
    alone w;
    w.one.ends = false;
    w.one.put({"a", in(10ms)});
    w.one.pass(11ms);
    CHECK(w.one.cancel("a") == cancel_result::had_begun);
    w.one.pass(60s);
    CHECK_EQ(w.one.got.size(), 1U);
}
