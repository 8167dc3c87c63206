/* The server of serve.cpp in C. */
#define _GNU_SOURCE
#include "serve.h"

#include <liburing.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <tvec/tvec_uring.h>
#include <unistd.h>

static const int64_t ms = 1000000;

struct client {
    int fd;
    char said[64];
    struct client *next, **place;
    struct tvec_timer silence;
};

static struct io_uring ring;
static struct tvec_clock the_clock;
static struct tvec_wheel timers;
static struct client* clients;
static bool over;

static void need(bool done) {
    if (!done) abort();
}

static void push_back(struct client* c) {
    tvec_arm_at(&timers, &c->silence, tvec_clock_after(&the_clock, idle_ms * ms));
}

static void on_silence(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    (void)wheel; /* its receive completes */
    shutdown(TVEC_OWNER_OF(timer, struct client, silence)->fd, SHUT_RDWR);
}

static struct io_uring_sqe* request(void) {
    struct io_uring_sqe* sqe = io_uring_get_sqe(&ring);
    if (sqe == NULL) {
        io_uring_submit(&ring);
        sqe = io_uring_get_sqe(&ring);
    }
    need(sqe != NULL);
    return sqe;
}

static void start_accept(int listener) {
    struct io_uring_sqe* sqe = request();
    io_uring_prep_accept(sqe, listener, NULL, NULL, 0);
    io_uring_sqe_set_data(sqe, NULL);
}

static void receive(struct client* c) {
    struct io_uring_sqe* sqe = request();
    io_uring_prep_recv(sqe, c->fd, c->said, sizeof c->said, 0);
    io_uring_sqe_set_data(sqe, c);
}

static void admit(int fd) {
    struct client* c = calloc(1, sizeof *c);
    need(c != NULL);
    c->fd = fd;
    c->next = clients;
    c->place = &clients;
    if (clients != NULL) clients->place = &c->next;
    clients = c;
    tvec_timer_init(&c->silence, on_silence);
    push_back(c);
    receive(c);
}

static void dismiss(struct client* c) {
    *c->place = c->next;
    if (c->next != NULL) c->next->place = c->place;
    tvec_unlink(&c->silence);
    close(c->fd);
    free(c);
}

static void on_said(struct client* c, int n) {
    if (n <= 0) {
        dismiss(c);
        return;
    }
    push_back(c);
    for (int i = 0; i < n; ++i) {
        if (c->said[i] == block) usleep(blocked_ms * 1000);
        if (c->said[i] == end) over = true;
    }
    receive(c);
}

static size_t handle_completions(int listener) {
    struct io_uring_cqe* cqe;
    size_t n = 0;
    for (; io_uring_peek_cqe(&ring, &cqe) == 0; ++n) {
        struct client* c = io_uring_cqe_get_data(cqe);
        const int result = cqe->res;
        io_uring_cqe_seen(&ring, cqe);
        if (c != NULL) {
            on_said(c, result);
            continue;
        }
        if (result >= 0) admit(result);
        start_accept(listener);
    }
    return n;
}

void serve(int listener) {
    struct tvec_uring_wait wait;
    struct tvec_stall_watch watch;
    const unsigned deferred = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    need(io_uring_queue_init(1024, &ring, deferred) == 0 ||
         io_uring_queue_init(1024, &ring, 0) == 0); /* before Linux 6.1 */
    need(tvec_clock_init(&the_clock, TVEC_CLOCK_MONOTONIC, ms) == 0);
    tvec_wheel_init(&timers, tvec_clock_now(&the_clock));
    need(tvec_uring_wait_init(&wait, &ring, &timers, &the_clock) == 0);
    tvec_stall_watch_init(&watch, &timers, &the_clock, 500 * ms);
    start_accept(listener);
    while (!over) {
        need(tvec_uring_submit_and_wait(&wait) == 0);
        tvec_stall_watch_listen(&watch);
        tvec_stall_watch_run(&watch, handle_completions(listener), 256);
    }
    io_uring_queue_exit(&ring);
    while (clients != NULL) dismiss(clients);
    tvec_wheel_destroy(&timers);
}
