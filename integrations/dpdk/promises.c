/* What rte_timer.h promises, a line each. Both libraries must print the same.
 *
 * usage: promises [EAL options for two lcores] */
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_timer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAY(name, ...) (printf("%s: ", name), printf(__VA_ARGS__), printf("\n"))

enum { many = 1000 };
static struct rte_timer a, b, all[many];
static volatile int calls;
static int result, early, breaks, wide_breaks;
static uint64_t last, ms;
static unsigned me, other, seen_on;

static void see(struct rte_timer* t, void* x) {
    early += rte_get_timer_cycles() < t->expire;
    breaks += t->expire < last;
    wide_breaks += t->expire + 32 <= last;
    last = t->expire;
    result = t->status.state;
    seen_on = t->status.owner == (int)rte_lcore_id() ? rte_lcore_id() : 99;
    while (x != NULL && *(volatile int*)x == 0) rte_pause();
    ++calls;
}
static void stop_it(struct rte_timer* t, void* x) { see(t, NULL), result = rte_timer_stop(x); }
static void reset_it(struct rte_timer* t, void* x) {
    see(t, NULL), result = rte_timer_reset(t, 1000 * ms, SINGLE, rte_lcore_id(), see, x);
}
static void free_it(struct rte_timer* t, void* x) {
    stop_it(t, x), memset(t, 0xAA, sizeof *t), free(t);
}
static void see_other(struct rte_timer* t) { see(t, NULL); }

static void arm(struct rte_timer* t, uint64_t ticks, rte_timer_cb_t f, void* arg) {
    calls = breaks = 0, last = 0;
    rte_timer_reset(t, ticks, SINGLE, me, f, arg);
}
static void manage_after_us(unsigned us) { rte_delay_us(us), rte_timer_manage(); }
static int manage_for_a_while(void* x) {
    const uint64_t end = rte_get_timer_cycles() + 200 * ms;
    while (rte_get_timer_cycles() < end) rte_timer_manage();
    return x != NULL;
}

static void one_timer(void) {
    int at_once = 0, when_due = 0;
    SAY("stop of a new timer", "%d", rte_timer_stop(&a));
    SAY("next_ticks of none", "%ld", (long)rte_timer_next_ticks());
    for (int i = 0; i < many; ++i, rte_timer_stop(&a)) {
        arm(&a, 0, see, NULL), rte_timer_manage(), at_once += calls;
        arm(&a, 20000, see, NULL);
        while (rte_get_timer_cycles() <= a.expire) rte_timer_manage();
        rte_timer_manage(), when_due += calls;
    }
    SAY("manage after reset(0), and when due", "%d %d, early %d", at_once, when_due, early);
    arm(&a, 50 * ms, see, NULL);
    SAY("pending", "%d, owner %d", rte_timer_pending(&a), a.status.owner == (int)me);
    const int64_t left = rte_timer_next_ticks();
    SAY("next_ticks", "%d", left >= 0 && left < (int64_t)(51 * ms));
    manage_after_us(60000);
    SAY("in its callback", "%d, on %d, then %d", result, seen_on == me, a.status.state);
    arm(&a, UINT64_MAX / 4, see, NULL), manage_after_us(2000);
    SAY("reset for 2^62 cycles", "%d, pending %d", calls, rte_timer_pending(&a));
    rte_timer_stop(&a);
}

static void callbacks(void) {
    arm(&a, 0, stop_it, &b), arm(&b, 10, see, NULL), manage_after_us(1000);
    SAY("stop of another that expired with it", "%d", calls);
    arm(&a, 0, reset_it, NULL), manage_after_us(10);
    SAY("reset in its own callback", "%d, pending %d", result, rte_timer_pending(&a));
    struct rte_timer* const heap = malloc(sizeof *heap);
    rte_timer_init(heap), arm(heap, 0, free_it, heap), manage_after_us(10), rte_timer_manage();
    SAY("stopped and freed in its own callback", "%d, calls %d", result, calls);
    rte_timer_reset(&a, ms, PERIODICAL, me, see, NULL), rte_delay_us(5500), calls = 0;
    const uint64_t from = a.expire;
    for (int i = 0; i < 3; ++i) manage_after_us(2);
    SAY("five periods missed, three manages", "%d, phase %d", calls, a.expire - from == 3 * ms);
    rte_timer_stop(&a);
}
static void arm_all(uint64_t from, uint64_t span, unsigned lcore) {
    calls = breaks = 0, last = 0;
    for (int i = 0; i < many; ++i)
        rte_timer_reset(&all[i], from + (uint64_t)rand() % span, SINGLE, lcore, see, NULL);
}

