// A server's life: connections that open, talk and close, requests that seldom time out, and
// maintenance by the hour, day, week, month and year, on a clock of 1 ms that hops. Each timer that
// was armed has fired, was cancelled or destroyed, or is still there at the end. None is early or
// late.
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/ledger.hpp"
#include "support/probe.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::visits;
using tvec::timer_wheel;

TestSuite(long_life, .timeout = 120);

namespace {

constexpr jiffies second = 1'000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;
constexpr jiffies year = 365 * day + 6 * hour;

class server;

struct connection;

// One timer of the server.
struct job {
    using action = void (server::*)(job&);
    job(server& s, int number, action a, jiffies every = 0)
        : home(s), id(number), then(a), period(every) {}
    void on_fire(timer_wheel& wheel);

    server& home;
    const int id;
    const action then;
    jiffies period;
    connection* of = nullptr;
    tvec::timer t{tvec::call<&job::t, &job::on_fire>};
};

struct connection {
    connection(server& s, int number);
    job idle, request;
    jiffies patience = 0;
    std::size_t place = 0;  // among the server's connections
};

// How often timers became pending, and what became of them.
struct books {
    std::uint64_t armed = 0, fired = 0, cancelled = 0, destroyed = 0;
    bool balance(std::uint64_t pending) const {
        return armed == fired + cancelled + destroyed + pending;
    }
};

class server {
public:
    server(jiffies start, std::uint64_t seed);
    void run(jiffies span);
    void shut_down();

    void fired(job&, const timer_wheel&);
    void close_idle(job&);
    void retry(job&);
    void beat(job&);
    void renew(job&);
    void nothing(job&) {}

    const books& account() const { return books_; }
    std::uint64_t operations() const { return operations_; }

private:
    static constexpr std::size_t usual_connections = 40, maintenance_jobs = 11;

    jiffies below(jiffies n) { return random_() % n; }
    jiffies pause(bool busy) { return 1 + (busy ? below(4 * second) : below(1 << below(27))); }

    void maintain(job::action, jiffies first, jiffies period = 0);
    void open();
    void close(connection&);
    void live();
    void answer();
    void talk(connection&);
    void push_back(connection&);
    void arm_at(job&, jiffies);
    void cancel(job&);
    void burn(const job&);
    void note(const job&, bool was_pending);
    void hop(jiffies end);
    void audit();

