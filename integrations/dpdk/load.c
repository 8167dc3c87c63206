/* usage: load [EAL options] -- N SECONDS
 * Prints cycles: the expiry of N timers in one call, a stop, and N connections of TCP. Each 10 us
 * eight packets reset a timer each, and rte_timer_manage is called; one packet in a hundred comes
 * too late. Samples in which the thread was preempted do not count. */
#define _GNU_SOURCE
#include <math.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_timer.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { burst = 8, room = 1 << 21 };
struct samples {
    double cycles[room];
    int count;
};
static struct samples expiries, stops, resets, manages;
static struct rte_timer* timers;
static uint64_t timeout, fired;
static int n, who[burst], turn;

static long switches(void) {
    struct rusage r;
    return getrusage(RUSAGE_THREAD, &r), r.ru_nivcsw + r.ru_nvcsw;
}

static void measure(void (*act)(void), int times, int operations, struct samples* s) {
    const long before = switches();
    const uint64_t from = rte_rdtsc();
    for (int i = 0; i < times; ++i) act();
    const uint64_t cycles = rte_rdtsc() - from;
    if (s->count < room && switches() == before)
        s->cycles[s->count++] = (double)cycles / operations;
}

static int by_value(const void* a, const void* b) {
    return (*(const double*)a > *(const double*)b) - (*(const double*)a < *(const double*)b);
}

static void say(struct samples* s, const char* name, double share) {
    qsort(s->cycles, (size_t)s->count, sizeof *s->cycles, by_value);
    if (s->count > 0) printf("%s:%d %.1f\n", name, n, s->cycles[(int)(share * (s->count - 1))]);
}

static void on_timeout(struct rte_timer* t, void* again) {
    ++fired;
    if (again != NULL) rte_timer_reset(t, timeout * 2, SINGLE, rte_lcore_id(), on_timeout, again);
}
static void arm(int i, uint64_t ticks, void* again) {
    rte_timer_reset(&timers[i], ticks, SINGLE, rte_lcore_id(), on_timeout, again);
}

static void on_packet(void) { arm(who[turn++ % burst], timeout, timers); }
static void stop_one(void) { rte_timer_stop(&timers[who[turn++ % burst]]); }
static void manage(void) { rte_timer_manage(); }

static void measure_burst(void (*act)(void), struct samples* s) {
    for (int i = 0; i < burst; ++i) who[i] = (int)(lrand48() % n);
    measure(act, burst, burst, s);
}

static void expire_all(uint64_t span) {
    for (int i = 0; i < n; ++i) arm(i, (uint64_t)lrand48() % span, NULL);
    for (const uint64_t end = rte_rdtsc() + span + 100; rte_rdtsc() < end;) rte_pause();
    measure(manage, 1, n, &expiries);
}

int main(int argc, char** argv) {
    const int used = rte_eal_init(argc, argv);
    if (used < 0 || argc - used != 3) return 2;
    n = atoi(argv[used + 1]);
    timers = calloc((size_t)n, sizeof *timers);
    if (timers == NULL || rte_timer_subsystem_init() != 0) return 1;
    const uint64_t hz = rte_get_timer_hz(), gap = hz / 100000;
    for (int i = 0; i < n; ++i) rte_timer_init(&timers[i]);
    for (int round = n < 1000 ? 1000 : 20; round > 0; --round) expire_all(n < 1000 ? gap : hz / 50);
    timeout = (uint64_t)(4.6 * n * (double)gap / burst);
    for (int i = 0; i < n; ++i) /* the time since the last packet is distributed exponentially */
        arm(i, (uint64_t)((double)timeout * (1 + log1p(-drand48() * 0.99) / 4.6)), timers);
    uint64_t bursts = 0, next = rte_rdtsc();
    const uint64_t end = next + (uint64_t)(atof(argv[used + 2]) * (double)hz);
    for (fired = 0; next < end; ++bursts) {
        measure_burst(on_packet, &resets);
        measure(manage, 1, 1, &manages);
        for (next = RTE_MAX(next + gap, rte_rdtsc()); rte_rdtsc() < next;) rte_pause();
    }
    const double late = 100 * (double)fired / (double)(bursts * burst);
    for (int i = burst; i <= n / 8; i += burst) measure_burst(stop_one, &stops);
    say(&expiries, "expire", 0.5), say(&stops, "stop", 0.5);
    say(&resets, "reset", 0.5), say(&resets, "reset_p99", 0.99);
    say(&manages, "manage", 0.5), say(&manages, "manage_p99", 0.99);
    say(&manages, "manage_p999", 0.999), say(&manages, "manage_worst", 1);
    printf("late_percent:%d %.2f\n", n, late);
    return 0;
}
