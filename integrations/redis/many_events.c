/* What many time events cost a loop of Redis: linked with the stock ae.c and with that on tvec.
 *
 *     many_events COUNT
 *
 * prints a line for each figure: its name and its value. Of creating, turning and deleting these
 * are nanoseconds of processor time. */
#include "ae.h" /* first: it chooses features of the C library */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "monotonic.h"
#include "zmalloc.h"

enum { deleted_at_most = 1000, turns = 200, seconds_of_periods = 3 };

static double processor_ns(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e9 + (double)used.tv_nsec;
}

static uint64_t drawn = 88172645463325252u; /* Marsaglia's xorshift, the same on both */

static long long draw(long long from, long long to) {
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    drawn ^= drawn << 17;
    return from + (long long)(drawn % (uint64_t)(to - from + 1));
}

static int no_more(struct aeEventLoop* loop, long long id, void* data) {
    (void)loop, (void)id, (void)data;
    return AE_NOMORE;
}

static void readable(struct aeEventLoop* loop, int fd, void* data, int mask) {
    (void)loop, (void)fd, (void)data, (void)mask;
}

/* A loop that always has a descriptor to serve: it never sleeps. */
static aeEventLoop* busy_loop(int* fd) {
    aeEventLoop* loop = aeCreateEventLoop(64);
    *fd = eventfd(1, 0);
    aeCreateFileEvent(loop, *fd, AE_READABLE, readable, NULL);
    return loop;
}

static double ns_per_turn(aeEventLoop* loop, int n) {
    const double begin = processor_ns();
    for (int i = 0; i < n; i++) aeProcessEvents(loop, AE_ALL_EVENTS);
    return (processor_ns() - begin) / n;
}

static void create_turn_delete(int count) {
    int fd;
    aeEventLoop* loop = busy_loop(&fd);
    long long* ids = malloc((size_t)count * sizeof(*ids));
    const size_t memory = zmalloc_used_memory();
    double begin = processor_ns();
    for (int i = 0; i < count; i++)
        ids[i] = aeCreateTimeEvent(loop, draw(10000, 60000), no_more, NULL, NULL);
    printf("create %.0f\n", (processor_ns() - begin) / count);
    printf("memory %.0f\n", (double)(zmalloc_used_memory() - memory) / count);
    ns_per_turn(loop, 1);
    printf("turn %.0f\n", ns_per_turn(loop, turns));

    const int deleted = count < deleted_at_most ? count : deleted_at_most;
    for (int i = 0; i < deleted; i++) { /* the first of a shuffle */
        const long long other = draw(i, count - 1), id = ids[other];
        ids[other] = ids[i];
        ids[i] = id;
    }
    begin = processor_ns();
    for (int i = 0; i < deleted; i++) aeDeleteTimeEvent(loop, ids[i]);
    printf("delete %.0f\n", (processor_ns() - begin) / deleted);
    aeDeleteEventLoop(loop);
    close(fd);
    free(ids);
}

struct periodic {
    long long period; /* in ms */
    monotime due;
};

static long long fired;
static double late_us;

static int again(struct aeEventLoop* loop, long long id, void* data) {
    (void)loop, (void)id;
    struct periodic* event = data;
    const monotime now = getMonotonicUs();
    fired++;
    late_us += (double)now - (double)event->due;
    event->due = now + (monotime)event->period * 1000;
    return (int)event->period;
}

/* All of them periodic, once in ten seconds on the average, in a loop that sleeps if it can. */
static void let_them_fire(int count) {
    aeEventLoop* loop = aeCreateEventLoop(64);
    struct periodic* events = malloc((size_t)count * sizeof(*events));
    for (int i = 0; i < count; i++) {
        const long long first = draw(1, 10000);
        events[i].period = draw(9000, 11000);
        events[i].due = getMonotonicUs() + (monotime)first * 1000;
        aeCreateTimeEvent(loop, first, again, &events[i], NULL);
    }
    const double used = processor_ns();
    const monotime begin = getMonotonicUs(), end = begin + seconds_of_periods * 1000000;
    while (getMonotonicUs() < end) aeProcessEvents(loop, AE_ALL_EVENTS);
    const double elapsed_ns = (double)(getMonotonicUs() - begin) * 1e3;
    printf("fired_per_s %.0f\n", (double)fired / elapsed_ns * 1e9);
    printf("cpu_percent %.2f\n", (processor_ns() - used) / elapsed_ns * 100);
    printf("late_us %.0f\n", late_us / (double)fired);
    aeDeleteEventLoop(loop);
    free(events);
}

int main(int argc, char** argv) {
    const int count = argc == 2 ? atoi(argv[1]) : 0;
    if (count < 1) {
        fprintf(stderr, "usage: many_events COUNT\n");
        return 2;
    }
    monotonicInit();
    create_turn_delete(count);
    let_them_fire(count);
    return 0;
}
