// Runs a program again and again, each time with other choices: which thread goes on, and which
// write it reads. Choices are made depth first. A run is given up when it comes to a graph of steps
// that was there before.
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_map>
#include <utility>

#include "model.hpp"

namespace orders {

run_state run;
settings chosen;

namespace {

struct choice {
    std::uint16_t taken, of;
};
std::vector<choice> path;  // the choices of this run, and of the last one
std::size_t depth;

// The graphs that were reached, each with the fewest preemptions before it.
std::unordered_map<word, unsigned> known;

// --- threads: each on its own stack -------------------------------------------------------------

struct fiber {
    jmp_buf begin, here;
    alignas(64) char stack[1 << 16];
};
std::array<fiber, most_threads> fibers;
jmp_buf scheduler;
jmp_buf end_of_set_up;

void leave_thread() {
    if (_setjmp(fibers[run.running].here) == 0) _longjmp(scheduler, 1);
}

[[gnu::noinline]] void go_on_with(unsigned i) {
    thread& t = run.threads[i];
    t.how = sleeps::no;
    run.running = i;
    run.in_program = true;
    if (_setjmp(scheduler) == 0)
        _longjmp(std::exchange(t.has_begun, true) ? fibers[i].here : fibers[i].begin, 1);
    run.in_program = false;
    run.running = 0;
}

// The bottom of each stack. It begins a body for each run.
void live() {
    if (_setjmp(fibers[run.running].begin) == 0) _longjmp(scheduler, 1);
    (*run.threads[run.running].body)();
    run.threads[run.running].is_over = true;
    _longjmp(scheduler, 1);
}

[[gnu::noinline]] void make_fiber(unsigned i) {
    static ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = fibers[i].stack;
    context.uc_stack.ss_size = sizeof fibers[i].stack;
    makecontext(&context, live, 0);
    run.running = i;
    if (_setjmp(scheduler) == 0) setcontext(&context);
    run.running = 0;
}

bool can_go_on(const thread& t) {
    if (t.is_over) return false;
    const place& p = run.places[t.on];
    if (t.how == sleeps::until_not_zero) return p.order[p.count - 1]->value != 0;
    if (t.how == sleeps::until_notified)
        return p.notified && p.notified->position > t.has_read->position;
    return true;
}

// --- a run --------------------------------------------------------------------------------------

// Returns whether the set-up has not failed.
[[gnu::noinline]] bool set_up_by(program set_up) {
    run.write_count = run.place_count = run.thread_count = run.step_count = 0;
    run.running = run.set_up_as = 0;
    run.checks = nullptr;
    run.has_failed = false;
    std::fill(run.threads.begin(), run.threads.end(), thread{});
    reset_memory();
    if (setjmp(end_of_set_up) != 0) return false;
    run.in_program = true;
    set_up();
    run.in_program = false;
    run.set_up_as = run.step_count = depth = 0;
    run.graph = 0;
    for (unsigned i = 1; i <= run.thread_count; ++i) {
        run.threads[i].now = run.threads[0].now;
        run.threads[i].now.steps[i] = 1;
    }
    return true;
}

// Returns false if the state was reached before with no more preemptions.
bool is_new_state(unsigned last, unsigned preemptions) {
    word key = mix(run.graph, chosen.preemptions < 0 ? 0 : last);
    for (unsigned i = 1; i <= run.thread_count; ++i) {
        const thread& t = run.threads[i];
        key = mix(key, word{t.has_begun} | word{t.is_over} << 1 | static_cast<word>(t.how) << 2);
    }
    if (chosen.preemptions < 0) preemptions = 0;
    const auto [entry, is_new] = known.try_emplace(key, preemptions);
    return is_new ||
           preemptions < std::exchange(entry->second, std::min(entry->second, preemptions));
}

void run_threads() {
    unsigned last = 0, preemptions = 0;
    for (;;) {
        std::array<unsigned, most_threads> can;
        unsigned n = 0;
        const bool goes_on = last != 0 && can_go_on(run.threads[last]);
        if (goes_on) can[n++] = last;
        const bool may_change = !goes_on || chosen.preemptions < 0 ||
                                preemptions < static_cast<unsigned>(chosen.preemptions);
        bool is_over = true;
        for (unsigned i = 1; i <= run.thread_count; ++i) {
            is_over = is_over && run.threads[i].is_over;
            if (may_change && i != last && can_go_on(run.threads[i])) can[n++] = i;
        }
        if (is_over) break;
        if (n == 0) {
            run.has_failed = true;
            run.why = "a thread sleeps, and nobody will wake it";
            return;
        }
        if (depth == path.size() && !is_new_state(last, preemptions)) return;
        run.running = 1;  // so that a choice is made
        const unsigned next = can[choose(n)];
        preemptions += goes_on && next != last;
        last = next;
        go_on_with(next);
        if (run.has_failed) return;
    }
    if (run.checks && setjmp(end_of_set_up) == 0) (*run.checks)();
}

// Returns whether there is a choice that was not made yet, and makes it.
bool choose_otherwise() {
    while (!path.empty() && path.back().taken + 1 == path.back().of) path.pop_back();
    if (path.empty()) return false;
    ++path.back().taken;
    return true;
}

}  // namespace

unsigned choose(unsigned n) {
    if (n == 1 || run.running == 0) return 0;
    if (depth == path.size()) path.push_back({0, static_cast<std::uint16_t>(n)});
    if (path[depth].of != n) std::abort();  // the program is not the same in each run
    return path[depth++].taken;
}

void let_others_run() {
    if (run.running == 0) return;
    leave_thread();
    run.in_program = false;
}

void add_thread(const char* name, std::function<void()> body) {
    thread& t = run.threads[++run.thread_count];
    t.name = name;
    t.body = new std::function<void()>(std::move(body));
}

void in_the_end(std::function<void()> checks) {
    run.checks = new std::function<void()>(std::move(checks));
}

void set_up_as(unsigned thread) { run.set_up_as = thread; }

void fail(const char* what) {
    run.in_program = false;
    if (!std::exchange(run.has_failed, true)) run.why = what;
    _longjmp(run.running != 0 ? scheduler : end_of_set_up, 1);
}

outcome explore(program set_up, const settings& s) {
    static bool are_made = false;
    for (unsigned i = 1; i < most_threads && !are_made; ++i) make_fiber(i);
    are_made = true;
    chosen = s;
    known.clear();
    path.clear();
    do {
        if (set_up_by(set_up)) run_threads();
    } while (!run.has_failed && choose_otherwise());
    if (!run.has_failed) return {false, "", "", 0, known.size()};
    return {true, run.why, tell(), run.step_count, known.size()};
}

}  // namespace orders
