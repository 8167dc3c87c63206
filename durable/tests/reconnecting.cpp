// A link that breaks is made again after pauses that grow, and each request that it had is answered
// with what is known.
#include <chrono>
#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "../src/link/reconnecting.hpp"
#include "support/check.hpp"
#include "tvec/clock/clocked_wheel.hpp"

using namespace std::chrono_literals;
using namespace tvec::durable;
using detail::faults, detail::reconnecting, detail::trouble;
using fate = detail::fate_at_server;

TestSuite(durable_reconnecting, .timeout = 60);

namespace {

using wheel = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>>;

// A link whose server is the test.
struct false_link {
    using request = std::string;
    using reply = const std::string;
    using conversation = reconnecting<false_link, wheel>;

    explicit false_link(conversation::terms t) : with(*this, wheels, known, t) {}

    std::optional<trouble> open() {
        ++opened;
        if (!is_there) return trouble(std::errc::connection_refused, "nobody");
        is_open = true;
        return std::nullopt;
    }
    void close() { is_open = false; }
    void send(const std::string& r) { sent.push_back(r); }
    void end_flight() { ++flights; }
    void try_again() { with.connect(); }
    duration slowest() const { return 1s; }
    void on_lost() { ++lost; }
    std::string place() const { return "here: "; }
    void wake() { is_awake = true; }

    void become_ready() {
        with.connect();
        with.expect([](fate, const std::string*) {});
        reply_with("greeting");
        with.become_ready();
    }
    // Asks, and appends the fate to `log`.
    void ask(const std::string& what, std::size_t items = 1) {
        with.ask(what, what.size(), items, [this, what](fate how, const std::string*) {
            constexpr const char* words[] = {" replied", " refused", " lost"};
            log.push_back(what + words[static_cast<int>(how)]);
        });
    }
    void reply_with(const std::string& r) {
        const auto t = with.take();
        REQUIRE(t.has_value());
        t->then(fate::replied, &r);
    }
    void pass(duration d) {
        for (; d > 0ms; d -= 1ms) {
            tvec::manual_clock::advance(1ms);
            wheels.run();
        }
    }

    wheel wheels{};
    faults known{};
    conversation with;
    bool is_there = true, is_open = false, is_awake = false;
    int opened = 0, lost = 0, flights = 0;
    std::vector<std::string> sent{}, log{};
};

using strings = std::vector<std::string>;
constexpr reconnecting<false_link, wheel>::terms usual{.silence = 500ms};

}  // namespace

Test(durable_reconnecting, a_request_before_the_greeting_is_refused) {
    false_link l(usual);
    CHECK(l.with.is_new());
    l.with.connect();
    l.ask("a");
    CHECK(l.is_awake);
    CHECK(l.log.empty());
    l.with.flush();
    CHECK((l.log == strings{"a refused"}));
    CHECK(l.sent.empty());
}

Test(durable_reconnecting, a_broken_link_loses_or_refuses_its_requests) {
    false_link l(usual);
    l.become_ready();
    l.ask("sent");
    l.with.flush();
    l.ask("waits");
    l.with.lose({std::errc::connection_reset, "cut"});
    CHECK((l.log == strings{"sent lost", "waits refused"}));
    CHECK(!l.is_open);
    CHECK_EQ(l.lost, 1);
    CHECK(l.with.is_idle());
    CHECK_EQ(l.known.last, "here: cut");
    CHECK_EQ(l.known.broken.at("connection reset"), 1U);
    l.with.lose({std::errc::connection_reset, "again"});  // it was not ready
    CHECK_EQ(l.known.broken.at("connection reset"), 1U);
    CHECK(l.with.fault()->why == "again");
    l.is_there = false;
    l.pass(2s);
    CHECK_EQ(l.lost, 2 + l.opened - 1);  // nothing else is missed
}

Test(durable_reconnecting, a_greeting_that_is_lost_answers_nothing) {
    false_link l(usual);
    l.with.connect();
    l.with.expect([&](fate, const std::string*) { l.log.push_back("greeted"); });
    l.with.lose({std::errc::connection_reset, "cut"});
    CHECK(l.log.empty());
}

Test(durable_reconnecting, a_silent_server_is_left) {
    false_link l(usual);
    l.become_ready();
    l.pass(10s);  // nothing is asked
    CHECK_EQ(l.opened, 1);
    l.ask("a");
    l.with.flush();
    l.pass(499ms);
    l.with.hear();
    l.pass(499ms);
    CHECK(l.log.empty());
    l.pass(5ms);
    CHECK((l.log == strings{"a lost"}));
    CHECK_EQ(l.known.broken.at("it does not answer"), 1U);
    CHECK(l.with.become_ready());
    CHECK(l.with.may_send());
}

