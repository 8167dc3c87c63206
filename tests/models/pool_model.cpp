// Runs random programs on a pool beside a model, an ordered map. It checks which timeout is called
// at which tick with which argument, the result of each call, the state of each handle, every
// counter, the memory, and the number of live functions. Functions are hostile: they cancel,
// reschedule and schedule themselves and others, stop the pool, switch run_early, drain the wheel,
// trim memory, and throw. Their copy and move constructors, their destructors, visitors and the
// hook for exceptions do the same. Allocations fail now and then. Destroying the pool from any of
// these places ends a process. TVEC_SEED and TVEC_STEPS choose the run.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using tvec::jiffies, tvec::missed_periods, tvec::schedule_error, tvec::timeout_call,
    tvec::timeout_handle, tvec::timeout_state;
using time_point = tvec::manual_clock::time_point;

namespace {

// Makes the pool's allocations fail, or succeed, and knows whether it has asked for one. A scope
// restores both.
struct shortage {
    explicit shortage(bool begins) {
        none_left_ = begins;
        denied_ = false;
    }
    shortage(const shortage&) = delete;
    shortage& operator=(const shortage&) = delete;
    ~shortage() {
        none_left_ = outer_none_left_;
        denied_ = outer_denied_;
    }
    static void end() { none_left_ = false; }
    static bool denied() { return denied_; }
    static bool denies() { return none_left_ && (denied_ = true); }

private:
    static inline bool none_left_ = false, denied_ = false;
    bool outer_none_left_ = none_left_, outer_denied_ = denied_;
};

template <class New> void* allocate(New from_system) noexcept {
    if (shortage::denies()) return nullptr;
    try {
        return from_system();
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

}  // namespace

// Those that the pool calls: for its directory and for its slabs.
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
    return allocate([=] { return ::operator new[](size); });
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return allocate([=] { return ::operator new(size, alignment); });
}

namespace {

// The model's knowledge of one timeout.
struct entry {
    timeout_handle handle;
    timeout_state state = timeout_state::pending;
    bool armed = true;   // going to fire (again)
    jiffies due = 0;     // its deadline
    jiffies alarm = 0;   // time of the next call
    jiffies period = 0;  // 0: once
    missed_periods policy = missed_periods::skip;
    bool at_once = false;  // called at `alarm` first, and then at `due`
    bool drained = false;  // pending, but off the wheel

    jiffies deadline() const { return at_once ? alarm : due; }
    bool fires() const { return armed && !drained; }
};

// The first call of a periodic timeout, and its first deadline.
struct beginning {
    jiffies first = 0, due = 0;
};

class world {
public:
    explicit world(std::mt19937_64& random) : random_(random) {
        on_.pool.on_exception(
            [this](timeout_handle h, const std::exception_ptr& e) { is_told(h, e); });
    }
    world(const world&) = delete;

    void step() {
        const auto choice = below(100);
        if (choice < 45)
            act_once();
        else if (choice < 95)
            pass();
        else if (choice < 99)
            trim();
        else if (below(20) == 0)
            drain();
        else
            require(check(on_.timers.wheel()).empty(), "check");
        compare();
    }

    // With or without `stop`, the pool destroys what it holds.
    void finish() {
        if (below(2) == 0) {
            while (armed_ != 0 || !stopped_) stop();
            require(functions_ == 0, "functions alive after stop");
        }
        compare();
        ending_ = true;
        whole_.reset();
        require(functions_ == 0, "functions alive after the pool");
    }

    // A pool that is stopped does little more.
    bool is_over() { return stopped_ && armed_ == 0 && below(20) == 0; }

    std::uint64_t calls() const { return calls_; }

private:
    // A function object. Only the pool's own object is ever copied or moved into being.
    struct callee {
        callee(world& w, int i) : home(w), id(i) {}
        callee(const callee& other) : home(other.home), id(other.id), owned(true) {
            given_out = home.taken();
        }
        callee(callee&& other) : callee(static_cast<const callee&>(other)) {}
        ~callee() {
            if (owned) stays_where_it_is([this] { home.dropped(given_out); });
        }
        void operator()(const timeout_call& c) {
            stays_where_it_is([&] { home.called(id, c); });
        }
        template <class F> void stays_where_it_is(F act) {
            const int before = id;
            act();
            home.require(id == before, "a node was used again too soon");
        }
        world& home;
        int id;
        bool owned = false;
        bool given_out = false;  // by `take`: the pool does not know it any more
    };

