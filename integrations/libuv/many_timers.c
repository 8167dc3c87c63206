/* What many timers cost a loop of libuv: linked with the stock library and with that on tvec.
 *
 *     many_timers COUNT
 *
 * prints a line for each figure: its name, and nanoseconds of processor time per timer, turn or
 * tick. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

/* Of the library, not of its interface: with it, time is what loop->time says. */
void uv__run_timers(uv_loop_t* loop);

enum { a_minute = 60000, turns_in_all = 20000 };

static uv_loop_t loop;
static uv_timer_t* timers;
static uint32_t* order; /* of those that are started, stopped and pushed back: at random */
static uint32_t count;

static uint64_t drawn = 88172645463325252u; /* Marsaglia's xorshift, the same for both */

static uint64_t draw(uint64_t below) {
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    drawn ^= drawn << 17;
    return drawn % below;
}

static void shuffle(void) {
    for (uint32_t i = count - 1; i > 0; i--) {
        const uint32_t other = (uint32_t)draw(i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

static uint64_t fired;

static void on_timer(uv_timer_t* timer) {
    (void)timer;
    fired++;
}

static void start_at_random(uv_timer_t* timer) {
    uv_timer_start(timer, on_timer, 1 + draw(a_minute), 0);
}

static void push_back(uv_timer_t* timer) { uv_timer_start(timer, on_timer, a_minute, 0); }

static void again(uv_timer_t* timer) { uv_timer_again(timer); }

static void stop(uv_timer_t* timer) { uv_timer_stop(timer); }

static uint64_t processor_ns(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

static void print(const char* name, uint64_t begin, uint64_t of) {
    printf("%s %.1f\n", name, (double)(processor_ns() - begin) / (double)of);
}

static void measure(const char* name, void (*operation)(uv_timer_t*)) {
    shuffle();
    const uint64_t begin = processor_ns();
    for (uint32_t i = 0; i < count; i++) operation(&timers[order[i]]);
    print(name, begin, count);
}

static void make_loop(void) {
    uv_loop_init(&loop);
    for (uint32_t i = 0; i < count; i++) uv_timer_init(&loop, &timers[i]);
}

static void close_loop(void) {
    for (uint32_t i = 0; i < count; i++) uv_close((uv_handle_t*)&timers[i], NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) == 0) return;
    fprintf(stderr, "many_timers: the loop is not empty\n");
    exit(1);
}

static int turns_left;

static void on_readable(uv_poll_t* poll, int status, int events) {
    (void)status, (void)events;
    if (--turns_left == 0) uv_stop(poll->loop);
}

/* A turn of a loop that always has a descriptor to serve. */
static void turns(int descriptor) {
    uv_poll_t poll;
    uv_poll_init(&loop, &poll, descriptor);
    uv_poll_start(&poll, UV_READABLE, on_readable);
    const uint64_t begin = processor_ns();
    turns_left = turns_in_all;
    uv_run(&loop, UV_RUN_DEFAULT);
    print("turn", begin, turns_in_all);
    uv_close((uv_handle_t*)&poll, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
}

/* What a program does that polls by itself, after each change of a timer. */
static void ask(const char* name, void (*operation)(uv_timer_t*), int times) {
    const uint64_t begin = processor_ns();
    for (int i = 0; i < times; i++) {
        operation(&timers[order[i % (int)count]]);
        if (uv_backend_timeout(&loop) < 0) exit(1);
    }
    print(name, begin, (uint64_t)times);
}

static void operations(void) {
    const int descriptor = eventfd(1, 0);
    make_loop();
    measure("start", start_at_random);
    measure("restart", start_at_random);
    measure("push_back", push_back);
    measure("stop", stop);
    measure("start_stopped", push_back);
    for (uint32_t i = 0; i < count; i++) uv_timer_set_repeat(&timers[i], a_minute);
    measure("again", again);
    turns(descriptor);
    ask("ask_same_timeouts", again, 10);
    for (uint32_t i = 0; i < count; i++) start_at_random(&timers[i]);
    ask("ask", start_at_random, 10000);
    close_loop();
    close(descriptor);
}

static void run_tick(void) {
    loop.time++;
    uv__run_timers(&loop);
}

static void run_all(void) {
    const uint64_t begin = processor_ns();
    for (int tick = 0; tick < a_minute; tick++) run_tick();
    print("expire", begin, count);
}

static void run_each(void) {
    uint64_t worst = 0;
    for (int tick = 0; tick < a_minute; tick++) {
        const uint64_t begin = processor_ns();
        run_tick();
        const uint64_t took = processor_ns() - begin;
        if (took > worst) worst = took;
    }
    printf("worst_tick %llu\n", (unsigned long long)worst);
}

/* All fire within a minute, tick by tick; no time passes but loop->time. */
static void expire(void (*run)(void)) {
    make_loop();
    for (uint32_t i = 0; i < count; i++) start_at_random(&timers[i]);
    fired = 0;
    run();
    if (fired != count) {
        fprintf(stderr, "many_timers: %llu of %u fired\n", (unsigned long long)fired, count);
        exit(1);
    }
    close_loop();
}

int main(int argc, char** argv) {
    count = argc == 2 ? (uint32_t)atoi(argv[1]) : 0;
    if (count < 2 || count > 10000000) {
        fprintf(stderr, "usage: many_timers COUNT\n");
        return 2;
    }
    timers = malloc(count * sizeof(*timers));
    order = malloc(count * sizeof(*order));
    if (timers == NULL || order == NULL) {
        fprintf(stderr, "many_timers: no memory\n");
        return 1;
    }
    for (uint32_t i = 0; i < count; i++) order[i] = i;
    operations();
    expire(run_all);
    expire(run_each);
    free(timers);
    free(order);
    return 0;
}
