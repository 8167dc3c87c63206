// skynet_timer.c on a wheel: threads arm under the spin lock, and one sends what is due, tick by
// tick in the order of the calls. It takes 64 at a time under the lock, and sorts them outside of
// it.
//
// On a clock of its own, with loads of its own. Prints the longest time for which the timer thread
// held the lock, and for which a thread waited for it, and how long ordinary ticks take beside
// busy workers. Exits with 1 if a message is lost, early, late, doubled or out of order, or if the
// timer thread yields although nobody waits for the lock.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tvec/tvec.h>

// [nodes]
struct timeout {  // timer_node: 48 bytes, and 64 of the heap
    struct tvec_timer timer;
    uint64_t number;  // of the call: the order on a tick
    uint32_t handle;
    int session;
};

enum { at_a_time = 64 };

struct timeouts {  // struct timer
    struct tvec_wheel wheel;
    atomic_flag lock;
    atomic_uint waiting;  // workers that wait for the lock
    uint64_t calls;
    uint64_t target;       // the tick that skynet_now() has come to: the wheel may be behind it
    struct timeout** due;  // taken, and not sent yet: by the timer thread alone
    size_t count, room;
};
// [nodes]

static void need(bool holds, const char* what) {
    if (holds) return;
    fprintf(stderr, "skynet: %s\n", what);
    exit(1);
}

// --- the lock -----------------------------------------------------------------------------------

static double begun, longest;     // of the thread that sends
static atomic_uint longest_wait;  // of others, in microseconds

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static _Thread_local bool is_timer_thread;

static void note_wait(double in_seconds) {
    const unsigned waited = (unsigned)(in_seconds * 1e6);
    unsigned most = longest_wait;
    while (waited > most && !atomic_compare_exchange_weak(&longest_wait, &most, waited)) {
    }
}

static bool try_lock(struct timeouts* t) {  // spinlock_trylock
    const bool taken = !atomic_flag_test_and_set_explicit(&t->lock, memory_order_acquire);
    if (taken && is_timer_thread) begun = seconds(CLOCK_THREAD_CPUTIME_ID);  // without others' time
    return taken;
}
static void lock(struct timeouts* t) {  // SPIN_LOCK
    const double before = seconds(CLOCK_MONOTONIC);
    while (!try_lock(t)) sched_yield();
    if (!is_timer_thread) note_wait(seconds(CLOCK_MONOTONIC) - before);
}
static void unlock(struct timeouts* t) {  // SPIN_UNLOCK
    const double held = is_timer_thread ? seconds(CLOCK_THREAD_CPUTIME_ID) - begun : 0;
    atomic_flag_clear_explicit(&t->lock, memory_order_release);
    if (is_timer_thread && held > longest) longest = held;
}

static unsigned yields;  // of the thread that sends

static void yield(void) {  // sched_yield
    ++yields;
    sched_yield();
}

// --- the timers of skynet_timer.c ----------------------------------------------------------------

static void send(const struct timeout* t, uint64_t tick);  // skynet_context_push

// [arm]
// skynet_timeout, for a time above 0.
static void timeout(struct timeouts* all, struct timeout* t, unsigned cs) {
    tvec_timer_init(&t->timer, NULL);  // it is taken, and calls nothing
    if (!try_lock(all)) {
        ++all->waiting;  // `update` yields
        lock(all);
        --all->waiting;
    }
    t->number = ++all->calls;
    tvec_arm_at(&all->wheel, &t->timer, all->target + cs);
    unlock(all);
}
// [arm]

// [update]
static bool take(void* context, struct tvec_timer* timer) {
    struct timeouts* t = context;
    t->due[t->count++] = TVEC_OWNER_OF(timer, struct timeout, timer);
    return true;
}

static int by_number(const void* a, const void* b) {
    const struct timeout *x = *(struct timeout*const*)a, *y = *(struct timeout*const*)b;
    return (x->number > y->number) - (x->number < y->number);
}

static void make_room(struct timeouts* t) {
    if (t->count + at_a_time <= t->room) return;
    t->room = 2 * t->room + at_a_time;
    t->due = realloc(t->due, t->room * sizeof(*t->due));
    need(t->due != NULL, "no memory");
}