static void many_timers(unsigned lcores[]) {
    int dropped = 0, mine = 0;
    arm_all(0, 20 * ms, me), manage_after_us(25000);
    SAY("1000 in 20 ms", "%d, out of order by 32 cycles: %d", calls, wide_breaks);
    arm_all(20 * ms, 5000, me), manage_after_us(25000);
    SAY("1000 in 5000 cycles", "%d, out of order: %s", calls, breaks != 0 ? "some" : "none");
    arm_all(1000 * ms, 1, (unsigned)LCORE_ID_ANY);
    for (int i = 0; i < many; ++i) mine += all[i].status.owner == (int)me;
    const int stopped = rte_timer_stop_all(0, lcores, 2, NULL, NULL);
    for (int i = 0; i < many; ++i) dropped += all[i].status.state == RTE_TIMER_STOP;
    SAY("LCORE_ID_ANY, stop_all", "%d here, %d, stopped %d", mine, stopped, dropped);
}

static void other_lists(unsigned lcores[]) {
    uint32_t id = 99;
    const int got = rte_timer_data_alloc(&id), wrong = rte_timer_alt_stop(64, &a);
    SAY("data_alloc, wrong ids", "%d %u %d %d", got, id, wrong, rte_timer_data_dealloc(63));
    rte_timer_alt_reset(id, &a, 0, SINGLE, other, NULL, NULL);
    rte_timer_alt_reset(id, &b, 0, SINGLE, me, NULL, NULL);
    calls = 0, manage_after_us(10);
    const int by_manage = calls, own = (rte_timer_alt_manage(id, NULL, 0, see_other), calls);
    rte_timer_alt_manage(id, lcores, 2, see_other);
    SAY("alt_manage: another id, own lcore, both", "%d %d %d", by_manage, own, calls);
    int ids = 0;
    while (rte_timer_data_alloc(NULL) == 0) ++ids;
    SAY("ids left", "%d, then %d", ids, rte_timer_data_alloc(NULL));
}

static void two_lcores(void) {
    static volatile int go;
    arm(&a, 10 * ms, see, NULL), rte_timer_reset(&a, 10 * ms, SINGLE, other, see, NULL);
    rte_eal_remote_launch(manage_for_a_while, NULL, other), rte_eal_mp_wait_lcore();
    SAY("armed for another lcore", "%d, state %d", seen_on == other, result);
    rte_timer_reset(&a, 0, SINGLE, other, see, (void*)&go);
    rte_eal_remote_launch(manage_for_a_while, NULL, other);
    while (a.status.state != RTE_TIMER_RUNNING) rte_pause();
    const int stopped = rte_timer_stop(&a), moved = rte_timer_reset(&a, 0, SINGLE, me, see, NULL);
    SAY("stop and reset while it runs", "%d %d", stopped, moved);
    calls = 0, go = 1, rte_timer_stop_sync(&a);
    SAY("stop_sync waits for the callback", "%d, state %d", calls, a.status.state);
    rte_eal_mp_wait_lcore();
}

int main(int argc, char** argv) {
    if (rte_eal_init(argc, argv) < 0) return 1;
    me = rte_lcore_id(), other = rte_get_next_lcore(me, 0, 1), ms = rte_get_timer_hz() / 1000;
    unsigned lcores[] = {me, other};
    memset(&a, 0xAA, sizeof a), memset(&b, 0x55, sizeof b); /* init writes the status word alone */
    rte_timer_init(&a), rte_timer_init(&b);
    for (int i = 0; i < many; ++i) rte_timer_init(&all[i]);
    SAY("before init", "manage %d, data_alloc %d", rte_timer_manage(), rte_timer_data_alloc(NULL));
    const int first = rte_timer_subsystem_init(), second = rte_timer_subsystem_init();
    SAY("init, init", "%d %d", first, second);
    one_timer(), callbacks(), many_timers(lcores), other_lists(lcores), two_lcores();
    rte_timer_subsystem_finalize();
    const int gone = rte_timer_manage(), again = rte_timer_subsystem_init();
    SAY("finalize, init", "manage %d, init %d", gone, again);
    rte_timer_subsystem_finalize();
    return 0;
}