    std::mt19937_64 random_;
    timer_wheel wheel_;
    support::ledger due_;
    std::vector<std::unique_ptr<job>> maintenance_;
    std::vector<std::unique_ptr<connection>> connections_;
    books books_;
    jiffies next_event_;
    int next_id_ = 0;
    std::uint64_t operations_ = 0, events_ = 0, hops_ = 0;
    std::uint64_t idle_hops_ = 0;    // wake-ups that visited nothing
    std::uint64_t left_places_ = 0;  // timers that may have left a slot without a visit
    std::uint64_t most_visits_ = 0;  // that what was armed may cost
};

connection::connection(server& s, int number)
    : idle(s, number, &server::close_idle), request(s, number + 1, &server::retry) {
    idle.of = request.of = this;
}

void job::on_fire(timer_wheel& wheel) {
    home.fired(*this, wheel);
    (home.*then)(*this);  // which may destroy this job
}

server::server(jiffies start, std::uint64_t seed)
    : random_(seed), wheel_(start), next_event_(start) {
    for (const jiffies period : {hour, day, 7 * day, 30 * day, year})
        maintain(&server::beat, period, period);
    maintain(&server::renew, 90 * day);
    maintain(&server::nothing, 2 * year + 1);
    maintain(&server::nothing, 9 * year);
    maintain(&server::nothing, (jiffies{1} << 33) + 1);
    maintain(&server::nothing, 11 * year);  // not in this life
    maintain(&server::nothing, tvec::never - start);
    REQUIRE_EQ(maintenance_.size(), maintenance_jobs);
}

// --- operations ---------------

void server::maintain(job::action then, jiffies first, jiffies period) {
    maintenance_.push_back(std::make_unique<job>(*this, next_id_++, then, period));
    arm_at(*maintenance_.back(), wheel_.now() + first);
}

void server::arm_at(job& j, jiffies at) {
    left_places_ += at < j.t.expires();  // pulled in, perhaps after it was cancelled
    note(j, wheel_.arm_at(j.t, at));
    REQUIRE_EQ(j.t.expires(), at);
}

void server::note(const job& j, bool was_pending) {
    ++operations_;
    books_.armed += !was_pending;
    // A visit where it hung, if it was pushed back, and what it costs from here.
    most_visits_ += 1 + support::most_visits(j.t.expires() - wheel_.now());
    REQUIRE_EQ(due_.arm(j.id, j.t.expires()), was_pending);
}

void server::cancel(job& j) {
    ++operations_;
    const bool was_pending = j.t.cancel();
    books_.cancelled += was_pending;
    REQUIRE_EQ(due_.cancel(j.id), was_pending);
}

void server::burn(const job& j) {
    ++operations_;
    left_places_ += j.t.expires() > wheel_.now();  // a cancelled timer may hang there as well
    books_.destroyed += j.t.pending();
    REQUIRE_EQ(due_.cancel(j.id), j.t.pending());
}

void server::fired(job& j, const timer_wheel& wheel) {
    ++books_.fired;
    ++operations_;
    REQUIRE(!j.t.pending());
    REQUIRE_EQ(due_.due(j.id), wheel.now());  // none if it has fired before
    due_.cancel(j.id);
}

// --- callbacks ------------

void server::beat(job& j) {
    const jiffies next = j.t.expires() + j.period;
    REQUIRE_EQ(wheel_.arm_next(j.t, j.period), 0);
    REQUIRE_EQ(j.t.expires(), next);
    note(j, false);
}

void server::renew(job& j) { arm_at(j, wheel_.now() + 89 * day + below(2 * day)); }

void server::close_idle(job& j) { close(*j.of); }

void server::retry(job& j) {
    if (below(2) == 0)
        arm_at(j, wheel_.now() + 10 * second);
    else
        close(*j.of);
}

// --- the loop --------------

void server::open() {
    connections_.push_back(std::make_unique<connection>(*this, next_id_));
    next_id_ += 2;
    connection& c = *connections_.back();
    c.place = connections_.size() - 1;
    c.patience = 10 * minute << below(9);  // up to two days
    push_back(c);
}

void server::close(connection& c) {
    burn(c.idle);
    burn(c.request);
    const std::size_t place = c.place;
    connections_.back()->place = place;
    std::swap(connections_[place], connections_.back());
    connections_.pop_back();
}

void server::push_back(connection& c) { arm_at(c.idle, wheel_.now() + c.patience); }

// Most requests are answered; those that are not will time out.
void server::answer() {
    for (auto& c : connections_)
        if (c->request.t.pending() && below(10) != 0) cancel(c->request);
}

void server::talk(connection& c) {
    push_back(c);
    if (below(4) != 0)
        arm_at(c.request, wheel_.now() + 5 * second + below(100));
    else
        cancel(c.request);  // whether or not there is one
    if (below(100) == 0) arm_at(c.idle, wheel_.now() + 1 + below(minute));  // asked to go soon
}

// Times of traffic, and hours in which nothing but timers moves.
void server::live() {
    ++events_;
    const bool busy = below(6) != 0;
    next_event_ = wheel_.now() + pause(busy);
    answer();
    if (connections_.size() < usual_connections) open();
    if (below(50) == 0) close(*connections_[below(connections_.size())]);
    for (jiffies i = busy ? below(4) : 0; i != 0 && !connections_.empty(); --i)
        talk(*connections_[below(connections_.size())]);
}

// --- time ---

// To the next wake-up or the next thing that happens, whichever is first.
void server::hop(jiffies end) {
    const jiffies wake = wheel_.next_wakeup().value_or(tvec::never);
    REQUIRE_LE(wheel_.now() + 1, wake);
    REQUIRE_LE(wake, due_.first().value_or(tvec::never));
    const jiffies to = std::min({wake, next_event_, end});
    const auto before = visits(wheel_);
    REQUIRE(wheel_.advance(to).caught_up);
    ++hops_;
    idle_hops_ += to == wake && visits(wheel_) == before;
    REQUIRE_LE(to + 1, due_.first().value_or(tvec::never));  // nothing was missed
    if (to == next_event_) live();
    if (hops_ % 5'000 == 0) audit();
}

void server::run(jiffies span) {
    const jiffies end = wheel_.now() + span;
    while (wheel_.now() < end) hop(end);
    audit();
}

void server::audit() {
    REQUIRE_EQ(check(wheel_), "");
    REQUIRE_EQ(wheel_.count_pending(), due_.size());
    REQUIRE_EQ(wheel_.next_expiry(), due_.first());
    REQUIRE_EQ(wheel_.count().fired, books_.fired);
    REQUIRE(books_.balance(due_.size()));
    // No idle ticking: a wake-up visits a timer, unless the one it was for has left its slot by
    // a pull-in or by being destroyed; and what was armed bounds the visits.
    REQUIRE_LE(idle_hops_, left_places_);
    REQUIRE_LE(visits(wheel_), most_visits_);
    REQUIRE_LE(hops_, events_ + most_visits_ + left_places_ + 1);  // 1: the end of the run
}

void server::shut_down() {
    std::size_t shown = 0;
    wheel_.drain([&](tvec::timer& t) {
        ++shown;
        job& j = tvec::owner_of<&job::t>(t);
        REQUIRE_EQ(due_.due(j.id), t.expires());
        due_.cancel(j.id);
    });
    CHECK_GE(shown, 2 + connections_.size());  // eleven years, never, and who is connected
    CHECK_EQ(due_.size(), 0);
    CHECK(books_.balance(shown));
    CHECK(!wheel_.next_wakeup());
    CHECK_EQ(check(wheel_), "");
}

}  // namespace

Test(long_life, ten_years_of_a_server_balance, .timeout = 300) {
    const jiffies span = support::scaled(10 * year), days = span / day;
    server s(0, 2026);
    s.run(span);
    CHECK_GE(s.operations(), days * 800);
    CHECK_GE(s.account().fired, days * 27);
    CHECK_GE(s.account().cancelled, days * 27);
    CHECK_GE(s.account().destroyed, days * 5);
    s.shut_down();
}

Test(long_life, a_servers_year_across_wraps_balances) {
    for (const jiffies start : {(jiffies{1} << 32) - 300, (jiffies{1} << 40) - 1}) {
        server s(start, 7);
        s.run(support::scaled(year));
        s.shut_down();
    }
}

// --- an old wheel -------------------------------------------------------------------------------

namespace {

// Short timers on a wheel that reaches a wrap, each of which checks that it is on time.
class old_wheel {
public:
    explicit old_wheel(jiffies tick) : wheel(tick) {}
    // Three more timers; of the older ones one is cancelled, one pushed back and one destroyed.
    void live() {
        for (int i = 0; i < 3; ++i) {
            all_.push_back(std::make_unique<support::probe>());
            arm(*all_.back());
        }
        any().t.cancel();
        if (support::probe& p = any(); p.t.pending()) arm(p, p.t.expires() - wheel.now());
        all_.erase(all_.begin() + random_() % all_.size());
        std::erase_if(all_, [](const auto& p) { return !p->t.pending(); });
    }
    void hop() {
        const jiffies wake = *wheel.next_wakeup(), first = *wheel.next_expiry();
        REQUIRE_LE(wheel.now() + 1, wake);
        REQUIRE_LE(wake, first);
        for (const auto& p : all_) REQUIRE_LE(first, p->t.expires());
        wheel.advance(wake);
        for (const auto& p : all_) REQUIRE(!p->t.pending() || p->t.expires() > wake);
        REQUIRE_EQ(check(wheel), "");
    }

