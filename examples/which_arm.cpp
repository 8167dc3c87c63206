// The code of docs/which-arm.md, on a clock that is moved by hand. Exits with 1 if a timer does not
// do what that page says.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <vector>

#include "support/task.hpp"
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

namespace {

using wheel = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>>;

// Lets time pass as in a reactor, which wakes when the wheel asks for it, and at the end.
void pass(wheel& timers, std::chrono::nanoseconds d) {
    const auto end = tvec::manual_clock::now() + d;
    for (auto next = timers.next_wakeup(); next && *next < end; next = timers.next_wakeup()) {
        tvec::manual_clock::set(std::max(*next, tvec::manual_clock::now()));
        timers.run();
    }
    tvec::manual_clock::set(end);
    timers.run();
}

struct connection {
    explicit connection(wheel& w) : timers(w) {}

    // [idle]
    void on_read() { timers.arm_after(idle, 30s); }
    void on_idle() { closed = true; }
    // [idle]

    wheel& timers;
    bool closed = false;
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

struct request {
    explicit request(wheel& w) : timers(w) {}

    // [request]
    void send() { timers.arm_after(timeout, 500ms); }
    void on_answer() {
        if (timeout.cancel()) answered = true;  // else it is too late
    }
    // [request]
    void on_timeout() { failed = true; }

    wheel& timers;
    bool answered = false;
    bool failed = false;
    tvec::timer timeout{tvec::call<&request::timeout, &request::on_timeout>};
};

struct errand {
    explicit errand(wheel& w) : timers(w) {}

    // [appointment]
    void begin() {
        deadline = timers.after(2s);  // once, for all that follows
        timers.arm_at(step, deadline);
    }
    void on_looked_up() { timers.arm_at(step, deadline); }  // what is left, and no two seconds more
    // [appointment]
    void on_timeout() { failed = true; }

    wheel& timers;
    wheel::time_point deadline;
    bool failed = false;
    tvec::timer step{tvec::call<&errand::step, &errand::on_timeout>};
};

struct handshake {
    std::array<bool, 3> over{};
    void on_phase(tvec::timer& t) { over[static_cast<std::size_t>(&t - phases.data())] = true; }
    std::array<tvec::timer, 3> phases{tvec::call_each<&handshake::phases, &handshake::on_phase>()};
};

struct heart {
    explicit heart(wheel& w) : timers(w) { timers.arm_after(beat, 1s); }

    // [beat]
    void on_beat() {
        missed += timers.arm_next(beat, 1s);
        ++beats;
    }
    // [beat]

    wheel& timers;
    int beats = 0;
    tvec::jiffies missed = 0;
    tvec::timer beat{tvec::call<&heart::beat, &heart::on_beat>};
};

struct player {
    void on_shield_gone() { shielded = false; }

