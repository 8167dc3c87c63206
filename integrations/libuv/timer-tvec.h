/* The timers of a libuv loop on a tvec wheel; timer.c includes this in the place of heap-inl.h.
 *
 * One tick is a millisecond of loop->time. A timer that is active hangs in the wheel if its timeout
 * is after the wheel's time; if not, it is in the queue of those that are due, in the order in
 * which they are to run.
 *
 * A handle keeps its size and its fields. Its tvec_timer takes the four words that all handles have
 * in `u`, and of which a timer uses none; the links of the queue are in heap_node.
 *
 * The wheel may have to be woken before the first timeout: timers sink in it, and what was stopped
 * hangs there until it comes by. Such a wake-up does not end the poll (uv__sink_timers), so a loop
 * turns no more often than on a heap. */
#ifndef UV_TIMER_TVEC_H_
#define UV_TIMER_TVEC_H_

#include <stdlib.h>

#include "queue.h"
#include "tvec/tvec.h"

struct uv__timers {
    struct tvec_wheel wheel;
    QUEUE due;
    int is_sorted;
    uint64_t first; /* timeout in the wheel; TVEC_NEVER: there is none; 0: not known */
};

/* What timer.c takes for a heap and for a node of it. */
struct heap {
    struct uv__timers* timers;
};

struct heap_node {
    QUEUE link;
};

typedef int (*heap_compare_fn)(const struct heap_node* a, const struct heap_node* b);

/* Of timer.c: the order in which timers run, by timeout, and then as they were started. */
static int timer_less_than(const struct heap_node* a, const struct heap_node* b);

STATIC_ASSERT(sizeof(struct tvec_timer) == sizeof(((uv_timer_t*)0)->u));
STATIC_ASSERT(sizeof(struct heap_node) <= sizeof(((uv_timer_t*)0)->heap_node));

static struct uv__timers* timers_of(const uv_loop_t* loop) { return loop->timer_heap.min; }

static struct tvec_timer* timer_of(uv_timer_t* handle) {
    return (struct tvec_timer*)handle->u.reserved;
}

static uv_timer_t* handle_of(struct heap_node* node) {
    return container_of(node, uv_timer_t, heap_node);
}

static int is_less(QUEUE* a, QUEUE* b) {
    return timer_less_than((struct heap_node*)a, (struct heap_node*)b);
}

static int is_due(const struct uv__timers* timers, const uv_timer_t* handle) {
    return handle->timeout <= tvec_now(&timers->wheel);
}

/* To the end where it belongs, if it is one of them: a slot that was filled in one go comes in the
 * order of starting, or in the reverse. */
static void on_due(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    struct uv__timers* timers = TVEC_OWNER_OF(wheel, struct uv__timers, wheel);
    uv_timer_t* handle = TVEC_OWNER_OF(timer, uv_timer_t, u);
    QUEUE* link = (QUEUE*)handle->heap_node;
    QUEUE* due = &timers->due;
    if (!QUEUE_EMPTY(due) && is_less(link, QUEUE_HEAD(due))) {
        QUEUE_INSERT_HEAD(due, link);
        return;
    }
    if (!QUEUE_EMPTY(due) && is_less(link, QUEUE_PREV(due))) timers->is_sorted = 0;
    QUEUE_INSERT_TAIL(due, link);
}

/* Both end with NULL, as does what comes of them. */
static QUEUE* merge(QUEUE* a, QUEUE* b) {
    QUEUE head;
    QUEUE* last = &head;
    while (a != NULL && b != NULL) {
        QUEUE** least = is_less(b, a) ? &b : &a;
        QUEUE_NEXT(last) = *least;
        last = *least;
        *least = QUEUE_NEXT(last);
    }
    QUEUE_NEXT(last) = a != NULL ? a : b;
    return QUEUE_NEXT(&head);
}

/* Merges runs of equal length as they come up: runs[i] has 2^i links, or none. */
static QUEUE* merge_sort(QUEUE* list) {
    QUEUE* runs[64] = {NULL};
    QUEUE* sorted = NULL;
    int i;
    while (list != NULL) {
        QUEUE* run = list;
        list = QUEUE_NEXT(list);
        QUEUE_NEXT(run) = NULL;
        for (i = 0; runs[i] != NULL; i++) {
            run = merge(runs[i], run);
            runs[i] = NULL;
        }
        runs[i] = run;
    }
    for (i = 0; i < 64; i++) sorted = merge(runs[i], sorted);
    return sorted;
}

