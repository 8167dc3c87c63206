/* librte_timer.so.23 of DPDK 22.11 with a wheel of tvec for each lcore, in place of its skip list.
 * A tick is 32 cycles of rte_get_timer_cycles(). Deadlines round up to a tick.
 *
 * In a timer, sl_next[0..3] is the tvec_timer, and sl_next[4] the link of the list of expired
 * timers. They mean something only while the timer is PENDING or RUNNING.
 *
 * The status word is the protocol between lcores that rte_timer.h describes: CONFIG and RUNNING are
 * locks. Each wheel has a lock of its own, and every lcore may arm and unlink in every wheel under
 * it. rte_timer_manage takes the expired timers under the lock, and calls them without it. */
#include <assert.h>
#include <errno.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_eal_memconfig.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_pause.h>
#include <rte_spinlock.h>
#include <rte_timer.h>
#include <stdio.h>
#include <string.h>
#include <tvec/tvec.h>

enum { tick_shift = 5, ids = 64 };

struct node { /* what lies in sl_next */
    struct tvec_timer timer;
    struct rte_timer* next;
};
_Static_assert(sizeof(struct node) <= sizeof(((struct rte_timer*)0)->sl_next), "it fits");

struct lcore { /* of one id */
    rte_spinlock_t lock;
    int updated; /* a callback has stopped or reset its own timer */
    unsigned prev_lcore;
    struct rte_timer* running;
    struct tvec_wheel* wheel; /* made when the id is allocated, or by the first reset */
    uint64_t first;           /* cycles: nothing expires earlier; UINT64_MAX: nothing is pending */
} __rte_cache_aligned;

static struct data {
    struct lcore lcore[RTE_MAX_LCORE];
    bool allocated;
} data[ids];
static bool initialized;