    bool shielded = true;
    tvec::timer shield{tvec::call<&player::shield, &player::on_shield_gone>};
};

bool idle_timeout(wheel& timers) {
    connection c(timers);
    for (int i = 0; i < 100; ++i, pass(timers, 20s)) c.on_read();
    const bool open = !c.closed;
    pass(timers, 10s);
    return open && c.closed;
}

bool request_timeout(wheel& timers) {
    request quick(timers), slow(timers);
    quick.send();
    slow.send();
    pass(timers, 400ms);
    quick.on_answer();
    pass(timers, 100ms);
    slow.on_answer();
    return quick.answered && !quick.failed && slow.failed && !slow.answered;
}

bool unlinked(wheel& timers) {
    static int given_up;
    given_up = 0;
    const tvec::timer::callback give_up = [](tvec::timer_wheel&, tvec::timer&) { ++given_up; };
    alignas(tvec::timer) std::byte memory[sizeof(tvec::timer)];
    auto* timeout = new (memory) tvec::timer(give_up);
    timers.arm_after(*timeout, 400ms);
    timeout->unlink();                            // cancel() would leave it linked
    std::memset(memory, 0, sizeof(tvec::timer));  // and no destructor runs
    timeout = new (memory) tvec::timer(give_up);  // the next request's
    timers.arm_after(*timeout, 500ms);
    pass(timers, 450ms);
    const bool waited = given_up == 0;
    pass(timers, 50ms);
    return waited && given_up == 1;
}

bool appointment(wheel& timers) {
    errand e(timers);
    e.begin();
    pass(timers, 1500ms);
    e.step.cancel();
    e.on_looked_up();
    pass(timers, 499ms);
    const bool waited = !e.failed;
    pass(timers, 1ms);
    return waited && e.failed;
}

bool phases(wheel& timers) {
    handshake h;
    for (std::size_t i = 0; i < h.phases.size(); ++i) timers.arm_after(h.phases[i], (1 + i) * 1s);
    h.phases[1].cancel();
    pass(timers, 5s);
    return h.over == std::array{true, false, true};
}

bool periodic(wheel& timers) {
    heart h(timers);
    pass(timers, 3s);
    tvec::manual_clock::advance(2500ms);  // the loop is held up
    timers.run();
    pass(timers, 500ms);
    return h.beats == 5 && h.missed == 1;
}

bool earliest(wheel& timers) {
    tvec::timer check;
    for (const auto lease : {50ms, 20ms, 80ms}) timers.arm_if_earlier(check, timers.after(lease));
    pass(timers, 19ms);
    const bool waited = check.pending();
    pass(timers, 1ms);
    return waited && !check.pending();
}

bool only_if_pending(wheel& timers) {
    connection c(timers);
    c.on_read();
    c.idle.cancel();  // it is closing
    timers.arm_if_pending(c.idle, timers.after(30s));
    return !c.idle.pending();
}

bool unless_pending(wheel& timers) {
    tvec::timer sweep;
    for (const auto wait : {50ms, 20ms, 80ms}) timers.arm_unless_pending(sweep, timers.after(wait));
    pass(timers, 49ms);
    const bool waited = sweep.pending();
    pass(timers, 1ms);
    return waited && !sweep.pending();
}

bool shut_down(wheel& timers) {
    connection c(timers);
    c.on_read();
    c.idle.unlink();
    c.idle.set_callback(nullptr);
    c.on_read();
    pass(timers, 60s);
    return !c.closed;
}

bool walk(wheel& timers) {
    std::vector<tvec::timer> all(10);
    for (std::size_t i = 0; i < all.size(); ++i) timers.arm_after(all[i], i * 1s);
    const auto tick_of_the_shutdown = timers.ticks().ceil(timers.after(4500ms));
    timers.wheel().for_each_pending([&](tvec::timer& t) {
        if (t.expires() > tick_of_the_shutdown) t.cancel();
    });
    return timers.count_pending() == 5;
}

bool collect(wheel& timers) {
    std::deque<connection> all;
    for (int i = 0; i < 10; ++i) timers.arm_after(all.emplace_back(timers).idle, 30s);
    tvec::manual_clock::advance(30s);
    std::vector<connection*> ready;
    // [collect]
    timers.collect(64, [&](tvec::timer& t) {  // at most 64
        ready.push_back(&tvec::owner_of<&connection::idle>(t));
    });
    // [collect]
    return ready.size() == 10 && !all[0].closed && !all[0].idle.pending();
}

struct session {
    void end() { over = true; }
    bool over = false;
    tvec::timer idle{tvec::call<&session::idle, &session::end>};    // pending between requests
    tvec::timer write{tvec::call<&session::write, &session::end>};  // pending during an answer
};

struct server {
    void end_gracefully() {
        std::erase_if(open, [](const auto& s) { return s->idle.pending(); });
        timers.arm_after(give_up, 10s);  // for sessions that are being answered
    }
    void end_all() { open.clear(); }

