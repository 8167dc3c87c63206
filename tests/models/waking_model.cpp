// The handshake of wheel, driver and kernel: all runs of a loop on the real drivers, in which the
// kernel and the program do at most a few things otherwise than a loop hopes for.
// support/fake_ring.hpp is the kernel. It checks these promises:
//   - A loop never sleeps beyond the first deadline, nor while due timers are left over, nor for
//   ever with timers pending.
//   - Every due timer gets its turn, whatever came before.
//   - No turn without a reason, time and again: a loop that has nothing to do sleeps.
//   - At most one timeout of an alarm is in the ring, and `detach` takes it out and returns.
//
// A run is a sequence of choices, 0 being the hoped-for one. All runs with up to `most` other
// choices are tried, fewest first, so that the story of a failure is short. Loops that are wrong on
// purpose must fail; tests/mutants.toml has faults of the drivers.
//
//     waking_model [MOST]        3 by default
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "support/fake_ring.hpp"
#include "tvec/drivers/uring_timeout.hpp"
#include "tvec/drivers/uring_wait.hpp"
#include "tvec/tvec.hpp"

namespace tvec::detail {
bool may_live_in_shifted_time() { return !support::fake_ring::here->waits_absolute(); }
}  // namespace tvec::detail

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using support::fake_ring;
using wheel = tvec::clocked_wheel<>;

// The choices of one run: those of the one before up to the last that has another way to go on.
class choices {
public:
    explicit choices(unsigned most) : most_(most) {}

    unsigned choose(unsigned ways) {
        if (next_ == taken_.size()) taken_.push_back({0, ways});
        const unsigned way = taken_[next_++].way;
        others_ += way != 0;
        return way;
    }
    bool may_disturb() const { return others_ < most_; }

    // Goes to the next run. Returns whether there is one.
    bool advance() {
        while (!taken_.empty() && taken_.back().way + 1 == taken_.back().ways) taken_.pop_back();
        if (taken_.empty()) return false;
        ++taken_.back().way;
        next_ = 0;
        others_ = 0;
        return true;
    }

private:
    struct taken {
        unsigned way, ways;
    };
    std::vector<taken> taken_;
    std::size_t next_ = 0;
    unsigned most_, others_ = 0;
};

// A program with two timers, on a loop of one of the kinds below.
class program {
public:
    program(fake_ring& kernel, choices& c) : kernel_(kernel), choices_(c) {
        kernel.choose = [this](unsigned ways) { return choose(ways); };
        kernel.tell = [this](std::string what) { tell(std::move(what)); };
        kernel.sleeps = [this](std::optional<nanoseconds> until) { check_sleep(until); };
        start_ = kernel.now;
        for (timed& t : timers_) arm(t, &t == timers_.data() ? 10 : 300);
    }

    wheel& timers() { return wheel_; }
    fake_ring& kernel() { return kernel_; }
    std::string story() const { return story_; }

    // The hoped-for way, or another one while there may be more of them.
    unsigned choose(unsigned ways) {
        if (!choices_.may_disturb() || turns_ > turns_disturbed) return 0;
        const unsigned way = choices_.choose(ways);
        reasons_ += way != 0;
        return way;
    }

    bool goes_on() const { return !is_over() && !kernel_.has_failed; }

    // Returns whether the loop has work of its own this time, and does not sleep.
    bool has_work() { return choose(2) != 0; }

    // Something else than the timers that takes time.
    void work() {
        kernel_.now += 700us;
        ++reasons_;
    }

    void turn_without_timers() {
        handle();
        check_turn();
    }

    // One turn after the wait: what a handler does, then the timers.
    void turn() {
        const bool had_reason = has_reason();
        handle();
        const bool in_small_steps = choose(2) != 0;
        const auto before = wheel_.wheel().count();
        wheel_.run(in_small_steps ? 1 : tvec::timer_wheel::unlimited);
        const auto after = wheel_.wheel().count();
        const bool has_worked = after.fired + after.moved + after.dropped !=
                                before.fired + before.moved + before.dropped;
        if (!in_small_steps) check_turn();
        idle_turns_ = has_worked || had_reason ? 0 : idle_turns_ + 1;
        if (idle_turns_ > 3) fail("turns without a reason");
        if (++turns_ > 1000) fail("the timers do not come to an end");
    }

