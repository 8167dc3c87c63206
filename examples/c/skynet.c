// skynet_timer.c on a wheel: threads arm under the spin lock, and one sends what is due, tick by
// tick in the order of the calls. It takes 64 at a time under the lock, and sorts them outside of
// it. Timeouts can be withdrawn, which skynet lacks.
//
// On a clock of its own, with loads of its own. Prints the longest time for which the timer thread
// held the lock, and for which a thread waited for it. Exits with 1 if a message is lost, early,
// late, doubled, withdrawn or out of order.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tvec/tvec.h>

struct timeout {  // 56 bytes, and 64 of the heap
    struct tvec_timer timer;
    uint64_t number;  // of the call: the order on a tick
    uint32_t handle;
    int session;           // counted by each service; 0: withdrawn
    struct timeout* next;  // with the same hash: only to withdraw it
};

enum { at_a_time = 64, hashes = 1 << 16 };

struct timeouts {
    struct tvec_wheel wheel;
    atomic_flag lock;
    uint64_t calls;
    struct timeout** due;  // taken, and not sent yet
    size_t count, room;
    struct timeout* unsent[hashes];  // by handle and session: only to withdraw them
};

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

static void lock(struct timeouts* t) {
    while (atomic_flag_test_and_set_explicit(&t->lock, memory_order_acquire)) sched_yield();
}
static void unlock(struct timeouts* t) {
    atomic_flag_clear_explicit(&t->lock, memory_order_release);
}

// Of the timer thread. Without the yield its next turn takes the lock before a thread that spins.
static void lock_in_turns(struct timeouts* t) {
    lock(t);
    begun = seconds(CLOCK_THREAD_CPUTIME_ID);  // without the time of others
}
static void unlock_in_turns(struct timeouts* t) {
    const double held = seconds(CLOCK_THREAD_CPUTIME_ID) - begun;
    unlock(t);
    if (held > longest) longest = held;
    sched_yield();
}

static void lock_and_note(struct timeouts* t) {
    const double before = seconds(CLOCK_MONOTONIC);
    lock(t);
    const unsigned waited = (unsigned)((seconds(CLOCK_MONOTONIC) - before) * 1e6);
    unsigned most = longest_wait;
    while (waited > most && !atomic_compare_exchange_weak(&longest_wait, &most, waited)) {
    }
}

// --- the timers of skynet_timer.c ----------------------------------------------------------------

static void send(const struct timeout* t, uint64_t tick);  // skynet_context_push

static uint32_t hash_of(uint32_t handle, int session) {
    return (handle * 0x9e3779b1u + (uint32_t)session) % hashes;
}

// Where the timeout of this session of a service is named, or would be.
static struct timeout** place_of(struct timeouts* all, uint32_t handle, int session) {
    struct timeout** place = &all->unsent[hash_of(handle, session)];
    while (*place != NULL && ((*place)->handle != handle || (*place)->session != session))
        place = &(*place)->next;
    return place;
}

static void name(struct timeouts* all, struct timeout* t) {
    struct timeout** first = &all->unsent[hash_of(t->handle, t->session)];
    t->next = *first;
    *first = t;
}

// [arm]
// skynet_timeout, for a time above 0.
static void timeout(struct timeouts* all, struct timeout* t, unsigned cs) {
    tvec_timer_init(&t->timer, NULL);  // it is taken, and calls nothing
    lock_and_note(all);
    t->number = ++all->calls;
    tvec_arm_after(&all->wheel, &t->timer, cs);
    name(all, t);  // only to withdraw it
    unlock(all);
}
// [arm]

// [withdraw]
// Returns whether the message will not be sent: it has not been, and is not being sent.
static bool withdraw(struct timeouts* all, uint32_t handle, int session) {
    lock_and_note(all);
    struct timeout** place = place_of(all, handle, session);
    struct timeout* t = *place;
    const bool waits = t != NULL;
    if (waits) *place = t->next;
    if (waits && !tvec_unlink(&t->timer)) {
        t->session = 0;  // it was taken: the timer thread drops it
        t = NULL;
    }
    unlock(all);
    free(t);
    return waits;
}
// [withdraw]

static bool take(void* context, struct tvec_timer* timer) {
    struct timeouts* t = context;
    t->due[t->count++] = TVEC_OWNER_OF(timer, struct timeout, timer);
    return true;
}

static int by_number(const void* a, const void* b) {
    const struct timeout *x = *(struct timeout*const*)a, *y = *(struct timeout*const*)b;
    return (x->number > y->number) - (x->number < y->number);
}

static void grow(struct timeouts* t) {
    if (t->count + at_a_time <= t->room) return;
    t->room = 2 * t->room + at_a_time;
    t->due = realloc(t->due, t->room * sizeof(*t->due));
    need(t->due != NULL, "no memory");
}

