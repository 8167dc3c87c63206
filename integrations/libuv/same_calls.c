/* Starts, stops and runs timers at random, and prints what became of it: which timers were called,
 * when and in which order, how long the loop was told to sleep after each step, and how often it
 * turned. Linked with two libraries, it must print the same with both.
 *
 *     same_calls SEED */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* Of the library, not of its interface: with it, time is what loop->time says. */
void uv__run_timers(uv_loop_t* loop);

enum { count = 300, steps = 300000 };

static uv_loop_t loop;
static uv_timer_t timers[count];
static uint64_t drawn;

static uint64_t draw(uint64_t below) { /* Marsaglia's xorshift */
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    drawn ^= drawn << 17;
    return drawn % below;
}

static uint64_t written = 14695981039346656037u; /* a hash (FNV-1a) of all that is written */
static uint64_t calls, begin;

static void write_down(uint64_t value) {
    for (int byte = 0; byte < 8; byte++) {
        written ^= value >> (8 * byte) & 255;
        written *= 1099511628211u;
    }
}

static uint64_t delay(void) {
    static const uint64_t below[] = {1, 2, 4, 300, 700, 20000, 2000000, (uint64_t)1 << 36};
    return draw(below[draw(sizeof(below) / sizeof(*below))]);
}

static void on_timer(uv_timer_t* timer);

/* What may be done to a timer, from outside and from callbacks. */
static void touch(uv_timer_t* timer, uint64_t timeout) {
    switch (draw(6)) {
    case 0:
        uv_timer_stop(timer);
        break;
    case 1:
        uv_timer_again(timer);
        break;
    case 2:
        uv_timer_set_repeat(timer, draw(4) ? 0 : 1 + draw(500));
        break;
    default:
        uv_timer_start(timer, on_timer, timeout, draw(8) ? 0 : 1 + draw(50));
    }
    write_down(uv_timer_get_due_in(timer));
}

static void on_timer(uv_timer_t* timer) {
    calls++;
    write_down((uint64_t)(timer - timers));
    write_down(uv_now(&loop) - begin);
    if (draw(4) == 0) touch(timer, delay());
    if (draw(4) == 0) touch(&timers[draw(count)], delay());
}

/* Several are due at one time, started in any order. */
static void start_together(void) {
    const uint64_t timeout = draw(3000);
    for (int i = 0; i < 40; i++) uv_timer_start(&timers[draw(count)], on_timer, timeout, 0);
}

static void step(void) {
    const uint64_t chosen = draw(100);
    if (chosen == 0)
        start_together();
    else if (chosen < 60)
        touch(&timers[draw(count)], delay());
    else if (chosen < 70) /* time passes before the loop comes to its timers */
        loop.time += draw(5);
    else {
        loop.time += draw(10) ? draw(20) : delay() % 100000;
        uv__run_timers(&loop);
    }
    write_down((uint64_t)uv_backend_timeout(&loop));
}

static int turns;

static void on_prepare(uv_prepare_t* prepare) {
    (void)prepare;
    turns++;
}

static int rung;

static void on_alarm(uv_timer_t* timer) {
    (void)timer;
    rung++;
}

/* In real time, and far enough for a timer to sink; one that is stopped lies on the way. */
static void sleep_and_count_turns(uv_run_mode mode) {
    uv_prepare_t prepare;
    uv_prepare_init(&loop, &prepare);
    uv_prepare_start(&prepare, on_prepare);
    uv_unref((uv_handle_t*)&prepare);
    turns = rung = 0;
    uv_update_time(&loop);
    uv_timer_start(&timers[0], on_alarm, 700, 0);
    uv_timer_start(&timers[1], on_alarm, 150, 0);
    uv_timer_stop(&timers[1]);
    uv_run(&loop, mode);
    printf("slept in mode %d: %d rung, %d turns\n", (int)mode, rung, turns);
    uv_close((uv_handle_t*)&prepare, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
}

/* Memory is the program's again as soon as a timer is closed, started and stopped as it may have
 * been. */
static void reuse_memory(void) {
    static uv_timer_t closed[2];
    for (int i = 0; i < 2; i++) {
        uv_timer_init(&loop, &closed[i]);
        uv_timer_start(&closed[i], on_alarm, 20, 0);
    }
    uv_timer_stop(&closed[0]);
    for (int i = 0; i < 2; i++) uv_close((uv_handle_t*)&closed[i], NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    memset(closed, 0xa5, sizeof(closed));
    rung = 0;
    uv_timer_start(&timers[0], on_alarm, 40, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    printf("memory reused: %d rung\n", rung);
}

static void close_all(void) {
    for (int i = 0; i < count; i++) uv_close((uv_handle_t*)&timers[i], NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    printf("closing says %d\n", uv_loop_close(&loop));
}

static void make_all(void) {
    uv_loop_init(&loop);
    for (int i = 0; i < count; i++) uv_timer_init(&loop, &timers[i]);
    uv_run(&loop, UV_RUN_NOWAIT); /* or else it has descriptors to watch, and says 0 */
}

int main(int argc, char** argv) {
    drawn = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
    if (drawn == 0) {
        fprintf(stderr, "usage: same_calls SEED, which is not 0\n");
        return 2;
    }
    make_all();
    sleep_and_count_turns(UV_RUN_ONCE);
    sleep_and_count_turns(UV_RUN_DEFAULT);
    reuse_memory();
    close_all();
    make_all();
    begin = uv_now(&loop);
    for (int i = 0; i < steps; i++) {
        step();
        if (i % 1000 == 999)
            printf("%d steps, %llu calls, %016llx\n", i + 1, (unsigned long long)calls,
                   (unsigned long long)written);
    }
    close_all();
    return 0;
}
