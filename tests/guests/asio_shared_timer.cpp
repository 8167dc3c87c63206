// Timers of an io_context that several threads run: what each promises, step by step on one thread,
// and then under random calls of several.
#include <utility>  // Boost 1.74 forgets it

#ifdef ASIO_STANDALONE
#include <asio.hpp>
namespace net = asio;
#if __has_include(<boost/version.hpp>)
#include <boost/version.hpp>
#if BOOST_VERSION >= 108100  // 1.74 cannot be included beside Asio
#include <boost/asio.hpp>
#define HAS_BOTH
#endif
#endif
#else
#include <boost/asio.hpp>
namespace net = boost::asio;
#endif

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "support/check.hpp"
#include "tvec/guests/asio_shared_timer.hpp"

using namespace std::chrono_literals;
using clock_type = tvec::asio_shared_timer::clock;
using wheel = tvec::asio_shared_wheel<net::io_context>;

TestSuite(shared_timers, .timeout = 300);

namespace {

struct session : std::enable_shared_from_this<session> {
    using action = std::function<void(session&)>;

    explicit session(net::io_context& io, action f = {})
        : strand(net::make_strand(io)), then(std::move(f)),
          idle(net::use_service<wheel>(io), tvec::posted_call<&session::idle, &session::on_idle>) {}
    auto get_executor() {
        if (++asked > refusals) return strand;
        if (gives_up) idle.cancel();
        throw 42;
    }
    std::weak_ptr<session> weak_from_this() {
        if (is_slow) std::this_thread::yield();
        return std::enable_shared_from_this<session>::weak_from_this();
    }
    void on_idle() {
        ++calls;
        CHECK(strand.running_in_this_thread());
        if (then) then(*this);
    }

    net::strand<net::io_context::executor_type> strand;
    action then;
    int calls = 0, asked = 0, refusals = 0;
    bool gives_up = false, is_slow = false;
    tvec::asio_shared_timer idle;
};

// Runs until `done`, or for a minute.
template <class Done> void run_until(net::io_context& io, Done done) {
    const auto work = net::make_work_guard(io);
    if (io.stopped()) io.restart();  // it had nothing left
    const auto limit = clock_type::now() + 1min;
    while (!done() && clock_type::now() < limit) io.run_one_until(limit);
    CHECK(done());
}

// Runs until the timer of `s` has expired, and its call waits for the strand.
void run_until_expired(net::io_context& io, session& s) {
    s.idle.arm_after(1ms);
    run_until(io, [&, before = s.asked] { return s.asked != before; });
    CHECK_EQ(s.calls, 0);
}

void run_for(net::io_context& io, std::chrono::milliseconds d) {
    const auto work = net::make_work_guard(io);
    if (io.stopped()) io.restart();
    io.run_for(d);
}

}  // namespace

Test(shared_timers, a_call_comes_on_the_owners_executor) {
    net::io_context io;
    auto deadline = clock_type::now() + 5ms;
    const auto s = std::make_shared<session>(io, [&](session& self) {
        CHECK(clock_type::now() >= deadline);
        CHECK(!self.idle.pending());
        if (self.calls < 3) self.idle.arm_at(deadline = clock_type::now() + 5ms);
    });
    CHECK(!s->idle.arm_at(deadline));
    run_until(io, [&] { return s->calls == 3; });
    CHECK(!s->idle.cancel());
}

namespace {

// What knows the shares of a session is a base behind its virtual table.
struct shared_base : std::enable_shared_from_this<shared_base> {};
struct derived_session : shared_base {
    explicit derived_session(net::io_context& io)
        : executor(io.get_executor()),
          idle(net::use_service<wheel>(io),
               tvec::posted_call<&derived_session::idle, &derived_session::on_idle>) {}
    virtual ~derived_session() = default;
    auto get_executor() { return executor; }
    void on_idle() {
        has_called = true;
        is_itself = self == this;
    }

    const void* self = this;
    bool has_called = false, is_itself = false;
    net::io_context::executor_type executor;
    tvec::asio_shared_timer idle;
};

}  // namespace

Test(shared_timers, an_owner_may_be_shared_by_a_base) {
    net::io_context io;
    const auto s = std::make_shared<derived_session>(io);
    s->idle.arm_after(1ms);
    run_until(io, [&] { return s->has_called; });
    CHECK(s->is_itself);
}