// Sends at most 64. From here on they cannot be withdrawn.
static void send_some(struct timeouts* t, struct timeout** some, size_t n, uint64_t tick) {
    lock_in_turns(t);
    for (size_t i = 0; i < n; ++i) {
        struct timeout** place = place_of(t, some[i]->handle, some[i]->session);
        if (*place != NULL) *place = some[i]->next;
    }
    unlock_in_turns(t);
    for (size_t i = 0; i < n; ++i) {
        if (some[i]->session != 0) send(some[i], tick);
        free(some[i]);
    }
}

// [update]
// timer_update, for each tick that has come: in the timer thread.
static void update(struct timeouts* t, uint64_t tick) {
    for (bool all_taken = false; !all_taken;) {
        grow(t);
        lock_in_turns(t);
        all_taken = tvec_collect(&t->wheel, tick, at_a_time, take, t).caught_up;
        unlock_in_turns(t);  // and yields to threads that arm
    }
    qsort(t->due, t->count, sizeof(*t->due), by_number);
    for (size_t i = 0; i < t->count; i += at_a_time)
        send_some(t, t->due + i, t->count - i < at_a_time ? t->count - i : at_a_time, tick);
    t->count = 0;
}
// [update]

// --- the messages -------------------------------------------------------------------------------

enum state { waiting, was_sent, was_withdrawn };
static atomic_uchar* states;  // of the sessions
static atomic_uint over;      // sent or withdrawn
static uint64_t last_tick, last_number;
static struct timeouts* withdrawn_from;  // if those who get a message withdraw others
static int sessions;                     // of each service

static void end(uint32_t handle, int session, enum state as) {
    atomic_uchar* const state = &states[(int)(handle - 1) * sessions + session];
    need(atomic_exchange(state, as) == waiting, "a message has two ends");
    ++over;
}

static void send(const struct timeout* t, uint64_t tick) {
    need(tvec_expires(&t->timer) == tick, "a message is early or late");
    need(tick > last_tick || t->number > last_number, "a message is out of order");
    last_tick = tick;
    last_number = t->number;
    end(t->handle, t->session, was_sent);
    const int other = t->session + 150;  // on the same tick, so it was taken, too
    if (withdrawn_from == NULL || other > sessions) return;
    if (withdraw(withdrawn_from, t->handle, other)) end(t->handle, other, was_withdrawn);
}

// --- loads --------------------------------------------------------------------------------------

struct load {
    const char* what;
    unsigned messages, longest_delay, jump;
    bool on_one_tick;
    unsigned withdraw;  // one of so many, or none
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

static void* work(void* context) {
    struct worker* w = context;
    const struct load* l = w->load;
    for (int i = 1; i <= sessions; ++i) {
        struct timeout* t = w->own[i - 1];
        t->handle = w->handle;
        t->session = i;
        timeout(w->all, t,
                l->on_one_tick ? l->longest_delay : 1 + random_below(&w->random, l->longest_delay));
        if (l->withdraw == 0 || random_below(&w->random, l->withdraw) != 0) continue;
        const int session = 1 + (int)random_below(&w->random, (unsigned)i);
        if (withdraw(w->all, w->handle, session)) end(w->handle, session, was_withdrawn);
    }
    return NULL;
}

enum { workers = 2 };

static void begin(struct timeouts* all, const struct load* l) {
    memset(all->unsent, 0, sizeof(all->unsent));
    atomic_flag_clear(&all->lock);
    all->calls = 0;
    tvec_wheel_init(&all->wheel, 0);
    tvec_wheel_share_by_lock(&all->wheel);
    states = calloc(l->messages + 1, 1);
    need(states != NULL, "no memory");
    over = longest_wait = 0;
    last_tick = last_number = 0;
    longest = 0;
    withdrawn_from = l->withdraw != 0 ? all : NULL;
    sessions = (int)(l->messages / workers);
}

static void end_all(struct timeouts* all) {
    tvec_wheel_destroy(&all->wheel);
    free(all->due);
    all->due = NULL;
    all->room = 0;
    free(states);
}

// As skynet_updatetime does: the clock may have gone on by several ticks.
static void run_clock(struct timeouts* all, const struct load* l) {
    uint32_t random = 1;
    for (uint64_t now = 0; over < l->messages;) {
        const uint64_t before = now;
        now += 1 + random_below(&random, l->jump);
        for (uint64_t tick = before + 1; tick <= now; ++tick) update(all, tick);
    }
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

    need(!tvec_any_pending(&all.wheel), "a timeout is left");
    printf("%-28s %7u, longest hold %.0f us, longest wait %u us\n", l->what, l->messages,
           longest * 1e6, longest_wait);
    end_all(&all);
    free(nodes);
}

int main(void) {
    static const struct load loads[] = {
        {"up to a minute", 100000, 6000, 1, false, 0},
        {"ticks of 10000", 100000, 10, 1, false, 0},
        {"in jumps of up to 40 ticks", 100000, 100000, 40, false, 0},
        {"on one tick", 100000, 1000, 1, true, 0},
        {"half of them withdrawn", 100000, 1000, 1, true, 2},
    };
    for (size_t i = 0; i < sizeof(loads) / sizeof(*loads); ++i) run(&loads[i]);
    return 0;
}