    struct stranger {  // never scheduled
        void operator()() const {}
    };

    // --- choices --------------------------------------------------------------------------------
    std::uint64_t below(std::uint64_t n) { return random_() % n; }

    nanoseconds some_delay() {
        const std::uint64_t scale = std::uint64_t{1} << below(36);
        const auto ns = static_cast<std::int64_t>(below(4) == 0 ? below(3) * 1'000'000
                                                                : below(scale * 1'000) + scale);
        return nanoseconds(below(16) == 0 ? -ns : ns);
    }

    int some_id() { return static_cast<int>(below(static_cast<std::uint64_t>(next_id_) + 1)); }

    // Returns a recent one, most of the time: those are pending.
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
            return act_rarely();
        }
    }

    void act_rarely() {
        switch (below(10)) {
        case 8:
            return reserve();
        case 9:
            return schedule_nothing();
        case 0:
            return run_early(below(2) == 0);
        case 1:
            return walk();
        case 2:
        case 3:
            return next();
        default:
            if (entry* const e = some_entry()) take(*e);
        }
    }

    void schedule() {
        const nanoseconds delay = some_delay();
        const auto once = missed_periods::skip;
        if (below(2) == 0)
            admit(at(after(delay)), 0, once,
                  [&](auto&& f) { return on_.pool.schedule(delay, std::forward<decltype(f)>(f)); });
        else
            admit(at(clock_now() + delay), 0, once, [&](auto&& f) {
                return on_.pool.schedule_at(clock_now() + delay, std::forward<decltype(f)>(f));
            });
    }

