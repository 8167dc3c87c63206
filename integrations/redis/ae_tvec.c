/* The time events of Redis on a tvec wheel; ae.c includes this in the place of its list.
 *
 * What ae.h says of time events stays as it is. One thing is done otherwise: an event is not called
 * again while its callback runs, also if that runs the loop. Events that are due in the same pass
 * are called in the order of their ticks, and not the newest first. */
#include <stddef.h>
#include <tvec/tvec.h>

#include "dict.h"

/* A tick, in microseconds. Redis gives its delays in milliseconds, and epoll sleeps in them. Half
 * of one rounds little, and keeps 100 ms, the period of serverCron, in the root of the wheel, from
 * where nothing has to sink. */
#define TICK_US 500

typedef struct timeEvent {
    long long id; /* or AE_DELETED_EVENT_ID: the next pass frees it */
    struct tvec_timer timer;
    aeTimeProc* timeProc;
    aeEventFinalizerProc* finalizerProc;
    void* clientData;
    struct timeEvent* next; /* in the queue */
    long long pass;         /* that the queue has it for */
} timeEvent;

/* An event hangs in the wheel, or is in the queue, or its callback is running. In the queue are
 * those that the next pass has to look at: they are due, or deleted. */
struct aeTimers {
    struct tvec_wheel wheel;
    dict* byId; /* all but the deleted ones */
    timeEvent *first, **last;
    long long pass; /* that comes next */
};

static uint64_t hashOfId(const void* id) { return (uint64_t)(uintptr_t)id; }

static dictType eventsById = {.hashFunction = hashOfId};

static void* keyOf(long long id) { return (void*)(uintptr_t)id; }

static void enqueue(struct aeTimers* timers, timeEvent* te) {
    te->next = NULL;
    te->pass = timers->pass;
    *timers->last = te;
    timers->last = &te->next;
}

/* The first of the queue if it is for `pass` or an earlier one; else NULL. */
static timeEvent* dequeue(struct aeTimers* timers, long long pass) {
    timeEvent* te = timers->first;
    if (te == NULL || te->pass > pass) return NULL;
    timers->first = te->next;
    if (te->next == NULL) timers->last = &timers->first;
    return te;
}

/* The wheel is never in a callback of Redis, which may run the loop again. */
static void onDue(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    enqueue(TVEC_OWNER_OF(wheel, struct aeTimers, wheel), TVEC_OWNER_OF(timer, timeEvent, timer));
}

/* What has no delay is for the next pass, be it in the same tick. */
static void schedule(struct aeTimers* timers, timeEvent* te, long long milliseconds) {
    if (milliseconds <= 0) {
        enqueue(timers, te);
        return;
    }
    const monotime when = getMonotonicUs() + (monotime)milliseconds * 1000;
    tvec_arm_at(&timers->wheel, &te->timer, (when + TICK_US - 1) / TICK_US);
}

/* NULL if there is no memory. */
static struct aeTimers* createTimers(void) {
    struct aeTimers* timers = aligned_alloc(TVEC_WHEEL_ALIGNMENT, sizeof(*timers));
    if (timers == NULL) return NULL;
    tvec_wheel_init(&timers->wheel, getMonotonicUs() / TICK_US);
    timers->byId = dictCreate(&eventsById);
    timers->first = NULL;
    timers->last = &timers->first;
    timers->pass = 0;
    return timers;
}

static void freeTimers(struct aeTimers* timers) {
    tvec_wheel_destroy(&timers->wheel);
    timeEvent* te;
    while ((te = dequeue(timers, timers->pass)) != NULL)
        if (te->id == AE_DELETED_EVENT_ID) zfree(te);
    dictIterator* known = dictGetIterator(timers->byId);
    dictEntry* entry;
    while ((entry = dictNext(known)) != NULL) zfree(dictGetVal(entry));
    dictReleaseIterator(known);
    dictRelease(timers->byId);
    free(timers);
}

long long aeCreateTimeEvent(aeEventLoop* eventLoop, long long milliseconds, aeTimeProc* proc,
                            void* clientData, aeEventFinalizerProc* finalizerProc) {
    timeEvent* te = zmalloc(sizeof(*te));
    te->id = eventLoop->timeEventNextId++;
    tvec_timer_init(&te->timer, onDue);
    te->timeProc = proc;
    te->finalizerProc = finalizerProc;
    te->clientData = clientData;
    dictAdd(eventLoop->timers->byId, keyOf(te->id), te);
    schedule(eventLoop->timers, te, milliseconds);
    return te->id;
}

int aeDeleteTimeEvent(aeEventLoop* eventLoop, long long id) {
    struct aeTimers* timers = eventLoop->timers;
    dictEntry* entry = dictUnlink(timers->byId, keyOf(id));
    if (entry == NULL) return AE_ERR;
    timeEvent* te = dictGetVal(entry);
    dictFreeUnlinkedEntry(timers->byId, entry);
    te->id = AE_DELETED_EVENT_ID;
    /* If it was not in the wheel, somebody will come by: a pass, or who called its callback. */
    if (tvec_unlink(&te->timer)) enqueue(timers, te);
    return AE_OK;
}

/* How many microseconds the loop may sleep: 0 if the next pass has something to do, -1 if there are
 * no events. */
static int64_t usUntilEarliestTimer(aeEventLoop* eventLoop) {
    struct aeTimers* timers = eventLoop->timers;
    if (timers->first != NULL) return 0;
    const uint64_t tick = tvec_next_wakeup(&timers->wheel);
    if (tick == TVEC_NEVER) return -1;
    const monotime when = tick * TICK_US, now = getMonotonicUs();
    return now >= when ? 0 : (int64_t)(when - now);
}

static void callTimeProc(aeEventLoop* eventLoop, timeEvent* te) {
    const int next = te->timeProc(eventLoop, te->id, te->clientData);
    if (next == AE_NOMORE) aeDeleteTimeEvent(eventLoop, te->id); /* unless it did so itself */
    if (te->id == AE_DELETED_EVENT_ID)
        enqueue(eventLoop->timers, te);
    else
        schedule(eventLoop->timers, te, next);
}

static void finalize(aeEventLoop* eventLoop, timeEvent* te) {
    if (te->finalizerProc) te->finalizerProc(eventLoop, te->clientData);
    zfree(te);
}

/* One pass: calls what is due, and frees what was deleted before. What comes to the queue meanwhile
 * is for the next one, so that events made by callbacks, or that go on at once, cannot keep the
 * loop from its descriptors. Returns how many were called. */
static int processTimeEvents(aeEventLoop* eventLoop) {
    struct aeTimers* timers = eventLoop->timers;
    tvec_advance(&timers->wheel, getMonotonicUs() / TICK_US, TVEC_UNLIMITED);
    const long long pass = timers->pass++;
    int processed = 0;
    timeEvent* te;
    while ((te = dequeue(timers, pass)) != NULL) {
        if (te->id == AE_DELETED_EVENT_ID) {
            finalize(eventLoop, te);
        } else {
            callTimeProc(eventLoop, te);
            processed++;
        }
    }
    return processed;
}