static bool take_some(struct timeouts* t, uint64_t tick) {
    make_room(t);
    lock(t);
    const bool all_taken = tvec_collect(&t->wheel, tick, at_a_time, take, t).caught_up;
    unlock(t);
    return all_taken;
}

// timer_update, for each tick that has come: in the timer thread.
static void update(struct timeouts* t, uint64_t tick) {
    while (!take_some(t, tick))
        if (t->waiting != 0) yield();  // or the next turn takes the lock before them
    qsort(t->due, t->count, sizeof(*t->due), by_number);
    for (size_t i = 0; i < t->count; ++i) {
        send(t->due[i], tick);
        free(t->due[i]);
    }
    t->count = 0;
}
// [update]

// --- the messages -------------------------------------------------------------------------------

static uint64_t* earliest;        // for each session: its tick by skynet_now(); 0: it was sent
static _Atomic uint64_t current;  // skynet_now()
static unsigned over;             // messages that were sent
static uint64_t last_tick, last_number;
static int sessions;  // of each service

static uint64_t* earliest_of(const struct timeout* t) {
    return &earliest[(int)(t->handle - 1) * sessions + t->session];
}

static void send(const struct timeout* t, uint64_t tick) {
    need(tvec_expires(&t->timer) == tick, "a message is early or late");
    need(tick > last_tick || t->number > last_number, "a message is out of order");
    uint64_t* const due = earliest_of(t);
    need(*due != 0, "a message is sent twice");
    need(tick >= *due, "a message is early by skynet_now()");
    *due = 0;
    last_tick = tick;
    last_number = t->number;
    ++over;
}

// --- loads --------------------------------------------------------------------------------------

struct load {
    const char* what;
    unsigned messages, longest_delay, jump;
    bool on_one_tick;
};

static unsigned random_below(uint32_t* state, unsigned n) {
    *state = *state * 1664525 + 1013904223;
    return (unsigned)(((uint64_t)*state * n) >> 32);
}

// The nodes of a load in a random order of memory, as after hours of malloc and free.
static struct timeout** shuffled(unsigned n, uint32_t* random) {
    struct timeout** all = malloc(n * sizeof(*all));
    need(all != NULL, "no memory");
    for (unsigned i = 0; i < n; ++i) need((all[i] = malloc(sizeof(**all))) != NULL, "no memory");
    for (unsigned i = n; i > 1; --i) {
        const unsigned other = random_below(random, i);
        struct timeout* const t = all[i - 1];
        all[i - 1] = all[other];
        all[other] = t;
    }
    return all;
}

struct worker {
    pthread_t thread;
    struct timeouts* all;
    struct timeout** own;
    const struct load* load;
    uint32_t handle, random;
};

static void ask(struct timeouts* all, struct timeout* t, unsigned cs) {
    *earliest_of(t) = current + cs;
    timeout(all, t, cs);
}

static void* work(void* context) {
    struct worker* w = context;
    const struct load* l = w->load;
    for (int i = 1; i <= sessions; ++i) {
        struct timeout* t = w->own[i - 1];
        t->handle = w->handle;
        t->session = i;
        ask(w->all, t,
            l->on_one_tick ? l->longest_delay : 1 + random_below(&w->random, l->longest_delay));
    }
    return NULL;
}

enum { workers = 2 };

static void begin(struct timeouts* all, const struct load* l) {
    atomic_flag_clear(&all->lock);
    all->calls = all->target = 0;
    current = 0;
    tvec_wheel_init(&all->wheel, 0);
    tvec_wheel_share_by_lock(&all->wheel);
    earliest = calloc(l->messages + 1, sizeof(*earliest));
    need(earliest != NULL, "no memory");
    over = 0;
    longest_wait = 0;
    last_tick = last_number = 0;
    longest = 0;
    yields = 0;
    sessions = (int)(l->messages / workers);
}

static void check_and_end(struct timeouts* all, struct timeout** nodes) {
    need(!tvec_any_pending(&all->wheel), "a timeout is left");
    tvec_wheel_destroy(&all->wheel);
    free(all->due);
    all->due = NULL;
    all->room = 0;
    free(earliest);
    free(nodes);
}