namespace elsewhere {

// An executor of a user. His `post` is no Asio's.
struct executor {
    net::execution_context& query(net::execution::context_t) const noexcept { return *io; }
    static constexpr auto query(net::execution::blocking_t) noexcept {
        return net::execution::blocking.never;
    }
    template <class F> void execute(F f) const {
        ++*executed;
        net::post(*io, std::move(f));
    }
    friend bool operator==(const executor&, const executor&) = default;

    net::io_context* io;
    int* executed;
};
void post(const auto& on, auto f) = delete;

}  // namespace elsewhere

namespace {

template <class Executor> struct session_on : std::enable_shared_from_this<session_on<Executor>> {
    session_on(net::io_context& to, Executor on)
        : io(to), executor(on), idle(net::use_service<wheel>(to),
                                     tvec::posted_call<&session_on::idle, &session_on::on_idle>) {}
    auto get_executor() { return executor; }
    void on_idle() {
        has_called = true;
        net::post(io, [] {});  // which waits
    }

    net::io_context& io;
    Executor executor;
    std::atomic<bool> has_called = false;
    tvec::asio_shared_timer idle;
};

template <class Executor> void is_called_on(net::io_context& io, Executor on) {
    const auto s = std::make_shared<session_on<Executor>>(io, on);
    s->idle.arm_after(1ms);
    run_until(io, [&] { return s->has_called.load(); });
}

}  // namespace

Test(shared_timers, an_executor_may_be_of_any_kind) {
    int executed = 0;
    net::io_context io;
    is_called_on(io, elsewhere::executor{&io, &executed});
    CHECK_EQ(executed, 1);
    is_called_on(io, net::any_io_executor(io.get_executor()));
#ifdef HAS_BOTH
    boost::asio::thread_pool other(1);
    is_called_on(io, other.get_executor());
    is_called_on(io, boost::asio::make_strand(other));
    other.join();
#endif
}

Test(shared_timers, a_push_back_is_not_called_early) {
    net::io_context io;
    for (int i = 0; i < 20; ++i) {
        clock_type::time_point deadline;
        const auto s =
            std::make_shared<session>(io, [&](session&) { CHECK(clock_type::now() >= deadline); });
        s->idle.arm_at(clock_type::now() + 5ms);
        CHECK(s->idle.arm_at(deadline = clock_type::now() + 6ms));
        run_until(io, [&] { return s->calls == 1; });
    }
}

Test(shared_timers, a_timer_follows_its_last_deadline) {
    net::io_context io;
    const auto s = std::make_shared<session>(io), other = std::make_shared<session>(io);
    s->idle.arm_after(5ms);
    CHECK(s->idle.arm_after(1h));  // later
    other->idle.arm_after(20ms);
    run_until(io, [&] { return other->calls == 1; });
    CHECK_EQ(s->calls, 0);
    CHECK(s->idle.pending());
    CHECK(s->idle.cancel());
    CHECK(!s->idle.arm_after(2h));  // after a cancel
    CHECK(s->idle.unlink());
    CHECK(!s->idle.unlink());
    CHECK(!s->idle.arm_after(3h));
    CHECK(s->idle.arm_after(1ms));  // earlier
    run_until(io, [&] { return s->calls == 1; });
}

Test(shared_timers, a_cancel_stops_a_call_on_its_way) {
    net::io_context io;
    const auto s = std::make_shared<session>(io);
    run_until_expired(io, *s);
    CHECK(s->idle.pending());
    CHECK(s->idle.cancel());
    CHECK(!s->idle.cancel());
    run_for(io, 20ms);
    CHECK_EQ(s->calls, 0);
}

Test(shared_timers, a_push_back_stops_a_pending_call) {
    net::io_context io;
    const auto s = std::make_shared<session>(io);
    run_until_expired(io, *s);
    CHECK(s->idle.arm_after(1h));
    run_for(io, 20ms);
    CHECK_EQ(s->calls, 0);
    CHECK(s->idle.cancel());
}

Test(shared_timers, an_expiry_is_called_once) {
    net::io_context io;
    const auto s = std::make_shared<session>(io);
    net::post(s->strand, [&] {  // holds up the strand, while the timer expires twice
        for (int i = 0; i < 2; ++i) run_until_expired(io, *s);
    });
    run_until(io, [&] { return s->calls == 1; });
    run_for(io, 20ms);
    CHECK_EQ(s->calls, 1);
}