static inline struct node* node_of(struct rte_timer* t) { return (struct node*)(void*)t->sl_next; }
static inline struct rte_timer* timer_of(struct tvec_timer* t) {
    return RTE_PTR_SUB(t, offsetof(struct rte_timer, sl_next));
}
static inline struct data* data_of(uint32_t id) {
    return id < ids && data[id].allocated ? &data[id] : NULL;
}
static inline uint64_t tick_of(uint64_t cycles) {
    const uint64_t up = (1u << tick_shift) - 1;
    return cycles > UINT64_MAX - up ? TVEC_NEVER : (cycles + up) >> tick_shift;
}
static inline uint64_t cycles_of(uint64_t tick) {
    return tick == TVEC_NEVER ? UINT64_MAX : tick << tick_shift;
}
static inline uint32_t status_of(uint16_t state, int owner) {
    const union rte_timer_status s = {{.state = state, .owner = (int16_t)owner}};
    return s.u32;
}
static inline void publish(struct rte_timer* t, uint16_t state, int owner) {
    __atomic_store_n(&t->status.u32, status_of(state, owner), __ATOMIC_RELEASE);
}
static inline bool claim(struct rte_timer* t, uint32_t was, uint16_t state) {
    return __atomic_compare_exchange_n(&t->status.u32, &was, status_of(state, (int)rte_lcore_id()),
                                       0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Returns NULL if there is no memory. Under the lock of `l`, or before `l` is used. */
static struct tvec_wheel* wheel_of(struct lcore* l, unsigned of) {
    if (likely(l->wheel != NULL)) return l->wheel;
    const int socket = (int)rte_lcore_to_socket_id(of);
    l->wheel = rte_malloc_socket("tvec", sizeof *l->wheel, TVEC_WHEEL_ALIGNMENT, socket);
    if (l->wheel == NULL) return NULL;
    tvec_wheel_init(l->wheel, rte_get_timer_cycles() >> tick_shift);
    tvec_wheel_share_by_lock(l->wheel);
    l->prev_lcore = of;
    __atomic_store_n(&l->first, UINT64_MAX, __ATOMIC_RELAXED);
    return l->wheel;
}

/* Appends an expired timer to the list whose end is `end`, unless another lcore configures it, and
 * waits for the lock. */
static bool take(void* end, struct tvec_timer* expired) {
    struct rte_timer ***const last = end, *const t = timer_of(expired);
    const union rte_timer_status was = {.u32 = __atomic_load_n(&t->status.u32, __ATOMIC_RELAXED)};
    if (was.state != RTE_TIMER_PENDING || !claim(t, was.u32, RTE_TIMER_RUNNING)) return true;
    **last = t;
    *last = &node_of(t)->next;
    return true;
}

/* Returns the list of the timers that have expired by `now`. */
static struct rte_timer* take_expired(struct lcore* l, uint64_t now) {
    struct rte_timer *expired = NULL, **end = &expired;
    if (likely(__atomic_load_n(&l->first, __ATOMIC_RELAXED) > now)) return NULL;
    rte_spinlock_lock(&l->lock);
    if (l->wheel != NULL) {
        tvec_collect(l->wheel, now >> tick_shift, TVEC_UNLIMITED, take, &end);
        __atomic_store_n(&l->first, cycles_of(tvec_next_wakeup(l->wheel)), __ATOMIC_RELAXED);
    }
    *end = NULL;
    rte_spinlock_unlock(&l->lock);
    return expired;
}

static void unlink_from(struct lcore* l, struct rte_timer* t) {
    rte_spinlock_lock(&l->lock);
    tvec_unlink(&node_of(t)->timer); /* its memory may be freed afterwards */
    rte_spinlock_unlock(&l->lock);
}

/* Returns false if there is no memory for a wheel. */
static bool arm(struct data* d, struct rte_timer* t, unsigned target, bool is_linked_there) {
    struct lcore* const l = &d->lcore[target];
    rte_spinlock_lock(&l->lock);
    struct tvec_wheel* const w = wheel_of(l, target);
    if (likely(w != NULL)) {
        struct tvec_timer* const timer = &node_of(t)->timer;
        if (!is_linked_there) tvec_timer_init(timer, NULL); /* it is taken, and calls nothing */
        tvec_arm_at(w, timer, tick_of(t->expire));
        if (t->expire < l->first) __atomic_store_n(&l->first, t->expire, __ATOMIC_RELAXED);
    }
    publish(t, w ? RTE_TIMER_PENDING : RTE_TIMER_STOP, w ? (int)target : RTE_TIMER_NO_OWNER);
    rte_spinlock_unlock(&l->lock);
    return w != NULL;
}

/* Makes this lcore the only one that may touch the timer, or returns -1. */
static int configure(struct rte_timer* t, struct data* d, union rte_timer_status* was) {
    const unsigned me = rte_lcore_id();
    do {
        was->u32 = __atomic_load_n(&t->status.u32, __ATOMIC_RELAXED);
        if (was->state == RTE_TIMER_CONFIG) return -1;
        if (was->state == RTE_TIMER_RUNNING &&
            (was->owner != (int16_t)me || me >= RTE_MAX_LCORE || t != d->lcore[me].running))
            return -1;
    } while (!claim(t, was->u32, RTE_TIMER_CONFIG));
    if (was->state == RTE_TIMER_RUNNING) d->lcore[me].updated = 1;
    return 0;
}

static int reset_at(struct rte_timer* t, uint64_t expire, uint64_t period, unsigned target,
                    rte_timer_cb_t f, void* arg, struct data* d) {
    union rte_timer_status was;
    const unsigned me = rte_lcore_id();
    if (target == (unsigned)LCORE_ID_ANY) {
        unsigned* const prev = &d->lcore[me % RTE_MAX_LCORE].prev_lcore;
        target = *prev = rte_get_next_lcore(*prev, 0, 1);
    }
    if (configure(t, d, &was) != 0) return -1;
    const bool is_linked = was.state == RTE_TIMER_PENDING;
    const bool is_linked_there = is_linked && (unsigned)was.owner == target;
    if (is_linked && !is_linked_there) unlink_from(&d->lcore[was.owner], t);
    t->expire = expire;
    t->period = period;
    t->f = f;
    t->arg = arg;
    return arm(d, t, target, is_linked_there) ? 0 : -1;
}

/* Calls an expired timer on this lcore. It may be gone afterwards. */
static void run(struct rte_timer* t, struct data* d, rte_timer_alt_manage_cb_t f) {
    const unsigned me = rte_lcore_id();
    struct lcore* const l = &d->lcore[me];
    l->updated = 0;
    l->running = t;
    if (f != NULL)
        f(t);
    else
        t->f(t, t->arg);
    if (!l->updated) {
        if (t->period == 0)
            publish(t, RTE_TIMER_STOP, RTE_TIMER_NO_OWNER);
        else
            reset_at(t, t->expire + t->period, t->period, me, t->f, t->arg, d);
    }
    l->running = NULL;
}

/* --- the interface ---------------------------------------------------------------------------- */

/* Wheels are made here, not by the first reset: 82 KB to touch, and a reset must not fail. */
static int allocate(struct data* d) {
    unsigned c;
    RTE_LCORE_FOREACH(c) if (wheel_of(&d->lcore[c], c) == NULL) return -ENOMEM;
    d->allocated = true;
    return 0;
}

int rte_timer_data_alloc(uint32_t* id) {
    if (!initialized) return -ENOMEM;
    for (uint32_t i = 0; i < ids; ++i) {
        if (data[i].allocated) continue;
        if (id != NULL) *id = i;
        return allocate(&data[i]);
    }
    return -ENOSPC;
}

int rte_timer_data_dealloc(uint32_t id) {
    return data_of(id) ? data[id].allocated = false, 0 : -EINVAL;
}

/* Timers are not looked at: their memory may be gone. */
static void free_wheels(void) {
    for (uint32_t i = 0; i < ids; ++i)
        for (unsigned c = 0; c < RTE_MAX_LCORE; ++c) rte_free(data[i].lcore[c].wheel);
    memset(data, 0, sizeof data);
}

int rte_timer_subsystem_init(void) {
    if (rte_eal_process_type() == RTE_PROC_SECONDARY) {
        fputs("librte_timer on tvec: no timers in secondary processes: use DPDK's library\n",
              stderr);
        return -ENOTSUP;
    }
    rte_mcfg_timer_lock();
    const int result = initialized ? -EALREADY : allocate(&data[0]);
    if (result == 0) initialized = true;
    if (result == -ENOMEM) free_wheels();
    rte_mcfg_timer_unlock();
    return result;
}

void rte_timer_subsystem_finalize(void) {
    rte_mcfg_timer_lock();
    if (initialized) free_wheels();
    initialized = false;
    rte_mcfg_timer_unlock();
}

void rte_timer_init(struct rte_timer* t) { publish(t, RTE_TIMER_STOP, RTE_TIMER_NO_OWNER); }

int rte_timer_alt_reset(uint32_t id, struct rte_timer* t, uint64_t ticks, enum rte_timer_type type,
                        unsigned target, rte_timer_cb_t f, void* arg) {
    const uint64_t now = rte_get_timer_cycles();
    struct data* const d = data_of(id);
    if (unlikely(d == NULL)) return -EINVAL;
    return reset_at(t, now + ticks, type == PERIODICAL ? ticks : 0, target, f, arg, d);
}

int rte_timer_reset(struct rte_timer* t, uint64_t ticks, enum rte_timer_type type, unsigned target,
                    rte_timer_cb_t f, void* arg) {
    return rte_timer_alt_reset(0, t, ticks, type, target, f, arg);
}

void rte_timer_reset_sync(struct rte_timer* t, uint64_t ticks, enum rte_timer_type type,
                          unsigned target, rte_timer_cb_t f, void* arg) {
    while (rte_timer_reset(t, ticks, type, target, f, arg) != 0) rte_pause();
}

int rte_timer_alt_stop(uint32_t id, struct rte_timer* t) {
    union rte_timer_status was;
    struct data* const d = data_of(id);
    if (unlikely(d == NULL)) return -EINVAL;
    if (configure(t, d, &was) != 0) return -1;
    if (was.state == RTE_TIMER_PENDING) unlink_from(&d->lcore[was.owner], t);
    publish(t, RTE_TIMER_STOP, RTE_TIMER_NO_OWNER);
    return 0;
}

int rte_timer_stop(struct rte_timer* t) { return rte_timer_alt_stop(0, t); }

void rte_timer_stop_sync(struct rte_timer* t) {
    while (rte_timer_stop(t) != 0) rte_pause();
}

int rte_timer_pending(struct rte_timer* t) {
    return __atomic_load_n(&t->status.state, __ATOMIC_RELAXED) == RTE_TIMER_PENDING;
}

int rte_timer_manage(void) {
    struct data* const d = data_of(0);
    if (unlikely(d == NULL)) return -EINVAL;
    assert(rte_lcore_id() < RTE_MAX_LCORE);
    struct lcore* const l = &d->lcore[rte_lcore_id()];
    if (__atomic_load_n(&l->first, __ATOMIC_RELAXED) == UINT64_MAX) return 0;
    for (struct rte_timer *t = take_expired(l, rte_get_timer_cycles()), *next; t; t = next) {
        next = node_of(t)->next;
        run(t, d, NULL);
    }
    return 0;
}

int rte_timer_alt_manage(uint32_t id, unsigned* lcores, int n, rte_timer_alt_manage_cb_t f) {
    struct data* const d = data_of(id);
    unsigned me = rte_lcore_id();
    struct rte_timer* lists[RTE_MAX_LCORE];
    if (d == NULL) return -EINVAL;
    assert(me < RTE_MAX_LCORE);
    if (lcores == NULL) lcores = &me, n = 1;
    for (int i = 0; i < n; ++i)
        lists[i] = take_expired(&d->lcore[lcores[i]], rte_get_timer_cycles());
    for (;;) {
        struct rte_timer** first = NULL; /* the oldest of all lists */
        for (int i = 0; i < n; ++i)
            if (lists[i] && (!first || lists[i]->expire < (*first)->expire)) first = &lists[i];
        if (first == NULL) return 0;
        struct rte_timer* const t = *first;
        *first = node_of(t)->next;
        run(t, d, f);
    }
}

struct stopped {
    struct data* data;
    struct rte_timer* first;
};

static bool take_out(void* context, struct tvec_timer* timer) {
    struct stopped* const all = context;
    struct rte_timer* const t = timer_of(timer);
    union rte_timer_status was;
    if (configure(t, all->data, &was) != 0) return true;
    tvec_unlink(timer);
    node_of(t)->next = all->first;
    all->first = t;
    return true;
}

int rte_timer_stop_all(uint32_t id, unsigned* lcores, int n, rte_timer_stop_all_cb_t f, void* arg) {
    struct stopped all = {data_of(id), NULL};
    if (all.data == NULL) return -EINVAL;
    for (int i = 0; i < n; ++i) {
        struct lcore* const l = &all.data->lcore[lcores[i]];
        rte_spinlock_lock(&l->lock);
        if (l->wheel != NULL) tvec_for_each_pending(l->wheel, take_out, &all);
        rte_spinlock_unlock(&l->lock);
    }
    for (struct rte_timer *t = all.first, *next; t; t = next) {
        next = node_of(t)->next;
        publish(t, RTE_TIMER_STOP, RTE_TIMER_NO_OWNER);
        if (f != NULL) f(t, arg);
    }
    return 0;
}

int64_t rte_timer_next_ticks(void) {
    struct data* const d = data_of(0);
    if (d == NULL) return -EINVAL;
    struct lcore* const l = &d->lcore[rte_lcore_id()];
    rte_spinlock_lock(&l->lock);
    const uint64_t first = l->wheel ? tvec_next_expiry(l->wheel) : TVEC_NEVER;
    rte_spinlock_unlock(&l->lock);
    if (first == TVEC_NEVER) return -ENOENT;
    const uint64_t at = cycles_of(first), now = rte_get_timer_cycles();
    return at > now ? (int64_t)RTE_MIN(at - now, (uint64_t)INT64_MAX) : 0;
}

int rte_timer_alt_dump_stats(uint32_t id, FILE* f) {
    if (data_of(id) == NULL) return -EINVAL;
    return fputs("No timer statistics, RTE_LIBRTE_TIMER_DEBUG is disabled\n", f), 0;
}

int rte_timer_dump_stats(FILE* f) { return rte_timer_alt_dump_stats(0, f); }
