// skynet's timeouts on a wheel: threads arm under a spin lock, and one sends what is due, in the
// order of the calls. It takes 64 at a time under the lock, and sorts them outside of it.
//
// On a clock of its own, with loads of its own. Prints the longest time for which the lock was
// held, and exits with 1 if a message is lost, early, late, doubled or out of order.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tvec/tvec.h>

struct timeout {
    struct tvec_timer timer;
    uint64_t number;  // of the call
    int session;
};

struct timeouts {
    struct tvec_wheel wheel;
    atomic_flag lock;
    uint64_t calls;
    struct timeout** due;  // taken, and not sent yet
    size_t count, room;
};

static bool take(void* context, struct tvec_timer* timer) {
    struct timeouts* t = context;
    t->due[t->count++] = TVEC_OWNER_OF(timer, struct timeout, timer);
    return true;
}

static int in_order(const void* a, const void* b) {
    const struct timeout *x = *(struct timeout*const*)a, *y = *(struct timeout*const*)b;
    const uint64_t s = tvec_expires(&x->timer), t = tvec_expires(&y->timer);
    return s != t ? (s > t) - (s < t) : (x->number > y->number) - (x->number < y->number);
}

static void need(bool holds, const char* what) {
    if (holds) return;
    fprintf(stderr, "skynet: %s\n", what);
    exit(1);
}

static void grow(struct timeouts* t) {
    if (t->count + 64 <= t->room) return;
    t->room = 2 * t->room + 64;
    t->due = realloc(t->due, t->room * sizeof(*t->due));
    need(t->due != NULL, "no memory");
}

// --- the lock -----------------------------------------------------------------------------------

static double begun, longest;  // of the thread that sends

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);  // without the time of others
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void lock(struct timeouts* t) {
    while (atomic_flag_test_and_set_explicit(&t->lock, memory_order_acquire)) sched_yield();
}
static void unlock(struct timeouts* t) {
    atomic_flag_clear_explicit(&t->lock, memory_order_release);
}

static void lock_to_take(struct timeouts* t) {
    grow(t);
    lock(t);
    begun = seconds();
}
static void unlock_after_taking(struct timeouts* t) {
    const double held = seconds() - begun;
    unlock(t);
    if (held > longest) longest = held;
}

// --- the messages -------------------------------------------------------------------------------

static uint64_t sent, last_tick, last_number, before, now;  // two readings of the loads' clock

static void send(struct timeout* t) {
    const uint64_t tick = tvec_expires(&t->timer);
    need(tick <= now, "a message is early");
    need(tick > before, "a message is late");
    need(tick >= last_tick, "a tick is out of order");
    need(tick != last_tick || t->number > last_number, "a message is out of order");
    last_tick = tick;
    last_number = t->number;
    ++sent;
    free(t);
}

// As skynet_timeout does.
static void timeout(struct timeouts* all, struct timeout* t, unsigned cs) {
    tvec_timer_init(&t->timer, NULL);  // it is taken, and calls nothing
    lock(all);
    t->number = ++all->calls;
    tvec_arm_after(&all->wheel, &t->timer, cs);
    unlock(all);
}

// As skynet_updatetime does, in its thread.
// [update]
static void update(struct timeouts* t, uint64_t tick) {
    bool all_taken = false;
    while (!all_taken) {
        lock_to_take(t);
        all_taken = tvec_collect(&t->wheel, tick, 64, take, t).caught_up;
        unlock_after_taking(t);  // and threads that arm get it
    }
    qsort(t->due, t->count, sizeof(*t->due), in_order);
    for (size_t i = 0; i < t->count; ++i) send(t->due[i]);
    t->count = 0;
}
// [update]

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
    unsigned count;
    uint32_t random;
};

static void* work(void* context) {
    struct worker* w = context;
    for (unsigned i = 0; i < w->count; ++i) {
        const unsigned most = w->load->longest_delay;
        timeout(w->all, w->own[i],
                w->load->on_one_tick ? most : 1 + random_below(&w->random, most));
    }
    return NULL;
}

static void run(const struct load* l) {
    enum { workers = 2 };
    static struct timeouts all;
    all = (struct timeouts){.lock = ATOMIC_FLAG_INIT};
    tvec_wheel_init(&all.wheel, 0);
    tvec_wheel_share_by_lock(&all.wheel);
    uint32_t random = 1;
    sent = last_tick = last_number = before = now = 0;
    longest = 0;

    struct timeout** nodes = shuffled(l->messages, &random);
    struct worker team[workers];
    for (unsigned i = 0; i < workers; ++i) {
        const unsigned each = l->messages / workers;
        team[i] = (struct worker){0, &all, nodes + i * each, l, each, i + 2};
        need(pthread_create(&team[i].thread, NULL, work, &team[i]) == 0, "no thread");
    }
    if (l->on_one_tick)  // armed for one tick, so the clock stands still until all are armed
        for (unsigned i = 0; i < workers; ++i) pthread_join(team[i].thread, NULL);
    while (sent < l->messages) {
        before = now;
        now += 1 + random_below(&random, l->jump);
        update(&all, now);
    }
    if (!l->on_one_tick)
        for (unsigned i = 0; i < workers; ++i) pthread_join(team[i].thread, NULL);

    need(!tvec_any_pending(&all.wheel), "a timeout is left");
    printf("%-28s %7u in order, longest hold %.0f us\n", l->what, l->messages, longest * 1e6);
    tvec_wheel_destroy(&all.wheel);
    free(all.due);
    free(nodes);
}

int main(void) {
    static const struct load loads[] = {
        {"up to a minute", 100000, 6000, 1, false},
        {"ticks of 10000", 100000, 10, 1, false},
        {"in jumps of up to 40 ticks", 100000, 100000, 40, false},
        {"on one tick", 100000, 1000, 1, true},
    };
    for (size_t i = 0; i < sizeof(loads) / sizeof(*loads); ++i) run(&loads[i]);
    return 0;
}
