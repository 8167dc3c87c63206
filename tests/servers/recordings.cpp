// A recording plays what a program's timers did, and a damaged one is refused with one line.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include "../../bench/workloads/recording.hpp"
#include "../../servers/recorder.hpp"
#include "support/check.hpp"
#include "tvec/core/timer_wheel.hpp"

namespace {

using example::operation;

// A file that is gone with the test.
class scratch_file {
public:
    scratch_file() { close(mkstemp(name_.data())); }
    ~scratch_file() { std::remove(name_.c_str()); }
    scratch_file(const scratch_file&) = delete;
    scratch_file& operator=(const scratch_file&) = delete;

    const std::string& name() const { return name_; }
    std::string bytes() const {
        std::ifstream in(name_, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    void write(const std::string& bytes) const { std::ofstream(name_, std::ios::binary) << bytes; }

private:
    std::string name_ = "/tmp/tvec-recording-XXXXXX";
};

// A wheel whose operations are recorded. Its time does not begin at 0.
struct recorded_wheel {
    void arm(tvec::timer& t, tvec::jiffies delay) {
        wheel.arm_after(t, delay);
        recorder.armed(t, wheel.now());
    }
    void cancel(tvec::timer& t) {
        t.cancel();
        recorder.cancelled(t, wheel.now());
    }
    void run(tvec::jiffies ticks, std::size_t budget = tvec::timer_wheel::unlimited) {
        wheel.advance(wheel.now() + wheel.behind() + ticks, budget);
        recorder.advanced(wheel.now());
    }
    bench::recording finish() {
        recorder.finish();
        return bench::recording(file.name());
    }

    scratch_file file;
    tvec::timer_wheel wheel{1000};
    example::recorder recorder{file.name(), std::chrono::milliseconds(1), 1000};
};

// Plays `r` on plain deadlines: the sum of the marks of what fires, and how many.
std::pair<std::uint64_t, std::uint64_t> play(const bench::recording& r) {
    std::vector<std::uint64_t> expires(r.header().timers);  // 0: not pending
    std::uint64_t fired = 0, checksum = 0;
    for (const auto& s : r.steps()) {
        if (s.what == operation::arm) expires[s.timer] = s.tick;
        if (s.what == operation::cancel) expires[s.timer] = 0;
        if (s.what != operation::advance) continue;
        for (std::size_t i = 0; i < expires.size(); ++i) {
            if (expires[i] == 0 || expires[i] > s.tick) continue;
            ++fired;
            checksum += example::mark_of_fire(i, s.tick);
            expires[i] = 0;
        }
    }
    return {fired, checksum};
}

void check_plays_alike(const bench::recording& r) {
    const auto [fired, checksum] = play(r);
    CHECK_EQ(fired, r.header().fired);
    CHECK_EQ(checksum, r.header().checksum);
}

// Returns the message about a recording after `change`; empty if it is accepted.
template <class F> std::string said_of(F change) {
    recorded_wheel w;
    tvec::timer t;
    w.arm(t, 5);
    w.cancel(t);
    w.run(300);
    w.recorder.finish();
    std::string bytes = w.file.bytes();
    change(bytes);
    w.file.write(bytes);
    try {
        bench::recording r(w.file.name());
        return "";
    } catch (const std::runtime_error& e) {
        return std::string(e.what()).substr(w.file.name().size());
    }
}

// Writes the low bytes of a field of the header.
auto field(std::size_t index, std::uint64_t value) {
    return [=](std::string& bytes) {
        for (unsigned i = 0; i < 8; ++i)
            bytes[index * 8 + i] = static_cast<char>(value >> (8 * i) & 0xff);
    };
}

}  // namespace

Test(recordings, an_empty_recording_is_one) {
    recorded_wheel w;
    const auto r = w.finish();
    CHECK_EQ(r.steps().size(), 0);
    CHECK_EQ(r.header().timers, 0);
    CHECK_EQ(r.header().tick_nanoseconds, 1'000'000);
}

Test(recordings, operations_come_back_with_their_ticks) {
    recorded_wheel w;
    tvec::timer a, b;
    w.arm(a, 70'000);
    w.run(300);
    w.arm(b, 1);
    w.cancel(a);
    const auto r = w.finish();
    REQUIRE_EQ(r.steps().size(), 4);
    CHECK(r.steps()[0].what == operation::arm);
    CHECK_EQ(r.steps()[0].tick, 70'000);
    CHECK(r.steps()[1].what == operation::advance);
    CHECK_EQ(r.steps()[1].tick, 300);
    CHECK_EQ(r.steps()[2].timer, 1);
    CHECK_EQ(r.steps()[2].tick, 301);
    CHECK(r.steps()[3].what == operation::cancel);
    CHECK_EQ(r.steps()[3].timer, 0);
}

Test(recordings, an_advance_that_fires_on_several_ticks_is_divided_there) {
    recorded_wheel w;
    const auto fire = [&](tvec::timer_wheel& wheel, tvec::timer& t) {
        w.recorder.fired(t, wheel.now());
        if (t.expires() == 1003) w.arm(t, 4);  // again, within the same call
    };
    tvec::callback_timer a{fire}, b{fire};
    w.arm(a, 3);
    w.arm(b, 5);
    w.run(20);
    const auto r = w.finish();
    CHECK_EQ(r.header().fired, 3);
    check_plays_alike(r);
}

Test(recordings, a_due_timer_that_its_sibling_cancels_or_pushes_back_does_not_fire_in_the_replay) {
    recorded_wheel w;
    std::vector<tvec::timer*> others;
    const auto fire = [&](tvec::timer_wheel& wheel, tvec::timer& t) {
        w.recorder.fired(t, wheel.now());
        for (tvec::timer* o : others)
            if (o->pending() && o->expires() == wheel.now())
                o == others.front() ? w.cancel(*o) : w.arm(*o, 7);
    };
    tvec::callback_timer a{fire}, b{fire}, c{fire};
    others = {&a, &b, &c};
    for (tvec::timer* t : others) w.arm(*t, 3);
    w.run(3);
    CHECK_EQ(w.recorder.header().fired, 1);
    w.run(10);
    check_plays_alike(w.finish());
}

Test(recordings, what_a_budget_leaves_over_may_be_cancelled_before_it_fires) {
    recorded_wheel w;
    const auto fire = [&](tvec::timer_wheel& wheel, tvec::timer& t) {
        w.recorder.fired(t, wheel.now());
    };
    tvec::callback_timer a{fire}, b{fire};
    w.arm(a, 3);
    w.arm(b, 3);
    w.run(5, 1);
    w.cancel(a.pending() ? a : b);
    w.run(0);
    const auto r = w.finish();
    CHECK_EQ(r.header().fired, 1);
    CHECK_EQ(r.ticks(), 5);
    check_plays_alike(r);
}

Test(recordings, a_sound_recording_is_taken) {
    CHECK_EQ(said_of([](std::string&) {}), "");
}

Test(recordings, one_that_was_not_finished_is_refused) {
    CHECK_EQ(said_of(field(0, 0)), ": the program that recorded has not finished it");
}

Test(recordings, other_files_and_versions_are_refused) {
    CHECK_EQ(said_of(field(0, 77)), ": not a recording of timers");
    CHECK_EQ(said_of(field(1, 2)), ": of another version of the format");
    CHECK_EQ(said_of([](std::string& b) { b.resize(63); }), ": too short for a recording");
    CHECK_EQ(said_of([](std::string& b) { b.clear(); }), ": too short for a recording");
}

Test(recordings, a_file_that_is_cut_or_goes_on_is_refused) {
    const char* const said = ": truncated, or something follows: the header counts other bytes";
    CHECK_EQ(said_of([](std::string& b) { b.pop_back(); }), said);
    CHECK_EQ(said_of([](std::string& b) { b += 'x'; }), said);
}

Test(recordings, counts_that_do_not_fit_the_bytes_are_refused_before_they_are_believed) {
    const char* const said = ": counts more operations or timers than it can hold";
    CHECK_EQ(said_of(field(4, ~0ull)), said);
    CHECK_EQ(said_of(field(3, 1ull << 40)), said);
    CHECK_EQ(said_of(field(5, ~0ull)), ": longer than 256 MB");
    CHECK_EQ(said_of(field(4, 2)), ": bytes are left after the last operation");
    CHECK_EQ(said_of(field(3, 2)), ": counts other timers than it has");
}

// The operations: arm timer 0 for 5 ticks, cancel it, advance by 300 (two bytes).
Test(recordings, operations_that_cannot_be_are_refused) {
    const auto byte = [](std::size_t i, char c) { return [=](std::string& b) { b[64 + i] = c; }; };
    CHECK_EQ(said_of(byte(1, 0)), ": has a delay out of range");
    CHECK_EQ(said_of(byte(2, 4 + 2)), ": has a timer that is not the next new one");
    CHECK_EQ(said_of(byte(2, 3)), ": has an operation of no known kind");
    CHECK_EQ(said_of(byte(4, '\x80')), ": ends within an operation");
}