Test(shared_timers, a_pending_timer_keeps_nothing_alive) {
    net::io_context io;
    auto s = std::make_shared<session>(io);
    s->idle.arm_after(1h);
    io.run();
    io.restart();
    CHECK(s->idle.pending());
    const std::weak_ptr<session> left = s;
    s.reset();
    CHECK(left.expired());
    io.run();
}

Test(shared_timers, a_posted_call_keeps_its_owner_alive) {
    net::io_context io;
    int calls = 0;
    auto s = std::make_shared<session>(io, [&](session&) { ++calls; });
    run_until_expired(io, *s);
    const std::weak_ptr<session> left = s;
    s.reset();
    CHECK(!left.expired());
    run_until(io, [&] { return calls == 1; });
    CHECK(left.expired());
}

Test(shared_timers, an_exception_leaves_run_and_each_call_comes) {
    net::io_context io;
    std::vector<std::shared_ptr<session>> all;
    for (int i = 0; i < 3; ++i) all.push_back(std::make_shared<session>(io));
    all[1]->refusals = 2;
    const auto deadline = clock_type::now() + 5ms;
    for (const auto& s : all) s->idle.arm_at(deadline);
    int thrown = 0;
    const auto count = [&] { return all[0]->calls + all[1]->calls + all[2]->calls; };
    while (thrown < 3) {
        try {
            run_until(io, [&] { return count() == 3; });
            break;
        } catch (int n) {
            CHECK_EQ(n, 42);
            ++thrown;
        }
    }
    CHECK_EQ(thrown, 2);
    CHECK_EQ(count(), 3);
}

namespace {

// Runs until `done`, whatever is thrown. Returns how often that was.
template <class Done> int thrown_until(net::io_context& io, Done done) {
    int thrown = 0;
    const auto limit = clock_type::now() + 1min;
    for (bool is_over = false; !is_over;) {
        try {
            run_until(io, done);
            is_over = true;
        } catch (int n) {
            CHECK_EQ(n, 42);
            CHECK(clock_type::now() < limit);
            ++thrown;
        }
    }
    return thrown;
}

}  // namespace

