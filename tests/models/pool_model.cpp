// Random programs on a pool beside a model of it, an ordered map: which timeout is called at which
// tick and what it is told, what each call returns, what each handle says, how many functions are
// alive. Functions are hostile: they cancel, reschedule and schedule, themselves and others, stop
// the pool, give memory back, throw. TVEC_SEED and TVEC_STEPS choose the run.
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using support::held;
using tvec::jiffies, tvec::missed_periods, tvec::timeout_call, tvec::timeout_handle,
    tvec::timeout_state;
using time_point = tvec::manual_clock::time_point;

namespace {

constexpr std::size_t most_pending = 150;

// What the model knows of one timeout.
struct entry {
    timeout_handle handle;
    timeout_state state = timeout_state::pending;
    bool armed = true;   // going to fire (again)
    jiffies due = 0;     // its deadline
    jiffies alarm = 0;   // when it will be called
    jiffies period = 0;  // 0: once
    missed_periods policy = missed_periods::skip;
};

class world {
public:
    explicit world(std::mt19937_64& random) : random_(random) {}
    world(const world&) = delete;

    void step() {
        const auto choice = below(100);
        if (choice < 45)
            act_once();
        else if (choice < 95)
            pass();
        else if (choice < 99)
            on_.pool.trim();
        else
            require(check(on_.timers.wheel()).empty(), "check");
        compare();
    }

    void finish() {
        stop();
        compare();
        require(held(token_) == 0, "functions alive after stop");
    }

    std::uint64_t calls() const { return calls_; }

private:
    struct callee {
        void operator()(const timeout_call& c) { home->called(id, c); }
        world* home;
        int id;
        std::shared_ptr<int> token;
    };
    callee function(int id) { return {this, id, token_}; }

    // --- choices --------------------------------------------------------------------------------
    std::uint64_t below(std::uint64_t n) { return random_() % n; }