static void sort_due(struct uv__timers* timers) {
    QUEUE* due = &timers->due;
    QUEUE* next;
    QUEUE* link;
    if (timers->is_sorted) return;
    timers->is_sorted = 1;
    QUEUE_NEXT(QUEUE_PREV(due)) = NULL;
    link = merge_sort(QUEUE_HEAD(due));
    QUEUE_INIT(due);
    for (; link != NULL; link = next) {
        next = QUEUE_NEXT(link);
        QUEUE_INSERT_TAIL(due, link);
    }
}

/* The timer that runs next, or NULL. The wheel goes from wake-up to wake-up, so all in the queue
 * come from one tick; what a callback starts for now, after the wheel has come there, is the last.
 */
static uv_timer_t* next_due(uv_loop_t* loop) {
    struct uv__timers* timers = timers_of(loop);
    while (QUEUE_EMPTY(&timers->due)) {
        uint64_t until;
        if (tvec_now(&timers->wheel) >= loop->time) return NULL;
        until = tvec_next_wakeup(&timers->wheel);
        if (until > loop->time) until = loop->time;
        tvec_advance(&timers->wheel, until, TVEC_UNLIMITED);
        if (timers->first <= until) timers->first = 0;
        sort_due(timers);
    }
    return handle_of((struct heap_node*)QUEUE_HEAD(&timers->due));
}

static void heap_insert(struct heap* heap, struct heap_node* node, heap_compare_fn less_than) {
    struct uv__timers* timers = heap->timers;
    uv_timer_t* handle = handle_of(node);
    (void)less_than;
    if (is_due(timers, handle)) {
        QUEUE_INSERT_TAIL(&timers->due, &node->link);
        return;
    }
    tvec_arm_at(&timers->wheel, timer_of(handle), handle->timeout);
    if (handle->timeout < timers->first) timers->first = handle->timeout;
}

static void heap_remove(struct heap* heap, struct heap_node* node, heap_compare_fn less_than) {
    uv_timer_t* handle = handle_of(node);
    (void)less_than;
    if (is_due(heap->timers, handle)) {
        QUEUE_REMOVE(&node->link);
        return;
    }
    tvec_cancel(timer_of(handle));
    if (handle->timeout == heap->timers->first) heap->timers->first = 0;
}

static int timeout_until(const uv_loop_t* loop, uint64_t tick) {
    if (tick <= loop->time) return 0;
    return tick - loop->time > INT_MAX ? INT_MAX : (int)(tick - loop->time);
}

int uv__timers_init(uv_loop_t* loop) {
    struct uv__timers* timers = aligned_alloc(TVEC_WHEEL_ALIGNMENT, sizeof(*timers));
    if (timers == NULL) return UV_ENOMEM;
    tvec_wheel_init(&timers->wheel, loop->time);
    QUEUE_INIT(&timers->due);
    timers->is_sorted = 1;
    timers->first = TVEC_NEVER;
    loop->timer_heap.min = timers;
    return 0;
}

void uv__timers_free(uv_loop_t* loop) {
    if (timers_of(loop) == NULL) return;
    tvec_wheel_destroy(&timers_of(loop)->wheel);
    free(timers_of(loop));
    loop->timer_heap.min = NULL;
}

/* How long the loop may sleep: never longer than to the first timeout. */
int uv__next_timeout(const uv_loop_t* loop) {
    struct uv__timers* timers = timers_of(loop);
    uint64_t tick;
    if (!QUEUE_EMPTY(&timers->due)) return 0;
    tick = tvec_next_wakeup(&timers->wheel);
    return tick == TVEC_NEVER ? -1 : timeout_until(loop, tick);
}

/* When a poll has lasted as long as uv__next_timeout said, and nothing came: how long it is to go
 * on. 0 if a timer is due now. Calls none. */
int uv__sink_timers(uv_loop_t* loop) {
    uv__metrics_update_idle_time(loop); /* of which the next poll begins to count anew */
    return next_due(loop) != NULL ? 0 : uv__next_timeout(loop);
}

/* For uv_backend_timeout, which programs see: `timeout`, of uv__next_timeout or 0, but exactly to
 * the first timeout. If a first timer was stopped or has run, this reads all timers of some slots,
 * once. */
int uv__exact_timeout(const uv_loop_t* loop, int timeout) {
    struct uv__timers* timers = timers_of(loop);
    if (timeout <= 0) return timeout;
    if (timers->first == 0) timers->first = tvec_next_expiry(&timers->wheel);
    return timers->first == TVEC_NEVER ? -1 : timeout_until(loop, timers->first);
}

void uv__run_timers(uv_loop_t* loop) {
    uv_timer_t* handle;
    while ((handle = next_due(loop)) != NULL) {
        uv_timer_stop(handle);
        uv_timer_again(handle);
        handle->timer_cb(handle);
    }
}

#endif /* UV_TIMER_TVEC_H_ */
