// Interleaves producers and the owner of a mailbox by a seed, between any two operations on shared
// atomics and on manual time, beside a model of all messages. In this program the library's atomics
// are those of support/stepped.hpp. It checks these promises:
//   - Each function is called, cancelled or shown by `stop`: exactly one of these. Its object is
//     destroyed once.
//   - None is called before its deadline, nor before a deadline that a reschedule has set.
//   - Posted functions are called in the order of sending, if one was sent after the other.
//   - A refusal as full is justified, and due functions are called if time passes.
//   - The owner, which sleeps until its doorbell rings, misses nothing. It is rung at most once
//     for each sleep.
//   - A thread that waits for a cancel is woken, and then the function is gone. The owner does not
//     wait. In the end all functions are gone.
//   - The mailbox counts what is pending as the wheel does, until the wheel is drained.
// Functions, their destructors and the visitors of `stop` send, cancel, wait and reschedule. On the
// owner's thread they also drain the wheel and stop. Visitors throw.
// TVEC_SEED and TVEC_STEPS choose the run.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>

#include "support/divergence.hpp"
#include "support/environment.hpp"
#include "support/stepped.hpp"
#include "tvec/inspect/inspect.hpp"
#include "tvec/mailbox/mailbox.hpp"

namespace {

using clock = tvec::manual_clock;
using wheel = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, clock>>;
using mailbox = tvec::mailbox<wheel>;
using sender = tvec::mailbox_sender<wheel>;
using support::expect, support::fibers;
using tvec::mailbox_handle, tvec::send_error, tvec::sent;

// The model's knowledge of one function.
struct entry {
    std::uint64_t begun = 0;                      // time of the call that sent it
    std::optional<std::uint64_t> known;           // time of its return
    mailbox_handle handle;                        // known from then on
    bool posted = false;                          // and no reschedule was tried
    bool may_be_cancelled = false;                // a cancel was tried
    std::multiset<clock::time_point> may_be_due;  // several while it is being rescheduled
    int reschedules = 0, rescheduling = 0;        // begun, and in flight
    bool held = false, destroyed = false;         // its object exists; its destructor has begun
    int unanswered = 0;                           // cancels whose answers are in flight or lost
    bool cancelled = false, called = false;
};

struct totals {
    unsigned long long programs = 0, steps = 0, called = 0, cancelled = 0, shown = 0, refused = 0;

    void add(const totals& t) {
        programs += t.programs;
        steps += t.steps;
        called += t.called;
        cancelled += t.cancelled;
        shown += t.shown;
        refused += t.refused;
    }
};

class world {
public:
    world(std::mt19937_64& random, std::uint64_t operations)
        : random_(random), operations_(operations), capacity_(below(16)),
          budget_(below(2) ? 1 + below(4) : mailbox::unlimited), producers_(1 + below(4)),
          favourite_(below(2) ? 4 : below(8)), nearness_(1 + below(3)), hostility_(below(4)),
          threads_(random) {
        if (below(2)) make_mailbox();
    }

    totals run() {
        for (std::uint64_t i = 0; i < producers_; ++i) threads_.add(guarded([this] { produce(); }));
        threads_.add(guarded([this] { own(); }));
        expect(threads_.run(100'000 + 10'000 * operations_), "somebody waits for ever");
        expect(alive_ == 0, alive_, " functions are alive in the end");
        for (const auto& [id, e] : entries_) {
            const bool shown = shown_.contains(e.handle);
            const int ends = e.cancelled + shown + (e.called && !shown);
            expect(ends == 1 || (ends == 0 && e.unanswered != 0), "function ", id,
                   " was cancelled, called, shown: ", e.cancelled, e.called, shown);
        }
        expect(check(timers_.wheel()).empty(), check(timers_.wheel()));
        count_.programs = 1;
        count_.steps = threads_.steps();
        count_.shown = shown_.size();
        return count_;
    }

private:
    // Held is only a function that was moved into a slot.
    struct function {
        function(world& w, std::uint64_t i) : home(w), id(i) {}
        function(function&& other) noexcept : home(other.home), id(other.id), held(true) {
            ++home.alive_;
            home.entries_.at(id).held = true;
        }
        ~function() {
            if (held) guarded([this] { home.on_destroy(id); })();
        }
        void operator()(mailbox_handle h) { home.on_call(id, h); }
        world& home;
        std::uint64_t id;
        bool held = false;
    };