// skynet_updatetime, where the clock has gone on by several ticks. A delay that is asked for
// meanwhile counts from the last of them: the wheel learns of it before skynet_now() does.
static void go_on(struct timeouts* all, uint64_t ticks) {
    lock(all);
    all->target += ticks;
    unlock(all);
    current += ticks;
    for (uint64_t i = 0; i < ticks; ++i) update(all, tvec_now(&all->wheel) + 1);
}

static void run_clock(struct timeouts* all, const struct load* l) {
    uint32_t random = 1;
    while (over < l->messages) go_on(all, 1 + random_below(&random, l->jump));
}

static void run(const struct load* l) {
    static struct timeouts all;
    uint32_t random = 1;
    begin(&all, l);
    struct timeout** nodes = shuffled(l->messages, &random);
    struct worker team[workers];
    for (unsigned i = 0; i < workers; ++i) {
        team[i] = (struct worker){0, &all, nodes + i * (unsigned)sessions, l, i + 1, i + 2};
        need(pthread_create(&team[i].thread, NULL, work, &team[i]) == 0, "no thread");
    }
    if (l->on_one_tick)  // armed for one tick, so the clock stands still until all are armed
        for (unsigned i = 0; i < workers; ++i) pthread_join(team[i].thread, NULL);
    run_clock(&all, l);
    if (!l->on_one_tick)
        for (unsigned i = 0; i < workers; ++i) pthread_join(team[i].thread, NULL);

    need(!l->on_one_tick || yields == 0, "yields, and nobody waits for the lock");
    printf("%-28s %7u, longest hold %.0f us, longest wait %u us\n", l->what, l->messages,
           longest * 1e6, longest_wait);
    check_and_end(&all, nodes);
}

// --- ordinary ticks -----------------------------------------------------------------------------

static void* handle_messages(void* ends) {
    while (!*(atomic_bool*)ends) continue;
    return NULL;
}

static void time_ticks(struct timeouts* all, unsigned ticks) {
    double sum = 0, most = 0;
    for (uint64_t tick = 1; tick <= ticks; ++tick) {
        nanosleep(&(struct timespec){.tv_nsec = 2500000}, NULL);
        const double before = seconds(CLOCK_MONOTONIC);
        update(all, tick);
        const double took = seconds(CLOCK_MONOTONIC) - before;
        sum += took;
        if (took > most) most = took;
    }
    printf("%-28s %7u, a tick takes %.0f us, the longest %.0f us\n", "beside busy workers", over,
           sum / ticks * 1e6, most * 1e6);
}

// Workers that handle messages, arm nothing, and want no lock.
static void run_beside_busy_workers(void) {
    static struct timeouts all;
    enum { ticks = 100, on_each = 10 };
    static const struct load l = {"", ticks * on_each, ticks, 1, false};
    uint32_t random = 1;
    begin(&all, &l);
    struct timeout** nodes = shuffled(l.messages, &random);
    for (unsigned i = 0; i < l.messages; ++i) {
        nodes[i]->handle = 1 + i % workers;
        nodes[i]->session = (int)(1 + i / workers);
        ask(&all, nodes[i], 1 + i / on_each);
    }
    atomic_bool ends = false;
    pthread_t team[workers];
    for (unsigned i = 0; i < workers; ++i)
        need(pthread_create(&team[i], NULL, handle_messages, &ends) == 0, "no thread");
    time_ticks(&all, ticks);
    ends = true;
    for (unsigned i = 0; i < workers; ++i) pthread_join(team[i], NULL);
    need(over == l.messages && yields == 0, "a message is lost, or a tick yields");
    check_and_end(&all, nodes);
}

int main(void) {
    is_timer_thread = true;
    static const struct load loads[] = {
        {"up to a minute", 100000, 6000, 1, false},
        {"ticks of 10000", 100000, 10, 1, false},
        {"in jumps of up to 40 ticks", 100000, 100000, 40, false},
        {"on one tick", 100000, 1000, 1, true},
    };
    for (size_t i = 0; i < sizeof(loads) / sizeof(*loads); ++i) run(&loads[i]);
    run_beside_busy_workers();
    return 0;
}