    nanoseconds some_delay() {
        const std::uint64_t scale = std::uint64_t{1} << below(36);
        const auto ns = static_cast<std::int64_t>(below(4) == 0 ? below(3) * 1'000'000
                                                                : below(scale * 1'000) + scale);
        return nanoseconds(below(16) == 0 ? -ns : ns);
    }

    int some_id() { return static_cast<int>(below(static_cast<std::uint64_t>(next_id_) + 1)); }

    // A recent one, most of the time: those are pending.
    entry* some_entry() {
        const int from = below(4) == 0 ? some_id() : std::max(0, next_id_ - 60) + some_id() % 60;
        const auto found = entries_.lower_bound(from);
        return found == entries_.end() ? nullptr : &found->second;
    }

    // --- operations, each on both ---------------------------------------------------------------
    void act_once() {
        switch (below(9)) {
        case 0:
        case 1:
        case 2:
            return schedule();
        case 3:
            return schedule_every();
        case 4:
        case 5:
            if (entry* const e = some_entry()) cancel(*e);
            return;
        case 6:
        case 7:
            if (entry* const e = some_entry()) reschedule(*e);
            return;
        default:
            if (below(8) == 0) run_early(below(2) == 0);
        }
    }

    void schedule() {
        const nanoseconds delay = some_delay();
        const int id = next_id_++;
        const bool relative = below(2) == 0;
        const auto made = relative ? on_.pool.schedule(delay, function(id))
                                   : on_.pool.schedule_at(clock_now() + delay, function(id));
        admit(id, made, relative ? after(delay) : clock_now() + delay, 0, missed_periods::skip);
    }

    void schedule_every() {
        const auto policy = static_cast<missed_periods>(below(3));
        // A burst after a long sleep shall not take all day.
        const nanoseconds period =
            policy == missed_periods::burst ? 50ms + some_delay() / 100 * 100 : some_delay();
        const auto ticks = static_cast<jiffies>(std::max<std::int64_t>(
            1, (std::max<std::int64_t>(period.count(), 0) + 999'999) / 1'000'000));
        const int id = next_id_++;
        const auto made = on_.pool.schedule_every(period, function(id), policy);
        admit(id, made, after(period), ticks, policy);
    }

    void admit(int id, tvec::scheduled made, time_point deadline, jiffies period,
               missed_periods policy) {
        const bool room = armed_ < most_pending && !stopped_;
        require(static_cast<bool>(made) == room, "whether there is room");
        require(static_cast<bool>(made.handle) == room, "a handle");
        if (!room) return;
        entry e{made.handle, timeout_state::pending, true, 0, 0, period, policy};
        arm(e, deadline);
        ++armed_;
        entries_.emplace(id, e);
        while (entries_.size() > 400) forget_one();
    }

    void forget_one() {
        for (auto i = entries_.begin(); i != entries_.end(); ++i)
            if (!i->second.armed && i->second.state != timeout_state::running) {
                entries_.erase(i);
                return;
            }
    }

    void cancel(entry& e) {
        require(on_.pool.cancel(e.handle) == e.armed, "what cancel returns");
        if (!e.armed) return;
        disarm(e);
        if (e.state == timeout_state::pending) e.state = timeout_state::cancelled;
    }

    void reschedule(entry& e) {
        const nanoseconds delay = some_delay();
        const bool running = e.state == timeout_state::running && !cancelled_inside(e);
        const bool can = e.armed || (running && armed_ < most_pending && !stopped_);
        require(on_.pool.reschedule(e.handle, delay) == can, "what reschedule returns");
        if (!can) return;
        if (!e.armed) ++armed_;
        e.armed = true;
        arm(e, after(delay));
    }

    void run_early(bool early) {
        early_ = early;
        on_.pool.run_early(early);
        for (auto& [id, e] : entries_)
            if (early)
                e.alarm = std::min(e.alarm, now() + 1);
            else if (e.due > now())
                e.alarm = e.due;  // else it is due, and stays so
    }

    void stop() {
        const std::size_t expected = static_cast<std::size_t>(
            std::count_if(entries_.begin(), entries_.end(), [](const auto& item) {
                return item.second.armed && item.second.state == timeout_state::pending;
            }));
        stopped_ = true;
        for (auto& [id, e] : entries_)
            if (e.armed && e.state == timeout_state::running) disarm(e);
        const std::size_t shown = on_.pool.stop([&](support::pooled::pool_type::unprocessed& u) {
            entry& e = entry_of(u.handle());
            require(e.armed && e.state == timeout_state::pending, "stop shows what is pending");
            disarm(e);
            e.state = timeout_state::cancelled;
            if (below(2) == 0) run_at_stop(u, e);
        });
        require(shown == expected, "stop shows each once");
    }

    void run_at_stop(support::pooled::pool_type::unprocessed& u, entry& e) {
        handed_over_ = true;
        require(u.run(), "run at stop");
        handed_over_ = false;
        e.state = timeout_state::fired;
    }

    void pass() {
        if (below(60) == 0)
            hop();
        else
            tvec::manual_clock::advance(nanoseconds(below(below(10) ? 3'000'000 : 900'000'000)));
        const auto budget = below(5) ? tvec::timer_wheel::unlimited : below(20);
        if (!on_.timers.run(budget).caught_up) return;
        for (const auto& [id, e] : entries_)
            require(!e.armed || e.alarm > now(), "something due has not been called");
    }

    void hop() {
        const auto next = on_.timers.next_wakeup();
        if (next && *next > clock_now()) tvec::manual_clock::set(*next);
    }

    // --- what is called -------------------------------------------------------------------------
    void called(int id, const timeout_call& c) {
        ++calls_;
        entry& e = entries_.at(id);
        require(c.self == e.handle, "self");
        if (handed_over_) return;
        require(e.armed && e.state == timeout_state::pending, "called though not pending");
        require(e.alarm == now(), "called at another tick");
        const jiffies reached = now() + on_.timers.wheel().behind();
        late_ += reached - std::min(reached, e.due);
        require(c.missed == renew(e), "missed periods");
        require(on_.pool.count().late == late_, "lateness");
        e.state = timeout_state::running;
        compare();
        for (auto acts = below(4); acts != 0; --acts) below(3) ? act_once() : act_on_self(e);
        require(on_.timers.run().fired == 0, "a nested run");
        compare();
        end_of_call(e);
        if (below(8) == 0) throw id;
    }

    void act_on_self(entry& e) {
        if (below(400) == 0) stop();
        if (below(10) == 0) on_.pool.trim();
        below(2) ? cancel(e) : reschedule(e);
    }

    void end_of_call(entry& e) {
        if (e.armed)
            e.state = timeout_state::pending;
        else
            e.state = cancelled_inside(e) ? timeout_state::cancelled : timeout_state::fired;
        cancelled_.erase(std::remove(cancelled_.begin(), cancelled_.end(), e.handle),
                         cancelled_.end());
    }

    jiffies renew(entry& e) {
        if (e.period == 0) {
            e.armed = false;
            --armed_;
            return 0;
        }
        const jiffies reached = now() + on_.timers.wheel().behind();
        jiffies missed = 0;
        jiffies next = e.due + e.period;
        for (; e.policy != missed_periods::burst && next <= reached; next += e.period) ++missed;
        if (missed != 0 && e.policy == missed_periods::delay) next = reached + e.period;
        e.due = next;
        e.alarm = std::max(next, now() + 1);
        return missed;
    }

    // --- the model ------------------------------------------------------------------------------
    jiffies now() const { return on_.timers.wheel().now(); }

    static time_point clock_now() { return tvec::manual_clock::now(); }
    static time_point after(nanoseconds delay) { return clock_now() + std::max(delay, 0ns); }

    void arm(entry& e, time_point deadline) {
        const nanoseconds since = std::max(deadline - on_.timers.ticks().origin(), 0ns);
        e.due = std::max((static_cast<jiffies>(since.count()) + 999'999) / 1'000'000, now() + 1);
        e.alarm = early_ ? now() + 1 : e.due;
    }

    void disarm(entry& e) {
        e.armed = false;
        --armed_;
        if (e.state == timeout_state::running) cancelled_.push_back(e.handle);
    }

    bool cancelled_inside(const entry& e) const {
        return std::find(cancelled_.begin(), cancelled_.end(), e.handle) != cancelled_.end();
    }

    entry& entry_of(timeout_handle h) {
        for (auto& [id, e] : entries_)
            if (e.handle == h) return e;
        throw std::runtime_error("a handle that was never given");
    }

    void compare() {
        require(on_.pool.pending() == armed_, "pending");
        if (below(16) != 0) return;
        std::size_t alive = 0;
        for (const auto& [id, e] : entries_) {
            compare(e);
            alive += e.armed || e.state == timeout_state::running;
        }
        require(held(token_) == static_cast<long>(alive), "functions alive");
    }

    void compare(const entry& e) {
        const timeout_state state = on_.pool.state(e.handle);
        const bool over = !e.armed && e.state != timeout_state::running;
        require(state == e.state || (over && state == timeout_state::unknown), "state");
        const auto left = on_.pool.remaining(e.handle);
        require(left.has_value() == e.armed, "whether something remains");
        if (!left) return;
        const auto due = on_.timers.ticks().start_of(e.due);
        require(*left == std::max(due - clock_now(), 0ns), "what remains");
    }

    // A failure that is noticed inside a function must not be contained: it is kept.
    void require(bool holds, const char* what) {
        if (!holds && !failure_) failure_ = what;
    }

public:
    const std::optional<std::string>& failure() const { return failure_; }

private:
    std::mt19937_64& random_;
    std::shared_ptr<int> token_ = std::make_shared<int>();
    support::pooled on_{most_pending};
    std::map<int, entry> entries_;
    std::vector<timeout_handle> cancelled_;  // by themselves, while running
    int next_id_ = 0;
    std::size_t armed_ = 0;
    bool early_ = false;
    bool stopped_ = false;
    bool handed_over_ = false;
    std::uint64_t calls_ = 0;
    jiffies late_ = 0;  // ticks, in sum
    std::optional<std::string> failure_;
};

}  // namespace

TestSuite(pool_model, .timeout = 0);  // TVEC_STEPS says how long

Test(pool_model, agrees_with_the_pool_after_every_operation) {
    const std::uint64_t seed = support::from_environment("TVEC_SEED", std::random_device{}());
    const std::uint64_t steps = support::from_environment("TVEC_STEPS", 150'000);
    std::mt19937_64 random(seed);
    std::uint64_t done = 0, calls = 0;
    while (done < steps) {
        world w(random);
        const std::uint64_t end = done + (std::uint64_t{1} << random() % 14);
        for (; done < end && !w.failure(); ++done) w.step();
        if (!w.failure()) w.finish();
        if (w.failure())
            cr_assert_fail("TVEC_SEED=%llu after %llu steps: %s",
                           static_cast<unsigned long long>(seed),
                           static_cast<unsigned long long>(done), w.failure()->c_str());
        calls += w.calls();
    }
    std::fprintf(stderr, "pool_model: TVEC_SEED=%llu, %llu steps, %llu calls\n",
                 static_cast<unsigned long long>(seed), static_cast<unsigned long long>(done),
                 static_cast<unsigned long long>(calls));
    CHECK_GE(calls, steps / 8);
}