    std::uint64_t below(std::uint64_t n) { return random_() % n; }

    template <class F> static std::function<void()> guarded(F body) {
        return [body] {
            try {
                body();
            } catch (const std::exception& e) {
                std::printf("mailbox model: %s\n", e.what());
                std::fflush(stdout);
                std::_Exit(1);
            }
        };
    }

    // --- what any of them does ------------------------------------------------------------------
    void produce() {
        while (!sender_) fibers::step();
        const sender s = *sender_;
        while (operations_ != 0) act(s);
        --producers_;
    }

    // Acts in a function, its destructor or a visitor, on any thread.
    void act_within() {
        fibers::step();
        if (below(4) != 0 || operations_ == 0) return;
        if (!owns() || below(8) >= hostility_) return act(*sender_);
        if (below(2) == 0) return drain();
        stop();
    }

    bool owns() const { return fibers::self() == owner_; }

    void act(const sender& s) {
        if (operations_ == 0) return;
        --operations_;
        switch (below(4) ? favourite_ : below(8)) {
        case 0:
        case 1:
        case 2:
        case 3:
            return below(2) ? post(s) : schedule(s);
        case 4:
            return reschedule(s);
        case 5:
            return cancel_then(s);
        case 6:
            if (below(2) == 0) return cancel_and_wait(s);
            [[fallthrough]];
        default:
            return cancel(s);
        }
    }

    void post(const sender& s) {
        send(true, clock::time_point::min(), [&](function f) { return s.post(std::move(f)); });
    }