    bool is_over() const {
        return std::all_of(timers_.begin(), timers_.end(), [](const timed& t) { return !t.due; });
    }

    void tell(std::string what) {
        story_ +=
            "  " + std::to_string((kernel_.now - start_) / 1us) + " us: " + std::move(what) + '\n';
    }
    void fail(const char* what) {
        if (!kernel_.has_failed) story_ += std::string("  ") + what + '\n';
        kernel_.has_failed = true;
    }

private:
    static constexpr int turns_disturbed = 6;

    struct timed {
        std::optional<tvec::jiffies> due;
        int again = 1;
        program* owner = nullptr;
        void on_fire();
        tvec::timer timer{tvec::call<&timed::timer, &timed::on_fire>};
    };

    void arm(timed& t, tvec::jiffies delay) {
        t.owner = this;
        wheel_.arm_after(t.timer, std::chrono::milliseconds(delay));
        t.due = t.timer.expires();
    }

    void handle() {
        switch (choose(6)) {
        case 1:
            return tell("arms a timer for soon"), arm(timers_[1], 3);
        case 2:
            return tell("pushes a timer back"), arm(timers_[0], 20);
        case 3:
            tell("cancels a timer"), timers_[0].timer.cancel(), timers_[0].due.reset();
            return;
        case 4:
            tell("fills the submission queue");
            while (auto* sqe = io_uring_get_sqe(&kernel_.ring))
                io_uring_prep_nop(sqe), sqe->user_data = 2;
            return;
        case 5:
            tell("takes 4.2 ms"), kernel_.now += 4200us;
            return;
        default:
            return;
        }
    }

    std::optional<tvec::jiffies> first_due() const {
        std::optional<tvec::jiffies> first;
        for (const timed& t : timers_)
            if (t.due) first = std::min(first.value_or(*t.due), *t.due);
        return first;
    }
    nanoseconds start_of(tvec::jiffies tick) const {
        return wheel_.ticks().start_of(tick).time_since_epoch();
    }

    void check_sleep(std::optional<nanoseconds> until) {
        if (kernel_.timeouts() > 1) fail("two timeouts in the ring");
        const auto first = first_due();
        tell(until ? "sleeps until " + std::to_string((*until - start_) / 1us) + " us"
                   : "sleeps without a limit");
        if (!until) return fail("sleeps for ever");
        if (!first) return;
        // A time from the call counts from the submission.
        const auto late = kernel_.waits_absolute() ? 0ns : kernel_.queued() + 2us;
        if (*until > std::max(start_of(*first), kernel_.now) + late)
            fail("sleeps beyond the first deadline");
        if (start_of(*first) <= kernel_.now && *until > kernel_.now + late)
            fail("sleeps while a timer is due");
    }

    void check_turn() {
        if (const auto first = first_due(); first && start_of(*first) <= kernel_.now)
            fail("a due timer had no turn");
    }

    bool has_reason() {
        const auto seen = reasons_;
        reasons_ = 0;
        return seen != 0;
    }

    fake_ring& kernel_;
    choices& choices_;
    wheel wheel_;
    std::array<timed, 2> timers_{};
    nanoseconds start_{};
    std::string story_;
    unsigned reasons_ = 0;
    int idle_turns_ = 0, turns_ = 0;
};

void program::timed::on_fire() {
    owner->tell("fires");
    if (owner->start_of(timer.expires()) > owner->kernel_.now) owner->fail("fires early");
    due.reset();
    if (again-- > 0) owner->arm(*this, 5);
}

// --- loops ---------------------------------------------------------------------------------------

template <class F> void reap(io_uring& ring, F f) {
    for (io_uring_cqe* cqe = nullptr; io_uring_peek_cqe(&ring, &cqe) == 0;
         io_uring_cqe_seen(&ring, cqe))
        f(*cqe);
}