    void schedule_every() {
        const auto policy = static_cast<missed_periods>(below(3));
        // Bounds a burst after a long sleep.
        const nanoseconds period =
            policy == missed_periods::burst ? 50ms + some_delay() / 100 * 100 : some_delay();
        const auto ticks = static_cast<jiffies>(std::max<std::int64_t>(
            1, (std::max<std::int64_t>(period.count(), 0) + 999'999) / 1'000'000));
        if (below(2) == 0)
            return admit(at(after(period)), ticks, policy, [&](auto&& f) {
                return on_.pool.schedule_every(period, std::forward<decltype(f)>(f), policy);
            });
        // It may be before the construction of the wheel.
        const time_point start = clock_now() + (below(2) ? some_delay() : -some_delay());
        admit(begin_at(start, ticks), ticks, policy, [&](auto&& f) {
            return on_.pool.schedule_every(start, period, std::forward<decltype(f)>(f), policy);
        });
    }

    // At once, and a whole number of periods after the start, if the start is before the next tick
    // of both wheel and clock.
    beginning begin_at(time_point start, jiffies period) const {
        const auto step = static_cast<std::int64_t>(period);
        const auto next = static_cast<std::int64_t>(
            std::max(tick_of(clock_now()), static_cast<std::int64_t>(now()) + 1));
        std::int64_t due = tick_of(start);
        if (due >= next) return {static_cast<jiffies>(due), static_cast<jiffies>(due)};
        due += ((next - due) / step + 1) * step;
        return {static_cast<jiffies>(next), static_cast<jiffies>(due)};
    }

    // Rounded up; negative before the origin.
    std::int64_t tick_of(time_point t) const {
        const std::int64_t ns = (t - on_.timers.ticks().origin()).count();
        return ns / 1'000'000 + (ns % 1'000'000 > 0);
    }
    beginning at(time_point deadline) const {
        const auto due = static_cast<jiffies>(std::max<std::int64_t>(tick_of(deadline), 0));
        return {due, due};
    }

    // The pool decides at the call whether it accepts a timeout. Stopping it while it copies the
    // function also makes it refuse.
    template <class Schedule>
    void admit(beginning begin, jiffies period, missed_periods policy, Schedule schedule) {
        const bool room = has_room();
        const int id = next_id_++;
        callee f(*this, id);
        const auto refusal = stopped_ ? schedule_error::stopped : schedule_error::too_many;
        tvec::scheduled made;
        const shortage memory(below(20) == 0);
        claimed_ += room;
        try {
            made = below(2) ? schedule(f) : schedule(std::move(f));
        } catch (const copy_failed&) {
            claimed_ -= room;
            return require(room, "a function was copied for nothing");
        }
        claimed_ -= room;
        const auto expected = !room             ? refusal
                              : memory.denied() ? schedule_error::out_of_memory
                              : stopped_        ? schedule_error::stopped
                                                : schedule_error::none;
        const bool admitted = expected == schedule_error::none;
        require(made.error == expected, "why it is refused");
        require(static_cast<bool>(made.handle) == admitted, "a handle");
        rejected_ += !admitted;
        if (!admitted) return;
        require(given_.insert(made.handle).second, "a handle was given twice");
        entry e{made.handle, timeout_state::pending, false, 0, 0, period, policy};
        arm(e, begin.first);
        if (begin.due != begin.first) {
            e.due = begin.due;
            e.at_once = true;
        }
        entries_.emplace(id, e);
        while (entries_.size() > 400 && forget_one()) continue;
    }

    void schedule_nothing() {
        ++rejected_;
        require(on_.pool.schedule(1ms, std::function<void()>()).error ==
                    schedule_error::no_function,
                "an empty function");
    }

    void reserve() {
        const std::size_t timeouts = below(4) == 0 ? below(1'000) : below(100);
        const std::size_t before = on_.pool.capacity();
        const shortage memory(below(4) == 0);
        const bool reserved = on_.pool.reserve(timeouts);
        require(reserved == !memory.denied(), "what reserve returns");
        require(!reserved || timeouts == 0 || on_.pool.capacity() > timeouts, "what is reserved");
        require(timeouts != 0 || on_.pool.capacity() == before, "nothing is reserved");
        most_nodes_ = std::max(most_nodes_, timeouts + 1);
    }

    // Each slab that stays has a timeout, which may be scheduled, called or destroyed right now.
    void trim() {
        const std::size_t before = on_.pool.capacity();
        const std::size_t freed = on_.pool.trim();
        require(on_.pool.capacity() + freed == before, "what trim returns");
        require(on_.pool.capacity() <= (armed_ + (is_quiet() ? 0 : 32)) * 64, "what trim leaves");
    }

    // Drained timeouts are pending, but do not fire.
    void drain() {
        on_.timers.wheel().drain([](tvec::timer&) {});
        for (auto& [id, e] : entries_) e.drained = e.armed;
    }

    bool has_room() const { return armed_ + claimed_ < bound_ && !stopped_; }

    bool forget_one() {
        for (auto i = entries_.begin(); i != entries_.end(); ++i)
            if (!i->second.armed && i->second.state != timeout_state::running) {
                entries_.erase(i);
                return true;
            }
        return false;
    }

    // The function's destructor runs last: by then `e` may be forgotten.
    void cancel(entry& e) {
        const bool was_armed = e.armed;
        if (was_armed) disarm(e);
        ended_ += was_armed;
        if (was_armed && e.state == timeout_state::pending) e.state = timeout_state::cancelled;
        require(on_.pool.cancel(e.handle) == was_armed, "what cancel returns");
    }

    // Like `cancel`, except that a running function cannot be taken and moving it may throw.
    void take(entry& e) {
        const timeout_handle h = e.handle;
        require(!on_.pool.take<stranger>(h), "taken as another type");
        const bool can = e.armed && e.state == timeout_state::pending;
        if (can) {
            disarm(e);
            e.state = timeout_state::cancelled;
        }
        taking_ = can;
        try {
            require(on_.pool.take<callee>(h).has_value() == can, "whether it is taken");
        } catch (const copy_failed&) {
            require(can, "a function was moved for nothing");
        }
    }

    void reschedule(entry& e) {
        const nanoseconds delay = some_delay();
        const bool running = e.state == timeout_state::running && !cancelled_inside(e);
        const bool can = e.armed || (running && has_room());
        rejected_ += !can && running;
        const bool has = below(2) ? on_.pool.reschedule(e.handle, delay)
                                  : on_.pool.reschedule_at(e.handle, after(delay));
        require(has == can, "what reschedule returns");
        if (can) arm(e, at(after(delay)).first);
    }

    void run_early(bool early) {
        early_ = early;
        on_.pool.run_early(early);
        for (auto& [id, e] : entries_)
            if (!e.fires())
                continue;
            else if (early)
                e.alarm = std::min(e.alarm, now() + 1);
            else if (e.due > now() && !e.at_once)
                e.alarm = e.due;  // otherwise it is due, and stays due
    }

    // If the visitor throws, the rest stays pending.
    void stop() {
        stopped_ = true;
        for (auto& [id, e] : entries_)
            if (e.armed && e.state == timeout_state::running) {
                disarm(e);
                ++ended_;
            }
        std::size_t seen = 0;
        try {
            const std::size_t shown = on_.pool.stop([&](auto& u) {
                ++seen;
                is_shown(u);
            });
            require(shown == seen, "how many stop has shown");
            require(armed_ == 0, "stop shows all");
        } catch (const enough&) {
        }
        require(on_.pool.stopped(), "stopped");
    }

    void is_shown(support::pooled::pool_type::unprocessed& u) {
        entry& e = entry_of(u.handle());
        require(e.armed && e.state == timeout_state::pending, "stop shows what is pending");
        require(u.deadline() == on_.timers.ticks().start_of(e.deadline()), "a deadline at stop");
        const timeout_handle h = u.handle();
        disarm(e);
        e.state = timeout_state::cancelled;
        // It counts as cancelled when the visitor has returned.
        const at_end count{[&] { ended_ += on_.pool.state(h) == timeout_state::cancelled; }};
        if (below(2) == 0) run_at_stop(u, e);
        act_somehow();
        dies_here(20);
        if (below(50) == 0) throw enough();
    }

    void run_at_stop(support::pooled::pool_type::unprocessed& u, entry& e) {
        handed_over_ = e.handle;
        e.state = timeout_state::running;
        const timeout_handle h = e.handle;
        require(u.run(), "run at stop");
        require(on_.pool.state(h) == timeout_state::fired, "run at stop, and fired");
        require(!u.run(), "run twice at stop");
    }

    // Shows only timeouts that are armed before and after the visit, and each once.
    void walk() {
        const auto armed = armed_handles();
        std::set<timeout_handle> seen;
        const bool to_its_end = on_.pool.for_each_pending([&](const auto& shown) {
            entry& e = entry_of(shown.handle);
            require(e.armed, "a walk shows what is not pending");
            require(shown.deadline == on_.timers.ticks().start_of(e.deadline()), "a deadline");
            require(seen.insert(shown.handle).second, "a walk shows a timeout twice");
            if (below(16) == 0) cancel(e);
            act_somehow();
            dies_here(100);
            return below(100) != 0;
        });
        if (!to_its_end) return;
        for (const timeout_handle h : armed_handles())
            require(!armed.contains(h) || seen.contains(h), "a walk leaves a timeout out");
    }

    std::set<timeout_handle> armed_handles() const {
        std::set<timeout_handle> all;
        for (const auto& [id, e] : entries_)
            if (e.armed) all.insert(e.handle);
        return all;
    }

    void next() {
        jiffies first = tvec::never;
        for (const auto& [id, e] : entries_)
            if (e.fires()) first = std::min(first, e.alarm);
        const auto next = on_.pool.next();
        require(next.has_value() == (first != tvec::never), "whether anything is next");
        if (!next) return;
        const entry& e = entry_of(next->handle);
        require(e.alarm == first, "what is next");
        require(next->deadline == on_.timers.ticks().start_of(e.deadline()), "the next deadline");
    }

    void pass() {
        if (below(60) == 0)
            hop();
        else
            tvec::manual_clock::advance(nanoseconds(below(below(10) ? 3'000'000 : 900'000'000)));
        run();
    }

    void hop() {
        const auto next = on_.timers.next_wakeup();
        if (next && *next > clock_now()) tvec::manual_clock::set(*next);
    }

    void run() {
        const auto budget = below(5) ? tvec::timer_wheel::unlimited : below(20);
        try {
            if (!on_.timers.run(budget).caught_up) return;
        } catch (const enough&) {
            return;
        }
        for (const auto& [id, e] : entries_)
            require(!e.fires() || e.alarm > now(), "something due has not been called");
    }

    // --- the life of functions ------------------------------------------------------------------
    struct copy_failed {};
    struct enough {};  // thrown by visitors and by the hook

    template <class F> struct at_end {
        F act;
        ~at_end() { act(); }
    };
    template <class F> at_end(F) -> at_end<F>;

    // Returns whether `take` has moved it out: that counts as cancelled from the end of the move.
    bool taken() {
        const bool by_take = std::exchange(taking_, false);
        const at_end count{[&] { ended_ += by_take; }};
        shortage::end();
        act_somehow();
        dies_here(3'000);
        if (below(50) == 0) tvec::manual_clock::advance(nanoseconds(below(3'000'000)));
        if (below(20) == 0) throw copy_failed();
        ++functions_;
        return by_take;
    }

    void dropped(bool given_out) {
        --functions_;
        act_somehow();
        if (!given_out) dies_here(3'000);
    }

    // Once in a while, tries the end of the pool in another process.
    void dies_here(std::uint64_t one_in) {
        if (ending_ || !support::has_children || below(one_in) != 0) return;
        const std::string said = support::last_words([this] {
            ending_ = true;
            std::destroy_at(&on_.pool);
        });
        require(said.starts_with("tvec: a timeout_pool is destroyed by one of its own functions"),
                "a pool is destroyed by what it calls");
    }

    void is_told(timeout_handle h, const std::exception_ptr& thrown) {
        try {
            std::rethrow_exception(thrown);
        } catch (int id) {
            const auto waiting = thrown_.find(id);
            if (waiting == thrown_.end()) return require(false, "an exception of nobody");
            thrown_.erase(waiting);
            const auto found = entries_.find(id);
            if (found == entries_.end()) return;
            require(found->second.handle == h, "whom the hook blames");
            compare(found->second);
        }
        act_somehow();
        dies_here(100);
        if (below(8) == 0) throw enough();
    }

    // Called from everywhere in the pool, besides the functions themselves. Its depth is bounded.
    void act_somehow() {
        if (ending_) return is_refused_at_the_end();
        if (depth_ == 4 || below(8) != 0) return;
        ++depth_;
        require(on_.pool.pending() == armed_, "pending, from inside");
        act_once();
        if (below(1'000) == 0) stop();
        if (below(10) == 0) trim();
        if (below(100) == 0) drain();
        if (below(10) == 0) run();
        --depth_;
    }

    void is_refused_at_the_end() {
        require(on_.pool.schedule(1ms, [] {}).error == schedule_error::stopped,
                "a pool that ends takes a timeout");
    }

    // --- callbacks ------------------------------------------------------------------------------
    void called(int id, const timeout_call& c) {
        ++calls_;
        ++inside_;
        const at_end leave{[this] { --inside_; }};
        entry& e = entries_.at(id);
        require(c.self == e.handle, "self");
        if (e.handle == handed_over_) return act_at_stop(id, e, c);
        require(e.fires() && e.state == timeout_state::pending, "called though not pending");
        require(e.alarm == now(), "called at another tick");
        const jiffies reached = now() + on_.timers.wheel().behind();
        const jiffies late = e.at_once ? 0 : reached - std::min(reached, e.due);
        late_ += late;
        latest_ = std::max(latest_, late);
        require(c.due == e.deadline(), "the deadline that it is called for");
        require(c.missed == renew(e), "missed periods");
        e.state = timeout_state::running;
        compare();
        for (auto acts = below(4); acts != 0; --acts) below(3) ? act_once() : act_on_self(e);
        require(on_.timers.run().fired == 0, "a nested run");
        compare();
        dies_here(3'000);
        end_of_call(e);
        if (below(8) == 0) fail(id);
    }

    [[noreturn]] void fail(int id) {
        ++failed_;
        thrown_.insert(id);
        throw id;
    }

    void act_at_stop(int id, entry& e, const timeout_call& c) {
        handed_over_ = {};
        require(c.due == e.deadline() && c.missed == 0, "what a call at stop is told");
        for (auto acts = below(4); acts != 0; --acts) below(3) ? act_once() : act_on_self(e);
        e.state = timeout_state::fired;
        if (below(8) == 0) fail(id);
    }

    void act_on_self(entry& e) {
        if (below(400) == 0) stop();
        if (below(10) == 0) trim();
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
        if (std::exchange(e.at_once, false)) {
            e.alarm = std::max(e.due, now() + 1);
            return 0;
        }
        const jiffies reached = now() + on_.timers.wheel().behind();
        jiffies missed = 0;
        jiffies next = e.due + e.period;
        for (; e.policy != missed_periods::burst && next <= reached; next += e.period) ++missed;
        if (reached > e.due && e.policy == missed_periods::delay) next = reached + e.period;
        e.due = next;
        e.alarm = std::max(next, now() + 1);
        missed_ += missed;
        return missed;
    }

    // --- the model ------------------------------------------------------------------------------
    jiffies now() const { return on_.timers.wheel().now(); }

    static time_point clock_now() { return tvec::manual_clock::now(); }
    static time_point after(nanoseconds delay) { return clock_now() + std::max(delay, 0ns); }

    void arm(entry& e, jiffies due) {
        if (!e.armed) ++armed_;
        e.armed = true;
        e.at_once = e.drained = false;
        high_water_ = std::max(high_water_, armed_);
        e.due = std::max(due, now() + 1);
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
        require(on_.pool.high_water() == high_water_, "the high water mark");
        compare_counters();
        compare_memory();
        require(!is_quiet() || thrown_.empty(), "an exception that the hook is not told of");
        if (below(16) != 0) return;
        std::size_t alive = 0;
        for (const auto& [id, e] : entries_) {
            compare(e);
            alive += e.armed || e.state == timeout_state::running;
        }
        require(depth_ != 0 || functions_ == alive, "functions alive");
    }

    void compare_counters() {
        const auto& count = on_.pool.count();
        require(count.rejected == rejected_, "what was refused");
        require(count.cancelled == ended_, "what was cancelled");
        require(count.fired == calls_, "what has fired");
        require(count.failed == failed_, "what has thrown");
        require(count.missed == missed_, "missed periods, in total");
        require(count.late == late_ && count.latest == latest_, "lateness");
    }

    // Nodes are used again before there are more. Up to 32 are scheduled, called or destroyed.
    void compare_memory() {
        const std::size_t nodes = on_.pool.capacity(), memory = on_.pool.memory();
        most_nodes_ = std::max(most_nodes_, high_water_ + 32);
        const std::size_t most_slabs = (most_nodes_ + 63) / 64;
        require(nodes <= most_slabs * 64, "nodes are not used again");
        const std::size_t directory = memory - nodes * sizeof(tvec::detail::timeout_node);
        require(directory >= directory_ && directory <= 64 * std::max<std::size_t>(most_slabs, 8),
                "memory");
        require(nodes == 0 || directory != 0, "memory of the directory");
        directory_ = directory;
    }

    // Whether the pool calls nothing.
    bool is_quiet() const { return depth_ == 0 && inside_ == 0; }

    void compare(const entry& e) {
        const timeout_state state = on_.pool.state(e.handle);
        const bool over = !e.armed && e.state != timeout_state::running;
        require(state == e.state || (over && state == timeout_state::unknown), "state");
        const auto left = on_.pool.remaining(e.handle);
        require(left.has_value() == e.armed, "whether something remains");
        if (!left) return;
        const auto due = on_.timers.ticks().start_of(e.deadline());
        require(*left == std::max(due - clock_now(), 0ns), "what remains");
    }

    // Keeps a failure that is detected inside a function, because the pool would contain it.
    void require(bool holds, const char* what) {
        if (!holds && !failure_) failure_ = what;
    }

public:
    const std::optional<std::string>& failure() const { return failure_; }

private:
    std::mt19937_64& random_;
    const std::size_t bound_ = below(4) == 0 ? 1 + below(6) : 150;  // of pending ones
    std::optional<support::pooled> whole_{std::in_place, bound_};
    support::pooled& on_ = *whole_;
    std::map<int, entry> entries_;
    std::vector<timeout_handle> cancelled_;  // by themselves, while running
    int next_id_ = 0;
    std::size_t armed_ = 0;
    bool early_ = false;
    bool stopped_ = false;
    timeout_handle handed_over_;  // to the visitor of `stop`, which is going to run it
    std::size_t claimed_ = 0;     // being scheduled
    std::size_t functions_ = 0;   // held by the pool
    std::size_t high_water_ = 0;
    std::set<timeout_handle> given_;
    std::uint64_t rejected_ = 0, ended_ = 0, calls_ = 0, failed_ = 0;
    jiffies missed_ = 0, late_ = 0, latest_ = 0;
    std::multiset<int> thrown_;   // what the hook is yet to be told
    std::size_t most_nodes_ = 0;  // in use at once, or reserved
    std::size_t directory_ = 0;   // bytes
    bool taking_ = false;         // the next move is that of `take`
    bool ending_ = false;
    int depth_ = 0;   // of copies, destructors and visitors
    int inside_ = 0;  // functions being called
    std::optional<std::string> failure_;
};

}  // namespace

TestSuite(pool_model, .timeout = 0);  // TVEC_STEPS is the length

Test(pool_model, the_model_agrees_with_the_pool_throughout) {
    const std::uint64_t seed = support::from_environment("TVEC_SEED", std::random_device{}());
    const std::uint64_t steps = support::from_environment("TVEC_STEPS", 150'000);
    std::mt19937_64 random(seed);
    std::uint64_t done = 0, calls = 0;
    while (done < steps) {
        world w(random);
        const std::uint64_t end = done + (std::uint64_t{1} << random() % 14);
        for (; done < end && !w.failure() && !w.is_over(); ++done) w.step();
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
    CHECK_GE(calls, steps / 16);  // fewer would be too little work; a third is usual
}