    void schedule(const sender& s) {
        const std::chrono::microseconds delay(static_cast<long>(below(20'000)) - 1'000);
        const auto due = clock::now() + delay;
        send(false, due, [&](function f) {
            return below(2) ? s.schedule(delay, std::move(f)) : s.schedule_at(due, std::move(f));
        });
    }

    template <class Send> void send(bool posted, clock::time_point due, Send sending) {
        const std::uint64_t id = next_id_++;
        entry& e = entries_[id];
        e.begun = ++moment_;
        e.posted = posted;
        e.may_be_due.insert(due);
        ++sending_;
        const sent made = sending(function(*this, id));
        --sending_;
        if (made) {
            e.known = ++moment_;
            e.handle = made.handle;
            handles_[id] = made.handle;
        } else {
            expect(!e.called && !e.held && !made.handle, "refused, and yet called or kept");
            entries_.erase(id);
            judge_refusal(made.error);
        }
    }

    void judge_refusal(send_error error) {
        ++count_.refused;
        if (error == send_error::stopped) return expect(stopping_, "nobody has stopped");
        expect(error == send_error::full, "there is a function");
        if (stopping_) return;  // slots do not become vacant again
        const std::uint64_t taken = alive_ + answers_asked_ - answers_ + sending_;
        expect(taken + 1 >= capacity_, "refused with ", taken, " of ", capacity_);  // 1: let go of
    }

    // Returns one of the last, mostly, and in some programs the last.
    entry* some_entry() {
        if (handles_.empty()) return nullptr;
        const std::uint64_t last = handles_.rbegin()->first;
        const std::uint64_t back = below(below(8) ? nearness_ : 200);
        return &entries_.at(handles_.lower_bound(last - std::min(last, back))->first);
    }

    void cancel(const sender& s) {
        entry* const e = some_entry();
        if (!e) return;
        e->may_be_cancelled = true;
        on_answer(*e, s.cancel(e->handle));
    }

    void cancel_and_wait(const sender& s) {
        entry* const e = some_entry();
        if (!e) return;
        e->may_be_cancelled = true;
        on_answer(*e, s.cancel_and_wait(e->handle));
        expect(!e->held || owns(), "waited for, and still there");
    }

    void cancel_then(const sender& s) {
        entry* const e = some_entry();
        if (!e) return;
        e->may_be_cancelled = true;
        ++e->unanswered;
        ++answers_asked_;
        const sent made = s.cancel_then(e->handle, [this, e](bool was_pending) {
            ++answers_;
            --e->unanswered;
            on_answer(*e, was_pending);
        });
        if (made) return;
        if (made.error == send_error::full) --e->unanswered;
        --answers_asked_;
        ++sending_;
        judge_refusal(made.error);
        --sending_;
    }

    void on_answer(entry& e, bool was_pending) {
        if (!was_pending) return;
        expect(!e.called && !e.cancelled, "cancelled though it was over");
        e.cancelled = true;
        ++count_.cancelled;
    }

    void reschedule(const sender& s) {
        entry* const e = some_entry();
        if (!e) return;
        const auto due = clock::now() + std::chrono::microseconds(below(20'000));
        const auto mine = e->may_be_due.insert(due);
        const int number = ++e->reschedules;
        const bool alone = e->rescheduling++ == 0;
        e->posted = false;
        const bool done = s.reschedule_at(e->handle, due);
        --e->rescheduling;
        if (done && alone && e->reschedules == number)
            e->may_be_due = {due};
        else if (!done && alone && e->reschedules == number)
            e->may_be_due.erase(mine);
    }

    // --- the owner ------------------------------------------------------------------------------
    void make_mailbox() {
        mailbox_ = std::make_unique<mailbox>(timers_, capacity_, [this] { ring(); });
        sender_ = mailbox_->sender();
    }

    void own() {
        owner_ = fibers::self();
        if (!mailbox_) {  // it is the owner from the beginning
            make_mailbox();
            for (std::uint64_t acts = below(12); acts != 0; --acts) act(*sender_);
        }
        std::uint64_t turns = below(4) != 0 ? mailbox::unlimited : below(2) * below(100);
        for (; producers_ != 0 && !stopping_ && turns != 0; --turns) {
            if (below(2)) sleep();
            turn();
            if (below(4) == 0) act(*sender_);
            if (below(200) < hostility_) drain();
        }
        if (producers_ == 0 && !stopping_ && below(2)) wait_for_all();
        while (!stop()) continue;
        require_count();
        mailbox_.reset();
    }

    void sleep() {
        rung_ = false;
        ++sleeps_;
        mailbox_->rearm();
        const auto seen = [this] { return rung_ || producers_ == 0; };
        for (int patience = 500; !seen() && patience != 0; --patience) fibers::step();
        if (!rung_ && producers_ == 0)
            expect(stopping_ || all_seen(), "asleep, and nobody has rung");
    }

    bool all_seen() const {
        return answers_ == answers_asked_ &&
               std::none_of(entries_.begin(), entries_.end(), [](const auto& known) {
                   const entry& e = known.second;
                   return e.posted && !e.called && !e.may_be_cancelled;
               });
    }

    void ring() {
        rung_ = true;
        expect(++rings_ <= sleeps_, "rung twice for one sleep");
    }

    void turn() {
        in_run_ = true;
        mailbox_->run(budget_);
        in_run_ = false;
        if (below(3) == 0) clock::advance(std::chrono::microseconds(below(6'000)));
        timers_.run(below(3) ? tvec::timer_wheel::unlimited : below(3));
        require_count();
    }

    // A drain of the wheel takes timers away from the mailbox.
    void drain() {
        drained_ |= timers_.wheel().drain([](tvec::timer&) { fibers::step(); }) != 0;
        require_count();
    }

    void require_count() const {
        const std::size_t found = timers_.wheel().count_pending(), counted = mailbox_->pending();
        expect(drained_ ? counted >= found && counted <= capacity_ : counted == found, counted,
               " are pending, and the wheel has ", found);
    }

    void wait_for_all() {
        sleep();
        for (int turns = 0; turns < 1'000; ++turns) {
            turn();
            if (drained_ && operations_ == 0) reschedule_all();
            clock::advance(std::chrono::milliseconds(1));
        }
        if (stopping_) return;
        expect(all_seen(), "posted, and not called");
        expect(mailbox_->pending() == 0, mailbox_->pending(), " are pending, and nothing is due");
        for (const auto& [id, e] : entries_) expect(e.called || e.cancelled, id, " is lost");
    }

    // Functions that a drain has taken out wait for that.
    void reschedule_all() {
        drained_ = false;
        for (auto& [id, e] : entries_) {
            e.posted = false;
            e.may_be_due.insert(clock::now());
            sender_->reschedule_at(e.handle, clock::now());
        }
        mailbox_->run();
    }

    void on_destroy(std::uint64_t id) {
        entry& e = entries_.at(id);
        expect(!std::exchange(e.destroyed, true), "function ", id, " was destroyed twice");
        act_within();
        e.held = false;
        --alive_;
    }

    void on_call(std::uint64_t id, mailbox_handle h) {
        entry& e = entries_.at(id);
        expect(!e.called && !e.cancelled, "called though it is over");
        expect(!e.known || h == e.handle, "called by another name");
        e.called = true;
        ++count_.called;
        if (stopping_) return act_within();
        expect(clock::now() >= *e.may_be_due.begin(), "called early");
        if (e.posted) require_order(e);
        if (in_run_) expect(mailbox_->run() == 0, "run within run");
        act_within();
    }

    void require_order(const entry& e) const {
        for (const auto& [id, other] : entries_)
            expect(!other.posted || other.called || other.may_be_cancelled || !other.known ||
                       *other.known > e.begun,
                   "function ", id, " was sent before this one");
    }

    struct visitor_threw {};

    // Returns whether the visitor did not throw.
    bool stop() {
        stopping_ = true;
        bool is_over = true;
        try {
            mailbox_->stop([this](mailbox::unprocessed& u) {
                expect(shown_.insert(u.handle()).second, "shown twice");
                if (below(2)) expect(u.run() && !u.run(), "run by the visitor once");
                act_within();
                if (below(8) == 0) throw visitor_threw();
            });
        } catch (const visitor_threw&) {
            is_over = false;
        }
        answers_ = answers_asked_;
        return is_over;
    }

    std::mt19937_64& random_;
    totals count_;
    wheel timers_;
    std::uint64_t operations_, capacity_, budget_, producers_;
    std::uint64_t favourite_;  // the most frequent operation
    std::uint64_t nearness_;   // to how many of the last
    std::uint64_t hostility_;  // how often functions drain and stop, in eighths
    bool stopping_ = false, rung_ = false, in_run_ = false, drained_ = false;
    std::uint64_t moment_ = 0, next_id_ = 0, sending_ = 0, alive_ = 0, sleeps_ = 0, rings_ = 0;
    std::uint64_t answers_asked_ = 0, answers_ = 0;
    std::map<std::uint64_t, entry> entries_;
    std::map<std::uint64_t, mailbox_handle> handles_;
    std::set<mailbox_handle> shown_;
    std::unique_ptr<mailbox> mailbox_;  // made by the owner, or before
    std::optional<sender> sender_;
    const void* owner_ = nullptr;
    fibers threads_;
};

}  // namespace

int main() {
    const std::uint64_t seed = support::from_environment("TVEC_SEED", std::random_device{}());
    const std::uint64_t most = support::from_environment("TVEC_STEPS", 2'000'000);
    std::printf("mailbox model: TVEC_SEED=%llu\n", static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    std::mt19937_64 random(seed);
    totals t;
    try {
        while (t.steps < most) t.add(world(random, 1 + random() % 60).run());
    } catch (const std::exception& e) {
        std::printf("mailbox model: %s\n", e.what());
        return 1;
    }
    std::printf(
        "%llu steps of %llu programs: %llu called, %llu cancelled, %llu shown, %llu refused\n",
        t.steps, t.programs, t.called, t.cancelled, t.shown, t.refused);
    return 0;
}