void by_wait(program& p) {
    tvec::uring_wait wait(p.kernel().ring, p.timers());
    while (p.goes_on()) {
        wait();
        reap(p.kernel().ring, [](const io_uring_cqe&) {});
        p.turn();
    }
}

void by_timeout(program& p) {
    tvec::uring_timeout alarm(p.kernel().ring, p.timers());
    while (p.goes_on()) {
        const bool may_sleep = alarm.prepare() && !p.has_work();
        io_uring_submit_and_wait(&p.kernel().ring, may_sleep ? 1 : 0);
        reap(p.kernel().ring, [&](const io_uring_cqe& cqe) { alarm.complete(cqe); });
        p.turn();
    }
    alarm.detach([](const io_uring_cqe&) {});
    if (p.kernel().timeouts() != 0) p.fail("a timeout is left in the ring");
}

// Something else always has work, so the loop never sleeps.
void without_sleep(program& p) {
    tvec::uring_timeout alarm(p.kernel().ring, p.timers());
    while (p.goes_on()) {
        alarm.prepare() ? void() : p.fail("no room in an empty queue");
        io_uring_submit(&p.kernel().ring);
        reap(p.kernel().ring, [&](const io_uring_cqe& cqe) { alarm.complete(cqe); });
        p.work();
        p.turn();
    }
}

// Wrong: the alarm is set before the loop sleeps only, and timers run when it has gone off.
void until_it_sleeps(program& p) {
    tvec::uring_timeout alarm(p.kernel().ring, p.timers());
    while (p.goes_on()) {
        io_uring_submit(&p.kernel().ring);
        bool has_gone_off = false;
        reap(p.kernel().ring,
             [&](const io_uring_cqe& cqe) { has_gone_off |= alarm.complete(cqe); });
        p.work();
        has_gone_off ? p.turn() : p.turn_without_timers();
    }
}

// Wrong: timers run when the wait says that its time is over, and not after every wait.
void at_timeouts_only(program& p) {
    tvec::uring_wait wait(p.kernel().ring, p.timers());
    while (p.goes_on()) {
        wait();
        bool has_completions = false;
        reap(p.kernel().ring, [&](const io_uring_cqe&) { has_completions = true; });
        has_completions ? p.turn_without_timers() : p.turn();
    }
}

// --- the search ----------------------------------------------------------------------------------

struct kind {
    const char* name;
    bool absolute;
    void (*loop)(program&);
    bool is_wrong = false;
};
constexpr kind kinds[] = {
    {"uring_wait", true, by_wait},
    {"uring_wait before Linux 6.12", false, by_wait},
    {"uring_timeout", true, by_timeout},
    {"uring_timeout in shifted time", false, by_timeout},
    {"uring_timeout that never sleeps", true, without_sleep},
    {"an alarm that is set before sleeping only", true, until_it_sleeps, true},
    {"timers that run at timeouts only", true, at_timeouts_only, true}};

// Returns the story of the run if it failed.
std::optional<std::string> run(const kind& k, choices& c) {
    fake_ring kernel(k.absolute);
    program p(kernel, c);
    try {
        k.loop(p);
    } catch (const std::system_error& e) {
        p.fail(e.what());
    }
    return kernel.has_failed ? std::optional(p.story()) : std::nullopt;
}

// Returns whether all runs are as they should be.
bool holds(const kind& k, unsigned most) {
    unsigned long runs = 0;
    for (unsigned n = 0; n <= most; ++n) {
        choices c(n);
        do {
            ++runs;
            if (const auto story = run(k, c)) {
                std::printf("%s: run %lu fails\n%s", k.name, runs, story->c_str());
                return k.is_wrong;
            }
        } while (c.advance());
    }
    std::printf("%s: %lu runs\n", k.name, runs);
    return !k.is_wrong;
}

}  // namespace

int main(int argc, char** argv) {
    const unsigned most = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 3;
    const auto fails = [&](const kind& k) { return !holds(k, most); };
    return std::any_of(std::begin(kinds), std::end(kinds), fails) ? 1 : 0;
}