    timer_wheel wheel;

private:
    support::probe& any() { return *all_[random_() % all_.size()]; }
    void arm(support::probe& p, jiffies more = 0) {
        const jiffies due = wheel.now() + more + 1 + random_() % 333;
        p.then = [due](timer_wheel& w) { REQUIRE_EQ(w.now(), due); };
        wheel.arm_at(p.t, due);
    }

    std::mt19937_64 random_{4};
    std::vector<std::unique_ptr<support::probe>> all_;
};

}  // namespace

// Two timers beyond the levels must neither hide short ones at a wrap nor be disturbed by them.
Test(long_life, far_timers_disturb_no_short_ones_at_wraps) {
    const std::size_t rounds = support::scaled(2'000);
    for (const unsigned power : {8u, 14u, 20u, 26u, 32u, 33u})
        for (const jiffies before : {10, 400})  // the far ones are armed
            for (const bool is_new : {false, true}) {
                const jiffies wrap = jiffies{1} << power, start = wrap - std::min(wrap, before);
                old_wheel old(is_new ? start : 0);
                while (old.wheel.now() < start)
                    old.wheel.advance(old.wheel.now() + (start - old.wheel.now() + 1) / 2);
                support::probe far, last;
                const jiffies due = start + 1'000'000'000'000;
                old.wheel.arm_at(far.t, due);
                old.wheel.arm_at(last.t, tvec::never - 1);
                for (std::size_t i = 0; i < rounds; ++i) old.live(), old.hop();
                REQUIRE_LE(support::scaled(1'000), old.wheel.now() - start);
                REQUIRE(far.t.pending() && last.t.pending());
                old.wheel.advance(due);
                REQUIRE(far.fired_only_at(due) && last.t.pending());
            }
}