Test(shared_timers, an_owner_that_always_throws_stops_no_other) {
    net::io_context io;
    std::vector<std::shared_ptr<session>> all;
    for (int i = 0; i < 1'000; ++i)  // several portions of visits
        all.push_back(std::make_shared<session>(io, [](session& self) {
            if (self.calls < 3) self.idle.arm_after(1ms);
        }));
    for (const std::size_t bad : {0U, 300U, 999U}) all[bad]->refusals = 1'000'000;
    for (const auto& s : all) s->idle.arm_after(2ms);
    const auto are_called = [&] {
        return std::all_of(all.begin(), all.end(),
                           [](const auto& s) { return s->refusals != 0 || s->calls == 3; });
    };
    CHECK(thrown_until(io, are_called) >= 3);
    for (const std::size_t bad : {0U, 300U, 999U}) {
        CHECK(all[bad]->idle.pending());
        CHECK_EQ(all[bad]->calls, 0);
        all[bad]->refusals = 0;
    }
    thrown_until(io, [&] { return all[0]->calls + all[300]->calls + all[999]->calls == 9; });
}

Test(shared_timers, a_throwing_owner_may_cancel_arm_and_end) {
    net::io_context io;
    std::vector<std::shared_ptr<session>> all;
    for (int i = 0; i < 3; ++i) all.push_back(std::make_shared<session>(io));
    for (const auto& s : all) s->refusals = 1'000'000;
    for (const auto& s : all) s->idle.arm_after(1ms);
    const auto asked = [&](int n) {
        return [&all, n] {
            return std::all_of(all.begin(), all.end(), [n](auto& s) { return s->asked >= n; });
        };
    };
    // A throw leaves run_until before it looks: so each has asked once.
    CHECK(thrown_until(io, asked(1)) >= 3);
    CHECK(all[0]->idle.cancel());
    CHECK(all[1]->idle.arm_after(1h));
    const std::weak_ptr<session> ended = all[2];
    all.pop_back();
    const int once = all[0]->asked, again = all[1]->asked;
    run_for(io, 20ms);
    CHECK(ended.expired());
    CHECK_EQ(all[0]->asked, once);
    CHECK_EQ(all[1]->asked, again);
    CHECK(all[1]->idle.cancel());
}

Test(shared_timers, calls_behind_one_that_was_given_up_come) {
    net::io_context io;
    const std::array all{std::make_shared<session>(io), std::make_shared<session>(io)};
    for (const auto& s : all) {
        s->refusals = 1;
        s->gives_up = true;
        s->idle.arm_at(clock_type::time_point{});
    }
    CHECK_EQ(thrown_until(io, [&] { return all[0]->asked == 1 && all[1]->asked == 1; }), 2);
}

Test(shared_timers, owners_may_be_destroyed_with_their_io_context) {
    std::weak_ptr<session> left;
    {
        net::io_context io;
        auto s = std::make_shared<session>(io);
        left = s;
        s->idle.arm_after(1h);
        net::post(io, [s = std::move(s)] {});
    }
    CHECK(left.expired());
}

Test(shared_timers, calls_left_over_end_with_their_io_context) {
    std::weak_ptr<session> left;
    {
        net::io_context io;
        auto other = std::make_shared<session>(io);
        left = other;
        other->idle.arm_after(1h);
        std::array all{std::make_shared<session>(io), std::make_shared<session>(io)};
        for (const auto& s : all) {
            s->then = [other](session&) {};
            s->refusals = 1;
            s->idle.arm_at(clock_type::time_point{});  // one throws, and the other is left over
        }
        other.reset();
        try {
            run_until(io, [] { return false; });
        } catch (int) {
            CHECK_EQ(all[0]->asked + all[1]->asked, 1);
            all = {};  // the call has it
        }
        CHECK(!left.expired());
    }
    CHECK(left.expired());
}

namespace {

// Stops in a visit of its timer, until its end has begun.
struct dying : std::enable_shared_from_this<dying> {
    struct moments {
        std::atomic<bool> is_visited = false, is_ending = false, is_gone = false;
    };
    dying(net::io_context& to, moments& m)
        : io(to), seen(m),
          idle(net::use_service<wheel>(to), tvec::posted_call<&dying::idle, &dying::on_idle>) {}
    ~dying() { seen.is_ending = true; }
    std::weak_ptr<dying> weak_from_this() {
        seen.is_visited = true;
        while (!seen.is_ending) std::this_thread::yield();
        std::this_thread::sleep_for(20ms);
        CHECK(!seen.is_gone);
        return std::enable_shared_from_this<dying>::weak_from_this();
    }
    auto get_executor() { return io.get_executor(); }
    void on_idle() { CHECK(false); }

    net::io_context& io;
    moments& seen;
    tvec::asio_shared_timer idle;
};

// Lets go of a session while its timer is visited.
void end_in_a_visit(net::io_context& io, dying::moments& seen, std::shared_ptr<dying> s) {
    s->idle.arm_after(1ms);
    const auto work = net::make_work_guard(io);
    std::thread runs([&] { io.run(); });
    while (!seen.is_visited) std::this_thread::yield();
    s.reset();
    seen.is_gone = true;
    io.stop();
    runs.join();
}

}  // namespace

Test(shared_timers, an_owners_destructor_waits_for_a_visit) {
    net::io_context io;
    dying::moments seen;
    end_in_a_visit(io, seen, std::make_shared<dying>(io, seen));
}

Test(shared_timers, an_unlink_waits_for_a_visit) {
    net::io_context io;
    dying::moments seen;
    dying reused(io, seen);
    const auto give_back = [](dying* s) {
        s->seen.is_ending = true;
        s->idle.unlink();
    };
    end_in_a_visit(io, seen, {&reused, give_back});
    CHECK(!reused.idle.pending());
}

namespace {

// Owners that are given back instead of destroyed, and owned anew.
class owners {
public:
    explicit owners(net::io_context& io) : io_(io) { net::use_service<wheel>(io); }
    std::shared_ptr<session> get() {
        const std::lock_guard under(mutex_);
        if (free_.empty()) {
            free_.push_back(&all_.emplace_back(io_));
            free_.back()->is_slow = true;  // to be visited
        }
        session* const s = free_.back();
        free_.pop_back();
        return {s, [this](session* back) { give_back(*back); }};
    }
    bool unlinks = true;

private:
    void give_back(session& s) {
        if (unlinks) s.idle.unlink();
        const std::lock_guard under(mutex_);
        free_.push_back(&s);
    }

    net::io_context& io_;
    std::mutex mutex_;
    std::list<session> all_;
    std::vector<session*> free_;
};

}  // namespace

Test(shared_timers, an_owner_that_is_reused_is_called) {
    net::io_context io;
    owners all(io);
    all.unlinks = false;
    const auto other = all.get();
    for (int round = 1; round <= 3; ++round) {
        all.get()->idle.arm_after(1ms);  // and is given back
        other->idle.arm_after(2ms);
        run_until(io, [&] { return other->calls == round; });
        const auto s = all.get();
        CHECK(!s->idle.pending());
        CHECK(!s->idle.arm_after(1ms));
        run_until(io, [&] { return s->calls == round; });
    }
}

namespace {

struct talker {
    explicit talker(net::io_context& io) : socket(io) {
        REQUIRE_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
        socket.assign(ends[1]);
    }
    ~talker() { ::close(ends[0]); }

    std::array<int, 2> ends{};
    net::posix::stream_descriptor socket;
    std::array<char, 1> word{};
};

}  // namespace

// Of a talker who is not heard then, the other thread has begun the handler.
Test(shared_timers, peers_are_heard_first_after_a_stall) {
    net::io_context io;
    std::list<talker> talkers;
    std::atomic<std::size_t> heard = 0;
    std::size_t missing = 0;
    for (int i = 0; i < 200; ++i) {
        talker& t = talkers.emplace_back(io);
        t.socket.async_read_some(net::buffer(t.word), [&](auto, auto) { ++heard; });
    }
    const auto judge = std::make_shared<session>(io, [&](session&) {
        missing = talkers.size() - heard;
        io.stop();
    });
    std::barrier<> both(2);
    for (int i = 0; i < 2; ++i)
        net::post(io, [&, i] {
            both.arrive_and_wait();
            if (i == 0) judge->idle.arm_after(50ms);
            for (const talker& t : talkers)
                if (i == 0) CHECK_EQ(::write(t.ends[0], "!", 1), 1);
            std::this_thread::sleep_for(400ms);  // the program blocks
        });
    const auto work = net::make_work_guard(io);
    std::thread other([&] { io.run(); });
    io.run();
    other.join();
    CHECK_LE(missing, 1);
}

Test(shared_timers, owners_die_on_other_threads) {
    net::io_context io;
    std::vector<std::thread> threads;
    {
        const auto work = net::make_work_guard(io);
        net::use_service<wheel>(io);
        for (int i = 0; i < 2; ++i) threads.emplace_back([&] { io.run(); });
        for (int round = 0; round < 300; ++round) {
            std::vector<std::shared_ptr<session>> all;
            const auto at = clock_type::now() + 1ms;
            for (int i = 0; i <= round % 3; ++i) all.push_back(std::make_shared<session>(io));
            for (const auto& s : all) s->idle.arm_at(at);
            std::this_thread::sleep_until(at + std::chrono::microseconds(round % 15 * 100));
        }
    }
    for (std::thread& t : threads) t.join();
}

Test(shared_timers, owners_are_reused_on_other_threads) {
    net::io_context io;
    owners all(io);
    auto work = net::make_work_guard(io);
    std::vector<std::thread> runs, use;
    for (int i = 0; i < 2; ++i) runs.emplace_back([&] { io.run(); });
    for (unsigned i = 0; i < 2; ++i)
        use.emplace_back([&, i] {
            std::minstd_rand random(i + 1);
            for (int round = 0; round < 300; ++round) {
                const auto at = clock_type::now() + 1ms;
                std::array<std::shared_ptr<session>, 8> some;
                for (auto& s : some) CHECK(!(s = all.get())->idle.arm_at(at));
                std::this_thread::sleep_until(at + std::chrono::microseconds(random() % 1500));
            }
        });
    for (std::thread& t : use) t.join();
    const auto s = all.get();
    s->then = [&](session&) { work.reset(); };
    s->idle.arm_after(1ms);
    for (std::thread& t : runs) t.join();
}

namespace {

struct kind {
    int threads, sessions, steps;
    unsigned reach_us;
    bool has_stranger;
};

// Arms, pushes back and cancels at random on its strand, and dies after some steps. What its timer
// is to do is known there, unless a stranger calls too.
class player : public std::enable_shared_from_this<player> {
public:
    player(net::io_context& io, std::atomic<long>& wrong, const kind& of, unsigned seed)
        : strand_(net::make_strand(io)), wrong_(wrong), kind_(of), steps_(of.steps), random_(seed),
          idle_(net::use_service<wheel>(io), tvec::posted_call<&player::idle_, &player::on_idle>) {}
    ~player() {
        const long left = arms_ - calls_ - cancels_;  // pending, or dropped for want of an owner
        wrong_ += left > 1 || left < idle_.pending();
        if (!kind_.has_stranger) {
            wrong_ += (left == 1) != is_wanted_;
            wrong_ += is_wanted_ && !idle_.pending() && clock_type::now() < deadline_;
        }
        is_alive_ = false;
    }
    player(const player&) = delete;
    player& operator=(const player&) = delete;

    auto get_executor() const { return strand_; }
    void step() {
        if (--steps_ < 0) return;  // let go, armed or not
        if (const unsigned what = random_() % 8; what < 5)
            arm_after(std::chrono::microseconds(random_() % (what == 0 ? 300 : kind_.reach_us)));
        else if (what == 5)
            cancel();
        if (random_() % 4 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200));
        net::post(strand_, [self = shared_from_this()] { self->step(); });
    }
    void arm_after(std::chrono::microseconds d) {
        const auto deadline = clock_type::now() + d;
        const bool was = idle_.arm_at(deadline);
        arms_ += !was;
        if (kind_.has_stranger) return;
        wrong_ += was != is_wanted_;
        is_wanted_ = true;
        deadline_ = deadline;
    }
    void cancel() {
        const bool was = idle_.cancel();
        cancels_ += was;
        if (kind_.has_stranger) return;
        wrong_ += was != is_wanted_;
        is_wanted_ = false;
    }

private:
    void on_idle() {
        ++calls_;
        wrong_ += !is_alive_ || !strand_.running_in_this_thread();
        if (kind_.has_stranger) return;
        wrong_ += !std::exchange(is_wanted_, false) || clock_type::now() < deadline_;
    }

    net::strand<net::io_context::executor_type> strand_;
    std::atomic<long>& wrong_;
    const kind kind_;
    int steps_;
    std::minstd_rand random_;
    std::atomic<long> arms_ = 0, calls_ = 0, cancels_ = 0;
    bool is_wanted_ = false, is_alive_ = true;
    clock_type::time_point deadline_;
    tvec::asio_shared_timer idle_;
};

void call_from_elsewhere(const std::vector<std::weak_ptr<player>>& all,
                         const std::atomic<bool>& over) {
    std::minstd_rand random(7);
    while (!over) {
        const auto p = all[random() % all.size()].lock();
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 60));
        if (!p) continue;
        if (random() % 2 == 0)
            p->cancel();
        else
            p->arm_after(std::chrono::microseconds(random() % 5000));
    }
}