    wheel& timers;
    std::vector<std::unique_ptr<session>> open{};
    tvec::timer give_up{tvec::call<&server::give_up, &server::end_all>};
};

bool graceful(wheel& timers) {
    server s{timers};
    for (int i = 0; i < 8; ++i) {
        s.open.push_back(std::make_unique<session>());
        timers.arm_after(s.open.back()->write, 40s);
    }
    for (int i = 0; i < 6; ++i) {
        s.open[static_cast<std::size_t>(i)]->write.cancel();  // answered
        timers.arm_after(s.open[static_cast<std::size_t>(i)]->idle, 40s);
    }
    s.end_gracefully();
    const bool two_are_left = s.open.size() == 2;
    pass(timers, 10s);
    return two_are_left && s.open.empty() && !timers.any_pending();
}

bool slack(wheel& timers) {
    std::vector<tvec::timer> sweeps(100);
    for (tvec::timer& sweep : sweeps) {
        timers.arm_within(sweep, 60s, 90s);
        pass(timers, 10ms);
    }
    for (const tvec::timer& t : sweeps)
        if (t.expires() != sweeps[0].expires()) return false;
    return true;
}

// Half of a room for connections that has filled up leaves them half of their patience.
bool scaled(wheel& timers) {
    tvec::scaled_wheel idle(timers, 55s);  // from 5 s to 60 s
    const auto on_read = [&](connection& c) { idle.arm_after(c.idle, 5s); };
    const auto on_pressure = [&](double free, double all) { idle.set_factor(free / all); };
    connection silent(timers), talks(timers);
    on_read(silent);
    pass(timers, 30s);
    on_read(talks);
    on_pressure(1'000, 2'000);  // after 32.5 s of silence
    pass(timers, 3s);
    return silent.closed && !talks.closed;
}

bool many_alike(wheel& timers) {
    std::vector<tvec::timer> waiting(1000);
    const auto deadline = timers.after(30s);
    for (tvec::timer& t : waiting) timers.arm_at(t, deadline);
    pass(timers, 30s);
    return !timers.any_pending();
}

bool bounded_time(wheel& timers) {
    std::vector<tvec::callback_timer<void (*)()>> slow_ones;
    for (int i = 0; i < 10; ++i) slow_ones.emplace_back([] { tvec::manual_clock::advance(1ms); });
    for (auto& t : slow_ones) timers.arm_after(t, 10ms);
    tvec::manual_clock::advance(10ms);
    int turns_cut_short = 0;
    for (int turn = 0; turn < 10; ++turn) {
        const auto done = timers.run_until(timers.after(2ms), 256);
        if (!done.caught_up) ++turns_cut_short;  // next_wakeup() is in the past: do not sleep
    }
    return turns_cut_short == 4 && !timers.any_pending();
}

bool measured(wheel& timers) {
    tvec::callback_timer slow_one{[] { tvec::manual_clock::advance(3ms); }};
    timers.arm_after(slow_one, 10ms);
    tvec::manual_clock::advance(10ms);
    tvec::lateness_histogram took;
    // [measured]
    const auto measure = [&took](const auto& fire) {
        const auto begin = wheel::clock::now();
        fire();
        took.record(wheel::clock::now() - begin);
    };
    timers.run_watched(measure, 256);  // in place of timers.run(256)
    // [measured]
    return took.count() == 1 && took.max() == 3ms;
}

bool frames() {
    tvec::timer_wheel frames;
    player p;
    frames.arm_after(p.shield, 3 * 60);  // three seconds of sixty frames
    for (tvec::jiffies frame = 1; frame <= 180; ++frame) {
        if (!p.shielded) return false;
        frames.advance(frame);
    }
    return !p.shielded;
}

example::task<int> answer(wheel& timers, std::chrono::milliseconds takes) {
    co_await tvec::sleep_for(timers, takes);
    co_return 42;
}

example::task<> ask(wheel& timers, bool& fine) {
    const std::optional<int> soon = co_await tvec::with_timeout(timers, answer(timers, 20ms), 50ms);
    // [limit]
    const std::optional<int> late = co_await tvec::with_timeout(timers, answer(timers, 80ms), 50ms);
    // [limit]
    const auto deadline = timers.after(50ms);
    const std::optional<int> one =
        co_await tvec::with_timeout_until(timers, answer(timers, 30ms), deadline);
    const std::optional<int> two =
        co_await tvec::with_timeout_until(timers, answer(timers, 30ms), deadline);
    fine = soon == 42 && !late && one == 42 && !two;
}

example::task<> sample_ten_times_a_second(wheel& timers, int& samples) {
    for (auto due = timers.after(100ms);; due += 100ms) {
        co_await tvec::sleep_until(timers, due);
        ++samples;
    }
}

bool beats(wheel& timers) {
    int samples = 0;
    auto sampling = sample_ten_times_a_second(timers, samples);
    sampling.start();
    pass(timers, 300ms);
    tvec::manual_clock::advance(250ms);  // the loop is held up
    timers.run();
    pass(timers, 50ms);
    return samples == 6;  // none is lost
}

example::task<> close_when_silent(tvec::sleeper& silence, connection& c) {
    co_await silence;
    c.on_idle();
}

void on_read(tvec::sleeper& silence, wheel& timers) {
    silence.reset(tvec::sleep_for(timers, 30s));  // a push-back
}

bool watched(wheel& timers) {
    connection c(timers);
    tvec::sleeper silence = tvec::sleep_for(timers, 30s);
    auto watching = close_when_silent(silence, c);
    watching.start();
    for (int i = 0; i < 10; ++i, pass(timers, 20s)) on_read(silence, timers);
    const bool open = !c.closed && !silence.elapsed();
    pass(timers, 10s);
    return open && c.closed && silence.elapsed();
}

example::task<> flush_every_5_s(wheel& timers, std::stop_token stop, int& flushes) {
    for (bool stopped = false; !stopped; ++flushes)  // once more at the end
        stopped = co_await tvec::sleep_for(timers, 5s, stop);
}

bool stopped(wheel& timers) {
    std::stop_source stop;
    int flushes = 0;
    auto flushing = flush_every_5_s(timers, stop.get_token(), flushes);
    flushing.start();
    pass(timers, 12s);
    stop.request_stop();
    pass(timers, 1ms);
    return flushing.done() && flushes == 3;
}

bool coroutines(wheel& timers) {
    bool fine = false;
    auto asking = ask(timers, fine);
    asking.start();
    pass(timers, 200ms);
    return fine;
}

bool from_a_start_on(wheel& timers) {
    tvec::timeout_pool pool(timers);
    int reports = 0, renewals = 0;
    const auto midnight = tvec::manual_clock::now() - 30s;
    const auto report = [&] { ++reports; };
    const auto renew = [&] { ++renewals; };
    (void)pool.schedule_every(midnight, 1min, report);       // at once, then at every full minute
    (void)pool.schedule_every(timers.after(0s), 5s, renew);  // at once, then every five seconds
    pass(timers, 29s);
    const bool at_once = reports == 1 && renewals == 6;
    pass(timers, 1s);
    return at_once && reports == 2;
}

int wrong = 0;

void expect(bool fine, const char* what) {
    if (fine) return;
    std::fprintf(stderr, "which_arm: %s\n", what);
    ++wrong;
}

}  // namespace

int main() {
    wheel timers;
    expect(idle_timeout(timers), "idle timeout");
    expect(request_timeout(timers), "a request's timeout");
    expect(unlinked(timers), "unlinked");
    expect(appointment(timers), "an appointment");
    expect(phases(timers), "phases");
    expect(periodic(timers), "periodic");
    expect(earliest(timers), "the earliest of several");
    expect(only_if_pending(timers), "only if pending");
    expect(unless_pending(timers), "unless pending");
    expect(shut_down(timers), "shut down");
    expect(walk(timers), "walk");
    expect(collect(timers), "collect");
    expect(graceful(timers), "a graceful end");
    expect(slack(timers), "slack");
    expect(scaled(timers), "scaled");
    expect(many_alike(timers), "many alike");
    expect(bounded_time(timers), "bounded time");
    expect(measured(timers), "measured");
    expect(frames(), "frames");
    expect(coroutines(timers), "coroutines");
    expect(beats(timers), "beats of a coroutine");
    expect(watched(timers), "a sleep that is reset");
    expect(stopped(timers), "a sleep that is stopped");
    expect(from_a_start_on(timers), "from a start on");
    return wrong != 0;
}
