// An echo server on epoll that closes connections on which nothing was heard for 50 ms.
#define _GNU_SOURCE
#include <sys/epoll.h>
#include <tvec/tvec.h>

#include "clients.h"

static const int64_t ms = 1000000;

struct connection {
    int fd;
    struct tvec_timer idle;
};

static struct tvec_clock the_clock;
static struct tvec_wheel timers;
static int closed, silent;

static void end(struct connection* c) {
    tvec_unlink(&c->idle);  // required before its memory is freed
    close(c->fd);
    free(c);
    ++closed;
}

static void on_idle(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    (void)wheel;
    ++silent;
    end(TVEC_OWNER_OF(timer, struct connection, idle));
}

static void wait_for_more(struct connection* c) {  // a push-back: one store
    tvec_arm_at(&timers, &c->idle, tvec_clock_after(&the_clock, 50 * ms));
}

static void watch(int loop, int fd, void* who) {
    struct epoll_event wanted = {.events = EPOLLIN, .data = {.ptr = who}};
    need(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &wanted) == 0, "epoll_ctl");
}

static void accept_one(int loop, int listener) {
    struct connection* c = malloc(sizeof *c);
    need(c != NULL, "malloc");
    c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    need(c->fd >= 0, "accept4");
    tvec_timer_init(&c->idle, on_idle);
    wait_for_more(c);
    watch(loop, c->fd, c);
}

static void echo(struct connection* c) {
    char words[256];
    const ssize_t n = read(c->fd, words, sizeof words);
    if (n > 0 && send(c->fd, words, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) == n)
        wait_for_more(c);
    else
        end(c);  // the client has left, or does not read: epoll would report it in each turn
}

// [loop]
static void serve(int loop, int listener, struct tvec_timerfd* alarm) {
    struct epoll_event events[64];
    while (closed < clients) {
        need(tvec_timerfd_rearm(alarm) == 0, "rearm");  // the last thing before the sleep
        const int n = epoll_wait(loop, events, 64, -1);
        for (int i = 0; i < n; ++i) {
            void* who = events[i].data.ptr;
            if (who == alarm)
                tvec_timerfd_acknowledge(alarm);
            else if (who == NULL)
                accept_one(loop, listener);
            else
                echo(who);
        }
        tvec_advance(&timers, tvec_clock_now(&the_clock), 256);  // always, whatever woke us
    }
}
// [loop]

int main(void) {
    struct sockaddr_in where;
    struct tvec_timerfd alarm;
    const int listener = listen_here(&where), loop = epoll_create1(EPOLL_CLOEXEC);
    const pid_t child = start_clients(&where);
    need(loop >= 0, "epoll_create1");
    need(tvec_clock_init(&the_clock, TVEC_CLOCK_MONOTONIC, ms) == 0, "clock");
    tvec_wheel_init(&timers, tvec_clock_now(&the_clock));
    need(tvec_timerfd_init(&alarm, &timers, &the_clock) == 0, "timerfd");
    watch(loop, alarm.fd, &alarm);
    watch(loop, listener, NULL);
    serve(loop, listener, &alarm);
    tvec_timerfd_destroy(&alarm);
    tvec_wheel_destroy(&timers);
    close(loop);
    close(listener);
    printf("epoll: closed %d connections, %d of them silent\n", closed, silent);
    return !clients_are_content(child) || silent != clients - leaving;
}
