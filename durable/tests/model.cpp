// Durable timers of several processes on one database in memory, interleaved step by step. The
// search decides when each request is done and each answer is read. Time passes without stopped
// processes, hints are lost, connections are cut, processes die, and the clock is set. The books
// record all requests and answers. The model checks:
//   - nothing is delivered before its deadline, or for one that it never had;
//   - nothing after a confirmed cancel, and no (id, attempt) twice, though ids are used again while
//     handlers keep deliveries of the timers before;
//   - nothing with an attempt that is over because another was given out meanwhile;
//   - nothing is dead unless its own handler had it as often as `attempts` says, though handlers
//     end their processes with others claimed beside them;
//   - a timer that has a period and fails too often loses a beat, and goes on;
//   - a timer that is due and that nobody has claimed is found by `oldest`;
//   - what a clock has planned that was ahead comes when it is set back, and a deadline that a user
//     has given stays;
//   - what was answered `stored` is delivered in its last form, or cancelled, or still there: in
//     the end, when nothing breaks any more, stored = delivered + cancelled + dead.
// First every order of the first TVEC_DEPTH steps of small programs; then TVEC_STEPS random ones of
// large programs, by TVEC_SEED.
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/divergence.hpp"
#include "support/environment.hpp"
#include "tvec/durable/memory_store.hpp"
#include "tvec/durable/timers.hpp"
#include "tvec/inspect/inspect.hpp"