void storm(const kind& k) {
    std::atomic<long> wrong = 0;
    {
        net::io_context io;
        net::use_service<wheel>(io);
        std::vector<std::weak_ptr<player>> all;
        for (int i = 0; i < k.sessions; ++i) {
            const auto p = std::make_shared<player>(io, wrong, k, static_cast<unsigned>(i) + 1);
            all.push_back(p);
            net::post(p->get_executor(), [p] { p->step(); });
        }
        std::atomic<bool> over = false;
        std::thread stranger;
        if (k.has_stranger) stranger = std::thread([&] { call_from_elsewhere(all, over); });
        std::vector<std::thread> threads;
        for (int i = 0; i < k.threads; ++i) threads.emplace_back([&] { io.run(); });
        for (std::thread& t : threads) t.join();
        over = true;
        if (stranger.joinable()) stranger.join();
    }
    CHECK_EQ(wrong.load(), 0);
}

}  // namespace

Test(shared_timers, calls_on_strands_keep_every_promise) {
    storm({.threads = 4, .sessions = 100, .steps = 100, .reach_us = 20'000, .has_stranger = false});
    storm({.threads = 2, .sessions = 8, .steps = 500, .reach_us = 1'500, .has_stranger = false});
    storm({.threads = 4, .sessions = 500, .steps = 3, .reach_us = 1'000, .has_stranger = false});
}

Test(shared_timers, calls_from_elsewhere_lose_and_double_nothing) {
    storm({.threads = 4, .sessions = 100, .steps = 100, .reach_us = 20'000, .has_stranger = true});
    storm({.threads = 3, .sessions = 8, .steps = 1000, .reach_us = 1'500, .has_stranger = true});
}