Test(durable_reconnecting, a_server_silent_after_accepting_is_left) {
    false_link l(usual);
    l.with.connect();
    l.pass(510ms);
    CHECK(!l.is_open);
    CHECK(l.with.fault()->code == std::errc::timed_out);
    CHECK(!l.with.is_new());
}

Test(durable_reconnecting, pauses_between_attempts_grow_and_are_reset) {
    false_link l({.silence = 1h});
    l.is_there = false;
    l.with.connect();
    const auto attempts_in = [&](duration d) {
        const int before = l.opened;
        l.pass(d);
        return l.opened - before;
    };
    CHECK(attempts_in(1s) >= 4);
    attempts_in(10s);
    const int slow = attempts_in(10s);  // 0.5 to 1 s apart
    CHECK(slow >= 9 && slow <= 20);
    l.is_there = true;
    l.pass(1010ms);
    REQUIRE(l.is_open);
    CHECK(!l.with.become_ready());
    CHECK(!l.with.fault());
    l.with.lose({std::errc::connection_reset, "cut"});
    l.pass(55ms);
    CHECK(l.is_open);
    CHECK(l.with.become_ready());
}

Test(durable_reconnecting, an_attempt_is_not_put_off_by_another) {
    false_link l({.silence = 1h});
    l.with.retry();
    for (int i = 0; i < 10; ++i) {
        l.pass(10ms);
        l.with.retry();
    }
    CHECK(l.opened >= 1);
}

Test(durable_reconnecting, a_flight_gathers_until_its_predecessor_is_answered) {
    false_link l(usual);
    l.become_ready();
    l.ask("a");
    l.ask("b");
    l.with.flush();
    l.ask("c");
    CHECK(!l.with.may_send());
    l.is_awake = false;
    l.ask("d");
    CHECK(!l.is_awake);
    l.with.flush();
    CHECK((l.sent == strings{"a", "b"}));
    l.reply_with("");
    CHECK(!l.with.may_send());
    l.reply_with("");
    l.with.flush();
    CHECK((l.sent == strings{"a", "b", "c", "d"}));
    CHECK_EQ(l.flights, 2);
}

Test(durable_reconnecting, a_full_flight_is_sent_beside_another) {
    for (const unsigned most : {1U, 2U}) {
        false_link l({.silence = 500ms, .most_flights = most});
        l.become_ready();
        l.ask("a");
        l.with.flush();
        CHECK(!l.with.may_send(16'383));
        CHECK_EQ(l.with.may_send(16'384), most == 2);
        l.ask(std::string(16'384, 'b'));
        l.with.flush();
        CHECK_EQ(l.sent.size(), most);
        l.ask(std::string(16'384, 'c'));
        CHECK(!l.with.may_send());
    }
}

Test(durable_reconnecting, a_flight_after_several_requests_waits_a_moment) {
    false_link l({.silence = 500ms, .gathering = 10ms});
    l.become_ready();
    l.ask("a", 2);
    l.with.flush();
    l.reply_with("");
    CHECK(!l.with.may_send());
    l.pass(11ms);
    CHECK(l.with.may_send());
    l.ask("b");
    l.with.flush();
    l.reply_with("");
    CHECK(l.with.may_send());
}

Test(durable_reconnecting, an_answer_to_nothing_is_noticed) {
    false_link l(usual);
    l.become_ready();
    CHECK(!l.with.take());
    l.ask("waits");
    CHECK(!l.with.take());
}

// Whatever happens to the link, each request has one fate, and those that the server answered have
// its answer.
Test(durable_reconnecting, each_request_has_one_fate) {
    std::mt19937 random(1);
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random()) % n; };
    false_link l({.silence = 50ms, .gathering = 2ms});
    std::size_t asked = 0;
    for (int i = 0; i < 50'000; ++i) {
        switch (below(8)) {
        case 0:
        case 1:
        case 2:
            l.ask(std::to_string(++asked) + std::string(below(4) == 0 ? 9'000 : 0, ' '), below(3));
            break;
        case 3:
            l.with.flush();
            break;
        case 4:
            if (const auto t = l.with.take()) t->then(fate::replied, nullptr);
            break;
        case 5:
            l.pass(duration(below(20)));
            break;
        case 6:
            if (l.is_open && !l.with.is_ready()) l.with.become_ready();
            break;
        default:
            if (below(20) == 0) l.is_there = !l.is_there;
            if (below(20) == 0) l.with.lose({std::errc::connection_reset, "cut"});
        }
        if (i == 0) l.with.connect();
    }
    l.with.lose({std::errc::connection_reset, "the end"});
    l.with.flush();
    CHECK_EQ(l.log.size(), asked);
    CHECK(l.with.is_idle());
}