namespace {

using namespace tvec::durable;
using std::chrono::milliseconds;
using support::expect;

constexpr milliseconds one{1}, leap{300'000};
using wheel = tvec::clocked_wheel<tvec::tick_clock<milliseconds, tvec::manual_clock>>;

// Says what comes next: one of n.
struct chooser {
    virtual ~chooser() = default;
    virtual std::uint64_t below(std::uint64_t n) = 0;
    virtual bool goes_on() = 0;
};

// Every sequence of so many choices, one after the other.
class every_choice : public chooser {
public:
    explicit every_choice(std::size_t depth) : depth_(depth) {}
    std::uint64_t below(std::uint64_t n) override {
        if (at_ == depth_ || n == 1) return 0;
        if (at_ == chosen_.size()) chosen_.push_back({0, n});
        return chosen_[at_++].first;
    }
    bool goes_on() override { return at_ < depth_ && ++steps_ <= 4 * depth_; }
    // Goes to the next sequence. Returns whether there is one.
    bool next() {
        while (!chosen_.empty() && chosen_.back().first + 1 == chosen_.back().second)
            chosen_.pop_back();
        at_ = steps_ = 0;
        if (chosen_.empty()) return false;
        ++chosen_.back().first;
        return true;
    }

private:
    std::size_t depth_, at_ = 0, steps_ = 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> chosen_;
};

class random_choice : public chooser {
public:
    random_choice(std::mt19937_64& random, std::size_t steps) : random_(random), left_(steps) {}
    std::uint64_t below(std::uint64_t n) override { return random_() % n; }
    bool goes_on() override { return left_-- > 0; }

private:
    std::mt19937_64& random_;
    std::size_t left_;
};

// A store whose answers are read when the search says so.
struct stepped_store : memory_store {
    using memory_store::memory_store;
    std::size_t run() override { return 0; }
};

// The books of one id.
struct account {
    std::set<time_point> dues;         // that it was given, or may have been
    std::set<std::uint32_t> attempts;  // that were delivered
    std::uint32_t last_given = 0;      // attempt, of all timers that had the id
    std::uint32_t is_over = 0;         // the last attempt that was ended, replaced or revived
    int cancelling = 0;                // cancels without an answer
    bool is_used_again = false;        // another timer had the id
    bool is_there = false;             // living or dead
    std::uint32_t failures = 0;        // ends of its deliveries by `failed`
    std::uint32_t all_handed = 0;      // to its handler
    bool is_dead = false;
    bool recurs = false;                // it has a period, until it is done once
    bool is_moved = false;              // it was given another deadline
    std::optional<time_point> given{};  // the deadline that it has from its user
    time_point last_due{};
    std::uint32_t handed = 0;              // to its handler since it last ended,
    std::uint32_t last_ended = 0;          // which was this attempt
    std::uint32_t attempt = 0, spent = 0;  // as the database shows them
    const void* is_spent_by =
        nullptr;                      // the process that has counted an attempt and not called yet
    std::set<int> stored, delivered;  // its forms: answered so, delivered
    int last_form = 0;                // that was seen in the database; 0: none
    std::multiset<const void*> asking;  // the processes whose puts are under way
    bool cancelled = false;             // so it was answered
    bool may_be_gone = false;           // a cancel was asked for
};

struct totals_of_runs {
    unsigned long long runs = 0, stored = 0, delivered = 0, cancelled = 0, dead = 0, retries = 0,
                       swept = 0, evicted = 0, lost = 0, used_again = 0;
};

struct shape {
    unsigned processes = 2, shards = 1, ids = 1;
    bool by_script = true;
    bool begins_near = false;   // its deadline, with what the script puts first
    std::vector<int> script{};  // of operations: see `operate`
    std::size_t window = 100;
    milliseconds ahead{};
    std::uint32_t attempts = 0;
    int faults = 1;
    bool sets_clock = false;
    std::size_t max_deliveries_per_turn = 1'000;
    std::size_t held_bytes = 1'000'000;
    unsigned poisons = 0;  // so many of the ids end the process of their handler
    bool has_limits = false;
};

class world {
public:
    world(chooser& c, const shape& s) : choose_(c), shape_(s), faults_(s.faults) {
        tvec::manual_clock::set({});
        for (unsigned i = 0; i < s.processes; ++i) start();
        for (int i = 0; i < 20; ++i) pass(milliseconds(5));
        if (!s.begins_near) return;
        ask();
        for (int i = 0; i < 2; ++i) pass(milliseconds(1));
    }

    void run(totals_of_runs& t) {
        while (choose_.goes_on()) step();
        finish();
        ++t.runs;
        t.dead += ask<totals>(operations::count{}).dead;
        for (const auto& [id, a] : books_) t.cancelled += a.cancelled;
        t.used_again += used_again_;
        t.stored += stored_;
        t.delivered += delivered_;
        for (const auto& p : processes_) add(t, p->timers.counters());
    }

private:
    struct process {
        process(world& w, std::string name)
            : store(w.all_, std::move(name), w.shape_.ahead),
              timers(
                  wheels, store, [&w, this](delivery d) { w.on_delivery(*this, std::move(d)); },
                  w.settings()) {}
        void turn() {
            wheels.run();
            timers.run();
        }
        wheel wheels;
        stepped_store store;
        bool is_over = false;     // it was ended by one of its handlers
        std::vector<token> kept;  // deliveries that end later, or never
        tvec::durable::timers<wheel> timers;
    };

    options settings() {
        options o;
        o.on_exception = [this](std::exception_ptr e) { broken_ = e; };
        o.horizon = milliseconds(40);
        o.window = shape_.window;
        o.claim_lease = milliseconds(20);
        o.shard_lease = milliseconds(30);
        // Where no hint is lost and nobody dies, nothing is left to be swept.
        const bool is_safe = shape_.faults == 0 && shape_.processes == 1;
        o.sweep = milliseconds(is_safe ? 100'000 : 7);
        o.retry = milliseconds(5);
        o.attempts = shape_.attempts;
        o.max_deliveries_per_turn = shape_.max_deliveries_per_turn;
        o.max_held_bytes = shape_.held_bytes;
        if (shape_.has_limits) o.limits = {{"", 1}, {"n", 2}};
        return o;
    }

    static void add(totals_of_runs& t, const counters& c) {
        t.retries += c.retries;
        t.swept += c.swept;
        t.evicted += c.evicted;
        t.lost += c.leases_lost;
    }

    reading now() const {
        return reading(std::chrono::hours(24 * 365 * 50)) + skew_ +
               std::chrono::floor<std::chrono::microseconds>(
                   tvec::manual_clock::now().time_since_epoch());
    }
    time_point in(milliseconds d) const { return std::chrono::floor<milliseconds>(now()) + d; }
    // In every order of a small program only what happens matters, not when it was to.
    milliseconds some(std::uint64_t n) {
        return milliseconds(shape_.by_script ? 3 : choose_.below(n));
    }
    // A clock ahead may be set back long before a deadline.
    milliseconds some_leap() {
        const bool is_far = shape_.sets_clock && !healing_ && choose_.below(4) == 0;
        return is_far ? leap : milliseconds(0);
    }
    process& somebody() { return *processes_[choose_.below(processes_.size())]; }
    void start() {
        processes_.push_back(std::make_unique<process>(*this, "p" + std::to_string(++started_)));
    }

    void pass(milliseconds d) {
        tvec::manual_clock::advance(d);
        for (int i = 0; i < 4; ++i)
            for (auto& p : processes_) {
                p->turn();
                while (serve(*p) || (!p->is_over && p->store.answer()))
                    if (!shape_.by_script && !p->is_over && choose_.below(3) == 0) p->turn();
                if (!p->is_over) p->turn();
            }
        bury_processes();
    }

    // Those that a handler has ended; others are started for them.
    void bury_processes() {
        for (auto& p : processes_)
            if (p->is_over) end(*p);
    }
    static void spend_without_call(account& a) {
        a.is_spent_by = nullptr;
        ++a.handed;
        ++a.all_handed;
    }
    void end(process& p) {
        for (auto& [id, a] : books_) {
            a.asking.erase(&p);
            if (a.is_spent_by == &p) spend_without_call(a);  // it ended right before the call
        }
        const auto at = std::ranges::find(processes_, &p, &std::unique_ptr<process>::get);
        *at = std::make_unique<process>(*this, "p" + std::to_string(++started_));
    }

    // Asks the database, beside the processes.
    template <class Answer> Answer ask(auto operation) {
        Answer got{};
        operation.then = [&](standing, Answer answer) { got = std::move(answer); };
        beside_.submit(std::move(operation));
        beside_.run();
        return got;
    }

    // Has the database do one thing, and sees which forms it holds.
    bool serve(process& p) {
        if (p.is_over || !p.store.serve()) return false;
        const auto dead =
            shape_.attempts != 0
                ? ask<std::vector<stored_timer>>(operations::list{timer_set::dead, {}, 1'000})
                : std::vector<stored_timer>{};
        if (!shape_.by_script) look_for_the_oldest();
        for (const stored_timer& d : dead) look_at_letter(d.id);
        for (auto& [id, a] : books_) {
            const auto d = std::ranges::find(dead, id, &stored_timer::id);
            const bool was_dead = std::exchange(a.is_dead, d != dead.end());
            if (a.is_dead && !was_dead)
                expect(a.handed >= shape_.attempts || a.failures >= shape_.attempts, id,
                       " is dead, and its handler had it ", a.handed, " times and failed ",
                       a.failures, " times");
            look_at(a, p,
                    d != dead.end() ? *d : ask<std::optional<stored_timer>>(operations::find{id}));
        }
        return true;
    }

    // What is due and was not claimed is found, and what was claimed again and again without an
    // end, and nothing is that is not due. What a clock has given out that was ahead comes again
    // when its lease is over: it was due by that clock.
    void look_for_the_oldest() {
        const auto found = ask<std::optional<overdue>>(operations::oldest{});
        const time_point today = in({});
        if (found) {
            const auto t = ask<std::optional<stored_timer>>(operations::find{found->id});
            const bool was_due = found->due <= today + (latest_skew_ - skew_);
            expect(found->since <= today && t &&
                       (found->due <= today || (was_due && t->attempt != t->ended)),
                   "found one that is not due");
        }
        for (const stored_timer& t : ask<std::vector<stored_timer>>(
                 operations::list{timer_set::waiting, {}, overdue_looked_at})) {
            const std::uint32_t open = t.attempt - t.ended;
            if (t.due > today || (open != 0 && open <= unended_attempts)) continue;
            expect(found && place{found->since, found->id} <= place{t.due, t.id}, t.id,
                   " is overdue, has ", open, " attempts without an end, and was not found");
        }
    }

    // The dead letter of a beat.
    void look_at_letter(const std::string& id) {
        const std::size_t number = id.find(" #");
        if (number == id.npos) return;
        const account& a = books_[id.substr(0, number)];
        expect(a.recurs, id, " is of no timer with a period");
        expect(a.is_used_again || a.failures >= shape_.attempts || a.all_handed >= shape_.attempts,
               id, " is dead too soon");
    }

    // A deadline from a user stays until a delivery has begun, or a user gives another one.
    static void look_at_deadline(account& a, const stored_timer& t) {
        if (t.attempt != t.ended) return a.given.reset();
        const bool is_of_user = a.dues.contains(t.due);
        expect(is_of_user || !a.given || *a.given <= t.due, t.id, " was due in ",
               a.given ? (*a.given - t.due).count() : 0, " ms more, as its user has said");
        if (t.due != a.last_due) a.given = is_of_user ? std::optional(t.due) : std::nullopt;
        a.last_due = t.due;
    }

    static void look_at(account& a, const process& p, const std::optional<stored_timer>& there) {
        if (there && !a.is_dead) look_at_deadline(a, *there);
        const bool is_claimed_anew =
            there && there->attempt > a.attempt && there->ended == a.last_ended;
        if (is_claimed_anew && a.is_spent_by != nullptr)
            spend_without_call(a);  // it stalled for longer than its lease
        if (there && there->ended != a.last_ended) a.handed = 0;
        a.last_ended = there ? there->ended : 0;
        if (there) {
            a.is_over = std::max(a.is_over, there->ended);
            a.last_given = std::max(a.last_given, there->attempt);
            a.last_form = std::stoi(there->body);
        }
        if (there && there->spent > a.spent && !a.attempts.contains(there->attempt))
            a.is_spent_by = &p;
        a.attempt = there ? there->attempt : 0;
        a.spent = there ? there->spent : 0;
        a.is_there = there.has_value();
    }

    // --- steps ----------------------------------------------------------------------------------

    void step() {
        std::vector<std::function<void()>> can;
        can.push_back([] { tvec::manual_clock::advance(milliseconds(2)); });
        if (shape_.by_script || choose_.below(8) == 0)
            can.push_back([] { tvec::manual_clock::advance(milliseconds(21)); });
        for (auto& p : processes_) steps_of(*p, can);
        if (has_more_to_ask()) can.push_back([this] { ask(); });
        if (faults_ > 0) can.push_back([this] { break_something(); });
        can[choose_.below(can.size())]();
        bury_processes();
        if (broken_) std::rethrow_exception(broken_);
    }

    void steps_of(process& p, std::vector<std::function<void()>>& can) {
        can.push_back([&p] { p.turn(); });
        if (p.store.is_asked()) can.push_back([this, &p] { serve(p); });
        if (p.store.has_answers())
            can.push_back([&p] {
                p.store.answer();
                p.timers.run();
            });
    }

    void break_something() {
        --faults_;
        process& p = somebody();
        switch (choose_.below(shape_.sets_clock ? 5 : 4)) {
        case 0:
            p.store.lose_hint();
            break;
        case 1:
            p.store.cut();
            break;
        case 2:
            p.store.fail(1 + choose_.below(3));
            break;
        case 3:
            end(p);
            break;
        default:
            skew_ += milliseconds(choose_.below(60)) - milliseconds(30);
            if (choose_.below(4) == 0) skew_ += skew_ < std::chrono::minutes(1) ? leap : -leap;
            latest_skew_ = std::max(latest_skew_, skew_);
        }
    }

    bool has_more_to_ask() const { return shape_.by_script ? asked_ < shape_.script.size() : true; }

    void ask() {
        operate(shape_.by_script ? shape_.script[asked_] : static_cast<int>(choose_.below(10)));
        ++asked_;
    }

    void operate(int what) {
        process& p = somebody();
        const std::string id(1, static_cast<char>('a' + choose_.below(shape_.ids)));
        switch (what) {
        case 0:
            put(p, "", existing::keep);
            break;
        case 1:
            put(p, id, existing::keep);
            break;
        case 2:
            put(p, id, existing::replace);
            break;
        case 3:
            cancel(p, id);
            break;
        case 4:
        case 5:
        case 6:
            end_what_was_kept(p, what);
            break;
        case 7:
            touch(p, id);
            break;
        case 8:
            if (!p.kept.empty()) static_cast<void>(p.timers.extend(p.kept.back(), some(40) + one));
            break;
        default:
            revive(p, id);
            break;
        }
    }

    // An id that may be gone is put anew once it is, and all books of it are closed.
    void put(process& p, std::string id, existing how) {
        if (id.empty()) id = "n" + std::to_string(asked_);
        account& a = books_[id];
        if (a.may_be_gone || (!a.delivered.empty() && !is_dead(id))) {
            const bool is_gone =
                !is_dead(id) && !ask<std::optional<stored_timer>>(operations::find{id});
            if (!is_gone || !a.asking.empty() || a.cancelling != 0) return;
            use_again(a);
        }
        const bool has_plan = !shape_.by_script && choose_.below(3) == 0;
        const bool recurs = has_plan && !is_poison(id) && choose_.below(2) == 0;
        const record r{id, in(some(50) + some_leap()), std::to_string(++forms_),
                       milliseconds(recurs ? 9 : 0), has_plan ? "times 1" : ""};
        a.recurs |= recurs;
        a.is_moved |= how == existing::replace;
        a.dues.insert(r.due);
        const int form = forms_;
        a.asking.insert(&p);
        const bool is_kept = healing_ && how == existing::keep && is_dead(id);
        const auto refused = p.timers.put(r, how, [this, id, form, is_kept, &p](put_result result) {
            books_[id].asking.erase(books_[id].asking.find(&p));
            expect(!is_kept || result == put_result::dead, id, " was put beside a dead timer");
            if (result != put_result::stored) return;
            ++stored_;
            books_[id].stored.insert(form);
        });
        expect(refused == refusal::none, "a put was refused");
    }

    // Deliveries of the timer before may still be kept, and touches of it may still be under way.
    void use_again(account& a) {
        a.is_used_again = a.is_moved = true;
        a.is_over = std::max(a.is_over, a.last_given);
        a.may_be_gone = a.cancelled = false;
        a.last_form = 0;
        a.failures = 0;
        a.stored.clear();
        a.delivered.clear();
        a.given.reset();
        ++used_again_;
    }

    void cancel(process& p, const std::string& id) {
        account& a = books_[id];
        if (!a.asking.empty()) return;  // a put that is served after it makes a new one
        a.may_be_gone = true;
        ++a.cancelling;
        static_cast<void>(p.timers.cancel(id, [this, id](cancel_result r) {
            --books_[id].cancelling;
            books_[id].cancelled |= r == cancel_result::cancelled;
        }));
    }

    void revive(process& p, const std::string& id) {
        const time_point due = in(some(30));
        books_[id].dues.insert(due);
        books_[id].is_moved = true;
        static_cast<void>(p.timers.revive(id, due));
    }

    void touch(process& p, const std::string& id) {
        const time_point due = in(some(30) + some_leap());
        books_[id].dues.insert(due);
        books_[id].is_moved = true;
        static_cast<void>(p.timers.touch(id, due));
    }

    // As done, again or failed.
    void end_what_was_kept(process& p, int what) {
        if (p.kept.empty()) return;
        const token t = p.kept.back();
        p.kept.pop_back();
        if (what == 4) return p.timers.done(t);
        account& a = books_[t.id];
        if (what == 6) {
            ++a.failures;
            return p.timers.failed(t, "no room");
        }
        const time_point due = in(some(30));
        a.dues.insert(due);
        a.is_moved = true;
        static_cast<void>(p.timers.again(t, due));
    }

    bool is_poison(const std::string& id) const {
        return id.size() == 1 && id.front() - 'a' < static_cast<int>(shape_.poisons);
    }

    void on_delivery(process& p, delivery d) {
        if (p.is_over) return;
        account& a = books_[d.token.id];
        ++delivered_;
        ++a.handed;
        ++a.all_handed;
        a.is_spent_by = nullptr;
        expect(d.due <= now(), d.token.id, " came early");
        // The engine decides the deadline of a retry.
        expect(a.dues.contains(d.due) || a.failures != 0 || a.recurs, d.token.id,
               " came for a deadline that it never had");
        const int form = std::stoi(d.body);
        expect(a.attempts.insert(d.token.attempt).second, d.token.id, " came twice as ",
               d.token.attempt);
        // A delivery that was under way when its timer was replaced, or died, is over and may still
        // come.
        expect(!a.cancelled || d.token.attempt <= a.is_over, d.token.id,
               " came after it was cancelled");
        const auto there = ask<std::optional<stored_timer>>(operations::find{d.token.id});
        const bool is_last = !there || there->attempt == d.token.attempt;
        expect(is_last || d.token.attempt <= a.is_over || shape_.sets_clock, d.token.id,
               " came as ", d.token.attempt, " when another attempt had been given out");
        a.delivered.insert(form);
        p.is_over = is_poison(d.token.id) || (shape_.poisons != 0 && choose_.below(8) == 0);
        if (p.is_over) return;
        const std::uint64_t what = healing_ ? 0 : choose_.below(3);
        if (what == 0) return p.timers.done(d.token);
        p.kept.push_back(d.token);
        if (what == 2 && p.kept.size() > 1) p.kept.erase(p.kept.begin());  // forgotten
    }

    // --- the end --------------------------------------------------------------------------------

    void finish() {
        healing_ = true;
        faults_ = 0;
        for (auto& p : processes_) p->store.fail(0);
        come_back();
        if (shape_.sets_clock) skew_ = latest_skew_ + leap;  // everything is due
        come_to_rest();
        for (const auto& [id, a] : books_)
            if (is_dead(id)) operate_on_the_dead(id);
        come_to_rest();
        for (const auto& [id, a] : books_) {
            expect(a.stored.empty() || a.last_form != 0, id, " was stored, and was never seen");
            if (a.last_form == 0 || a.may_be_gone || is_dead(id)) continue;
            expect(a.delivered.contains(a.last_form), id, " did not come as ", a.last_form);
        }
        for (auto& p : processes_)
            expect(check(p->wheels.wheel()).empty(), check(p->wheels.wheel()));
    }

    // Beats that a clock has planned which was ahead have come. The clock is as late then as it
    // was.
    void come_back() {
        if (latest_skew_ - skew_ < std::chrono::minutes(1)) return;
        for (int i = 0; i < 1'000; ++i) pass(milliseconds(3));
        for (const stored_timer& t :
             ask<std::vector<stored_timer>>(operations::list{timer_set::waiting, {}, 1'000})) {
            const account& a = books_[t.id];
            const bool is_noted = !t.verdict.empty();  // an end that no process has decided
            expect(t.every == t.every.zero() || a.is_moved || a.attempts.empty() || is_noted, t.id,
                   " is silent since the clock was set back: it is due in ",
                   (t.due - in({})).count(), " ms, attempt ", t.attempt, ", ended ", t.ended,
                   ", spent ", t.spent, ", verdict ", t.verdict, ", history ", t.history);
        }
        skew_ = latest_skew_;
    }

    void come_to_rest() {
        for (int i = 0; i < 4'000 && (i < 5 || ask<totals>(operations::count{}).waiting != 0); ++i)
            pass(milliseconds(3));
        if (broken_) std::rethrow_exception(broken_);
        for (const stored_timer& t :
             ask<std::vector<stored_timer>>(operations::list{timer_set::waiting, {}, 1}))
            expect(false, t.id, " never came: it is due in ", (t.due - in({})).count(),
                   " ms, attempt ", t.attempt, ", ended ", t.ended, ", spent ", t.spent,
                   ", period ", t.every.count(), ", verdict ", t.verdict, ", history ", t.history);
    }

    void operate_on_the_dead(const std::string& id) {
        process& p = *processes_.front();
        switch (choose_.below(4)) {
        case 0:
            return put(p, id, existing::keep);
        case 1:
            return put(p, id, existing::replace);
        case 2:
            return revive(p, id);
        default:
            return cancel(p, id);
        }
    }

    bool is_dead(const std::string& id) {
        for (const stored_timer& t :
             ask<std::vector<stored_timer>>(operations::list{timer_set::dead, {}, 1'000}))
            if (t.id == id) return true;
        return false;
    }

    chooser& choose_;
    shape shape_;
    int faults_;
    milliseconds skew_{}, latest_skew_{};
    memory_database all_{shape_.shards, [this] { return now(); }};
    memory_store beside_{all_, "beside"};
    std::map<std::string, account> books_;
    std::vector<std::unique_ptr<process>> processes_;
    std::size_t started_ = 0, asked_ = 0;
    int forms_ = 0;
    unsigned long long stored_ = 0, delivered_ = 0, used_again_ = 0;
    bool healing_ = false;
    std::exception_ptr broken_;  // what was found in a handler
};

// Puts, cancels, ends and touches, by their numbers in `operate`.
const std::vector<std::vector<int>> scripts{{1, 3}, {1, 2}, {1, 4}, {1, 5}, {1, 6}, {1, 7}};

totals_of_runs every_order(std::size_t depth) {
    totals_of_runs t;
    for (const auto& script : scripts)
        for (const int kind : {0, 1, 2, 3}) {
            shape s;
            s.script = script;
            s.begins_near = kind % 2 == 1;
            s.ahead = milliseconds(kind / 2 * 2);
            every_choice choices(depth);
            do world(choices, s).run(t);
            while (choices.next());
        }
    return t;
}

totals_of_runs random_orders(std::mt19937_64& random, std::uint64_t steps) {
    totals_of_runs t;
    for (std::uint64_t done = 0; done < steps; done += 300) {
        shape s{static_cast<unsigned>(1 + random() % 3),
                static_cast<unsigned>(1 + random() % 4),
                static_cast<unsigned>(1 + random() % 8),
                false,
                false,
                {},
                random() % 2 ? 100U : 8U + random() % 8,
                milliseconds(random() % 2 * (random() % 6)),
                static_cast<std::uint32_t>(random() % 2 * (1 + random() % 3)),
                static_cast<int>(random() % 2 * (random() % 20)),
                random() % 4 == 0,
                random() % 2 ? 1'000U : 1 + random() % 4,
                random() % 2 ? 1'000'000U : 1 + random() % 8};
        s.poisons = s.attempts != 0 ? random() % 3 : 0;
        s.has_limits = random() % 2 != 0;
        // One process that loses no hint, a short queue, and few deliveries at a time: limits leave
        // out much, which nothing but their own asking finds again.
        if (s.has_limits && random() % 2 != 0) {
            s.processes = s.shards = 1;
            s.faults = 0;
            s.window = 8;
            s.max_deliveries_per_turn = 1 + random() % 4;
        }
        random_choice choices(random, 300);
        world(choices, s).run(t);
    }
    return t;
}

void print(const char* what, const totals_of_runs& t) {
    std::printf("%s: %llu runs: %llu stored, %llu delivered (%llu retries), %llu cancelled, %llu "
                "dead, %llu swept, %llu evicted, %llu shards lost, %llu ids used again\n",
                what, t.runs, t.stored, t.delivered, t.retries, t.cancelled, t.dead, t.swept,
                t.evicted, t.lost, t.used_again);
    std::fflush(stdout);
}

}  // namespace

int main() {
    const std::uint64_t seed = support::from_environment("TVEC_SEED", std::random_device{}());
    std::printf("durable model: TVEC_SEED=%llu\n", static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    std::mt19937_64 random(seed);
    try {
        print("every order", every_order(support::from_environment("TVEC_DEPTH", 5)));
        print("random", random_orders(random, support::from_environment("TVEC_STEPS", 600'000)));
    } catch (const std::exception& e) {
        std::printf("durable model: %s\n", e.what());
        return 1;
    }
    return 0;
}
